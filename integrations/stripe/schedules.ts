// Manages the schedule of a subscription: what happens at the end of the period.
import type Stripe from 'stripe';
import { buildNextPeriod } from '../../domain/billing/changes.ts';
import type { ScheduledChange, Subscription } from '../../domain/billing/subscription.ts';
import { type PricedItem, resolveItemPrices } from './items.ts';
import { buildNextPhase, keepCurrentPhase, keepPhase } from './phases.ts';
import { findSchedule } from './state.ts';

type PhaseParams = Stripe.SubscriptionScheduleUpdateParams.Phase;

/**
 * Schedules at Stripe what the target says for the end of the period. It charges nothing, so it can
 * be repeated.
 * @param target has the current items of the subscription
 * @param idempotencyKey the prefix of each step's key
 */
export async function writeSchedule(
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
  const attached = activeSchedule(live);
  const written =
    attached ?? (await stripe.subscriptionSchedules.create({ from_subscription: live.id }, step('schedule')));
  const current = buildCurrentPhase(written, live);
  const next = async (): Promise<PhaseParams[]> =>
    buildNextPhases(
      live,
      target,
      current,
      attached ?? (await findReleased(stripe, live)),
      await resolveItemPrices(stripe, buildNextPeriod(target), live.items.data, idempotencyKey),
      operationId,
    );
  await stripe.subscriptionSchedules.update(
    written.id,
    {
      phases: cancelAtPeriodEnd ? [current] : [current, ...(await next())],
      end_behavior: cancelAtPeriodEnd ? 'cancel' : 'release',
      proration_behavior: 'none',
      metadata: { operation_id: operationId, scheduled: scheduled.map(write).join(',') },
    },
    step('phases'),
  );
}

function buildCurrentPhase(schedule: Stripe.SubscriptionSchedule, live: Stripe.Subscription): PhaseParams {
  const phase = schedule.phases.find(({ start_date }) => start_date === schedule.current_phase?.start_date);
  if (!phase) throw new Error(`the schedule ${schedule.id} has no current phase`);
  return keepCurrentPhase(phase, live);
}

/** Returns the phases that `writeSchedule` would write to a schedule, for a preview. */
export function planPhases(
  live: Stripe.Subscription,
  attached: Stripe.SubscriptionSchedule,
  target: Subscription,
  items: readonly PricedItem[],
): PhaseParams[] {
  const current = buildCurrentPhase(attached, live);
  return [current, ...buildNextPhases(live, target, current, attached, items, live.metadata.operation_id ?? '')];
}

/**
 * Builds the next period as scheduled, followed by the phases that support planned.
 * @param schedule has the phases planned so far
 * @param items of the next period
 */
function buildNextPhases(
  live: Stripe.Subscription,
  target: Subscription,
  current: PhaseParams,
  schedule: Stripe.SubscriptionSchedule | undefined,
  items: readonly PricedItem[],
  operationId: string,
): PhaseParams[] {
  const next = buildNextPeriod(target);
  const [planned, ...later] = findPlannedPhases(schedule, current);
  const following = buildNextPhase(items, planned, current, live);
  const metadata = { operation_id: operationId, seats: next.seats === null ? '' : String(next.seats) };
  const duration = { interval: next.billingCycle === 'yearly' ? 'year' : 'month', interval_count: 1 } as const;
  // A phase with successors ends when the next one begins.
  const end = later.length > 0 && planned?.end_date !== undefined ? { end_date: planned.end_date } : { duration };
  return [{ ...following, ...end, metadata: { ...following.metadata, ...metadata } }, ...later];
}

/** Returns the phases planned after the current one. */
function findPlannedPhases(planned: Stripe.SubscriptionSchedule | undefined, { end_date }: PhaseParams): PhaseParams[] {
  const phases = planned?.phases ?? [];
  const first = phases.findIndex(({ start_date }) => start_date === end_date);
  return first === -1 ? [] : phases.slice(first).map(keepPhase);
}

/** Returns the schedule that was released last, by a change that could not be made under it. */
async function findReleased(
  stripe: Stripe,
  live: Stripe.Subscription,
): Promise<Stripe.SubscriptionSchedule | undefined> {
  const customer = typeof live.customer === 'string' ? live.customer : live.customer.id;
  const { data } = await stripe.subscriptionSchedules.list({ customer, limit: 100 });
  return data
    .filter(({ released_subscription }) => released_subscription === live.id)
    .toSorted((a, b) => (b.released_at ?? 0) - (a.released_at ?? 0))[0];
}

/** Releases the schedule, so that the subscription can be changed immediately. */
export async function release(stripe: Stripe, live: Stripe.Subscription, idempotencyKey: string): Promise<void> {
  const attached = activeSchedule(live);
  if (attached)
    await stripe.subscriptionSchedules.release(attached.id, {}, { idempotencyKey: `${idempotencyKey}:release` });
}

function activeSchedule(live: Stripe.Subscription): Stripe.SubscriptionSchedule | undefined {
  const attached = findSchedule(live);
  return attached?.status === 'active' ? attached : undefined;
}

/**
 * Reads the pending changes of a schedule. Empty once their phase has begun. A cancellation keeps
 * the changes that it displaced.
 */
export function readScheduled(attached: Stripe.SubscriptionSchedule | null): {
  scheduled: ScheduledChange[];
  isCanceled: boolean;
} {
  if (attached?.status !== 'active') return { scheduled: [], isCanceled: false };
  const isCanceled = attached.end_behavior === 'cancel';
  // The current phase has the mark of the previous operation, which may be the same one.
  const own = attached.phases.findLast(({ metadata }) => metadata?.operation_id === attached.metadata?.operation_id);
  const begins = (own ?? attached.phases.at(-1))?.start_date ?? 0;
  const isDone = (attached.current_phase?.start_date ?? 0) >= begins;
  const texts = (attached.metadata?.scheduled ?? '').split(',').filter(Boolean);
  return { scheduled: isDone && !isCanceled ? [] : texts.map(read), isCanceled };
}

/** Short, because Stripe limits the length of metadata. */
function write(change: ScheduledChange): string {
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
  throw new Error(`unknown change ${action} in a Stripe schedule`);
}
