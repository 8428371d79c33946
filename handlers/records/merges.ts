// Merges of records: made, listed, read and undone.
import { toActor } from '../../db/client/created-by.ts';
import { findMerge, listMerges as listStored, type MergeRow } from '../../db/records/merges.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { toEtag } from '../../domain/records/version.ts';
import { showRecord } from '../../domain/records/view.ts';
import type { components } from '../../generated/api.ts';
import { notFound, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { mergeRecords } from '../../services/records/merging.ts';
import { openObject } from '../../services/records/record-target.ts';
import { undoMerge as undo } from '../../services/records/unmerging.ts';

export const mergeRecord: Handler<'mergeRecord'> = async (call) => {
  const place = await openObject(call);
  const { path, body, headers } = call.request;
  const options = {
    sourceId: orNotFound(toUuid(path.id)),
    targetId: orNotFound(toUuid(body.into_id)),
    choices: body.field_choices ?? {},
    ifMatch: headers['If-Match'],
  };
  const { merge, record, linksLeft } = await mergeRecords(call, place, options);
  const { kind, id, name } = call.caller.actor;
  const row = { ...merge, createdByKind: kind, createdById: id, createdByName: name };
  const shown = toMergeResponse(row);
  return {
    status: merge.status === 'running' ? 202 : 200,
    etag: toEtag(record),
    data: {
      merge: body.dry_run ? { ...shown, id: null } : shown,
      record: showRecord(place.object, record),
      links_left: linksLeft,
      dry_run: body.dry_run ?? false,
    },
  };
};

export const listMerges: Handler<'listMerges'> = async (call) => {
  const { object, source_id: sourceId, target_id: targetId } = call.request.query;
  const visible = listVisible(call, await call.services.loadWorkspace());
  if (object !== undefined && !visible.includes(object)) throw notFound();
  const filter = { objects: object === undefined ? visible : [object], sourceId, targetId };
  const { rows, ...rest } = await readPage(
    call,
    ['merges', object, sourceId, targetId],
    (after: readonly [string, string] | undefined, limit) => listStored(call.db.sql, call.caller, filter, after, limit),
    ({ createdAt, id }) => [createdAt.toISOString(), id] as const,
  );
  return { status: 200, data: { merges: rows.map(toMergeResponse), ...rest } };
};

export const getMerge: Handler<'getMerge'> = async (call) => {
  const visible = listVisible(call, await call.services.loadWorkspace());
  const row = orNotFound(await findMerge(call.db.sql, call.caller, visible, call.request.path.id));
  return { status: 200, data: { merge: toMergeResponse(row) } };
};

export const undoMerge: Handler<'undoMerge'> = async (call) => {
  const { merge, object, source, target, conflicts, warnings } = await undo(call, call.request.path.id);
  return {
    status: merge.status === 'running' ? 202 : 200,
    data: {
      merge: toMergeResponse(merge),
      source: showRecord(object, source),
      target: showRecord(object, target),
      conflicts,
      warnings,
      dry_run: call.request.body?.dry_run ?? false,
    },
  };
};

const listVisible = ({ caller }: Pick<Call, 'caller'>, workspace: Workspace): string[] =>
  [...workspace.objects.keys()].filter((name) => isVisible(name, workspace, caller));

function toMergeResponse(row: MergeRow): components['schemas']['Merge'] {
  return {
    id: row.id,
    object: row.object,
    source_id: row.sourceId,
    target_id: row.targetId,
    status: row.status,
    moved: row.moved,
    remaining: row.remaining,
    fields: row.fields,
    undo_until: row.undoUntil.toISOString(),
    merged_by: toActor(row),
    merged_at: row.createdAt.toISOString(),
    undone_at: row.undoneAt?.toISOString() ?? null,
  };
}
