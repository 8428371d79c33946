// Every operation after every pending change, on a subscription that has changed at Stripe.
// The result must not depend on whether the events arrived before, later, twice or never.
import type Stripe from 'stripe';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Random } from '../faults/support/random.ts';
import type { Json } from '../support/client.ts';
import { send } from '../support/stripe/stand-in.ts';
import { change, StripeWorld } from '../support/stripe/world.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

/** The number of combinations drawn at random. MOVES=all: every one. */
const drawn = process.env.MOVES === 'all' ? Number.POSITIVE_INFINITY : Number(process.env.MOVES ?? 20);
const random = new Random();

type Asked = readonly [what: string, body?: object];

/** Starts on growth with 12 seats and the module workforces. */
const pendings: Readonly<Record<string, Asked>> = {
  'a downgrade': ['downgrade', { package_code: 'starter' }],
  'the end of a module': ['modules/workforces'],
  'fewer seats': ['seats', { seats: 10 }],
  'a cancellation': ['cancel'],
  'another cycle': ['upgrade', { package_code: 'growth', billing_cycle: 'yearly' }],
};

const operations: Readonly<Record<string, Asked>> = {
  upgrade: ['upgrade', { package_code: 'scale' }],
  'the other cycle': ['upgrade', { package_code: 'growth', billing_cycle: 'yearly' }],
  'the same plan': ['upgrade', { package_code: 'growth' }],
  downgrade: ['downgrade', { package_code: 'starter' }],
  'more seats': ['seats', { seats: 30 }],
  'fewer seats': ['seats', { seats: 10 }],
  'another module': ['modules', { module_key: 'phone_numbers' }],
  'no module': ['modules/workforces'],
  cancel: ['cancel'],
  reactivate: ['reactivate'],
};

const moves = ['the period ends', 'support changes the plan'] as const;
const deliveries = ['late', 'lost', 'doubled'] as const;

interface Combination {
  pending: string;
  operation: string;
  move: (typeof moves)[number];
  delivery: (typeof deliveries)[number];
}

const everyCombination: Combination[] = Object.keys(pendings).flatMap((pending) =>
  Object.keys(operations).flatMap((operation) =>
    moves.flatMap((move) => deliveries.map((delivery) => ({ pending, operation, move, delivery }))),
  ),
);

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-moves');
  // The price that support switches to.
  await world.subscribe(await newTenant(), { package_code: 'scale' });
});
afterAll(() => world?.close());

/** Works on a few things at a time, because the server shares two cores. */
async function each<Thing>(things: readonly Thing[], work: (thing: Thing) => Promise<void>): Promise<void> {
  const rest = [...things];
  const next = async (): Promise<void> => {
    for (let thing = rest.shift(); thing !== undefined; thing = rest.shift()) await work(thing);
  };
  await Promise.all([next(), next(), next()]);
}

async function changed(tenant: Tenant, [what, body]: Asked): Promise<void> {
  const { status, text } = await change(tenant, what, body);
  if (status !== 200) throw new Error(`${what} was answered with ${status}: ${text}`);
}

async function listEvents(tenant: Tenant, since: number): Promise<Stripe.Event[]> {
  const customer = await world.findCustomer(tenant);
  return world.standIn.events
    .slice(since)
    .filter(({ data }) => (data.object as { customer?: string }).customer === customer);
}

async function deliver(events: readonly Stripe.Event[]): Promise<void> {
  for (const event of random.shuffled(events)) expect((await send(world.server.url, event)).status).toBe(200);
}

/** The outcome of an operation, without values that differ between tenants. */
interface Outcome {
  answer: Json;
  subscription: Json;
  charged: number[];
}

async function readOutcome(tenant: Tenant, answer: Json): Promise<Outcome> {
  const shown = await world.subscription(tenant);
  const { billing_status, plan, cancel_at_period_end, seats, modules, scheduled_changes } = shown;
  const scheduled = scheduled_changes.map(({ effective: _effective, ...rest }: Json) => rest);
  const kept = modules.map(({ module_key, status }: Json) => `${module_key} ${status}`).toSorted();
  const subscription = { billing_status, plan, cancel_at_period_end, seats, modules: kept, scheduled };
  return { answer, subscription, charged: await world.charged(tenant) };
}

/** Performs an operation. @returns its status and rejection */
async function ask(tenant: Tenant, operation: string): Promise<Json> {
  const { status, body } = await change(tenant, ...(operations[operation] as [string, object?]));
  const { code, details } = body.error ?? {};
  // Once the end of the subscription is known, the call is rejected before its operation.
  if (code === 'QUOTA_EXCEEDED' && details.reason === 'subscription_ended')
    return { status: 409, code: 'NO_ACTIVE_SUBSCRIPTION' };
  return { status, code, reason: details?.reason, applies: body.data?.applies };
}

async function moveOn(move: Combination['move'], pairs: readonly { heard: Tenant; other: Tenant }[]): Promise<void> {
  const tenants = pairs.flatMap(({ heard, other }) => [heard, other]);
  if (move === 'support changes the plan')
    for (const tenant of tenants) world.standIn.books.switchPlan(await world.findCustomer(tenant), 'scale');
  else if (tenants.length > 0) await world.turnPeriod(...tenants);
}

test.each(Object.keys(pendings))(
  'has the same result for each operation after %s, whether or not its events arrived before',
  async (pending) => {
    const own = random
      .shuffled(everyCombination)
      .slice(0, drawn)
      .filter((each) => each.pending === pending);
    process.stdout.write(`${own.length} combinations after ${pending}; the seed is ${random.seed}\n`);
    // For each combination, one tenant whose events arrive immediately, and one whose events do
    // not.
    const pairs = await Promise.all(
      own.map(async (combination) => ({ ...combination, heard: await newTenant(), other: await newTenant() })),
    );
    const all = pairs.flatMap(({ heard, other }) => [heard, other]);
    await each(all, async (tenant) => {
      const session = await world.startCheckout(tenant, { kind: 'subscribe', package_code: 'growth', seats: 12 });
      await world.fillIn(session.url);
    });
    await world.catchUp();
    await each(all, async (tenant) => {
      await changed(tenant, ['modules', { module_key: 'workforces' }]);
      await changed(tenant, pendings[pending] as Asked);
    });
    await world.catchUp();

    const differing: unknown[] = [];
    // One move after the other, because a period ends for all tenants.
    for (const move of ['support changes the plan', 'the period ends'] as const) {
      const moved = pairs.filter((pair) => pair.move === move);
      const since = world.standIn.events.length;
      await world.unheard(() => moveOn(move, moved));
      await each(moved, async ({ heard, other, ...combination }) => {
        const recorded = await listEvents(other, since);
        await deliver(await listEvents(heard, since));
        await world.look(heard);
        const expected = await readOutcome(heard, await ask(heard, combination.operation));

        if (combination.delivery === 'doubled') await deliver([...recorded, ...recorded]);
        const answer = await ask(other, combination.operation);
        if (combination.delivery === 'late') await deliver(recorded);
        await world.look(other, new Date(Date.now() + 25 * 3_600_000));
        const actual = await readOutcome(other, answer);
        if (!isAlike(actual, expected)) differing.push({ ...combination, expected, actual });
      });
    }
    expect(differing).toEqual([]);
  },
  600_000,
);

/** Proration is by the second, so a few seconds later a change costs a few minor units less. */
function isAlike(one: Outcome, other: Outcome): boolean {
  const { charged, ...rest } = one;
  const { charged: others, ...otherRest } = other;
  return (
    JSON.stringify(rest) === JSON.stringify(otherRest) &&
    charged.length === others.length &&
    charged.every((amount, index) => Math.abs(amount - (others[index] ?? 0)) <= 5 + amount / 1000)
  );
}
