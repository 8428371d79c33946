// A change of the subscription as a call asks for it: committed, carried out, finished.
import { v7 as uuidv7 } from 'uuid';
import { openAmount } from '../db/billing/invoices.ts';
import {
  type AskedBy,
  type ChangeResult,
  findOrderOfKey,
  findPendingOrder,
  finishOrder,
  insertOrder,
  leaveOrder,
  takeOrder,
} from '../db/billing/orders.ts';
import { openSubscription } from '../db/billing/subscriptions.ts';
import { findSeats } from '../db/people/users.ts';
import { consequenceOf, type Refusal, refusalOf } from '../domain/billing/changes.ts';
import type { Order, Settled } from '../domain/billing/provider.ts';
import { type AskedChange, type Subscription, shadowSubscription } from '../domain/billing/subscription.ts';
import { ApiError, conflict, found, stillRunning } from '../runtime/errors.ts';
import type { Call } from '../runtime/handler.ts';

/** What is needed of a call. */
type BillingCall = Pick<Call, 'sql' | 'caller' | 'now' | 'retryKey' | 'outside' | 'payments' | 'record'>;

/** What the caller is told. */
export type Told = ChangeResult<AskedChange['action']>;

/** Milliseconds for which a retry with the same Idempotency-Key is one. */
const keptFor = 24 * 3_600_000;

/**
 * Changes the subscription of the caller's mode. A retry with the same Idempotency-Key goes on where the first try was left.
 * @returns what the caller is told
 * @throws ApiError 409 for what stands against it, 402 where the card is declined
 */
export async function changeSubscription(call: BillingCall, change: AskedChange): Promise<Told> {
  const { caller, now } = call;
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const begin = (since: Date): Subscription => shadowSubscription(since, now);
  const subscription = found(await openSubscription(call.sql, scope, begin, now));
  const known =
    call.retryKey === null
      ? undefined
      : await findOrderOfKey(call.sql, scope, call.retryKey, new Date(now.getTime() - keptFor));
  // The key belongs to the operation: what it was told is of the same kind.
  const told = known?.result as Told | undefined;
  if (known?.status === 'done' && told) return told;
  const openMinor = await openAmount(call.sql, scope);
  const id = known?.id ?? uuidv7();
  const askedAt = known?.createdAt ?? now;
  const { applies, effective } = consequenceOf(change, subscription, openMinor, askedAt);
  const result = told ?? resultOf(change, applies, effective);
  // Whoever takes up what was left may be at it.
  const attempt = known ? await takeOrder(call.sql, scope, id, now) : 1;
  if (!attempt) throw stillRunning();
  if (!known) {
    if (await findPendingOrder(call.sql, scope))
      throw conflict(
        'change_in_progress',
        'Another change of this subscription is being carried out. Try again shortly.',
      );
    const { used } = await findSeats(call.sql, caller.companyId);
    const refusal = refusalOf(change, subscription, used, now);
    if (refusal) throw errorOf(refusal);
    const askedBy: AskedBy = caller.actor;
    await insertOrder(call.sql, scope, { id, change, retryKey: call.retryKey, askedBy, result }, now);
  }
  const order: Order = { ...scope, id, change, subscription, openMinor, askedAt, attempt };
  const settled = await settle(call, order);
  const { isFirst } = await finishOrder(call.sql, scope, id, settled.settlement, now);
  if (settled.declined) throw declined(settled.declined.actionUrl);
  if (isFirst) record(call, change, subscription, settled.settlement.after);
  return result;
}

/** Where it is not known what became of an order, whoever asks next finds out. */
async function settle(call: BillingCall, order: Order): Promise<Settled> {
  const { payments } = call;
  try {
    return await call.outside(() => payments.settle(order));
  } catch (error) {
    await leaveOrder(call.sql, order, order.id, call.now);
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
  call.record({ action: `subscription.${change.action}`, object: 'subscription', changes });
}
