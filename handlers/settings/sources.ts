// Sources of leads, deals and customers: one list for all.
import { v7 as uuidv7 } from 'uuid';
import { countReferences, referencesTo } from '../../db/settings/setting-references.ts';
import {
  deleteSource as deleteStored,
  findSource,
  insertSource,
  listSources as listStored,
  type SourceRow,
  updateSource as updateStored,
} from '../../db/settings/sources.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { lockSettings, recordChange, refuseFull, refuseTwin } from '../../services/settings/setting-changes.ts';

export const listSources: Handler<'listSources'> = async (call) => {
  const sources = await listStored(call.db.sql, call.caller.companyId);
  const { rows, ...rest } = selectPage(call, ['sources'], sources, (source) => source.id);
  return { status: 200, data: { sources: rows.map(toSource), ...rest } };
};

export const getSource: Handler<'getSource'> = async (call) => {
  const source = orNotFound(await findSource(call.db.sql, call.caller.companyId, call.request.path.id));
  return { status: 200, data: { source: toSource(source) } };
};

export const createSource: Handler<'createSource'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sources } = await lockSettings(call);
  const name = body.name.trim();
  refuseTwin('A source', name, sources);
  refuseFull(sources.length, configurationLimits.sources, 'source_limit_reached', 'sources');
  const source: SourceRow = {
    id: uuidv7(),
    name,
    description: body.description ?? null,
    isEnabled: body.is_enabled,
    createdAt: now,
    updatedAt: now,
  };
  await insertSource(call.db.sql, call.caller.companyId, source);
  const shown = toSource(source);
  recordChange(call, 'source', undefined, shown);
  return { status: 201, data: { source: shown } };
};

export const updateSource: Handler<'updateSource'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { companyId } = call.caller;
  const { sources } = await lockSettings(call);
  const before = orNotFound(await findSource(sql, companyId, call.request.path.id));
  const name = body.name?.trim() ?? before.name;
  refuseTwin('A source', name, sources, before.id);
  const after: SourceRow = {
    ...before,
    name,
    description: body.description === undefined ? before.description : body.description,
    isEnabled: body.is_enabled ?? before.isEnabled,
    updatedAt: now,
  };
  const [was, shown] = [toSource(before), toSource(after)];
  if (!recordChange(call, 'source', was, shown)) return { status: 200, data: { source: was } };
  await updateStored(sql, companyId, after);
  return { status: 200, data: { source: shown } };
};

export const deleteSource: Handler<'deleteSource'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  await lockSettings(call);
  const source = orNotFound(await findSource(sql, caller.companyId, call.request.path.id));
  const { counts, capped } = await countReferences(sql, caller, 'sources', source.id, referencesTo.sources);
  if (Object.values(counts).some((count) => count > 0)) {
    const { leads = 0, deals = 0, customers = 0 } = counts;
    throw conflict('in_use', `The source ${source.name} is used by records. Disable it instead.`, {
      references: { leads, deals, ...(customers > 0 ? { customers } : {}) },
      ...(capped ? { references_capped: true } : {}),
    });
  }
  await deleteStored(sql, caller.companyId, source.id);
  recordChange(call, 'source', toSource(source), undefined);
  return { status: 200, data: { id: source.id, deleted: true } };
};

function toSource(row: SourceRow): components['schemas']['Source'] {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    is_enabled: row.isEnabled,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
