// Many records at once: each stands or falls alone, unless all are to stand together; all that stand are written together.
import { v7 as uuidv7 } from 'uuid';
import { lockEntities, noteChange, noteContacts, recomputeFollowup } from '../db/activity-effects.ts';
import { findExpansion } from '../db/record-expansion.ts';
import { findReferences } from '../db/record-references.ts';
import {
  type DeletedRecord,
  deleteRecords,
  findRecords,
  insertRecords,
  lockRecords,
  type StoredRecord,
  updateRecords,
} from '../db/records.ts';
import { repeatsOf } from '../domain/duplicates-in-batch.ts';
import { batchData, invalid, isObject, missing, readItems, refusedItem, repeated } from '../domain/record-batch.ts';
import { parseReading, showRead, wantedBy } from '../domain/record-reading.ts';
import { checkRecord, toUuid } from '../domain/record-values.ts';
import { builtinValues, creationOf, deletionOf, showRecord, updateOf } from '../domain/record-view.ts';
import { changedContact, contactOf, mergedRecord, newRecord, resolveReferences } from '../domain/record-writes.ts';
import type { Workspace, WorkspaceObject } from '../domain/workspace.ts';
import type { components } from '../generated/api.ts';
import { batchRefused, notFound, validationFailed } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';

type Failure = components['schemas']['RecordBatchFailure'];
type Writing = Pick<Call, 'sql' | 'caller' | 'now' | 'record'>;

/** @throws ApiError 404 for an object that this workspace does not have, or has switched off */
async function open(call: {
  path: { object: string };
  workspace: Call['workspace'];
}): Promise<{ workspace: Workspace; object: WorkspaceObject }> {
  const workspace = await call.workspace();
  const object = workspace.objects.get(call.path.object);
  if (!object) throw notFound();
  return { workspace, object };
}

/** A body is a list of items, or an object with the list and how it is to be taken. */
function itemsOf(body: readonly unknown[] | { records: readonly unknown[]; atomic?: boolean }): {
  items: readonly unknown[];
  atomic: boolean;
} {
  return 'records' in body ? { items: body.records, atomic: body.atomic === true } : { items: body, atomic: false };
}

/** @throws ApiError 422 listing the failures, for a batch that stands as a whole or not at all */
function settle(atomic: boolean, failed: readonly Failure[], items: number): void {
  if (atomic && failed.length > 0)
    throw batchRefused(
      failed.toSorted((a, b) => a.index - b.index),
      items,
    );
}

export const createRecordBatch: Handler<'createRecordBatch'> = async (call) => {
  const { sql, caller, now } = call;
  const { workspace, object } = await open(call);
  const { items, atomic } = itemsOf(call.body);
  const checked = items.map((item) =>
    isObject(item) ? checkRecord(object, item, 'create', workspace, now) : refusedItem(),
  );
  const found = await findReferences(
    sql,
    caller,
    checked.flatMap((item) => item.references),
  );
  for (const item of checked) resolveReferences(item, found);

  const repeats = repeatsOf(object, workspace, checked);
  const failed = [...checked.entries()].flatMap(([index, { problems }]) => {
    const earlier = repeats.get(index);
    if (problems.length > 0) return [invalid(index, problems)];
    return earlier === undefined ? [] : [repeated(index, earlier)];
  });
  settle(atomic, failed, items.length);
  const failures = new Set(failed.map(({ index }) => index));
  const stored = [...checked.entries()]
    .filter(([index]) => !failures.has(index))
    .map(([index, item]) => ({ index, record: newRecord(object, uuidv7(), item, workspace, now) }));
  const records = await insertRecords(
    sql,
    caller,
    object.object,
    stored.map((item) => item.record),
    now,
  );
  if (object.object === 'activities')
    await noteContacts(
      sql,
      caller,
      records.map((record) => contactOf(record.values, workspace)),
      now,
    );
  for (const record of records) call.record(creationOf(object, record.id, now));
  const succeeded = stored.flatMap(({ index }, position) => {
    const record = records[position];
    return record ? [{ index, record: showRecord(object, record, workspace) }] : [];
  });
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

export const updateRecordBatch: Handler<'updateRecordBatch'> = async (call) => {
  const { sql, caller, now } = call;
  const { workspace, object } = await open(call);
  const { items, atomic } = itemsOf(call.body);
  const { named, failed } = readItems(items);
  const ids = named.map(({ id }) => id);
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  const locked = new Map((await lockRecords(sql, caller, object.object, ids)).map((record) => [record.id, record]));

  const checked = named.flatMap(({ index, id, fields }) => {
    const before = locked.get(id);
    if (before)
      return [
        { index, before, item: checkRecord(object, fields, 'update', workspace, now, builtinValues(object, before)) },
      ];
    failed.push(missing(index));
    return [];
  });
  const found = await findReferences(
    sql,
    caller,
    checked.flatMap(({ item }) => item.references),
  );
  const good = checked.flatMap(({ index, before, item }) => {
    resolveReferences(item, found);
    if (item.problems.length === 0)
      return [{ index, before, merged: mergedRecord(object, before, item, workspace, now) }];
    failed.push(invalid(index, item.problems));
    return [];
  });
  settle(atomic, failed, items.length);
  const merged = good.flatMap((item) => item.merged ?? []);
  const written = await updateRecords(sql, caller, object.object, merged, now);
  const after = new Map(written.map((record) => [record.id, record]));
  const succeeded: { index: number; record: ReturnType<typeof showRecord> }[] = [];
  for (const { index, before } of good) {
    const changed = after.get(before.id);
    if (changed) await noteUpdate(call, workspace, object, before, changed);
    succeeded.push({ index, record: showRecord(object, changed ?? before, workspace) });
  }
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

/** What a change leaves behind: its audit row, its event, and for an activity what it tells about its lead or deal. */
async function noteUpdate(
  call: Writing,
  workspace: Workspace,
  object: WorkspaceObject,
  before: StoredRecord,
  after: StoredRecord,
): Promise<void> {
  const { sql, caller, now } = call;
  if (object.object === 'activities')
    await noteChange(sql, caller, changedContact(before.values, after.values, workspace), now);
  call.record(updateOf(object, showRecord(object, before, workspace), showRecord(object, after, workspace), now));
}

export const deleteRecordBatch: Handler<'deleteRecordBatch'> = async (call) => {
  const { sql, caller, now, body } = call;
  const { workspace, object } = await open(call);
  const { named, failed } = readItems(body.ids.map((id) => ({ id })));
  const ids = named.map(({ id }) => id);
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  const records = await deleteRecords(sql, caller, object.object, ids);
  const gone = new Map(records.map((record) => [record.id, record]));
  failed.push(...named.filter(({ id }) => !gone.has(id)).map(({ index }) => missing(index)));
  // The refusal undoes the deletions.
  settle(body.atomic === true, failed, body.ids.length);
  if (object.object === 'activities') await recomputeFollowups(call, records, workspace);
  for (const record of records) call.record(deletionOf(object, record, now));
  const succeeded = named.flatMap(({ index, id }) => (gone.has(id) ? [{ index, id, deleted: true as const }] : []));
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

/** Of each lead and deal that lost an activity with a follow-up, once. */
async function recomputeFollowups(
  { sql, caller, now }: Writing,
  gone: readonly DeletedRecord[],
  workspace: Workspace,
): Promise<void> {
  const contacts = gone
    .filter(({ values }) => values.followup_at !== null)
    .map(({ values }) => contactOf(values, workspace));
  const entities = new Map(contacts.map((contact) => [contact.entityId, contact]));
  for (const entity of entities.values()) await recomputeFollowup(sql, caller, entity, now);
}

export const getRecordBatch: Handler<'getRecordBatch'> = async (call) => {
  const { sql, caller } = call;
  const { workspace, object } = await open(call);
  const { reading, problems } = parseReading(call.query, object);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const ids = call.body.ids.map((id) => toUuid(id));
  const records = await findRecords(sql, caller, object.object, [...new Set(ids.flatMap((id) => id ?? []))]);
  const expansion = await findExpansion(sql, caller, wantedBy(reading, records, workspace, caller));
  const shown = new Map(
    records.map((record) => [record.id, showRead(object, record, reading, expansion, workspace)] as const),
  );
  const succeeded: components['schemas']['RecordBatchSuccess'][] = [];
  const failed: Failure[] = [];
  for (const [index, id] of ids.entries()) {
    const record = id === undefined ? undefined : shown.get(id);
    if (record) succeeded.push({ index, record });
    else failed.push(missing(index));
  }
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};
