// Reservations: slots held for a while, extended, released and expired.
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { readClaim, writeClaim } from '../../domain/scheduling/slot-claims.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { attendee, hold, meeting, newPool, search } from '../support/scheduling.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/scheduling/reservations';

beforeAll(async () => {
  tenant = await newTenant();
});

const firstSlot = async (pool: Json, more: object = {}): Promise<Json> =>
  (await search(tenant.key, pool, { limit: 1, ...more })).slots[0];
const post = (to: string, body: object) => call('POST', to, { key: tenant.key, body, idempotencyKey: true });
const seconds = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / 1000;
/** Returns the same token, expired for a minute, signed with the server's key. */
function expired(token: string): string {
  const tokens = new SignedTokens(new Secrets(inject('secretKey')));
  const claim = readClaim(tokens.read('slot tokens', token.slice('st_'.length)));
  return `st_${tokens.write('slot tokens', writeClaim({ ...claim, expiresAt: Date.now() - 60_000 }))}`;
}
/** Advances the time of a reservation. */
async function age(id: string, time: number): Promise<void> {
  const sql = database();
  await sql`
    update slot_reservations set created_at = created_at - ${time} * interval '1 second', expires_at = expires_at - ${time} * interval '1 second',
      hard_cap_at = hard_cap_at - ${time} * interval '1 second'
    where id = ${id}`;
  await sql`update taken_times set expires_at = expires_at - ${time} * interval '1 second' where id = ${id}`;
}

describe('a reservation', () => {
  test('holds a slot as long as the policy says, or shorter on request', async () => {
    const pool = await newPool(tenant, { members: 2 });
    const whole = await hold(tenant.key, await firstSlot(pool));
    expect(whole).toMatchObject({ status: 'held', ttl_seconds: 600, test_mode: false, pool_id: pool.id });
    expect(whole.created_by).toMatchObject({ kind: 'api_key' });
    expect(seconds(whole.created_at, whole.expires_at)).toBe(600);
    expect(seconds(whole.created_at, whole.hard_cap_at)).toBe(1800);
    const short = await hold(tenant.key, await firstSlot(pool), { ttl_seconds: 60 });
    expect(seconds(short.created_at, short.expires_at)).toBe(60);
    const longer = await post(path, { slot_token: (await firstSlot(pool)).slot_token, ttl_seconds: 900 });
    expect(longer.body.error.details.fields).toMatchObject([{ field: 'ttl_seconds', code: 'OUT_OF_RANGE' }]);
    const read = await expectStatus(200, 'GET', `${path}/${whole.id}`, { key: tenant.key });
    expect(read.body.data.reservation).toEqual(whole);
  });

  test('names the person of a shared slot only after the booking', async () => {
    const pool = await newPool(tenant, { members: 1, policy: { exposure: 'shared' } });
    const slot = await firstSlot(pool);
    const reservation = await hold(tenant.key, slot);
    expect(reservation.user_id).toBeNull();
    const { slot_token } = slot;
    const booked = await post('/v1/bookings', { slot_token, reservation_id: reservation.id, attendee, meeting });
    expect(booked.body.data.booking.user_id).toBe(pool.member_ids[0]);
  });

  test('extends a reservation up to its hard cap, and never shortens it', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const { id, ...held } = await hold(tenant.key, await firstSlot(pool));
    const extend = async (body: object = {}): Promise<Json> => (await post(`${path}/${id}/extend`, body)).body;
    expect((await extend({ ttl_seconds: 60 })).data.reservation.expires_at).toBe(held.expires_at);
    await age(id, 500);
    const { reservation } = (await extend()).data;
    expect(seconds(held.expires_at, reservation.expires_at)).toBeGreaterThan(-5);
    await age(id, 400);
    await extend();
    await age(id, 500);
    const last = (await extend()).data.reservation;
    expect(last.expires_at).toBe(last.hard_cap_at);
    expect((await extend()).error).toMatchObject({ code: 'CONFLICT', details: { reason: 'hard_cap_reached' } });
  });

  test('frees the slot of an expired reservation', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const slot = await firstSlot(pool);
    const { id } = await hold(tenant.key, slot);
    const taken = await post(path, { slot_token: slot.slot_token });
    expect(taken.body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'slot_reserved' } });
    await age(id, 601);
    for (const [method, to] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/extend'],
    ] as const)
      await expectStatus(404, method, `${path}/${id}${to}`, { key: tenant.key });
    const again = await hold(tenant.key, slot);
    const { slot_token } = slot;
    const late = await post('/v1/bookings', { slot_token, reservation_id: id, attendee, meeting });
    expect(late.status).toBe(404);
    const booked = await post('/v1/bookings', { slot_token, reservation_id: again.id, attendee, meeting });
    expect(booked.status).toBe(201);
  });

  test('releases a reservation once', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const { id } = await hold(tenant.key, await firstSlot(pool));
    const { body } = await expectStatus(200, 'DELETE', `${path}/${id}`, { key: tenant.key });
    expect(body.data).toEqual({ id, released: true });
    await expectStatus(404, 'DELETE', `${path}/${id}`, { key: tenant.key });
    const audit = await database()`select action from audit_logs where record_id = ${id} order by seq`;
    expect(audit.map(({ action }) => action)).toEqual(['reservation.create', 'reservation.release']);
  });

  test('reserves the next free person if the named one is busy', async () => {
    const pool = await newPool(tenant, { members: 2, policy: { exposure: 'merged' } });
    const slot = await firstSlot(pool);
    const users = [await hold(tenant.key, slot), await hold(tenant.key, slot)].map((each) => each.user_id);
    expect(users.toSorted()).toEqual(pool.member_ids.toSorted());
    expect((await post(path, { slot_token: slot.slot_token })).status).toBe(409);
  });
});

describe('a slot token', () => {
  test('rejects an expired slot token for holds, but books an earlier hold with it', async () => {
    const pool = await newPool(tenant, { members: 1, policy: { reservation_ttl_seconds: 60 } });
    const slot = await firstSlot(pool);
    const left = seconds(new Date().toISOString(), slot.token_expires_at);
    expect([left > 50, left <= 60]).toEqual([true, true]);
    const reservation = await hold(tenant.key, slot);
    const slot_token = expired(slot.slot_token);
    const late = await post(path, { slot_token });
    expect([late.status, late.body.error.details.reason]).toEqual([409, 'slot_token_expired']);
    const booked = await post('/v1/bookings', { slot_token, reservation_id: reservation.id, attendee, meeting });
    expect([booked.status, booked.body.data.booking.start_at]).toEqual([201, slot.start_at]);
  });

  test('rejects a changed slot token', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const { slot_token } = await firstSlot(pool);
    const [payload = '', signature = ''] = slot_token.slice('st_'.length).split('.');
    const claim = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const later = Buffer.from(JSON.stringify(claim.with(-2, claim.at(-2) + 3_600_000))).toString('base64url');
    for (const forged of [`${slot_token.slice(0, -2)}xx`, `st_${later}.${signature}`, `st_${payload}`]) {
      const refused = await post(path, { slot_token: forged });
      expect(refused.body.error.details).toMatchObject({
        reason: 'invalid_slot_token',
        fields: [{ field: 'slot_token' }],
      });
    }
  });
});
