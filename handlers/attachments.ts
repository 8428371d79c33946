// Files on records: uploaded, listed, linked to, deleted, and handed out to whoever brings a link.
import { v7 as uuidv7 } from 'uuid';
import {
  type AttachmentRow,
  deleteAttachment as deleteStored,
  findAttachment,
  findLinkedFile,
  insertAttachment,
  listAttachments as listStored,
} from '../db/attachments.ts';
import { hasRecord, holdRecord } from '../db/records.ts';
import { moduleState } from '../domain/plans.ts';
import type { components } from '../generated/api.ts';
import { notFound, serviceUnavailable } from '../runtime/errors.ts';
import { linkLifetime } from '../runtime/files.ts';
import type { Call, Caller, Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

export const listAttachments: Handler<'listAttachments'> = async (call) => {
  const { sql, caller, path, query } = call;
  if (!(await call.workspace()).objects.has(path.object)) throw notFound();
  const limit = pageLimit(query.limit);
  const { companyId, testMode, reach } = caller;
  const bound = JSON.stringify(['attachments', companyId, testMode, reach, path.object, path.id]);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, 2);
  const [visible, rows] = await Promise.all([
    hasRecord(sql, caller, path.object, path.id),
    listStored(sql, caller, path, after as [string, string] | undefined, limit + 1),
  ]);
  if (!visible) throw notFound();
  const cursorOf = (last: AttachmentRow) => call.cursors.encode([last.created_at.toISOString(), last.id], bound);
  const { rows: found, next_cursor, has_more } = page(rows, limit, cursorOf);
  return { status: 200, data: { attachments: found.map((row) => toAttachment(row, caller)), next_cursor, has_more } };
};

export const createAttachment: Handler<'createAttachment'> = async (call) => {
  const { sql, caller, now, file } = call;
  const { object, id: recordId } = call.path;
  if (!(await call.workspace()).objects.has(object)) throw notFound();
  if (!(await holdRecord(sql, caller, object, recordId))) throw notFound();
  const { id: fileId, name: fileName, contentType, bytes, sha256 } = file;
  const attachment = { id: uuidv7(), object, recordId, fileId, fileName, contentType, bytes, sha256 };
  const row = await insertAttachment(sql, caller, attachment, now);
  if (!row) throw serviceUnavailable();
  call.record({
    action: 'attachment.create',
    object,
    recordId: row.record_id,
    metadata: { attachment_id: row.id, file_name: row.file_name, size_bytes: row.size_bytes },
    event: { name: 'attachment.created', data: eventData(row, now) },
  });
  return { status: 201, data: { attachment: toAttachment(row, caller) } };
};

export const getAttachment: Handler<'getAttachment'> = async (call) => {
  const row = await findVisible(call);
  const link = await call.files.link(row.id, placeOf(row, call.caller), call.now);
  const attachment = { ...toAttachment(row, call.caller), download_url: link, expires_in: linkLifetime };
  return { status: 200, data: { attachment } };
};

export const deleteAttachment: Handler<'deleteAttachment'> = async (call) => {
  const { sql, caller } = call;
  const row = await findVisible(call);
  if (!(await deleteStored(sql, caller, row.id))) throw notFound();
  call.record({
    action: 'attachment.delete',
    object: row.object,
    recordId: row.record_id,
    metadata: { attachment_id: row.id, file_name: row.file_name },
    event: { name: 'attachment.deleted', data: eventData(row, call.now) },
  });
  call.afterwards(() => call.files.remove(placeOf(row, caller)));
  return { status: 200, data: { id: row.id, deleted: true } };
};

export const getAttachmentContent: Handler<'getAttachmentContent'> = async (call) => {
  const { exp = '', sig = '' } = call.query;
  if (!call.files.isGood(call.path.id, exp, sig, call.now)) throw notFound();
  const linked = await findLinkedFile(call.sql, call.path.id);
  const file = linked && (await call.files.open(linked));
  if (!file) throw notFound();
  return { status: 200, file };
};

/** @throws ApiError 404 when there is no such attachment, or its record is not visible to the caller */
async function findVisible(call: Call<'getAttachment'> | Call<'deleteAttachment'>): Promise<AttachmentRow> {
  const { sql, caller } = call;
  const { objects } = await call.workspace();
  const row = await findAttachment(sql, caller, call.path.id);
  if (!row || !objects.has(row.object)) throw notFound();
  if (!caller.grants.allows(`${row.object}:view`) || moduleState(row.object, caller.modules) !== 'on') throw notFound();
  if (!(await hasRecord(sql, caller, row.object, row.record_id))) throw notFound();
  return row;
}

function placeOf(row: AttachmentRow, { companyId, testMode }: Caller) {
  return { companyId, testMode, id: row.file_id, name: row.file_name };
}

function eventData({ id, object, record_id }: AttachmentRow, now: Date) {
  return { object, record_id, attachment_id: id, occurred_at: now.toISOString() };
}

function toAttachment(row: AttachmentRow, caller: Caller): components['schemas']['Attachment'] {
  return {
    id: row.id,
    object: row.object,
    record_id: row.record_id,
    file_name: row.file_name,
    content_type: row.content_type,
    size_bytes: row.size_bytes,
    sha256: row.sha256,
    uploaded_by: { kind: row.created_by_kind, id: row.created_by_id, name: row.created_by_name },
    test_mode: caller.testMode,
    created_at: row.created_at.toISOString(),
  };
}
