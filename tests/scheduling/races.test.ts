// Concurrent calls for the same person at the same time: one wins, without deadlocks.
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, type Json } from '../support/client.ts';
import { attendee, halfHour, meeting, newPolicy, newPool, search } from '../support/scheduling.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
/** Contested slots, and concurrent calls per slot. */
const [slotCount, racers] = [Number(process.env.SLOTS ?? 6), 32];
const rounds = Number(process.env.RACE_ROUNDS ?? 12);

beforeAll(async () => {
  tenant = await newTenant();
});

const post = (path: string, body: object): Promise<Answer> =>
  call('POST', path, { key: tenant.key, body, idempotencyKey: true });
const listReasons = (answers: Answer[]): (string | undefined)[] =>
  answers.map(({ status, body }) => (status < 300 ? undefined : `${status} ${body.error.details?.reason}`));

/** Returns overlapping busy times of one user. */
async function overlaps(userIds: readonly string[]): Promise<readonly unknown[]> {
  return await database()`
    with held as (
      select id, user_id, start_at, end_at from bookings where user_id = any(${[...userIds]}::uuid[]) and status = 'confirmed'
      union all
      select id, user_id, start_at, end_at from slot_reservations
      where user_id = any(${[...userIds]}::uuid[]) and status = 'held' and expires_at > now()
    )
    select a.id, b.id as other from held a join held b on a.user_id = b.user_id and a.id < b.id
    where tstzrange(a.start_at, a.end_at) && tstzrange(b.start_at, b.end_at)`;
}

describe(`each of ${slotCount} slots`, () => {
  test(`holds each contested slot for one of ${racers} calls`, async () => {
    const pool = await newPool(tenant, { members: 1 });
    const { slots } = await search(tenant.key, pool, { limit: slotCount });
    for (const { slot_token } of slots) {
      const held = await Promise.all(
        Array.from({ length: racers }, () => post('/v1/scheduling/reservations', { slot_token })),
      );
      const reasons = listReasons(held);
      expect(reasons.filter((reason) => reason === undefined)).toHaveLength(1);
      expect(new Set(reasons.filter((reason) => reason !== undefined))).toEqual(new Set(['409 slot_reserved']));
    }
    expect(await overlaps(pool.member_ids)).toEqual([]);
  });

  test(`books each contested slot for one of ${racers} calls, without affecting others`, async () => {
    const { id } = await newUser(tenant);
    const { id: policy_id } = await newPolicy(tenant);
    for (let index = 0; index < slotCount; index += 1) {
      const window = { from: halfHour(4 + index).toISOString(), to: halfHour(5 + index).toISOString() };
      const body = { member_ids: [id], policy_id, ...window, attendee, meeting };
      const reasons = listReasons(await Promise.all(Array.from({ length: racers }, () => post('/v1/bookings', body))));
      expect(reasons.filter((reason) => reason === undefined)).toHaveLength(1);
      expect(new Set(reasons.filter((reason) => reason !== undefined))).toEqual(new Set(['409 no_slot']));
    }
    expect(await overlaps([id])).toEqual([]);
  });

  test('books a held slot once under concurrent calls', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const [slot] = (await search(tenant.key, pool, { limit: 1 })).slots;
    const held = await post('/v1/scheduling/reservations', { slot_token: slot.slot_token });
    const reservation_id = held.body.data.reservation.id;
    const body = { slot_token: slot.slot_token, reservation_id, attendee, meeting };
    const answers = await Promise.all(Array.from({ length: racers }, () => post('/v1/bookings', body)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, ...Array(racers - 1).fill(404)]);
  });

  test('books a slot of a pool as often as it has members', async () => {
    const pool = await newPool(tenant, { members: 5, policy: { exposure: 'shared' } });
    const [{ slot_token }] = (await search(tenant.key, pool, { limit: 1 })).slots;
    const held = await Promise.all(
      Array.from({ length: racers }, () => post('/v1/scheduling/reservations', { slot_token })),
    );
    expect(held.filter(({ status }) => status === 201)).toHaveLength(5);
    expect(await overlaps(pool.member_ids)).toEqual([]);
  });
});

test('books two of many on a day with a maximum of two', async () => {
  const { id } = await newUser(tenant);
  const { id: policy_id } = await newPolicy(tenant, { max_bookings_per_day: 2 });
  const day = new Date(Date.now() + 2 * 86_400_000).setUTCHours(8, 0, 0, 0);
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) => {
      const [from, to] = [index, index + 1].map((half) => new Date(day + half * 1_800_000).toISOString());
      return post('/v1/bookings', { member_ids: [id], policy_id, from, to, attendee, meeting });
    }),
  );
  const reasons = listReasons(answers);
  expect(reasons.filter((reason) => reason === undefined)).toHaveLength(2);
  expect(new Set(reasons.filter((reason) => reason !== undefined))).toEqual(new Set(['409 no_slot']));
});

type Step =
  | { do: 'hold'; at: number }
  | { do: 'book'; at: number }
  | { do: 'move'; at: number; which: number }
  | { do: 'cancel'; which: number };

describe('overlapping holds, bookings, moves and cancellations', () => {
  test('never books a person twice under overlapping holds, bookings, moves and cancellations, without deadlocks', async () => {
    const pool = await newPool(tenant, { members: 2, policy: { slot_interval_minutes: 10, exposure: 'shared' } });
    const { member_ids, policy_id } = pool;
    const minutes = fc.integer({ min: 0, max: 12 }).map((tens) => tens * 10);
    const step: fc.Arbitrary<Step> = fc.oneof(
      fc.record({ do: fc.constant('hold' as const), at: minutes }),
      fc.record({ do: fc.constant('book' as const), at: minutes }),
      fc.record({ do: fc.constant('move' as const), at: minutes, which: fc.nat(7) }),
      fc.record({ do: fc.constant('cancel' as const), which: fc.nat(7) }),
    );
    const start = halfHour(6).getTime();
    const { slots } = await search(tenant.key, pool, { from: new Date(start).toISOString(), limit: 20 });
    const confirmed = async (): Promise<Json[]> => [
      ...(await database()`
        select id, start_at, end_at from bookings where user_id = any(${member_ids}::uuid[]) and status = 'confirmed' order by id`),
    ];
    const done = new Set<string>();
    const act = async (each: Step, booked: Json[]): Promise<Answer | undefined> => {
      const moment = (more: number): string => new Date(start + more * 60_000).toISOString();
      if (each.do === 'hold')
        return post('/v1/scheduling/reservations', { slot_token: slots[each.at / 10].slot_token });
      if (each.do === 'book') {
        const window = { from: moment(each.at), to: moment(each.at + 60) };
        return post('/v1/bookings', { member_ids, policy_id, ...window, attendee, meeting });
      }
      const booking = booked[each.which % Math.max(1, booked.length)];
      if (!booking) return undefined;
      if (each.do === 'cancel') return post(`/v1/bookings/${booking.id}/cancel`, {});
      return post(`/v1/bookings/${booking.id}/reschedule`, { from: moment(each.at), to: moment(each.at + 30) });
    };
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 16, maxLength: 24 }), async (steps) => {
        // Earlier holds expire to free their times.
        await database()`update taken_times set expires_at = now() where user_id = any(${member_ids}::uuid[]) and expires_at is not null`;
        await database()`update slot_reservations set expires_at = now() where pool_id = ${pool.id}`;
        const booked = await confirmed();
        const answers = await Promise.all(steps.map((each) => act(each, booked)));
        for (const [index, { do: what }] of steps.entries()) if ((answers[index]?.status ?? 500) < 300) done.add(what);
        const unexpected = answers.filter((answer) => answer && ![200, 201, 409].includes(answer.status));
        expect(unexpected.map((answer) => `${answer?.status} ${JSON.stringify(answer?.body)}`)).toEqual([]);
        expect(await overlaps(member_ids)).toEqual([]);
      }),
      { numRuns: rounds },
    );
    expect([...done].toSorted()).toEqual(['book', 'cancel', 'hold', 'move']);
  });
});
