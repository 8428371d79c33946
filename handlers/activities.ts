// Activities: logged on leads and deals with their side effects, changed, read and listed. The rows are those of the records API.
import { v7 as uuidv7 } from 'uuid';
import { lockEntity, noteChange, noteContacts } from '../db/activity-effects.ts';
import { findReferences } from '../db/record-references.ts';
import {
  countRecords,
  findRecord,
  insertRecords,
  listRecords,
  lockRecord,
  updateRecord as updateStored,
} from '../db/records.ts';
import { answerClocks } from '../db/sla-clocks.ts';
import {
  activitiesOf,
  activityFilter,
  checkActivity,
  checkActivityChange,
  showActivity,
} from '../domain/activities.ts';
import { creationOf, showRecord, updateOf } from '../domain/record-view.ts';
import { changedContact, contactOf, type LoggedContact, mergedRecord, newRecord } from '../domain/record-writes.ts';
import { responsesOf } from '../domain/sla-tracking.ts';
import type { components } from '../generated/api.ts';
import { notFound, problem, validationFailed } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

export const listActivities: Handler<'listActivities'> = async (call) => {
  const { sql, caller, query } = call;
  const { offset } = query;
  const workspace = await call.workspace();
  const { filter, problems } = activityFilter(query, workspace);
  if (offset !== undefined && query.cursor !== undefined)
    problems.push(problem('offset', 'CONFLICTING_FIELDS', 'offset and cursor exclude each other; send cursor'));
  if (problems.length > 0) throw validationFailed(problems, 400);

  const limit = pageLimit(query.limit);
  const { companyId, testMode, reach } = caller;
  const bound = JSON.stringify(['activities', companyId, testMode, reach, filter]);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, 2);
  const sort = [{ field: 'performed_at', descending: true }];
  const rows = await listRecords(sql, caller, 'activities', { sort, filter, after, limit: limit + 1, offset });
  const { rows: found, next_cursor, has_more } = page(rows, limit, (last) => call.cursors.encode(last.keys, bound));
  const activities = found.map(({ record }) => showActivity(record, testMode, workspace));
  if (offset === undefined) return { status: 200, data: { activities, next_cursor, has_more } };
  const total = await countRecords(sql, caller, 'activities', filter);
  return { status: 200, data: { activities, next_cursor, has_more, pagination: { limit, offset, total } } };
};

export const createActivity: Handler<'createActivity'> = async (call) => {
  const { sql, caller, now, body } = call;
  const workspace = await call.workspace();
  const object = activitiesOf(workspace);
  const checked = checkActivity(body, workspace, now);
  if (call.problems.length > 0 || checked.problems.length > 0) throw call.refusal(checked.problems);
  const found = await findReferences(sql, caller, checked.references);
  if (checked.references.some((reference) => found(reference) === undefined)) throw notFound();

  const [stored] = await insertRecords(
    sql,
    caller,
    'activities',
    [newRecord(object, uuidv7(), checked, workspace, now)],
    now,
  );
  if (!stored) throw new Error('an inserted activity was not returned');
  const contact = contactOf(stored.values, workspace);
  await noteContacts(sql, caller, [contact], now);
  await answerClocks(sql, caller, responsesOf([contact], workspace), now);
  call.record({
    ...creationOf(object, stored.id, now),
    ...(body.metadata ? { metadata: body.metadata } : {}),
  });
  const activity = showActivity(stored, caller.testMode, workspace);
  return { status: 201, data: { activity, entity: await entityOf(call, contact) } };
};

/** The lead or deal as the activity left it. */
async function entityOf(
  { sql, caller }: Call<'createActivity'>,
  { entityType, entityId }: LoggedContact,
): Promise<components['schemas']['ActivityEntity']> {
  const entity = await findRecord(sql, caller, entityType === 'lead' ? 'leads' : 'deals', entityId);
  if (!entity) throw notFound();
  return {
    type: entityType,
    id: entity.id,
    last_contacted_at: entity.values.last_contacted_at as string | null,
    next_followup_at: entity.values.next_followup_at as string | null,
  };
}

export const getActivity: Handler<'getActivity'> = async (call) => {
  const workspace = await call.workspace();
  const stored = await findRecord(call.sql, call.caller, 'activities', call.path.id);
  if (!stored) throw notFound();
  return { status: 200, data: { activity: showActivity(stored, call.caller.testMode, workspace) } };
};

export const updateActivity: Handler<'updateActivity'> = async (call) => {
  const { sql, caller, now } = call;
  const workspace = await call.workspace();
  const object = activitiesOf(workspace);
  await lockEntity(sql, caller, call.path.id);
  const before = await lockRecord(sql, caller, 'activities', call.path.id);
  if (!before) throw notFound();
  const checked = checkActivityChange(call.body, before, workspace, now);
  if (call.problems.length > 0 || checked.problems.length > 0) throw call.refusal(checked.problems);
  const merged = mergedRecord(object, before, checked, workspace, now);
  if (!merged) return { status: 200, data: { activity: showActivity(before, caller.testMode, workspace) } };

  const after = await updateStored(sql, caller, 'activities', merged, now);
  const contact = changedContact(before.values, after.values, workspace);
  await noteChange(sql, caller, contact, now);
  await answerClocks(sql, caller, responsesOf([contact], workspace), now);
  call.record(updateOf(object, showRecord(object, before, workspace), showRecord(object, after, workspace), now));
  return { status: 200, data: { activity: showActivity(after, caller.testMode, workspace) } };
};
