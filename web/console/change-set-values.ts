// Labels and values in change sets as people read them: names of records, labels of fields, money.
import { formatMoney } from '../../domain/billing/money.ts';
import type { Html } from '../../runtime/pages/html.ts';
import { isThing, separator, showValue, type Thing, toLabel } from '../pages/changes.ts';

/** The object of users in the keys of names. It is no object of the API. */
export const users = 'users';

/** The objects whose IDs members of these names hold. */
const referencedObjects: Readonly<Record<string, string>> = {
  account_id: 'accounts',
  customer_id: 'customers',
  converted_customer_id: 'customers',
  lead_id: 'leads',
  deal_id: 'deals',
  assigned_to: users,
};

/** Members with IDs of the object that an operation is about. */
const ownReferences = new Set(['id', 'ids', 'into_id']);

/** Members that hold a record of another object. */
export const nestedObjects: Readonly<Record<string, string>> = {
  lead: 'leads',
  customer: 'customers',
  account: 'accounts',
  deal: 'deals',
};

/** What the values of a set need to be read. */
export interface ValueNames {
  /** Names of records, by `buildKey`. */
  records: ReadonlyMap<string, string>;
  /** Names of what operations create, by their `ref`. */
  refs: ReadonlyMap<string, string>;
  /** Fields by object and name. */
  fields: ReadonlyMap<string, ReadonlyMap<string, { label: string; type: string }>>;
}

export const buildKey = (object: string, id: string): string => `${object}/${id.toLowerCase()}`;

const isUuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

export const findReferenced = (member: string, object: string | undefined, thing: Thing): string | undefined => {
  if (ownReferences.has(member)) return object;
  if (member === 'record_id' && typeof thing.object === 'string') return thing.object;
  if (member === 'entity_id' && typeof thing.entity_type === 'string') return `${thing.entity_type}s`;
  return referencedObjects[member];
};

/** Lists the records and users that a value refers to. @param object the one that the value is about */
export function listReferences(value: unknown, object: string | undefined): { object: string; id: string }[] {
  if (Array.isArray(value)) return value.flatMap((item) => listReferences(item, object));
  if (!isThing(value)) return [];
  return Object.entries(value).flatMap(([member, given]) => {
    const referenced = findReferenced(member, object, value);
    const ids = (Array.isArray(given) ? given : [given]).filter(
      (id): id is string => typeof id === 'string' && isUuid.test(id),
    );
    const own = referenced === undefined ? [] : ids.map((id) => ({ object: referenced, id: id.toLowerCase() }));
    return [...own, ...listReferences(given, nestedObjects[member] ?? object)];
  });
}

/** Returns the label of a field, or of one inside of others. */
export function toPathLabel(path: string, object: string | undefined, names: ValueNames): string {
  let inner = object;
  return path
    .split(separator)
    .map((member) => {
      const label = toMemberLabel(member, inner, names);
      inner = nestedObjects[member] ?? inner;
      return label;
    })
    .join(' › ');
}

function toMemberLabel(member: string, object: string | undefined, { fields }: ValueNames): string {
  if (object !== undefined && member === 'id') return 'Record';
  if (object !== undefined && member === 'ids') return 'Records';
  return fields.get(object ?? '')?.get(member)?.label ?? toLabel(member.replace(/_minor$/, ''));
}

/**
 * Renders the value at a path of data.
 * @param data of the object; its currency is that of its amounts
 */
export function showField(path: string, data: Thing, object: string | undefined, names: ValueNames): Html {
  const members = path.split(separator);
  let inner = object;
  let thing = data;
  for (const member of members.slice(0, -1)) {
    inner = nestedObjects[member] ?? inner;
    thing = isThing(thing[member]) ? thing[member] : {};
  }
  const last = members.at(-1) ?? '';
  return showValue(toReadable(thing[last], { member: last, thing, object: inner, names }));
}

interface Place {
  member: string;
  /** The object with the member. */
  thing: Thing;
  object: string | undefined;
  names: ValueNames;
}

/** Returns a value with names in place of IDs, labels of members and formatted amounts. */
function toReadable(value: unknown, place: Place): unknown {
  const { member, thing, object, names } = place;
  if (typeof value === 'string') return findName(value, place) ?? value;
  if (Array.isArray(value)) return value.map((item) => toReadable(item, place));
  if (typeof value === 'number') return isAmount(place) ? formatAmount(value, thing) : value;
  if (!isThing(value)) return value;
  const inner = nestedObjects[member] ?? object;
  const readable = new Map<string, unknown>();
  for (const [name, each] of Object.entries(value)) {
    const label = toMemberLabel(name, inner, names);
    // Two fields may have the same label, and both are shown.
    readable.set(
      readable.has(label) ? `${label} (${name})` : label,
      toReadable(each, { member: name, thing: value, object: inner, names }),
    );
  }
  return Object.fromEntries(readable);
}

function findName(value: string, { member, thing, object, names }: Place): string | undefined {
  const [, ref] = /^\$ref\.(\w+)\.id$/.exec(value) ?? [];
  if (ref !== undefined) return names.refs.get(ref);
  const referenced = isUuid.test(value) ? findReferenced(member, object, thing) : undefined;
  return referenced === undefined ? undefined : names.records.get(buildKey(referenced, value));
}

const isAmount = ({ member, object, names }: Place): boolean =>
  names.fields.get(object ?? '')?.get(member)?.type === 'currency' || member.endsWith('_minor');

/** Amounts are in minor units. Their value is known only with a currency. */
export function formatAmount(minor: number, { currency_code: code, currency }: Thing): string {
  const known = [code, currency].find((each): each is string => typeof each === 'string');
  return known === undefined ? `${minor} in minor units, currency unknown` : formatMoney(minor, known);
}
