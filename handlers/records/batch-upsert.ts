// Batches of upserts: each item changes the matching record, or creates one.
import { buildBatchData } from '../../domain/records/batch.ts';
import { findMatchProblems } from '../../domain/records/match.ts';
import { showRecord } from '../../domain/records/view.ts';
import { validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { upsertBatch } from '../../services/records/batch-writes.ts';
import { openObject } from '../../services/records/record-target.ts';

export const upsertRecordBatch: Handler<'upsertRecordBatch'> = async (call) => {
  const place = await openObject(call);
  const { object } = place;
  const { records, match_on: matchOn, atomic } = call.request.body;
  const unmatchable = findMatchProblems(object, matchOn);
  if (unmatchable.length > 0) throw validationFailed(unmatchable, 422);
  const result = await upsertBatch(call, place, records, matchOn, atomic === true);
  const succeeded = result.succeeded.map(({ index, record, outcome }) => ({
    index,
    record: showRecord(object, record),
    version: record.version,
    created: outcome === 'created',
  }));
  return { status: 200, data: buildBatchData(object.object, succeeded, result.failed) };
};
