// Deleted records: listed, read, restored, and removed for good.
import { toActor } from '../../db/client/created-by.ts';
import {
  type DeletedRecordRow,
  findDeletedRecord,
  listDeletedRecords as listStored,
} from '../../db/records/deleted-records.ts';
import { lockDeletedRecords, purgeRecord } from '../../db/records/trash.ts';
import type { WorkspaceObject } from '../../domain/objects/workspace.ts';
import { getRecordLabel } from '../../domain/records/label.ts';
import { toEtag } from '../../domain/records/version.ts';
import { buildAuditActionName, showRecord } from '../../domain/records/view.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { openObject } from '../../services/records/record-target.ts';
import { restoreFromTrash } from '../../services/records/restoring.ts';
import { requireMergesFinished } from '../../services/records/unfinished-merges.ts';

export const listDeletedRecords: Handler<'listDeletedRecords'> = async (call) => {
  const { query } = call.request;
  const { object } = await openObject(call);
  const [from, to] = [query.from, query.to].map((time) => (time === undefined ? undefined : new Date(time)));
  if (from && to && from > to)
    throw validationFailed([buildProblem('to', 'OUT_OF_RANGE', 'to must not be before from')], 400);
  const filter = { deletedBy: query.deleted_by, from, to };
  const { rows, ...rest } = await readPage(
    call,
    ['deleted-records', object.object, query.deleted_by, query.from, query.to],
    (after: readonly [string, string] | undefined, limit) =>
      listStored(call.db.sql, call.caller, object.object, filter, after, limit, call.currentTime()),
    ({ deletedAt, record }) => [deletedAt.toISOString(), record.id] as const,
  );
  return { status: 200, data: { deleted_records: rows.map((row) => toDeletedRecord(object, row)), ...rest } };
};

export const getDeletedRecord: Handler<'getDeletedRecord'> = async (call) => {
  const { object } = await openObject(call);
  const { id } = call.request.path;
  const row = orNotFound(await findDeletedRecord(call.db.sql, call.caller, object.object, id, call.currentTime()));
  return { status: 200, data: { deleted_record: toDeletedRecord(object, row) } };
};

export const restoreDeletedRecord: Handler<'restoreDeletedRecord'> = async (call) => {
  const place = await openObject(call);
  const { object } = place;
  const { record, warnings, isPending } = await restoreFromTrash(call, place, call.request.path.id);
  return {
    status: isPending ? 202 : 200,
    etag: toEtag(record),
    data: { object: object.object, record: showRecord(object, record), warnings },
  };
};

export const deleteDeletedRecord: Handler<'deleteDeletedRecord'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const { object } = await openObject(call);
  const now = call.currentTime();
  const [deleted] = await lockDeletedRecords(sql, caller, object.object, [call.request.path.id], now);
  const { id } = orNotFound(deleted);
  await requireMergesFinished(call, [id]);
  await purgeRecord(sql, caller, id, now);
  call.db.record({ action: buildAuditActionName(object, 'purge'), object: object.object, recordId: id });
  return { status: 200, data: { object: object.object, id, deleted: true } };
};

function toDeletedRecord(
  object: WorkspaceObject,
  { record, deletedAt, deletedBy, purgeAt, mergedInto, children }: DeletedRecordRow,
): components['schemas']['DeletedRecord'] {
  const shown = showRecord(object, record);
  const texts = [...object.fields.values()].filter(({ type }) => type === 'text');
  return {
    id: record.id,
    object: object.object,
    label: getRecordLabel(shown, texts),
    deleted_at: deletedAt.toISOString(),
    deleted_by: toActor(deletedBy),
    purge_at: purgeAt.toISOString(),
    merged_into: mergedInto,
    children,
    record: shown,
  };
}
