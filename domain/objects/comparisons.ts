// One comparison of a field with a value: its form, and whether a record fulfils it.

import { filterLimits } from '../service/request-limits.ts';
import { builtinObject } from './builtin.ts';
import type { StoredValue } from './field-values.ts';
import { filterValue, type Operator, operatorsOf, textForm, type ValueFault } from './filter-values.ts';
import { closest } from './suggestions.ts';
import type { Field, WorkspaceObject } from './workspace.ts';

/** One comparison. Values are in stored form: ids for configured lists, text for custom fields. */
export type Condition =
  | { field: string; op: Exclude<Operator, 'in' | 'is_null'>; value: string | number }
  | { field: string; op: 'in'; values: readonly (string | number)[] }
  | { field: string; op: 'is_null'; isNull: boolean };

export type ReadComparison = { condition: Condition } | { part: 'operator' | 'value'; fault: ValueFault };

/** Reads an operator and a value that a caller compares a field with. */
export function readComparison(field: Field, operator: unknown, value: unknown): ReadComparison {
  const allowed = operatorsOf(field.type);
  const op = allowed.find((each) => each === operator);
  const { name } = field;
  const fail = (fault: ValueFault): ReadComparison => ({ part: 'value', fault });
  if (op === undefined) {
    const rule = `accepts only the operators ${allowed.join(', ')}`;
    const meant = typeof operator === 'string' ? closest(operator, allowed) : undefined;
    return { part: 'operator', fault: { code: 'INVALID_OPTION', rule, allowed, meant } };
  }
  if (op === 'is_null') {
    if (value !== undefined && typeof value !== 'boolean')
      return fail({ code: 'INVALID_TYPE', rule: 'with is_null must be compared with true or false' });
    return { condition: { field: name, op, isNull: value ?? true } };
  }
  if (op !== 'in') {
    const read = filterValue(field, op, value);
    return 'fault' in read ? fail(read.fault) : { condition: { field: name, op, value: read.value } };
  }
  if (!Array.isArray(value) || value.length === 0 || value.length > filterLimits.values)
    return fail({
      code: 'INVALID_TYPE',
      rule: `with in must be compared with a list of 1 to ${filterLimits.values} values`,
    });
  const values: (string | number)[] = [];
  for (const item of value) {
    const read = filterValue(field, op, item);
    if ('fault' in read) return fail(read.fault);
    values.push(read.value);
  }
  return { condition: { field: name, op, values } };
}

/** A record as far as conditions look at it; of a new one, values and custom hold only what was given. */
export interface ComparedRecord {
  id: string;
  createdAt: Date;
  updatedAt: Date;
  values: Readonly<Record<string, StoredValue>>;
  custom: Readonly<Record<string, StoredValue>>;
}

/** Whether a record fulfils a condition, exactly as a list filtered by it would show the record. */
export function fulfils(condition: Condition, object: WorkspaceObject, record: ComparedRecord): boolean {
  const stored = comparedValue(object, record, condition.field);
  if (condition.op === 'is_null') return (stored === null) === condition.isNull;
  if (stored === null) return condition.op === 'neq';
  if (condition.op === 'in') return condition.values.includes(stored);
  const { value } = condition;
  switch (condition.op) {
    case 'eq':
      return stored === value;
    case 'neq':
      return stored !== value;
    case 'contains':
      return lowerCase(record, condition.field, String(stored)).includes(lowerCase(condition, 'value', String(value)));
    case 'gt':
      return order(stored, value) > 0;
    case 'gte':
      return order(stored, value) >= 0;
    case 'lt':
      return order(stored, value) < 0;
    case 'lte':
      return order(stored, value) <= 0;
  }
}

const lowered = new WeakMap<ComparedRecord | Condition, Map<string, string>>();

/** A text of a record or a condition in lower case; made once, however often it is looked at. */
function lowerCase(owner: ComparedRecord | Condition, name: string, text: string): string {
  let texts = lowered.get(owner);
  if (!texts) {
    texts = new Map();
    lowered.set(owner, texts);
  }
  let made = texts.get(name);
  if (made === undefined) {
    made = text.toLowerCase();
    texts.set(name, made);
  }
  return made;
}

function comparedValue(object: WorkspaceObject, record: ComparedRecord, name: string): string | number | null {
  if (name === 'id') return record.id;
  if (name === 'created_at') return record.createdAt.toISOString();
  if (name === 'updated_at') return record.updatedAt.toISOString();
  if (object.fields.get(name)?.custom) {
    const value = ownValue(record.custom, name);
    return value === null ? null : textForm(value);
  }
  const value = ownValue(record.values, listedBy(object, name) ?? name);
  return typeof value === 'boolean' ? String(value) : value;
}

function ownValue(values: Readonly<Record<string, StoredValue>>, name: string): StoredValue {
  return Object.hasOwn(values, name) ? (values[name] ?? null) : null;
}

/** For `source_id`, which a write does not set itself, the field that it follows. */
function listedBy(object: WorkspaceObject, name: string): string | undefined {
  return builtinObject(object.object)?.fields.find((field) => field.lookup && `${field.name}_id` === name)?.name;
}

/** Numbers by size; texts by their code points, whatever the language. */
function order(left: string | number, right: string | number): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  const [a, b] = [String(left), String(right)];
  const shorter = Math.min(a.length, b.length);
  // A tag may compare long texts a thousand times for each record: nothing is copied.
  for (let index = 0; index < shorter; index += 1) {
    const one = a.charCodeAt(index);
    const other = b.charCodeAt(index);
    if (one !== other) return byCodePoint(one) - byCodePoint(other);
  }
  return a.length - b.length;
}

/** UTF-16 has halves of the highest code points below others that are lower. */
function byCodePoint(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
