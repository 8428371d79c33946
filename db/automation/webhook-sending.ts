// Statements of webhook senders: find due deliveries, take them, and store the outcomes.
import type { Health } from '../../domain/automation/webhook-attempts.ts';
import type { DeliveryStatus } from '../../domain/automation/webhook-view.ts';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';
import { activateNext } from './webhook-order.ts';

export interface DueWebhook extends TenantScope {
  id: string;
}

/**
 * Finds subscriptions that are due for a sender, the longest overdue first.
 * @param besides those that are left out
 */
export async function findDueWebhooks(
  sql: Sql,
  besides: readonly string[],
  limit: number,
  due: DueTime,
): Promise<DueWebhook[]> {
  return await sql<DueWebhook[]>`
    select company_id, test_mode, id
    from webhook_subscriptions
    where due_at <= ${due.now} and id <> all(${[...besides]}::uuid[]) and ${belongsToRun(sql, 'webhook_subscriptions', due)}
    order by due_at
    limit ${limit}`;
}

/** A subscription as its senders see it. */
export interface SendingWebhook {
  url: string;
  sealedSecret: string;
  sealedPreviousSecret: string | null;
  sealedSigningKey: string | null;
  sealedPreviousSigningKey: string | null;
  sealedHeaders: string | null;
  maxPerSecond: number;
  previousSecretExpiresAt: Date | null;
  isDisabled: boolean;
  isDeleted: boolean;
  /** In milliseconds since 1970. */
  recentAttempts: number[];
  consecutiveFailures: number;
  /** Deliveries that are being sent. */
  inFlight: number;
  /** When the first of them may be taken again if its sender ends; null: none is being sent. */
  firstLeaseEnds: Date | null;
}

/**
 * Locks a subscription until the transaction ends; undefined if another sender has it, or if
 * nothing is due any longer.
 * @param realNow for leases, which are on the real time also if the clock of test mode is ahead
 */
export async function lockDueWebhook(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
  now: Date,
  realNow: Date,
): Promise<SendingWebhook | undefined> {
  const locked = sql<Omit<SendingWebhook, 'inFlight' | 'firstLeaseEnds'>[]>`
    select url, sealed_secret, sealed_previous_secret, sealed_headers, max_per_second,
      sealed_signing_key, sealed_previous_signing_key,
      previous_secret_expires_at, disabled_at is not null as is_disabled,
      deleted_at is not null as is_deleted, recent_attempts, consecutive_failures
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and due_at <= ${now}
    for update skip locked`.execute();
  // Runs after the lock, so that it counts what the previous sender took.
  const counted = sql<Pick<SendingWebhook, 'inFlight' | 'firstLeaseEnds'>[]>`
    select count(*)::int as in_flight, min(leased_until) as first_lease_ends from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${id} and leased_until > ${realNow}`.execute();
  const [[row], [underway]] = await Promise.all([locked, counted]);
  return row && { inFlight: 0, firstLeaseEnds: null, ...underway, ...row };
}

export interface TakenDelivery {
  id: string;
  eventId: string;
  event: string;
  /** Including the current one. */
  attempts: number;
  maxAttempts: number;
  body: string;
  /** The record in whose queue it is; null: it is in none. */
  queuedFor: string | null;
}

// Deliveries are passed as an array: with a join, a plan for few of them reads all rows of the
// company.

/** How long a delivery stays with its sender, and when it is due again if the sender dies. */
export interface Claim {
  /** On the real time, so that advancing the clock of test mode does not end the lease. */
  leasedUntil: Date;
  /**
   * When the next attempt is due, by the number of the attempt that is lost with the sender. Not
   * before the lease ends.
   */
  retryAt: readonly Date[];
}

/**
 * Takes due deliveries, and counts the attempt before it begins. If the sender dies, the attempt
 * counts as failed: the next one follows the schedule, and after the last one the delivery has
 * failed. So a delivery that kills its sender does so at most as often as it has attempts. If it was
 * in the queue of a record, the next one follows.
 *
 * @param realNow the real time, for leases
 * @returns the deliveries to send
 */
export async function takeDeliveries(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
  limit: number,
  { leasedUntil, retryAt }: Claim,
  now: Date,
  realNow: Date,
): Promise<TakenDelivery[]> {
  const rows = await sql<(TakenDelivery & { status: DeliveryStatus })[]>`
    with due as materialized (
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${id}
        and status in ('pending', 'retrying') and next_attempt_at <= ${now} and (leased_until is null or leased_until <= ${realNow})
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
    returning id, event_id, event, attempts, max_attempts, body, status, case when is_ordered then record_id end as queued_for`;
  const lost = rows.flatMap(({ status, queuedFor }) => (status === 'failed' ? (queuedFor ?? []) : []));
  await activateNext(sql, { companyId, testMode }, id, lost, now);
  return rows.filter(({ status }) => status !== 'failed');
}

/** The state of a subscription after a sender has processed it. */
export interface LookedAt {
  recentAttempts: readonly number[];
  /** No earlier than this; null: when the next delivery is due. */
  notBefore: Date | null;
}

/**
 * Stores when the subscription is due next, and whether more deliveries are due than may be sent at
 * the same time.
 */
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

/** Pauses deliveries of a disabled subscription until it is enabled again. */
export async function pauseDeliveries(sql: Sql, { companyId, testMode, id }: DueWebhook): Promise<void> {
  await sql`
    update webhook_subscriptions
    set due_at = null, is_held = false
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** The outcome of an attempt. */
export interface NewOutcome {
  deliveryId: string;
  /**
   * The number of the attempt. If another one has begun meanwhile, that one decides the status of
   * the delivery.
   */
  attempts: number;
  status: DeliveryStatus;
  nextAttemptAt: Date | null;
  responseCode: number | null;
  snippet: string | null;
  error: string | null;
  durationMs: number;
}

/** Stores the outcomes of attempts of one subscription. */
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

/** A receiver before the outcomes of attempts are recorded. */
export interface ReceiverBefore extends Health {
  isDisabled: boolean;
  url: string;
  attemptCounts: number[];
}

/** Returns the health of a receiver and locks it until the transaction ends. */
export async function lockHealth(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
): Promise<ReceiverBefore | undefined> {
  const [row] = await sql<ReceiverBefore[]>`
    select failing_since, consecutive_failures, attempt_counts,
      exhausted_deliveries, warned_at, probing_since,
      disabled_at is not null as is_disabled, url
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}
    for update`;
  return row;
}

/** The effect of attempts on their subscription. */
export interface AttemptEffect {
  health: Health;
  succeeded: boolean;
  attemptCounts: readonly number[];
  /** When the first of the deliveries is tried again; null: none is. */
  nextAttemptAt: Date | null;
  disabledReason: 'failures' | 'gone' | null;
}

/**
 * Stores the effect, and moves the next run of a sender forward if a waiting delivery needs it. The
 * lock of the row makes earlier changes of other senders visible.
 */
export async function noteAttempt(
  sql: Sql,
  { companyId, testMode, id }: DueWebhook,
  { health, succeeded, attemptCounts, nextAttemptAt, disabledReason }: AttemptEffect,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set last_delivery_at = ${now}, last_success_at = ${succeeded ? now : sql`last_success_at`},
      attempt_counts = ${`{${attemptCounts.join(',')}}`}::text::int[],
      failing_since = ${health.failingSince}, consecutive_failures = ${health.consecutiveFailures},
      exhausted_deliveries = ${health.exhaustedDeliveries}, warned_at = ${health.warnedAt}, probing_since = ${health.probingSince},
      due_at = least(due_at, ${nextAttemptAt}::timestamptz, case when is_held then ${now}::timestamptz end)
      ${disabledReason ? sql`, disabled_reason = ${disabledReason}, disabled_at = ${now}, updated_at = ${now}` : sql``}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Counts waiting deliveries, up to a limit. */
export async function countPending(sql: Sql, most: number): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count
    from (select from webhook_deliveries where status in ('pending', 'retrying') limit ${most}) waiting`;
  return row?.count ?? 0;
}

/** Days for which a delivery is kept and can be sent again. */
const keptDays = 30;

/**
 * Removes expired deliveries. Those that wait in the queue of a record stay until they end.
 * @returns how many, at most the limit
 */
export async function sweepDeliveries(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<DueRow[]>`
    select company_id, id from webhook_deliveries
    where created_at < ${before} and not (is_ordered and status in ('pending', 'retrying')) order by created_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from webhook_deliveries
      where company_id = ${companyId} and created_at < ${before} and not (is_ordered and status in ('pending', 'retrying'))
        and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}
