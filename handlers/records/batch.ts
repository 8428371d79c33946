// Many records in one call: each item succeeds or fails alone, unless the batch is atomic.
import { findExpansion } from '../../db/records/expansion.ts';
import { findRecords } from '../../db/records/records.ts';
import { lockEntities } from '../../db/sales/activity-effects.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import { buildBatchData, buildMissingFailure, readItems } from '../../domain/records/batch.ts';
import { parseReading, showRead, toExpansionRequest } from '../../domain/records/reading.ts';
import { showRecord } from '../../domain/records/view.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { type BatchResult, createBatch, updateBatch } from '../../services/records/batch-writes.ts';
import { rejectFailedBatch } from '../../services/records/batches.ts';
import { openObject, type RecordTarget } from '../../services/records/record-target.ts';
import { deleteEach, noteDeletions } from '../../services/records/record-writes.ts';
import { findMerging, mergeRunningMessage } from '../../services/records/unfinished-merges.ts';

type Failure = components['schemas']['RecordBatchFailure'];

/** A body is a list of items, or an object with the list and options. */
function parseItems(body: readonly unknown[] | { records: readonly unknown[]; atomic?: boolean }): {
  items: readonly unknown[];
  atomic: boolean;
} {
  return 'records' in body ? { items: body.records, atomic: body.atomic === true } : { items: body, atomic: false };
}

/** Returns the items that succeeded as the response shows them. */
const toSucceeded = (
  { object }: RecordTarget,
  { succeeded }: BatchResult,
): components['schemas']['RecordBatchSuccess'][] =>
  succeeded.map(({ index, record }) => ({ index, record: showRecord(object, record), version: record.version }));

export const createRecordBatch: Handler<'createRecordBatch'> = async (call) => {
  const place = await openObject(call);
  const { items, atomic } = parseItems(call.request.body);
  const result = await createBatch(call, place, items, atomic);
  return { status: 200, data: buildBatchData(place.object.object, toSucceeded(place, result), result.failed) };
};

export const updateRecordBatch: Handler<'updateRecordBatch'> = async (call) => {
  const place = await openObject(call);
  const { items, atomic } = parseItems(call.request.body);
  const result = await updateBatch(call, place, items, atomic);
  return { status: 200, data: buildBatchData(place.object.object, toSucceeded(place, result), result.failed) };
};

export const deleteRecordBatch: Handler<'deleteRecordBatch'> = async (call) => {
  const { caller } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const place = await openObject(call);
  const { object } = place;
  const { named, failed } = readItems(body.ids.map((id) => ({ id })));
  const merging = await findMerging(
    call,
    object,
    named.map(({ id }) => id),
  );
  const ids = named.map(({ id }) => id).filter((id) => !merging.has(id));
  if (object.object === 'activities') await lockEntities(sql, caller, ids);
  const deletion = await deleteEach(call, place, ids);
  const gone = new Map(deletion.records.map((record) => [record.id, record]));
  for (const { index, id } of named)
    if (merging.has(id)) failed.push({ index, code: 'CONFLICT', message: mergeRunningMessage });
    else if (!gone.has(id)) failed.push(buildMissingFailure(index));
  // The error rolls back the deletions.
  rejectFailedBatch(body.atomic === true, failed, body.ids.length);
  await noteDeletions(call, place, deletion);
  const succeeded = named.flatMap(({ index, id }) => (gone.has(id) ? [{ index, id, deleted: true as const }] : []));
  return { status: 200, data: buildBatchData(object.object, succeeded, failed) };
};

const twiceChosen = buildProblem('fields', 'CONFLICTING_FIELDS', 'Send fields only once: in the query or in the body');

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
  const expansion = await findExpansion(sql, caller, toExpansionRequest(reading, records, object, workspace, caller));
  const shown = new Map(
    records.map((record) => {
      const read = showRead(object, record, reading, expansion, workspace, call.now);
      return [record.id, { record: read, version: record.version }] as const;
    }),
  );
  const succeeded: components['schemas']['RecordBatchSuccess'][] = [];
  const failed: Failure[] = [];
  for (const [index, id] of ids.entries()) {
    const read = id === undefined ? undefined : shown.get(id);
    if (read) succeeded.push({ index, ...read });
    else failed.push(buildMissingFailure(index));
  }
  return { status: 200, data: buildBatchData(object.object, succeeded, failed) };
};
