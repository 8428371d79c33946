// Whether the values of unique fields are free, which no two records of an object may share.
import { findHolders } from '../../db/records/unique-values.ts';
import { lockNamedEntities } from '../../db/sales/activity-effects.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import {
  type Conflict,
  findConflicts,
  listUniqueValues,
  type UniqueWrite,
} from '../../domain/records/unique-values.ts';
import { toLoggedContact } from '../../domain/records/writes.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';

/** A record that is to be written. */
export interface RecordWrite {
  /** Position in the batch; 0 for a single write. */
  index: number;
  /** Undefined for a new record. */
  before?: StoredRecord;
  after: Pick<StoredRecord, 'id' | 'values' | 'custom'>;
}

/**
 * Finds the records that cannot be written because another record has their value of a unique
 * field. Locks these values until the transaction ends. Sends nothing if no unique field changes.
 * @returns the conflicts by the positions of their records
 */
export async function findUniqueConflicts(
  { caller, db: { sql } }: Pick<WriteCall, 'db' | 'caller'>,
  { object }: RecordTarget,
  writes: readonly RecordWrite[],
): Promise<ReadonlyMap<number, Conflict>> {
  const unique = writes.map(
    ({ index, before, after }): UniqueWrite => ({
      id: after.id,
      index,
      takes: listUniqueValues(object, after.custom, before?.custom),
      releases: before ? listUniqueValues(object, before.custom, after.custom) : [],
    }),
  );
  const wanted = unique.flatMap(({ takes }) => takes);
  if (wanted.length === 0) return new Map();
  // A change of an activity first locks the record that it is logged on, as an insert does before it locks values.
  const contacts = object.object === 'activities' ? writes.map(({ after }) => toLoggedContact(after.values)) : [];
  const [, holders] = await Promise.all([
    contacts.length > 0 ? lockNamedEntities(sql, caller, contacts) : undefined,
    findHolders(sql, caller, object.object, wanted),
  ]);
  return findConflicts(unique, holders);
}
