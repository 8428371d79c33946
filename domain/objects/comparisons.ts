// One comparison of a field with a value: its syntax, and its evaluation for a record.

import { filterLimits } from '../service/request-limits.ts';
import { findBuiltinObject } from './builtin.ts';
import type { StoredValue } from './field-values.ts';
import type { Condition, GivenCondition, GivenValue } from './filter-tree.ts';
import {
  listOperators,
  type Operator,
  operatorsOfMultiple,
  type Reading,
  readAs,
  readFilterValue,
  readings,
  toTextForm,
  type ValueFault,
} from './filter-values.ts';
import { foldName } from './name-folding.ts';
import { isRelativeName, relativeNames } from './relative-dates.ts';
import { findClosest } from './suggestions.ts';
import type { Field, WorkspaceObject } from './workspace.ts';

export type ReadComparison = { condition: GivenCondition } | { part: 'operator' | 'value' | 'as'; fault: ValueFault };

/**
 * Reads an operator and a value with which a caller compares a field.
 * @param as the type as which the caller reads a custom field
 */
export function readComparison(given: Field, operator: unknown, value: unknown, as?: unknown): ReadComparison {
  const reading = readings.find((each) => each === as);
  if (as !== undefined && !(reading && given.custom)) return { part: 'as', fault: faultOfReading(reading) };
  const field = reading ? readAs(given, reading) : given;
  const allowed = field.isMultiple ? operatorsOfMultiple : listOperators(field.type);
  const op = allowed.find((each) => each === operator);
  const same = { field: field.name, ...(reading ? { as: reading } : {}) };
  const fail = (fault: ValueFault): ReadComparison => ({ part: 'value', fault });
  if (op === undefined) {
    const rule = `accepts only the operators ${allowed.join(', ')}`;
    const meant = typeof operator === 'string' ? findClosest(operator, allowed) : undefined;
    return { part: 'operator', fault: { code: 'INVALID_OPTION', rule, allowed, meant } };
  }
  switch (op) {
    case 'is_null':
      if (value !== undefined && typeof value !== 'boolean')
        return fail({ code: 'INVALID_TYPE', rule: 'with is_null must be compared with true or false' });
      return { condition: { ...same, op, isNull: value ?? true } };
    case 'between': {
      if (!Array.isArray(value) || value.length !== 2)
        return fail({ code: 'INVALID_TYPE', rule: 'with between must be compared with a list of two values' });
      const [low, high] = value.map((each) => givenValue(field, op, each));
      if (!low || 'fault' in low) return fail((low as { fault: ValueFault }).fault);
      if (!high || 'fault' in high) return fail((high as { fault: ValueFault }).fault);
      return { condition: { ...same, op, low: low.value, high: high.value } };
    }
    case 'in':
    case 'not_in': {
      if (!Array.isArray(value) || value.length === 0 || value.length > filterLimits.values) {
        const rule = `with ${op} must be compared with a list of 1 to ${filterLimits.values} values`;
        return fail({ code: 'INVALID_TYPE', rule });
      }
      const values: (string | number)[] = [];
      for (const item of value) {
        const read = readFilterValue(field, op, item);
        if ('fault' in read) return fail(read.fault);
        values.push(...withSameName(field, read.value));
      }
      return { condition: { ...same, op, values } };
    }
    default: {
      const read = givenValue(field, op, value);
      if ('fault' in read) return fail(read.fault);
      const isOption = (op === 'eq' || op === 'neq') && typeof read.value === 'string';
      const values = isOption ? withSameName(field, String(read.value)) : [];
      if (values.length > 1) return { condition: { ...same, op: op === 'eq' ? 'in' : 'not_in', values } };
      return { condition: { ...same, op, value: read.value } };
    }
  }
}

/** Returns the value and, of a stage, the stages of other pipelines with its name, ignoring case. */
function withSameName({ lookup, items = [] }: Field, value: string | number): (string | number)[] {
  const item = lookup === 'deal_stages' ? items.find(({ id }) => id === value) : undefined;
  if (!item) return [value];
  const name = foldName(item.name);
  return items.filter((each) => foldName(each.name) === name).map(({ id }) => id);
}

const faultOfReading = (reading: Reading | undefined): ValueFault =>
  reading
    ? { code: 'CONFLICTING_FIELDS', rule: 'is not a custom field, so as is not allowed' }
    : { code: 'INVALID_OPTION', rule: `with as can be read as ${readings.join(' or ')}`, allowed: readings };

/** Reads a value, or a relative date if the field holds dates or times. */
function givenValue(field: Field, op: Operator, value: unknown): { value: GivenValue } | { fault: ValueFault } {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject || (field.type !== 'date' && field.type !== 'datetime')) return readFilterValue(field, op, value);
  const { relative, ...rest } = value as Record<string, unknown>;
  if (typeof relative === 'string' && Object.keys(rest).length === 0 && isRelativeName(relative))
    return { value: { relative, ofDates: field.type === 'date' } };
  const rule = 'must be compared with a date or with {"relative": …} and the name of a relative date';
  const meant = typeof relative === 'string' ? findClosest(relative, relativeNames) : undefined;
  return { fault: { code: 'INVALID_OPTION', rule, allowed: relativeNames, meant } };
}

/**
 * The parts of a record that conditions compare. Of a new one, values and custom contain only what
 * was sent.
 */
export interface ComparedRecord {
  id: string;
  createdAt: Date;
  updatedAt: Date;
  values: Readonly<Record<string, StoredValue>>;
  custom: Readonly<Record<string, StoredValue>>;
}

/** Returns true if a record meets a condition, with the same semantics as a filtered list. */
export function matchesCondition(condition: Condition, object: WorkspaceObject, record: ComparedRecord): boolean {
  if (condition.as) throw new Error('only filters of stored records read custom fields as numbers or dates');
  const stored = comparedValue(object, record, condition.field);
  if (condition.op === 'is_null') return (stored === null) === condition.isNull;
  if (stored === null) return condition.op === 'neq' || condition.op === 'not_in';
  const text = () => lowerCase(record, condition.field, String(stored));
  switch (condition.op) {
    case 'eq':
      return stored === condition.value;
    case 'neq':
      return stored !== condition.value;
    case 'in':
      return condition.values.includes(stored);
    case 'not_in':
      return !condition.values.includes(stored);
    case 'contains':
      return text().includes(lowerCase(condition, 'value', String(condition.value)));
    case 'starts_with':
      return text().startsWith(lowerCase(condition, 'value', String(condition.value)));
    case 'ends_with':
      return text().endsWith(lowerCase(condition, 'value', String(condition.value)));
    case 'gt':
      return order(stored, condition.value) > 0;
    case 'gte':
      return order(stored, condition.value) >= 0;
    case 'lt':
      return order(stored, condition.value) < 0;
    case 'lte':
      return order(stored, condition.value) <= 0;
    case 'between':
      return order(stored, condition.low) >= 0 && order(stored, condition.high) <= 0;
  }
}

const lowered = new WeakMap<ComparedRecord | Condition, Map<string, string>>();

/**
 * Returns a text of a record or a condition in lower case. Cached, because it may be compared many
 * times.
 */
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
    return value === null ? null : toTextForm(value);
  }
  const value = ownValue(record.values, listedBy(object, name) ?? name);
  return typeof value === 'boolean' ? String(value) : value;
}

function ownValue(values: Readonly<Record<string, StoredValue>>, name: string): StoredValue {
  return Object.hasOwn(values, name) ? (values[name] ?? null) : null;
}

/** Returns, for `source_id`, which a write does not set itself, the field from which it follows. */
function listedBy(object: WorkspaceObject, name: string): string | undefined {
  return findBuiltinObject(object.object)?.fields.find((field) => field.lookup && `${field.name}_id` === name)?.name;
}

/** Numbers by size; texts by their code points, independent of language. */
function order(left: string | number, right: string | number): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  const [a, b] = [String(left), String(right)];
  const shorter = Math.min(a.length, b.length);
  // A tag may compare long texts a thousand times for each record, so nothing is copied.
  for (let index = 0; index < shorter; index += 1) {
    const one = a.charCodeAt(index);
    const other = b.charCodeAt(index);
    if (one !== other) return byCodePoint(one) - byCodePoint(other);
  }
  return a.length - b.length;
}

/** In UTF-16, the halves of the highest code points are lower than some other code units. */
function byCodePoint(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
