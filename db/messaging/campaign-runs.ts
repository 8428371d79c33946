// Runs of campaigns and their prepared drafts. Callers that change a run have locked its campaign.
import { hash } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { PreparedMessage, RunContent, StoredRun } from '../../domain/messaging/campaigns.ts';
import type { StoredDraft } from '../../domain/messaging/drafts.ts';
import type { CreatedByRow } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface RunRow extends StoredRun, CreatedByRow {
  createdByUser: string | null;
}

const columns = [
  'id',
  'campaign_id',
  'status',
  'content',
  'content_hash',
  'last_record',
  'audience',
  'total',
  'skipped',
  'error_summary',
  'started_at',
  'finished_at',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_by_user',
  'created_at',
];

/**
 * Returns runs of a campaign, the newest first.
 * @param after time and id of the last run of the previous page
 */
export async function listRuns(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  campaignId: string,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<RunRow[]> {
  return sql<RunRow[]>`
    select ${sql(columns)} from campaign_runs
    where company_id = ${companyId} and test_mode = ${testMode} and campaign_id = ${campaignId}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Returns the run that is being prepared, or waits to be prepared. */
export async function findActiveRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  campaignId: string,
): Promise<RunRow | undefined> {
  const [row] = await sql<RunRow[]>`
    select ${sql(columns)} from campaign_runs
    where company_id = ${companyId} and test_mode = ${testMode} and campaign_id = ${campaignId} and status in ('queued', 'running')`;
  return row;
}

export async function insertRun(sql: Sql, { companyId, testMode }: TenantScope, run: RunRow): Promise<void> {
  const row = { companyId, testMode, ...run, content: sql.json(run.content as never) };
  await sql`insert into campaign_runs ${sql(row as never)}`;
}

export async function updateRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  changes: Partial<Omit<StoredRun, 'id' | 'content'>>,
): Promise<void> {
  await sql`
    update campaign_runs set ${sql(changes)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/**
 * Returns a hash of 32 bytes of what a person approves.
 * @param total the number of prepared drafts
 */
export function hashOfRun(content: RunContent, total: number): Buffer {
  return hash('sha256', JSON.stringify([content, total]), 'buffer');
}

/**
 * Inserts drafts for messages, except for recipients that already have one from this run.
 * @returns how many were inserted
 */
export async function insertRunDrafts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id: runId, campaignId, content, ...by }: RunRow,
  messages: readonly PreparedMessage[],
  now: Date,
): Promise<number> {
  if (messages.length === 0) return 0;
  const rows = messages.map((message) => ({ ...message, id: uuidv7() }));
  const made = await sql`
    insert into message_drafts (company_id, test_mode, id, channel, status, recipient, sender, subject, body, object, record_id, campaign_id, run_id,
      created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
    select ${companyId}, ${testMode}, m.id, m.channel, 'draft', m.recipient, m.sender, m.subject, m.body, ${content.object}, m."recordId",
      ${campaignId}, ${runId}, ${by.createdByKind}, ${by.createdById}, ${by.createdByName}, ${by.createdByUser}, ${now}, ${now}
    from jsonb_to_recordset(${sql.json(rows as never)}) as m (id uuid, channel text, recipient text, sender text, subject text, body text, "recordId" uuid)
    on conflict (company_id, test_mode, run_id, channel, recipient) where run_id is not null do nothing`;
  return made.count;
}

/** A draft that was withdrawn with its campaign. */
export type TakenBack = Pick<StoredDraft, 'id' | 'channel' | 'object' | 'recordId' | 'campaignId'> & {
  was: 'draft' | 'approved';
};

/**
 * Withdraws some drafts of a campaign that are not being sent.
 * @returns the withdrawn drafts; an empty list if there are no more
 */
export async function withdrawSome(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  campaignId: string,
  reason: string,
  limit: number,
  now: Date,
): Promise<TakenBack[]> {
  return sql<TakenBack[]>`
    with open as (
      select id, status from message_drafts
      where company_id = ${companyId} and test_mode = ${testMode} and campaign_id = ${campaignId} and status in ('draft', 'approved')
        and (leased_until is null or leased_until <= ${now})
        -- A draft that may have been sent is not withdrawn: its sender finds out.
        and attempted_at is null
      limit ${limit}
      for no key update
    )
    update message_drafts d
    set status = 'withdrawn', withdrawal_reason = ${reason}, due_at = null, updated_at = ${now}
    from open
    where d.company_id = ${companyId} and d.test_mode = ${testMode} and d.id = open.id
    returning d.id, d.channel, d.object, d.record_id, d.campaign_id, open.status as was`;
}
