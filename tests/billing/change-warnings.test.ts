// Warnings of subscription changes that raise the bill unexpectedly.
import { describe, expect, test } from 'vitest';
import { subscribed } from '../support/billing.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

async function newSubscriber(more: Record<string, unknown> = {}): Promise<Tenant> {
  const tenant = await newTenant();
  await subscribed(tenant, 'live', { package_code: 'scale', seats: 28, ...more });
  return tenant;
}

const change = async ({ key }: Tenant, what: string, body?: object): Promise<Json> =>
  (await expectStatus(200, 'POST', `/v1/subscription/${what}`, { key, ...(body ? { body } : {}) })).body.data;

describe('a downgrade that raises the bill', () => {
  const raised = {
    code: 'raises_bill',
    details: { current_period_minor: 32_600, next_period_minor: 32_900, currency: 'USD' },
  };

  test('warns with both amounts if a downgrade raises the bill because of the seats', async () => {
    const tenant = await newSubscriber();
    const { applies, warnings } = await change(tenant, 'downgrade', { package_code: 'starter' });
    expect(applies).toBe('period_end');
    expect(warnings).toEqual([{ ...raised, message: expect.any(String) }]);
    expect(warnings[0].message).toBe(
      'This downgrade raises the bill. From the next period on it is 329.00 USD instead of 326.00 USD. Starter includes 3 seats, and each of the 25 additional seats costs 12.00 USD. Reduce the seats to pay less, or upgrade to scale to keep it.',
    );
    const { body } = await call('GET', '/v1/invoices', { key: tenant.key });
    expect(body.data.pending.total_minor).toBe(32_900);
  });

  test('keeps the warning through other changes until the seats are reduced', async () => {
    const tenant = await newSubscriber();
    await change(tenant, 'downgrade', { package_code: 'starter' });
    expect((await change(tenant, 'modules', { module_key: 'workforces' })).warnings).toMatchObject([
      { code: 'raises_bill', details: { current_period_minor: 42_500, next_period_minor: 42_800 } },
    ]);
    expect((await change(tenant, 'seats', { seats: 20 })).warnings).toEqual([]);
  });

  test('warns if seats are added after the downgrade was scheduled', async () => {
    const tenant = await newSubscriber({ seats: null });
    expect((await change(tenant, 'downgrade', { package_code: 'starter' })).warnings).toEqual([]);
    expect((await change(tenant, 'seats', { seats: 28 })).warnings).toMatchObject([raised]);
  });

  test('stops warning once the downgrade is dropped or the subscription is cancelled', async () => {
    const tenant = await newSubscriber();
    await change(tenant, 'downgrade', { package_code: 'starter' });
    expect((await change(tenant, 'cancel')).warnings).toEqual([]);
    expect((await change(tenant, 'reactivate')).warnings).toMatchObject([raised]);
    expect((await change(tenant, 'upgrade', { package_code: 'scale' })).warnings).toEqual([]);
  });
});

test('does not warn about a downgrade that lowers the bill', async () => {
  const tenant = await newSubscriber();
  expect((await change(tenant, 'downgrade', { package_code: 'growth' })).warnings).toEqual([]);
});

test('returns the same warnings for a retry with the same Idempotency-Key', async () => {
  const tenant = await newSubscriber();
  const ask = () =>
    expectStatus(200, 'POST', '/v1/subscription/downgrade', {
      key: tenant.key,
      body: { package_code: 'starter' },
      idempotencyKey: 'downgrade-1',
    });
  const first = await ask();
  expect(first.body.data.warnings).toHaveLength(1);
  expect((await ask()).body.data).toEqual(first.body.data);
});
