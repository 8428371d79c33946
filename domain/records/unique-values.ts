// Values of unique fields: the values that a write takes, and conflicts in a batch.
import type { FieldType } from '../objects/builtin.ts';
import type { StoredValue } from '../objects/field-values.ts';
import { toTextForm } from '../objects/filter-values.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';

type Values = Readonly<Record<string, StoredValue>>;

/** A value of a unique field, as the text that PostgreSQL compares. */
export interface UniqueValue {
  field: string;
  value: string;
}

/** A stored record that has a value of a unique field. */
export interface ValueHolder extends UniqueValue {
  id: string;
  /** True if the caller can see the record. */
  visible: boolean;
}

/**
 * Returns the values of unique fields that a record has.
 * @param other fields with the same value in these are omitted
 */
export function listUniqueValues({ fields }: WorkspaceObject, custom: Values, other: Values = {}): UniqueValue[] {
  const values: UniqueValue[] = [];
  for (const { name, unique } of fields.values()) {
    const value = custom[name] ?? null;
    if (unique && value !== null && value !== other[name]) values.push({ field: name, value: toTextForm(value) });
  }
  return values;
}

/** A record to be written, and its changes to values of unique fields. */
export interface UniqueWrite {
  id: string;
  /** Position in the batch. */
  index: number;
  takes: readonly UniqueValue[];
  /** Values that the record has now and loses. */
  releases: readonly UniqueValue[];
}

/** The reason why a record cannot be written. */
export type Conflict =
  /** An earlier item of the batch takes one of its values. */
  | { kind: 'repeated'; earlier: number }
  /** A stored record has them. */
  | { kind: 'taken'; fields: string[]; existingId: string | null };

interface BatchHolder extends ValueHolder {
  /** Position of the item of the batch that takes the value. */
  index?: number;
}

/**
 * Finds the records of a batch whose values others have, in the order of the batch. A later item
 * can take a value that an earlier one releases.
 * @param holders the stored records that have one of the values
 * @returns the conflicts by the positions of their records
 */
export function findConflicts(
  writes: readonly UniqueWrite[],
  holders: readonly ValueHolder[],
): ReadonlyMap<number, Conflict> {
  const held = new Map<string, BatchHolder>(holders.map((holder) => [toKey(holder), holder]));
  const conflicts = new Map<number, Conflict>();
  for (const { id, index, takes, releases } of writes.toSorted((a, b) => a.index - b.index)) {
    const others = takes.flatMap((each) => {
      const holder = held.get(toKey(each));
      return holder && holder.id !== id ? [holder] : [];
    });
    const conflict = conflictWith(others);
    if (conflict) conflicts.set(index, conflict);
    else {
      for (const each of releases) if (held.get(toKey(each))?.id === id) held.delete(toKey(each));
      for (const each of takes) held.set(toKey(each), { ...each, id, visible: true, index });
    }
  }
  return conflicts;
}

function conflictWith(others: readonly BatchHolder[]): Conflict | undefined {
  for (const { index } of others) if (index !== undefined) return { kind: 'repeated', earlier: index };
  const named = others.find(({ visible }) => visible) ?? others[0];
  if (!named) return undefined;
  const fields = others.filter(({ id }) => id === named.id).map(({ field }) => field);
  return { kind: 'taken', fields, existingId: named.visible ? named.id : null };
}

const toKey = ({ field, value }: UniqueValue): string => `${field}\n${value}`;

/** A value that several records have. */
export interface RepeatedValue {
  testMode: boolean;
  value: string;
  /** The visible ones of the records, the oldest first. */
  ids: readonly string[];
}

/** Records of a value in an example. */
const namedRecords = 10;

/** Returns repeated values of a field for an error. Values without a visible record are omitted. */
export function toExamples(repeated: readonly RepeatedValue[], type: FieldType) {
  return repeated
    .filter(({ ids }) => ids.length > 0)
    .map(({ testMode, value, ids }) => ({
      value: type === 'number' ? Number(value) : value,
      test_mode: testMode,
      record_ids: ids.slice(0, namedRecords),
    }));
}
