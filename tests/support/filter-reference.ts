// What filters and sorts mean, in a few lines that share nothing with the server.
import type { Json } from './client.ts';

export interface ReferenceField {
  name: string;
  kind: 'text' | 'email' | 'phone' | 'url' | 'select' | 'list' | 'number' | 'boolean' | 'date' | 'datetime';
  custom?: boolean;
}

export type ReferenceFilter =
  | { field: string; op: string; value?: unknown }
  | { and: ReferenceFilter[] }
  | { or: ReferenceFilter[] };

type Fields = ReadonlyMap<string, ReferenceField>;

/** True when a record passes the filter. */
export function passes(record: Json, filter: ReferenceFilter, fields: Fields): boolean {
  if ('and' in filter) return filter.and.every((inner) => passes(record, inner, fields));
  if ('or' in filter) return filter.or.some((inner) => passes(record, inner, fields));
  const field = fields.get(filter.field);
  if (!field) throw new Error(`no field ${filter.field}`);
  const stored = record[field.name];
  if (filter.op === 'is_null') return (stored === null) === (filter.value ?? true);
  if (filter.op === 'in') return (filter.value as unknown[]).some((value) => holds(field, stored, 'eq', value));
  return holds(field, stored, filter.op, filter.value);
}

function holds(field: ReferenceField, stored: Json, op: string, value: unknown): boolean {
  if (stored === null) return op === 'neq';
  if (op === 'contains') return String(stored).toLowerCase().includes(String(value).toLowerCase());
  const order = compareValues(field, stored, meant(field, value));
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

/** What the caller means by a value: times in UTC, addresses and names of lists in one case, telephone numbers without decoration. */
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

/** Numbers by size, unless they are in a custom field; everything else by its characters. */
function compareValues(field: ReferenceField, left: unknown, right: unknown): number {
  if (field.kind === 'number' && !field.custom) return Number(left) - Number(right);
  const [a, b] = field.kind === 'list' ? [text(left).toLowerCase(), text(right)] : [text(left), text(right)];
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Numbers as people write them, without an exponent. */
function text(value: unknown): string {
  return typeof value === 'number'
    ? value.toLocaleString('en-US', { useGrouping: false, maximumFractionDigits: 20 })
    : String(value);
}

/** The order of a sort parameter: no value last, equals by id in the direction of the last key. */
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
      // Names of lists are sorted as they are written.
      const order = compareValues(field.kind === 'list' ? { ...field, kind: 'text' } : field, a[name], b[name]);
      if (order !== 0) return order * sign;
    }
    return (a.id < b.id ? -1 : 1) * last;
  });
}
