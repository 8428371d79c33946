// Files on records: upload, list, link, delete, and download with a signed link.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import {
  type AttachmentRow,
  deleteAttachment as deleteStored,
  findAttachment,
  findLinkedFile,
  insertAttachment,
  listAttachments as listStored,
} from '../../db/records/attachments.ts';
import { hasRecord } from '../../db/records/records.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import { toAttachmentResponse } from '../../domain/records/attachments.ts';
import type { Caller } from '../../runtime/caller.ts';
import { notFound, orNotFound, serviceUnavailable } from '../../runtime/errors.ts';
import { linkLifetime } from '../../runtime/files/files.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { openRecord, readRecordPage } from '../../services/records/open-record.ts';

export const listAttachments: Handler<'listAttachments'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await readRecordPage(
    call,
    'attachments',
    (after, limit) => listStored(sql, caller, path, after, limit),
    (last: AttachmentRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { attachments: rows.map((row) => toResponse(row, caller)), ...rest } };
};

export const createAttachment: Handler<'createAttachment'> = async (call) => {
  const { caller, now } = call;
  const { file } = call.request;
  const { sql } = call.db;
  const { object, id: recordId } = call.request.path;
  await openRecord(call);
  const { id: fileId, name: fileName, contentType, bytes, sha256 } = file;
  const attachment = { id: uuidv7(), object, recordId, fileId, fileName, contentType, bytes, sha256 };
  const row = await insertAttachment(sql, caller, attachment, now);
  if (!row) throw serviceUnavailable();
  call.db.record({
    action: 'attachment.create',
    object,
    recordId: row.recordId,
    metadata: { attachment_id: row.id, file_name: row.fileName, size_bytes: row.sizeBytes },
    event: { name: 'attachment.created', data: eventData(row, now) },
  });
  return { status: 201, data: { attachment: toResponse(row, caller) } };
};

export const getAttachment: Handler<'getAttachment'> = async (call) => {
  const row = await findVisible(call);
  const link = await call.services.files.link('attachments', row.id, toFileLocation(row, call.caller), call.arrivedAt);
  const attachment = { ...toResponse(row, call.caller), download_url: link, expires_in: linkLifetime };
  return { status: 200, data: { attachment } };
};

export const deleteAttachment: Handler<'deleteAttachment'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const row = await findVisible(call);
  if (!(await deleteStored(sql, caller, row.id))) throw notFound();
  call.db.record({
    action: 'attachment.delete',
    object: row.object,
    recordId: row.recordId,
    metadata: { attachment_id: row.id, file_name: row.fileName },
    event: { name: 'attachment.deleted', data: eventData(row, call.now) },
  });
  call.db.afterCommit(() => call.services.files.remove(toFileLocation(row, caller)));
  return { status: 200, data: { id: row.id, deleted: true } };
};

export const getAttachmentContent: Handler<'getAttachmentContent'> = async (call) => {
  const { company_id: companyId = '', environment = '', exp: expires = '', sig: signature = '' } = call.request.query;
  const { id } = call.request.path;
  const link = { owner: 'attachments', id, companyId, environment, expires } as const;
  if (!call.services.files.isGood(link, signature, call.arrivedAt)) throw notFound();
  const linked = orNotFound(await findLinkedFile(call.db.sql, { companyId, testMode: environment === 'test' }, id));
  return { status: 200, file: orNotFound(await call.services.files.open(linked)) };
};

/**
 * @throws ApiError 404 if the attachment does not exist, or its record is not visible to the caller
 */
async function findVisible(call: Call<'getAttachment'> | Call<'deleteAttachment'>): Promise<AttachmentRow> {
  const { caller } = call;
  const { sql } = call.db;
  const { objects } = await call.services.loadWorkspace();
  const row = orNotFound(await findAttachment(sql, caller, call.request.path.id));
  orNotFound(objects.get(row.object));
  if (!caller.grants.allows(`${row.object}:view`) || getModuleState(row.object, caller.modules) !== 'on')
    throw notFound();
  if (!(await hasRecord(sql, caller, row.object, row.recordId))) throw notFound();
  return row;
}

function toFileLocation(row: AttachmentRow, { companyId, testMode }: Caller) {
  return { companyId, testMode, id: row.fileId, name: row.fileName };
}

function eventData({ id, object, recordId }: AttachmentRow, now: Date) {
  return { object, record_id: recordId, attachment_id: id, occurred_at: now.toISOString() };
}

const toResponse = (row: AttachmentRow, { testMode }: Caller) => toAttachmentResponse(row, toActor(row), testMode);
