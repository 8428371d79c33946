// Search across the objects that a credential can view.
import { searchRecords as findMatches } from '../../db/reports/search.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { getRecordLabel } from '../../domain/records/label.ts';
import { showRecord } from '../../domain/records/view.ts';
import { listSearchedFields, listSearchedTexts } from '../../domain/reports/search.ts';
import { maxSearchHits } from '../../domain/service/request-limits.ts';
import type { Caller } from '../../runtime/caller.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';

const defaultHits = 5;

export const searchRecords: Handler<'searchRecords'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const limit = Math.min(maxSearchHits, Math.max(1, query.limit ?? defaultHits));
  const searched = findRequestedObjects(query.objects, workspace)
    .filter((object) => isOpen(object, caller))
    .map((object) => ({ object, fields: listSearchedFields(object) }))
    .filter(({ fields }) => fields.length > 0);
  call.db.planOnce();
  const looks = searched.map(({ object, fields }) =>
    findMatches(sql, caller, object.object, query.q, listSearchedTexts(fields), limit),
  );
  const answers = await Promise.all(looks);
  const groups = searched.flatMap(({ object, fields }, index) => {
    const { hits, total, isCapped } = answers[index] ?? { hits: [], total: 0, isCapped: false };
    if (hits.length === 0) return [];
    return {
      object: object.object,
      label: object.label,
      total,
      total_capped: isCapped,
      hits: hits.map(({ record, matchedField }) => {
        const shown = showRecord(object, record);
        return { id: record.id, label: getRecordLabel(shown, fields), matched_field: matchedField, record: shown };
      }),
    };
  });
  return {
    status: 200,
    data: {
      query: query.q,
      objects: searched.map(({ object }) => object.object),
      total_hits: groups.reduce((sum, group) => sum + group.total, 0),
      total_capped: answers.some(({ isCapped }) => isCapped),
      groups,
    },
  };
};

/** @throws ApiError 404 if the workspace does not have an object of this name */
function findRequestedObjects(names: string | undefined, workspace: Workspace): WorkspaceObject[] {
  if (names === undefined) return [...workspace.objects.values()];
  const asked = new Set(names.split(',').map((name) => name.trim()));
  return [...asked].map((name) => {
    return orNotFound(workspace.objects.get(name));
  });
}

function isOpen({ module }: WorkspaceObject, caller: Caller): boolean {
  return caller.grants.allows(`${module}:view`) && getModuleState(module, caller.modules) === 'on';
}
