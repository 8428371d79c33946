// Decisions of people about drafts: about one, or about all drafts of a run.
import type { RunContent } from '../../domain/messaging/campaigns.ts';
import type { DraftChannel, StoredDraft } from '../../domain/messaging/drafts.ts';
import type { Sql } from '../client/pool.ts';
import type { DueDataRow } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { type DraftRow, draftColumns } from './drafts.ts';

/** A draft with the hash of what a person sees of it, in hexadecimal. */
export type HashedDraft = DraftRow & { hash: string };

export type Decision = 'approved' | 'rejected';

/** A decision, and who made it. */
export interface Decided {
  decision: Decision;
  userId: string;
  userName: string | null;
  /** The reason of a rejection. */
  reason: string | null;
  at: Date;
}

/** Hashes everything that is sent. Different contents give different texts. */
const selectHash = (sql: Sql) =>
  sql`encode(sha256(convert_to(jsonb_build_array(channel, sender, recipient, subject, body)::text, 'UTF8')), 'hex') as hash`;

/**
 * Returns drafts that wait for a separate decision, the newest first.
 * @param channel undefined: drafts of every channel
 * @param after time and id of the last draft of the previous page
 */
export async function listUndecided(
  sql: Sql,
  scope: Scope,
  channel: DraftChannel | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<HashedDraft[]> {
  return sql<HashedDraft[]>`
    select ${sql(draftColumns)}, ${selectHash(sql)} from message_drafts
    where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and ${isVisibleTo(sql, scope, 'unassigned')}
      and status = 'draft' and run_id is null ${channel ? sql`and channel = ${channel}` : sql``}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

const selectHashedDrafts = (sql: Sql, scope: Scope, ids: readonly string[]) => sql`
  select ${sql(draftColumns)}, ${selectHash(sql)} from message_drafts
  where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and id = any(${[...ids]}::uuid[])
    and ${isVisibleTo(sql, scope, 'unassigned')}`;

/** Returns those of the drafts that exist and are visible, the newest first. */
export async function findHashedDrafts(sql: Sql, scope: Scope, ids: readonly string[]): Promise<HashedDraft[]> {
  return sql<HashedDraft[]>`${selectHashedDrafts(sql, scope, ids)} order by created_at desc, id desc`;
}

/**
 * Does the same, with locks until the transaction ends. Drafts are locked in the order of their ids,
 * so that two decisions about the same drafts do not deadlock.
 */
export async function lockHashedDrafts(sql: Sql, scope: Scope, ids: readonly string[]): Promise<HashedDraft[]> {
  return sql<HashedDraft[]>`${selectHashedDrafts(sql, scope, ids)} order by id for no key update`;
}

/** Returns the new column values of a decided draft. An approved draft is due immediately. */
const toDecidedColumns = ({ decision, userId, userName, reason, at }: Decided, now: Date) =>
  decision === 'approved'
    ? {
        status: decision,
        approvedBy: userId,
        approvedByName: userName,
        approvedAt: at,
        dueAt: now,
        updatedAt: now,
      }
    : {
        status: decision,
        rejectedBy: userId,
        rejectedByName: userName,
        rejectedAt: at,
        rejectionReason: reason,
        updatedAt: now,
      };

/** Decides about drafts. The caller has locked them. */
export async function decideDrafts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  ids: readonly string[],
  decided: Decided,
): Promise<void> {
  await sql`
    update message_drafts set ${sql(toDecidedColumns(decided, decided.at))}
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${[...ids]}::uuid[])`;
}

/** A run that waits for a decision. */
export interface UndecidedRun {
  status: string;
  isCancelled: boolean;
  /** null: undecided. */
  decision: Decision | null;
  /** The prepared drafts match the hash. */
  isAsShown: boolean;
}

/**
 * Compares a run with what a person saw of it, and locks it until the transaction ends.
 * @param hash in hexadecimal; null: the person has seen nothing
 */
export async function lockRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  campaignId: string,
  runId: string,
  hash: string | null,
): Promise<UndecidedRun | undefined> {
  const [row] = await sql<UndecidedRun[]>`
    select r.status, r.decision, coalesce(encode(r.content_hash, 'hex') = ${hash}, false) as is_as_shown,
      exists (
        select from campaigns c
        where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = ${campaignId} and c.status = 'cancelled'
      ) as is_cancelled
    from campaign_runs r
    where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.campaign_id = ${campaignId} and r.id = ${runId}
    for no key update`;
  return row;
}

/**
 * Stores the decision about all drafts of a run; a job carries it out. The caller has locked the
 * run.
 */
export async function decideRun(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  runId: string,
  { decision, userId, userName, reason, at }: Decided,
): Promise<void> {
  const decided = { decision, decidedBy: userId, decidedByName: userName, decidedAt: at };
  await sql`
    update campaign_runs set ${sql({ ...decided, rejectionReason: reason, decisionDueAt: at })}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${runId}`;
}

/** Finds runs with decisions to carry out, the longest overdue first. */
export async function findDecidedRuns(sql: Sql, limit: number, due: DueTime): Promise<DueDataRow[]> {
  return sql<DueDataRow[]>`
    select company_id, test_mode, id from campaign_runs
    where decision_due_at <= ${due.now} and ${belongsToRun(sql, 'campaign_runs', due)} order by decision_due_at limit ${limit}`;
}

/** The stored decision about a run. */
export interface DecidedRun extends Decided {
  campaignId: string;
  isCancelled: boolean;
}

/** Takes a decision that is due, for one server only and until the transaction ends. */
export async function takeDecision(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  runId: string,
  now: Date,
): Promise<DecidedRun | undefined> {
  const [row] = await sql<DecidedRun[]>`
    select r.campaign_id, r.decision, r.decided_by as user_id, r.decided_by_name as user_name,
      r.rejection_reason as reason, r.decided_at as at,
      exists (
        select from campaigns c
        where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = r.campaign_id and c.status = 'cancelled'
      ) as is_cancelled
    from campaign_runs r
    where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.id = ${runId} and r.decision_due_at <= ${now}
    for no key update skip locked`;
  return row;
}

/** Schedules the next part of a decision; null: it is carried out. */
export async function noteDecision(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  runId: string,
  dueAt: Date | null,
): Promise<void> {
  await sql`
    update campaign_runs set decision_due_at = ${dueAt}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${runId}`;
}

/**
 * Carries out a decision for some undecided drafts of a run.
 * @returns these drafts; an empty list if there are no more
 */
export async function decideSome(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  runId: string,
  decided: DecidedRun,
  limit: number,
  now: Date,
): Promise<Pick<StoredDraft, 'id' | 'channel' | 'object' | 'recordId' | 'campaignId'>[]> {
  // Materialized so that every plan chooses the rows once: a step is no larger than its limit.
  return sql`
    with chosen as materialized (
      select id from message_drafts
      where company_id = ${companyId} and test_mode = ${testMode} and campaign_id = ${decided.campaignId} and run_id = ${runId}
        and channel in ('sms', 'email', 'whatsapp') and status = 'draft'
      limit ${limit}
      for no key update
    )
    update message_drafts set ${sql(toDecidedColumns(decided, now))}
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(select id from chosen))
    returning id, channel, object, record_id, campaign_id`;
}

/** A prepared run as a person sees it before deciding. */
export interface RunToDecide {
  id: string;
  campaignId: string;
  campaignName: string;
  content: RunContent;
  total: number;
  skipped: number;
  /** Of the content and the number of drafts, in hexadecimal. */
  hash: string;
}

const selectRunsToDecide = (sql: Sql, { companyId, testMode }: TenantScope) => sql`
  select r.id, r.campaign_id, c.name as campaign_name, r.content, r.total, r.skipped, encode(r.content_hash, 'hex') as hash
  from campaign_runs r
  join campaigns c on c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = r.campaign_id and c.status <> 'cancelled'
  where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.status = 'completed' and r.decision is null and r.total > 0`;

/** Returns runs that wait for a decision, the newest first. */
export async function listRunsToDecide(sql: Sql, scope: TenantScope, limit: number): Promise<RunToDecide[]> {
  return sql<RunToDecide[]>`${selectRunsToDecide(sql, scope)} order by r.created_at desc, r.id desc limit ${limit}`;
}

export async function findRunToDecide(
  sql: Sql,
  scope: TenantScope,
  campaignId: string,
  runId: string,
): Promise<RunToDecide | undefined> {
  const [row] = await sql<RunToDecide[]>`
    ${selectRunsToDecide(sql, scope)} and r.campaign_id = ${campaignId} and r.id = ${runId}`;
  return row;
}
