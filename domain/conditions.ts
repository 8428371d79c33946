// Whether a record that is in memory fulfils a condition of the filter grammar, exactly as a list filtered by it would show the record.

import type { Condition } from './filter.ts';
import { textForm } from './filter-values.ts';
import { builtinObject } from './objects.ts';
import type { StoredValue } from './record-values.ts';
import type { WorkspaceObject } from './workspace.ts';

/** A record as far as conditions look at it; of a new one, values and custom hold only what it was given. */
export interface ComparedRecord {
  id: string;
  createdAt: Date;
  updatedAt: Date;
  values: Readonly<Record<string, StoredValue>>;
  custom: Readonly<Record<string, StoredValue>>;
}

export function conditionHolds(record: ComparedRecord, condition: Condition, object: WorkspaceObject): boolean {
  const stored = comparedValue(record, condition.field, object);
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
      return String(stored).toLowerCase().includes(String(value).toLowerCase());
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

/** What a record has in a field, in the form that values of conditions have: text for custom fields. */
function comparedValue(record: ComparedRecord, name: string, object: WorkspaceObject): string | number | null {
  if (name === 'id') return record.id;
  if (name === 'created_at') return record.createdAt.toISOString();
  if (name === 'updated_at') return record.updatedAt.toISOString();
  const custom = object.fields.get(name)?.custom === true;
  const values = custom ? record.custom : record.values;
  const field = listOf(object, name) ?? name;
  const value = Object.hasOwn(values, field) ? (values[field] ?? null) : null;
  return value === null ? null : custom || typeof value === 'boolean' ? textForm(value) : value;
}

/** For `stage_id`, which a write does not set itself, the field that it follows. */
function listOf(object: WorkspaceObject, name: string): string | undefined {
  return builtinObject(object.object)?.fields.find((field) => field.lookup && `${field.name}_id` === name)?.name;
}

/** Numbers by size; texts by their code points, whatever the language. */
function order(left: string | number, right: string | number): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  const [a, b] = [[...String(left)], [...String(right)]];
  for (let index = 0; index < a.length && index < b.length; index += 1) {
    const difference = (a[index]?.codePointAt(0) ?? 0) - (b[index]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
