// Webhook deliveries: list, read, and send again.
import { v7 as uuidv7 } from 'uuid';
import * as db from '../../db/automation/webhook-deliveries.ts';
import { activateNext } from '../../db/automation/webhook-order.ts';
import { findWebhook, lockWebhook, wakeWebhooks } from '../../db/automation/webhooks.ts';
import { getMaxAttempts } from '../../domain/automation/webhook-attempts.ts';
import { type StoredDelivery, toDeliveryResponse } from '../../domain/automation/webhook-view.ts';
import { buildProblem, conflict, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

/** Maximum deliveries of one call. */
const maxRecovered = 10_000;
const maxReplayed = 1000;

export const listWebhookDeliveries: Handler<'listWebhookDeliveries'> = async (call) => {
  const { caller } = call;
  const { path, query } = call.request;
  const { sql } = call.db;
  const { status, event, from, to } = query;
  const filter = { subscriptionId: path.id, status, event, from: parseTime(from), to: parseTime(to) };
  const { rows, ...rest } = await readPage(
    call,
    ['webhook deliveries', path.id, status, event, from, to],
    (after, limit) => db.listDeliveries(sql, caller, filter, after, limit),
    (last: StoredDelivery) => [last.createdAt.toISOString(), last.id],
  );
  // Deliveries are listed even if their subscription is deleted.
  if (
    rows.length === 0 &&
    !(await findWebhook(sql, caller, path.id)) &&
    !(await db.hasDeliveries(sql, caller, path.id))
  )
    throw notFound();
  return { status: 200, data: { deliveries: rows.map((row) => toDeliveryResponse(row, call.arrivedAt)), ...rest } };
};

export const listAllWebhookDeliveries: Handler<'listAllWebhookDeliveries'> = async (call) => {
  const { caller } = call;
  const { subscription_id: subscriptionId, status, event, from, to } = call.request.query;
  const filter = { subscriptionId, status, event, from: parseTime(from), to: parseTime(to) };
  const { rows, ...rest } = await readPage(
    call,
    ['all webhook deliveries', subscriptionId, status, event, from, to],
    (after, limit) => db.listDeliveries(call.db.sql, caller, filter, after, limit),
    (last: StoredDelivery) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { deliveries: rows.map((row) => toDeliveryResponse(row, call.arrivedAt)), ...rest } };
};

export const getWebhookDelivery: Handler<'getWebhookDelivery'> = async (call) => {
  const { caller, arrivedAt } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await db.findDelivery(sql, caller, path.deliveryId));
  if (row.subscriptionId !== path.id) throw notFound();
  return { status: 200, data: { delivery: { ...toDeliveryResponse(row, arrivedAt), request_body: row.body } } };
};

export const replayWebhookDelivery: Handler<'replayWebhookDelivery'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await db.findDelivery(sql, caller, path.deliveryId));
  const subscription = await lockWebhook(sql, caller, row.subscriptionId);
  if (!subscription) throw conflict('subscription_deleted', 'The webhook endpoint of this delivery was deleted.');
  assertEnabled(subscription);
  const copy = copyDelivery(row, subscription, call, row.isTest);
  await insertCopies(call, subscription.id, [copy]);
  await wakeWebhooks(sql, caller, [row.subscriptionId], now);
  call.db.record({
    action: 'webhook.replay',
    object: 'webhooks',
    recordId: row.subscriptionId,
    metadata: { delivery_id: row.id, queued: 1 },
  });
  const stored = copy.isOrdered ? orNotFound(await db.findDelivery(sql, caller, copy.id)) : copy;
  return { status: 201, data: { delivery: toDeliveryResponse({ ...stored, leasedUntil: null }, now) } };
};

export const replayWebhookDeliveries: Handler<'replayWebhookDeliveries'> = async (call) => {
  const { caller, now } = call;
  const { path, body } = call.request;
  const { sql } = call.db;
  const window = { from: new Date(body.from), to: new Date(body.to), status: body.status };
  if (window.to < window.from)
    throw validationFailed([buildProblem('to', 'OUT_OF_RANGE', 'to must not be before from')], 400);
  const subscription = orNotFound(await lockWebhook(sql, caller, path.id));
  assertEnabled(subscription);
  const rows = await db.findInWindow(sql, caller, path.id, window, maxReplayed);
  const copies = rows.map((row) => copyDelivery(row, subscription, call, false));
  await insertCopies(call, path.id, copies);
  await wakeWebhooks(sql, caller, [path.id], now);
  const queued = copies.length;
  call.db.record({ action: 'webhook.replay', object: 'webhooks', recordId: path.id, metadata: { ...body, queued } });
  return { status: 202, data: { queued } };
};

export const recoverWebhookDeliveries: Handler<'recoverWebhookDeliveries'> = async (call) => {
  const { caller, now } = call;
  const { path, body } = call.request;
  const { sql } = call.db;
  const subscription = orNotFound(await lockWebhook(sql, caller, path.id));
  assertEnabled(subscription);
  const queued = await db.reopenDeliveries(sql, caller, subscription, new Date(body.since), maxRecovered, now);
  await wakeWebhooks(sql, caller, [path.id], now);
  call.db.record({ action: 'webhook.recover', object: 'webhooks', recordId: path.id, metadata: { ...body, queued } });
  return { status: 202, data: { queued, has_more: queued === maxRecovered } };
};

function assertEnabled({ disabledAt }: { disabledAt: Date | null }): void {
  if (disabledAt) throw conflict('subscription_disabled', 'The webhook endpoint is disabled. Enable it first.');
}

function parseTime(text: string | undefined): Date | undefined {
  return text === undefined ? undefined : new Date(text);
}

/** Adds copies of deliveries. The subscription must be locked. */
async function insertCopies(
  { caller, now, db: { sql } }: Pick<Call, 'caller' | 'now' | 'db'>,
  subscriptionId: string,
  copies: readonly db.NewDelivery[],
): Promise<void> {
  await db.insertDeliveries(sql, caller, copies);
  const queued = copies.flatMap(({ isOrdered, recordId }) => (isOrdered ? (recordId ?? []) : []));
  await activateNext(sql, caller, subscriptionId, queued, now);
}

/**
 * Returns a new delivery of the same event. In the queue of its record, it has the place of the
 * original.
 */
function copyDelivery(
  original: db.DeliveredEvent & { id: string; eventId: string; event: string },
  subscription: { id: string; isOrdered: boolean },
  { caller, now }: Pick<Call, 'caller' | 'now'>,
  isTest: boolean,
): db.NewDelivery {
  const { id, eventId, event, recordId, position, body } = original;
  const isOrdered = subscription.isOrdered && recordId !== null && !isTest;
  return {
    id: uuidv7(),
    subscriptionId: subscription.id,
    eventId,
    event,
    recordId,
    position,
    isOrdered,
    status: 'pending',
    attempts: 0,
    body,
    maxAttempts: isTest ? 1 : getMaxAttempts(caller.testMode),
    nextAttemptAt: isOrdered ? null : now,
    lastResponseCode: null,
    lastResponseSnippet: null,
    lastError: null,
    durationMs: null,
    replayOf: id,
    isTest,
    createdAt: now,
    completedAt: null,
  };
}
