// Restoring deleted records from the trash.
import { retag } from '../../db/records/applied-tags.ts';
import { findStandingMerge } from '../../db/records/merges.ts';
import { findRecordsBeyondReach } from '../../db/records/records.ts';
import { findReferences } from '../../db/records/references.ts';
import {
  awaitReferred,
  findTrashedLinks,
  findTrashedValues,
  forgetRestored,
  holdExisting,
  insertDeletedRecord,
  type LockedRecord,
  lockDeletedRecord,
  lockInTrash,
  notePendingReferences,
  passLinks,
  type RestoredReference,
  restoreLinks,
  restoreReferences,
  restoreTags,
  stopClearing,
} from '../../db/records/trash.ts';
import { recomputeFollowup } from '../../db/sales/activity-effects.ts';
import { reopenClocks } from '../../db/settings/sla-clocks.ts';
import { configuredFields, getBuiltinObject, type WorkspaceObject } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import {
  adaptRestored,
  changesOfRestored,
  describeFilling,
  findEntity,
  findOwner,
  linkWarning,
  ownReferences,
  type RestoreWarning,
} from '../../domain/records/restoring.ts';
import { changeTime } from '../../domain/records/version.ts';
import { describeRestoration } from '../../domain/records/view.ts';
import { toLoggedContact } from '../../domain/records/writes.ts';
import { namesOfRetagged, recordsToRetag } from '../../domain/settings/tags.ts';
import { conflict, notFound } from '../../runtime/errors.ts';
import { refuseTaken } from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { retagContacted, toCause, traceEntities } from './record-writes.ts';

/** References to a record that are restored with it; a job restores the others. */
const mostReferencesAtOnce = 1000;

export interface Restoration {
  record: StoredRecord;
  warnings: RestoreWarning[];
  /** True if so many records referred to it that a job restores the references. */
  isPending: boolean;
}

/**
 * Restores a deleted record with everything that was deleted with it.
 * @throws ApiError 404; 409 if a value of a unique field is taken, or if the lead or deal of an activity is not there
 */
export async function restoreFromTrash(call: WriteCall, place: RecordTarget, id: string): Promise<Restoration> {
  const { caller } = call;
  const { sql } = call.db;
  const deleted = await lockDeletedRecord(sql, caller, place.object.object, id, call.currentTime());
  if (!deleted) throw notFound();
  if (deleted.mergedInto !== null) {
    const merge = await findStandingMerge(sql, caller, deleted.id);
    const message = 'The record was merged into another one. Undo the merge instead.';
    throw conflict('merged', message, { merge_id: merge?.id ?? null, merged_into: deleted.mergedInto });
  }
  return restoreLocked(call, place, deleted);
}

/**
 * Restores a locked record of the trash.
 * @param describe the audit row and the events; undefined: those of a restoration
 */
export async function restoreLocked(
  call: WriteCall,
  place: RecordTarget,
  { deletedAt, mergedInto: _, ...before }: LockedRecord,
  describe = describeRestoration,
): Promise<Restoration> {
  const { caller } = call;
  const { sql } = call.db;
  const { workspace, object } = place;
  await holdEntity(call, object.object, before);
  const references = ownReferences(object.object, before);
  const [owner, existing] = [findOwner(before), await holdReferred(call, references)];
  const company = { ...caller, reach: { kind: 'company' } as const };
  const isOwnerGone = owner !== undefined && (await findReferences(sql, company, [owner]))(owner) === undefined;
  const missing = references.filter(({ to }) => !existing.has(to));
  const now = call.currentTime();
  const { changed, warnings } = adaptRestored(object, before, workspace, { isOwnerGone, missing }, now);
  await refuseTakenValues(call, place, before);
  await stopClearing(sql, caller, object.object, before.id);
  const { records } = await insertDeletedRecord(sql, caller, object.object, before.id, changed);
  const [record] = await findRecordsBeyondReach(sql, caller, object.object, [before.id]);
  if (!record) throw new Error('a restored record is not there');
  await restoreTags(sql, caller, record.id);
  const lostLinks = await restoreLinksOf(call, record.id);
  if (object.object !== 'tasks') await awaitReferred(sql, caller, { object: object.object, id: record.id }, missing);
  const { restored, isMore } = await restoreReferences(sql, caller, record.id, mostReferencesAtOnce, now);
  if (isMore) await notePendingReferences(sql, caller, record.id, toCause(call));
  else await forgetRestored(sql, caller, record.id);
  await reopenClocks(sql, caller, object.object, record.id, deletedAt, now);

  const retagged = changed
    ? await retag(sql, caller, recordsToRetag(object, workspace, fieldsOf(record.id, warnings), now))
    : [];
  const tags = namesOfRetagged(object, retagged).get(record.id);
  const changes = changesOfRestored(object, before, changed && record);
  const occurredAt = changeTime(before, now);
  call.db.record({
    ...describe(object, record.id, records, tags ? { ...changes, tags } : changes, occurredAt),
    occurredAt,
  });
  await noteReferences(call, place, record.id, restored, now);
  if (object.object === 'activities') await noteActivity(call, place, record, now);
  return { record, warnings: [...warnings, ...linkWarning(lostLinks)], isPending: isMore };
}

/** The fields that warnings name, as what may change tags. `updated_at` counts as one of them. */
function fieldsOf(id: string, warnings: readonly RestoreWarning[]): { id: string; field: string }[] {
  return warnings.map(({ field }) => ({ id, field }));
}

/** Locks the lead or deal of an activity. @throws ApiError 409 if it is not there */
async function holdEntity({ caller, db: { sql } }: WriteCall, object: string, record: StoredRecord): Promise<void> {
  const entity = findEntity(object, record);
  if (!entity || (await holdExisting(sql, caller, [entity])).has(entity.id)) return;
  const message = `The record of ${entity.object} that the activity was logged on does not exist. Restore it first.`;
  throw conflict('related_record_deleted', message, { object: entity.object, record_id: entity.id });
}

/** Locks what a record refers to: in the trash, so that it is not restored meanwhile, or else where it is. */
async function holdReferred(
  { caller, db: { sql } }: WriteCall,
  references: readonly { object: string; to: string }[],
): Promise<Set<string>> {
  const keys = references.map(({ object, to }) => ({ object, id: to }));
  await lockInTrash(sql, caller, keys);
  const existing = await holdExisting(sql, caller, keys);
  // One that was just being deleted is in the trash only now.
  await lockInTrash(
    sql,
    caller,
    keys.filter(({ id }) => !existing.has(id)),
  );
  return existing;
}

/** @throws ApiError 409 naming the record that has a unique value of the record, or of a task or activity that comes back with it */
async function refuseTakenValues(call: WriteCall, place: RecordTarget, record: StoredRecord): Promise<void> {
  await refuseTaken(call, withAllFields(place, place.object), [record]);
  for (const name of ['activities', 'tasks'] as const) {
    const object = place.workspace.objects.get(name);
    const all = object && withAllFields(place, object);
    if (!all || ![...all.object.fields.values()].some(({ unique }) => unique)) continue;
    await refuseTaken(call, all, await findTrashedValues(call.db.sql, call.caller, record.id, name));
  }
}

/** Returns an object with its disabled fields, whose values a deleted record can have. */
function withAllFields({ workspace }: RecordTarget, object: WorkspaceObject): RecordTarget {
  const fields = configuredFields(object.object, workspace.rows).map((field) => [field.name, field] as const);
  return { workspace, object: { ...object, fields: new Map(fields) } };
}

/**
 * Restores the links of a record and of its activities and tasks. Those to records in the trash come back with these.
 * @returns how many could not be restored although both records exist
 */
async function restoreLinksOf({ caller, db: { sql } }: WriteCall, root: string): Promise<number> {
  const links = await findTrashedLinks(sql, caller, root);
  if (links.length === 0) return 0;
  const ends = links.flatMap(({ fromObject, fromId, toObject, toId }) => [
    { object: fromObject, id: fromId },
    { object: toObject, id: toId },
  ]);
  const before = await lockInTrash(sql, caller, ends);
  const existing = await holdExisting(sql, caller, ends);
  const gone = ends.filter(({ id }) => !existing.has(id));
  const holders = new Map([...before, ...(await lockInTrash(sql, caller, gone))]);
  const waiting = links.flatMap(({ id, fromId, toId }) => {
    const other = [fromId, toId].find((end) => !existing.has(end));
    const to = other === undefined ? undefined : holders.get(other);
    return to === undefined ? [] : [{ id, to }];
  });
  await passLinks(sql, caller, root, waiting);
  const complete = links.filter(({ fromId, toId }) => existing.has(fromId) && existing.has(toId)).map(({ id }) => id);
  const restored = await restoreLinks(sql, caller, root, complete);
  return complete.filter((id) => !restored.has(id)).length;
}

/** Records that other records refer to the restored one again. */
async function noteReferences(
  call: WriteCall,
  { workspace }: RecordTarget,
  to: string,
  restored: readonly RestoredReference[],
  now: Date,
): Promise<void> {
  for (const [name, changed] of Map.groupBy(restored, (each) => each.object)) {
    const object = getBuiltinObject(name, workspace);
    const retagged = await retag(call.db.sql, call.caller, recordsToRetag(object, workspace, changed, now));
    const tags = namesOfRetagged(object, retagged);
    for (const each of changed)
      call.db.record({ ...describeFilling(object, each, to, tags.get(each.id)), occurredAt: each.changedAt });
  }
}

/** Has the lead or deal of a restored activity find its next follow-up, as when the activity was logged. */
async function noteActivity(
  call: WriteCall,
  { workspace }: RecordTarget,
  { values }: StoredRecord,
  now: Date,
): Promise<void> {
  if (values.followup_at === null) return;
  const { caller } = call;
  const { sql } = call.db;
  const contact = toLoggedContact(values);
  const moved = await recomputeFollowup(sql, caller, contact, now);
  traceEntities(call, workspace, moved, await retagContacted(call, workspace, [contact], now));
}
