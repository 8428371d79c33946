// Merges a record into another one of its object.
import { v7 as uuidv7 } from 'uuid';
import { retag } from '../../db/records/applied-tags.ts';
import {
  countItems,
  groupMoved,
  moveActiveRuns,
  moveItems,
  type Pair,
  trashLeftovers,
  trashTags,
} from '../../db/records/merge-moves.ts';
import { insertMerge, type MergeRow, type MovedCounts, trashSource } from '../../db/records/merges.ts';
import { findRecords, lockForMerge } from '../../db/records/records.ts';
import {
  countReferring,
  deferReferences,
  isReferredTo,
  lockConvertedLeads,
  type MovedReference,
  moveReferences,
} from '../../db/records/reference-clearing.ts';
import { findReferences } from '../../db/records/references.ts';
import { daysInTrash, holdExisting } from '../../db/records/trash.ts';
import { changeClocks, moveClocks } from '../../db/settings/sla-clocks.ts';
import { getBuiltinObject } from '../../domain/objects/workspace.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { type Choice, isMergeable, joinFields, listMergeChanges } from '../../domain/records/merging.ts';
import { findOwner, listOwnReferences } from '../../domain/records/restoring.ts';
import { computeChangeTime, isMatch } from '../../domain/records/version.ts';
import { describeMerge, describeRepointing } from '../../domain/records/view.ts';
import { endClocks, findContinuingKinds } from '../../domain/settings/sla-tracking.ts';
import { findRecordsToRetag, listRetaggedNames } from '../../domain/settings/tags.ts';
import { buildProblem, conflict, notFound, validationFailed, versionMismatch } from '../../runtime/errors.ts';
import { applyFollowup, updateFollowups } from './followups.ts';
import { lockEachForChange } from './locked-records.ts';
import { prepareStored } from './preparation.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';
import { toCause, writeChange } from './record-writes.ts';
import { requireMergesFinished } from './unfinished-merges.ts';

/** Items and references that a merge moves in its own transaction. If there are more, a job moves all. */
const mostAtOnce = { items: 5000, references: 1000 };
/** Items of each kind, and references, up to which those of a large merge are counted. */
const mostCounted = 100_000;

export interface MergeOptions {
  sourceId: string;
  targetId: string;
  choices: Readonly<Record<string, Choice>>;
  ifMatch: string | undefined;
}

export interface Merged {
  merge: Omit<MergeRow, 'createdByKind' | 'createdById' | 'createdByName'>;
  record: StoredRecord;
  linksLeft: number;
}

/**
 * Merges the source into the target, and moves the source to the trash. If very much has to move, the
 * merge is `running`, and a job moves the items and references.
 * @throws ApiError 404 without the source; 409 self_merge, version_mismatch or merge_running; 422
 * without the target, or for field choices that cannot be taken
 */
export async function mergeRecords(call: WriteCall, place: RecordTarget, options: MergeOptions): Promise<Merged> {
  const { caller } = call;
  const { sql } = call.db;
  const { object } = place;
  const { sourceId, targetId } = options;
  if (!isMergeable(object)) throw notFound();
  if (sourceId === targetId) throw conflict('self_merge', 'A record cannot be merged into itself.');
  const pair: Pair = { object: object.object, from: sourceId, to: targetId };
  const hasManyReferences = object.object === 'customers' && (await isReferredToOften(call, pair));
  const { source, target, existing } = await lockPair(call, place, pair, hasManyReferences);
  if (!isMatch(options.ifMatch, target.version)) throw versionMismatch(target.version);
  await requireMergesFinished(call, [sourceId, targetId]);
  const remaining = await countRemaining(call, pair, hasManyReferences);

  const now = call.currentTime();
  const unusable = await findUnusable(call, object.object, source, existing);
  const joined = joinFields(object, source, target, options.choices, unusable, now);
  if (joined.problems.length > 0) throw validationFailed(joined.problems, 422);

  const { references, items, linksLeft } = await (remaining
    ? leaveToJob(call, pair)
    : moveImmediately(call, pair, now));
  const ownership = await trashSource(sql, caller, object.object, { id: sourceId, into: targetId }, now);

  const id = uuidv7();
  const tagIds = addedTags(source, target);
  const kept = (target.tags ?? []).filter(({ isManual }) => isManual).map(({ tagId }) => tagId);
  const manual = tagIds.length > 0 ? [...kept, ...tagIds] : undefined;
  const change = await prepareStored(call, place, target, joined, manual);
  const metadata = { merge_id: id, source_id: sourceId };
  const written = change ? await writeChange(call, place, change, { metadata }) : target;
  const clockIds = await moveOrEndClocks(call, place, pair, written, now);

  const { activities, tasks, ...plain } = items;
  const moved = {
    notes: plain.notes.length,
    tasks: tasks.length,
    activities: activities.length,
    messages: plain.messages.length,
    attachments: plain.attachments.length,
    links: plain.links.length,
    tags: tagIds.length,
    bookings: plain.bookings.length,
    drafts: plain.message_drafts.length,
    references: references.length,
  };
  const merge = {
    ...{ id, object: object.object, sourceId, targetId, moved, fields: joined.fields, createdAt: now },
    undoUntil: new Date(now.getTime() + daysInTrash * 86_400_000),
    status: remaining ? ('running' as const) : ('completed' as const),
    remaining,
  };
  const listIds = (records: readonly { id: string }[]): string[] => records.map((each) => each.id);
  const undo = {
    ...listMergeChanges(target, written),
    ...{ tagIds, clockIds },
    items: { ...plain, activities: listIds(activities), tasks: listIds(tasks) },
    references: references.map((each) => ({ id: each.id, field: each.field })),
  };
  await insertMerge(sql, caller, merge, undo, toCause(call));
  const occurredAt = computeChangeTime(source, now);
  call.db.record({
    ...describeMerge(
      object,
      'merge',
      { mergeId: id, sourceId, targetId },
      { moved: listMovedChildren(activities, tasks), metadata: remaining ? { remaining } : { moved }, ownership },
      occurredAt,
    ),
    occurredAt,
  });
  await noteMovedReferences(call, place, references, pair, id, now);
  const followed = await updateFollowups(call, place.workspace, object.object, [targetId]);
  return { merge: { ...merge, undoneAt: null }, record: applyFollowup(written, followed), linksLeft };
}

/**
 * Has the running SLA clocks of the source continue on the target, as it is after the merge, if they
 * can. The others end.
 */
async function moveOrEndClocks(
  { caller, db: { sql } }: WriteCall,
  { workspace, object: { object } }: RecordTarget,
  pair: Pair,
  target: StoredRecord,
  now: Date,
): Promise<string[]> {
  const moved = await moveClocks(sql, caller, pair, { kinds: findContinuingKinds(object, target, workspace) });
  const ended = endClocks(object, pair.from, workspace);
  await changeClocks(sql, caller, ended ? [ended] : [], now);
  return moved;
}

/** Returns activities and tasks with the fields that changed when they moved. */
export function listMovedChildren(
  activities: readonly { id: string; changedAt: Date }[],
  tasks: readonly { id: string; changedAt: Date }[],
) {
  return [
    ...activities.map((each) => ({ ...each, object: 'activities', field: 'entity_id' })),
    ...tasks.map((each) => ({ ...each, object: 'tasks', field: 'record_id' })),
  ];
}

/** Returns the manual tags of the source that the target does not have. */
function addedTags(source: StoredRecord, target: StoredRecord): string[] {
  const has = new Set(target.tags?.map(({ tagId }) => tagId));
  return (source.tags ?? []).filter(({ isManual, tagId }) => isManual && !has.has(tagId)).map(({ tagId }) => tagId);
}

/** Returns true if the references to the source are too many for this transaction. */
async function isReferredToOften({ caller, db: { sql } }: WriteCall, { object, from }: Pair): Promise<boolean> {
  const most = mostAtOnce.references;
  return (await countReferring(sql, caller, object, [from], most + 1)) > most;
}

/**
 * Locks both records in the order of their ids, as a deletion does, and what they refer to: accounts
 * and leads before customers, customers before deals.
 * @param hasManyReferences leaves the leads that were converted to the source to the job, which locks
 * those that it moves
 */
async function lockPair(
  call: WriteCall,
  { object: { object }, workspace }: RecordTarget,
  { from, to }: Pair,
  hasManyReferences: boolean,
) {
  const { caller } = call;
  const { sql } = call.db;
  const hold = (records: readonly StoredRecord[]) =>
    holdExisting(
      sql,
      caller,
      records.flatMap((record) =>
        listOwnReferences(object, record).map((each) => ({ object: each.object, id: each.to })),
      ),
    );
  if (object === 'customers' && !hasManyReferences) await lockConvertedLeads(sql, caller, [from]);
  // Leads are locked before the customers to which they were converted.
  if (object !== 'leads') await hold(await findRecords(sql, caller, object, [from, to]));
  await lockForMerge(sql, caller, object, [from, to]);
  const own = workspace.objects.get(object);
  const records = own ? await lockEachForChange(call, own, [from, to]) : [];
  const [source, target] = [from, to].map((id) => records.find((record) => record.id === id));
  if (!source) throw notFound();
  if (!target)
    throw validationFailed(
      [buildProblem('into_id', 'NOT_FOUND', `into_id must be the ID of a record of ${object}`)],
      422,
    );
  return { source, target, existing: await hold([source]) };
}

/**
 * Returns how much has to move, by kind, if it is too much for this transaction; otherwise null.
 * @param hasManyReferences true if the references were counted before the locks and are too many
 */
async function countRemaining(
  { caller, db: { sql } }: WriteCall,
  pair: Pair,
  hasManyReferences: boolean,
): Promise<MovedCounts | null> {
  const count = async (most: { items: number; references: number }) => {
    const [items, references] = await Promise.all([
      countItems(sql, caller, pair, most.items),
      isReferredTo(pair.object) ? countReferring(sql, caller, pair.object, [pair.from], most.references) : 0,
    ]);
    return { items, references };
  };
  const first = await count({ items: mostAtOnce.items + 1, references: mostAtOnce.references + 1 });
  const total = Object.values(first.items).reduce((sum, each) => sum + each, 0);
  const isLarge = hasManyReferences || total > mostAtOnce.items || first.references > mostAtOnce.references;
  if (!isLarge) return null;
  const { items, references } = await count({ items: mostCounted, references: mostCounted });
  const { notes, tasks, activities, messages, attachments, links, bookings, message_drafts: drafts } = items;
  return { notes, tasks, activities, messages, attachments, links, tags: 0, bookings, drafts, references };
}

async function moveImmediately({ caller, db: { sql } }: WriteCall, pair: Pair, now: Date) {
  const references = await moveReferences(sql, caller, pair.object, pair, undefined, now);
  const items = await moveItems(sql, caller, pair, undefined, now);
  return { references, items, linksLeft: await trashLeftovers(sql, caller, pair) };
}

/**
 * Leaves the items and references of the source as they are, for the job. Only active runs of
 * workforces move, because they would end without their record.
 */
async function leaveToJob({ caller, db: { sql } }: WriteCall, pair: Pair) {
  await deferReferences(sql);
  const runs = await moveActiveRuns(sql, caller, pair);
  await trashTags(sql, caller, pair);
  const none = { ...groupMoved([]), activities: [], tasks: [] };
  return { references: [], items: { ...none, workforce_runs: runs }, linksLeft: 0 };
}

/** Returns the fields of the source that refer to records that are gone, or to an inactive user. */
async function findUnusable(
  { caller, db: { sql } }: WriteCall,
  object: string,
  source: StoredRecord,
  existing: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const gone = listOwnReferences(object, source).filter(({ to }) => !existing.has(to));
  const unusable = new Set(gone.map(({ field }) => field));
  const owner = findOwner(source);
  if (owner && (await findReferences(sql, caller, [owner]))(owner) === undefined) unusable.add(owner.field);
  return unusable;
}

/** Records the audit rows and events of records whose reference moved from one record of a pair to the other. */
export async function noteMovedReferences(
  call: WriteCall,
  { workspace }: RecordTarget,
  references: readonly MovedReference[],
  pair: Pair,
  mergeId: string,
  now: Date,
): Promise<void> {
  for (const [name, changed] of Map.groupBy(references, (each) => each.object)) {
    const referring = getBuiltinObject(name, workspace);
    const retagged = await retag(call.db.sql, call.caller, findRecordsToRetag(referring, workspace, changed, now));
    const tags = listRetaggedNames(referring, retagged);
    for (const each of changed)
      call.db.record({
        ...describeRepointing(referring, each, pair, tags.get(each.id)),
        ...{ metadata: { merge_id: mergeId }, occurredAt: each.changedAt },
      });
  }
}
