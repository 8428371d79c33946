// What Stripe tells: a doorbell, which rings for whoever signed it, and never says what there is.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../faults/support/random.ts';
import { anyAddress } from '../support/client.ts';
import { send } from '../support/stripe/stand-in.ts';
import { cards, change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

/** Orders in which events are told; the figure is of ORDERS=1000. */
const orders = Number(process.env.ORDERS ?? 60);
const random = new Random();

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-events');
});
afterAll(() => world?.close());

async function customerOf({ companyId }: Tenant): Promise<string> {
  const [row] = await database()<{ id: string }[]>`
    select customer_id as id from provider_customers where company_id = ${companyId}`;
  return row?.id ?? '';
}

/** True when somebody is to look at the customer now. */
async function isDue({ companyId }: Tenant): Promise<boolean> {
  const rows = await database()`select from provider_customers where company_id = ${companyId} and due_at <= now()`;
  return rows.length === 1;
}

const newEvent = (customer: string, more: object = {}) => ({
  id: `evt_${randomUUID()}`,
  object: 'event',
  type: 'invoice.paid',
  created: 0,
  data: { object: { object: 'invoice', id: 'in_1', customer } },
  ...more,
});

const seconds = (): number => Math.floor(Date.now() / 1000);

test('an event about a charge that Stripe cannot be asked about is not taken, so that Stripe sends it again', async () => {
  world.standIn.faults.push(
    { of: /^GET \/v1\/charges\//, how: 'refused' },
    { of: /^GET \/v1\/charges\//, how: 'refused' },
  );
  const dispute = { object: 'dispute', charge: 'ch_unknown' };
  const event = newEvent('', { type: 'charge.dispute.closed', data: { object: dispute } });
  expect((await send(world.server.url, event)).status).toBe(503);
  expect((await send(world.server.url, event)).status).toBe(200);
});

describe('an event', () => {
  let tenant: Tenant;
  let customer: string;
  beforeAll(async () => {
    tenant = await newTenant();
    await world.subscribe(tenant);
    customer = await customerOf(tenant);
  });

  test('that Stripe signed just now is heard, once', async () => {
    const event = newEvent(customer);
    const answer = await send(world.server.url, event);
    expect([answer.status, await answer.json()]).toEqual([200, { received: true }]);
    const heard = async () => database()`
      select asked, (select count(*)::int from provider_events where company_id = ${tenant.companyId} and id = ${event.id}) as events
      from provider_customers where company_id = ${tenant.companyId}`;
    const once = await heard();
    expect(once).toMatchObject([{ events: 1 }]);
    expect(await isDue(tenant)).toBe(true);
    await world.catchUp();
    const [looked] = await heard();
    for (let again = 0; again < 3; again += 1) expect((await send(world.server.url, event)).status).toBe(200);
    expect(await heard()).toEqual([looked]);
    expect(await isDue(tenant)).toBe(false);
  });

  test.each([
    ['with another secret', { secret: 'whsec_other' }],
    ['too long ago', { timestamp: seconds() - 301 }],
    ['in the future', { timestamp: seconds() + 400 }],
  ])('that was signed %s is refused, and not heard', async (_how, more) => {
    const answer = await send(world.server.url, newEvent(customer), more);
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { success: false, error: { code: 'VALIDATION_ERROR', details: { reason: 'invalid_signature' } } },
    ]);
    expect(await isDue(tenant)).toBe(false);
  });

  test.each([['nothing'], ['t=1,v1=00'], ['nonsense']])('with the signature %s is refused', async (signature) => {
    const answer = await fetch(`${world.server.url}/v1/billing/provider-events`, {
      method: 'POST',
      headers: {
        ...(signature === 'nothing' ? {} : { 'stripe-signature': signature }),
        'x-forwarded-for': anyAddress(),
      },
      body: JSON.stringify(newEvent(customer)),
    });
    expect(answer.status).toBe(400);
    expect(await isDue(tenant)).toBe(false);
  });

  test.each([
    ['of a kind that says nothing to us', { type: 'payout.paid' }],
    ['of a customer that is not ours', { data: { object: { object: 'invoice', customer: 'cus_unknown' } } }],
    ['of no customer', { data: { object: { object: 'invoice', customer: null } } }],
    [
      'of a charge that is not there',
      { type: 'charge.dispute.closed', data: { object: { object: 'dispute', charge: 'ch_unknown' } } },
    ],
  ])('%s is answered, and nothing comes of it', async (_what, more) => {
    expect((await send(world.server.url, newEvent(customer, more))).status).toBe(200);
    expect(await isDue(tenant)).toBe(false);
  });
});

test('a look that began earlier is not written over one that began later', async () => {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  const customer = await customerOf(tenant);
  await send(world.server.url, newEvent(customer));
  let later: Promise<unknown> | undefined;
  // While the first look waits for its answer, things go on, and another look is quicker.
  const goOn = async (): Promise<void> => {
    world.standIn.books.putOnFile(customer, '5555555555554444');
    await world.standIn.eventsSent();
    later = world.look(tenant);
    await later;
  };
  world.standIn.faults.push({ of: /^GET \/v1\/subscriptions$/, how: 'slow', act: goOn });
  await world.look(tenant);
  expect(later).toBeDefined();
  expect((await world.subscription(tenant)).payment_method.last4).toBe('4444');
});

test('a look in the middle of an order writes nothing: the order relies on what there was', async () => {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  await change(tenant, 'modules', { module_key: 'campaigns' });
  await change(tenant, 'modules/campaigns');
  const looks: unknown[] = [];
  // The schedule has been taken off, and Stripe has told so.
  const look = async (): Promise<void> => {
    await world.standIn.eventsSent();
    expect(await isDue(tenant)).toBe(true);
    looks.push(await world.look(tenant));
  };
  world.standIn.faults.push({ of: /^POST \/v1\/subscriptions\//, how: 'refused', act: look });
  const key = randomUUID();
  expect((await change(tenant, 'upgrade', { package_code: 'growth' }, key)).status).toBe(503);
  expect(looks).toEqual([undefined]);
  expect((await change(tenant, 'upgrade', { package_code: 'growth' }, key)).status).toBe(200);
  expect(await world.subscription(tenant)).toMatchObject({
    plan: { package_code: 'growth' },
    scheduled_changes: [{ action: 'remove_module', module_key: 'campaigns' }],
  });
});

test('what nobody told is found within a day', async () => {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  world.standIn.eventsTo = undefined;
  world.standIn.books.putOnFile(await customerOf(tenant), '5555555555554444');
  world.standIn.eventsTo = world.server.url;
  expect(await world.look(tenant, new Date(Date.now() + 23 * 3_600_000))).toBeUndefined();
  const found = await world.look(tenant, new Date(Date.now() + 25 * 3_600_000));
  expect(found?.paymentMethod?.last4).toBe('4444');
});

describe('the events of one subscription', () => {
  test('in many shuffled, doubled and thinned orders: one projection', async () => {
    process.stdout.write(`the seed of the orders of events is ${random.seed}\n`);
    const tenant = await newTenant();
    const { books, events } = world.standIn;
    const begun = events.length;
    const moments = [books.copy()];
    const then = async (step: Promise<unknown>): Promise<void> => {
      await step;
      moments.push(books.copy());
    };
    await then(world.subscribe(tenant, { package_code: 'growth', seats: 12 }));
    await then(change(tenant, 'modules', { module_key: 'campaigns' }));
    await then(world.putOnFile(tenant, cards.wantsPerson));
    await then(change(tenant, 'upgrade', { package_code: 'scale' }));
    await then(world.putOnFile(tenant, cards.good));
    await then(change(tenant, 'upgrade', { package_code: 'scale' }));
    await then(change(tenant, 'seats', { seats: 30 }));
    await then(change(tenant, 'downgrade', { package_code: 'starter' }));
    await then(change(tenant, 'cancel'));
    await then(change(tenant, 'reactivate'));
    const told = events.slice(begun);
    const final = await projection(tenant);
    const [initial] = await database()`select * from subscriptions where company_id = ${tenant.companyId}`;
    expect(told.length).toBeGreaterThan(10);

    world.standIn.eventsTo = undefined;
    const differing: unknown[] = [];
    for (let order = 0; order < orders; order += 1) {
      await forget(tenant, initial as object);
      const heard = random.shuffled([...told, ...told].filter(() => random.chance(0.6)));
      const half = Math.floor(heard.length / 2);
      // In between somebody looks, at whatever there was then.
      books.restore(moments[1 + (order % (moments.length - 1))] ?? books.copy());
      await Promise.all(heard.slice(0, half).map((event) => send(world.server.url, event)));
      await world.look(tenant);
      books.restore(moments.at(-1) ?? books.copy());
      await Promise.all(heard.slice(half).map((event) => send(world.server.url, event)));
      // Whether the last were heard or not: the daily look finds what is left.
      await world.look(tenant, new Date(Date.now() + 25 * 3_600_000));
      const now = await projection(tenant);
      if (JSON.stringify(now) !== JSON.stringify(final)) differing.push({ order, now });
    }
    world.standIn.eventsTo = world.server.url;
    expect(differing).toEqual([]);
  }, 600_000);

  /** All that is kept of what Stripe has. */
  async function projection({ companyId }: Tenant): Promise<unknown> {
    const sql = database();
    const [subscription] = await sql`
      select to_jsonb(s) - 'updated_at' as row from subscriptions s where company_id = ${companyId}`;
    const invoices = await sql`
      select to_jsonb(i) - 'id' as row from invoices i where company_id = ${companyId} order by number`;
    return { subscription: subscription?.row, invoices: invoices.map(({ row }) => row) };
  }

  /** As if nothing had ever been heard. */
  async function forget({ companyId }: Tenant, row: object): Promise<void> {
    const sql = database();
    await sql`delete from provider_events where company_id = ${companyId}`;
    await sql`delete from invoices where company_id = ${companyId}`;
    const trial = {
      status: 'trialing',
      package_code: 'growth',
      payment_method: null,
      seats: null,
      scheduled: sql.json([]),
    };
    await sql`update subscriptions set ${sql({ ...row, ...trial, add_ons: [] } as never)} where company_id = ${companyId}`;
    await sql`update provider_customers set due_at = now() + interval '1 day' where company_id = ${companyId}`;
  }
});
