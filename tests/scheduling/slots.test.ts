// Slots: availability lists, and searches with tokens.
import { DateTime } from 'luxon';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { book, halfHour, hold, newPolicy, newPool, nextMonth, search } from '../support/scheduling.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const day = 86_400_000;

beforeAll(async () => {
  tenant = await newTenant();
});

const readSlots = async (query: Record<string, string>, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', '/v1/scheduling/slots', { key, query })).body.data;
const refused = async (status: 400 | 404 | 409, query: Record<string, string>): Promise<Json> =>
  (await expectStatus(status, 'GET', '/v1/scheduling/slots', { key: tenant.key, query })).body.error;
const listStarts = (slots: Json[]): string[] => slots.map((slot) => slot.start_at);

describe('the slots of users', () => {
  test('lists slots of all free users on the grid of the policy, with their users', async () => {
    const [a, b] = await Promise.all([newUser(tenant), newUser(tenant)]);
    const { id: policy_id } = await newPolicy(tenant);
    const [from, to] = [halfHour(4).toISOString(), halfHour(7).toISOString()];
    await book(tenant.key, [a.id], { policy_id, from: halfHour(5).toISOString(), to: halfHour(6).toISOString() });
    const found = await readSlots({ member_ids: `${b.id},${a.id}`, policy_id, from, to });
    expect(found).toEqual({
      policy_id,
      from,
      to,
      truncated: false,
      slots: [4, 5, 6].map((after) => ({
        start_at: halfHour(after).toISOString(),
        end_at: halfHour(after + 1).toISOString(),
        user_ids: after === 5 ? [b.id] : [b.id, a.id],
      })),
    });
    const answer = await expectStatus(200, 'GET', '/v1/scheduling/slots', {
      key: tenant.key,
      query: { member_ids: a.id },
    });
    expect(answer.headers.get('cache-control')).toBe('private, max-age=30');
  });

  test('applies notice, horizon, buffers and the daily maximum to slots', async () => {
    const { id } = await newUser(tenant);
    const rules = { min_notice_minutes: 120, horizon_days: 1, buffer_before_minutes: 15, buffer_after_minutes: 30 };
    const { id: policy_id } = await newPolicy(tenant, rules);
    const before = (await readSlots({ member_ids: id, policy_id })).slots;
    expect(Date.parse(before[0].start_at)).toBeGreaterThanOrEqual(Date.now() + 119 * 60_000);
    expect(Date.parse(before.at(-1).end_at)).toBeLessThanOrEqual(Date.now() + day);
    const { start_at, end_at } = before[10];
    await book(tenant.key, [id], { policy_id, from: start_at, to: end_at });
    const after = listStarts((await readSlots({ member_ids: id, policy_id })).slots);
    // Half an hour after the previous meeting, a quarter before the next: two early slots and two
    // late ones.
    const gone = listStarts(before).filter((start) => !after.includes(start));
    expect(gone).toEqual(listStarts(before.slice(8, 13)).filter((start) => gone.includes(start)));
    expect(gone).toContain(start_at);
    const { id: strict } = await newPolicy(tenant, { max_bookings_per_day: 1 });
    const days = listStarts((await readSlots({ member_ids: id, policy_id: strict })).slots).map((start) =>
      start.slice(0, 10),
    );
    expect(days).not.toContain(start_at.slice(0, 10));
    expect(new Set(days).size).toBeGreaterThan(3);
  });

  test('uses the hours of the policy, or of the user, or of the default policy, and always the days off', async () => {
    const [own, usual] = await Promise.all([newUser(tenant), newUser(tenant)]);
    const weekly = [0, 1, 2, 3, 4, 5, 6].map((weekday) => ({ weekday, start: '20:00', end: '21:00' }));
    const today = new Date().toISOString().slice(0, 10);
    const off = new Date(Date.now() + 2 * day).toISOString().slice(0, 10);
    await expectStatus(200, 'PATCH', `/v1/users/${own.id}/working-hours`, {
      key: tenant.key,
      body: { timezone: 'UTC', weekly, days_off: [{ from: off, to: off }] },
    });
    const { id: open } = await newPolicy(tenant, { working_hours: null });
    const theirs = listStarts((await readSlots({ member_ids: own.id, policy_id: open })).slots);
    expect(new Set(theirs.map((start) => start.slice(11, 16)))).toEqual(new Set(['20:00', '20:30']));
    expect(theirs.map((start) => start.slice(0, 10))).not.toContain(off);
    expect(theirs.every((start) => start >= today)).toBe(true);
    // The default policy: Monday to Friday, nine to five in Berlin.
    const standard = listStarts((await readSlots({ member_ids: usual.id, policy_id: open })).slots);
    const local = new Intl.DateTimeFormat('en', {
      timeZone: 'Europe/Berlin',
      hour: 'numeric',
      hourCycle: 'h23',
      weekday: 'short',
    });
    const hours = standard.map((start) => local.formatToParts(new Date(start)));
    for (const parts of hours) {
      const hour = Number(parts.find(({ type }) => type === 'hour')?.value);
      expect(hour).toBeGreaterThanOrEqual(9);
      expect(hour).toBeLessThan(17);
      expect(['Sat', 'Sun']).not.toContain(parts.find(({ type }) => type === 'weekday')?.value);
    }
    const { id: all } = await newPolicy(tenant);
    const days = listStarts((await readSlots({ member_ids: own.id, policy_id: all })).slots).map((start) =>
      start.slice(0, 10),
    );
    expect(days).not.toContain(off);
  });

  test('lists at most 500 slots', async () => {
    const { id } = await newUser(tenant);
    const { id: policy_id } = await newPolicy(tenant, { duration_minutes: 5, slot_interval_minutes: 5 });
    const { slots, truncated } = await readSlots({ member_ids: id, policy_id });
    expect([slots.length, truncated]).toEqual([500, true]);
  });

  test('rejects unknown users, invalid times and unknown policies', async () => {
    const { id } = await newUser(tenant);
    const unknown = crypto.randomUUID();
    const error = await refused(400, { member_ids: `${id},${unknown}` });
    expect(error).toMatchObject({ code: 'VALIDATION_ERROR', details: { unknown_user_ids: [unknown] } });
    expect((await refused(400, { member_ids: 'a'.repeat(36) })).details.fields).toMatchObject([
      { code: 'INVALID_FORMAT' },
    ]);
    const many = Array.from({ length: 51 }, () => crypto.randomUUID()).join(',');
    expect((await refused(400, { member_ids: many })).details.fields).toMatchObject([
      { field: 'member_ids', code: 'OUT_OF_RANGE' },
    ]);
    const [from, late, early] = [0, 31 * day + 1000, -day].map((more) => new Date(Date.now() + more).toISOString());
    for (const to of [late, early])
      expect((await refused(400, { member_ids: id, from: from ?? '', to: to ?? '' })).details.fields).toMatchObject([
        { field: 'to' },
      ]);
    await refused(404, { member_ids: id, policy_id: crypto.randomUUID() });
  });
});

describe('a search', () => {
  test('returns as much about each slot as the exposure permits', async () => {
    const pool = await newPool(tenant, { members: 2 });
    const individual = (await search(tenant.key, pool, { limit: 2 })).slots;
    const first = pool.member_ids[0];
    expect(individual.map((slot: Json) => slot.user_id)).toEqual([first, first]);
    expect(individual[0].user_ids).toBeUndefined();
    const merged = (await search(tenant.key, pool, { limit: 1, exposure: 'merged' })).slots[0];
    expect([merged.user_id, merged.user_ids]).toEqual([undefined, pool.member_ids]);
    const shared = (await search(tenant.key, pool, { limit: 1, exposure: 'shared' })).slots[0];
    expect(Object.keys(shared).toSorted()).toEqual(['end_at', 'slot_token', 'start_at', 'token_expires_at']);
  });

  test('omits held people, and offers the slot again after the release', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const [slot] = (await search(tenant.key, pool, { limit: 1 })).slots;
    const { id } = await hold(tenant.key, slot);
    expect((await search(tenant.key, pool, { limit: 1 })).slots[0].start_at).not.toBe(slot.start_at);
    await expectStatus(200, 'DELETE', `/v1/scheduling/reservations/${id}`, { key: tenant.key });
    expect((await search(tenant.key, pool, { limit: 1 })).slots[0].start_at).toBe(slot.start_at);
  });

  test('offers later slots if a search finds nothing', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const [from, to] = [halfHour(4).toISOString(), halfHour(5).toISOString()];
    await book(tenant.key, pool.member_ids, { policy_id: pool.policy_id, from, to });
    const { slots, alternatives } = await search(tenant.key, pool, { from, to });
    expect(slots).toEqual([]);
    expect(listStarts(alternatives)).toEqual([5, 6, 7, 8, 9].map((after) => halfHour(after).toISOString()));
    await hold(tenant.key, alternatives[0]);
  });

  test('accepts another duration, and rejects an unknown time zone', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const [slot] = (await search(tenant.key, pool, { limit: 1, duration_minutes: 45 })).slots;
    expect(Date.parse(slot.end_at) - Date.parse(slot.start_at)).toBe(45 * 60_000);
    expect(await hold(tenant.key, slot)).toMatchObject({ start_at: slot.start_at, end_at: slot.end_at });
    const body = { pool_id: pool.id, timezone: 'Mars/Base' };
    await expectStatus(400, 'POST', '/v1/scheduling/slots/search', { key: tenant.key, body });
  });

  test('requires an active member in the pool', async () => {
    const pool = await newPool(tenant, { members: 1 });
    await database()`update users set status = 'inactive' where id = ${pool.member_ids[0]}`;
    const body = { pool_id: pool.id };
    const { error } = (await expectStatus(409, 'POST', '/v1/scheduling/slots/search', { key: tenant.key, body })).body;
    expect(error.details.reason).toBe('no_eligible_rep');
    const none = { pool_id: crypto.randomUUID() };
    await expectStatus(404, 'POST', '/v1/scheduling/slots/search', { key: tenant.key, body: none });
  });
});

describe('a search of many slots', () => {
  test('returns up to 500 slots, and continues with the next one without a gap', async () => {
    const pool = await newPool(tenant, { members: 1, policy: { duration_minutes: 5, slot_interval_minutes: 5 } });
    const range = { from: halfHour(2).toISOString(), to: halfHour(102).toISOString() };
    const all: string[] = [];
    let from: string | null = range.from;
    for (const [limit, count] of [
      [500, 500],
      [99, 99],
      [1, 1],
    ] as const) {
      const found: Json = await search(tenant.key, pool, { ...range, from, limit, exposure: 'shared' });
      if (all.length > 0 && limit === 99) expect(found.slots[0].start_at).toBe(from);
      expect(found.slots).toHaveLength(count);
      all.push(...listStarts(found.slots));
      from = found.next_from;
      expect(found.truncated).toBe(limit !== 1);
    }
    expect(from).toBeNull();
    const step = 5 * 60_000;
    expect(all).toEqual(
      Array.from({ length: 600 }, (_, index) => new Date(halfHour(2).getTime() + index * step).toISOString()),
    );
    const refused = { pool_id: pool.id, limit: 501 };
    await expectStatus(400, 'POST', '/v1/scheduling/slots/search', { key: tenant.key, body: refused });
  });
});

describe('the days of a month', () => {
  const readDays = async (pool: Json, query: Record<string, string>): Promise<Json> =>
    (await expectStatus(200, 'GET', '/v1/scheduling/days', { key: tenant.key, query: { pool_id: pool.id, ...query } }))
      .body.data;

  test('lists every date with its slots in the zone, as a search finds them', async () => {
    const weekly = [1, 3].map((weekday) => ({ weekday, start: '20:00', end: '24:00' }));
    const pool = await newPool(tenant, { members: 2, policy: { working_hours: weekly, horizon_days: 120 } });
    const month = nextMonth();
    for (const timezone of ['UTC', 'Asia/Dubai', 'America/Los_Angeles']) {
      const { days, ...rest } = await readDays(pool, { month, timezone });
      expect(rest).toEqual({ pool_id: pool.id, policy_id: pool.policy_id, month, timezone });
      const [year = 0, number = 1] = month.split('-').map(Number);
      const dates = Array.from({ length: new Date(Date.UTC(year, number, 0)).getUTCDate() }, (_, index) =>
        new Date(Date.UTC(year, number - 1, index + 1)).toISOString().slice(0, 10),
      );
      expect(days.map(({ date }: Json) => date)).toEqual(dates);
      const starts: string[] = [];
      for (let from = Date.UTC(year, number - 1, -1); from < Date.UTC(year, number, 2); from += 20 * day) {
        const range = { from: new Date(from).toISOString(), to: new Date(from + 20 * day).toISOString() };
        starts.push(...listStarts((await search(tenant.key, pool, { ...range, limit: 500 })).slots));
      }
      const toDate = (start: string): string => DateTime.fromISO(start, { zone: timezone }).toISODate() ?? '';
      for (const { date, slots, first_start_at } of days) {
        const own = [...new Set(starts)].filter((start) => toDate(start) === date);
        expect({ date, slots, first_start_at }).toEqual({
          date,
          slots: own.length,
          first_start_at: own.toSorted()[0] ?? null,
        });
      }
      expect(days.some(({ slots }: Json) => slots > 0) && days.some(({ slots }: Json) => slots === 0)).toBe(true);
    }
  });

  test('counts a slot once, without booked times, times that have passed, or times beyond the horizon', async () => {
    const pool = await newPool(tenant, { members: 1, policy: { horizon_days: 3, duration_minutes: 60 } });
    const count = async (month: string): Promise<number> =>
      (await readDays(pool, { month })).days.reduce((sum: number, { slots }: Json) => sum + slots, 0);
    const months = [new Date().toISOString().slice(0, 7), nextMonth()];
    const before = (await Promise.all(months.map(count))).reduce((a, b) => a + b, 0);
    await book(tenant.key, pool.member_ids, { policy_id: pool.policy_id, from: halfHour(40).toISOString() });
    const after = (await Promise.all(months.map(count))).reduce((a, b) => a + b, 0);
    // A half-hour grid: the hour overlaps up to three starts, and the time may have moved on by one.
    expect(before - after).toBeGreaterThanOrEqual(3);
    expect(before - after).toBeLessThanOrEqual(4);
    expect(await count('2020-02')).toBe(0);
    expect(await count('2096-02')).toBe(0);
    expect((await readDays(pool, { month: '2096-02' })).days).toHaveLength(29);
  });

  test.each([
    [{ month: '2026-13' }, 'month'],
    [{ month: '1999-12' }, 'month'],
    [{ month: '2026-12', timezone: 'Mars/Olympus' }, 'timezone'],
    [{}, 'month'],
  ])('rejects %j', async (query: Record<string, string>, field) => {
    const pool = await newPool(tenant, { members: 1 });
    const asked = { pool_id: pool.id, ...query };
    const { body } = await expectStatus(400, 'GET', '/v1/scheduling/days', { key: tenant.key, query: asked });
    expect(body.error.details.fields[0].field).toBe(field);
    const foreign = await newTenant();
    await expectStatus(404, 'GET', '/v1/scheduling/days', {
      key: foreign.key,
      query: { pool_id: pool.id, month: '2026-12' },
    });
  });
});
