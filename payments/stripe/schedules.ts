// What happens at the end of a period: a subscription's one schedule, always written whole.
import type Stripe from 'stripe';
import { nextPeriod } from '../../domain/billing/changes.ts';
import type { ScheduledChange, Subscription } from '../../domain/billing/subscription.ts';
import { pricedItems } from './items.ts';
import { scheduleOf } from './state.ts';

/**
 * Makes a subscription at Stripe do at the end of its period what ours says. Nothing is charged by it, so that it can be done again.
 * @param target its items are those that the subscription has now
 * @param idempotencyKey from which that of each step is derived
 */
export async function schedule(
  stripe: Stripe,
  live: Stripe.Subscription,
  target: Subscription,
  idempotencyKey: string,
  operationId: string,
): Promise<void> {
  const step = (name: string): Stripe.RequestOptions => ({ idempotencyKey: `${idempotencyKey}:${name}` });
  const { scheduled, cancelAtPeriodEnd } = target;
  const isScheduled = scheduled.length > 0;
  if (!isScheduled) await release(stripe, live, idempotencyKey);
  const cancelsItself = !isScheduled && cancelAtPeriodEnd;
  if (live.cancel_at_period_end !== cancelsItself)
    await stripe.subscriptions.update(
      live.id,
      { cancel_at_period_end: cancelsItself, metadata: { operation_id: operationId } },
      step('cancel'),
    );
  if (!isScheduled) return;
  const attached =
    activeSchedule(live) ??
    (await stripe.subscriptionSchedules.create({ from_subscription: live.id }, step('schedule')));
  const phase = attached.phases.find(({ start_date }) => start_date === attached.current_phase?.start_date);
  const current = {
    items: live.items.data.map(({ price, quantity }) => ({ price: price.id, quantity: quantity ?? 1 })),
    start_date: phase?.start_date ?? live.start_date,
    end_date: live.items.data[0]?.current_period_end ?? 0,
    metadata: live.metadata,
  };
  const next = nextPeriod(target);
  const following = {
    items: (await pricedItems(stripe, next, live.items.data, idempotencyKey)).map(({ price, quantity }) => ({
      price,
      quantity,
    })),
    duration: { interval: next.billingCycle === 'yearly' ? 'year' : 'month', interval_count: 1 } as const,
    metadata: { operation_id: operationId, seats: next.seats === null ? '' : String(next.seats) },
  };
  await stripe.subscriptionSchedules.update(
    attached.id,
    {
      phases: cancelAtPeriodEnd ? [current] : [current, following],
      end_behavior: cancelAtPeriodEnd ? 'cancel' : 'release',
      proration_behavior: 'none',
      metadata: { operation_id: operationId, scheduled: scheduled.map(written).join(',') },
    },
    step('phases'),
  );
}

/** Takes the schedule off, so that the subscription can be changed at once. */
export async function release(stripe: Stripe, live: Stripe.Subscription, idempotencyKey: string): Promise<void> {
  const attached = activeSchedule(live);
  if (attached)
    await stripe.subscriptionSchedules.release(attached.id, {}, { idempotencyKey: `${idempotencyKey}:release` });
}

function activeSchedule(live: Stripe.Subscription): Stripe.SubscriptionSchedule | undefined {
  const attached = scheduleOf(live);
  return attached?.status === 'active' ? attached : undefined;
}

/** What is still to come of a schedule: in its last phase nothing. A cancellation keeps what it displaced. */
export function readScheduled(attached: Stripe.SubscriptionSchedule | null): {
  scheduled: ScheduledChange[];
  isCanceled: boolean;
} {
  if (attached?.status !== 'active') return { scheduled: [], isCanceled: false };
  const isCanceled = attached.end_behavior === 'cancel';
  const isLast = attached.current_phase?.start_date === attached.phases.at(-1)?.start_date;
  const texts = (attached.metadata?.scheduled ?? '').split(',').filter(Boolean);
  return { scheduled: isLast && !isCanceled ? [] : texts.map(read), isCanceled };
}

/** Short, since the metadata of Stripe are. */
function written(change: ScheduledChange): string {
  switch (change.action) {
    case 'downgrade':
      return `downgrade:${change.package_code}`;
    case 'set_seats':
      return `set_seats:${change.seats}`;
    case 'remove_module':
      return `remove_module:${change.module_key}`;
  }
}

function read(text: string): ScheduledChange {
  const [action = '', value = ''] = text.split(':');
  if (action === 'downgrade') return { action, package_code: value };
  if (action === 'set_seats') return { action, seats: Number(value) };
  if (action === 'remove_module') return { action, module_key: value };
  throw new Error(`a schedule at Stripe says ${action}, which is no change`);
}
