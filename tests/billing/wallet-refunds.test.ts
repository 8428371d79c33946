// Wallet top-ups that are refunded, or lost to a dispute, take their credit back.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('wallet-refunds');
});
afterAll(() => world?.close());

/** Pays into the wallet at Stripe. @returns the payment id at Stripe */
async function pay(tenant: Tenant, amount_minor: number): Promise<string> {
  const session = await world.startCheckout(tenant, { kind: 'wallet_topup', amount_minor });
  await world.fillIn(session.url);
  return [...world.standIn.books.topUps.keys()].at(-1) ?? '';
}

async function topUp(tenant: Tenant, amount_minor: number): Promise<string> {
  const payment = await pay(tenant, amount_minor);
  await world.catchUp();
  return payment;
}

async function balance({ key }: Tenant): Promise<number> {
  return (await expectStatus(200, 'GET', '/v1/usage', { key })).body.data.usage.wallet.balance_minor;
}

/** Returns the events and audit rows of a tenant's wallet. */
async function changes({ companyId }: Tenant): Promise<{ events: Json[]; audit: Json[] }> {
  const sql = database();
  const events = await sql<{ data: Json }[]>`
    select data from outbox_events where company_id = ${companyId} and event = 'wallet.adjusted'
    union all
    select data from feed_events where company_id = ${companyId} and event = 'wallet.adjusted'`;
  const audit = await sql<{ metadata: Json }[]>`
    select metadata from audit_logs where company_id = ${companyId} and action = 'wallet.adjust' order by occurred_at, id`;
  return {
    events: events.map(({ data }) => data).toSorted((a, b) => b.balance_minor - a.balance_minor),
    audit: audit.map(({ metadata }) => metadata),
  };
}

/** Drops all events while the work runs at Stripe. */
async function unheard<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  await world.standIn.eventsSent();
  world.standIn.eventsTo = undefined;
  try {
    return await work();
  } finally {
    world.standIn.eventsTo = world.server.url;
  }
}

const tomorrow = (): Date => new Date(Date.now() + 25 * 3_600_000);

describe('a refunded top-up', () => {
  test('takes back the credit of a refunded top-up, with an event and an audit row', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    expect(await balance(tenant)).toBe(5000);
    world.standIn.books.refundTopUp(payment, 5000);
    await world.catchUp();
    expect(await balance(tenant)).toBe(0);
    const data = { reason: 'refund', amount_minor: -5000, balance_minor: 0, currency: 'USD' };
    expect(await changes(tenant)).toEqual({
      events: [{ ...data, occurred_at: expect.any(String) }],
      audit: [{ ...data, payment }],
    });
  });

  test('takes back the credit of each partial refund', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    for (const [refunded, left] of [
      [1000, 4000],
      [2500, 2500],
      [5000, 0],
    ] as const) {
      world.standIn.books.refundTopUp(payment, refunded);
      await world.catchUp();
      expect(await balance(tenant)).toBe(left);
    }
    const { events, audit } = await changes(tenant);
    expect(events.map(({ amount_minor }) => amount_minor)).toEqual([-1000, -1500, -2500]);
    expect(audit).toHaveLength(3);
  });

  test('lets the wallet go below 0 if the credit is spent, and the next top-up compensates', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    await database()`
      insert into wallet_entries (company_id, test_mode, payment_id, amount_minor, created_at)
      values (${tenant.companyId}, false, 'spent', -3000, now())`;
    world.standIn.books.refundTopUp(payment, 5000);
    await world.catchUp();
    expect(await balance(tenant)).toBe(-3000);
    expect((await changes(tenant)).events).toMatchObject([{ amount_minor: -5000, balance_minor: -3000 }]);
    await topUp(tenant, 4000);
    expect(await balance(tenant)).toBe(1000);
  });

  test('returns the credit if the refund fails, and leaves other top-ups unchanged', async () => {
    const tenant = await newTenant();
    await topUp(tenant, 2000);
    const payment = await topUp(tenant, 5000);
    world.standIn.books.refundTopUp(payment, 5000);
    await world.catchUp();
    expect(await balance(tenant)).toBe(2000);
    world.standIn.books.refundTopUp(payment, 0);
    await world.catchUp();
    expect(await balance(tenant)).toBe(7000);
    const { audit } = await changes(tenant);
    expect(audit.map(({ amount_minor }) => amount_minor)).toEqual([-5000, 5000]);
  });
});

describe('a refund takes its credit back exactly once', () => {
  test('takes credit back once if the event is duplicated and fetches run at the same time', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    for (let time = 0; time < 4; time += 1) world.standIn.books.refundTopUp(payment, 2000);
    await world.standIn.eventsSent();
    await Promise.all([1, 2, 3, 4].map(() => world.look(tenant, tomorrow())));
    await world.catchUp();
    expect(await balance(tenant)).toBe(3000);
    expect(await changes(tenant)).toMatchObject({
      events: [{ amount_minor: -2000 }],
      audit: [{ amount_minor: -2000 }],
    });
  });

  test('takes credit back once if the refund arrives before the payment', async () => {
    const tenant = await newTenant();
    const payment = await unheard(() => pay(tenant, 5000));
    world.standIn.books.refundTopUp(payment, 5000);
    await world.catchUp();
    expect(await balance(tenant)).toBe(0);
    const completion = world.standIn.events.findLast(({ type }) => type === 'checkout.session.completed');
    world.standIn.books.emit('checkout.session.completed', completion?.data.object ?? {});
    await world.catchUp();
    expect(await balance(tenant)).toBe(0);
    expect((await changes(tenant)).events).toHaveLength(1);
  });

  test('takes credit back once if the event arrives after later payments', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    await unheard(() => world.standIn.books.refundTopUp(payment, 5000));
    await topUp(tenant, 1000);
    expect(await balance(tenant)).toBe(1000);
    world.standIn.books.refundTopUp(payment, 5000);
    await world.catchUp();
    expect(await balance(tenant)).toBe(1000);
    expect((await changes(tenant)).audit).toHaveLength(1);
  });

  test('takes credit back in the daily fetch if the event is lost', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    await unheard(() => world.standIn.books.refundTopUp(payment, 1500));
    expect(await balance(tenant)).toBe(5000);
    await world.look(tenant, tomorrow());
    expect(await balance(tenant)).toBe(3500);
    await world.look(tenant, tomorrow());
    expect((await changes(tenant)).events).toHaveLength(1);
  });
});

describe('a disputed top-up', () => {
  test('takes back disputed credit only when the dispute is lost, although the event names no customer', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    world.standIn.books.disputeTopUp(payment, 'needs_response');
    await world.catchUp();
    expect(await balance(tenant)).toBe(5000);
    world.standIn.books.disputeTopUp(payment, 'lost');
    await world.catchUp();
    expect(await balance(tenant)).toBe(0);
    expect(await changes(tenant)).toMatchObject({
      events: [{ reason: 'dispute', amount_minor: -5000, balance_minor: 0 }],
      audit: [{ reason: 'dispute', payment }],
    });
  });

  test('keeps the credit if the dispute is won', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    world.standIn.books.disputeTopUp(payment, 'won');
    await world.catchUp();
    expect(await balance(tenant)).toBe(5000);
    expect((await changes(tenant)).events).toEqual([]);
  });

  test('takes back no more than the top-up brought if it was partly refunded before a dispute', async () => {
    const tenant = await newTenant();
    const payment = await topUp(tenant, 5000);
    world.standIn.books.refundTopUp(payment, 2000);
    await world.catchUp();
    world.standIn.books.disputeTopUp(payment, 'lost', 5000);
    await world.catchUp();
    expect(await balance(tenant)).toBe(0);
    const { audit } = await changes(tenant);
    expect(audit.map(({ reason, amount_minor }) => [reason, amount_minor])).toEqual([
      ['refund', -2000],
      ['dispute', -3000],
    ]);
  });
});
