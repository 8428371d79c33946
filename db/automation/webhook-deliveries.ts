// Deliveries as tenants see them: listed, read, created for events, and sent again.
import type { DeliveryStatus, StoredDelivery } from '../../domain/automation/webhook-view.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { activateNext, lockAllQueues } from './webhook-order.ts';
import { wakeWebhooks } from './webhooks.ts';

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
  /** undefined: of all subscriptions, deleted ones included. */
  subscriptionId?: string | undefined;
  status: DeliveryStatus | undefined;
  event: string | undefined;
  from: Date | undefined;
  to: Date | undefined;
}

/** Returns a page of deliveries, newest first. */
export async function listDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { subscriptionId, status, event, from, to }: DeliveryFilter,
  after: readonly [createdAt: string, id: string] | undefined,
  limit: number,
): Promise<StoredDelivery[]> {
  return await sql<StoredDelivery[]>`
    select ${sql(columns)}
    from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode}
      ${subscriptionId ? sql`and subscription_id = ${subscriptionId}` : sql``}
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

/** The event of a delivery. */
export interface DeliveredEvent {
  /** null: it is about no record. */
  recordId: string | null;
  /** In the feed; 0: it has none. */
  position: number;
  body: string;
}

export async function findDelivery(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<(StoredDelivery & DeliveredEvent) | undefined> {
  const [row] = await sql<(StoredDelivery & DeliveredEvent)[]>`
    select ${sql([...columns, 'record_id', 'position', 'body'])}
    from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return row;
}

export interface NewDelivery extends DeliveredEvent {
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
  /** It waits in the queue of its record, until activateNext is called. */
  isOrdered: boolean;
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
  record_id: string | null;
  position: number;
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
  /** It waits in the queue of its record, until activateNext is called. */
  ordered: boolean;
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
        record_id, position, is_ordered, created_at, completed_at)
      select ${companyId}, ${testMode}, d.id, d.subscription_id, m.event_id, m.event, case when d.skipped then 'skipped' else 'pending' end,
        ${most}, case when not d.skipped and not d.ordered then ${now}::timestamptz end, m.body, m.record_id, m.position, d.ordered,
        ${now}, case when d.skipped then ${now}::timestamptz end
      from jsonb_to_recordset(${sql.json(rows as never)}) as d (id uuid, subscription_id uuid, message int, skipped boolean, ordered boolean)
      join jsonb_to_recordset(${sql.json(used as never)}) as m (number int, event_id uuid, event text, record_id uuid, position bigint, body text) on m.number = d.message`;
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
): Promise<(DeliveredEvent & { id: string; eventId: string; event: string })[]> {
  return await sql<(DeliveredEvent & { id: string; eventId: string; event: string })[]>`
    select id, event_id, event, record_id, position, body
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
 * Restarts undelivered deliveries with the full number of attempts, oldest first. In an ordered
 * subscription, those of records go to their queues.
 * @returns how many
 */
export async function reopenDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id: subscriptionId, isOrdered }: { id: string; isOrdered: boolean },
  since: Date,
  limit: number,
  now: Date,
): Promise<number> {
  const reopened = await sql<{ queued: string | null }[]>`
    with missed as materialized (
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode} and subscription_id = ${subscriptionId} and not is_test
        and created_at >= ${since} and status in ('failed', 'cancelled', 'skipped')
      order by created_at, id
      limit ${limit}
      for update
    )
    update webhook_deliveries
    set status = 'pending', attempts = 0, is_ordered = ${isOrdered} and record_id is not null,
      next_attempt_at = case when ${isOrdered} and record_id is not null then null else ${now}::timestamptz end, completed_at = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(select id from missed))
    returning case when is_ordered then record_id end as queued`;
  const queued = reopened.flatMap(({ queued: recordId }) => recordId ?? []);
  await activateNext(sql, { companyId, testMode }, subscriptionId, queued, now);
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
 * Deletes some deliveries of a company and mode, the oldest first. Deliveries that are created
 * meanwhile do not wait for them. Subscriptions are locked first, as by senders, which would
 * otherwise wait for the deliveries while this transaction waits for their subscription.
 * @returns how many
 */
export async function deleteSomeDeliveries(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  limit: number,
  now: Date,
): Promise<number> {
  await lockAllQueues(sql, { companyId, testMode });
  const gone = await sql<{ subscriptionId: string; queued: string | null }[]>`
    delete from webhook_deliveries
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(array(
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode = ${testMode}
      order by id
      limit ${limit}
    ))
    returning subscription_id, case when is_ordered and status in ('pending', 'retrying') then record_id end as queued`;
  for (const [subscriptionId, rows] of Map.groupBy(gone, (row) => row.subscriptionId)) {
    const recordIds = rows.flatMap(({ queued }) => queued ?? []);
    const activated = await activateNext(sql, { companyId, testMode }, subscriptionId, recordIds, now);
    if (activated > 0) await wakeWebhooks(sql, { companyId, testMode }, [subscriptionId], now);
  }
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
