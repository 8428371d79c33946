// Many records at once: each stands or falls alone, unless all are to stand together; all that stand are written together.
import { v7 as uuidv7 } from 'uuid';
import { lockEntities } from '../db/activity-effects.ts';
import { deleteRecords } from '../db/record-deletion.ts';
import { findExpansion } from '../db/record-expansion.ts';
import { findReferences } from '../db/record-references.ts';
import { findRecords, lockRecords } from '../db/records.ts';
import { repeatsOf } from '../domain/duplicates-in-batch.ts';
import { unmetByNew } from '../domain/pre-conditions.ts';
import {
  batchData,
  invalid,
  isObject,
  missing,
  readItems,
  refusedItem,
  repeated,
  unfulfilled,
} from '../domain/record-batch.ts';
import { parseReading, showRead, wantedBy } from '../domain/record-reading.ts';
import { type CheckedRecord, checkRecord, toUuid } from '../domain/record-values.ts';
import { builtinValues, showRecord } from '../domain/record-view.ts';
import { mergedRecord, newRecord, resolveReferences } from '../domain/record-writes.ts';
import type { components } from '../generated/api.ts';
import { problem, validationFailed } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';
import { settle } from '../writes/batches.ts';
import { unmetByChanges } from '../writes/pre-conditions.ts';
import { noteDeletions, openObject, storeChanges, storeNew } from '../writes/store.ts';

type Failure = components['schemas']['RecordBatchFailure'];

/** A body is a list of items, or an object with the list and how it is to be taken. */
function itemsOf(body: readonly unknown[] | { records: readonly unknown[]; atomic?: boolean }): {
  items: readonly unknown[];
  atomic: boolean;
} {
  return 'records' in body ? { items: body.records, atomic: body.atomic === true } : { items: body, atomic: false };
}

export const createRecordBatch: Handler<'createRecordBatch'> = async (call) => {
  const { sql, caller, now } = call;
  const place = await openObject(call);
  const { workspace, object } = place;
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

  const planned = checked.map((item) => newRecord(object, uuidv7(), item, workspace, now));
  const unmet = new Set<CheckedRecord>();
  for (const [index, record] of planned.entries()) {
    const item = checked[index];
    if (!item || item.problems.length > 0) continue;
    item.problems.push(...unmetByNew(object, record, item, workspace, now));
    if (item.problems.length > 0) unmet.add(item);
  }
  const repeats = repeatsOf(object, workspace, checked);
  const failed = [...checked.entries()].flatMap(([index, item]) => {
    const earlier = repeats.get(index);
    if (unmet.has(item)) return [unfulfilled(index, item.problems)];
    if (item.problems.length > 0) return [invalid(index, item.problems)];
    return earlier === undefined ? [] : [repeated(index, earlier)];
  });
  settle(atomic, failed, items.length);
  const failures = new Set(failed.map(({ index }) => index));
  const stored = [...planned.entries()]
    .filter(([index]) => !failures.has(index))
    .map(([index, record]) => ({ index, record }));
  const records = await storeNew(
    call,
    place,
    stored.map((item) => item.record),
  );
  const succeeded = stored.flatMap(({ index }, position) => {
    const record = records[position];
    return record ? [{ index, record: showRecord(object, record, workspace) }] : [];
  });
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

export const updateRecordBatch: Handler<'updateRecordBatch'> = async (call) => {
  const { sql, caller, now } = call;
  const place = await openObject(call);
  const { workspace, object } = place;
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
  const changes = good.flatMap(({ before, merged }) => (merged ? [{ before, merged }] : []));
  const unmet = await unmetByChanges(call, place, changes);
  for (const { index, before } of good) {
    const problems = unmet.get(before.id);
    if (problems) failed.push(unfulfilled(index, problems));
  }
  settle(atomic, failed, items.length);
  const written = await storeChanges(
    call,
    place,
    changes.filter(({ before }) => !unmet.has(before.id)),
  );
  const after = new Map(written.map((record) => [record.id, record]));
  const succeeded = good
    .filter(({ before }) => !unmet.has(before.id))
    .map(({ index, before }) => ({
      index,
      record: showRecord(object, after.get(before.id) ?? before, workspace),
    }));
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

export const deleteRecordBatch: Handler<'deleteRecordBatch'> = async (call) => {
  const { sql, caller, body } = call;
  const place = await openObject(call);
  const { object } = place;
  const { named, failed } = readItems(body.ids.map((id) => ({ id })));
  const ids = named.map(({ id }) => id);
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  const records = await deleteRecords(sql, caller, object.object, ids);
  const gone = new Map(records.map((record) => [record.id, record]));
  failed.push(...named.filter(({ id }) => !gone.has(id)).map(({ index }) => missing(index)));
  // The refusal undoes the deletions.
  settle(body.atomic === true, failed, body.ids.length);
  await noteDeletions(call, place, records);
  const succeeded = named.flatMap(({ index, id }) => (gone.has(id) ? [{ index, id, deleted: true as const }] : []));
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

const twiceChosen = problem('fields', 'CONFLICTING_FIELDS', 'fields is sent in the body and in the query; send one');

export const getRecordBatch: Handler<'getRecordBatch'> = async (call) => {
  const { sql, caller } = call;
  const { workspace, object } = await openObject(call);
  const { fields } = call.body;
  if (fields !== undefined && call.query.fields !== undefined) throw validationFailed([twiceChosen], 422);
  const named = fields === undefined ? call.query : { ...call.query, fields: fields.join(',') };
  const { reading, problems } = parseReading(named, object);
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
