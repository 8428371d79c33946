// Pools, holds and bookings, created through the API, and times for meetings.
import { randomUUID } from 'node:crypto';
import { call, expectStatus, type Json } from './client.ts';
import { database, newUser, type Tenant } from './tenants.ts';

/** Every hour of every day, so that tests do not depend on the weekday. */
export const allHours = [0, 1, 2, 3, 4, 5, 6].map((weekday) => ({ weekday, start: '00:00', end: '24:00' }));

/** Creates a policy that allows meetings at any time. */
export async function newPolicy(tenant: Tenant, more: object = {}): Promise<Json> {
  const body = {
    name: `Policy ${randomUUID()}`,
    timezone: 'UTC',
    working_hours: allHours,
    min_notice_minutes: 0,
    ...more,
  };
  return (await expectStatus(201, 'POST', '/v1/scheduling/policies', { key: tenant.key, body })).body.data.policy;
}

/** Creates a pool of the named or new users, under a new policy. */
export async function newPool(
  tenant: Tenant,
  {
    members = 2,
    policy = {},
    ...more
  }: { members?: number | string[]; policy?: object; [field: string]: unknown } = {},
): Promise<Json> {
  const ids =
    typeof members === 'number'
      ? await Promise.all(Array.from({ length: members }, async () => (await newUser(tenant)).id))
      : members;
  const { id } = await newPolicy(tenant, policy);
  const body = { name: `Pool ${randomUUID()}`, member_ids: ids, policy_id: id, ...more };
  return (await expectStatus(201, 'POST', '/v1/scheduling/pools', { key: tenant.key, body })).body.data.pool;
}

/** Searches the slots of a pool. */
export async function search(key: string, pool: Json, more: object = {}): Promise<Json> {
  const body = { pool_id: pool.id, ...more };
  return (await expectStatus(200, 'POST', '/v1/scheduling/slots/search', { key, body })).body.data;
}

/**
 * Holds a slot.
 * @returns the reservation
 */
export async function hold(key: string, slot: Json, more: object = {}): Promise<Json> {
  const body = { slot_token: slot.slot_token, ...more };
  return (await expectStatus(201, 'POST', '/v1/scheduling/reservations', { key, body, idempotencyKey: true })).body.data
    .reservation;
}

export const attendee = { name: 'Sara Ali', email: 'sara@example.com' };
export const meeting = { title: 'First call' };

/** Books the first free user. */
export async function book(key: string, memberIds: readonly string[], more: object = {}): Promise<Json> {
  const body = { member_ids: memberIds, attendee, meeting, ...more };
  return (await expectStatus(201, 'POST', '/v1/bookings', { key, body, idempotencyKey: true })).body.data.booking;
}

const usualPools = new WeakMap<Tenant, Promise<Json>>();

/** Returns the pool that requests of a tenant share if any pool would do. */
export function usualPool(tenant: Tenant): Promise<Json> {
  const known = usualPools.get(tenant);
  if (known) return known;
  // Short meetings, so that there is room for those of every request.
  const times = { duration_minutes: 5, slot_interval_minutes: 5 };
  // The horizon is after the end of the next month.
  const policy = { ...times, horizon_days: 90, reservation_ttl_seconds: 3600, reservation_hard_cap_seconds: 7200 };
  const made = newPolicy(tenant, policy).then((made) => insertPool(tenant, made.id));
  usualPools.set(tenant, made);
  return made;
}

/** Inserts the rows directly, because some tests count API calls. */
async function insertPool({ companyId, ...tenant }: Tenant, policy_id: string): Promise<Json> {
  const sql = database();
  const [id, member] = [randomUUID(), (await newUser({ companyId, ...tenant })).id];
  await sql`
    insert into scheduling_pools (company_id, id, name, policy_id, created_at, updated_at)
    values (${companyId}, ${id}, ${`Pool ${id}`}, ${policy_id}, now(), now())`;
  await sql`
    insert into scheduling_pool_members (company_id, pool_id, user_id, position, weight) values (${companyId}, ${id}, ${member}, 0, 1)`;
  return { id, policy_id, member_ids: [member] };
}

/** Returns days some weeks away, where the slots are the same at any time of day. */
export function later(): { from: string; to: string } {
  return { from: inDays(20), to: inDays(25) };
}

/** Returns the next month in UTC, as YYYY-MM, whose slots are the same at any time of day. */
export function nextMonth(): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString().slice(0, 7);
}

const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

const handedOut = new WeakMap<Tenant, Promise<Json>>();

/**
 * Returns a free slot of the usual pool that no other request uses, so that requests never race for
 * it.
 */
export function someSlot(tenant: Tenant, key: string): Promise<Json> {
  const before = handedOut.get(tenant);
  const next = (async () => {
    const from = (await before?.catch(() => undefined))?.end_at ?? inDays(26);
    const { slots } = await search(key, await usualPool(tenant), { limit: 1, from, to: inDays(56) });
    return slots[0];
  })();
  handedOut.set(tenant, next);
  return next;
}

/** Holds a slot of the usual pool, and takes another one if it is gone. */
export async function holdSome(tenant: Tenant, key: string): Promise<{ slot_token: string; reservation_id: string }> {
  for (;;) {
    const { slot_token } = await someSlot(tenant, key);
    const body = { slot_token };
    const held = await call('POST', '/v1/scheduling/reservations', { key, body, idempotencyKey: true });
    if (held.status === 201) return { slot_token, reservation_id: held.body.data.reservation.id };
    if (held.status !== 409) throw new Error(`a slot could not be held: ${held.text}`);
  }
}

/**
 * Holds a slot.
 * @returns the id of the reservation
 */
export async function newReservation(tenant: Tenant, key: string): Promise<string> {
  return (await holdSome(tenant, key)).reservation_id;
}

/**
 * Creates a confirmed booking.
 * @returns its id
 */
export async function newBooking(tenant: Tenant, key: string, userId?: string): Promise<string> {
  const { policy_id } = await usualPool(tenant);
  const member = userId ?? (await newUser(tenant)).id;
  return (await book(key, [member], { policy_id, ...(userId ? later() : {}) })).id;
}

/** Returns the half hour after some minutes from now. */
export function halfHour(after: number): Date {
  const half = 1_800_000;
  return new Date((Math.ceil(Date.now() / half) + after) * half);
}

/** Adds something to every table of scheduling, in both modes if the table has modes. */
export async function scheduled(tenant: Tenant): Promise<void> {
  const pool = await usualPool(tenant);
  const [userId] = pool.member_ids;
  const weekly = [{ weekday: 0, start: '09:00', end: '17:00' }];
  const body = { timezone: 'UTC', weekly, days_off: [{ from: '2030-01-01', to: '2030-01-01' }] };
  await expectStatus(200, 'PATCH', `/v1/users/${userId}/working-hours`, { key: tenant.key, body });
  for (const key of [tenant.key, tenant.testKey]) {
    await newReservation(tenant, key);
    await newBooking(tenant, key);
    const path = `/v1/scheduling/pools/${pool.id}/assignments`;
    await expectStatus(201, 'POST', path, { key, body: {}, idempotencyKey: true });
  }
  await database()`
    insert into user_calendars (company_id, user_id, provider, checked_at, looked_until, due_at, created_at, updated_at)
    values (${tenant.companyId}, ${userId}, 'test', now(), now(), now() + interval '1 day', now(), now())`;
  await newBooking(tenant, tenant.key, userId);
}
