// Records of every object, one at a time and as lists.
import { v7 as uuidv7 } from 'uuid';
import { lockEntity, noteChange, noteContacts, recomputeFollowup } from '../db/activity-effects.ts';
import { findDuplicate } from '../db/duplicates.ts';
import { findReferences } from '../db/record-references.ts';
import {
  deleteRecord as deleteStored,
  findRecord,
  insertRecords,
  listRecords as listStored,
  lockRecord,
  updateRecord as updateStored,
} from '../db/records.ts';
import { answerClocks, changeClocks, startClocks } from '../db/sla-clocks.ts';
import { duplicateSets } from '../domain/duplicates.ts';
import { parseFilter } from '../domain/filter.ts';
import { checkRecord } from '../domain/record-values.ts';
import { actionOf, builtinValues, creationOf, showRecord, updateOf } from '../domain/record-view.ts';
import { changedContact, contactOf, mergedRecord, newRecord, resolveReferences } from '../domain/record-writes.ts';
import { clockChange, clocksEndedWith, clocksOfNew, responsesOf } from '../domain/sla-tracking.ts';
import { parseSort } from '../domain/sort.ts';
import type { Workspace, WorkspaceObject } from '../domain/workspace.ts';
import { alreadyExists, notFound, validationFailed } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

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

export const listRecords: Handler<'listRecords'> = async (call) => {
  const { caller, query } = call;
  const { workspace, object } = await open(call);
  const sort = parseSort(query.sort, object);
  const filter = parseFilter(query.filter, object, workspace);
  const problems = [...sort.problems, ...filter.problems];
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
  const rows = await listStored(call.sql, caller, object.object, {
    sort: sort.keys,
    filter: filter.filter,
    after,
    limit: limit + 1,
  });
  const { rows: found, next_cursor, has_more } = page(rows, limit, (last) => call.cursors.encode(last.keys, bound));
  const records = found.map(({ record }) => showRecord(object, record, workspace));
  return { status: 200, data: { object: object.object, records, next_cursor, has_more } };
};

export const getRecord: Handler<'getRecord'> = async (call) => {
  const { workspace, object } = await open(call);
  const record = await findRecord(call.sql, call.caller, object.object, call.path.id);
  if (!record) throw notFound();
  return { status: 200, data: { object: object.object, record: showRecord(object, record, workspace) } };
};

export const createRecord: Handler<'createRecord'> = async (call) => {
  const { sql, caller, now } = call;
  const { workspace, object } = await open(call);
  const checked = checkRecord(object, call.body, 'create', workspace, now);
  resolveReferences(checked, await findReferences(sql, caller, checked.references));
  if (checked.problems.length > 0) throw validationFailed(checked.problems, 422);
  await refuseDuplicate(call, object, duplicateSets(object, workspace, checked.values, checked.custom));

  const planned = [newRecord(object, uuidv7(), checked, workspace, now)];
  const [[record]] = await Promise.all([
    insertRecords(sql, caller, object.object, planned, now),
    startClocks(sql, caller, clocksOfNew(object.object, planned, workspace, now)),
  ]);
  if (!record) throw new Error('an inserted record was not returned');
  if (object.object === 'activities') {
    const contact = contactOf(record.values, workspace);
    await noteContacts(sql, caller, [contact], now);
    await answerClocks(sql, caller, responsesOf([contact], workspace), now);
  }
  call.record(creationOf(object, record.id, now));
  return { status: 201, data: { object: object.object, record: showRecord(object, record, workspace) } };
};

/** @throws ApiError 409 naming the record that has the same values in the selected fields */
async function refuseDuplicate(
  { sql, caller }: Call<'createRecord'>,
  object: WorkspaceObject,
  sets: ReturnType<typeof duplicateSets>,
): Promise<void> {
  if (object.object !== 'leads' && object.object !== 'deals') return;
  const duplicate = await findDuplicate(sql, caller, object.object, sets);
  if (!duplicate) return;
  const { matchedFields } = duplicate;
  throw alreadyExists(
    `A ${object.label.toLowerCase()} with this ${matchedFields.join(' and ')} exists.`,
    matchedFields,
    duplicate.visible ? duplicate.id : null,
  );
}

export const updateRecord: Handler<'updateRecord'> = async (call) => {
  const { sql, caller, now } = call;
  const { workspace, object } = await open(call);
  if (object.object === 'activities') await lockEntity(sql, caller, call.path.id);
  const before = await lockRecord(sql, caller, object.object, call.path.id);
  if (!before) throw notFound();
  const checked = checkRecord(object, call.body, 'update', workspace, now, builtinValues(object, before));
  resolveReferences(checked, await findReferences(sql, caller, checked.references));
  if (checked.problems.length > 0) throw validationFailed(checked.problems, 422);
  const merged = mergedRecord(object, before, checked, workspace, now);
  const shown = showRecord(object, before, workspace);
  if (!merged) return { status: 200, data: { object: object.object, record: shown } };

  const after = await updateStored(sql, caller, object.object, merged, now);
  if (object.object === 'activities') {
    const contact = changedContact(before.values, after.values, workspace);
    await noteChange(sql, caller, contact, now);
    await answerClocks(sql, caller, responsesOf([contact], workspace), now);
  }
  await changeClocks(sql, caller, clockChange(object.object, before, after, workspace, now), now);
  const record = showRecord(object, after, workspace);
  call.record(updateOf(object, shown, record, now));
  return { status: 200, data: { object: object.object, record } };
};

export const deleteRecord: Handler<'deleteRecord'> = async (call) => {
  const { sql, caller, now } = call;
  const { workspace, object } = await open(call);
  if (object.object === 'activities') await lockEntity(sql, caller, call.path.id);
  const gone = await deleteStored(sql, caller, object.object, call.path.id);
  if (!gone) throw notFound();
  if (object.object === 'activities' && gone.values.followup_at !== null)
    await recomputeFollowup(sql, caller, contactOf(gone.values, workspace), now);
  const { id } = gone;
  await changeClocks(sql, caller, clocksEndedWith(object.object, id, workspace), now);
  call.record({
    action: actionOf(object, 'delete'),
    object: object.object,
    recordId: id,
    metadata: { activities: gone.activities, tasks: gone.tasks },
    event: { name: 'record.deleted', data: { object: object.object, record_id: id, occurred_at: now.toISOString() } },
  });
  return { status: 200, data: { object: object.object, id, deleted: true } };
};
