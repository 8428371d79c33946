// Restores deleted records from the trash, in batches.
import { retag } from '../../db/records/applied-tags.ts';
import { findStandingMerges } from '../../db/records/merges.ts';
import { findRecordsBeyondReach } from '../../db/records/records.ts';
import { findReferences } from '../../db/records/references.ts';
import {
  findTrashedLinks,
  findTrashedValues,
  insertDeletedRecords,
  notePendingReferences,
  passLinks,
  restoreLinks,
  restoreReferences,
  restoreTags,
  stopClearing,
} from '../../db/records/restoration.ts';
import {
  forgetRestored,
  holdExisting,
  keepReferences,
  type LockedRecord,
  lockDeletedRecords,
  lockInTrash,
} from '../../db/records/trash.ts';
import { planFollowups } from '../../db/sales/activity-effects.ts';
import { reopenClocks } from '../../db/settings/sla-clocks.ts';
import { getBuiltinObject, listConfiguredFields, type WorkspaceObject } from '../../domain/objects/workspace.ts';
import type { NeededReference, StoredRecord } from '../../domain/records/draft.ts';
import {
  adaptRestored,
  buildLinkWarning,
  describeFilling,
  diffRestored,
  findEntity,
  findOwner,
  listOwnReferences,
  type OwnReference,
  type RestoreWarning,
} from '../../domain/records/restoring.ts';
import { computeChangeTime } from '../../domain/records/version.ts';
import { describeRestoration } from '../../domain/records/view.ts';
import { toLoggedContact } from '../../domain/records/writes.ts';
import { findRecordsToRetag, listRetaggedNames } from '../../domain/settings/tags.ts';
import { ApiError, conflict, notFound } from '../../runtime/errors.ts';
import type { Change } from '../../runtime/handler.ts';
import { applyFollowup, updateFollowups } from './followups.ts';
import { takenError } from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { retagContacted, toCause, traceEntities } from './record-writes.ts';
import { findUniqueConflicts, type RecordWrite } from './unique-fields.ts';

/** References to the records of a batch that are restored with them. A job restores the others. */
const mostReferencesAtOnce = 1000;

export interface Restoration {
  record: StoredRecord;
  warnings: RestoreWarning[];
  /** True if so many records referred to it that a job restores the references. */
  isPending: boolean;
}

/** The restored records, and the errors of those that cannot be restored, by their ids. */
export type Restorations = Map<string, Restoration | ApiError>;

/**
 * Restores a deleted record with everything that was deleted with it.
 * @throws ApiError 404; 409 if a value of a unique field is taken, or if the lead or deal of an activity is not there
 */
export async function restoreFromTrash(call: WriteCall, place: RecordTarget, id: string): Promise<Restoration> {
  const [outcome] = (await restoreEachFromTrash(call, place, [id])).values();
  return requireRestored(outcome);
}

/**
 * Restores deleted records of an object with everything that was deleted with them, as
 * restoreFromTrash() would one after the other. A record that cannot be restored does not affect the
 * others.
 */
export async function restoreEachFromTrash(
  call: WriteCall,
  place: RecordTarget,
  ids: readonly string[],
): Promise<Restorations> {
  const { caller } = call;
  const { sql } = call.db;
  const locked = await lockDeletedRecords(sql, caller, place.object.object, ids, call.currentTime());
  const merged = locked.filter(({ mergedInto }) => mergedInto !== null);
  const merges = await findStandingMerges(
    sql,
    caller,
    merged.map(({ id }) => id),
  );
  const message = 'The record was merged into another one. Undo the merge instead.';
  const outcomes: Restorations = new Map(
    merged.map(({ id, mergedInto }) => [
      id,
      conflict('merged', message, { merge_id: merges.get(id) ?? null, merged_into: mergedInto }),
    ]),
  );
  const plain = locked.filter(({ mergedInto }) => mergedInto === null);
  for (const [id, outcome] of await restoreEach(call, place, plain, describeRestoration)) outcomes.set(id, outcome);
  return outcomes;
}

/**
 * Restores a locked record of the trash.
 * @param describe the audit row and the events
 * @throws ApiError as restoreFromTrash
 */
export async function restoreLocked(
  call: WriteCall,
  place: RecordTarget,
  deleted: LockedRecord,
  describe: DescribeRestored,
): Promise<Restoration> {
  return requireRestored((await restoreEach(call, place, [deleted], describe)).get(deleted.id));
}

function requireRestored(outcome: Restoration | ApiError | undefined): Restoration {
  if (!outcome) throw notFound();
  if (outcome instanceof ApiError) throw outcome;
  return outcome;
}

type DescribeRestored = (...given: Parameters<typeof describeRestoration>) => Omit<Change, 'occurredAt'>;

/** Restores locked records in the order of their ids. */
async function restoreEach(
  call: WriteCall,
  place: RecordTarget,
  deleted: readonly LockedRecord[],
  describe: DescribeRestored,
): Promise<Restorations> {
  const outcomes: Restorations = new Map();
  // Of records with the same unique value, the first that can be restored gets it. The others are
  // checked again, since it can turn out later that the first one cannot be restored.
  for (let waiting = deleted; waiting.length > 0; ) {
    const checked = await checkEach(call, place, waiting);
    for (const [id, error] of checked.failed) outcomes.set(id, error);
    for (const [id, restored] of await insertEach(call, place, checked, describe)) outcomes.set(id, restored);
    waiting = checked.repeated;
  }
  return outcomes;
}

/** Records of a batch that are checked before they are restored. */
interface CheckedBatch {
  restorable: { deleted: LockedRecord; missing: OwnReference[]; isOwnerGone: boolean }[];
  failed: Map<string, ApiError>;
  /** Records with a value that an earlier one of the batch takes. */
  repeated: LockedRecord[];
}

async function checkEach(
  call: WriteCall,
  place: RecordTarget,
  deleted: readonly LockedRecord[],
): Promise<CheckedBatch> {
  const { object } = place.object;
  const failed = await holdEntities(call, object, deleted);
  const holding = deleted.filter(({ id }) => !failed.has(id));
  const references = new Map(holding.map((each) => [each.id, listOwnReferences(object, each)]));
  const existing = await holdReferred(call, [...references.values()].flat());
  const isOwnerGone = await findInactive(call, holding);
  const { taken, repeated } = await findTakenValues(call, place, holding);
  for (const [id, error] of taken) failed.set(id, error);
  const free = holding.filter(({ id }) => !failed.has(id) && !repeated.has(id));
  return {
    restorable: free.map((each) => ({
      deleted: each,
      missing: (references.get(each.id) ?? []).filter(({ to }) => !existing.has(to)),
      isOwnerGone: isOwnerGone(each),
    })),
    failed,
    repeated: holding.filter(({ id }) => repeated.has(id)),
  };
}

/** Inserts checked records, with one statement for each table, and records what happened. */
async function insertEach(
  call: WriteCall,
  place: RecordTarget,
  { restorable }: CheckedBatch,
  describe: DescribeRestored,
): Promise<Map<string, Restoration>> {
  if (restorable.length === 0) return new Map();
  const { caller } = call;
  const { sql } = call.db;
  const { workspace, object } = place;
  const now = call.currentTime();
  const adapted = restorable.map(({ deleted: { deletedAt, mergedInto: _, ...before }, missing, isOwnerGone }) => ({
    ...{ before, deletedAt, missing },
    ...adaptRestored(object, before, workspace, { isOwnerGone, missing }, now),
  }));
  const ids = adapted.map(({ before }) => before.id);
  await stopClearing(sql, caller, object.object, ids);
  const changed = adapted.flatMap(({ changed: record }) => record ?? []);
  const returned = await insertDeletedRecords(sql, caller, object.object, ids, changed);
  const stored = await findRecordsBeyondReach(sql, caller, object.object, ids);
  const records = new Map(stored.map((record) => [record.id, record]));
  await restoreTags(sql, caller, ids);
  const lostLinks = await restoreRecordLinks(call, ids);
  if (object.object !== 'tasks') await awaitMissing(call, object, adapted);
  const { restored, unfinished } = await restoreReferences(sql, caller, ids, mostReferencesAtOnce, now);
  const pending = new Set(unfinished);
  await notePendingReferences(sql, caller, unfinished, toCause(call));
  await forgetRestored(
    sql,
    caller,
    ids.filter((id) => !pending.has(id)),
  );
  const clocks = adapted.map(({ before, deletedAt }) => ({ id: before.id, deletedAt }));
  await reopenClocks(sql, caller, object.object, clocks, now);

  const lost = adapted.flatMap(({ before, changed: record, warnings }) =>
    record ? listWarnedFields(before.id, warnings) : [],
  );
  const retagged = await retag(sql, caller, findRecordsToRetag(object, workspace, lost, now));
  const tags = listRetaggedNames(object, retagged);
  const fillings = await describeFillings(call, place, restored, now);
  const returnedWith = Map.groupBy(returned, ({ root }) => root);
  const restorations = new Map<string, Restoration>();
  for (const { before, changed: isChanged, warnings } of adapted) {
    const record = records.get(before.id);
    if (!record) throw new Error('a restored record is not there');
    const changes = diffRestored(object, before, isChanged && record);
    const names = tags.get(record.id);
    const occurredAt = computeChangeTime(before, now);
    const items = (returnedWith.get(record.id) ?? []).map((each) => ({ object: each.object, id: each.id }));
    call.db.record({
      ...describe(object, record.id, items, names ? { ...changes, tags: names } : changes, occurredAt),
      occurredAt,
    });
    for (const filling of fillings.get(record.id) ?? []) call.db.record(filling);
    restorations.set(record.id, {
      record,
      warnings: [...warnings, ...buildLinkWarning(lostLinks.get(record.id) ?? 0)],
      isPending: pending.has(record.id),
    });
  }
  if (object.object === 'activities') await noteActivities(call, place, stored, now);
  // Bookings do not go to the trash, so they may have changed meanwhile.
  const followed = await updateFollowups(call, workspace, object.object, ids);
  for (const [id, restoration] of restorations)
    restorations.set(id, { ...restoration, record: applyFollowup(restoration.record, followed) });
  return restorations;
}

/**
 * Returns the fields that warnings name. Their changes, and that of `updated_at`, may change tags.
 */
function listWarnedFields(id: string, warnings: readonly RestoreWarning[]): { id: string; field: string }[] {
  return warnings.map(({ field }) => ({ id, field }));
}

/** Locks the leads and deals of activities. @returns the errors of activities whose lead or deal is not there */
async function holdEntities(
  { caller, db: { sql } }: WriteCall,
  object: string,
  records: readonly StoredRecord[],
): Promise<Map<string, ApiError>> {
  const entities = records.flatMap((record) => {
    const entity = findEntity(object, record);
    return entity ? [{ of: record.id, entity }] : [];
  });
  const existing = await holdExisting(
    sql,
    caller,
    entities.map(({ entity }) => entity),
  );
  const gone = entities.filter(({ entity }) => !existing.has(entity.id));
  return new Map(
    gone.map(({ of, entity }) => {
      const message = `The record of ${entity.object} that the activity was logged on does not exist. Restore it first.`;
      return [of, conflict('related_record_deleted', message, { object: entity.object, record_id: entity.id })];
    }),
  );
}

/**
 * Locks the records that others refer to, in the trash or outside of it, so that none is restored
 * meanwhile.
 */
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

/** Looks up the owners of records, visible or not. @returns if the owner of a record is no longer active */
async function findInactive(
  { caller, db: { sql } }: WriteCall,
  records: readonly StoredRecord[],
): Promise<(record: StoredRecord) => boolean> {
  const owners = new Map<string, NeededReference>();
  for (const record of records) {
    const owner = findOwner(record);
    if (owner) owners.set(record.id, owner);
  }
  const company = { ...caller, reach: { kind: 'company' } as const };
  const found = await findReferences(sql, company, [...owners.values()]);
  return ({ id }) => {
    const owner = owners.get(id);
    return owner !== undefined && found(owner) === undefined;
  };
}

/**
 * Checks the unique values of records, and of the tasks and activities that come back with them.
 * @returns the errors that name the records that have the values, and the records with a value that
 * an earlier one takes, by their ids
 */
async function findTakenValues(
  call: WriteCall,
  place: RecordTarget,
  records: readonly LockedRecord[],
): Promise<{ taken: Map<string, ApiError>; repeated: Set<string> }> {
  const taken = new Map<string, ApiError>();
  const repeated = new Set<string>();
  const places = new Map(records.map(({ id }, index) => [id, index]));
  const check = async (target: RecordTarget, values: readonly (RecordWrite['after'] & { root: string })[]) => {
    const ordered = values.toSorted((a, b) => (places.get(a.root) ?? 0) - (places.get(b.root) ?? 0));
    const writes = ordered.map(({ root: _, ...after }, index) => ({ index, after }));
    for (const [index, found] of await findUniqueConflicts(call, target, writes)) {
      const root = ordered[index]?.root ?? '';
      if (found.kind === 'taken') taken.set(root, takenError(target, found));
      // The items of one record had their values at the same time.
      else if (ordered[found.earlier]?.root !== root) repeated.add(root);
    }
  };
  await check(
    withAllFields(place, place.object),
    records.map((record) => ({ ...record, root: record.id })),
  );
  for (const name of ['activities', 'tasks'] as const) {
    const object = place.workspace.objects.get(name);
    const all = object && withAllFields(place, object);
    if (!all || ![...all.object.fields.values()].some(({ unique }) => unique)) continue;
    const roots = records.filter(({ id }) => !taken.has(id) && !repeated.has(id)).map(({ id }) => id);
    if (roots.length > 0) await check(all, await findTrashedValues(call.db.sql, call.caller, roots, name));
  }
  for (const id of taken.keys()) repeated.delete(id);
  return { taken, repeated };
}

/** Returns an object with its disabled fields, whose values a deleted record can have. */
function withAllFields({ workspace }: RecordTarget, object: WorkspaceObject): RecordTarget {
  const fields = listConfiguredFields(object.object, workspace.rows).map((field) => [field.name, field] as const);
  return { workspace, object: { ...object, fields: new Map(fields) } };
}

/**
 * Restores the links of records and of their activities and tasks. Links to records in the trash
 * come back with these.
 * @returns how many could not be restored although both records exist, by the ids of the records
 */
async function restoreRecordLinks(
  { caller, db: { sql } }: WriteCall,
  roots: readonly string[],
): Promise<Map<string, number>> {
  const links = await findTrashedLinks(sql, caller, roots);
  const lost = new Map<string, number>();
  if (links.length === 0) return lost;
  const ends = links.flatMap(({ fromObject, fromId, toObject, toId }) => [
    { object: fromObject, id: fromId },
    { object: toObject, id: toId },
  ]);
  const before = await lockInTrash(sql, caller, ends);
  const existing = await holdExisting(sql, caller, ends);
  const gone = ends.filter(({ id }) => !existing.has(id));
  const holders = new Map([...before, ...(await lockInTrash(sql, caller, gone))]);
  const waiting = links.flatMap(({ id, root, fromId, toId }) => {
    const other = [fromId, toId].find((end) => !existing.has(end));
    const to = other === undefined ? undefined : holders.get(other);
    return to === undefined ? [] : [{ id, root, to }];
  });
  await passLinks(sql, caller, waiting);
  const complete = links.filter(({ fromId, toId }) => existing.has(fromId) && existing.has(toId));
  const restored = await restoreLinks(
    sql,
    caller,
    roots,
    complete.map(({ id }) => id),
  );
  for (const { id, root } of complete) if (!restored.has(id)) lost.set(root, (lost.get(root) ?? 0) + 1);
  return lost;
}

/** Leaves references to records in the trash with these. */
async function awaitMissing(
  { caller, db: { sql } }: WriteCall,
  { object }: WorkspaceObject,
  records: readonly { before: StoredRecord; missing: readonly OwnReference[] }[],
): Promise<void> {
  const references = records.flatMap(({ before, missing }) =>
    missing.map(({ field, to, object: of }) => ({ of, reference: { object, id: before.id, field, to } })),
  );
  for (const [of, waiting] of Map.groupBy(references, (each) => each.of))
    await keepReferences(
      sql,
      caller,
      of,
      waiting.map(({ reference }) => reference),
    );
}

/** Describes the changes of records that refer to a restored one again. @returns them by the ids of the restored records */
async function describeFillings(
  call: WriteCall,
  { workspace }: RecordTarget,
  restored: Awaited<ReturnType<typeof restoreReferences>>['restored'],
  now: Date,
): Promise<Map<string, Change[]>> {
  const fillings: { to: string; change: Change }[] = [];
  for (const [name, changed] of Map.groupBy(restored, (each) => each.object)) {
    const object = getBuiltinObject(name, workspace);
    const retagged = await retag(call.db.sql, call.caller, findRecordsToRetag(object, workspace, changed, now));
    const tags = listRetaggedNames(object, retagged);
    for (const each of changed) {
      const change = { ...describeFilling(object, each, tags.get(each.id)), occurredAt: each.changedAt };
      fillings.push({ to: each.to, change });
    }
  }
  const byRecord = Map.groupBy(fillings, ({ to }) => to);
  return new Map([...byRecord].map(([id, found]) => [id, found.map(({ change }) => change)]));
}

/** Has the leads and deals of restored activities find their next follow-up, as when the activities were logged. */
async function noteActivities(
  call: WriteCall,
  { workspace }: RecordTarget,
  records: readonly StoredRecord[],
  now: Date,
): Promise<void> {
  const contacts = records
    .filter(({ values }) => values.followup_at !== null)
    .map(({ values }) => toLoggedContact(values));
  if (contacts.length === 0) return;
  const entities = [...new Map(contacts.map((contact) => [contact.entityId, contact])).values()];
  const moved = await planFollowups(call.db.sql, call.caller, entities, now);
  traceEntities(call, workspace, moved, await retagContacted(call, workspace, entities, now));
}
