// A change of the subscription as a call asks for it: committed, carried out, finished.
import { v7 as uuidv7 } from 'uuid';
import { openAmount } from '../../db/billing/invoices.ts';
import {
  type AskedBy,
  type ChangeResult,
  findOrderOfKey,
  findPendingOrder,
  finishOrder,
  insertOrder,
  leaveOrder,
  type OrderRow,
  takeOrder,
} from '../../db/billing/orders.ts';
import { openSubscription } from '../../db/billing/subscriptions.ts';
import { findSeats } from '../../db/people/users.ts';
import { consequenceOf, type Refusal, refusalOf } from '../../domain/billing/changes.ts';
import type { Order, Settled } from '../../domain/billing/provider.ts';
import { type AskedChange, type Subscription, shadowSubscription } from '../../domain/billing/subscription.ts';
import { ApiError, conflict, found, stillRunning } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** What is needed of a call. */
type BillingCall = Pick<Call, 'db' | 'caller' | 'now' | 'request' | 'services'>;

/** What the caller is told. */
export type Told = ChangeResult<AskedChange['action']>;

/** Milliseconds for which a retry with the same Idempotency-Key is one. */
const keptFor = 24 * 3_600_000;

/** How often a change is computed anew because the subscription changed at the provider meanwhile. */
const mostRounds = 3;

/**
 * Changes the subscription of the caller's mode. The change is computed from what the provider has now, not from what was last heard
 * of it. A retry with the same Idempotency-Key continues the first try.
 * @returns the answer to the caller
 * @throws ApiError 409 if the subscription does not allow the change, 402 if the card is declined
 */
export async function changeSubscription(call: BillingCall, change: AskedChange): Promise<Told> {
  for (let round = 1; round <= mostRounds; round += 1) {
    const begun = await beginOrder(call, change);
    if (!begun.order) return begun.result;
    const { order, result } = begun;
    const settled = await settle(call, order);
    const { isFirst } = await finishOrder(call.db.sql, order, order.id, settled.settlement, call.now);
    if (settled.declined) throw declined(settled.declined.actionUrl);
    if (settled.isOutdated) continue;
    if (isFirst) record(call, change, order.subscription, settled.settlement.after);
    return result;
  }
  // The order of the last round is closed with the answer.
  throw changeInProgress({ keepsWork: true });
}

/** An order that is to be carried out; without one, the answer to the first try is all there is to give. */
type Begun = { order: Order; result: Told } | { order?: undefined; result: Told };

/** Takes up the order of an earlier try, or makes one. */
async function beginOrder(call: BillingCall, change: AskedChange): Promise<Begun> {
  const scope = { companyId: call.caller.companyId, testMode: call.caller.testMode };
  const { subscription, known } = await lockWithOrder(call);
  if (known) return takeUp(call, change, known, subscription);
  if (await findPendingOrder(call.db.sql, scope)) throw changeInProgress();
  const { payments } = call.services;
  if (!payments.keepsBooks(scope)) return makeOrder(call, change, subscription, false);
  await call.db.commitThenRun(() => payments.refresh(scope));
  const refreshed = await lockWithOrder(call);
  // The key was lost to another call while the provider was asked.
  if (refreshed.known) throw stillRunning();
  if (await findPendingOrder(call.db.sql, scope)) throw changeInProgress();
  return makeOrder(call, change, refreshed.subscription, true);
}

/** Locks the subscription, and finds the order of an earlier try with the same Idempotency-Key. */
async function lockWithOrder({
  caller,
  now,
  request: { retryKey },
  db: { sql },
}: BillingCall): Promise<{ subscription: Subscription; known: OrderRow | undefined }> {
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const begin = (since: Date): Subscription => shadowSubscription(since, now);
  const subscription = found(await openSubscription(sql, scope, begin, now));
  const since = new Date(now.getTime() - keptFor);
  const known = retryKey === null ? undefined : await findOrderOfKey(sql, scope, retryKey, since);
  return { subscription, known };
}

async function takeUp(
  { caller, now, db: { sql } }: BillingCall,
  change: AskedChange,
  known: OrderRow,
  stored: Subscription,
): Promise<Begun> {
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  // The key belongs to the operation: the result of its order is of the same kind.
  const result = known.result as Told;
  if (known.status === 'done') return { result };
  // The job may be carrying it out.
  const attempt = await takeOrder(sql, scope, known.id, now);
  if (!attempt) throw stillRunning();
  const openMinor = await openAmount(sql, scope);
  const subscription = known.base ?? stored;
  return {
    order: { ...scope, id: known.id, change, subscription, openMinor, askedAt: known.createdAt, attempt },
    result,
  };
}

/** @param keepsBase true to keep what the change is computed from, which a retry compares with what the provider has then */
async function makeOrder(
  { caller, now, request: { retryKey }, db: { sql } }: BillingCall,
  change: AskedChange,
  subscription: Subscription,
  keepsBase: boolean,
): Promise<Begun> {
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const { used } = await findSeats(sql, caller.companyId);
  const refusal = refusalOf(change, subscription, used, now);
  if (refusal) throw errorOf(refusal);
  const openMinor = await openAmount(sql, scope);
  const { applies, effective } = consequenceOf(change, subscription, openMinor, now);
  const result = resultOf(change, applies, effective);
  const id = uuidv7();
  const askedBy: AskedBy = caller.actor;
  const base = keepsBase ? subscription : null;
  await insertOrder(sql, scope, { id, change, retryKey, askedBy, result, base }, now);
  return { order: { ...scope, id, change, subscription, openMinor, askedAt: now, attempt: 1 }, result };
}

const changeInProgress = (options: { keepsWork?: boolean } = {}): ApiError =>
  new ApiError(
    'CONFLICT',
    'Another change of this subscription is being carried out. Try again shortly.',
    { reason: 'change_in_progress' },
    options,
  );

/** Where it is not known what became of an order, whoever asks next finds out. */
async function settle(call: BillingCall, order: Order): Promise<Settled> {
  const { payments } = call.services;
  try {
    return await call.db.commitThenRun(() => payments.settle(order));
  } catch (error) {
    await leaveOrder(call.db.sql, order, order.id, call.now);
    throw error;
  }
}

export function errorOf({ code, message, reason, more }: Refusal): ApiError {
  return code === 'CONFLICT' ? conflict(reason ?? '', message, more) : new ApiError(code, message);
}

const declined = (actionUrl: string | null): ApiError =>
  new ApiError(
    'CARD_CHARGE_FAILED',
    'The card was declined; nothing was changed. Put another payment method on file.',
    actionUrl === null ? undefined : { action_url: actionUrl },
    { keepsWork: true },
  );

function resultOf(change: AskedChange, applies: 'immediately' | 'period_end', effective: Date): Told {
  return {
    action: change.action,
    applies,
    effective: effective.toISOString(),
    status: change.action === 'add_module' ? 'pending_webhook' : null,
    module_key: 'module_key' in change ? change.module_key : null,
    seats: change.action === 'set_seats' ? change.seats : null,
  };
}

/** What of a subscription changed, for the audit log. */
function record(call: BillingCall, change: AskedChange, before: Subscription, after: Subscription): void {
  const names = ['packageCode', 'billingCycle', 'seats', 'addOns', 'cancelAtPeriodEnd', 'scheduled'] as const;
  const changes = Object.fromEntries(
    names
      .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
      .map((name) => [
        name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
        { from: before[name], to: after[name] },
      ]),
  );
  call.db.record({ action: `subscription.${change.action}`, object: 'subscription', changes });
}
