// Webhook subscriptions: the address, the events, and the health of the receiver.

import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import { toListLiteral } from '../client/list-literal.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** The key pairs of an asymmetric subscription, private keys sealed. All null: symmetric. */
export interface SigningKeys {
  publicKey: string | null;
  sealedSigningKey: string | null;
  /** Valid as long as the previous secret. */
  previousPublicKey: string | null;
  sealedPreviousSigningKey: string | null;
}

/** The settings of the tenant. */
export interface WebhookSettings extends SigningKeys {
  url: string;
  description: string | null;
  events: string[];
  filter: unknown;
  include: string[];
  skipOwn: boolean;
  /** The names of the tenant's own headers, which are sealed as a JSON object. */
  headerNames: string[];
  /** null: there are none. */
  sealedHeaders: string | null;
  maxPerSecond: number;
  isOrdered: boolean;
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
  /** As in domain/automation/success-rates.ts. */
  attemptCounts: number[];
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
  'header_names',
  'sealed_headers',
  'max_per_second',
  'is_ordered',
  'disabled_reason',
  'disabled_at',
  'sealed_secret',
  'secret_last4',
  'secret_rotated_at',
  'sealed_previous_secret',
  'previous_secret_expires_at',
  'public_key',
  'sealed_signing_key',
  'previous_public_key',
  'sealed_previous_signing_key',
  'last_delivery_at',
  'last_success_at',
  'consecutive_failures',
  'attempt_counts',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
  'updated_at',
] as const;

/** Returns a page of subscriptions, newest first. */
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

/** As findWebhook, with a lock until the transaction ends. */
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

/** Returns how many there are. Until the transaction ends, no other can add one. */
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
  createdBy: Parameters<typeof toCreatedColumns>[0]['actor'];
}

export async function insertWebhook(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, sealedSecret, secretLast4, createdBy, ...settings }: NewWebhook,
  now: Date,
): Promise<void> {
  const { createdByUser: _, ...creator } = toCreatedColumns({ actor: createdBy, userId: null });
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

/** Resets the failures of a subscription, and sends waiting deliveries. */
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

export interface RotatedSecret extends SigningKeys {
  sealedSecret: string;
  secretLast4: string;
  sealedPrevious: string | null;
  previousExpiresAt: Date | null;
}

export async function rotateSecret(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  { sealedSecret, secretLast4, sealedPrevious, previousExpiresAt, ...keys }: RotatedSecret,
  now: Date,
): Promise<void> {
  await sql`
    update webhook_subscriptions
    set sealed_secret = ${sealedSecret}, secret_last4 = ${secretLast4}, secret_rotated_at = ${now},
      sealed_previous_secret = ${sealedPrevious}, previous_secret_expires_at = ${previousExpiresAt},
      public_key = ${keys.publicKey}, sealed_signing_key = ${keys.sealedSigningKey},
      previous_public_key = ${keys.previousPublicKey}, sealed_previous_signing_key = ${keys.sealedPreviousSigningKey},
      updated_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Hides a subscription. A sender cancels waiting deliveries and then removes it. */
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

/** The parts of a subscription that are compared with events. */
export interface SubscribedRow {
  id: string;
  events: string[];
  filter: unknown;
  include: string[];
  skipOwn: boolean;
  isOrdered: boolean;
  createdByKind: string;
  createdById: string;
  isDisabled: boolean;
  createdAt: Date;
}

/** Returns all subscriptions of a mode that may match events. */
export async function findSubscribed(sql: Sql, { companyId, testMode }: TenantScope): Promise<SubscribedRow[]> {
  return await sql<SubscribedRow[]>`
    select id, events, filter, include, skip_own, is_ordered, created_by_kind, created_by_id,
      disabled_at is not null as is_disabled, created_at
    from webhook_subscriptions
    where company_id = ${companyId} and test_mode = ${testMode} and deleted_at is null`;
}

/**
 * Makes subscriptions due for senders. Those that are already due are updated, too: a sender that
 * is running has not seen the new deliveries, so this update must follow its own. If a subscription
 * is at its maximum of concurrent deliveries, the end of an attempt makes it due, so that a
 * receiver that does not respond causes no work for each event. Its row is still written, which
 * keeps senders out meanwhile.
 * @returns those that exist
 */
export async function wakeWebhooks(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  ids: readonly string[],
  now: Date,
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    update webhook_subscriptions
    set due_at = case when is_held then due_at else least(due_at, ${now}) end
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${ids}::uuid[])
    returning id`;
  return new Set(rows.map(({ id }) => id));
}

/**
 * The connection that creates the demo does not know array types, so lists are passed as literals.
 */
function toRow(sql: Sql, settings: WebhookSettings) {
  const { events, include, headerNames, filter } = settings;
  return {
    ...settings,
    events: toListLiteral(events),
    include: toListLiteral(include),
    headerNames: toListLiteral(headerNames),
    filter: filter === null ? null : sql.json(filter as never),
  };
}
