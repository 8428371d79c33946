// Subscriptions: where a tenant's events are sent, which of them, and how that has gone.

import { type CreatedByRow, createdColumns } from '../client/created-by.ts';
import { listLiteral } from '../client/list-literal.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** What the tenant sets. */
export interface WebhookSettings {
  url: string;
  description: string | null;
  events: string[];
  filter: unknown;
  include: string[];
  skipOwn: boolean;
  disabledReason: 'manual' | 'failures' | 'gone' | null;
  disabledAt: Date | null;
}

export interface WebhookRow extends WebhookSettings, CreatedByRow {
  id: string;
  sealedSecret: string;
  secretLast4: string;
  secretRotatedAt: Date | null;
  sealedPreviousSecret: string | null;
  previousSecretExpiresAt: Date | null;
  lastDeliveryAt: Date | null;
  lastSuccessAt: Date | null;
  consecutiveFailures: number;
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  'id',
  'url',
  'description',
  'events',
  'filter',
  'include',
  'skip_own',
  'disabled_reason',
  'disabled_at',
  'sealed_secret',
  'secret_last4',
  'secret_rotated_at',
  'sealed_previous_secret',
  'previous_secret_expires_at',
  'last_delivery_at',
  'last_success_at',
  'consecutive_failures',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
  'updated_at',
] as const;

/** A page of them, newest first. */
export async function listWebhooks(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  after: readonly [createdAt: string, id: string] | undefined,
  limit: number,
): Promise<WebhookRow[]> {
  return await sql<WebhookRow[]>`
    select ${sql(columns)}
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and deleted_at is null
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

export async function findWebhook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<WebhookRow | undefined> {
  const [row] = await sql<WebhookRow[]>`
    select ${sql(columns)}
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and deleted_at is null`;
  return row;
}

/** As findWebhook, and keeps it from changing under this call. */
export async function lockWebhook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<WebhookRow | undefined> {
  const [row] = await sql<WebhookRow[]>`
    select ${sql(columns)}
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and deleted_at is null
    for update`;
  return row;
}

/** How many there are; until this call ends nobody makes another. */
export async function lockWebhookCount(sql: Sql, { companyId, testMode }: TenantScope): Promise<number> {
  const locked = sql`select from companies where id = ${companyId} for no key update`.execute();
  const counted = sql<{ count: number }[]>`
    select count(*)::int as count
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and deleted_at is null`;
  const [[row]] = await Promise.all([counted, locked]);
  return row?.count ?? 0;
}

export interface NewWebhook extends WebhookSettings {
  id: string;
  sealedSecret: string;
  secretLast4: string;
  createdBy: Parameters<typeof createdColumns>[0]['actor'];
}

export async function insertWebhook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, sealedSecret, secretLast4, createdBy, ...settings }: NewWebhook,
  now: Date,
): Promise<void> {
  const { createdByUser: _, ...creator } = createdColumns({ actor: createdBy, userId: null });
  await sql`
    insert into webhook_subscriptions ${sql({
      companyId,
      testMode,
      id,
      ...toRow(sql, settings),
      sealedSecret,
      secretLast4,
      ...creator,
      createdAt: now,
      updatedAt: now,
    })}`;
}

export async function updateWebhook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  settings: WebhookSettings,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions set ${sql({ ...toRow(sql, settings), updatedAt: now })}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Has a subscription begin anew: what failed before counts no more, and what waited is sent. */
export async function restartWebhook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set consecutive_failures = 0, exhausted_deliveries = 0, failing_since = null, warned_at = null, probing_since = null,
      due_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

export interface RotatedSecret {
  sealedSecret: string;
  secretLast4: string;
  sealedPrevious: string | null;
  previousExpiresAt: Date | null;
}

export async function rotateSecret(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  { sealedSecret, secretLast4, sealedPrevious, previousExpiresAt }: RotatedSecret,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set sealed_secret = ${sealedSecret}, secret_last4 = ${secretLast4}, secret_rotated_at = ${now},
      sealed_previous_secret = ${sealedPrevious}, previous_secret_expires_at = ${previousExpiresAt}, updated_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Takes a subscription out of everybody's sight; a sender cancels what waits, and then removes it. */
export async function hideWebhook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set deleted_at = ${now}, due_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

export async function removeWebhook(sql: Sql, { companyId, testMode }: TenantScope, id: string): Promise<void> {
  await sql`delete from webhook_subscriptions where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** A subscription as far as events are held against it. */
export interface SubscribedRow {
  id: string;
  events: string[];
  filter: unknown;
  include: string[];
  skipOwn: boolean;
  createdByKind: string;
  createdById: string;
  isDisabled: boolean;
  createdAt: Date;
}

/** All that events of a mode may concern. */
export async function findSubscribed(sql: Sql, { companyId, testMode }: TenantScope): Promise<SubscribedRow[]> {
  return await sql<SubscribedRow[]>`
    select id, events, filter, include, skip_own, created_by_kind, created_by_id,
      disabled_at is not null as is_disabled, created_at
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and deleted_at is null`;
}

/**
 * Has senders look at subscriptions. Whatever they say already: a sender that is looking now has not seen what was added, and would
 * have the last word. Of those that have more than they may send at once whoever ends an attempt looks again, so that a receiver that
 * does not answer is not looked at with each event; their rows are written all the same, which keeps others from looking meanwhile.
 */
export async function wakeWebhooks(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  ids: readonly string[],
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set due_at = case when is_held then due_at else least(due_at, ${now}) end
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${ids}::uuid[])`;
}

/** The connection that makes the demo has not asked for types. */
function toRow(sql: Sql, settings: WebhookSettings) {
  const { events, include, filter } = settings;
  return {
    ...settings,
    events: listLiteral(events),
    include: listLiteral(include),
    filter: filter === null ? null : sql.json(filter as never),
  };
}
