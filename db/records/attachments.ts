// Attachments: files on records.

import type { CreatedByRow } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import type { Scope } from '../client/visibility.ts';

export interface AttachmentRow extends CreatedByRow {
  id: string;
  object: string;
  recordId: string;
  fileId: string;
  fileName: string;
  contentType: string;
  sizeBytes: number;
  sha256: string;
  createdAt: Date;
}

const columns = [
  'id',
  'object',
  'record_id',
  'file_id',
  'file_name',
  'content_type',
  'size_bytes',
  'sha256',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
];

/**
 * Returns the attachments of a record, the newest first.
 * @param after time and id of the last row of the previous page
 */
export async function listAttachments(
  sql: Sql,
  { companyId, testMode }: Scope,
  record: { object: string; id: string },
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<AttachmentRow[]> {
  return sql<AttachmentRow[]>`
    select ${sql(columns)}
    from attachments
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${record.object} and record_id = ${record.id}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

export async function findAttachment(
  sql: Sql,
  { companyId, testMode }: Scope,
  id: string,
): Promise<AttachmentRow | undefined> {
  const [row] = await sql<AttachmentRow[]>`
    select ${sql(columns)}
    from attachments
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return row;
}

export interface NewAttachment {
  id: string;
  object: string;
  recordId: string;
  fileId: string;
  fileName: string;
  contentType: string;
  bytes: number;
  sha256: string;
}

/**
 * Inserts an attachment and keeps its file.
 * @returns undefined if the sweep has already taken the file
 */
export async function insertAttachment(
  sql: Sql,
  scope: Scope,
  attachment: NewAttachment,
  now: Date,
): Promise<AttachmentRow | undefined> {
  const { companyId, testMode, actor, userId } = scope;
  const [row] = await sql<AttachmentRow[]>`
    with kept as (
      update stored_files
      set remove_after = null
      where company_id = ${companyId} and test_mode = ${testMode} and id = ${attachment.fileId} and remove_after > now()
      returning id
    )
    insert into attachments (company_id, test_mode, id, object, record_id, file_id, file_name, content_type, size_bytes, sha256,
      created_by_kind, created_by_id, created_by_name, created_by_user, created_at)
    select ${companyId}, ${testMode}, ${attachment.id}, ${attachment.object}, ${attachment.recordId}, kept.id, ${attachment.fileName},
      ${attachment.contentType}, ${attachment.bytes}, ${attachment.sha256},
      ${actor.kind}, ${actor.id}, ${actor.name}, ${userId}::uuid, ${now}::timestamptz
    from kept
    returning ${sql(columns)}`;
  return row;
}

/** @returns false if it no longer exists */
export async function deleteAttachment(sql: Sql, { companyId, testMode }: Scope, id: string): Promise<boolean> {
  const deleted = await sql`
    delete from attachments
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return deleted.count === 1;
}

export interface LinkedFile extends TenantScope {
  id: string;
  name: string;
  bytes: number;
}

/** Returns the file of an attachment, for a caller with a signed link. For the platform role. */
export async function findLinkedFile(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  attachmentId: string,
): Promise<LinkedFile | undefined> {
  const [file] = await sql<LinkedFile[]>`
    select company_id, test_mode, file_id as id, file_name as name, size_bytes as bytes
    from attachments
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${attachmentId}`;
  return file;
}
