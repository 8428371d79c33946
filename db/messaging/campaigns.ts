// Campaigns: content and recipients. Callers that change a campaign have locked it.
import type { CampaignStatus, StoredCampaign } from '../../domain/messaging/campaigns.ts';
import type { DraftChannel, DraftStatus } from '../../domain/messaging/drafts.ts';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { DueDataRow } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';

export interface CampaignRow extends StoredCampaign, CreatedByRow {
  createdByUser: string | null;
}

const columns = [
  'id',
  'name',
  'description',
  'status',
  'object',
  'filter',
  'channels',
  'audience_size',
  'scheduled_at',
  'started_at',
  'completed_at',
  'due_at',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_by_user',
  'created_at',
  'updated_at',
];

/**
 * Returns campaigns, the newest first.
 * @param after time and id of the last campaign of the previous page
 */
export async function listCampaigns(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  status: CampaignStatus | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<CampaignRow[]> {
  return sql<CampaignRow[]>`
    select ${sql(columns)} from campaigns
    where company_id = ${companyId} and test_mode = ${testMode}
      ${status ? sql`and status = ${status}` : sql``}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

export async function findCampaign(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<CampaignRow | undefined> {
  const [row] = await sql<CampaignRow[]>`
    select ${sql(columns)} from campaigns where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return row;
}

/**
 * Does the same, with a lock until the transaction ends. The job that creates runs takes this lock,
 * too.
 */
export async function lockCampaign(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<CampaignRow | undefined> {
  const [row] = await sql<CampaignRow[]>`
    select ${sql(columns)} from campaigns
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}
    for no key update`;
  return row;
}

/** @param by the creator */
export async function insertCampaign(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  campaign: StoredCampaign,
  by: Parameters<typeof toCreatedColumns>[0],
): Promise<void> {
  const row = { ...campaign, ...toJsonColumns(sql, campaign), ...toCreatedColumns(by) };
  await sql`insert into campaigns ${sql({ companyId, testMode, ...row } as never)}`;
}

export async function updateCampaign(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  changes: Partial<Omit<StoredCampaign, 'id' | 'createdAt'>>,
): Promise<void> {
  await sql`
    update campaigns set ${sql({ ...changes, ...toJsonColumns(sql, changes) } as never)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Marks the columns that are stored as JSON. */
function toJsonColumns(sql: Sql, { filter, channels }: Partial<StoredCampaign>) {
  return {
    ...(filter ? { filter: sql.json(filter as never) } : {}),
    ...(channels ? { channels: sql.json(channels as never) } : {}),
  };
}

/** The number of drafts of a campaign's run in one status. */
export interface DraftCount {
  runId: string;
  channel: DraftChannel;
  status: DraftStatus;
  count: number;
}

/** Counts with an index of the campaign's drafts. */
export async function countDrafts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  campaignId: string,
): Promise<DraftCount[]> {
  return sql<DraftCount[]>`
    select run_id, channel, status, count(*)::int as count from message_drafts
    where company_id = ${companyId} and test_mode = ${testMode} and campaign_id = ${campaignId}
    group by run_id, channel, status`;
}

/** Finds campaigns that have due work for the job, the longest overdue first. */
export async function findDueCampaigns(sql: Sql, limit: number, due: DueTime): Promise<DueDataRow[]> {
  return sql<DueDataRow[]>`
    select company_id, test_mode, id from campaigns
    where due_at <= ${due.now} and ${belongsToRun(sql, 'campaigns', due)} order by due_at limit ${limit}`;
}

/**
 * Takes a campaign that is due, for one server only.
 * @returns undefined if another server has it, or if nothing is due any longer
 */
export async function takeCampaign(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<CampaignRow | undefined> {
  const [row] = await sql<CampaignRow[]>`
    select ${sql(columns)} from campaigns
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and due_at <= ${now}
    for no key update skip locked`;
  return row;
}
