// Signup: all or nothing, and one error for every reason.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { call, expectStatus } from '../support/client.ts';
import { database, newKey, newPlatformKey, newTenant } from '../support/tenants.ts';

const signup = (more: { company?: object; admin_user?: object } & Record<string, unknown> = {}) => ({
  region: 'europe',
  industry: 'Retail',
  ...more,
  company: { name: 'Blue Lake Trading', email: 'office@bluelake.example', ...more.company },
  admin_user: { email: `${randomUUID()}@bluelake.example`, full_name: 'Sara Haddad', ...more.admin_user },
});

describe('POST /v1/onboarding', () => {
  test('creates a company with its initial configuration and records', async () => {
    const { body } = await expectStatus(201, 'POST', '/v1/onboarding', {
      body: signup({ admin_user: { password: 'long enough' } }),
    });
    expect(body.data.company).toMatchObject({
      name: 'Blue Lake Trading',
      status: 'active',
      timezone: 'Europe/Berlin',
      currency: 'EUR',
    });
    expect(body.data.branch.name).toBe('Main Branch');
    expect(body.data.user).toMatchObject({ role: 'Company_Admin', must_change_password: false });
    expect(body.data).not.toHaveProperty('temp_password');
    expect(body.data.subscription).toMatchObject({ status: 'trialing', package_code: 'growth' });
    const company = body.data.company.id;
    const sql = database();
    const [counts] = await sql`
      select (select count(*)::int from statuses where company_id = ${company} and object = 'deals') as deals,
        (select count(*)::int from statuses where company_id = ${company} and object = 'leads') as leads,
        (select count(*)::int from activity_types where company_id = ${company}) as types,
        (select count(*)::int from audit_logs where company_id = ${company} and action = 'company.onboard') as audit`;
    expect(counts).toEqual({ deals: 6, leads: 5, types: 10, audit: 1 });
  });

  test('creates the default sources, so that a first lead can name one', async () => {
    const { body } = await expectStatus(201, 'POST', '/v1/onboarding', { body: signup() });
    expect(body.data.defaults.sources).toBe(6);
    const key = await newKey({ companyId: body.data.company.id }, { scopes: ['settings:view'] });
    const list = await expectStatus(200, 'GET', '/v1/settings/sources', { key });
    expect(list.body.data.sources).toMatchObject(
      ['Email', 'Event', 'Other', 'Phone', 'Referral', 'Website'].map((name) => ({ name, is_enabled: true })),
    );
  });

  test('generates a password of 16 characters with every class if none is given', async () => {
    const { body } = await expectStatus(201, 'POST', '/v1/onboarding', { body: signup() });
    expect(body.data.temp_password).toMatch(/^(?=.*[A-Z])(?=.*[a-z])(?=.*\d)(?=.*[^A-Za-z0-9]).{16}$/);
    expect(body.data.user.must_change_password).toBe(true);
  });

  test.each([
    ['middle_east', 'Asia/Dubai', 'AED'],
    ['america', 'America/New_York', 'USD'],
  ])('derives time zone and currency from the region %s', async (region, timezone, currency) => {
    const { body } = await expectStatus(201, 'POST', '/v1/onboarding', { body: signup({ region }) });
    expect(body.data.company).toMatchObject({ timezone, currency });
  });

  test('stores metadata of any shape with the first user', async () => {
    const metadata = { form: { name: 'pricing', fields: [{ seats: 20, why: { text: 'growth' } }] }, paid: false };
    const { body } = await expectStatus(201, 'POST', '/v1/onboarding', { body: signup({ metadata }) });
    const [user] = await database()`select metadata from users where id = ${body.data.user.id}`;
    expect(user?.metadata).toEqual(metadata);
  });

  test('returns the same body for a used address and an invalid one, and stores nothing', async () => {
    const tenant = await newTenant();
    const company = `Taken ${randomUUID()}`;
    const taken = await expectStatus(400, 'POST', '/v1/onboarding', {
      body: signup({ company: { name: company }, admin_user: { email: tenant.admin.email.toUpperCase() } }),
    });
    const wrong = await expectStatus(400, 'POST', '/v1/onboarding', { body: { region: 'mars', extra: 1 } });
    const place = await expectStatus(400, 'POST', '/v1/onboarding', {
      body: signup({ company: { timezone: 'Mars/Olympus' } }),
    });
    expect(taken.body.error).toEqual({
      code: 'VALIDATION_ERROR',
      message: 'The signup request could not be accepted.',
    });
    expect(wrong.body.error).toEqual(taken.body.error);
    expect(place.body.error).toEqual(taken.body.error);
    expect(await database()`select from companies where name = ${company}`).toHaveLength(0);
  });

  test('creates one company for 16 concurrent signups with the same address', async () => {
    const body = signup();
    const answers = await Promise.all(Array.from({ length: 16 }, () => call('POST', '/v1/onboarding', { body })));
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1);
    expect(answers.filter((answer) => answer.status === 400)).toHaveLength(15);
  });
});

describe('POST /v1/onboard and /v1/check-email', () => {
  test('allows onboarding and address checks for the platform key, but not for a workspace key with every scope', async () => {
    const platform = await newPlatformKey();
    const email = `${randomUUID()}@bluelake.example`;
    const ask = () => expectStatus(200, 'POST', '/v1/check-email', { key: platform, body: { email } });
    expect((await ask()).body).toMatchObject({ exists: false, data: { exists: false } });
    await expectStatus(201, 'POST', '/v1/onboard', { key: platform, body: signup({ admin_user: { email } }) });
    expect((await ask()).body).toMatchObject({ exists: true, data: { exists: true } });

    const tenant = await newTenant();
    const refused = await expectStatus(403, 'POST', '/v1/onboard', { key: tenant.key, body: signup() });
    expect(refused.body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['onboarding'] } });
    await expectStatus(403, 'POST', '/v1/check-email', {
      key: await newKey(tenant, { scopes: ['*'] }),
      body: { email },
    });
  });

  test('names a malformed address and a wrong type in check-email', async () => {
    const platform = await newPlatformKey();
    const malformed = await expectStatus(400, 'POST', '/v1/check-email', { key: platform, body: { email: 'nobody' } });
    expect(malformed.body.error.details.fields).toEqual([
      { field: 'email', code: 'INVALID_FORMAT', message: 'email must be an email address.' },
    ]);
    const typed = await expectStatus(422, 'POST', '/v1/check-email', { key: platform, body: { email: 1 } });
    expect(typed.body.error.details.fields[0]).toMatchObject({ field: 'email', code: 'INVALID_TYPE' });
  });
});
