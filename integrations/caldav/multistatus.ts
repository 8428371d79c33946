// Parses WebDAV responses (RFC 4918): properties of a collection and the events in it.
import { XMLParser } from 'fast-xml-parser';
import { Unreadable } from './unreadable.ts';

export interface Properties {
  isCalendar: boolean;
  /** False if the collection does not accept events, such as one for tasks only. */
  takesEvents: boolean;
  /** Also true if the server does not say. */
  mayWrite: boolean;
}

const lists = new Set(['response', 'propstat', 'privilege', 'comp']);
const parser = new XMLParser({
  // Servers choose their own prefixes.
  removeNSPrefix: true,
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  parseTagValue: false,
  trimValues: false,
  // Carriage returns arrive as numeric entities.
  htmlEntities: true,
  isArray: (name) => lists.has(name),
});

/**
 * Returns the iCalendar objects of a query.
 * @throws Unreadable if the response omits some, because their time must not count as free
 */
export function readEvents(text: string): string[] {
  return readResponses(text).map((response) => {
    const [data] = okProperties(response).flatMap((properties) => {
      const found = readText(child(properties, 'calendar-data'));
      return found === undefined ? [] : [found];
    });
    if (data === undefined) throw new Unreadable('the response omits events');
    return data;
  });
}

/** Reads the properties of a collection. */
export function readProperties(text: string): Properties {
  const properties = readResponses(text).flatMap(okProperties);
  const having = (name: string): unknown =>
    properties.map((each) => child(each, name)).find((each) => each !== undefined);
  const privileges = having('current-user-privilege-set');
  const components = having('supported-calendar-component-set');
  const granted = list(privileges, 'privilege').flatMap((each) => (isElement(each) ? Object.keys(each) : []));
  const taken = list(components, 'comp').map((each) => readText(child(each, '@name'))?.toUpperCase());
  return {
    isCalendar: child(having('resourcetype'), 'calendar') !== undefined,
    takesEvents: components === undefined || taken.includes('VEVENT'),
    mayWrite:
      privileges === undefined || ['all', 'write', 'write-content', 'bind'].some((name) => granted.includes(name)),
  };
}

function readResponses(text: string): unknown[] {
  const root = child(parser.parse(text, true), 'multistatus');
  if (root === undefined) throw new Unreadable('the response is not a calendar response');
  return list(root, 'response');
}

/** Returns the properties with status 200. */
function okProperties(response: unknown): unknown[] {
  return list(response, 'propstat')
    .filter((each) => / 200(?: |$)/.test(readText(child(each, 'status')) ?? ''))
    .map((each) => child(each, 'prop'));
}

const isElement = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

const child = (element: unknown, name: string): unknown =>
  isElement(element) && Object.hasOwn(element, name) ? element[name] : undefined;

function list(element: unknown, name: string): unknown[] {
  const found = child(element, name);
  return Array.isArray(found) ? found : [];
}

/**
 * Returns the text of an element. The parser stores it separately if the element has attributes.
 */
function readText(element: unknown): string | undefined {
  const text = isElement(element) ? child(element, '#text') : element;
  return typeof text === 'string' ? text : undefined;
}
