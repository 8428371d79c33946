// Deliveries as tenants see them: listed, read, created for events, and sent again.
import type { DeliveryStatus, StoredDelivery } from '../../domain/automation/webhook-view.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

const columns = [
  'id',
  'subscription_id',
  'event_id',
  'event',
  'status',
  'attempts',
  'max_attempts',
  'next_attempt_at',
  'leased_until',
  'last_response_code',
  'last_response_snippet',
  'last_error',
  'duration_ms',
  'replay_of',
  'is_test',
  'created_at',
  'completed_at',
] as const;

export interface DeliveryFilter {
  status: DeliveryStatus | undefined;
  event: string | undefined;
  from: Date | undefined;
  to: Date | undefined;
}

/** Returns a page of a subscription's deliveries, newest first. */
export async function listDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionId: string,
  { status, event, from, to }: DeliveryFilter,
  after: readonly [createdAt: string, id: string] | undefined,
  limit: number,
): Promise<StoredDelivery[]> {
  return await sql<StoredDelivery[]>`
    select ${sql(columns)}
    from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${subscriptionId}
      ${status ? sql`and status = ${status}` : sql``}
      ${event ? sql`and event = ${event}` : sql``}
      ${from ? sql`and created_at >= ${from}` : sql``}
      ${to ? sql`and created_at <= ${to}` : sql``}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** Returns true if a subscription, which may be deleted itself, has deliveries. */
export async function hasDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionId: string,
): Promise<boolean> {
  const rows = await sql`
    select from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${subscriptionId}
    limit 1`;
  return rows.length > 0;
}

export async function findDelivery(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<(StoredDelivery & { body: string }) | undefined> {
  const [row] = await sql<(StoredDelivery & { body: string })[]>`
    select ${sql([...columns, 'body'])}
    from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return row;
}

export interface NewDelivery {
  id: string;
  subscriptionId: string;
  eventId: string;
  event: string;
  status: DeliveryStatus;
  attempts: number;
  maxAttempts: number;
  nextAttemptAt: Date | null;
  lastResponseCode: number | null;
  lastResponseSnippet: string | null;
  lastError: string | null;
  durationMs: number | null;
  replayOf: string | null;
  isTest: boolean;
  body: string;
  createdAt: Date;
  completedAt: Date | null;
}

/**
 * Rows of one statement, so that the number of parameters stays below the limit of the protocol.
 */
const batch = 1000;

export async function insertDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  deliveries: readonly NewDelivery[],
): Promise<void> {
  for (let start = 0; start < deliveries.length; start += batch) {
    const rows = deliveries.slice(start, start + batch);
    await sql`
      insert into webhook_deliveries ${sql(rows.map((row) => ({ companyId, testMode, ...row })))}`;
  }
}

/** A body as it is sent, to one subscription or many. */
export interface DeliveryMessage {
  event_id: string;
  event: string;
  body: string;
}

/** A delivery of a new event. */
export interface DeliveryOfEvent {
  id: string;
  subscription_id: string;
  /** The index of its message. */
  message: number;
  /** Stored, but not sent. */
  skipped: boolean;
}

/**
 * Adds deliveries of events. Each message is sent to the database once, even if many subscriptions
 * get it.
 * @param most the maximum of attempts of each
 */
export async function insertDeliveriesOfEvents(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  messages: readonly DeliveryMessage[],
  deliveries: readonly DeliveryOfEvent[],
  most: number,
  now: Date,
): Promise<void> {
  for (let start = 0; start < deliveries.length; start += batch) {
    const rows = deliveries.slice(start, start + batch);
    const used = [...new Set(rows.map(({ message }) => message))].map((number) => ({ number, ...messages[number] }));
    await sql`
      insert into webhook_deliveries (company_id, test_mode, id, subscription_id, event_id, event, status, max_attempts, next_attempt_at, body,
        created_at, completed_at)
      select ${companyId}, ${testMode}, d.id, d.subscription_id, m.event_id, m.event, case when d.skipped then 'skipped' else 'pending' end,
        ${most}, case when not d.skipped then ${now}::timestamptz end, m.body, ${now}, case when d.skipped then ${now}::timestamptz end
      from jsonb_to_recordset(${sql.json(rows as never)}) as d (id uuid, subscription_id uuid, message int, skipped boolean)
      join jsonb_to_recordset(${sql.json(used as never)}) as m (number int, event_id uuid, event text, body text) on m.number = d.message`;
  }
}

/** The deliveries that a replay sends again. */
export interface ReplayWindow {
  from: Date;
  to: Date;
  status: DeliveryStatus | undefined;
}

/** Returns deliveries of a window, oldest first, without tests. */
export async function findInWindow(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionId: string,
  { from, to, status }: ReplayWindow,
  limit: number,
): Promise<{ id: string; eventId: string; event: string; body: string }[]> {
  return await sql<{ id: string; eventId: string; event: string; body: string }[]>`
    select id, event_id, event, body
    from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${subscriptionId} and not is_test
      and created_at >= ${from} and created_at <= ${to}
      ${status ? sql`and status = ${status}` : sql``}
    order by created_at, id
    limit ${limit}`;
}

// The limited rows are chosen in a separate subquery: as a condition, it could run several times
// and choose other rows each time. They are passed as an array: with a join, a plan for few
// deliveries reads all rows of the company.

/**
 * Restarts undelivered deliveries with the full number of attempts, oldest first.
 * @returns how many
 */
export async function reopenDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionId: string,
  since: Date,
  limit: number,
  now: Date,
): Promise<number> {
  const reopened = await sql`
    with missed as materialized (
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${subscriptionId} and not is_test
        and created_at >= ${since} and status in ('failed', 'cancelled', 'skipped')
      order by created_at, id
      limit ${limit}
      for update
    )
    update webhook_deliveries
    set status = 'pending', attempts = 0, next_attempt_at = ${now}, completed_at = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(select id from missed))`;
  return reopened.count;
}

/**
 * Cancels waiting deliveries of a deleted subscription.
 * @returns how many; fewer than the limit: none are left
 */
export async function cancelDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionId: string,
  limit: number,
  now: Date,
): Promise<number> {
  const cancelled = await sql`
    with waiting as materialized (
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${subscriptionId}
        and status in ('pending', 'retrying')
      order by next_attempt_at
      limit ${limit}
      for update
    )
    update webhook_deliveries
    set status = 'cancelled', next_attempt_at = null, completed_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(select id from waiting))`;
  return cancelled.count;
}

/**
 * Deletes some deliveries of a company and mode, the oldest first.
 * @returns how many
 */
export async function deleteSomeDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  limit: number,
): Promise<number> {
  const gone = await sql`
    delete from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode}
      order by id
      limit ${limit}
    ))`;
  return gone.count;
}

/**
 * Returns the ids of deliveries of some events.
 * @param between the lowest and the highest id to scan. Ids contain their time
 * @param stretch the maximum number of deliveries to scan
 */
export async function findDeliveriesOfEvents(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  eventIds: readonly string[],
  [lowest, highest]: readonly [string, string],
  stretch: number,
  limit: number,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from (
      select id, event_id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and id between ${lowest} and ${highest}
      order by id limit ${stretch}
    ) d
    where event_id = any(${[...eventIds]}::uuid[])
    order by id limit ${limit}`;
  return rows.map(({ id }) => id);
}

/** The outcomes of the newest deliveries of a subscription. */
export interface RecentOutcomes {
  succeeded: number;
  /** Deliveries that succeeded or failed. Others are still under way, or were not sent. */
  ended: number;
}

/**
 * Counts the outcomes of the newest deliveries of each subscription. Reads at most `most` deliveries
 * of each, however long its history is.
 */
export async function countRecentOutcomes(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  subscriptionIds: readonly string[],
  most: number,
): Promise<Map<string, RecentOutcomes>> {
  const rows = await sql<(RecentOutcomes & { id: string })[]>`
    select wanted.id,
      (count(*) filter (where d.status = 'succeeded'))::int as succeeded,
      (count(*) filter (where d.status in ('succeeded', 'failed')))::int as ended
    from unnest(${[...subscriptionIds]}::uuid[]) wanted (id)
    cross join lateral (
      select status from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = wanted.id
      order by created_at desc, id desc
      limit ${most}
    ) d
    group by wanted.id`;
  return new Map(rows.map(({ id, ...outcomes }) => [id, outcomes]));
}
