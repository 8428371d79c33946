// The job that continues workforce runs, under a fake clock.
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cancelRun } from '../../db/automation/workforce-runs.ts';
import { Pool } from '../../db/client/pool.ts';
import { type Deed, runWorkforces, type WorkforceServices } from '../../jobs/automation/workforces.ts';
import type { TenantJobContext } from '../../jobs/runner.ts';
import type { Json } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { arrangeRun } from '../support/workforces.ts';

const minute = 60_000;
const hour = 60 * minute;
const note = { kind: 'add_note', content: 'Hello {{first_name}}' };

let url: string;
let tenant: Tenant;
const pools: Pool[] = [];

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  tenant = await newTenant();
});
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.close(1)));
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

const added = () => ({ status: 201, body: { data: { note: { id: uuidv7() } } } });

/** Returns a server with its own connections. */
function newServer(act: WorkforceServices['act'], now = () => new Date()): [TenantJobContext, WorkforceServices] {
  const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 5000 };
  const platform = new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
  const tenants = new Pool({ ...shared, role: 'crm_app', name: 'workforces', lanes: 2 });
  pools.push(platform, tenants);
  return [buildJobContext('workforces', { platform, tenants }, { now }), { act, isOpen: async () => true }];
}

const readRun = async (id: string): Promise<Json> =>
  (await database()`select * from workforce_runs where id = ${id}`)[0];
const readSteps = (id: string) => database()`select * from workforce_run_steps where run_id = ${id} order by position`;

test('performs each step once on two concurrent servers', async () => {
  const made = await Promise.all(Array.from({ length: 25 }, () => arrangeRun(tenant, [note, note])));
  const deeds: Deed[] = [];
  const act = async (deed: Deed) => {
    deeds.push(deed);
    await sleep(5);
    return added();
  };
  await Promise.all([newServer(act), newServer(act)].map((server) => runWorkforces(...server)));
  expect(deeds.map(({ idempotencyKey }) => idempotencyKey).sort()).toEqual(
    made.flatMap(({ runId, leadId }) => [0, 1].map((step) => `workforce:${runId}:${step}:${leadId}`)).sort(),
  );
  for (const { runId } of made) expect(await readRun(runId)).toMatchObject({ status: 'completed', position: 2 });
});

test('ignores the late result of a server whose lease expired', async () => {
  const { runId } = await arrangeRun(tenant, [note, { kind: 'wait', minutes: 60 }]);
  const later = newServer(
    async () => added(),
    () => new Date(Date.now() + 2 * minute),
  );
  const slow = newServer(async () => {
    await runWorkforces(...later);
    return { status: 404, body: { error: { code: 'NOT_FOUND', message: 'Too late' } } };
  });
  await runWorkforces(...slow);
  expect(await readRun(runId)).toMatchObject({ status: 'waiting', position: 2, error_code: null });
  expect(await readSteps(runId)).toMatchObject([{ status: 'done' }, { status: 'done' }]);
});

test('records a step whose run was cancelled during its call, and performs no further step', async () => {
  const { workforceId, runId } = await arrangeRun(tenant, [note, note]);
  const deeds: Deed[] = [];
  const server = newServer(async (deed) => {
    deeds.push(deed);
    const now = new Date();
    await database().begin((sql) => cancelRun(sql as never, { ...tenant, testMode: false }, workforceId, runId, now));
    await runWorkforces(...server);
    return added();
  });
  await runWorkforces(...server);
  expect(deeds).toHaveLength(1);
  expect(await readRun(runId)).toMatchObject({ status: 'cancelled', position: 1, due_at: null, call: null });
  expect(await readSteps(runId)).toMatchObject([{ position: 0, status: 'done', made_object: 'notes' }]);
});

test('retries a failing step with growing pauses and the same call, and abandons it after half a day', async () => {
  const { runId, leadId } = await arrangeRun(tenant, [note]);
  const began = Date.now();
  let now = began;
  const deeds: Deed[] = [];
  const server = newServer(
    async (deed) => {
      deeds.push(deed);
      // Later changes of the record do not affect a call that was already prepared.
      await database()`update leads set first_name = 'Salma' where id = ${leadId}`;
      return deeds.length % 2 === 0
        ? { status: 503, body: { error: { code: 'SERVICE_UNAVAILABLE', message: 'Later' } } }
        : { status: 409, body: { error: { code: 'IDEMPOTENCY_IN_PROGRESS', message: 'Later' } } };
    },
    () => new Date(now),
  );
  const waits: number[] = [];
  for (;;) {
    await runWorkforces(...server);
    const { due_at: next } = await readRun(runId);
    if (!next) break;
    waits.push(next.getTime() - now);
    now = next.getTime();
  }
  expect(now - began).toBeGreaterThan(12 * hour);
  expect(waits[0]).toBe(5000);
  expect(waits).toEqual([...waits].sort((a, b) => a - b));
  expect(waits.at(-1)).toBe(10 * minute);
  for (const deed of deeds) expect(deed).toEqual(deeds[0]);
  expect(deeds[0]?.body).toEqual({ content: 'Hello Sara' });
  expect(await readRun(runId)).toMatchObject({ status: 'failed', error_code: 'SERVICE_UNAVAILABLE' });
});

test('cancels the run if its record is deleted during a call, and fails it on other rejections', async () => {
  const [gone, there] = [await arrangeRun(tenant, [note]), await arrangeRun(tenant, [note])];
  const server = newServer(async () => {
    await database()`delete from leads where id = ${gone.leadId}`;
    return { status: 404, body: { error: { code: 'NOT_FOUND', message: 'There is no such resource.' } } };
  });
  await runWorkforces(...server);
  expect(await readRun(gone.runId)).toMatchObject({ status: 'cancelled', error_code: null });
  expect(await readRun(there.runId)).toMatchObject({ status: 'failed', error_code: 'NOT_FOUND' });
});

test('performs a step for the record that stays if a merge moves the run during the call', async () => {
  const [merged, stays] = [await arrangeRun(tenant, [note]), await arrangeRun(tenant, [])];
  const deeds: Deed[] = [];
  const server = newServer(async (deed) => {
    deeds.push(deed);
    if (deed.path.id !== merged.leadId) return added();
    await database()`update workforce_runs set record_id = ${stays.leadId} where id = ${merged.runId}`;
    return { status: 404, body: { error: { code: 'NOT_FOUND', message: 'There is no such resource.' } } };
  });
  await runWorkforces(...server);
  expect(deeds.map(({ path, idempotencyKey }) => [path.id, idempotencyKey])).toEqual(
    [merged.leadId, stays.leadId].map((id) => [id, `workforce:${merged.runId}:0:${id}`]),
  );
  expect(await readRun(merged.runId)).toMatchObject({ status: 'completed', error_code: null });
});

test('fails a run whose condition no longer fits the fields', async () => {
  const { runId } = await arrangeRun(tenant, [{ kind: 'stop_when', condition: { field: 'gone', op: 'eq', value: 1 } }]);
  await runWorkforces(...newServer(async () => added()));
  expect(await readRun(runId)).toMatchObject({ status: 'failed', error_code: 'VALIDATION_ERROR' });
});

test('performs a step with exactly the scopes that it needs', async () => {
  await arrangeRun(tenant, [
    note,
    { kind: 'create_task', title: 'Call' },
    { kind: 'set_field', field: 'origin', value: 'x' },
  ]);
  const scopes: (readonly string[])[] = [];
  const server = newServer(async (deed) => {
    scopes.push(deed.scopes);
    return added();
  });
  await runWorkforces(...server);
  expect(scopes).toEqual([
    ['leads:view', 'leads:edit'],
    ['leads:view', 'tasks:create'],
    ['leads:view', 'leads:edit'],
  ]);
});
