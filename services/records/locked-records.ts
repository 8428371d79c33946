// Records locked to be changed, with the tags that they have.
import { findAppliedTags } from '../../db/records/applied-tags.ts';
import { lockRecord, lockRecords } from '../../db/records/records.ts';
import type { WorkspaceObject } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { AppliedTag } from '../../domain/settings/record-tags.ts';
import type { WriteCall } from './record-target.ts';

type Locking = Pick<WriteCall, 'db' | 'caller'>;

/** Locks a visible record until the transaction ends. Sends its statements immediately. */
export async function lockForChange(
  call: Locking,
  object: WorkspaceObject,
  id: string,
): Promise<StoredRecord | undefined> {
  const { caller, db } = call;
  const [record, tags] = await Promise.all([
    lockRecord(db.sql, caller, object.object, id),
    tagsOfLocked(call, object, [id]),
  ]);
  return record && withTags(record, tags);
}

/**
 * Locks visible records until the transaction ends, in the order of their IDs. Sends its statements
 * immediately.
 */
export async function lockEachForChange(
  call: Locking,
  object: WorkspaceObject,
  ids: readonly string[],
): Promise<StoredRecord[]> {
  const { caller, db } = call;
  const [records, tags] = await Promise.all([
    lockRecords(db.sql, caller, object.object, ids),
    tagsOfLocked(call, object, ids),
  ]);
  return records.map((record) => withTags(record, tags));
}

/**
 * Reads the tags in a separate statement after the lock, in the same round trip. It therefore sees
 * everything that was committed before the lock was taken.
 */
async function tagsOfLocked(
  { caller, db }: Locking,
  { object, tags = [] }: WorkspaceObject,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly AppliedTag[]>> {
  return tags.length === 0 ? new Map() : findAppliedTags(db.sql, caller, object, ids);
}

function withTags(record: StoredRecord, tags: ReadonlyMap<string, readonly AppliedTag[]>): StoredRecord {
  return { ...record, tags: tags.get(record.id) ?? [] };
}
