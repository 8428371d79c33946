// Names of records and users by their IDs, and links to the pages of records.
import { ApiError } from '../../runtime/errors.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { isThing, type Thing } from '../pages/changes.ts';
import { ask, buildAddress, type ConsoleParts, type PersonalRequest } from '../pages/requests.ts';
import { buildKey, users } from './change-set-values.ts';

/** A record, or a user under the object `users`. */
export interface RecordReference {
  object: string;
  id: string;
}

const maxNameLength = 80;

/** Returns the name that a record or setting shows; undefined if it has none. */
export function findName(thing: unknown): string | undefined {
  if (!isThing(thing)) return undefined;
  const person = [thing.first_name, thing.last_name].filter((part) => typeof part === 'string' && part !== '');
  const { name, full_name, title, label, subject, summary, content, email } = thing;
  const found = [name, full_name, person.join(' '), title, label, subject, summary, content, email].find(
    (each): each is string => typeof each === 'string' && each !== '',
  );
  return found !== undefined && found.length > maxNameLength ? `${found.slice(0, maxNameLength)}…` : found;
}

/**
 * Looks up the names of records and users, in one call for 100 records of an object.
 * @returns names by `buildKey`; a record that the person cannot see has none
 */
export async function loadRecordNames(
  parts: ConsoleParts,
  request: PersonalRequest,
  references: readonly RecordReference[],
): Promise<Map<string, string>> {
  const wanted = new Map<string, Set<string>>();
  for (const { object, id } of references) wanted.set(object, (wanted.get(object) ?? new Set()).add(id.toLowerCase()));
  const names = new Map<string, string>();
  const look = async (object: string, ids: readonly string[]): Promise<void> => {
    const found = object === users ? listUsers(parts, request, ids) : listAll(parts, request, object, ids);
    for (const thing of await found) {
      const name = findName(thing);
      if (name !== undefined) names.set(buildKey(object, thing.id), name);
    }
  };
  await Promise.all([...wanted].map(([object, ids]) => look(object, [...ids])));
  return names;
}

/** Users of more than these are shown with their IDs. */
const maxUsers = 20;

/** Returns users, who have no mode. */
async function listUsers(
  parts: ConsoleParts,
  request: PersonalRequest,
  ids: readonly string[],
): Promise<({ id: string } & Thing)[]> {
  const found: ({ id: string } & Thing)[] = [];
  for (const id of ids.slice(0, maxUsers)) {
    const ofUser = () => ask(parts, { ...request, testMode: false }, 'getUser', { path: { id } });
    const { user } = await askIfAllowed(ofUser, { user: undefined });
    if (user) found.push(user);
  }
  return found;
}

async function listAll(
  parts: ConsoleParts,
  request: PersonalRequest,
  object: string,
  ids: readonly string[],
): Promise<({ id: string } & Thing)[]> {
  const found: ({ id: string } & Thing)[] = [];
  for (let from = 0; from < ids.length; from += maxListed)
    found.push(...(await listRecords(parts, request, object, ids.slice(from, from + maxListed))));
  return found;
}

/** Returns an answer, or something else if the person may not have it. */
export async function askIfAllowed<Answer, Otherwise>(
  question: () => Promise<Answer>,
  otherwise: Otherwise,
): Promise<Answer | Otherwise> {
  try {
    return await question();
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return otherwise;
    throw error;
  }
}

/** The most values of a condition. */
const maxListed = 100;

/** Returns the records that the person can see; none if they cannot view the object. */
async function listRecords(
  parts: ConsoleParts,
  request: PersonalRequest,
  object: string,
  ids: readonly string[],
): Promise<readonly ({ id: string } & Thing)[]> {
  const filter = JSON.stringify({ field: 'id', op: 'in', value: ids });
  const query = { filter, limit: String(maxListed) };
  const listed = await askIfAllowed(() => ask(parts, request, 'listRecords', { path: { object }, query }), {
    records: [],
  });
  return listed.records;
}

/** Links to the page of a record by its name. */
export const recordLink = ({ object, id }: RecordReference, name: string, testMode: boolean): Html =>
  html`<a href="${buildAddress(`/console/records/${object}/${id}`, testMode)}">${isolateText(name)}</a>`;
