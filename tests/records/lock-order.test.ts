// Concurrent calls on the same records lock them in one order and never deadlock.
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type Answer, call, type Json, useServer } from '../support/client.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { createRecords, lead, recordsPath } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

const clients = 6;
const rounds = 25;

let server: TestServer;
let tenant: Tenant;

// The test counts the deadlocks of the database, so it needs a database of its own.
beforeAll(async () => {
  const databaseUrl = await newDatabase();
  server = await startServer({
    ...testSettings,
    DATABASE_URL: databaseUrl,
    SECRET_KEY: inject('secretKey'),
    DATA_DIR: '.test-data',
  });
  useServer(server.url);
  await useDatabase(databaseUrl);
  tenant = await newTenant();
});
afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  await useDatabase(undefined);
  await dropAllDatabases();
});

function shuffle<Item>(items: readonly Item[]): Item[] {
  const keyed = items.map((item) => ({ item, key: Math.random() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item);
}

const five = <Item>(make: () => Item): Item[] => Array.from({ length: 5 }, make);
const shuffleIds = (records: readonly Json[]): string[] => shuffle(records).map(({ id }) => id);

/** A call on some records. `turn` differs from call to call. */
type Send = (turn: string) => Promise<Answer>;

const batch = (object: string, how: string, body: object): Promise<Answer> =>
  call('POST', `${recordsPath(object)}:${how}`, { key: tenant.key, body, idempotencyKey: true });
const update = (object: string, records: readonly Json[], change: (turn: string, index: number) => object): Send => {
  return (turn) =>
    batch(
      object,
      'batch-update',
      shuffleIds(records).map((id, index) => ({ id, ...change(turn, index) })),
    );
};
const remove = (object: string, records: readonly Json[]): Send => {
  return () => batch(object, 'batch-delete', { ids: shuffleIds(records) });
};

/** Returns the number of deadlocks that the database has resolved. */
async function countDeadlocks(): Promise<number> {
  const reported = () => database()<{ deadlocks: number }[]>`
    select deadlocks::int as deadlocks from pg_stat_database where datname = current_database()`;
  // Connections report with a delay, and immediately when they end.
  await database()`select pg_terminate_backend(pid) from pg_stat_activity where usename <> current_user and datname = current_database()`;
  return (await reported())[0]?.deadlocks ?? Number.NaN;
}

/** Sends one call per client concurrently, in many rounds. */
async function race(prepare: () => Promise<readonly Send[]>): Promise<void> {
  const failed: string[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const sends = await prepare();
    const answers = await Promise.all(
      Array.from({ length: clients }, (_, client) => (sends[client % sends.length] as Send)(`${client} in ${round}`)),
    );
    // A busy machine may answer 503. So does a deadlock, which the last test looks for.
    for (const { status, text } of answers) if (status !== 200 && status !== 503) failed.push(`${status} ${text}`);
  }
  expect(failed).toEqual([]);
}

const make = (object: string, body: () => object): Promise<Json[]> => createRecords(tenant.key, object, five(body));
const deal = () => ({ name: 'Deal' });
const customer = () => ({ first_name: 'Ann' });
const account = () => ({ name: 'Blue Lake' });
const task = () => ({ title: 'Call', scheduled_at: '2036-01-01' });
const city = (turn: string) => ({ city: turn });
const description = (turn: string) => ({ description: turn });

test.each([
  ['leads', lead, city],
  ['deals', deal, description],
  ['customers', customer, city],
  ['accounts', account, city],
  ['tasks', task, description],
] as const)('batches of changes of the same five %s', async (object, body, change) => {
  const records = await make(object, body);
  await race(async () => [update(object, records, change)]);
});

test('runs batches of activities concurrently with batches of their leads and deals', async () => {
  const [leads, deals] = [await make('leads', lead), await make('deals', deal)];
  const entities = [...leads.map(({ id }) => ['lead', id]), ...deals.map(({ id }) => ['deal', id])];
  const logged = (turn: string) =>
    shuffle(entities).map(([entity_type, entity_id]) => ({
      activity_type: 'Call',
      entity_type,
      entity_id,
      summary: turn,
    }));
  const activities = await createRecords(tenant.key, 'activities', logged('first'));
  const followup = () => new Date(Date.now() + 86_400_000 + Math.random() * 1e9).toISOString();
  await race(async () => [
    (turn) => batch('activities', 'batch', logged(turn)),
    update('activities', activities, (_, index) => ({ followup_at: index % 2 ? null : followup() })),
    update('leads', leads, city),
    update('deals', deals, description),
  ]);
});

test('changes references concurrently with the deletion of the records that they name', async () => {
  const [leads, deals] = [await make('leads', lead), await make('deals', deal)];
  await race(async () => {
    const [customers, accounts] = [await make('customers', customer), await make('accounts', account)];
    const [to, of] = [shuffleIds(customers), shuffleIds(accounts)];
    return [
      update('deals', deals, (_, index) => ({
        customer_id: to[index],
        account_id: of[index],
        lead_id: leads[index].id,
      })),
      remove('customers', customers),
      update('deals', deals, (_, index) => ({ customer_id: to.at(-index), account_id: of.at(-index) })),
      update('customers', customers, (_, index) => ({ account_id: of[index] })),
      remove('accounts', accounts),
      update('deals', deals, description),
    ];
  });
});

test('changes tasks and activities concurrently with the deletion of their leads', async () => {
  await race(async () => {
    const leads = await make('leads', lead);
    const of = (index: number) => leads[index % leads.length].id;
    const logged = (_: unknown, index: number) => ({
      activity_type: 'Call',
      entity_type: 'lead',
      entity_id: of(index),
      summary: 'Spoke',
    });
    const activities = await createRecords(tenant.key, 'activities', shuffle(leads).map(logged));
    const tasks = await createRecords(
      tenant.key,
      'tasks',
      shuffle([...leads, ...activities]).map((_, index) => ({
        ...task(),
        object: index % 2 ? 'leads' : 'activities',
        record_id: index % 2 ? of(index) : activities[index % 5].id,
      })),
    );
    return [
      update('tasks', tasks, description),
      remove('leads', leads),
      update('activities', activities, (turn) => ({ summary: turn })),
      update('tasks', tasks, (_, index) => ({ object: 'leads', record_id: of(index) })),
      remove('tasks', tasks),
      remove('activities', activities),
    ];
  });
});

// Runs last, because it ends the connections of the server.
test('resolved no deadlock in any of these tests', async () => {
  expect(await countDeadlocks()).toBe(0);
});
