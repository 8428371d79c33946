// A reference implementation of filters and sorts that shares no code with the server.
import type { Json } from './client.ts';

export interface ReferenceField {
  name: string;
  /** `names`: several names, which ignore case. */
  kind: 'text' | 'email' | 'phone' | 'url' | 'select' | 'list' | 'number' | 'boolean' | 'date' | 'datetime' | 'names';
  custom?: boolean;
}

export type ReferenceFilter =
  | { field: string; op: string; value?: unknown; as?: 'number' | 'date' }
  | { and: ReferenceFilter[] }
  | { or: ReferenceFilter[] }
  | { not: ReferenceFilter }
  | { link: string; any: ReferenceFilter }
  | { link: string; none: ReferenceFilter };

type Fields = ReadonlyMap<string, ReferenceField>;

/** The fields of the records that a relation leads to, and those that the caller sees of a record's. */
export type ReferenceRelations = ReadonlyMap<string, { fields: Fields; listRecords(record: Json): readonly Json[] }>;

const noRelations: ReferenceRelations = new Map();

/** The current time for relative dates, and the time zone of the workspace. */
export interface ReferenceClock {
  now: Date;
  timezone: string;
}

/** Returns true if the record passes the filter. */
export function passes(
  record: Json,
  filter: ReferenceFilter,
  fields: Fields,
  clock: ReferenceClock,
  relations: ReferenceRelations = noRelations,
): boolean {
  const isPassed = (inner: ReferenceFilter) => passes(record, inner, fields, clock, relations);
  if ('and' in filter) return filter.and.every(isPassed);
  if ('or' in filter) return filter.or.some(isPassed);
  if ('not' in filter) return !isPassed(filter.not);
  if ('any' in filter || 'none' in filter) {
    const relation = relations.get(filter.link);
    if (!relation) throw new Error(`no relation ${filter.link}`);
    const isOne = (inner: ReferenceFilter) =>
      relation.listRecords(record).some((other) => passes(other, inner, relation.fields, clock));
    return 'any' in filter ? isOne(filter.any) : !isOne(filter.none);
  }
  const [name = '', ownField] = filter.field.split('.');
  const relation = ownField === undefined ? undefined : relations.get(name);
  if (relation && ownField !== undefined) {
    const [related] = relation.listRecords(record);
    if (related) return passes(related, { ...filter, field: ownField }, relation.fields, clock);
    return filter.op === 'neq' || (filter.op === 'is_null' && filter.value !== false);
  }
  const field = fields.get(filter.field);
  if (!field) throw new Error(`no field ${filter.field}`);
  const stored = record[field.name];
  if (filter.as && stored !== null) {
    const read = filter.as === 'number' ? asNumber(stored) : asTime(stored);
    if (read === undefined) return false;
    const readField: ReferenceField = { name: field.name, kind: filter.as === 'number' ? 'number' : 'datetime' };
    return compares(readField, read, filter, clock);
  }
  return compares(field, stored, filter, clock);
}

function compares(
  field: ReferenceField,
  stored: Json,
  { op, value }: { op: string; value?: unknown },
  clock: ReferenceClock,
): boolean {
  if (field.kind === 'names') return comparesNames(stored, op, value);
  if (op === 'is_null') return (stored === null) === (value ?? true);
  const is = (operator: string, other: unknown) => holds(field, stored, operator, other, clock);
  if (op === 'in') return (value as unknown[]).some((each) => is('eq', each));
  if (op === 'not_in') return !(value as unknown[]).some((each) => is('eq', each));
  if (op === 'between') {
    const [low, high] = value as unknown[];
    return is('gte', low) && is('lte', high);
  }
  return is(op, value);
}

function comparesNames(stored: readonly string[], op: string, value: unknown): boolean {
  if (op === 'is_null') return (stored.length === 0) === (value ?? true);
  const asked = new Set((value as string[]).map((name) => name.toLowerCase()));
  return stored.some((name) => asked.has(name.toLowerCase())) === (op === 'in');
}

/** Returns the number that a text contains, ignoring surrounding spaces. */
function asNumber(stored: unknown): number | undefined {
  const written = text(stored).trim();
  return /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(written) ? Number(written) : undefined;
}

/**
 * Returns the time that a text contains: a calendar date, or one with a time of day and an offset.
 */
function asTime(stored: unknown): string | undefined {
  const written = String(stored).trim();
  if (!/^(?!0000)\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(written)) return undefined;
  const date = new Date(`${written.slice(0, 10)}T00:00:00Z`);
  if (Number.isNaN(date.getTime()) || !date.toISOString().startsWith(written.slice(0, 10))) return undefined;
  const time = new Date(written);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}

function holds(field: ReferenceField, stored: Json, op: string, value: unknown, clock: ReferenceClock): boolean {
  if (stored === null) return op === 'neq';
  const [whole, part] = [String(stored).toLowerCase(), String(value).toLowerCase()];
  if (op === 'contains') return whole.includes(part);
  if (op === 'starts_with') return whole.startsWith(part);
  if (op === 'ends_with') return whole.endsWith(part);
  const order =
    typeof value === 'object' && value !== null && 'relative' in value
      ? comparePeriod(toLocalDate(field, stored, clock.timezone), computePeriod(String(value.relative), clock))
      : compareValues(field, stored, meant(field, value));
  switch (op) {
    case 'eq':
      return order === 0;
    case 'neq':
      return order !== 0;
    case 'gt':
      return order > 0;
    case 'gte':
      return order >= 0;
    case 'lt':
      return order < 0;
    case 'lte':
      return order <= 0;
    default:
      throw new Error(`no operator ${op}`);
  }
}

/**
 * Normalizes a value of the caller: times in UTC, emails and list names in one case, phone numbers
 * without formatting.
 */
function meant(field: ReferenceField, value: unknown): unknown {
  switch (field.kind) {
    case 'email':
      return String(value).toLowerCase();
    case 'list':
      return String(value).toLowerCase();
    case 'phone':
      return String(value)
        .replace(/[ ()-]/g, '')
        .replace(/^0/, '+49');
    case 'datetime':
      return new Date(String(value)).toISOString();
    case 'number':
      return Number(value);
    default:
      return value;
  }
}

/** Compares numbers by size, except in custom fields, and everything else by characters. */
function compareValues(field: ReferenceField, left: unknown, right: unknown): number {
  if (field.kind === 'number' && !field.custom) return Number(left) - Number(right);
  const [a, b] = field.kind === 'list' ? [text(left).toLowerCase(), text(right)] : [text(left), text(right)];
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Formats a number without an exponent. */
function text(value: unknown): string {
  return typeof value === 'number'
    ? value.toLocaleString('en-US', { useGrouping: false, maximumFractionDigits: 20 })
    : String(value);
}

/** Returns the date of a stored value in the time zone of the workspace. */
function toLocalDate(field: ReferenceField, stored: unknown, timezone: string): string {
  return field.kind === 'date' ? String(stored) : localDate(new Date(String(stored)), timezone);
}

const formats = new Map<string, Intl.DateTimeFormat>();

export function localDate(time: Date, timezone: string): string {
  const format = formats.get(timezone) ?? new Intl.DateTimeFormat('en-CA', { timeZone: timezone, dateStyle: 'short' });
  formats.set(timezone, format);
  return format.format(time);
}

/** Returns the first and the last date of a relative date. */
function computePeriod(name: string, { now, timezone }: ReferenceClock): [string, string] {
  const today = localDate(now, timezone);
  const [year = 0, month = 0, day = 0] = today.split('-').map(Number);
  const date = (...parts: [number, number, number]) => new Date(Date.UTC(...parts)).toISOString().slice(0, 10);
  const [, direction, count] = /^(last|next)_(\d+)_days$/.exec(name) ?? [];
  if (direction === 'last') return [date(year, month - 1, day - Number(count) + 1), today];
  if (direction === 'next') return [today, date(year, month - 1, day + Number(count) - 1)];
  const sinceMonday = (new Date(`${today}T00:00:00Z`).getUTCDay() + 6) % 7;
  const quarter = Math.floor((month - 1) / 3) * 3;
  const periods: Record<string, [string, string]> = {
    today: [today, today],
    this_week: [date(year, month - 1, day - sinceMonday), date(year, month - 1, day - sinceMonday + 6)],
    this_month: [date(year, month - 1, 1), date(year, month, 0)],
    last_month: [date(year, month - 2, 1), date(year, month - 1, 0)],
    this_quarter: [date(year, quarter, 1), date(year, quarter + 3, 0)],
    this_year: [date(year, 0, 1), date(year, 11, 31)],
  };
  const period = periods[name];
  if (!period) throw new Error(`no relative date ${name}`);
  return period;
}

const comparePeriod = (date: string, [first, last]: [string, string]): number =>
  date < first ? -1 : date > last ? 1 : 0;

/**
 * Sorts as a sort parameter does: missing values last, equal ones by id in the direction of the
 * last key.
 */
export function inOrder(records: readonly Json[], sort: string, fields: Fields): Json[] {
  const keys = sort.split(',').map((part) => ({ name: part.replace('-', ''), sign: part.startsWith('-') ? -1 : 1 }));
  const last = keys[keys.length - 1]?.sign ?? 1;
  return [...records].sort((a, b) => {
    for (const { name, sign } of keys) {
      const field = fields.get(name);
      if (!field) throw new Error(`no field ${name}`);
      if (a[name] === null || b[name] === null) {
        if (a[name] !== b[name]) return a[name] === null ? 1 : -1;
        continue;
      }
      // Names of lists are sorted as written.
      const order = compareValues(field.kind === 'list' ? { ...field, kind: 'text' } : field, a[name], b[name]);
      if (order !== 0) return order * sign;
    }
    return (a.id < b.id ? -1 : 1) * last;
  });
}
