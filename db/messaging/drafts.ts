// Message drafts: prepared, approved or rejected by people, and sent by a job.
import type { DraftChannel, DraftStatus, StoredDraft } from '../../domain/messaging/drafts.ts';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import { setPlanning } from '../client/pipeline.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { findFirstVisible } from '../records/reached.ts';

export interface DraftRow extends StoredDraft, CreatedByRow {}

/** Columns of DraftRow. */
export const draftColumns = [
  'id',
  'channel',
  'status',
  'recipient',
  'sender',
  'subject',
  'body',
  'object',
  'record_id',
  'note',
  'campaign_id',
  'run_id',
  'approved_by',
  'approved_by_name',
  'approved_at',
  'rejected_by',
  'rejected_by_name',
  'rejected_at',
  'rejection_reason',
  'withdrawal_reason',
  'sent_at',
  'provider_ref',
  'error_code',
  'error_message',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
  'updated_at',
];

const draftTable = { name: 'message_drafts', object: undefined, assigned: 'unassigned' } as const;

export interface DraftFilter {
  status: DraftStatus | undefined;
  channel: DraftChannel | undefined;
  object: string | undefined;
  recordId: string | undefined;
}

/**
 * Returns drafts, the newest first.
 * @param after time and id of the last draft of the previous page
 */
export async function listDrafts(
  sql: Sql,
  scope: Scope,
  { status, channel, object, recordId }: DraftFilter,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<DraftRow[]> {
  const wanted = sql`
    ${status ? sql`and r.status = ${status}` : sql``}
    ${channel ? sql`and r.channel = ${channel}` : sql``}
    ${object ? sql`and r.object = ${object} and r.record_id is not null` : sql``}
    ${recordId ? sql`and r.record_id = ${recordId}` : sql``}
    ${after ? sql`and (r.created_at, r.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by r.created_at desc, r.id desc
    limit ${limit}`;
  const source = await findFirstVisible(sql, scope, draftTable, wanted);
  const query = sql<DraftRow[]>`select ${sql(draftColumns)} from ${source.rows} where ${source.where} ${wanted}`;
  if (source.isOfEach) setPlanning(query, 'once');
  return query;
}

export async function findDraft(sql: Sql, scope: Scope, id: string): Promise<DraftRow | undefined> {
  const [row] = await sql<DraftRow[]>`
    select ${sql(draftColumns)} from message_drafts
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and id = ${id} and ${isVisibleTo(sql, scope, 'unassigned')}`;
  return row;
}

/** Does the same, with a lock until the transaction ends. */
export async function lockDraft(sql: Sql, scope: Scope, id: string): Promise<DraftRow | undefined> {
  const [row] = await sql<DraftRow[]>`
    select ${sql(draftColumns)} from message_drafts
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and id = ${id} and ${isVisibleTo(sql, scope, 'unassigned')}
    for no key update`;
  return row;
}

/** @param by the creator */
export async function insertDraft(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  draft: StoredDraft,
  by: Parameters<typeof toCreatedColumns>[0],
): Promise<void> {
  await sql`
    insert into message_drafts ${sql({ companyId, testMode, ...draft, ...toCreatedColumns(by) })}`;
}

/** Withdraws a draft. The caller has locked it. */
export async function withdrawDraft(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  reason: string | null,
  now: Date,
): Promise<void> {
  await sql`
    update message_drafts set status = 'withdrawn', withdrawal_reason = ${reason}, updated_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}
