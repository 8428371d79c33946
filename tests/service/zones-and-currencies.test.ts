// Time zones and currencies, compared with independent lists.
import { describe, expect, test } from 'vitest';
import { formatMoney } from '../../domain/billing/money.ts';
import { findDecimals, isCurrency, isTimezone } from '../../domain/service/zones-and-currencies.ts';
import { call, expectStatus } from '../support/client.ts';
import { database, newTenant } from '../support/tenants.ts';

/**
 * Returns true for names that the IANA database does not have: files of PostgreSQL's folder, and
 * POSIX names.
 */
const isForeign = (name: string): boolean => /^posix|^localtime$|^Factory$/.test(name);

describe('time zones', () => {
  test('accepts every name and link of the IANA database, as PostgreSQL lists them', async () => {
    const rows = await database()<{ name: string }[]>`select name from pg_timezone_names order by name`;
    const names = rows.map(({ name }) => name).filter((name) => !isForeign(name));
    expect(names.length).toBeGreaterThan(550);
    expect(names.filter((name) => !isTimezone(name))).toEqual([]);
  });

  test('rejects strings that are not names of time zones', () => {
    const wrong = ['+02:00', '-0530', '', 'Mars/Olympus', 'Europe/Berlin ', 'system', 'Etc', '\0UTC'];
    expect(wrong.filter(isTimezone)).toEqual([]);
  });

  test('accepts and stores current names as sent in every time zone field of the API', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    for (const timezone of ['Asia/Kolkata', 'Europe/Kyiv', 'Asia/Ho_Chi_Minh', 'Etc/UTC']) {
      const hours = await expectStatus(200, 'PATCH', `/v1/users/${tenant.admin.id}/working-hours`, {
        key,
        body: { timezone },
      });
      expect(hours.body.data.working_hours.timezone).toBe(timezone);
      const policy = await expectStatus(201, 'POST', '/v1/scheduling/policies', {
        key,
        body: { name: timezone, timezone },
      });
      expect(policy.body.data.policy.timezone).toBe(timezone);
      const sla = await expectStatus(201, 'POST', '/v1/settings/sla-policies', {
        key,
        body: { name: timezone, entity_type: 'lead', first_response_time: 60, timezone },
      });
      expect(sla.body.data.sla_policy.timezone).toBe(timezone);
    }
    const unknown = await call('POST', '/v1/scheduling/policies', {
      key,
      body: { name: 'Mars', timezone: 'Mars/Base' },
    });
    expect(unknown.body.error.details.fields).toMatchObject([{ field: 'timezone', code: 'INVALID_FORMAT' }]);
  });
});

test('accepts only ISO 4217 currencies', () => {
  expect(['EUR', 'AED', 'JPY', 'XXZ', 'eur', ''].map(isCurrency)).toEqual([true, true, true, false, false, false]);
});

test('formats amounts by the decimals of their currency', () => {
  const amounts = ['EUR', 'HUF', 'COP', 'JPY', 'KRW', 'KWD', 'CLF'].map((code) => formatMoney(1_200_000, code));
  expect(amounts).toEqual([
    '12000.00 EUR',
    '12000.00 HUF',
    '12000.00 COP',
    '1200000 JPY',
    '1200000 KRW',
    '1200.000 KWD',
    '120.0000 CLF',
  ]);
  // With few exceptions, everyday prices have the decimals of the minor unit.
  const others = Intl.supportedValuesOf('currency').filter((currency) => {
    const { maximumFractionDigits } = new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions();
    return (maximumFractionDigits ?? 0) > findDecimals(currency);
  });
  expect(others).toEqual([]);
});
