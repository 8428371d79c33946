// Merges of records with very many items: merged immediately, and moved by a job.
import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { runMerges } from '../../jobs/records/merges.ts';
import { emptyTrash } from '../../jobs/records/trash.ts';
import type { JobPools, TenantJobContext } from '../../jobs/runner.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { inboundSecret } from '../support/inbound.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { addManyItems, fillLead, prepareFilling, snapshotRecords } from '../support/merges.ts';
import { PausedJobs } from '../support/paused-jobs.ts';
import { addNote } from '../support/record-children.ts';
import { createRecord, createRecords, lead, patchRecord, readRecord, recordsPath } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';
import { enroll, newWorkforce, passWait, runThatIs } from '../support/workforces.ts';

let paused: PausedJobs;
let tenant: Tenant;
let key: string;
/** Servers that can run the job, which the server under test does not run. */
let servers: JobPools[];

beforeAll(async () => {
  paused = await PausedJobs.of('merges');
  tenant = await newWideTenant();
  key = tenant.key;
  await prepareFilling(tenant);
  const shared = { url: paused.url, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000 };
  servers = [1, 2].map(() => ({
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: 1 }),
  }));
});
afterAll(async () => {
  await Promise.all((servers ?? []).flatMap(({ platform, tenants }) => [platform.close(1), tenants.close(1)]));
  await paused?.close();
});

/** Returns a digest of the rows of each table, because a difference of thousands of rows says nothing. */
async function digestRecords(): Promise<Record<string, string>> {
  const tables = Object.entries(await snapshotRecords(tenant));
  const digest = (rows: readonly string[]) =>
    `${rows.length} ${createHash('sha256').update(rows.join()).digest('hex')}`;
  return Object.fromEntries(tables.map(([table, rows]) => [table, digest(rows)]));
}

const notes = 5200;
const deals = 1100;

const mergePath = (id: string) => `${recordsPath('leads', id)}/merge`;
const tryMerge = (source: string, target: string, more: Json = {}) =>
  call('POST', mergePath(source), { key, body: { into_id: target, ...more } });
const tryUndo = (id: string, body: Json = {}) => call('POST', `/v1/merges/${id}/undo`, { key, body });
const readMerge = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/merges/${id}`, { key })).body.data.merge;
const readReason = ({ status, body }: { status: number; body: Json }) => [status, body.error?.details?.reason];

/** Creates two leads, of which the first has everything that can hang on a lead, and very much of some. */
async function createPair(): Promise<{ source: string; target: string }> {
  const [source, target] = await createRecords(key, 'leads', [lead({ job_title: 'Buyer' }), lead()]);
  await fillLead(tenant, source.id);
  await addManyItems(tenant, source.id, { notes, deals });
  return { source: source.id, target: target.id };
}

async function mergeLarge({ source, target }: { source: string; target: string }): Promise<Json> {
  const { status, body } = await tryMerge(source, target);
  expect([status, body.error]).toEqual([202, undefined]);
  return body.data;
}

const buildContext = (): TenantJobContext => buildJobContext('merges', servers[0] as JobPools);

/** Moves one chunk. */
async function moveChunk(): Promise<void> {
  const controller = new AbortController();
  const context = buildJobContext('merges', servers[0] as JobPools, { signal: controller.signal });
  await runMerges({
    ...context,
    transaction: (scope, work) => context.transaction(scope, work).finally(() => controller.abort()),
  });
}

/** Runs the job on two servers until no merge of the tenant is running. */
async function moveAll(): Promise<void> {
  await vi.waitFor(
    async () => {
      await Promise.all(servers.map((pools) => runMerges(buildJobContext('merges', pools))));
      const rows = await database()`select from merges where company_id = ${tenant.companyId} and status = 'running'`;
      expect(rows).toHaveLength(0);
    },
    { timeout: 60_000, interval: 20 },
  );
}

async function countRows(table: 'notes' | 'deals', id: string): Promise<number> {
  const sql = database();
  const column = sql(table === 'notes' ? 'record_id' : 'lead_id');
  const [row] = await sql`
    select count(*)::int as count from ${sql(table)} where company_id = ${tenant.companyId} and ${column} = ${id}`;
  return row?.count;
}

const countBoth = async ({ source, target }: { source: string; target: string }) => ({
  notes: (await countRows('notes', source)) + (await countRows('notes', target)),
  deals: (await countRows('deals', source)) + (await countRows('deals', target)),
});

test('is merged immediately, moves every row once, and comes back byte for byte', async () => {
  const pair = await createPair();
  const before = await digestRecords();
  const cursor = await now(key);

  const tried = await tryMerge(pair.source, pair.target, { dry_run: true });
  expect([tried.status, tried.body.data.merge.id, tried.body.data.merge.status]).toEqual([202, null, 'running']);
  expect(tried.body.data.merge.remaining).toMatchObject({
    notes: notes + 1,
    references: deals + 1,
    tasks: 1,
    links: 1,
  });
  expect(await digestRecords()).toEqual(before);

  const { merge, record, links_left } = await mergeLarge(pair);
  expect(merge).toMatchObject({ status: 'running', undone_at: null, remaining: tried.body.data.merge.remaining });
  expect([record.job_title, links_left]).toEqual(['Buyer', 0]);
  const gone = await expectStatus(404, 'GET', recordsPath('leads', pair.source), { key });
  expect(gone.body.error.details).toEqual({ merged_into: pair.target });
  expect(await readRecord(key, 'leads', pair.target)).toMatchObject({ job_title: 'Buyer' });
  expect(await countBoth(pair)).toEqual({ notes: notes + 1, deals: deals + 1 });

  await moveChunk();
  const begun = await readMerge(merge.id);
  expect([begun.status, begun.moved.references, begun.remaining.references]).toEqual(['running', 500, deals - 499]);
  expect(await countRows('deals', pair.target)).toBe(500);
  expect(await countBoth(pair)).toEqual({ notes: notes + 1, deals: deals + 1 });
  await moveAll();
  const moved = { ...merge.remaining, tags: 0 };
  expect(await readMerge(merge.id)).toMatchObject({ status: 'completed', remaining: null, moved });
  expect([await countRows('notes', pair.target), await countRows('deals', pair.target)]).toEqual([
    notes + 1,
    deals + 1,
  ]);
  const left = Object.entries(await snapshotRecords(tenant)).filter(
    ([table, rows]) => table !== 'deleted_records' && rows.some((row) => row.includes(pair.source)),
  );
  // The clock that waits for the undo.
  expect(left.map(([table]) => table)).toEqual(['sla_clocks']);

  const undone = await tryUndo(merge.id);
  expect([undone.status, undone.body.data.merge.status, undone.body.data.conflicts]).toEqual([202, 'running', []]);
  expect(undone.body.data.target.job_title).toBe(null);
  expect(await readRecord(key, 'leads', pair.source)).toMatchObject({ job_title: 'Buyer' });
  expect(readReason(await tryUndo(merge.id))).toEqual([409, 'not_merged']);
  await moveChunk();
  expect(await countBoth(pair)).toEqual({ notes: notes + 1, deals: deals + 1 });
  await moveAll();
  expect(await readMerge(merge.id)).toMatchObject({
    status: 'completed',
    remaining: null,
    undone_at: expect.any(String),
  });
  expect(await digestRecords()).toEqual(before);

  const changes = await changesAfter(key, cursor);
  const counts = new Map<string, number>();
  for (const { event, object, changed_fields } of changes) {
    const name = `${event} ${object} ${changed_fields ?? ''}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  expect(Object.fromEntries(counts)).toMatchObject({
    'record.merged leads ': 1,
    'record.unmerged leads ': 1,
    'record.updated deals lead_id': 2 * (deals + 1),
    'record.updated tasks record_id': 2,
    'record.updated activities entity_id': 2,
  });
  const [audit] = await database()`
    select count(*)::int as rows, count(distinct record_id)::int as records, count(distinct request_id)::int as requests
    from audit_logs where company_id = ${tenant.companyId} and action = 'deal.update' and metadata ->> 'merge_id' = ${merge.id}`;
  expect(audit).toEqual({ rows: 2 * (deals + 1), records: deals + 1, requests: 2 });
});

test('twenty calls at the same time make one merge, whose records take part in nothing else until it is completed', async () => {
  const pair = await createPair();
  const { id: third } = await createRecord(key, 'leads', lead());
  const answers = await Promise.all(Array.from({ length: 20 }, () => tryMerge(pair.source, pair.target)));
  const [made, ...further] = answers.filter(({ status }) => status === 202);
  expect([further, answers.filter(({ status }) => status === 404).length]).toEqual([[], 19]);
  const { id } = made?.body.data.merge ?? {};
  const purge = `/v1/objects/leads/deleted-records/${pair.source}`;
  const rejected = async () => [
    readReason(await call('DELETE', recordsPath('leads', pair.target), { key })),
    readReason(await tryMerge(pair.target, third)),
    readReason(await tryMerge(third, pair.target)),
    readReason(await call('POST', `/v1/leads/${pair.target}/convert`, { key })),
    readReason(await tryUndo(id)),
  ];
  expect(await rejected()).toEqual(Array(5).fill([409, 'merge_running']));
  expect(readReason(await call('DELETE', purge, { key }))).toEqual([409, 'merge_running']);
  expect(readReason(await call('POST', `${purge}/restore`, { key }))).toEqual([409, 'merged']);
  const { id: fourth } = await createRecord(key, 'leads', lead());
  const batch = { key, idempotencyKey: true as const, body: { ids: [pair.target, fourth] } };
  const { body } = await expectStatus(200, 'POST', `${recordsPath('leads')}:batch-delete`, batch);
  expect(body.data.failed).toEqual([{ index: 0, code: 'CONFLICT', message: expect.stringContaining('merge') }]);
  expect(body.data.succeeded).toEqual([{ index: 1, id: fourth, deleted: true }]);
  await moveAll();
  expect((await tryUndo(id)).status).toBe(202);
  expect((await rejected()).slice(0, 4)).toEqual(Array(4).fill([409, 'merge_running']));
  expect(readReason(await call('DELETE', recordsPath('leads', pair.source), { key }))).toEqual([409, 'merge_running']);
  await moveAll();
  await expectStatus(200, 'POST', `/v1/leads/${pair.source}/convert`, { key });
  await expectStatus(200, 'DELETE', recordsPath('leads', pair.target), { key });
});

test('what others write meanwhile stays', async () => {
  const pair = await createPair();
  const { merge } = await mergeLarge(pair);
  const [deal] = await database()`
    select id from deals where company_id = ${tenant.companyId} and lead_id = ${pair.source} limit 1`;
  const [task] = await database()`
    select id from tasks where company_id = ${tenant.companyId} and record_id = ${pair.source} limit 1`;
  const { id: other } = await createRecord(key, 'leads', lead());
  await Promise.all([
    runMerges(buildContext()),
    patchRecord(key, 'leads', pair.target, { job_title: 'Owner' }),
    addNote(key, 'leads', pair.target, 'Meanwhile'),
    patchRecord(key, 'deals', deal?.id, { lead_id: other }),
    call('DELETE', recordsPath('tasks', task?.id), { key }),
  ]);
  await moveAll();
  expect(await readRecord(key, 'deals', deal?.id)).toMatchObject({ lead_id: other });
  expect(await readRecord(key, 'leads', pair.target)).toMatchObject({ job_title: 'Owner' });
  expect([await countRows('notes', pair.target), await countRows('deals', pair.target)]).toEqual([notes + 2, deals]);
  const undone = await tryUndo(merge.id);
  expect(undone.body.data.conflicts).toEqual([{ field: 'job_title', before: null, current: 'Owner' }]);
  await moveAll();
  expect([await countRows('notes', pair.target), await countRows('notes', pair.source)]).toEqual([1, notes + 1]);
  expect(await readRecord(key, 'deals', deal?.id)).toMatchObject({ lead_id: other });
});

test('the workforces of the target wait for replies that have not moved', async () => {
  const pair = await createPair();
  const steps = [
    { kind: 'wait', minutes: 1 },
    { kind: 'add_note', content: 'Never' },
  ];
  const workforce = await newWorkforce(key, { steps, stop_when_replied: true });
  const runId = await enroll(key, workforce, pair.source);
  await runThatIs(/waiting/, key, workforce, runId);
  await database()`
    insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at, created_at)
    values (${tenant.companyId}, false, ${randomUUID()}, 'leads', ${pair.source}, 'email', 'inbound', 'Yes', now() + interval '1 second', now())`;
  await mergeLarge(pair);
  await passWait(runId);
  const readRow = async () =>
    (await database()`select status, due_at > next_step_at as is_postponed from workforce_runs where id = ${runId}`)[0];
  await expect.poll(readRow).toEqual({ status: 'waiting', is_postponed: true });
  await moveAll();
  await passWait(runId);
  expect(await runThatIs(/stopped|completed/, key, workforce, runId)).toMatchObject({ status: 'stopped' });
});

test('a report about a message that has not moved belongs to the target', async () => {
  const pair = await createPair();
  const [message] = await database()`
    select id from messages where company_id = ${tenant.companyId} and record_id = ${pair.source}`;
  const report = async (): Promise<Json> => {
    const to = `${randomUUID()}@x.example`;
    const about = { to, engagement: 'open', message_id: message?.id };
    const body = { type: 'email_engagement', external_id: randomUUID(), ...about };
    const query = { company_id: tenant.companyId, environment: 'live' };
    const signedWith = await inboundSecret(tenant, 'live');
    return (await expectStatus(200, 'POST', '/v1/inbound/generic', { body, signedWith, query })).body.data;
  };
  expect(await report()).toMatchObject({ object: 'leads', record_id: pair.source });
  await mergeLarge(pair);
  expect(await report()).toMatchObject({ object: 'leads', record_id: pair.target });
  await moveAll();
});

test('changes of an activity that has not moved apply to the target', async () => {
  const pair = await createPair();
  await mergeLarge(pair);
  const [activity] = await database()`
    select id from activities where company_id = ${tenant.companyId} and entity_id = ${pair.source}`;
  const readTimes = async () => {
    const { last_contacted_at, next_followup_at } = await readRecord(key, 'leads', pair.target);
    return [last_contacted_at, next_followup_at];
  };
  const [contactedAt, later, earlier] = [
    '2026-11-20T09:00:00.000Z',
    '2040-01-01T09:00:00.000Z',
    '2039-01-01T09:00:00.000Z',
  ];
  await patchRecord(key, 'activities', activity?.id, { performed_at: contactedAt, followup_at: later });
  expect(await readTimes()).toEqual([contactedAt, later]);
  const { id: own } = await createRecord(key, 'activities', {
    ...{ entity_type: 'lead', entity_id: pair.target, activity_type: 'Note', summary: 'Noted' },
    ...{ performed_at: contactedAt, followup_at: earlier },
  });
  expect(await readTimes()).toEqual([contactedAt, earlier]);
  await expectStatus(200, 'DELETE', recordsPath('activities', own), { key });
  expect(await readTimes()).toEqual([contactedAt, later]);
  await expectStatus(200, 'DELETE', recordsPath('activities', activity?.id), { key });
  expect(await readTimes()).toEqual([contactedAt, null]);
  await moveAll();
});

test('a customer can be merged although very many leads were converted to it, one of which is locked', async () => {
  const { companyId } = tenant;
  const [source, target] = await createRecords(key, 'customers', [lead(), lead()]);
  const sql = database();
  await sql`
    insert into leads (company_id, test_mode, id, converted_customer_id, created_by_kind, created_by_id, created_at, updated_at)
    select ${companyId}, false, gen_random_uuid(), ${source.id}, 'system', 'tests', now(), now() from generate_series(1, 1100)`;
  const countLeads = async (id: string) =>
    (
      await sql`
        select count(*)::int as count from leads where company_id = ${companyId} and converted_customer_id = ${id}`
    )[0]?.count;
  const block = await sql.reserve();
  const whileLocked = async (send: () => Promise<{ status: number; body: Json }>): Promise<Json> => {
    await block`begin`;
    await block`
      select from leads where company_id = ${companyId} and converted_customer_id = any(${[source.id, target.id]})
      limit 1 for update`;
    const { status, body } = await send();
    await block`rollback`;
    expect([status, body.error]).toEqual([202, undefined]);
    return body.data.merge;
  };
  const path = `${recordsPath('customers', source.id)}/merge`;
  const { id } = await whileLocked(() => call('POST', path, { key, body: { into_id: target.id } }));
  await moveAll();
  expect(await readMerge(id)).toMatchObject({ status: 'completed', moved: { references: 1100 } });
  expect(await countLeads(target.id)).toBe(1100);
  await whileLocked(() => tryUndo(id));
  block.release();
  await moveAll();
  expect([await countLeads(source.id), await countLeads(target.id)]).toEqual([1100, 0]);
});

test('leaves links with the source that the target has, and they come back', async () => {
  const pair = await createPair();
  const [link] = await database()`
    select from_id from links where company_id = ${tenant.companyId} and to_id = ${pair.source}`;
  await expectStatus(201, 'POST', `${recordsPath('accounts', link?.from_id)}/links`, {
    key,
    body: { link_type: 'related', record_id: pair.target },
  });
  const before = await digestRecords();
  const { merge } = await mergeLarge(pair);
  await moveAll();
  expect((await readMerge(merge.id)).moved.links).toBe(0);
  expect((await tryUndo(merge.id)).status).toBe(202);
  await moveAll();
  expect(await digestRecords()).toEqual(before);
});

test('nothing is left of it once the source is removed from the trash', async () => {
  const pair = await createPair();
  const { merge } = await mergeLarge(pair);
  await moveAll();
  const countKept = async () =>
    (
      await database()`
        select count(*)::int as rows from deleted_items where company_id = ${tenant.companyId} and record_id in (${merge.id}, ${pair.source})`
    )[0]?.rows;
  expect(await countKept()).toBeGreaterThan(notes + deals);
  const purge = `/v1/objects/leads/deleted-records/${pair.source}`;
  await expectStatus(200, 'DELETE', purge, { key });
  // The rest is removed by the job that empties the trash.
  expect(await countKept()).toBeLessThan(notes + deals - 4000);
  expect(await countRows('notes', pair.target)).toBe(notes + 1);
});

test('counts as moved only what moved', async () => {
  const pair = await createPair();
  const { merge } = await mergeLarge(pair);
  const { companyId } = tenant;
  const sql = database();
  const block = await sql.reserve();
  await block`begin`;
  await block`
    update deals set lead_id = null
    where company_id = ${companyId} and id = (select id from deals where company_id = ${companyId} and lead_id = ${pair.source} limit 1)`;
  const controller = new AbortController();
  const context = buildJobContext('merges', servers[0] as JobPools, { signal: controller.signal });
  const running = runMerges({ ...context, batchSize: 2 * deals });
  await expect
    .poll(() => block`select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))`)
    .not.toHaveLength(0);
  controller.abort();
  await block`commit`;
  block.release();
  await running;
  expect(await readMerge(merge.id)).toMatchObject({ moved: { references: deals }, remaining: { references: 0 } });
  await moveAll();
  expect((await readMerge(merge.id)).moved.references).toBe(deals);
});

test('a merge does not delay those of other tenants until it is completed', async () => {
  await mergeLarge(await createPair());
  const other = await newTenant();
  const [source, target] = await createRecords(other.key, 'leads', [lead(), lead()]);
  await addManyItems(other, source.id, { notes, deals: 0 });
  const path = mergePath(source.id);
  const { id } = (await expectStatus(202, 'POST', path, { key: other.key, body: { into_id: target.id } })).body.data
    .merge;
  const controller = new AbortController();
  const context = buildJobContext('merges', servers[0] as JobPools, { signal: controller.signal });
  const turns: string[] = [];
  const chunks = 60;
  await runMerges({
    ...context,
    batchSize: 50,
    transaction: (scope, work) => {
      turns.push(scope.companyId);
      if (turns.length === chunks) controller.abort();
      return context.transaction(scope, work);
    },
  });
  expect(turns).toHaveLength(chunks);
  expect(new Set(turns)).toEqual(new Set([tenant.companyId, other.companyId]));
  await moveAll();
  await vi.waitFor(
    async () => {
      await runMerges(buildContext());
      const { body } = await expectStatus(200, 'GET', `/v1/merges/${id}`, { key: other.key });
      expect(body.data.merge.status).toBe('completed');
    },
    { timeout: 60_000, interval: 20 },
  );
});

test('the source stays in the trash until everything has moved', async () => {
  const pair = await createPair();
  await mergeLarge(pair);
  await moveChunk();
  const { companyId } = tenant;
  const sql = database();
  await sql`update deleted_records set purge_at = now() where company_id = ${companyId} and id = ${pair.source}`;
  const emptyAndFind = async () => {
    await emptyTrash(buildJobContext('trash', servers[0] as JobPools));
    return (await sql`select id from deleted_records where company_id = ${companyId} and id = ${pair.source}`).length;
  };
  expect(await emptyAndFind()).toBe(1);
  await moveAll();
  expect(await emptyAndFind()).toBe(0);
  expect([await countRows('notes', pair.target), await countRows('deals', pair.target)]).toEqual([
    notes + 1,
    deals + 1,
  ]);
});

describe('a chunk that fails', () => {
  test('is tried again, and changes nothing until then', async () => {
    const pair = await createPair();
    const { merge } = await mergeLarge(pair);
    const sql = database();
    const block = await sql.reserve();
    await block`begin`;
    await block`lock table links in access exclusive mode`;
    const context = buildContext();
    // The statement waits for the lock and is cancelled.
    const failing: TenantJobContext = {
      ...context,
      transaction: (scope, work) =>
        context.transaction(scope, async (statement, ...rest) => {
          await statement`set local lock_timeout = 50`;
          return work(statement, ...rest);
        }),
    };
    const [start] = await sql`select now() as at`;
    await runMerges(failing);
    await block`rollback`;
    block.release();
    const [row] = await sql`
      select attempts, due_at >= ${start?.at}::timestamptz + interval '1 second' as is_later from merges where company_id = ${tenant.companyId} and id = ${merge.id}`;
    expect(row).toEqual({ attempts: 1, is_later: true });
    expect(await countBoth(pair)).toEqual({ notes: notes + 1, deals: deals + 1 });
    await moveAll();
    expect((await readMerge(merge.id)).status).toBe('completed');
  });
});

test('a revert undoes a large merge, and a job moves the rows back', async () => {
  const pair = await createPair();
  const answer = await tryMerge(pair.source, pair.target);
  await moveAll();
  const request = answer.headers.get('x-request-id');
  const made = await expectStatus(201, 'POST', '/v1/reverts', { key, body: { request_id: request } });
  const { id } = made.body.data.revert;
  const untilStatus = (status: string): Promise<Json> =>
    vi.waitUntil(
      async () => {
        const { revert } = (await expectStatus(200, 'GET', `/v1/reverts/${id}`, { key })).body.data;
        return revert.status === status && revert;
      },
      { timeout: 60_000, interval: 50 },
    );
  const { digest } = await untilStatus('planned');
  await expectStatus(202, 'POST', `/v1/reverts/${id}/apply`, { key, body: { digest, conflicts: 'skip' } });
  expect((await untilStatus('completed')).counts).toMatchObject({ skipped: 0 });
  await moveAll();
  expect([await countRows('notes', pair.source), await countRows('deals', pair.source)]).toEqual([
    notes + 1,
    deals + 1,
  ]);
});

describe.each([
  ['of one object', { objects: ['leads'] }],
  ['of everything', {}],
])('a reset of test mode %s', (_, body) => {
  test('removes a merge that is running, and what hangs on both records', async () => {
    const { companyId, testKey } = tenant;
    const create = async (): Promise<string> => (await createRecord(testKey, 'leads', lead())).id;
    const [source, target] = [await create(), await create()];
    await createRecord(testKey, 'deals', { name: 'D', lead_id: source });
    await addManyItems(tenant, source, { notes, deals: 0 }, true);
    await expectStatus(202, 'POST', mergePath(source), { key: testKey, body: { into_id: target } });
    await moveChunk();
    await moveChunk();
    await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: testKey, body });
    await moveAll();
    const [left] = await database()`
      select (select count(*)::int from notes where company_id = ${companyId} and test_mode) as notes,
        (select count(*)::int from merges where company_id = ${companyId} and test_mode) as merges,
        (select count(*)::int from deleted_items where company_id = ${companyId} and test_mode) as items,
        (select count(*)::int from deals where company_id = ${companyId} and test_mode and lead_id is not null) as deals`;
    expect(left).toEqual({ notes: 0, merges: 0, items: 0, deals: 0 });
  });
});

test('moves rows of test mode at the time of its clock', async () => {
  const { testKey, companyId } = await newTenant();
  const ahead = 40 * 86_400;
  await expectStatus(200, 'POST', '/v1/test-mode/clock', { key: testKey, body: { advance_seconds: ahead } });
  const [source, target] = await createRecords(testKey, 'leads', [lead(), lead()]);
  const { id } = await createRecord(testKey, 'deals', { name: 'D', lead_id: source.id });
  await addManyItems({ companyId }, source.id, { notes, deals: 0 }, true);
  await expectStatus(202, 'POST', mergePath(source.id), { key: testKey, body: { into_id: target.id } });
  const before = await readRecord(testKey, 'deals', id);
  expect(before.lead_id).toBe(source.id);
  await moveChunk();
  const after = await readRecord(testKey, 'deals', id);
  expect(after.lead_id).toBe(target.id);
  // A later time than before is also what any change gets: it must be that of the clock.
  expect(new Date(after.updated_at).getTime()).toBeGreaterThan(new Date(before.updated_at).getTime() + 1);
  expect(new Date(after.updated_at).getTime()).toBeGreaterThan(Date.now() + (ahead - 60) * 1000);
});
