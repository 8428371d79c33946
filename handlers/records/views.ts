// Saved views of lists of records: list, create, read, change and delete.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import { getOwnerId, lockOwnedSettings } from '../../db/client/owners.ts';
import {
  countViews,
  deleteView as deleteStored,
  findView,
  findViewByName,
  insertView,
  listViews as listStored,
  updateView as updateStored,
  type ViewRow,
} from '../../db/records/views.ts';
import type { FieldProblem } from '../../domain/objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { findFilterProblems, findOrderProblems, findViewProblems } from '../../domain/records/saved-views.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { isValidSoFar, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { listViewableObjects } from '../../services/records/saved-views.ts';
import {
  assertChangeable,
  assertRoomFor,
  findNamedObject,
  type OwnedKind,
} from '../../services/settings/owned-settings.ts';
import { recordChange } from '../../services/settings/setting-changes.ts';

type SavedView = components['schemas']['SavedView'];
type WritingCall = Call<'createView'> | Call<'updateView'>;

export const listViews: Handler<'listViews'> = async (call) => {
  const { caller } = call;
  const { object } = call.request.query;
  const workspace = await call.services.loadWorkspace();
  const viewable = listViewableObjects(workspace, caller);
  const objects = object === undefined ? viewable : viewable.filter((name) => name === object);
  const { rows, ...rest } = await readPage(
    call,
    ['views', getOwnerId(caller), objects],
    (after, limit) => listStored(call.db.sql, caller, objects, after, limit),
    (last: ViewRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { views: rows.map((row) => toViewResponse(row, workspace, call)), ...rest } };
};

export const getView: Handler<'getView'> = async (call) => {
  const { workspace, row } = await openView(call);
  return { status: 200, data: { view: toViewResponse(row, workspace, call) } };
};

export const createView: Handler<'createView'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const object = findNamedObject(call, workspace, 'object', body.object);
  checkBody(call, object, workspace);
  call.authorize(`${object.object}:view`);
  const settings = {
    name: body.name.trim(),
    filter: body.filter ?? null,
    sort: body.sort ?? null,
    fields: body.fields ?? null,
    isShared: body.is_shared,
  };
  await lockOwnedSettings(sql, caller.companyId);
  const ownerId = getOwnerId(caller);
  await assertRoomFor(call, toKind(call, object.object, ownerId), ownerId, undefined, settings);
  const row = await insertView(sql, caller, { id: uuidv7(), object: object.object, ...settings }, now);
  const view = toViewResponse(row, workspace, call);
  recordChange(call, 'view', undefined, view);
  return { status: 201, data: { view } };
};

export const updateView: Handler<'updateView'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  await lockOwnedSettings(sql, caller.companyId);
  const { workspace, object, row: before } = await openView(call);
  assertChangeable(call, before);
  checkBody(call, object, workspace, before);
  const settings = {
    name: body.name?.trim() ?? before.name,
    filter: body.filter === undefined ? before.filter : body.filter,
    sort: body.sort === undefined ? before.sort : body.sort,
    fields: body.fields === undefined ? before.fields : body.fields,
    isShared: body.is_shared ?? before.isShared,
  };
  const ownerId = getOwnerId(before);
  await assertRoomFor(call, toKind(call, object.object, ownerId), ownerId, before, settings);
  const shown = toViewResponse(before, workspace, call);
  const changed = toViewResponse({ ...before, ...settings }, workspace, call);
  if (!recordChange(call, 'view', shown, changed)) return { status: 200, data: { view: shown } };
  const row = orNotFound(await updateStored(sql, caller.companyId, before.id, settings, now));
  return { status: 200, data: { view: toViewResponse(row, workspace, call) } };
};

export const deleteView: Handler<'deleteView'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  await lockOwnedSettings(sql, caller.companyId);
  const { workspace, row } = await openView(call);
  assertChangeable(call, row);
  await deleteStored(sql, caller.companyId, row.id);
  recordChange(call, 'view', toViewResponse(row, workspace, call), undefined);
  return { status: 200, data: { id: row.id, deleted: true } };
};

/** @throws ApiError 404 if the view of the path does not exist for the caller */
async function openView(
  call: Call<'getView'> | Call<'updateView'> | Call<'deleteView'>,
): Promise<{ workspace: Workspace; object: WorkspaceObject; row: ViewRow }> {
  const { caller } = call;
  const workspace = await call.services.loadWorkspace();
  const objects = listViewableObjects(workspace, caller);
  const row = orNotFound(await findView(call.db.sql, caller, objects, call.request.path.id));
  return { workspace, object: orNotFound(workspace.objects.get(row.object)), row };
}

/**
 * Checks the body, and what it leaves of the view.
 * @param before undefined if the view is created
 * @throws ApiError 400 or 422 with every problem, including those that the OpenAPI document finds
 */
function checkBody(call: WritingCall, object: WorkspaceObject, workspace: Workspace, before?: ViewRow): void {
  const { body, problems: documented } = call.request;
  const valid = <Name extends 'filter' | 'sort' | 'fields'>(name: Name) => {
    if (!isValidSoFar(documented, name)) return undefined;
    return body[name] === undefined ? before?.[name] : body[name];
  };
  const problems: FieldProblem[] = findOrderProblems({ sort: valid('sort'), fields: valid('fields') }, object);
  const inFilter = findFilterProblems(valid('filter'), object, toContext(call, workspace));
  // An invalid filter is a 400 in every operation.
  if (problems.length + documented.length > 0) throw call.request.rejection([...problems, ...inFilter]);
  if (inFilter.length > 0) throw validationFailed(inFilter, 400);
}

const toContext = ({ caller }: Pick<Call, 'caller'>, workspace: Workspace) => ({
  workspace,
  canView: (name: string) => isVisible(name, workspace, caller),
});

function toKind({ caller, db: { sql } }: WritingCall, object: string, ownerId: string): OwnedKind {
  return {
    what: 'A view',
    items: 'views',
    limit: configurationLimits.savedViews,
    reason: 'view_limit',
    count: (counted) => countViews(sql, caller.companyId, counted),
    findByName: (name) => findViewByName(sql, caller.companyId, { object, ownerId, name }),
  };
}

function toViewResponse(row: ViewRow, workspace: Workspace, call: Pick<Call, 'caller'>): SavedView {
  const object = workspace.objects.get(row.object);
  return {
    id: row.id,
    object: row.object,
    name: row.name,
    filter: row.filter,
    sort: row.sort,
    fields: row.fields,
    is_shared: row.isShared,
    problems: object ? findViewProblems(row, object, toContext(call, workspace)) : [],
    created_by: toActor(row),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
