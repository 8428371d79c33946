// Subscriptions paid through Stripe show what Stripe charges, not the prices of the catalog.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { change, StripeWorld } from '../support/stripe/world.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-amounts');
});
afterAll(() => world?.close());

async function newSubscriber(more: object = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant, more);
  return tenant;
}

async function findCustomer({ companyId }: Tenant): Promise<string> {
  const [row] = await database()<{ id: string }[]>`
    select customer_id as id from provider_customers where company_id = ${companyId}`;
  return row?.id ?? '';
}

async function pending({ key }: Tenant): Promise<Json> {
  return (await expectStatus(200, 'GET', '/v1/invoices', { key })).body.data.pending;
}

const sumAmounts = (lines: Json[]): number => lines.reduce((sum, line) => sum + line.amount_minor, 0);

/** Changes the Stripe prices as if the subscription had started under an older price of an item. */
function setPrice(item: string, amount: number, tenantPrice = `crm.${item}.monthly.usd`): void {
  const price = [...world.standIn.books.prices.values()].find(({ lookup_key }) => lookup_key === tenantPrice);
  if (!price) throw new Error(`there is no price ${tenantPrice}`);
  Object.assign(price, { lookup_key: null, unit_amount: amount });
}

/** Makes Stripe send an event about a customer. */
async function ring(tenant: Tenant): Promise<void> {
  world.standIn.books.emit('customer.updated', { object: 'customer', id: await findCustomer(tenant) });
  await world.catchUp();
}

describe('a subscription at an old price', () => {
  let tenant: Tenant;
  beforeAll(async () => {
    tenant = await newSubscriber();
    expect((await change(tenant, 'modules', { module_key: 'inbox' })).status).toBe(200);
    setPrice('plan.starter', 1900);
    setPrice('module.inbox', 1500);
    await ring(tenant);
  });

  test('shows the price that is paid instead of the current catalog price', async () => {
    const { plan, modules } = await world.subscription(tenant);
    expect(plan.price_minor).toBe(1900);
    expect(modules).toMatchObject([{ module_key: 'inbox', price_minor: 1500 }]);
  });

  test('computes the pending bill from the kept prices and charges exactly that', async () => {
    expect(await pending(tenant)).toMatchObject({
      currency: 'USD',
      subtotal_minor: 3400,
      tax_minor: 0,
      total_minor: 3400,
      is_estimate: false,
      lines: [
        { quantity: 1, unit_amount_minor: 1900, amount_minor: 1900, proration: false },
        { quantity: 1, unit_amount_minor: 1500, amount_minor: 1500, proration: false },
      ],
    });
    await world.pass(32);
    expect((await world.charged(tenant)).at(-1)).toBe(3400);
  });
});

describe('a coupon and a tax rate', () => {
  test('includes a coupon and a tax rate in the pending bill, the invoices and the subscription', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    const ends = Math.floor(Date.now() / 1000) + 90 * 86_400;
    world.standIn.books.setTerms(await findCustomer(tenant), {
      coupon: { name: 'Launch offer', percent_off: 20 },
      couponEnds: ends,
      tax: { percentage: 19, inclusive: false },
    });
    await world.catchUp();
    expect((await world.subscription(tenant)).discounts).toEqual([
      {
        name: 'Launch offer',
        percent_off: 20,
        amount_off_minor: null,
        ends_at: new Date(ends * 1000).toISOString(),
      },
    ]);
    const amounts = { subtotal_minor: 7920, tax_minor: 1505, total_minor: 9425 };
    const bill = await pending(tenant);
    expect(bill).toMatchObject({ ...amounts, is_estimate: false });
    expect(bill.lines.map((line: Json) => [line.description, line.amount_minor])).toEqual([
      ['Growth, monthly', 9900],
      ['Discount: Launch offer', -1980],
    ]);
    await world.pass(32);
    const [invoice] = await world.invoices(tenant);
    expect(invoice).toMatchObject({ ...amounts, status: 'paid', amount_paid_minor: 9425 });
    expect(sumAmounts(invoice.lines)).toBe(invoice.subtotal_minor);
    expect((await world.charged(tenant)).at(-1)).toBe(9425);
  });

  test('shows included taxes as tax, with lines that still add up', async () => {
    const tenant = await newSubscriber();
    world.standIn.books.setTerms(await findCustomer(tenant), { tax: { percentage: 20, inclusive: true } });
    await world.catchUp();
    const bill = await pending(tenant);
    expect(bill).toMatchObject({ subtotal_minor: 2417, tax_minor: 483, total_minor: 2900 });
    expect(sumAmounts(bill.lines)).toBe(2417);
  });
});

test('warns about a downgrade from a kept price with the amount that is paid now', async () => {
  const tenant = await newSubscriber({ package_code: 'growth', seats: 10 });
  setPrice('plan.growth', 7900);
  await ring(tenant);
  const { status, body } = await change(tenant, 'downgrade', { package_code: 'starter' });
  expect(status).toBe(200);
  expect(body.data.warnings).toMatchObject([
    { code: 'raises_bill', details: { current_period_minor: 7900, next_period_minor: 2900 + 7 * 1200 } },
  ]);
  expect((await pending(tenant)).total_minor).toBe(2900 + 7 * 1200);
});

describe('the pending bill', () => {
  test('includes scheduled changes in the pending bill, at kept and at new prices', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    expect((await change(tenant, 'modules', { module_key: 'campaigns' })).status).toBe(200);
    setPrice('module.campaigns', 3900);
    expect((await change(tenant, 'downgrade', { package_code: 'starter' })).status).toBe(200);
    expect(await pending(tenant)).toMatchObject({
      total_minor: 2900 + 3900,
      is_estimate: false,
      lines: [{ amount_minor: 2900 }, { amount_minor: 3900 }],
    });
    expect(await world.subscription(tenant)).toMatchObject({ plan: { package_code: 'growth', price_minor: 9900 } });
  });

  test('shows no pending bill once the subscription is cancelled', async () => {
    const tenant = await newSubscriber();
    expect((await change(tenant, 'cancel')).status).toBe(200);
    expect(await pending(tenant)).toBeNull();
    expect((await change(tenant, 'reactivate')).status).toBe(200);
    expect(await pending(tenant)).toMatchObject({ total_minor: 2900, is_estimate: false });
  });

  test('shows no pending bill while Stripe pauses the collection, and shows it again afterwards', async () => {
    const tenant = await newSubscriber();
    const customer = await findCustomer(tenant);
    const live = [...world.standIn.books.subscriptions.values()].find((each) => each.customer === customer);
    if (live) Object.assign(live, { pause_collection: { behavior: 'void', resumes_at: null } });
    await ring(tenant);
    expect(await pending(tenant)).toBeNull();
    if (live) Object.assign(live, { pause_collection: null });
    await ring(tenant);
    expect(await pending(tenant)).toMatchObject({ total_minor: 2900 });
  });

  test('estimates the pending bill at the kept prices if Stripe has no preview, and succeeds otherwise', async () => {
    const tenant = await newSubscriber();
    setPrice('plan.starter', 1700);
    world.standIn.faults.push({ of: /^POST \/v1\/invoices\/create_preview$/, how: 'refused' });
    await ring(tenant);
    expect(await pending(tenant)).toMatchObject({ total_minor: 1700, is_estimate: true });
    expect((await world.subscription(tenant)).plan.price_minor).toBe(1700);
    // The preview is fetched again within minutes, even without an event.
    expect(await world.look(tenant, new Date(Date.now() + 6 * 60_000))).toBeDefined();
    expect(await pending(tenant)).toMatchObject({ total_minor: 1700, is_estimate: false });
  });

  test('reads the pending bill without a request to Stripe', async () => {
    const tenant = await newSubscriber();
    const before = world.standIn.asked.length;
    expect(await pending(tenant)).toMatchObject({ total_minor: 2900 });
    await world.subscription(tenant);
    await call('GET', '/v1/modules', { key: tenant.key });
    expect(world.standIn.asked.length).toBe(before);
  });

  test('computes the pending bill of test keys itself, not as an estimate', async () => {
    const tenant = await newSubscriber();
    const { body } = await call('GET', '/v1/invoices', { key: tenant.testKey });
    expect(body.data.pending).toMatchObject({ total_minor: 9900, is_estimate: false });
  });
});
