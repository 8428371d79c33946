// Phone numbers of a workspace: registration, default and release.
import { beforeEach, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { newPhoneNumber, someNumber } from '../support/messaging.ts';
import { newWideTenant } from '../support/requests.ts';
import { newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/phone-numbers';

beforeEach(async () => {
  tenant = await newWideTenant();
});

const list = async (query: Record<string, string> = {}): Promise<Json[]> =>
  (await expectStatus(200, 'GET', path, { key: tenant.key, query })).body.data.phone_numbers;
const patch = (id: string, body: object) => call('PATCH', `${path}/${id}`, { key: tenant.key, body });
const release = (id: string) => call('POST', `${path}/${id}/release`, { key: tenant.key });
const onlyText = { capabilities: { sms: true, voice: false, fax: false } };
const onlyVoice = { capabilities: { sms: false, voice: true, fax: false } };

test('makes the first number of a kind the default until another one is chosen', async () => {
  const first = await newPhoneNumber(tenant.key);
  expect(first).toMatchObject({
    is_default: true,
    is_default_fax: true,
    status: 'active',
    country: 'AE',
    currency: 'EUR',
  });
  const second = await newPhoneNumber(tenant.key, onlyText);
  expect(second).toMatchObject({ is_default: false, is_default_fax: false });
  const made = await patch(second.id, { is_default: true, friendly_name: ' Second desk ' });
  expect(made.body.data.phone_number).toMatchObject({ is_default: true, friendly_name: 'Second desk' });
  expect((await list()).map((each) => [each.id, each.is_default])).toEqual([
    [second.id, true],
    [first.id, false],
  ]);
  const reasons = [
    await patch(second.id, { is_default: false }),
    await patch(second.id, { is_default_fax: true }),
    await patch((await newPhoneNumber(tenant.key, onlyVoice)).id, { is_default: true }),
  ].map(({ status, body }) => [status, body.error.details.reason]);
  expect(reasons).toEqual([
    [409, 'default_number'],
    [409, 'cannot_send'],
    [409, 'cannot_send'],
  ]);
});

test('leaves one default if many numbers become the default concurrently', async () => {
  const numbers = await Promise.all(Array.from({ length: 6 }, () => newPhoneNumber(tenant.key)));
  expect(numbers.filter((each) => each.is_default)).toHaveLength(1);
  const made = await Promise.all(numbers.map(({ id }) => patch(id, { is_default: true })));
  expect(made.map(({ status }) => status)).toEqual(Array(6).fill(200));
  expect((await list()).filter((each) => each.is_default)).toHaveLength(1);
});

test('permits registering a released number again, which is no longer the default', async () => {
  const { id, phone_number } = await newPhoneNumber(tenant.key);
  const twin = await call('POST', path, { key: tenant.key, body: { phone_number, ...onlyText } });
  expect([twin.status, twin.body.error]).toMatchObject([409, { code: 'ALREADY_EXISTS', details: { existing_id: id } }]);
  for (const answer of [await release(id), await release(id)])
    expect(answer.body.data.phone_number).toMatchObject({ status: 'released', is_default: false });
  expect((await patch(id, { friendly_name: 'Desk' })).body.error.details.reason).toBe('not_active');
  const again = await newPhoneNumber(tenant.key, { phone_number });
  expect(again).toMatchObject({ phone_number, is_default: true });
  expect((await list({ status: 'released' })).map((each) => each.id)).toEqual([id]);
});

test('finds a number by a part of it or of its name', async () => {
  const [desk, other] = [
    await newPhoneNumber(tenant.key, { friendly_name: 'Front desk' }),
    await newPhoneNumber(tenant.key),
  ];
  expect((await list({ search: 'DESK' })).map((each) => each.id)).toEqual([desk.id]);
  expect((await list({ search: other.phone_number.slice(4) })).map((each) => each.id)).toEqual([other.id]);
});

test('rejects invalid numbers and settings', async () => {
  const post = async (body: object) => {
    const answer = await call('POST', path, { key: tenant.key, body });
    return [answer.status, answer.body.error.details.fields?.[0].field ?? answer.body.error.details.reason];
  };
  const none = { sms: false, voice: false, fax: false };
  const stranger = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9e10';
  expect(await post({ phone_number: 'desk', ...onlyText })).toEqual([400, 'phone_number']);
  expect(await post({ phone_number: someNumber(), capabilities: none })).toEqual([400, 'capabilities']);
  expect(await post({ phone_number: someNumber(), ...onlyVoice, is_default: true })).toEqual([409, 'cannot_send']);
  expect(await post({ phone_number: someNumber(), ...onlyText, assigned_user_id: stranger })).toEqual([
    422,
    'assigned_user_id',
  ]);
  const { id: userId } = await newUser(tenant);
  const number = await newPhoneNumber(tenant.key, { assigned_user_id: userId });
  expect(number.assigned_user_id).toBe(userId);
  expect((await patch(number.id, { assigned_user_id: null })).body.data.phone_number.assigned_user_id).toBeNull();
  expect((await patch(number.id, { assigned_user_id: stranger })).status).toBe(422);
});

test('limits a workspace to 200 numbers', async () => {
  for (let made = 0; made < 200; made += 20)
    await Promise.all(Array.from({ length: 20 }, () => newPhoneNumber(tenant.key, onlyText)));
  const full = await call('POST', path, { key: tenant.key, body: { phone_number: someNumber(), ...onlyText } });
  expect([full.status, full.body.error.details]).toMatchObject([
    409,
    { reason: 'phone_number_limit_reached', limit: 200 },
  ]);
});
