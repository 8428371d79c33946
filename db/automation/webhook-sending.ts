// What senders do: find what is due, take deliveries for an attempt, and note its outcome.
import type { Health } from '../../domain/automation/webhook-attempts.ts';
import type { DeliveryStatus } from '../../domain/automation/webhook-view.ts';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface DueWebhook extends TenantScope {
  id: string;
}

/** Subscriptions that a sender has to look at, those first that have waited longest. @param besides those that are left out */
export async function findDueWebhooks(
  sql: Sql,
  besides: readonly string[],
  limit: number,
  now: Date,
): Promise<DueWebhook[]> {
  return await sql<DueWebhook[]>`
    select company_id, test_mode, id
    from webhook_subscriptions
    where due_at <= ${now} and id <> all(${[...besides]}::uuid[])
    order by due_at
    limit ${limit}`;
}

/** A subscription as its senders see it. */
export interface SendingWebhook {
  url: string;
  sealedSecret: string;
  sealedPreviousSecret: string | null;
  previousSecretExpiresAt: Date | null;
  isDisabled: boolean;
  isDeleted: boolean;
  /** In milliseconds since 1970. */
  recentAttempts: number[];
  consecutiveFailures: number;
  /** Deliveries on their way. */
  inFlight: number;
  /** When the first of them may be taken again, should its sender have ended; null: none is on its way. */
  firstLeaseEnds: Date | null;
}

/** Keeps a subscription for this sender until its transaction ends; undefined where another has it, or nothing is due any more. */
export async function lockDueWebhook(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
  now: Date,
): Promise<SendingWebhook | undefined> {
  const locked = sql<Omit<SendingWebhook, 'inFlight' | 'firstLeaseEnds'>[]>`
    select url, sealed_secret, sealed_previous_secret,
      previous_secret_expires_at, disabled_at is not null as is_disabled,
      deleted_at is not null as is_deleted, recent_attempts, consecutive_failures
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and due_at <= ${now}
    for update skip locked`.execute();
  // Runs after the lock, so that what the sender before took is counted.
  const counted = sql<Pick<SendingWebhook, 'inFlight' | 'firstLeaseEnds'>[]>`
    select count(*)::int as in_flight, min(leased_until) as first_lease_ends from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${id} and leased_until > ${now}`.execute();
  const [[row], [underway]] = await Promise.all([locked, counted]);
  return row && { inFlight: 0, firstLeaseEnds: null, ...underway, ...row };
}

export interface TakenDelivery {
  id: string;
  eventId: string;
  event: string;
  /** This one included. */
  attempts: number;
  maxAttempts: number;
  body: string;
}

// Deliveries are named in an array: joined, a plan that was made for few of them reads all of the company.

/** How long a delivery stays with its sender, and when it is due again if the sender dies. */
export interface Claim {
  leasedUntil: Date;
  /** By the number of the attempt that is lost with the sender: when the next one is due. Not before the lease ends. */
  retryAt: readonly Date[];
}

/**
 * Takes deliveries that are due, with the attempt counted before it begins. If the sender dies, the attempt counts as
 * failed: the next one follows the schedule, and after the last one the delivery has failed. A delivery that kills its
 * sender therefore does so no more often than it has attempts.
 *
 * @returns those that are to be sent
 */
export async function takeDeliveries(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
  limit: number,
  { leasedUntil, retryAt }: Claim,
  now: Date,
): Promise<TakenDelivery[]> {
  const rows = await sql<(TakenDelivery & { status: DeliveryStatus })[]>`
    with due as materialized (
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${id}
        and status in ('pending', 'retrying') and next_attempt_at <= ${now}
      order by next_attempt_at, id
      limit ${limit}
      for update skip locked
    )
    update webhook_deliveries
    set attempts = least(attempts + 1, max_attempts),
      next_attempt_at = case when attempts < max_attempts
        then greatest(${leasedUntil}::timestamptz, (${retryAt.map((at) => at.toISOString())}::timestamptz[])[attempts + 1]) end,
      leased_until = case when attempts < max_attempts then ${leasedUntil}::timestamptz end,
      status = case when attempts < max_attempts then status else 'failed' end,
      last_error = case when attempts < max_attempts then last_error else 'timeout' end,
      completed_at = case when attempts < max_attempts then completed_at else ${now}::timestamptz end
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(select id from due))
    returning id, event_id, event, attempts, max_attempts, body, status`;
  return rows.filter(({ status }) => status !== 'failed');
}

/** What a sender leaves of a subscription that it has looked at. */
export interface LookedAt {
  recentAttempts: readonly number[];
  /** No earlier than this; null: when the next delivery is due. */
  notBefore: Date | null;
}

/** Notes when the subscription is to be looked at next, and whether more is due than may be on its way. */
export async function noteLook(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
  { recentAttempts, notBefore }: LookedAt,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set recent_attempts = ${`{${recentAttempts.join(',')}}`}::text::bigint[], is_held = coalesce(waiting.next_at <= ${now}, false),
      due_at = greatest(waiting.next_at, ${notBefore}::timestamptz)
    from (
      select min(next_attempt_at) as next_at
      from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${id} and status in ('pending', 'retrying')
    ) waiting
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Nothing of a disabled subscription is sent, until it is enabled again. */
export async function rest(sql: Sql, { companyId, testMode, id }: DueWebhook): Promise<void> {
  await sql`
    update webhook_subscriptions
    set due_at = null, is_held = false
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** How an attempt ended. */
export interface NewOutcome {
  deliveryId: string;
  /** The attempt: should another have begun meanwhile, that one says what becomes of the delivery. */
  attempts: number;
  status: DeliveryStatus;
  nextAttemptAt: Date | null;
  responseCode: number | null;
  snippet: string | null;
  error: string | null;
  durationMs: number;
}

/** Notes how attempts of one subscription ended. */
export async function noteOutcomes(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  outcomes: readonly NewOutcome[],
  now: Date,
): Promise<void> {
  await sql`
    update webhook_deliveries d
    set status = o.status, next_attempt_at = o."nextAttemptAt", leased_until = null, last_response_code = o."responseCode",
      last_response_snippet = o.snippet, last_error = o.error, duration_ms = o."durationMs",
      completed_at = case when o."nextAttemptAt" is null then ${now}::timestamptz end
    from jsonb_to_recordset(${sql.json(outcomes as never)}) as o ("deliveryId" uuid, attempts int, status text, "nextAttemptAt" timestamptz,
      "responseCode" int, snippet text, error text, "durationMs" int)
    where d.company_id = ${companyId} and d.test_mode = ${testMode} and d.id = any(${outcomes.map(({ deliveryId }) => deliveryId)}::uuid[])
      and d.id = o."deliveryId" and d.attempts = o.attempts
      and d.status in ('pending', 'retrying')`;
}

/** Keeps the health of a receiver from changing under this transaction. */
export async function lockHealth(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
): Promise<(Health & { isDisabled: boolean; url: string }) | undefined> {
  const [row] = await sql<(Health & { isDisabled: boolean; url: string })[]>`
    select failing_since, consecutive_failures,
      exhausted_deliveries, warned_at, probing_since,
      disabled_at is not null as is_disabled, url
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}
    for update`;
  return row;
}

/** What attempts leave of their subscription. */
export interface AttemptTrace {
  health: Health;
  succeeded: boolean;
  /** When the first of the deliveries is tried again; null: none is. */
  nextAttemptAt: Date | null;
  disabledReason: 'failures' | 'gone' | null;
}

/** Has the next look no later than what waits needs it: who holds the row sees all that others asked for before. */
export async function noteAttempt(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
  { health, succeeded, nextAttemptAt, disabledReason }: AttemptTrace,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set last_delivery_at = ${now}, last_success_at = ${succeeded ? now : sql`last_success_at`},
      failing_since = ${health.failingSince}, consecutive_failures = ${health.consecutiveFailures},
      exhausted_deliveries = ${health.exhaustedDeliveries}, warned_at = ${health.warnedAt}, probing_since = ${health.probingSince},
      due_at = least(due_at, ${nextAttemptAt}::timestamptz, case when is_held then ${now}::timestamptz end)
      ${disabledReason ? sql`, disabled_reason = ${disabledReason}, disabled_at = ${now}, updated_at = ${now}` : sql``}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** How many deliveries wait, as far as it is worth counting. */
export async function countPending(sql: Sql, most: number): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count
    from (select from webhook_deliveries where status in ('pending', 'retrying') limit ${most}) waiting`;
  return row?.count ?? 0;
}

/** Days that a delivery is shown, and can be sent again. */
const keptDays = 30;

/** Removes deliveries that are past their time. @returns how many, at most the limit */
export async function sweepDeliveries(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<DueRow[]>`
    select company_id, id from webhook_deliveries
    where created_at < ${before} order by created_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from webhook_deliveries
      where company_id = ${companyId} and created_at < ${before} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}
