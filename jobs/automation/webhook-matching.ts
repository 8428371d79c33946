// The webhook matcher: creates deliveries of events for the endpoints that subscribe to them.
import { v7 as uuidv7 } from 'uuid';
import { settleStretch, takeStretch } from '../../db/automation/webhook-backlog.ts';
import {
  cancelDeliveries,
  type DeliveryMessage,
  type DeliveryOfEvent,
  insertDeliveriesOfEvents,
} from '../../db/automation/webhook-deliveries.ts';
import { activateNext, lockQueues } from '../../db/automation/webhook-order.ts';
import { findSubscribed, type SubscribedRow, wakeWebhooks } from '../../db/automation/webhooks.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { readTenantTime } from '../../db/client/test-clocks.ts';
import { findWaiting } from '../../db/client/waiting.ts';
import { findEvents } from '../../db/records/feed.ts';
import { getMaxAttempts } from '../../domain/automation/webhook-attempts.ts';
import { composeBody, type HappenedEvent, readOrigin } from '../../domain/automation/webhook-bodies.ts';
import { createMatcher } from '../../domain/automation/webhook-matching.ts';
import type { LoadShedder } from '../load-shedder.ts';
import { TenantQueue } from '../records/tenant-queue.ts';
import type { TenantJobContext } from '../runner.ts';

/** Tenants that are matched at the same time, each on its own connection. */
export const companiesAtOnce = 2;
/** Deliveries per batch under foreground load. */
const smallBatch = 50;

/**
 * Milliseconds by which server clocks may differ. Older events precede the subscription and are not
 * delivered.
 */
const clockTolerance = 10_000;

/**
 * Creates the matcher of this process. Several servers may run one: each tenant is processed by one
 * of them at a time.
 */
export function createWebhookMatcher(loadShedder: LoadShedder): TenantQueue {
  return new TenantQueue({
    find: (sql, after) => findWaiting(sql, 'webhook_backlog', after),
    take: (context, scope, limit) => matchSome(context, loadShedder, scope, limit),
    atOnce: companiesAtOnce,
    failureText: 'failed to create webhook deliveries; will retry',
  });
}

/**
 * Creates the deliveries of the oldest waiting events and removes the events from the backlog in
 * the same transaction, so that each delivery is created once.
 */
async function matchSome(
  { transaction }: TenantJobContext,
  loadShedder: LoadShedder,
  scope: TenantScope,
  limit: number,
): Promise<number> {
  const isUnderLoad = await loadShedder.waitForTurn();
  return transaction(scope, async (sql) => {
    const subscriptions = await findSubscribed(sql, scope);
    const most = isUnderLoad ? Math.max(1, Math.floor(smallBatch / Math.max(1, subscriptions.length))) : limit;
    const stretch = await takeStretch(sql, scope, most);
    if (!stretch) return 0;
    const events = await findEvents(sql, scope, stretch.first, stretch.last);
    await deliver(sql, scope, subscriptions, events, await readTenantTime(sql, scope));
    await settleStretch(sql, scope, stretch.last);
    return stretch.last - stretch.first + 1;
  });
}

/**
 * Creates the deliveries of events. Deliveries of disabled subscriptions are stored but not sent.
 * In an ordered subscription, those of records wait in queues, whose first ones are activated. For
 * a subscription that is deleted meanwhile, nothing waits: no sender would end it.
 * @param sql in a transaction that is bound to the scope
 * @param subscriptions of this tenant
 * @param events of this tenant
 */
export async function deliver(
  sql: Sql,
  scope: TenantScope,
  subscriptions: readonly SubscribedRow[],
  events: readonly HappenedEvent[],
  now: Date,
): Promise<void> {
  const messages = new Messages(scope.testMode);
  const wanted = subscriptions.flatMap((subscription) => buildDeliveries(subscription, events, messages));
  if (wanted.length === 0) return;
  const queues = listQueues(wanted, messages.all);
  const left = queues.size > 0 ? await lockQueues(sql, scope, [...queues.keys()]) : new Set<string>();
  const deliveries = wanted.filter(({ subscription_id: id }) => !queues.has(id) || left.has(id));
  await insertDeliveriesOfEvents(sql, scope, messages.all, deliveries, getMaxAttempts(scope.testMode), now);
  for (const [id, recordIds] of queues) await activateNext(sql, scope, id, recordIds, now);
  const awake = new Set(deliveries.flatMap((each) => (each.skipped ? [] : [each.subscription_id])));
  if (awake.size === 0) return;
  const existing = await wakeWebhooks(sql, scope, [...awake], now);
  // Subscriptions without queues are not locked before, so that senders do not wait for the inserts.
  const gone = [...awake].filter((id) => !existing.has(id));
  for (const id of gone) await cancelDeliveries(sql, scope, id, deliveries.length, now);
}

/** Returns the records in whose queues there is something to send, by subscription. */
function listQueues(
  deliveries: readonly DeliveryOfEvent[],
  messages: readonly DeliveryMessage[],
): Map<string, string[]> {
  const queued = deliveries.filter(({ ordered, skipped }) => ordered && !skipped);
  const grouped = Map.groupBy(queued, (each) => each.subscription_id);
  return new Map(
    [...grouped].map(([id, own]) => [id, own.flatMap(({ message }) => messages[message]?.record_id ?? [])]),
  );
}

function buildDeliveries(
  subscription: SubscribedRow,
  events: readonly HappenedEvent[],
  messages: Messages,
): DeliveryOfEvent[] {
  const isWanted = createMatcher(subscription);
  const { id, include, isDisabled, isOrdered, createdAt } = subscription;
  const since = createdAt.getTime() - clockTolerance;
  const withImports = include.includes('imports');
  const wanted = events.filter(
    (event) =>
      event.occurredAt.getTime() >= since &&
      (withImports || readOrigin(event.data)?.kind !== 'import') &&
      isWanted(event),
  );
  return wanted.map((event) => ({
    id: uuidv7(),
    subscription_id: id,
    message: messages.of(event, include),
    skipped: isDisabled,
    ordered: isOrdered && readRecordId(event) !== null,
  }));
}

/** Returns the record that an event is about; null: none. */
function readRecordId({ data }: HappenedEvent): string | null {
  return typeof data.record_id === 'string' ? data.record_id : null;
}

/** Request bodies. Each one is composed once for all endpoints that receive the same. */
class Messages {
  readonly all: DeliveryMessage[] = [];
  readonly #testMode: boolean;
  readonly #places = new Map<string, number>();

  constructor(testMode: boolean) {
    this.#testMode = testMode;
  }

  /** @returns the index of the body */
  of(event: HappenedEvent, include: readonly string[]): number {
    const key = `${event.id} ${include.join()}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const body = composeBody(event, this.#testMode, include);
    this.#places.set(key, this.all.length);
    const { id, event: name, position } = event;
    return this.all.push({ event_id: id, event: name, record_id: readRecordId(event), position, body }) - 1;
  }
}
