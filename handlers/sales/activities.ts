// Activities: logged on records with their side effects, changed, read and listed.
// The rows are those of the records API.

import { countRecords, findRecord, listRecords, lockRecord } from '../../db/records/records.ts';
import { lockEntity } from '../../db/sales/activity-effects.ts';
import { toEntityObject } from '../../domain/records/entity-types.ts';
import { isMatch, toEtag } from '../../domain/records/version.ts';
import { type LoggedContact, toLoggedContact } from '../../domain/records/writes.ts';
import {
  checkActivity,
  checkActivityChange,
  getActivityObject,
  showActivity,
  toActivityFilter,
} from '../../domain/sales/activities.ts';
import { sendOnlyOneOf } from '../../domain/service/messages.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, notFound, orNotFound, validationFailed, versionMismatch } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { clampPageLimit, readPage } from '../../runtime/paging.ts';
import { prepareChange, prepareNew, resolve } from '../../services/records/preparation.ts';
import { writeChange, writeNewRecord } from '../../services/records/record-writes.ts';

export const listActivities: Handler<'listActivities'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { offset } = query;
  const workspace = await call.services.loadWorkspace();
  const { filter, problems } = toActivityFilter(query, workspace);
  if (offset !== undefined && query.cursor !== undefined)
    problems.push(buildProblem('offset', 'CONFLICTING_FIELDS', sendOnlyOneOf(['offset', 'cursor'])));
  if (problems.length > 0) throw validationFailed(problems, 400);

  const sort = [{ field: 'performed_at', descending: true }];
  const { rows, ...rest } = await readPage(
    call,
    ['activities', filter],
    (after, limit) => listRecords(sql, caller, 'activities', { sort, filter, after, limit, offset }),
    (last) => last.keys,
  );
  const activities = rows.map(({ record }) => showActivity(record, caller.testMode, workspace));
  if (offset === undefined) return { status: 200, data: { activities, ...rest } };
  const total = await countRecords(sql, caller, 'activities', filter);
  return {
    status: 200,
    data: { activities, ...rest, pagination: { limit: clampPageLimit(query.limit), offset, total } },
  };
};

export const createActivity: Handler<'createActivity'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const workspace = await call.services.loadWorkspace();
  const object = getActivityObject(workspace);
  const checked = checkActivity(body, workspace, now);
  if (call.request.problems.length > 0 || checked.problems.length > 0) throw call.request.rejection(checked.problems);
  const item = await resolve(call, checked);
  // Nothing else was wrong: there is no such record.
  if (item.checked.problems.length > 0) throw notFound();

  const place = { workspace, object };
  const traced = body.metadata ? { metadata: body.metadata } : {};
  const stored = await writeNewRecord(call, place, await prepareNew(call, place, item), traced);
  const activity = showActivity(stored, caller.testMode, workspace);
  return {
    status: 201,
    etag: toEtag(stored),
    data: { activity, entity: await readEntity(call, toLoggedContact(stored.values)) },
  };
};

/** Returns the record as the activity left it. */
async function readEntity(
  { caller, db: { sql } }: Call<'createActivity'>,
  { entityType, entityId }: LoggedContact,
): Promise<components['schemas']['ActivityEntity']> {
  const entity = orNotFound(await findRecord(sql, caller, toEntityObject(entityType), entityId));
  return {
    type: entityType,
    id: entity.id,
    last_contacted_at: entity.values.last_contacted_at as string | null,
    next_followup_at: (entity.values.next_followup_at ?? null) as string | null,
  };
}

export const getActivity: Handler<'getActivity'> = async (call) => {
  const workspace = await call.services.loadWorkspace();
  const stored = orNotFound(await findRecord(call.db.sql, call.caller, 'activities', call.request.path.id));
  const activity = showActivity(stored, call.caller.testMode, workspace);
  return { status: 200, etag: toEtag(stored), data: { activity } };
};

export const updateActivity: Handler<'updateActivity'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const object = getActivityObject(workspace);
  await lockEntity(sql, caller, call.request.path.id);
  const before = orNotFound(await lockRecord(sql, caller, 'activities', call.request.path.id));
  if (!isMatch(call.request.headers['If-Match'], before.version)) throw versionMismatch(before.version);
  const checked = checkActivityChange(call.request.body, before, workspace, now);
  if (call.request.problems.length > 0 || checked.problems.length > 0) throw call.request.rejection(checked.problems);
  const place = { workspace, object };
  const prepared = await prepareChange(call, place, before, await resolve(call, checked));
  const after = prepared ? await writeChange(call, place, prepared) : before;
  const activity = showActivity(after, caller.testMode, workspace);
  return { status: 200, etag: toEtag(after), data: { activity } };
};
