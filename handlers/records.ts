// Records of every object, one at a time and as lists.
import { lockEntity } from '../db/activity-effects.ts';
import { deleteRecords } from '../db/record-deletion.ts';
import { findExpansion } from '../db/record-expansion.ts';
import { countRecords, findRecord, listRecords as listStored } from '../db/records.ts';
import { parseFilter } from '../domain/filter.ts';
import { parseReading, showRead, wantedBy } from '../domain/record-reading.ts';
import { etagOf, isMatch } from '../domain/record-version.ts';
import { showRecord } from '../domain/record-view.ts';
import { maxCounted } from '../domain/request-limits.ts';
import { parseSort } from '../domain/sort.ts';
import { notFound, validationFailed, versionMismatch } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';
import { change, create } from '../writes/single-record.ts';
import { noteDeletions, openObject } from '../writes/store.ts';

export const listRecords: Handler<'listRecords'> = async (call) => {
  const { caller, query } = call;
  const { workspace, object } = await openObject(call);
  const sort = parseSort(query.sort, object);
  const filter = parseFilter(query.filter, object, workspace);
  const { reading, problems: unread } = parseReading(query, object);
  const problems = [...sort.problems, ...filter.problems, ...unread];
  if (problems.length > 0) throw validationFailed(problems, 400);

  const limit = pageLimit(query.limit);
  const bound = JSON.stringify([
    caller.companyId,
    caller.testMode,
    caller.reach,
    object.object,
    sort.keys,
    filter.filter,
  ]);
  const keys = sort.keys.length + (sort.keys.some((key) => key.field === 'id') ? 0 : 1);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, keys);
  const { sql } = call;
  const [rows, counted] = await Promise.all([
    listStored(sql, caller, object.object, { sort: sort.keys, filter: filter.filter, after, limit: limit + 1 }),
    query.count ? countRecords(sql, caller, object.object, filter.filter, maxCounted) : undefined,
  ]);
  const { rows: found, next_cursor, has_more } = page(rows, limit, (last) => call.cursors.encode(last.keys, bound));
  const stored = found.map(({ record }) => record);
  const expansion = await findExpansion(sql, caller, wantedBy(reading, stored, workspace, caller));
  const records = stored.map((record) => showRead(object, record, reading, expansion, workspace));
  const total =
    counted === undefined ? {} : { total: Math.min(counted, maxCounted), total_capped: counted > maxCounted };
  return { status: 200, data: { object: object.object, records, next_cursor, has_more, ...total } };
};

export const getRecord: Handler<'getRecord'> = async (call) => {
  const { sql, caller } = call;
  const { workspace, object } = await openObject(call);
  const { reading, problems } = parseReading(call.query, object);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const record = await findRecord(sql, caller, object.object, call.path.id);
  if (!record) throw notFound();
  const expansion = await findExpansion(sql, caller, wantedBy(reading, [record], workspace, caller));
  const shown = showRead(object, record, reading, expansion, workspace);
  return { status: 200, etag: etagOf(record), data: { object: object.object, record: shown } };
};

export const createRecord: Handler<'createRecord'> = async (call) => {
  const place = await openObject(call);
  const { workspace, object } = place;
  const record = await create(call, place, call.body);
  return {
    status: 201,
    etag: etagOf(record),
    data: { object: object.object, record: showRecord(object, record, workspace) },
  };
};

export const updateRecord: Handler<'updateRecord'> = async (call) => {
  const place = await openObject(call);
  const { workspace, object } = place;
  const record = await change(call, place, call.path.id, () => call.body, call.header['If-Match']);
  return {
    status: 200,
    etag: etagOf(record),
    data: { object: object.object, record: showRecord(object, record, workspace) },
  };
};

export const deleteRecord: Handler<'deleteRecord'> = async (call) => {
  const { sql, caller } = call;
  const place = await openObject(call);
  const { object } = place;
  if (object.object === 'activities') await lockEntity(sql, caller, call.path.id);
  const [gone] = await deleteRecords(sql, caller, object.object, [call.path.id]);
  if (!gone) throw notFound();
  // The refusal undoes the deletion.
  if (!isMatch(call.header['If-Match'], gone.version)) throw versionMismatch(gone.version);
  await noteDeletions(call, place, [gone]);
  return { status: 200, data: { object: object.object, id: gone.id, deleted: true } };
};
