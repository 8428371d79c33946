// Plans and modules: the listed prices are charged.
import { expect, test } from 'vitest';
import { addOns, plans } from '../../domain/billing/catalogue.ts';
import { subscribed } from '../support/billing.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { database, newTenant } from '../support/tenants.ts';

const list = async (key: string, path: string): Promise<Json[]> => {
  const { data } = (await expectStatus(200, 'GET', path, { key })).body;
  return data.plans ?? data.modules;
};

test('lists the plans of the catalog, cheapest first, and marks the current one', async () => {
  const tenant = await newTenant();
  const shown = await list(tenant.key, '/v1/plans');
  expect(shown.map((plan) => [plan.package_code, plan.price_monthly_minor, plan.price_yearly_minor])).toEqual([
    ['starter', 2900, 29_000],
    ['growth', 9900, 99_000],
    ['scale', 29_900, 299_000],
    ['enterprise', null, null],
  ]);
  expect(shown.map((plan) => [plan.included_seats, plan.extra_seat_price_minor, plan.api_call_cap])).toEqual([
    [3, 1200, 50_000],
    [10, 1000, 500_000],
    [25, 900, 3_000_000],
    [100, null, null],
  ]);
  expect(shown.map((plan) => [plan.is_current, plan.is_available])).toEqual([
    [false, true],
    [true, true],
    [false, true],
    [false, false],
  ]);
});

test('charges ten months for every yearly item', () => {
  for (const item of [...Object.values(plans), ...Object.values(addOns)])
    if (item.prices) expect(item.prices.yearly.USD).toBe(10 * (item.prices.monthly.USD ?? 0));
});

test('lists for each module the plans that include it, and its status in the workspace', async () => {
  const tenant = await newTenant();
  await subscribed(tenant, 'live', {
    package_code: 'growth',
    add_ons: ['campaigns', 'workforces'],
    scheduled: database().json([{ action: 'remove_module', module_key: 'workforces' }]),
  });
  const shown = new Map((await list(tenant.key, '/v1/modules')).map((each) => [each.module_key, each]));
  expect([...shown.keys()]).toEqual(Object.keys(addOns));
  expect([...shown].map(([key, each]) => [key, each.status])).toEqual([
    ['scheduling', 'active'],
    ['inbox', 'active'],
    ['campaigns', 'active'],
    ['workforces', 'scheduled_removal'],
    ['phone_numbers', 'inactive'],
    ['extra_api_calls_1m', 'inactive'],
  ]);
  expect(shown.get('campaigns')).toMatchObject({ price_monthly_minor: 4900, included_in: ['scale', 'enterprise'] });
  expect(shown.get('workforces').active_until).not.toBeNull();
});

test('marks no plan as current and no module as active without a subscription', async () => {
  const tenant = await newTenant();
  await database()`update subscriptions set status = 'canceled', ended_at = now() where company_id = ${tenant.companyId}`;
  expect((await list(tenant.key, '/v1/plans')).some((plan) => plan.is_current)).toBe(false);
  expect((await list(tenant.key, '/v1/modules')).map((each) => each.status)).toEqual(Array(6).fill('inactive'));
});
