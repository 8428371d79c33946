// Describes the operations of change sets in words, with the names of their records.
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { isThing, type Thing } from '../pages/changes.ts';
import { ask, type ConsoleParts, type Data, type PersonalRequest } from '../pages/requests.ts';
import { buildKey, listReferences, nestedObjects, type ValueNames } from './change-set-values.ts';
import { askIfAllowed, findName, loadRecordNames, type RecordReference } from './record-names.ts';

export type ChangeSet = Data<'getChangeSet'>['change_set'];
export type Operation = ChangeSet['operations'][number];

/** What the descriptions and values of a set's operations need. */
export interface Names extends ValueNames {
  findOperation: ConsoleParts['findOperation'];
  /** The objects that the person can view, by their names. */
  objects: ReadonlyMap<string, { label: string; plural: string }>;
}

/** A record in the path of an operation. It has no ID before it is created. */
interface Target {
  object: string;
  id: string | undefined;
}

/** Returns the record or setting in an answer, with what the answer lists; all of it if there are several. */
export function unwrapData(data: Thing | null): Thing | null {
  const members = Object.entries(data ?? {});
  const [thing, ...others] = members.map(([, value]) => value).filter(isThing);
  if (thing === undefined || others.length > 0) return data;
  const lists = members.filter(([, value]) => Array.isArray(value));
  return nameTags({ ...thing, ...Object.fromEntries(lists) });
}

/** Returns a record with the names of its tags as a field. */
function nameTags({ expanded, ...record }: Thing): Thing {
  if (!isThing(expanded)) return expanded === undefined ? record : { ...record, expanded };
  const { tags, ...others } = expanded;
  const named = Array.isArray(tags) ? { tags: tags.map((tag) => (isThing(tag) ? tag.name : tag)) } : {};
  return { ...record, ...named, ...(Object.keys(others).length > 0 ? { expanded: others } : {}) };
}

/**
 * Returns the data of an operation's target after it, and other things that the answer names, such as
 * the customer of a converted lead.
 */
export function splitAfter({ before, after }: Operation): { after: Thing | null; others: Thing } {
  const members = Object.entries(after ?? {});
  const isOther = ([name, value]: [string, unknown]): boolean => isThing(value) && !isThing(before?.[name]);
  const others = members.filter(isOther);
  if (others.length === 0 || others.length === members.filter(([, value]) => isThing(value)).length)
    return { after: unwrapData(after), others: {} };
  return {
    after: unwrapData(Object.fromEntries(members.filter((member) => !isOther(member)))),
    others: Object.fromEntries(others),
  };
}

/** Returns the name of what an operation creates, changes or deletes. */
function findOwnName({ before, after, body }: Operation): string | undefined {
  const members = [before, after].flatMap((data) => Object.values(data ?? {}));
  return [...members, body].map(findName).find((name) => name !== undefined);
}

/** Returns the record in the path of an operation; undefined if it is about something else. */
export function findTarget(
  findOperation: ConsoleParts['findOperation'],
  { method, path }: Pick<Operation, 'path'> & { method: string },
): Target | undefined {
  const found = findOperation(method, path);
  const { object, id } = found?.parameters ?? {};
  const [, noun] = /^\/v1\/(leads|deals|activities)(?:\/|$)/.exec(path) ?? [];
  if (noun !== undefined) return { object: noun, id };
  return object !== undefined && /\/(deleted-)?records(\/|:|$)/.test(found?.template ?? '')
    ? { object, id }
    : undefined;
}

/** Finds the names of a set's records: in its data, and otherwise by looking them up. */
export async function loadNames(
  parts: ConsoleParts,
  request: PersonalRequest,
  operations: readonly Operation[],
): Promise<Names> {
  const { findOperation } = parts;
  const { objects } = await ask(parts, request, 'listObjects');
  const records = new Map<string, string>();
  const refs = new Map<string, string>();
  const wanted: RecordReference[] = [];
  const shown = new Set<string>();
  for (const operation of operations) {
    const { before, after, body, ref } = operation;
    const target = findTarget(findOperation, operation);
    const own = findOwnName(operation);
    if (ref !== null && own !== undefined) refs.set(ref, own);
    wanted.push(...[before, after, body].flatMap((data) => listReferences(data, target?.object)));
    if (target?.id !== undefined) wanted.push(...listReferences({ id: target.id }, target.object));
    if (!target) continue;
    shown.add(target.object);
    for (const data of [after, before])
      for (const [member, thing] of Object.entries(data ?? {})) {
        const object = nestedObjects[member] ?? target.object;
        if (!isThing(thing)) continue;
        if (object !== target.object) shown.add(object);
        const name = findName(thing) ?? (thing.created === true ? findPartyName(operation, member) : undefined);
        if (name !== undefined && typeof thing.id === 'string') records.set(buildKey(object, thing.id), name);
      }
  }
  const unnamed = wanted.filter(({ object, id }) => !records.has(buildKey(object, id)));
  for (const [key, name] of await loadRecordNames(parts, request, unnamed)) records.set(key, name);
  const fields = new Map(
    await Promise.all([...shown].map(async (object) => [object, await loadFields(parts, request, object)] as const)),
  );
  return { findOperation, objects: new Map(objects.map((each) => [each.object, each])), records, refs, fields };
}

/** Returns the name of the customer or account that a conversion creates from its lead. */
function findPartyName({ before }: Operation, member: string): string | undefined {
  const lead = isThing(before?.record) ? before.record : {};
  if (member === 'customer') return findName(lead);
  return member === 'account' && typeof lead.company_name === 'string' ? lead.company_name : undefined;
}

/** Returns the fields of an object by name; none if the person cannot view it. */
async function loadFields(
  parts: ConsoleParts,
  request: PersonalRequest,
  object: string,
): Promise<Map<string, { label: string; type: string }>> {
  const { schema } = await askIfAllowed(() => ask(parts, request, 'getObjectSchema', { path: { object } }), {
    schema: undefined,
  });
  return new Map(schema?.fields.map((field) => [field.name, field]));
}

/** Returns what an operation does, such as "Update lead Ada Lovelace". */
export function describeOperation(operation: Operation, names: Names): Html {
  const { method, path, body } = operation;
  const found = names.findOperation(method, path);
  if (!found) return html`<code>${method} ${path}</code>`;
  const summary = found.summary.replace(/^Upsert\b/, 'Create or update');
  const target = findTarget(names.findOperation, operation);
  if (!target) {
    const name = findOwnName(operation);
    return name === undefined ? html`${summary}` : html`${summary}: ${isolateText(name)}`;
  }
  const { label = target.object, plural = target.object } = names.objects.get(target.object) ?? {};
  const [several] = /\bup to \d+ records\b/.exec(summary) ?? [];
  if (several !== undefined) {
    const count = countItems(body);
    return html`${summary.replace(several, `${count} ${lowerFirst(count === 1 ? label : plural)}`)}`;
  }
  const renderRecord = (name: string | undefined): Html =>
    html`${lowerFirst(label)}${name === undefined ? null : html` ${isolateText(name)}`}`;
  const record = renderRecord(
    target.id === undefined ? findOwnName(operation) : findTargetName(operation, target, names),
  );
  const [phrase] = /\b(?:a (?:deleted )?record|a lead|a deal|an activity)\b/.exec(summary) ?? [];
  if (phrase === undefined) return html`${summary} (${record})`;
  const [start = '', end = ''] = summary.split(phrase);
  const { into_id: into } = isThing(body) ? body : {};
  if (typeof into !== 'string' || !end.includes('another')) return html`${start}${record}${end}`;
  const other = renderRecord(findRecordName({ ...target, id: into }, names));
  return html`${start}${record}${end.replace('another', '')}${other}`;
}

/**
 * Returns the record that an operation is about, with its name; undefined if there is none, or if it
 * does not exist yet or any longer.
 */
export function findExistingRecord(
  operation: Operation,
  names: Names,
): { record: RecordReference; name: string } | undefined {
  const { method, status, after } = operation;
  const target = findTarget(names.findOperation, operation);
  const created = status === 'applied' && target?.id === undefined ? unwrapData(after)?.id : undefined;
  const id = target?.id ?? created;
  if (!target || typeof id !== 'string' || (method === 'DELETE' && status === 'applied')) return undefined;
  const name = names.records.get(buildKey(target.object, id));
  return name === undefined ? undefined : { record: { object: target.object, id }, name };
}

/** Returns the name that a record has before the operation. */
function findTargetName({ before }: Operation, target: Target, names: Names): string | undefined {
  const own = Object.values(before ?? {}).find((each) => isThing(each) && each.id === target.id?.toLowerCase());
  return findName(own) ?? findRecordName(target, names);
}

function findRecordName({ object, id = '' }: Target, { records, refs }: Names): string | undefined {
  const [, ref] = /^\$ref\.(\w+)\.id$/.exec(id) ?? [];
  return ref === undefined ? records.get(buildKey(object, id)) : refs.get(ref);
}

/** Returns the number of items in the body of a batch. */
function countItems(body: Operation['body']): number {
  const lists = isThing(body) ? Object.values(body).filter(Array.isArray) : [body];
  const { ids, records } = isThing(body) ? body : {};
  const items = [ids, records, ...lists].find(Array.isArray);
  return items?.length ?? 1;
}

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);
