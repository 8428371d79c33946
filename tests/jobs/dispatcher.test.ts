// The dispatcher: feed positions, what commits with them, and work shared by servers.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Pool, type Sql } from '../../db/client/pool.ts';
import type { FeedEvent } from '../../db/records/feed.ts';
import { createDispatcher, type Note } from '../../jobs/records/dispatcher.ts';
import type { RunningJobs } from '../../jobs/runner.ts';
import { newDatabase } from '../support/databases.ts';
import { startNamedJobs } from '../support/job-runs.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

const pools: Record<'platform' | 'tenants', Pool>[] = [];
const dispatchers: RunningJobs[] = [];
/** The announced positions, in their order. */
const announced: [string, boolean, number][] = [];
let url: string;
/** Work that the dispatcher records in the transaction of the positions. Tests replace it. */
let note: Note = async () => false;

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
});
afterAll(async () => {
  await Promise.all(dispatchers.map((jobs) => jobs.stop()));
  await Promise.all(pools.flatMap(({ platform, tenants }) => [platform.close(1), tenants.close(1)]));
  await useDatabase(undefined);
});

function start(): RunningJobs {
  const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
  const opened = {
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: 2 }),
  };
  pools.push(opened);
  const service = createDispatcher({
    note: (...given) => note(...given),
    announce: ({ companyId, testMode }, last) => void announced.push([companyId, testMode, last]),
  });
  const jobs = startNamedJobs(['dispatcher'], opened, { dispatcher: service });
  dispatchers.push(jobs);
  return jobs;
}

/** Adds events of a tenant to the outbox, as its writes do. */
async function addEvents({ companyId }: Tenant, count: number, testMode = false): Promise<void> {
  await database()`
    insert into outbox_events (company_id, id, test_mode, event, occurred_at, actor, data)
    select ${companyId}, gen_random_uuid(), ${testMode}, 'record.created', now(), '{}',
      jsonb_build_object('object', 'leads', 'record_id', gen_random_uuid(), 'n', n)
    from generate_series(1, ${count}::int) n`;
}

async function readPositions({ companyId }: Tenant, testMode = false): Promise<[number, number][]> {
  const rows = await database()`
    select position::int, (data ->> 'n')::int as n from feed_events
    where company_id = ${companyId} and test_mode = ${testMode} order by position`;
  return rows.map(({ position, n }) => [position, n]);
}

const waiting = async (): Promise<number> => (await database()`select from outbox_events`).length;
const numbered = (count: number): [number, number][] =>
  Array.from({ length: count }, (_, index) => [index + 1, index + 1]);

test('assigns positions by company and mode without gaps, and announces the last one', async () => {
  start();
  const [one, other] = [await newTenant(), await newTenant()];
  await Promise.all([addEvents(one, 3), addEvents(other, 2), addEvents(one, 2, true)]);
  await expect.poll(waiting).toBe(0);
  expect(await readPositions(one)).toEqual(numbered(3));
  expect(await readPositions(one, true)).toEqual(numbered(2));
  expect(await readPositions(other)).toEqual(numbered(2));
  await addEvents(one, 1);
  await expect.poll(() => readPositions(one)).toEqual([...numbered(3), [4, 1]]);
  await expect.poll(() => announced.at(-1)).toEqual([one.companyId, false, 4]);
});

test('dispatches more than a batch across servers in one order', async () => {
  start();
  start();
  const tenant = await newTenant();
  await addEvents(tenant, 2600);
  await expect.poll(waiting).toBe(0);
  expect(await readPositions(tenant)).toEqual(numbered(2600));
});

test('dispatches full batches, even if the statement was planned for an empty outbox', async () => {
  const tenant = await newTenant();
  announced.length = 0;
  await addEvents(tenant, 20_000);
  await expect.poll(waiting).toBe(0);
  expect(await readPositions(tenant)).toEqual(numbered(20_000));
  const ends = announced.filter(([companyId]) => companyId === tenant.companyId).map(([, , last]) => last);
  // A dispatcher that took a later batch may announce it earlier.
  expect(ends.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, index) => 500 * (index + 1)));
});

test('dispatches events of other tenants while a large backlog waits for a locked feed', async () => {
  const tenants = [await newTenant(), await newTenant(), await newTenant()];
  const [first, many, last] = tenants.sort((a, b) => (a.companyId < b.companyId ? -1 : 1)) as [Tenant, Tenant, Tenant];
  const { promise: isDone, resolve: done } = Promise.withResolvers<void>();
  const { promise: isHeld, resolve: held } = Promise.withResolvers<void>();
  await addEvents(many, 1);
  await expect.poll(() => readPositions(many)).toEqual(numbered(1));
  const holding = database().begin(async (sql) => {
    await sql`select from feeds where company_id = ${many.companyId} for update`;
    held();
    await isDone;
  });
  await isHeld;
  await addEvents(many, 2500);
  await Promise.all([addEvents(first, 2), addEvents(last, 2)]);
  await expect.poll(() => readPositions(first)).toEqual(numbered(2));
  await expect.poll(() => readPositions(last)).toEqual(numbered(2));
  expect(await readPositions(many)).toEqual(numbered(1));
  done();
  await holding;
  await expect.poll(waiting).toBe(0);
  expect((await readPositions(many)).length).toBe(2501);
});

test('commits the work that follows events together with their positions, and isolates failing companies', async () => {
  const [good, bad] = [await newTenant(), await newTenant()];
  const got = new Map<string, readonly FeedEvent[]>();
  let isBroken = true;
  note = async (sql: Sql, { companyId }, events) => {
    await sql`update companies set name = ${`event ${events.length}`} where id = ${companyId}`;
    if (companyId === bad.companyId && isBroken) throw new Error('out of order');
    got.set(companyId, events);
    return true;
  };
  await addEvents(bad, 2);
  await addEvents(good, 3);
  const readName = async ({ companyId }: Tenant) =>
    (await database()`select name from companies where id = ${companyId}`)[0]?.name;
  await expect.poll(() => readPositions(good)).toEqual(numbered(3));
  expect(await readName(good)).toBe('event 3');
  expect(
    got.get(good.companyId)?.map(({ position, event, object, data }) => [position, event, object, data.n]),
  ).toEqual([1, 2, 3].map((n) => [n, 'record.created', 'leads', n]));
  expect({ positions: await readPositions(bad), name: await readName(bad) }).toEqual({ positions: [], name: 'Tenant' });
  isBroken = false;
  await expect.poll(() => readPositions(bad)).toEqual(numbered(2));
  expect(await readName(bad)).toBe('event 2');
});

test('takes smaller batches if a transaction fails, until all events are dispatched', async () => {
  const tenant = await newTenant();
  const sizes: number[] = [];
  note = async (_, { companyId }, events) => {
    if (companyId === tenant.companyId) sizes.push(events.length);
    if (events.length > 200) throw new Error('too much');
    return true;
  };
  await addEvents(tenant, 1000);
  await expect.poll(waiting).toBe(0);
  expect(await readPositions(tenant)).toEqual(numbered(1000));
  expect(sizes[0]).toBe(500);
  note = async () => false;
});

test('takes nothing after it is stopped, and the next dispatcher takes what waits', async () => {
  await Promise.all(dispatchers.splice(0).map((dispatcher) => dispatcher.stop()));
  const tenant = await newTenant();
  await addEvents(tenant, 2);
  expect(await waiting()).toBe(2);
  start();
  await expect.poll(() => readPositions(tenant)).toEqual(numbered(2));
});
