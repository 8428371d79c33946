// Applies immediate changes to a subscription. Stripe charges them, or they are not made.
import type Stripe from 'stripe';
import { findProrationTime } from '../../domain/billing/changes.ts';
import type { BillingOperation } from '../../domain/billing/provider.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import { diffItems, hasExactly, resolveItemPrices } from './items.ts';
import { release } from './schedules.ts';
import { findSchedule } from './state.ts';

export type ChangeOutcome =
  /** There was nothing to change. */
  | { kind: 'same' }
  | { kind: 'applied' }
  /** The card was declined, and nothing was changed. */
  | { kind: 'declined' }
  /** The change takes effect when the person has confirmed the payment at `actionUrl`. */
  | { kind: 'waiting'; actionUrl: string | null };

/**
 * Replaces the items of a subscription. The subscription itself shows what an earlier attempt did.
 * @param live with its schedule, which is released before the change
 * @param idempotencyKey unique per attempt, because Stripe repeats responses per key, including its
 * own failures
 */
export async function applyChange(
  stripe: Stripe,
  live: Stripe.Subscription,
  operation: BillingOperation,
  target: Subscription,
  idempotencyKey: string,
): Promise<ChangeOutcome> {
  const wanted = await resolveItemPrices(stripe, target, live.items.data, idempotencyKey);
  const seats = target.seats === null ? '' : String(target.seats);
  const notes = { operation_id: operation.id, seats };
  if (hasExactly(live.items.data, wanted)) {
    if ((live.metadata.seats ?? '') !== seats)
      await stripe.subscriptions.update(live.id, { metadata: notes }, { idempotencyKey: `${idempotencyKey}:seats` });
    return { kind: 'same' };
  }
  if (live.pending_update) {
    if (operation.attempt > 1 && hasExactly(live.pending_update.subscription_items ?? [], wanted))
      return findWaitingOutcome(stripe, live, idempotencyKey);
    await dropWaitingChange(stripe, live, idempotencyKey);
  }
  const wasScheduled = findSchedule(live)?.status === 'active';
  await release(stripe, live, idempotencyKey);
  const asked = buildChangeParams(
    live,
    wanted,
    findProrationTime(operation.change, operation.subscription, operation.askedAt),
  );
  // Adding a module may wait for a confirmation. Other changes take effect immediately or not at
  // all.
  if (operation.change.action === 'add_module' && !wasScheduled)
    return changeWithConfirmation(stripe, live, asked, idempotencyKey);
  try {
    await stripe.subscriptions.update(
      live.id,
      { ...asked, payment_behavior: 'error_if_incomplete', metadata: notes },
      { idempotencyKey: `${idempotencyKey}:change` },
    );
    return { kind: 'applied' };
  } catch (error) {
    const { type, code } = error as Stripe.errors.StripeError;
    if (type !== 'StripeCardError') throw error;
    const canWait = !wasScheduled && asked.items.every((item) => !item.deleted);
    return canWait && wantsPerson(code)
      ? changeWithConfirmation(stripe, live, asked, idempotencyKey)
      : { kind: 'declined' };
  }
}

const wantsPerson = (code: string | undefined): boolean =>
  code === 'authentication_required' || code === 'subscription_payment_intent_requires_action';

/** Returns the parameters that make a change, or preview it. */
export function buildChangeParams(
  live: Stripe.Subscription,
  wanted: Parameters<typeof diffItems>[1],
  proratedAt: Date,
) {
  const begun = live.items.data[0]?.current_period_start ?? 0;
  return {
    items: diffItems(live.items.data, wanted),
    proration_behavior: 'always_invoice' as const,
    // The same timestamp for every attempt, and that of a preview.
    proration_date: Math.max(begun, Math.floor(proratedAt.getTime() / 1000)),
  };
}

/**
 * Makes a change that may wait for its payment. Stripe does not accept metadata here, so the items
 * identify the change.
 */
async function changeWithConfirmation(
  stripe: Stripe,
  live: Stripe.Subscription,
  asked: ReturnType<typeof buildChangeParams>,
  idempotencyKey: string,
): Promise<ChangeOutcome> {
  const updated = await stripe.subscriptions.update(
    live.id,
    { ...asked, payment_behavior: 'pending_if_incomplete' },
    { idempotencyKey: `${idempotencyKey}:wait` },
  );
  return updated.pending_update ? findWaitingOutcome(stripe, updated, idempotencyKey) : { kind: 'applied' };
}

/** Waits if the bank requires the person's confirmation. A declined card does not wait. */
async function findWaitingOutcome(
  stripe: Stripe,
  live: Stripe.Subscription,
  idempotencyKey: string,
): Promise<ChangeOutcome> {
  const invoice = await stripe.invoices.retrieve(latestInvoice(live), {
    expand: ['payments.data.payment.payment_intent'],
  });
  const isWanted = (invoice.payments?.data ?? []).some(({ payment }) => {
    const intent = payment.payment_intent;
    return typeof intent === 'object' && intent.status === 'requires_action';
  });
  if (isWanted) return { kind: 'waiting', actionUrl: invoice.hosted_invoice_url ?? null };
  await dropWaitingChange(stripe, live, idempotencyKey);
  return { kind: 'declined' };
}

/** Drops a waiting change by voiding its invoice. */
async function dropWaitingChange(stripe: Stripe, live: Stripe.Subscription, idempotencyKey: string): Promise<void> {
  await stripe.invoices.voidInvoice(latestInvoice(live), {}, { idempotencyKey: `${idempotencyKey}:void` });
}

function latestInvoice({ id, latest_invoice }: Stripe.Subscription): string {
  const invoice = typeof latest_invoice === 'string' ? latest_invoice : latest_invoice?.id;
  if (!invoice) throw new Error(`the pending change of ${id} has no invoice`);
  return invoice;
}
