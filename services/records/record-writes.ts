// Steps of every record write: rows, tags, SLA clocks, effects of activities, audit and events.
import { changeTags, retag } from '../../db/records/applied-tags.ts';
import { type Deletion, moveToTrash } from '../../db/records/deletion.ts';
import type { ClearingCause } from '../../db/records/reference-clearing.ts';
import { findMovingMerges } from '../../db/records/unfinished-merges.ts';
import { insertRecords, updateRecords, type WrittenRecords } from '../../db/records/writing.ts';
import { type EntityChange, noteChange, noteContacts, planFollowups } from '../../db/sales/activity-effects.ts';
import { insertLead } from '../../db/sales/lead-writing.ts';
import { answerClocks, changeClocks, startClocks } from '../../db/settings/sla-clocks.ts';
import { getBuiltinObject, type Workspace } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { toEntityObject } from '../../domain/records/entity-types.ts';
import { computeChangeTime } from '../../domain/records/version.ts';
import {
  describeClearing,
  describeCreation,
  describeDeletion,
  describeUpdate,
  diffRecords,
  showRecord,
} from '../../domain/records/view.ts';
import { type LoggedContact, toChangedContact, toLoggedContact } from '../../domain/records/writes.ts';
import { diffTagNames, type TagNames } from '../../domain/settings/record-tags.ts';
import { computeClockChange, endClocks, findClocksOfNew, findResponses } from '../../domain/settings/sla-tracking.ts';
import { buildMoveEvent } from '../../domain/settings/status-effects.ts';
import {
  findContactedToRetag,
  findRecordsToRetag,
  findTagsOfChanged,
  findTagsOfNew,
  listRetaggedNames,
  matchTagsOfNew,
} from '../../domain/settings/tags.ts';
import type { Change } from '../../runtime/handler.ts';
import type { PreparedChange, PreparedRecord } from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { followMerges, mergeRunning } from './unfinished-merges.ts';

/** The names of tags before and after, by the ids of the records. */
type RetaggedNames = ReadonlyMap<string, TagNames>;

/** Overrides and additions to the audit row of a write. */
export type Traced = Pick<Change, 'metadata'> & { action?: string };

/**
 * Waits for the records and the statements sent with them. If the records are predicted, the commit
 * waits instead.
 */
async function awaitRecords<Written>(
  call: WriteCall,
  { stored, predicted }: WrittenRecords<Written>,
  besides: readonly Promise<unknown>[],
): Promise<Written[]> {
  if (!predicted) return (await Promise.all([stored, ...besides]))[0];
  for (const sent of [stored, ...besides]) call.db.awaitAtCommit(sent);
  return predicted;
}

/**
 * @returns the stored records in the given order, before the database has answered if they are
 * predicted
 */
export async function writeNew(
  call: WriteCall,
  { workspace, object }: RecordTarget,
  prepared: readonly PreparedRecord[],
  traced: Traced = {},
): Promise<StoredRecord[]> {
  const { caller, now } = call;
  const { sql } = call.db;
  const planned = prepared.map(({ content }) => content);
  const written = insertRecords(sql, caller, object.object, planned, now);
  const records = await awaitRecords(call, written, [
    changeTags(sql, caller, object.object, findTagsOfNew(object, workspace, planned, now)),
    startClocks(sql, caller, findClocksOfNew(object.object, planned, workspace, now)),
  ]);
  let moved: EntityChange[] = [];
  let retagged: RetaggedNames = new Map();
  if (object.object === 'activities') {
    const contacts = records.map((record) => toLoggedContact(record.values));
    moved = await noteContacts(sql, caller, contacts, call.currentTime());
    retagged = await retagContacted(call, workspace, contacts, now);
    await answerClocks(sql, caller, findResponses(contacts, workspace), now);
  }
  for (const { id, createdAt } of records)
    call.db.record({ ...describeCreation(object, id, createdAt), occurredAt: createdAt, ...traced });
  traceEntities(call, workspace, moved, retagged);
  return records;
}

/**
 * @returns the stored records in the given order, before the database has answered if they are
 * predicted
 */
export async function writeChanges(
  call: WriteCall,
  { workspace, object }: RecordTarget,
  prepared: readonly PreparedChange[],
  traced: Traced = {},
): Promise<StoredRecord[]> {
  const { caller, now } = call;
  const { sql } = call.db;
  const changes = prepared.map(({ content }) => content);
  const merged = changes.map((change) => change.merged);
  // If the owner changes, the event needs the creator too: both decide who could see the record
  // before.
  const isTaken = changes.some(({ before, merged }) => before.values.assigned_to !== merged.values.assigned_to);
  const tagged = findTagsOfChanged(object, workspace, changes, now);
  const written = updateRecords(sql, caller, object.object, merged, isTaken);
  const [records, merges] = await Promise.all([
    awaitRecords(call, written, [changeTags(sql, caller, object.object, tagged)]),
    object.object === 'activities'
      ? findMovingMerges(
          sql,
          caller,
          merged.map(({ values }) => toLoggedContact(values).entityId),
        )
      : [],
  ]);
  const tagsOf = new Map(tagged.map((each) => [each.recordId, diffTagNames(object, each)]));
  const pairs = changes.flatMap(({ before }, index) => {
    const after = records[index];
    return after ? [{ before, after }] : [];
  });
  const moved: EntityChange[] = [];
  let retagged: RetaggedNames = new Map();
  if (object.object === 'activities') {
    const contacts = followMerges(
      pairs.map(({ before, after }) => toChangedContact(before.values, after.values)),
      merges,
    );
    // One after the other: of several activities of one lead, the last one determines the next
    // follow-up.
    for (const contact of contacts) moved.push(...(await noteChange(sql, caller, contact, call.currentTime())));
    retagged = await retagContacted(call, workspace, contacts, now);
    await answerClocks(sql, caller, findResponses(contacts, workspace), now);
  }
  const clocks = pairs.flatMap(
    ({ before, after }) => computeClockChange(object.object, before, after, workspace, now) ?? [],
  );
  await changeClocks(sql, caller, clocks, now);
  for (const { before, after } of pairs) {
    const tags = tagsOf.get(after.id);
    const fields = diffRecords(object, showRecord(object, before), showRecord(object, after));
    const changed = tags ? { ...fields, tags } : fields;
    const occurredAt = after.updatedAt;
    const entered = buildMoveEvent(object.object, before, after, workspace, occurredAt);
    call.db.record({
      ...describeUpdate(object, after.id, changed, occurredAt, after.createdBy),
      occurredAt,
      ...(entered ? { furtherEvents: [entered] } : {}),
      ...traced,
    });
  }
  traceEntities(call, workspace, moved, retagged);
  return records;
}

/** Writes one new record. */
export async function writeNewRecord(
  call: WriteCall,
  place: RecordTarget,
  prepared: PreparedRecord,
  traced?: Traced,
): Promise<StoredRecord> {
  const [record] = await writeNew(call, place, [prepared], traced);
  if (!record) throw new Error('an inserted record was not returned');
  return record;
}

/** Writes one change. */
export async function writeChange(
  call: WriteCall,
  place: RecordTarget,
  prepared: PreparedChange,
  traced?: Traced,
): Promise<StoredRecord> {
  const [record] = await writeChanges(call, place, [prepared], traced);
  if (!record) throw new Error('an updated record was not returned');
  return record;
}

/**
 * Writes a lead of the intake, the most frequent write, together with the tags from its sender in
 * one statement.
 * @returns the ids of all its tags
 */
export function writeLead(
  call: WriteCall,
  { workspace, object }: RecordTarget,
  { content: lead }: PreparedRecord,
  manualTagIds: readonly string[],
  traced: Traced,
): ReadonlySet<string> {
  const { caller, now } = call;
  const { sql } = call.db;
  const automatic = matchTagsOfNew(object, workspace, [lead], now).flatMap(({ tagIds }) => tagIds);
  const tagIds = { manual: manualTagIds, automatic: automatic.filter((id) => !manualTagIds.includes(id)) };
  call.db.awaitAtCommit(insertLead(sql, caller, lead, tagIds, now));
  call.db.awaitAtCommit(startClocks(sql, caller, findClocksOfNew(object.object, [lead], workspace, now)));
  call.db.record({ ...describeCreation(object, lead.id, now), occurredAt: now, ...traced });
  return new Set([...tagIds.manual, ...tagIds.automatic]);
}

/**
 * Moves records to the trash. Call `noteDeletions` afterwards.
 * @throws ApiError 409 merge_running, if one of them is part of a merge that is not finished
 */
export async function deleteEach(call: WriteCall, { object }: RecordTarget, ids: readonly string[]): Promise<Deletion> {
  const deletion = await moveToTrash(call.db.sql, call.caller, object.object, ids, toCause(call), call.currentTime());
  call.db.awaitAtCommit(deletion.stored);
  if (deletion.unfinishedMerge) throw mergeRunning(deletion.unfinishedMerge);
  return deletion;
}

/** Returns the caller, as the audit rows and events of later steps of its write name it. */
export function toCause({
  caller: { actor, kind, requestId, ip, userAgent },
}: Pick<WriteCall, 'caller'>): ClearingCause {
  const key = kind === 'api_key' ? { apiKeyId: actor.id, keyName: actor.name } : { apiKeyId: null, keyName: null };
  return { actor, ...key, requestId, ip, userAgent };
}

/**
 * Applies the consequences of deletions: leads and deals find their next follow-up, once each;
 * clocks end; records that referred to deleted ones change.
 */
export async function noteDeletions(
  call: WriteCall,
  { workspace, object }: RecordTarget,
  { records: gone, cleared, deletedAt }: Deletion,
): Promise<void> {
  const { caller } = call;
  const { sql } = call.db;
  const now = call.currentTime();
  let moved: EntityChange[] = [];
  let retagged: RetaggedNames = new Map();
  if (object.object === 'activities') {
    const planned = gone.filter(({ values }) => values.followup_at !== null);
    const logged = planned.map(({ values }) => toLoggedContact(values));
    const merges = await findMovingMerges(
      sql,
      caller,
      logged.map(({ entityId }) => entityId),
    );
    const contacts = followMerges(logged, merges);
    const entities = new Map(contacts.map((contact) => [contact.entityId, contact]));
    moved = await planFollowups(sql, caller, [...entities.values()], now);
    retagged = await retagContacted(call, workspace, [...entities.values()], now);
  }
  const clocks = gone.flatMap(({ id }) => endClocks(object.object, id, workspace) ?? []);
  // At the time of the deletion, by which a restoration finds them.
  await changeClocks(sql, caller, clocks, deletedAt);
  for (const record of gone) {
    const occurredAt = computeChangeTime(record, now);
    call.db.record({ ...describeDeletion(object, record, occurredAt), occurredAt });
  }
  for (const [name, changed] of Map.groupBy(cleared, (each) => each.object)) {
    const referring = getBuiltinObject(name, workspace);
    const tags = listRetaggedNames(
      referring,
      await retag(sql, caller, findRecordsToRetag(referring, workspace, changed, now)),
    );
    for (const each of changed)
      call.db.record({ ...describeClearing(referring, each, tags.get(each.id)), occurredAt: each.changedAt });
  }
  traceEntities(call, workspace, moved, retagged);
}

/** Applies the conditions of tags to leads and customers again. */
export async function retagContacted(
  { caller, db: { sql } }: WriteCall,
  workspace: Workspace,
  contacts: readonly Pick<LoggedContact, 'entityType' | 'entityId'>[],
  now: Date,
): Promise<RetaggedNames> {
  const retagged = (['leads', 'customers'] as const).map(async (name) =>
    listRetaggedNames(
      getBuiltinObject(name, workspace),
      await retag(sql, caller, findContactedToRetag(name, workspace, contacts, now)),
    ),
  );
  return new Map((await Promise.all(retagged)).flatMap((names) => [...names]));
}

/**
 * Records the changes of records by activities: one row for each, from the first to the
 * last state.
 */
export function traceEntities(
  call: WriteCall,
  workspace: Workspace,
  changes: readonly EntityChange[],
  tags: RetaggedNames,
): void {
  const first = new Map(changes.toReversed().map((change) => [change.entityId, change]));
  const last = new Map(changes.map((change) => [change.entityId, change]));
  for (const [id, { entityType, after, changedAt }] of last) {
    const object = getBuiltinObject(toEntityObject(entityType), workspace);
    const fields = diffRecords(object, { ...first.get(id)?.before }, { ...after });
    const names = tags.get(id);
    const changed = names ? { ...fields, tags: names } : fields;
    if (Object.keys(changed).length > 0)
      call.db.record({ ...describeUpdate(object, id, changed, changedAt), occurredAt: changedAt });
  }
}
