// Many records in one call: each item succeeds or fails alone, unless the batch is atomic.
import { findExpansion } from '../../db/records/expansion.ts';
import { findRecords } from '../../db/records/records.ts';
import { lockEntities } from '../../db/sales/activity-effects.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import { batchData, isObject, missing, readItems, refusedItem } from '../../domain/records/batch.ts';
import { parseReading, showRead, wantedBy } from '../../domain/records/reading.ts';
import { checkRecord } from '../../domain/records/values.ts';
import { builtinValues, showRecord } from '../../domain/records/view.ts';
import type { components } from '../../generated/api.ts';
import { problem, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { settle } from '../../services/records/batches.ts';
import { lockEachForChange } from '../../services/records/locked-records.ts';
import { holdReferences, prepareEachChange, prepareEachNew, resolveEach } from '../../services/records/preparation.ts';
import { openObject } from '../../services/records/record-target.ts';
import { deleteEach, noteDeletions, writeChanges, writeNew } from '../../services/records/record-writes.ts';

type Failure = components['schemas']['RecordBatchFailure'];

/** A body is a list of items, or an object with the list and options. */
function itemsOf(body: readonly unknown[] | { records: readonly unknown[]; atomic?: boolean }): {
  items: readonly unknown[];
  atomic: boolean;
} {
  return 'records' in body ? { items: body.records, atomic: body.atomic === true } : { items: body, atomic: false };
}

export const createRecordBatch: Handler<'createRecordBatch'> = async (call) => {
  const place = await openObject(call);
  const { workspace, object } = place;
  const { items, atomic } = itemsOf(call.request.body);
  const checked = items.map((item, index) => ({
    index,
    checked: isObject(item) ? checkRecord(object, item, 'create', workspace, call.now) : refusedItem(),
  }));
  const failed: Failure[] = [];
  const good = await prepareEachNew(call, place, await resolveEach(call, checked), failed);
  settle(atomic, failed, items.length);
  const records = await writeNew(
    call,
    place,
    good.map(({ prepared }) => prepared),
  );
  const succeeded = good.flatMap(({ index }, position) => {
    const record = records[position];
    return record ? [{ index, record: showRecord(object, record), version: record.version }] : [];
  });
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

export const updateRecordBatch: Handler<'updateRecordBatch'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const place = await openObject(call);
  const { workspace, object } = place;
  const { items, atomic } = itemsOf(call.request.body);
  const { named, failed } = readItems(items);
  const ids = named.map(({ id }) => id);
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  const [, records] = await Promise.all([holdReferences(call, place, items), lockEachForChange(call, object, ids)]);
  const locked = new Map(records.map((record) => [record.id, record]));

  const checked = named.flatMap(({ index, id, fields }) => {
    const before = locked.get(id);
    if (before) {
      const change = checkRecord(object, fields, 'update', workspace, now, builtinValues(object, before));
      return [{ index, before, checked: change }];
    }
    failed.push(missing(index));
    return [];
  });
  const good = await prepareEachChange(call, place, await resolveEach(call, checked), failed);
  settle(atomic, failed, items.length);
  const written = await writeChanges(
    call,
    place,
    good.flatMap(({ prepared }) => prepared ?? []),
  );
  const after = new Map(written.map((record) => [record.id, record]));
  const succeeded = good.map(({ index, before }) => {
    const record = after.get(before.id) ?? before;
    return { index, record: showRecord(object, record), version: record.version };
  });
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

export const deleteRecordBatch: Handler<'deleteRecordBatch'> = async (call) => {
  const { caller } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const place = await openObject(call);
  const { object } = place;
  const { named, failed } = readItems(body.ids.map((id) => ({ id })));
  const ids = named.map(({ id }) => id);
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  const deletion = await deleteEach(call, place, ids);
  const gone = new Map(deletion.records.map((record) => [record.id, record]));
  failed.push(...named.filter(({ id }) => !gone.has(id)).map(({ index }) => missing(index)));
  // The error rolls back the deletions.
  settle(body.atomic === true, failed, body.ids.length);
  await noteDeletions(call, place, deletion);
  const succeeded = named.flatMap(({ index, id }) => (gone.has(id) ? [{ index, id, deleted: true as const }] : []));
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};

const twiceChosen = problem('fields', 'CONFLICTING_FIELDS', 'Send fields only once: in the query or in the body');

export const getRecordBatch: Handler<'getRecordBatch'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const { workspace, object } = await openObject(call);
  const { fields } = call.request.body;
  if (fields !== undefined && call.request.query.fields !== undefined) throw validationFailed([twiceChosen], 422);
  const named = fields === undefined ? call.request.query : { ...call.request.query, fields: fields.join(',') };
  const { reading, problems } = parseReading(named, object, workspace);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const ids = call.request.body.ids.map((id) => toUuid(id));
  const records = await findRecords(sql, caller, object.object, [...new Set(ids.flatMap((id) => id ?? []))]);
  const expansion = await findExpansion(sql, caller, wantedBy(reading, records, object, workspace, caller));
  const shown = new Map(
    records.map((record) => {
      const read = showRead(object, record, reading, expansion, workspace);
      return [record.id, { record: read, version: record.version }] as const;
    }),
  );
  const succeeded: components['schemas']['RecordBatchSuccess'][] = [];
  const failed: Failure[] = [];
  for (const [index, id] of ids.entries()) {
    const read = id === undefined ? undefined : shown.get(id);
    if (read) succeeded.push({ index, ...read });
    else failed.push(missing(index));
  }
  return { status: 200, data: batchData(object.object, succeeded, failed) };
};
