// Changing the own password: requires the old one, ends other sessions, limits guesses.
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { audited } from '../support/records.ts';
import { newPerson, tokenFor } from '../support/sessions.ts';
import { adminPassword, newTenant, type Tenant } from '../support/tenants.ts';
import { person } from '../support/users.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

const create = (status: number, body: object): Promise<Answer> =>
  expectStatus(status, 'POST', '/v1/users', { key: tenant.key, body });
const get = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/users/${id}`, { key: tenant.key })).body.data.user;

describe('PATCH /v1/me/password', () => {
  const enter = (status: number, email: string, password: string): Promise<Answer> =>
    expectStatus(status, 'POST', '/auth/v1/token', { query: { grant_type: 'password' }, body: { email, password } });
  const change = (status: number, token: string, body: object): Promise<Answer> =>
    expectStatus(status, 'PATCH', '/v1/me/password', { token, body });

  test('replaces a generated password and ends all other sessions', async () => {
    const { user, temp_password: made } = (await create(201, person())).body.data;
    const session = (await enter(200, user.email, made)).body;
    const elsewhere = await tokenFor(tenant, user);
    const answer = await change(200, session.access_token, { current_password: made, password: 'a phrase of mine' });
    expect(answer.body.data).toEqual({ must_change_password: false });
    expect(await audited(answer)).toMatchObject([
      { action: 'user.password_change', record_id: user.id, changes: null },
    ]);
    expect((await call('GET', '/v1/me', { token: session.access_token })).status).toBe(200);
    expect((await call('GET', '/v1/me', { token: elsewhere })).status).toBe(401);
    await enter(400, user.email, made);
    expect((await enter(200, user.email, 'a phrase of mine')).body.user.must_change_password).toBe(false);
    expect((await get(user.id)).must_change_password).toBe(false);
  });

  test('rejects a wrong current password, an unchanged and a short one, and changes nothing', async () => {
    const user = await newPerson(tenant);
    const token = await tokenFor(tenant, user);
    const other = await tokenFor(tenant, user);
    const cases: [object, string, string][] = [
      [{ current_password: 'wrong', password: 'a phrase of mine' }, 'current_password', 'RULE_FAILED'],
      [{ current_password: adminPassword, password: adminPassword }, 'password', 'RULE_FAILED'],
      [{ current_password: adminPassword, password: '1234567' }, 'password', 'TOO_SHORT'],
      [{ password: 'a phrase of mine' }, 'current_password', 'REQUIRED'],
    ];
    for (const [body, field, code] of cases) {
      const answer = await change(400, token, body);
      expect(answer.body.error.details.fields).toMatchObject([{ field, code }]);
      expect(await audited(answer)).toEqual([]);
    }
    expect((await call('GET', '/v1/me', { token: other })).status).toBe(200);
    await enter(200, user.email, adminPassword);
  });

  test('counts wrong current passwords as failed sign-ins, and does not check the sixth', async () => {
    const user = await newPerson(tenant);
    const token = await tokenFor(tenant, user);
    const guess = { current_password: 'wrong', password: 'a phrase of mine' };
    for (let guesses = 0; guesses < 5; guesses += 1) await change(400, token, guess);
    await change(429, token, { ...guess, current_password: adminPassword });
    await enter(429, user.email, adminPassword);
  });
});
