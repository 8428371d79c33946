// Where leads, deals and customers come from: one list for all.
import { v7 as uuidv7 } from 'uuid';
import { countReferences, referencesTo } from '../db/setting-references.ts';
import {
  deleteSource as deleteStored,
  findSource,
  insertSource,
  listSources as listStored,
  type SourceRow,
  updateSource as updateStored,
} from '../db/sources.ts';
import { lockWorkspaceRows } from '../db/workspace.ts';
import { configurationLimits } from '../domain/request-limits.ts';
import { settingChanges } from '../domain/setting-changes.ts';
import { findByName, type NamedItem, type WorkspaceRows } from '../domain/workspace.ts';
import type { components } from '../generated/api.ts';
import { alreadyExists, conflict, notFound } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';

export const listSources: Handler<'listSources'> = async (call) => {
  const sources = (await listStored(call.sql, call.caller.companyId)).map(toSource);
  return { status: 200, data: { sources, next_cursor: null, has_more: false } };
};

export const getSource: Handler<'getSource'> = async (call) => {
  const source = await findSource(call.sql, call.caller.companyId, call.path.id);
  if (!source) throw notFound();
  return { status: 200, data: { source: toSource(source) } };
};

export const createSource: Handler<'createSource'> = async (call) => {
  const { body, now } = call;
  const sources = await lock(call);
  const name = body.name.trim();
  refuseTwin(sources, name);
  if (sources.length >= configurationLimits.sources)
    throw conflict('source_limit_reached', `A workspace has ${configurationLimits.sources} sources at most.`, {
      limit: configurationLimits.sources,
    });
  const source: SourceRow = {
    id: uuidv7(),
    name,
    description: body.description ?? null,
    is_enabled: body.is_enabled,
    created_at: now,
    updated_at: now,
  };
  await insertSource(call.sql, call.caller.companyId, source);
  const shown = toSource(source);
  const changes = settingChanges(undefined, shown);
  call.record({ action: 'settings.source.create', recordId: source.id, changes });
  return { status: 201, data: { source: shown } };
};

export const updateSource: Handler<'updateSource'> = async (call) => {
  const { sql, body, now } = call;
  const { companyId } = call.caller;
  const sources = await lock(call);
  const before = await findSource(sql, companyId, call.path.id);
  if (!before) throw notFound();
  const name = body.name?.trim() ?? before.name;
  refuseTwin(
    sources.filter((source) => source.id !== before.id),
    name,
  );
  const after: SourceRow = {
    ...before,
    name,
    description: body.description === undefined ? before.description : body.description,
    is_enabled: body.is_enabled ?? before.is_enabled,
    updated_at: now,
  };
  const shown = toSource(after);
  const changes = settingChanges(toSource(before), shown);
  if (Object.keys(changes).length === 0) return { status: 200, data: { source: toSource(before) } };
  await updateStored(sql, companyId, after);
  call.record({ action: 'settings.source.update', recordId: before.id, changes });
  return { status: 200, data: { source: shown } };
};

export const deleteSource: Handler<'deleteSource'> = async (call) => {
  const { sql, caller } = call;
  await lock(call);
  const source = await findSource(sql, caller.companyId, call.path.id);
  if (!source) throw notFound();
  const { counts, capped } = await countReferences(sql, caller, 'sources', source.id, referencesTo.sources);
  if (Object.values(counts).some((count) => count > 0)) {
    const { leads = 0, deals = 0, customers = 0 } = counts;
    throw conflict('in_use', `Records have the source ${source.name}. Disable it instead.`, {
      references: { leads, deals, ...(customers > 0 ? { customers } : {}) },
      ...(capped ? { references_capped: true } : {}),
    });
  }
  await deleteStored(sql, caller.companyId, source.id);
  const changes = settingChanges(toSource(source), undefined);
  call.record({ action: 'settings.source.delete', recordId: source.id, changes });
  return { status: 200, data: { id: source.id, deleted: true } };
};

/** The sources, with the configuration kept from changing under this call. */
async function lock(
  call: Call<'createSource'> | Call<'updateSource'> | Call<'deleteSource'>,
): Promise<readonly NamedItem[]> {
  return ((await lockWorkspaceRows(call.sql, call.caller.companyId)) as WorkspaceRows).sources;
}

/** @throws ApiError 409 naming the source that has this name already */
function refuseTwin(sources: readonly NamedItem[], name: string): void {
  const twin = findByName(sources, name);
  if (twin) throw alreadyExists(`There is a source ${twin.name} already.`, ['name'], twin.id);
}

function toSource(row: SourceRow): components['schemas']['Source'] {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    is_enabled: row.is_enabled,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
