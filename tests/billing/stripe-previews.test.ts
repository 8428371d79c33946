// Previews of changes of subscriptions at Stripe: from its current state and its own previews.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Random } from '../faults/support/random.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { hiddenFields, Visitor } from '../support/page-client.ts';
import { digestRows, listDigestedTables } from '../support/row-digests.ts';
import { change, StripeWorld } from '../support/stripe/world.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let world: StripeWorld;
beforeAll(async () => {
  world = await StripeWorld.open('stripe-previews');
});
afterAll(() => world?.close());

async function newSubscriber(more: object = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await world.subscribe(tenant, more);
  return tenant;
}

const preview = async ({ key }: Tenant, body: object): Promise<Json> =>
  (await expectStatus(200, 'POST', '/v1/subscription/preview', { key, body })).body.data.preview;

const readPending = async ({ key }: Tenant): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/invoices', { key })).body.data.pending;

async function changed(tenant: Tenant, what: string, body?: object): Promise<void> {
  const { status, text } = await change(tenant, what, body);
  expect({ status, text }).toMatchObject({ status: 200 });
}

const toAmounts = (lines: Json[]) =>
  lines.map(({ description, amount_minor }) => [description, amount_minor]).toSorted();

/** Lowers the amount of a price, as if the subscription had started under an older catalog. */
function keepOldPrice(item: string, amount: number): void {
  const price = [...world.standIn.books.prices.values()].find(
    ({ lookup_key: key }) => key === `crm.${item}.monthly.usd`,
  );
  if (!price) throw new Error(`there is no price of ${item}`);
  Object.assign(price, { lookup_key: null, unit_amount: amount });
}

test('changes nothing here or at Stripe, and creates no prices there', async () => {
  const tenant = await newSubscriber();
  const tables = await listDigestedTables();
  const digest = () => digestRows(tables, tenant, `select 'outbox', ''`);
  const [rows, books] = [await digest(), world.standIn.books.copy()];
  const since = world.standIn.asked.length;
  for (const body of [
    { action: 'upgrade', package_code: 'scale' },
    { action: 'upgrade', package_code: 'starter', billing_cycle: 'yearly' },
    { action: 'set_seats', seats: 30 },
    { action: 'add_module', module_key: 'phone_numbers' },
    { action: 'cancel' },
  ])
    expect((await preview(tenant, body)).is_estimate).toBe(false);
  expect(await digest()).toEqual(rows);
  expect(world.standIn.books.copy()).toEqual(books);
  const writes = world.standIn.asked.slice(since).filter((each) => each.call.startsWith('POST '));
  expect(new Set(writes.map((each) => each.call))).toEqual(new Set(['POST /v1/invoices/create_preview']));
});

test('names the items of prices that do not exist yet', async () => {
  const tenant = await newSubscriber();
  world.standIn.books.age(1);
  const { lines, next_lines } = await preview(tenant, { action: 'add_module', module_key: 'extra_api_calls_1m' });
  expect(lines).toMatchObject([{ description: 'Remaining time of One million extra API calls', quantity: 1 }]);
  expect(toAmounts(next_lines)).toEqual([
    ['One million extra API calls', 4900],
    ['Starter, monthly', 2900],
  ]);
});

test('previews the state at Stripe, although its events were lost', async () => {
  const tenant = await newSubscriber();
  await world.subscribe(await newTenant(), { package_code: 'scale' });
  const customer = await world.findCustomer(tenant);
  await world.unheard(() => world.standIn.books.switchPlan(customer, 'scale'));
  expect(await preview(tenant, { action: 'cancel' })).toMatchObject({ current_invoice_minor: 29_900 });
  const body = { action: 'upgrade', package_code: 'growth' };
  const { body: refused } = await expectStatus(409, 'POST', '/v1/subscription/preview', { key: tenant.key, body });
  expect(refused.error.details.reason).toBe('not_an_upgrade');
});

test('returns 503 if Stripe fails', async () => {
  const tenant = await newSubscriber();
  for (const _request of ['first', 'retry'])
    world.standIn.faults.push({ of: /^GET \/v1\/subscriptions$/, how: 'refused' });
  const body = { action: 'cancel' };
  await expectStatus(503, 'POST', '/v1/subscription/preview', { key: tenant.key, body });
});

describe('if Stripe rejects the request for an invoice', () => {
  const upgrade = { action: 'upgrade', package_code: 'scale' };
  const reject = (skip: number, code: string) =>
    world.standIn.faults.push({ of: /^POST \/v1\/invoices\/create_preview$/, how: 'invalid', skip, code });

  test.each([
    [0, 'the next invoice without the change'],
    [1, 'the invoice of the change'],
    [2, 'the next invoice after the change'],
  ])('estimates amounts whose taxes it cannot compute (request %i: %s)', async (skip) => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    reject(skip, 'customer_tax_location_invalid');
    expect(await preview(tenant, upgrade)).toMatchObject({ is_estimate: true, next_invoice_minor: 29_900 });
    expect(await preview(tenant, upgrade)).toMatchObject({ is_estimate: false });
  });

  test.each([0, 1, 2])('returns 503 for any other reason and logs it (request %i)', async (skip) => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    const code = `parameter_unknown_${skip}`;
    reject(skip, code);
    await expectStatus(503, 'POST', '/v1/subscription/preview', { key: tenant.key, body: upgrade });
    await vi.waitFor(() => expect(world.server.output()).toContain(code));
  });
});

describe('discounts and kept prices', () => {
  test('includes discounts and taxes in what is due now and on the next invoice', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    world.standIn.books.setTerms(await world.findCustomer(tenant), {
      coupon: { name: 'Launch offer', percent_off: 20 },
      tax: { percentage: 19, inclusive: false },
    });
    const shown = await preview(tenant, { action: 'upgrade', package_code: 'scale' });
    expect(shown).toMatchObject({
      current_invoice_minor: 9425,
      next_invoice_minor: 28_465,
      next_tax_minor: 4545,
      warnings: [],
    });
    expect(shown.tax_due_now_minor).toBeGreaterThan(0);
    expect(shown.lines.at(-1).description).toBe('Discount: Launch offer');
    await changed(tenant, 'upgrade', { package_code: 'scale', prorated_at: shown.prorated_at });
    const [invoice] = await world.invoices(tenant);
    expect(invoice).toMatchObject({ total_minor: shown.amount_due_now_minor, tax_minor: shown.tax_due_now_minor });
    expect(invoice.lines).toEqual(shown.lines);
  });

  test('warns if a discount no longer applies after the change', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    const customer = await world.findCustomer(tenant);
    world.standIn.books.setTerms(customer, { coupon: { name: 'Growth offer', percent_off: 20, appliesTo: 'growth' } });
    expect(await preview(tenant, { action: 'downgrade', package_code: 'starter' })).toMatchObject({
      warnings: [{ code: 'loses_discount', message: 'The discount Growth offer no longer applies after this change.' }],
    });
    expect((await preview(tenant, { action: 'set_seats', seats: 12 })).warnings).toEqual([]);
  });

  test('warns of the discount and the price that end with a cancellation', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    world.standIn.books.setTerms(await world.findCustomer(tenant), { coupon: { name: 'Old friend', percent_off: 20 } });
    keepOldPrice('plan.growth', 7900);
    const { warnings } = await preview(tenant, { action: 'cancel' });
    expect(warnings.map(({ message }: Json) => message)).toEqual([
      'The discount Old friend no longer applies after this change.',
      expect.stringContaining('Growth, monthly costs 79.00 USD now'),
    ]);
    await changed(tenant, 'cancel');
    expect((await preview(tenant, { action: 'reactivate' })).warnings).toEqual([]);
  });

  test('warns if a change gives up a price below the list price', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    keepOldPrice('plan.growth', 7900);
    const warning = {
      code: 'loses_discount',
      message:
        'Growth, monthly costs 79.00 USD now, which is less than its current list price of 99.00 USD. This change gives up that price.',
    };
    expect(await preview(tenant, { action: 'upgrade', package_code: 'scale' })).toMatchObject({
      current_invoice_minor: 7900,
      warnings: [warning],
    });
    const yearly = { action: 'upgrade', package_code: 'growth', billing_cycle: 'yearly' };
    expect(await preview(tenant, yearly)).toMatchObject({ next_invoice_minor: 99_000, warnings: [warning] });
    expect(await preview(tenant, { action: 'set_seats', seats: 12 })).toMatchObject({
      next_invoice_minor: 7900 + 2000,
      warnings: [],
    });
  });
});

describe('changes while another one is scheduled', () => {
  test('previews the next invoice by the schedule', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    await changed(tenant, 'modules', { module_key: 'campaigns' });
    await changed(tenant, 'downgrade', { package_code: 'starter' });
    const shown = await preview(tenant, { action: 'remove_module', module_key: 'campaigns' });
    expect(shown).toMatchObject({ current_invoice_minor: 7800, next_invoice_minor: 2900, is_estimate: false });
    await changed(tenant, 'modules/campaigns');
    expect((await readPending(tenant)).total_minor).toBe(shown.next_invoice_minor);
  });

  test('estimates what is due now, and says so', async () => {
    const tenant = await newSubscriber({ package_code: 'growth' });
    await changed(tenant, 'downgrade', { package_code: 'starter' });
    const shown = await preview(tenant, { action: 'set_seats', seats: 12 });
    expect(shown).toMatchObject({ is_estimate: true, next_invoice_minor: 2900 + 9 * 1200 });
    await changed(tenant, 'seats', { seats: 12, prorated_at: shown.prorated_at });
    expect((await world.charged(tenant)).at(-1)).toBe(shown.amount_due_now_minor);
  });
});

describe('taxes', () => {
  test('taxes a checkout and its subscription if the account is set up for taxes', async () => {
    const { books } = world.standIn;
    books.taxStatus = 'active';
    try {
      const tenant = await newTenant();
      expect(await preview(tenant, { action: 'subscribe', package_code: 'growth' })).toMatchObject({
        amount_due_now_minor: 9900,
        is_estimate: true,
      });
      await world.subscribe(tenant, { package_code: 'growth' });
      const { form } = world.standIn.asked.findLast((each) => each.call === 'POST /v1/checkout/sessions') ?? {};
      expect(form).toMatchObject({
        automatic_tax: { enabled: 'true' },
        tax_id_collection: { enabled: 'true' },
        customer_update: { address: 'auto', name: 'auto' },
      });
      expect((await world.invoices(tenant))[0]).toMatchObject({ subtotal_minor: 9900, tax_minor: 1881 });
      expect(await readPending(tenant)).toMatchObject({ tax_minor: 1881, total_minor: 11_781 });
      const shown = await preview(tenant, { action: 'upgrade', package_code: 'scale' });
      await changed(tenant, 'upgrade', { package_code: 'scale', prorated_at: shown.prorated_at });
      expect((await world.invoices(tenant))[0]).toMatchObject({
        total_minor: shown.amount_due_now_minor,
        tax_minor: shown.tax_due_now_minor,
      });
    } finally {
      books.taxStatus = 'pending';
    }
  });

  test('does not tax a checkout if the account is not set up, or the key may not know', async () => {
    const tenant = await newTenant();
    expect(await preview(tenant, { action: 'subscribe', package_code: 'growth' })).toMatchObject({
      amount_due_now_minor: 9900,
      is_estimate: false,
    });
    world.standIn.forbidden = /^GET \/v1\/tax\/settings$/;
    try {
      await world.subscribe(tenant, { package_code: 'growth' });
    } finally {
      world.standIn.forbidden = undefined;
    }
    const { form } = world.standIn.asked.findLast((each) => each.call === 'POST /v1/checkout/sessions') ?? {};
    expect(form).not.toHaveProperty('automatic_tax');
    expect((await world.invoices(tenant))[0]).toMatchObject({ tax_minor: 0, total_minor: 9900 });
  });

  test('shows the name, address and tax ids of the customer on later invoices', async () => {
    const tenant = await newSubscriber();
    const address = {
      line1: '12 Harbor Street',
      line2: null,
      city: 'Hamburg',
      state: null,
      postal_code: '20457',
      country: 'DE',
    };
    const taxIds = [{ type: 'eu_vat', value: 'DE123456789' }];
    const customer = world.standIn.books.customer(await world.findCustomer(tenant));
    Object.assign(customer, { name: 'Demo Solar GmbH', address, tax_ids: taxIds });
    await changed(tenant, 'upgrade', { package_code: 'growth' });
    const [later, first] = await world.invoices(tenant);
    expect(later.bill_to).toEqual({ name: 'Demo Solar GmbH', address, tax_ids: taxIds });
    expect(first.bill_to).toEqual({ name: null, address: null, tax_ids: [] });
    const { body } = await call('GET', '/v1/invoices', { key: tenant.testKey });
    for (const invoice of body.data.invoices) expect(invoice.bill_to).toBeNull();
  });

  test('lets people change their address and tax ids in the portal, and nothing of the plan', async () => {
    const tenant = await newSubscriber();
    await expectStatus(200, 'POST', '/v1/billing/portal-session', { key: tenant.key });
    const [configuration] = [...world.standIn.books.configurations.values()].toReversed();
    expect(configuration?.features).toMatchObject({
      customer_update: { enabled: 'true', allowed_updates: { 0: 'name', 1: 'address', 2: 'tax_id' } },
      subscription_cancel: { enabled: 'false' },
      subscription_update: { enabled: 'false' },
    });
  });
});

test('previews the first invoice of a known customer with its credit', async () => {
  const tenant = await newSubscriber({ package_code: 'growth' });
  const customer = await world.findCustomer(tenant);
  await changed(tenant, 'cancel');
  await world.turnPeriod(tenant);
  world.standIn.books.customer(customer).balance = -1500;
  await world.catchUp();
  const shown = await preview(tenant, { action: 'subscribe', package_code: 'growth' });
  expect(shown).toMatchObject({ amount_due_now_minor: 8400, next_invoice_minor: 9900, is_estimate: false });
  await world.subscribe(tenant, { package_code: 'growth' });
  expect((await world.invoices(tenant))[0]).toMatchObject({ total_minor: 8400 });
});

test('charges exactly the previewed amounts, in random sequences', async () => {
  const random = new Random();
  const draws: (() => [string, Json, string?])[] = [
    () => ['upgrade', { package_code: random.pick(['growth', 'scale']) }],
    () => [
      'upgrade',
      { package_code: random.pick(['growth', 'scale']), billing_cycle: random.pick(['monthly', 'yearly']) },
    ],
    () => ['downgrade', { package_code: random.pick(['starter', 'growth']) }],
    () => ['set_seats', { seats: random.whole(1, 50) }, 'seats'],
    () => ['add_module', { module_key: random.pick(['campaigns', 'workforces', 'phone_numbers']) }, 'modules'],
    () => ['cancel', {}],
    () => ['reactivate', {}],
  ];
  let charges = 0;
  for (let round = 0; round < 4; round += 1) {
    const tenant = await newSubscriber();
    world.standIn.books.age(random.whole(0, 25));
    for (let step = 0; step < 6; step += 1) {
      const [action, body, path = action] = random.pick(draws)();
      const seen = `seed ${random.seed}, round ${round}, step ${step}: ${action} ${JSON.stringify(body)}`;
      const asked = { key: tenant.key, body: { action, ...body } };
      const { status, body: answer } = await call('POST', '/v1/subscription/preview', asked);
      const shown = answer.data?.preview;
      const before = (await world.invoices(tenant)).length;
      const sent = shown?.prorated_at ? { ...body, prorated_at: shown.prorated_at } : body;
      const result = await change(tenant, path, Object.keys(sent).length > 0 ? sent : undefined);
      expect([result.status, result.body.error?.details?.reason], seen).toEqual([
        status,
        answer.error?.details?.reason,
      ]);
      if (!shown) continue;
      await world.catchUp();
      const invoices = await world.invoices(tenant);
      const total = invoices.length > before ? invoices[0].total_minor : 0;
      if (invoices.length > before) charges += 1;
      expect(total, seen).toBe(shown.amount_due_now_minor);
      expect((await readPending(tenant))?.total_minor ?? 0, seen).toBe(shown.next_invoice_minor);
    }
  }
  expect(charges).toBeGreaterThan(3);
}, 120_000);

test('makes no change at the console if its amounts cannot be checked again', async () => {
  const tenant = await newSubscriber();
  const admin = new Visitor(world.server.url);
  await admin.signIn(tenant.admin.email);
  const action = '/console/plan/change';
  const form = await admin.readForm(`${action}?action=upgrade&package_code=growth`, action);
  const before = (await world.invoices(tenant)).length;
  const since = world.standIn.asked.length;
  // The client repeats failed requests.
  for (let time = 0; time < 20; time += 1)
    world.standIn.faults.push({ of: /^POST \/v1\/invoices\/create_preview$/, how: 'refused' });
  const failed = await admin.ask(action, form);
  expect([failed.status, failed.text.includes('so nothing was changed or charged. Try again')]).toEqual([503, true]);
  const writes = world.standIn.asked.slice(since).filter((each) => each.call.startsWith('POST '));
  expect(new Set(writes.map((each) => each.call))).toEqual(new Set(['POST /v1/invoices/create_preview']));
  world.standIn.faults = [];
  const again = await admin.ask(action, hiddenFields(failed.text, action));
  expect(again.to).toBe('/console/plan?done=now');
  await world.catchUp();
  expect((await world.invoices(tenant)).length).toBe(before + 1);
});
