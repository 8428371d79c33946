// Stripe events: verified by signature, and only a signal to fetch the customer.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../faults/support/random.ts';
import { anyAddress } from '../support/client.ts';
import { send } from '../support/stripe/stand-in.ts';
import { cards, change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

/** Orders in which events arrive. The benchmark figure uses ORDERS=1000. */
const orders = Number(process.env.ORDERS ?? 60);
const random = new Random();

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-events');
});
afterAll(() => world?.close());

async function findCustomer({ companyId }: Tenant): Promise<string> {
  const [row] = await database()<{ id: string }[]>`
    select customer_id as id from provider_customers where company_id = ${companyId}`;
  return row?.id ?? '';
}

/** Returns true if the customer is due to be fetched. */
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

test('rejects an event about a charge if Stripe cannot be asked about it, so that Stripe sends it again', async () => {
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
    customer = await findCustomer(tenant);
  });

  test('accepts a freshly signed event once', async () => {
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
  ])('rejects and ignores an event that was signed %s', async (_how, more) => {
    const answer = await send(world.server.url, newEvent(customer), more);
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { success: false, error: { code: 'VALIDATION_ERROR', details: { reason: 'invalid_signature' } } },
    ]);
    expect(await isDue(tenant)).toBe(false);
  });

  test.each([['nothing'], ['t=1,v1=00'], ['nonsense']])('rejects an event with the signature %s', async (signature) => {
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
    ['an unhandled type', { type: 'payout.paid' }],
    ['an unknown customer', { data: { object: { object: 'invoice', customer: 'cus_unknown' } } }],
    ['no customer', { data: { object: { object: 'invoice', customer: null } } }],
    [
      'an unknown charge',
      { type: 'charge.dispute.closed', data: { object: { object: 'dispute', charge: 'ch_unknown' } } },
    ],
  ])('accepts an event about %s without effect', async (_what, more) => {
    expect((await send(world.server.url, newEvent(customer, more))).status).toBe(200);
    expect(await isDue(tenant)).toBe(false);
  });
});

test('does not overwrite a newer fetch with one that started earlier', async () => {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  const customer = await findCustomer(tenant);
  await send(world.server.url, newEvent(customer));
  let later: Promise<unknown> | undefined;
  // While the first fetch waits for its response, the state changes and another fetch finishes
  // first.
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

test('stores nothing if a fetch runs during an operation, which relies on the earlier state', async () => {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  await change(tenant, 'modules', { module_key: 'campaigns' });
  await change(tenant, 'modules/campaigns');
  const looks: unknown[] = [];
  // The schedule was released, and Stripe has sent the event.
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

test('finds changes without an event within a day', async () => {
  const tenant = await newTenant();
  await world.subscribe(tenant);
  world.standIn.eventsTo = undefined;
  world.standIn.books.putOnFile(await findCustomer(tenant), '5555555555554444');
  world.standIn.eventsTo = world.server.url;
  expect(await world.look(tenant, new Date(Date.now() + 23 * 3_600_000))).toBeUndefined();
  const found = await world.look(tenant, new Date(Date.now() + 25 * 3_600_000));
  expect(found?.paymentMethod?.last4).toBe('4444');
});

describe('the events of one subscription', () => {
  test('reaches one projection from many shuffled, duplicated and incomplete event orders', async () => {
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
    const recorded = events.slice(begun);
    const final = await projection(tenant);
    const [initial] = await database()`select * from subscriptions where company_id = ${tenant.companyId}`;
    expect(recorded.length).toBeGreaterThan(10);

    world.standIn.eventsTo = undefined;
    const differing: unknown[] = [];
    for (let order = 0; order < orders; order += 1) {
      await forget(tenant, initial as object);
      const heard = random.shuffled([...recorded, ...recorded].filter(() => random.chance(0.6)));
      const half = Math.floor(heard.length / 2);
      // In between, the customer is fetched in some intermediate state.
      books.restore(moments[1 + (order % (moments.length - 1))] ?? books.copy());
      await Promise.all(heard.slice(0, half).map((event) => send(world.server.url, event)));
      await world.look(tenant);
      books.restore(moments.at(-1) ?? books.copy());
      await Promise.all(heard.slice(half).map((event) => send(world.server.url, event)));
      // Even if the last events were lost, the daily fetch finds the rest.
      await world.look(tenant, new Date(Date.now() + 25 * 3_600_000));
      const now = await projection(tenant);
      if (JSON.stringify(now) !== JSON.stringify(final)) differing.push({ order, now });
    }
    world.standIn.eventsTo = world.server.url;
    expect(differing).toEqual([]);
  }, 600_000);

  /** All stored data of the Stripe customer. */
  async function projection({ companyId }: Tenant): Promise<unknown> {
    const sql = database();
    const [subscription] = await sql`
      select to_jsonb(s) - 'updated_at' as row from subscriptions s where company_id = ${companyId}`;
    const invoices = await sql`
      select to_jsonb(i) - 'id' as row from invoices i where company_id = ${companyId} order by number`;
    return { subscription: subscription?.row, invoices: invoices.map(({ row }) => row) };
  }

  /** Resets the state as if no event had arrived. */
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
