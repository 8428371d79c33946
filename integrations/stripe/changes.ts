// Applies immediate changes to a subscription. Stripe charges them, or they are not made.
import type Stripe from 'stripe';
import type { BillingOperation } from '../../domain/billing/provider.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import { consistsOf, itemChanges, type PricedItem, pricedItems } from './items.ts';
import { release } from './schedules.ts';
import { scheduleOf } from './state.ts';

export type Changed =
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
export async function change(
  stripe: Stripe,
  live: Stripe.Subscription,
  operation: BillingOperation,
  target: Subscription,
  idempotencyKey: string,
): Promise<Changed> {
  const wanted = await pricedItems(stripe, target, live.items.data, idempotencyKey);
  const seats = target.seats === null ? '' : String(target.seats);
  const notes = { operation_id: operation.id, seats };
  if (consistsOf(live.items.data, wanted)) {
    if ((live.metadata.seats ?? '') !== seats)
      await stripe.subscriptions.update(live.id, { metadata: notes }, { idempotencyKey: `${idempotencyKey}:seats` });
    return { kind: 'same' };
  }
  if (live.pending_update) {
    if (operation.attempt > 1 && consistsOf(live.pending_update.subscription_items ?? [], wanted))
      return outcomeOfWaiting(stripe, live, idempotencyKey);
    await drop(stripe, live, idempotencyKey);
  }
  const wasScheduled = scheduleOf(live)?.status === 'active';
  await release(stripe, live, idempotencyKey);
  const asked = paramsOf(live, wanted, operation.askedAt);
  // Adding a module may wait for a confirmation. Other changes take effect immediately or not at
  // all.
  if (operation.change.action === 'add_module' && !wasScheduled) return wait(stripe, live, asked, idempotencyKey);
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
    return canWait && wantsPerson(code) ? wait(stripe, live, asked, idempotencyKey) : { kind: 'declined' };
  }
}

const wantsPerson = (code: string | undefined): boolean =>
  code === 'authentication_required' || code === 'subscription_payment_intent_requires_action';

function paramsOf(live: Stripe.Subscription, wanted: readonly PricedItem[], askedAt: Date) {
  const begun = live.items.data[0]?.current_period_start ?? 0;
  return {
    items: itemChanges(live.items.data, wanted),
    proration_behavior: 'always_invoice' as const,
    // The same timestamp for every attempt.
    proration_date: Math.max(begun, Math.floor(askedAt.getTime() / 1000)),
  };
}

/**
 * Makes a change that may wait for its payment. Stripe does not accept metadata here, so the items
 * identify the change.
 */
async function wait(
  stripe: Stripe,
  live: Stripe.Subscription,
  asked: ReturnType<typeof paramsOf>,
  idempotencyKey: string,
): Promise<Changed> {
  const updated = await stripe.subscriptions.update(
    live.id,
    { ...asked, payment_behavior: 'pending_if_incomplete' },
    { idempotencyKey: `${idempotencyKey}:wait` },
  );
  return updated.pending_update ? outcomeOfWaiting(stripe, updated, idempotencyKey) : { kind: 'applied' };
}

/** Waits if the bank requires the person's confirmation. A declined card does not wait. */
async function outcomeOfWaiting(stripe: Stripe, live: Stripe.Subscription, idempotencyKey: string): Promise<Changed> {
  const invoice = await stripe.invoices.retrieve(latestInvoice(live), {
    expand: ['payments.data.payment.payment_intent'],
  });
  const isWanted = (invoice.payments?.data ?? []).some(({ payment }) => {
    const intent = payment.payment_intent;
    return typeof intent === 'object' && intent.status === 'requires_action';
  });
  if (isWanted) return { kind: 'waiting', actionUrl: invoice.hosted_invoice_url ?? null };
  await drop(stripe, live, idempotencyKey);
  return { kind: 'declined' };
}

/** Drops a waiting change by voiding its invoice. */
async function drop(stripe: Stripe, live: Stripe.Subscription, idempotencyKey: string): Promise<void> {
  await stripe.invoices.voidInvoice(latestInvoice(live), {}, { idempotencyKey: `${idempotencyKey}:void` });
}

function latestInvoice({ id, latest_invoice }: Stripe.Subscription): string {
  const invoice = typeof latest_invoice === 'string' ? latest_invoice : latest_invoice?.id;
  if (!invoice) throw new Error(`the pending change of ${id} has no invoice`);
  return invoice;
}
