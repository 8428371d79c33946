// Records of every object, one at a time and as lists.

import { findExpansion } from '../../db/records/expansion.ts';
import { countRecords, findRecord, listRecords as listStored } from '../../db/records/records.ts';
import { lockEntity } from '../../db/sales/activity-effects.ts';
import { resolveRelativeDates } from '../../domain/objects/relative-dates.ts';
import { isVisible, parseReading, showRead, toExpansionRequest } from '../../domain/records/reading.ts';
import { readListQuery } from '../../domain/records/saved-views.ts';
import { isMatch, toEtag } from '../../domain/records/version.ts';
import { showRecord } from '../../domain/records/view.ts';
import { maxCounted } from '../../domain/service/request-limits.ts';
import { buildProblem, orNotFound, validationFailed, versionMismatch } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { openObject } from '../../services/records/record-target.ts';
import { deleteEach, noteDeletions } from '../../services/records/record-writes.ts';
import { findViewToApply, viewOutdated } from '../../services/records/saved-views.ts';
import { change, create } from '../../services/records/single-record.ts';

export const listRecords: Handler<'listRecords'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { workspace, object } = await openObject(call);
  const view = query.view === undefined ? undefined : await findViewToApply(call, workspace, query.view);
  const context = { workspace, canView: (name: string) => isVisible(name, workspace, caller) };
  const isOtherObject = view !== undefined && view.object !== object.object;
  const list = readListQuery(query, isOtherObject ? undefined : view, object, context);
  const { reading, problems: readingProblems } = parseReading(
    list.fields === undefined ? query : { ...query, fields: list.fields },
    object,
    workspace,
  );
  const problems = [...list.problems, ...readingProblems];
  if (isOtherObject)
    problems.push(
      buildProblem(
        'view',
        'CONFLICTING_FIELDS',
        `view must be a view of ${object.object}; this one is of ${view.object}`,
      ),
    );
  if (problems.length > 0) throw validationFailed(problems, 400);
  if (view && list.inView.length > 0) throw viewOutdated(view, list.inView);

  const { sql } = call.db;
  // A cursor names the relative date and not its current days, so it stays valid after midnight.
  const asked = { sort: list.sort, filter: list.filter };
  const clock = { now: call.now, timezone: workspace.timezone };
  const resolved = { sort: list.sort, filter: list.filter && resolveRelativeDates(list.filter, clock) };
  const [{ rows, ...rest }, counted] = await Promise.all([
    readPage(
      call,
      ['records', object.object, asked],
      (after, limit) => listStored(sql, caller, object.object, { ...resolved, after, limit }),
      (last) => last.keys,
    ),
    query.count ? countRecords(sql, caller, object.object, resolved.filter, maxCounted) : undefined,
  ]);
  const stored = rows.map(({ record }) => record);
  const expansion = await findExpansion(sql, caller, toExpansionRequest(reading, stored, object, workspace, caller));
  const records = stored.map((record) => showRead(object, record, reading, expansion, workspace, call.now));
  const versions = stored.map(({ version }) => version);
  const total =
    counted === undefined ? {} : { total: Math.min(counted, maxCounted), total_capped: counted > maxCounted };
  return { status: 200, data: { object: object.object, records, versions, ...rest, ...total } };
};

export const getRecord: Handler<'getRecord'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const { workspace, object } = await openObject(call);
  const { reading, problems } = parseReading(call.request.query, object, workspace);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const record = orNotFound(await findRecord(sql, caller, object.object, call.request.path.id));
  const expansion = await findExpansion(sql, caller, toExpansionRequest(reading, [record], object, workspace, caller));
  const shown = showRead(object, record, reading, expansion, workspace, call.now);
  return { status: 200, etag: toEtag(record), data: { object: object.object, record: shown } };
};

export const createRecord: Handler<'createRecord'> = async (call) => {
  const place = await openObject(call);
  const { object } = place;
  const record = await create(call, place, call.request.body);
  return {
    status: 201,
    etag: toEtag(record),
    data: { object: object.object, record: showRecord(object, record) },
  };
};

export const updateRecord: Handler<'updateRecord'> = async (call) => {
  const place = await openObject(call);
  const { object } = place;
  const record = await change(call, place, call.request.path.id, call.request.body, {
    ifMatch: call.request.headers['If-Match'],
  });
  return {
    status: 200,
    etag: toEtag(record),
    data: { object: object.object, record: showRecord(object, record) },
  };
};

export const deleteRecord: Handler<'deleteRecord'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const place = await openObject(call);
  const { object } = place;
  if (object.object === 'activities') await lockEntity(sql, caller, call.request.path.id);
  const deletion = await deleteEach(call, place, [call.request.path.id]);
  const deleted = orNotFound(deletion.records[0]);
  // The error rolls back the deletion.
  if (!isMatch(call.request.headers['If-Match'], deleted.version)) throw versionMismatch(deleted.version);
  await noteDeletions(call, place, deletion);
  const status = deletion.isClearingPending ? 202 : 200;
  return { status, data: { object: object.object, id: deleted.id, deleted: true } };
};
