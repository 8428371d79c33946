// A fortnight of a sales team: offered slots match a reference, and can be booked.
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Busy, Member, SlotRules } from '../../domain/scheduling/slots.ts';
import { type Interval, unite } from '../../domain/service/intervals.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { attendee, meeting, newPolicy } from '../support/scheduling.ts';
import { readSeed } from '../support/seed.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { day, findOffsetChanges, findReferenceSlots, minute } from './reference.ts';

const seed = readSeed('FORTNIGHT_SEED');
const zones = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe'];
const people = 4;
const actions = 48;
/** Concurrent calls for each of the booked slots. */
const racers = 3;

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

/**
 * Returns the next clock change of a zone, with a week on either side in which there is something
 * to book.
 */
function nextChange(zone: string): number {
  const year = new Date().getUTCFullYear();
  const changes = [year, year + 1].flatMap((each) => findOffsetChanges(zone, each));
  return changes.find((change) => change > Date.now() + 8 * day) ?? Date.now() + 30 * day;
}

const time = (most: number) => fc.integer({ min: 0, max: most * 4 }).map((quarters) => quarters * 15);
const clock = (minutes: number): string =>
  `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
const window = fc
  .record({ weekday: fc.integer({ min: 0, max: 6 }), from: time(20), length: time(9) })
  .map(({ weekday, from, length }) => ({
    weekday,
    start: clock(from),
    end: clock(Math.min(1440, from + length + 60)),
  }));
const policy = fc.record({
  duration_minutes: fc.constantFrom(15, 30, 45, 60),
  slot_interval_minutes: fc.constantFrom(15, 30, 45),
  buffer_before_minutes: fc.constantFrom(0, 10),
  buffer_after_minutes: fc.constantFrom(0, 5, 30),
  max_bookings_per_day: fc.constantFrom(null, 2, 4),
});
/** In hours from the start of the fortnight. */
const hours = fc.integer({ min: 0, max: 14 * 24 - 25 });
const action = fc.record({ do: fc.constantFrom('book', 'book', 'hold', 'cancel'), at: hours, which: fc.nat(100) });

interface Floor {
  policy: Json;
  members: { id: string; timezone: string; weekly: object[]; off: number | null; events: number[] }[];
}

/** Returns the events of an external calendar. */
function buildEvents(start: number, events: readonly number[]): Interval[] {
  return events.map((at) => ({ start: start + at * 60 * minute, end: start + at * 60 * minute + 90 * minute }));
}

/** People with hours, days off and external events, and a policy that uses their hours. */
async function arrange(zone: string, start: number): Promise<Floor> {
  const weekly = fc.array(window, { minLength: 4, maxLength: 9 });
  const drawn = fc.record({
    policy,
    members: fc.array(
      fc.record({
        timezone: fc.constantFrom(zone, zone, ...zones),
        weekly,
        off: fc.option(fc.nat(13)),
        events: fc.array(hours, { maxLength: 6 }),
      }),
      { minLength: people, maxLength: people },
    ),
  });
  const [floor] = fc.sample(drawn, { seed, numRuns: 1 });
  if (!floor) throw new Error('nothing was drawn');
  const made = await newPolicy(tenant, { ...floor.policy, timezone: zone, working_hours: null, horizon_days: 365 });
  const members = await Promise.all(
    floor.members.map(async (member) => {
      const { id } = await newUser(tenant);
      const { timezone, off, events } = member;
      const date = off === null ? null : new Date(start + off * day).toISOString().slice(0, 10);
      const days_off = date === null ? [] : [{ from: date, to: date, reason: 'holiday' }];
      const body = { timezone, weekly: member.weekly, days_off };
      await expectStatus(200, 'PATCH', `/v1/users/${id}/working-hours`, { key: tenant.key, body });
      // Merged and ordered, like the job stores them.
      const busy = unite(buildEvents(start, events)).flatMap((event) => [event.start, event.end]);
      await database()`
        insert into user_calendars (company_id, user_id, provider, checked_at, busy, looked_until, due_at, created_at, updated_at)
        values (${tenant.companyId}, ${id}, 'test', now(), ${database().json(busy)}, now() + interval '1 year',
          now() + interval '1 year', now(), now())`;
      return { ...member, id };
    }),
  );
  return { policy: made, members };
}

const post = (path: string, body: object): Promise<Answer> =>
  call('POST', path, { key: tenant.key, body, idempotencyKey: true });
const postBooking = (floor: Floor, from: number, to: number, ids = floor.members.map(({ id }) => id)) =>
  post('/v1/bookings', {
    member_ids: ids,
    policy_id: floor.policy.id,
    attendee,
    meeting,
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
  });

/** Bookings, holds and cancellations, eight at a time. */
async function live(floor: Floor, start: number): Promise<void> {
  const steps = fc.sample(action, { seed, numRuns: actions });
  const pool = await expectStatus(201, 'POST', '/v1/scheduling/pools', {
    key: tenant.key,
    body: { name: crypto.randomUUID(), member_ids: floor.members.map(({ id }) => id), policy_id: floor.policy.id },
  });
  const done: string[] = [];
  const act = async (step: (typeof steps)[number]): Promise<Answer | undefined> => {
    const from = start + step.at * 60 * minute;
    if (step.do === 'book') {
      const booked = await postBooking(floor, from, from + day);
      if (booked.status === 201) done.push(booked.body.data.booking.id);
      return booked;
    }
    if (step.do === 'cancel') {
      const id = done[step.which % Math.max(1, done.length)];
      return id === undefined ? undefined : post(`/v1/bookings/${id}/cancel`, {});
    }
    const { body } = await post('/v1/scheduling/slots/search', {
      pool_id: pool.body.data.pool.id,
      from: new Date(from).toISOString(),
      limit: 5,
      exposure: 'merged',
    });
    const slot = body.data.slots[step.which % Math.max(1, body.data.slots.length)];
    return slot && post('/v1/scheduling/reservations', { slot_token: slot.slot_token });
  };
  for (let at = 0; at < steps.length; at += 8) {
    const answers = await Promise.all(steps.slice(at, at + 8).map(act));
    for (const answer of answers) expect([undefined, 200, 201, 409]).toContain(answer?.status);
  }
  expect(done.length).toBeGreaterThan(0);
}

/** Returns the people as stored in the database. */
async function membersNow(floor: Floor, start: number): Promise<Member[]> {
  const rows = await database()`
    select user_id, lower(during)::float8 as start, upper(during)::float8 as end, date_part('epoch', start_at) * 1000 as start_at,
      expires_at is not null as held
    from taken_times where company_id = ${tenant.companyId} and not test_mode`;
  return floor.members.map(({ id, timezone, weekly, off, events }) => {
    const own = rows.filter(({ user_id }) => user_id === id);
    const date = off === null ? null : new Date(start + off * day).toISOString().slice(0, 10);
    const busy: Busy[] = [
      ...own.map((row): Busy => ({ start: row.start, end: row.end, reason: row.held ? 'reservation' : 'booking' })),
      ...buildEvents(start, events).map((event): Busy => ({ ...event, reason: 'external_event' })),
    ];
    return {
      userId: id,
      hours: { timezone, weekly: weekly as Member['hours']['weekly'] },
      daysOff: date === null ? [] : [{ from: date, to: date, reason: 'holiday' }],
      daysOffTimezone: timezone,
      busy,
      bookedStarts: own.map((row) => row.start_at),
    };
  });
}

function toRules({ policy: made }: Floor, start: number): SlotRules {
  return {
    durationMinutes: made.duration_minutes,
    intervalMinutes: made.slot_interval_minutes,
    bufferBeforeMinutes: made.buffer_before_minutes,
    bufferAfterMinutes: made.buffer_after_minutes,
    maxPerDay: made.max_bookings_per_day,
    timezone: made.timezone,
    within: { start, end: start + 14 * day },
  };
}

describe(`a fortnight around a clock change, with FORTNIGHT_SEED=${seed}`, () => {
  test.each(zones)('offers in %s exactly the slots of the reference, and books every one of them', async (zone) => {
    const start = Math.floor(nextChange(zone) / (60 * minute)) * 60 * minute - 7 * day;
    const floor = await arrange(zone, start);
    await live(floor, start);
    const query = {
      member_ids: floor.members.map(({ id }) => id).join(','),
      policy_id: floor.policy.id,
      from: new Date(start).toISOString(),
      to: new Date(start + 14 * day).toISOString(),
    };
    const { data } = (await expectStatus(200, 'GET', '/v1/scheduling/slots', { key: tenant.key, query })).body;
    const offered = data.slots.map(({ start_at, end_at, user_ids }: Json) => ({
      start: Date.parse(start_at),
      end: Date.parse(end_at),
      userIds: user_ids,
    }));
    const expected = findReferenceSlots(await membersNow(floor, start), toRules(floor, start));
    expect(offered).toEqual(data.truncated ? expected.slice(0, 500) : expected);
    expect(offered.length).toBeGreaterThan(0);

    // One per day, so that they do not conflict with each other.
    const byDay = [...new Map(offered.map((slot: Json) => [Math.floor((slot.start - start) / day), slot])).values()];
    const chosen = byDay.filter((_, index) => index % 2 === 0) as (typeof expected)[number][];
    const won = await Promise.all(
      chosen.map(async (slot) => {
        const ids = slot.userIds.slice(0, 1);
        const tries = Array.from({ length: racers }, () => postBooking(floor, slot.start, slot.end, ids));
        return (await Promise.all(tries)).map(({ status }) => status).toSorted();
      }),
    );
    expect(won).toEqual(chosen.map(() => [201, ...Array(racers - 1).fill(409)]));
  });
});
