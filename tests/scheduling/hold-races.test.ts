// Concurrent release, extension and booking of one hold, without deadlocks.
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type Answer, call, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { attendee, hold, meeting, newPool, search } from '../support/scheduling.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

const rounds = Number(process.env.RACE_ROUNDS ?? 24);
/** Calls of each kind in one round. */
const ofEach = 3;

let url: string;
let server: TestServer | undefined;
let tenant: Tenant;

beforeAll(async () => {
  // PostgreSQL counts deadlocks per database, so no other test may use this one.
  url = await newDatabase();
  const settings = { ...testSettings, DATA_DIR: '.test-data', SECRET_KEY: inject('secretKey') };
  server = await startServer({ ...settings, DATABASE_URL: url });
  await useDatabase(url);
  useServer(server.url);
  tenant = await newTenant();
});
afterAll(async () => {
  await server?.stop();
  useServer(undefined);
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

const succeeded = ({ status }: Answer): boolean => status < 300;

/** Returns the deadlocks that PostgreSQL counted. A connection reports its own when it ends. */
async function countDeadlocks(): Promise<number> {
  const sql = database();
  await vi.waitFor(async () => {
    const [left] = await sql`
      select count(*)::int as connections from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and usename <> current_user`;
    expect(left).toEqual({ connections: 0 });
  });
  const [row] = await sql<[{ deadlocks: number }]>`
    select deadlocks::int as deadlocks from pg_stat_database where datname = current_database()`;
  return row.deadlocks;
}

describe('a hold', () => {
  test('creates a hold during the release of another, or reports a reservation', async () => {
    const pool = await newPool(tenant, { members: 1, policy: { duration_minutes: 5, slot_interval_minutes: 5 } });
    const { slots } = await search(tenant.key, pool, { limit: rounds });
    const outcomes = new Set<string>();
    for (const { slot_token } of slots) {
      const { id } = await hold(tenant.key, { slot_token });
      const held = Array.from({ length: 4 * ofEach }, () =>
        call('POST', '/v1/scheduling/reservations', { key: tenant.key, body: { slot_token }, idempotencyKey: true }),
      );
      await call('DELETE', `/v1/scheduling/reservations/${id}`, { key: tenant.key });
      for (const { status, body } of await Promise.all(held)) outcomes.add(`${status} ${body.error?.details.reason}`);
    }
    // Nothing is booked at this time, so nothing else can be in the way.
    outcomes.delete('201 undefined');
    expect([...outcomes]).toEqual(['409 slot_reserved']);
  });

  test('releases or books a hold once under concurrent calls, without a deadlock', async () => {
    const pool = await newPool(tenant, { members: 1, policy: { duration_minutes: 5, slot_interval_minutes: 5 } });
    const { slots } = await search(tenant.key, pool, { limit: rounds });
    expect(slots).toHaveLength(rounds);
    const statuses = new Set<number>();
    for (const slot of slots) {
      const { id } = await hold(tenant.key, slot);
      const path = `/v1/scheduling/reservations/${id}`;
      const body = { slot_token: slot.slot_token, reservation_id: id, attendee, meeting };
      const several = (send: () => Promise<Answer>) => Promise.all(Array.from({ length: ofEach }, send));
      const [extended, released, booked] = await Promise.all([
        several(() => call('POST', `${path}/extend`, { key: tenant.key })),
        several(() => call('DELETE', path, { key: tenant.key })),
        several(() => call('POST', '/v1/bookings', { key: tenant.key, body, idempotencyKey: true })),
      ]);
      for (const { status } of [...extended, ...released, ...booked]) statuses.add(status);
      expect([...released, ...booked].filter(succeeded)).toHaveLength(1);
      const [left] = await database()<Json[]>`
        select count(*)::int as times, (select status from slot_reservations where id = ${id}) as status
        from taken_times where user_id = any(${pool.member_ids}::uuid[]) and start_at = ${slot.start_at}`;
      expect([
        { times: 0, status: 'released' },
        { times: 1, status: 'consumed' },
      ]).toContainEqual(left);
    }
    expect([...statuses].filter((status) => ![200, 201, 404, 409].includes(status))).toEqual([]);
    await server?.stop();
    expect(await countDeadlocks()).toBe(0);
  });
});
