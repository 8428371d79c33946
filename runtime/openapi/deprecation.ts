// Deprecated parameters and fields: detects their use and builds the response headers.
import type { OpenAPIV3_1 } from 'openapi-types';

/** A deprecated query parameter or body field. */
export interface DeprecatedUse {
  in: 'query' | 'body';
  name: string;
  since: Date;
  sunset: Date;
  /** URL of the migration notes. */
  link: string;
  /** What to do instead, in one sentence with code in backticks. */
  note: string;
}

/** One entry of x-deprecated-use in the OpenAPI document. */
interface Declared {
  parameter?: string;
  field?: string;
  since?: string;
  sunset?: string;
  link?: string;
  note?: string;
}

type Described = { deprecated?: boolean } | undefined;

/**
 * Reads the extension x-deprecated-use of an operation.
 * @param site base URL of the links
 * @throws Error if the extension is invalid
 */
export function readDeprecatedUses(
  declared: unknown,
  parameters: readonly OpenAPIV3_1.ParameterObject[],
  body: OpenAPIV3_1.RequestBodyObject | undefined,
  site: string,
): DeprecatedUse[] {
  if (declared === undefined) return [];
  if (!Array.isArray(declared) || declared.length === 0) throw new Error('x-deprecated-use must be a list');
  return declared.map((use: Declared) => {
    const unknown = Object.keys(use).filter((key) => !keys.includes(key));
    if (unknown.length > 0) throw new Error(`x-deprecated-use: unknown key ${unknown.join(', ')}`);
    const name = use.parameter ?? use.field ?? '';
    if ((use.parameter === undefined) === (use.field === undefined))
      throw new Error('x-deprecated-use names either a parameter or a field');
    const described =
      use.parameter === undefined
        ? findField(body, name)
        : parameters.find((parameter) => parameter.in === 'query' && parameter.name === name);
    if (described?.deprecated !== true)
      throw new Error(`x-deprecated-use: ${name} must be one of this operation's, and marked deprecated`);
    const [since, sunset] = [parseDay(use.since, 'since'), parseDay(use.sunset, 'sunset')];
    const earliest = new Date(since);
    earliest.setUTCFullYear(since.getUTCFullYear() + 1);
    if (sunset < earliest) throw new Error(`x-deprecated-use: ${name} must be answered for at least 12 months`);
    if (!use.link?.startsWith('/')) throw new Error('x-deprecated-use: link must be a path of the web app');
    if (!use.note) throw new Error('x-deprecated-use: note must say what to do instead');
    const place = use.parameter === undefined ? 'body' : 'query';
    return { in: place, name, since, sunset, link: `${site}${use.link}`, note: use.note };
  });
}

const keys = ['parameter', 'field', 'since', 'sunset', 'link', 'note'];

function findField(body: OpenAPIV3_1.RequestBodyObject | undefined, name: string): Described {
  const schema = body?.content['application/json']?.schema as OpenAPIV3_1.SchemaObject | undefined;
  return schema?.properties?.[name] as Described;
}

function parseDay(text: string | undefined, key: string): Date {
  const day = new Date(`${text}T00:00:00.000Z`);
  if (Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== text)
    throw new Error(`x-deprecated-use: ${key} must be a date such as 2026-09-04`);
  return day;
}

/** Returns the deprecated parameters in a query, even if the query is invalid. */
export function findUsedInQuery(uses: readonly DeprecatedUse[], queryText: string): DeprecatedUse[] {
  if (uses.length === 0 || queryText === '') return [];
  const query = new URLSearchParams(queryText);
  return uses.filter((use) => use.in === 'query' && query.has(use.name));
}

/** Returns the deprecated fields in a body. */
export function findUsedInBody(uses: readonly DeprecatedUse[], body: unknown): DeprecatedUse[] {
  if (uses.length === 0 || typeof body !== 'object' || body === null) return [];
  return uses.filter((use) => use.in === 'body' && Object.hasOwn(body, use.name));
}

/**
 * Returns the headers for the deprecated parameters and fields of a call, as alternating names and
 * values. With several, the earliest dates.
 */
export function buildDeprecationHeaders(used: readonly DeprecatedUse[]): string[] {
  if (used.length === 0) return [];
  const earliest = (days: Date[]) => new Date(Math.min(...days.map((day) => day.getTime()))).toUTCString();
  return [
    'Deprecation',
    earliest(used.map((use) => use.since)),
    'Sunset',
    earliest(used.map((use) => use.sunset)),
    'Link',
    used.map((use) => `<${use.link}>; rel="deprecation"`).join(', '),
  ];
}
