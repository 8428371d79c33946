// Invoices and the pending bill: every total is the sum of its lines.
import { expect, test } from 'vitest';
import { invoiced, subscribed } from '../support/billing.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const shown = async (key: string, query = {}): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/invoices', { key, query })).body.data;
const change = (tenant: Tenant, what: string, body: object) =>
  expectStatus(200, 'POST', `/v1/subscription/${what}`, { key: tenant.key, body });

test('creates a numbered invoice for each change with costs, with lines that add up', async () => {
  const tenant = await newTenant();
  await subscribed(tenant);
  await change(tenant, 'upgrade', { package_code: 'growth' });
  await change(tenant, 'seats', { seats: 12 });
  await change(tenant, 'modules', { module_key: 'campaigns' });
  await change(tenant, 'downgrade', { package_code: 'starter' });
  const { invoices, next_cursor, has_more } = await shown(tenant.key);
  expect(invoices.map((each: Json) => each.number)).toEqual(['INV-000003', 'INV-000002', 'INV-000001']);
  expect(invoices.map((each: Json) => each.total_minor)).toEqual([2450, 1000, 3500]);
  for (const { lines, subtotal_minor, total_minor, amount_paid_minor, amount_due_minor } of invoices) {
    const sum = lines.reduce((total: number, line: Json) => total + line.amount_minor, 0);
    expect([sum, total_minor, amount_paid_minor, amount_due_minor]).toEqual([subtotal_minor, sum, sum, 0]);
  }
  expect({ next_cursor, has_more }).toEqual({ next_cursor: null, has_more: false });
});

test('includes scheduled changes and credit in the pending bill', async () => {
  const tenant = await newTenant();
  const scheduled = [
    { action: 'downgrade', package_code: 'starter' },
    { action: 'set_seats', seats: 4 },
    { action: 'remove_module', module_key: 'campaigns' },
  ];
  const more = { package_code: 'growth', seats: 20, add_ons: ['campaigns', 'workforces'], credit_minor: 1000 };
  await subscribed(tenant, 'live', { ...more, scheduled: database().json(scheduled) });
  const { pending } = await shown(tenant.key);
  expect(pending.lines.map((line: Json) => [line.description, line.amount_minor])).toEqual([
    ['Starter, monthly', 2900],
    ['Extra seats', 1200],
    ['Workforces', 9900],
    ['Credit from earlier', -1000],
  ]);
  expect(pending.total_minor).toBe(13_000);
});

test('shows no pending bill in a trial, after a cancellation, and after the end', async () => {
  const tenant = await newTenant();
  expect((await shown(tenant.key)).pending).toBeNull();
  await subscribed(tenant, 'live', { cancel_at_period_end: true });
  expect((await shown(tenant.key)).pending).toBeNull();
  await subscribed(tenant, 'live', { status: 'canceled', ended_at: new Date() });
  expect((await shown(tenant.key)).pending).toBeNull();
});

test('lists the 24 newest invoices of each mode, and pages through all on request', async () => {
  const tenant = await newTenant();
  await invoiced(tenant, 'live', 30);
  await invoiced(tenant, 'test', 10);
  const numbers = (data: Json): string[] => data.invoices.map((each: Json) => each.number);
  expect(numbers(await shown(tenant.key))).toEqual(Array.from({ length: 24 }, (_, index) => `live${index + 1}`));
  expect(numbers(await shown(tenant.testKey))).toEqual(Array.from({ length: 10 }, (_, index) => `test${index + 1}`));
  const page = await shown(tenant.key, { limit: 20 });
  expect(numbers(await shown(tenant.key, { cursor: page.next_cursor }))).toEqual([
    'live21',
    'live22',
    'live23',
    'live24',
  ]);
});
