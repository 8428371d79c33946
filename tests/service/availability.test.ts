// The public table of modules by country.
import { describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';

const ask = async (query: Record<string, string> = {}) =>
  (await expectStatus(200, 'GET', '/v1/availability', { query })).body.data;

const statuses = (country: Json, modules: string[]) =>
  modules.map((name) => country.modules.find((each: Json) => each.module === name).status);

describe('GET /v1/availability', () => {
  test('returns every country and module without a credential, cacheable for an hour', async () => {
    const answer = await expectStatus(200, 'GET', '/v1/availability');
    expect(answer.headers.get('cache-control')).toBe('public, max-age=3600');
    const { countries } = answer.body.data;
    const codes = countries.map((country: Json) => country.country_code);
    expect(codes).toHaveLength(30);
    expect(codes).toEqual([...codes].sort());
    expect(new Set(countries.map((country: Json) => country.modules.length))).toEqual(new Set([16]));
  });

  test.each([
    ['US', 'america', ['available', 'available', 'available', 'available']],
    ['BR', 'america', ['available', 'limited', 'unavailable', 'available']],
    ['PT', 'europe', ['available', 'available', 'limited', 'available']],
    ['SA', 'middle_east', ['limited', 'limited', 'unavailable', 'available']],
    ['EG', 'middle_east', ['limited', 'limited', 'unavailable', 'limited']],
  ])('returns the telephony of %s in %s', async (country, region, telephony) => {
    const { countries } = await ask({ country });
    expect(countries).toHaveLength(1);
    expect(countries[0]).toMatchObject({ country_code: country, region });
    expect(statuses(countries[0], ['phone_voice', 'phone_sms', 'fax', 'whatsapp'])).toEqual(telephony);
    expect(statuses(countries[0], ['leads', 'bookings', 'workforces'])).toEqual([
      'available',
      'available',
      'available',
    ]);
  });

  test('counts limited modules as available, and gives the reason', async () => {
    const { countries } = await ask({ country: 'AE' });
    const module = (name: string) => countries[0].modules.find((each: Json) => each.module === name);
    expect(module('leads')).toMatchObject({ label: 'Leads', available: true, note: null });
    expect(module('phone_sms')).toMatchObject({ label: 'SMS', available: true, note: expect.any(String) });
    expect(module('fax')).toMatchObject({ label: 'Fax', available: false, note: expect.any(String) });
  });

  test('filters by module, and accepts a country in lower case', async () => {
    const everywhere = await ask({ module: 'fax' });
    expect(everywhere.countries).toHaveLength(30);
    expect(everywhere.countries[0].modules).toHaveLength(1);
    const one = await ask({ module: 'fax', country: 'de' });
    expect(one.countries).toMatchObject([{ country_code: 'DE', modules: [{ module: 'fax', status: 'limited' }] }]);
    expect(one.updated_at).toBe(everywhere.updated_at);
  });

  test('returns an empty list for a country that is not served', async () => {
    expect((await ask({ country: 'JP' })).countries).toEqual([]);
  });

  test.each([
    ['country', 'DEU', 'INVALID_FORMAT'],
    ['country', 'D1', 'INVALID_FORMAT'],
    ['country', '', 'INVALID_FORMAT'],
    ['module', 'pigeons', 'INVALID_OPTION'],
    ['region', 'europe', 'UNKNOWN_FIELD'],
  ])('rejects %s=%s with 400', async (name, value, code) => {
    const { body } = await expectStatus(400, 'GET', '/v1/availability', { query: { [name]: value } });
    expect(body.error.code).toBe('VALIDATION_ERROR');
    expect(body.error.details.fields).toMatchObject([{ field: name, code }]);
  });
});
