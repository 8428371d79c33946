// Makes the deliveries of events that were committed: for each subscription that wants to be told.
import { v7 as uuidv7 } from 'uuid';
import {
  type DeliveryMessage,
  type DeliveryOfEvent,
  insertDeliveriesOfEvents,
} from '../db/automation/webhook-deliveries.ts';
import { findSubscribed, type SubscribedRow, wakeWebhooks } from '../db/automation/webhooks.ts';
import type { Sql } from '../db/connect.ts';
import type { TenantScope } from '../db/tenant.ts';
import { maxAttempts } from '../domain/automation/webhook-attempts.ts';
import { composeBody, type HappenedEvent } from '../domain/automation/webhook-bodies.ts';
import { matcherOf } from '../domain/automation/webhook-matching.ts';

/**
 * Makes them in the transaction that gives the events their positions, so that each is made once. Of a disabled subscription what happens
 * is only kept.
 * @param sql in a transaction that is bound to the scope
 * @param events of that company and mode
 */
export async function deliver(
  sql: Sql,
  scope: TenantScope,
  events: readonly HappenedEvent[],
  now: Date = new Date(),
): Promise<void> {
  const subscriptions = await findSubscribed(sql, scope);
  const messages = new Messages(scope.testMode);
  const deliveries = subscriptions.flatMap((subscription) => deliveriesOf(subscription, events, messages));
  if (deliveries.length === 0) return;
  await insertDeliveriesOfEvents(sql, scope, messages.all, deliveries, maxAttempts(scope.testMode), now);
  const awake = new Set(deliveries.flatMap((each) => (each.skipped ? [] : [each.subscription_id])));
  if (awake.size > 0) await wakeWebhooks(sql, scope, [...awake], now);
}

function deliveriesOf(
  subscription: SubscribedRow,
  events: readonly HappenedEvent[],
  messages: Messages,
): DeliveryOfEvent[] {
  const isWanted = matcherOf(subscription);
  const { id, include, isDisabled } = subscription;
  return events.filter(isWanted).map((event) => ({
    id: uuidv7(),
    subscription_id: id,
    message: messages.of(event, include),
    skipped: isDisabled,
  }));
}

/** Bodies, each composed once for all who are sent the same. */
class Messages {
  readonly all: DeliveryMessage[] = [];
  readonly #testMode: boolean;
  readonly #places = new Map<string, number>();

  constructor(testMode: boolean) {
    this.#testMode = testMode;
  }

  /** @returns its place among all */
  of(event: HappenedEvent, include: readonly string[]): number {
    const key = `${event.id} ${include.join()}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const body = composeBody(event, this.#testMode, include);
    this.#places.set(key, this.all.length);
    return this.all.push({ event_id: event.id, event: event.event, body }) - 1;
  }
}
