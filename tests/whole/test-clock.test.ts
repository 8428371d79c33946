// The clock of test mode never reaches live mode: neither its rows nor its answers.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test, vi } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { jobNames } from '../../jobs/index.ts';
import { sweepAll } from '../../jobs/service/sweeps.ts';
import type { TenantTable } from '../isolation/schema.ts';
import { proposeAccount } from '../support/change-sets.ts';
import { call, expectStatus } from '../support/client.ts';
import type { DeclaredOperation } from '../support/document.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { PausedJobs } from '../support/paused-jobs.ts';
import { createRecord, lead, recordsPath } from '../support/records.ts';
import { goodRequest, newWideTenant, type PreparedRequest } from '../support/requests.ts';
import { listDigestedTables } from '../support/row-digests.ts';
import { database, type Tenant } from '../support/tenants.ts';
import { openedByKey } from '../support/walk.ts';

/** Tables that a clock or a call with a key changes, and tables of test mode only. */
const changing = ['audit_logs', 'credential_versions', 'idempotency_records', 'test_clocks', 'test_subscriptions'];
const live = openedByKey.filter(({ declared }) => !declared['x-test-only'] && !declared['x-platform']);
/** Their answers count or list calls. */
const aboutCalls = ['getLimits', 'getUsage', 'listRequests'];
const reads = live.filter(({ id, method }) => method === 'GET' && !aboutCalls.includes(id));
const writes = live.filter(({ method }) => method !== 'GET' && method !== 'DELETE');
const manyDays = 700 * 86_400;
/** Milliseconds between the same reads, at most. */
const between = 300_000;

/** Writes to data that test mode has for itself. */
const writesToRecords = writes.filter(({ path }) =>
  /^\/v1\/(objects\/\{object\}\/records|activities|tasks)/.test(path),
);

let url: string;
let tenant: Tenant;
let tables: TenantTable[];

beforeAll(async () => {
  // Only the job of test clocks changes a row between two digests.
  const paused = await PausedJobs.of(...jobNames.filter((name) => name !== 'test-clocks'));
  url = paused.url;
  tenant = await newWideTenant();
  tables = await listDigestedTables(changing);
  return () => paused.close();
});

/** Returns a digest of the tenant's live rows by table. */
async function digestLive(): Promise<Map<string, string>> {
  const parts = tables.map(
    ({ name, company, hasMode }) => `
      select '${name}' as name, coalesce(md5(string_agg(t::text, '' order by t::text)), '') as digest
      from ${name} t where ${company} = '${tenant.companyId}' ${hasMode ? 'and not test_mode' : ''}
        ${name === 'api_keys' ? "and environment = 'live'" : ''}`,
  );
  const rows = await database().unsafe<{ name: string; digest: string }[]>(parts.join(' union all '));
  return new Map(rows.map(({ name, digest }) => [name, digest]));
}

/** Advances the clock, and waits until its job has handled two sets of work, one after the other. */
async function advance(): Promise<void> {
  for (const seconds of [manyDays - 10 * 86_400, 10 * 86_400]) {
    const { id } = await proposeAccount(tenant.testKey);
    const body = { advance_seconds: seconds };
    await expectStatus(200, 'POST', '/v1/test-mode/clock', { key: tenant.testKey, body });
    await vi.waitFor(
      async () => {
        const [row] = await database()`select status from change_sets where id = ${id}`;
        expect(row?.status).toBe('expired');
      },
      { timeout: 60_000, interval: 200 },
    );
  }
}

const time = /\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{3})?Z)?/g;

/** Returns an answer without what every call changes, and its times. */
async function read({ path, options }: PreparedRequest): Promise<{ text: string; times: number[] }> {
  const { status, body, text } = await call('GET', path, options);
  const content = body?.data === undefined ? text : JSON.stringify(body.data);
  const masked = content.replaceAll(/"(cursor|next_cursor|download_url|url|slot_token)":"[^"]*"/g, '"$1":""');
  const times = (masked.match(time) ?? []).map((found) => new Date(found).getTime());
  return { text: `${status} ${masked.replaceAll(time, 'a time')}`, times };
}

test('leaves all live rows and the answers to live keys as they are', async () => {
  for (const operation of writes) {
    const { path, options } = await goodRequest(operation, tenant);
    await call(operation.method, path, options);
  }
  const requests: [string, PreparedRequest][] = [];
  for (const operation of reads) requests.push([operation.id, await goodRequest(operation, tenant)]);
  const readAll = async () => {
    const answers: [string, Awaited<ReturnType<typeof read>>][] = [];
    for (const [id, request] of requests) answers.push([id, await read(request)]);
    return answers;
  };
  const answers = await readAll();
  const before = await digestLive();
  expect([...before.values()].filter((digest) => digest !== '').length).toBeGreaterThan(40);
  await advance();
  expect(await digestLive()).toEqual(before);
  const after = new Map(await readAll());
  const changed = answers.filter(([id, { text, times }]) => {
    const now = after.get(id);
    return now?.text !== text || times.some((each, index) => Math.abs(each - (now.times[index] ?? 0)) > between);
  });
  expect(changed).toEqual([]);
});

test('leaves the audit log, the sweeps and all live rows as they are if it ends', async () => {
  const { testKey: key } = tenant;
  const pool = new Pool({
    ...{ url, role: 'crm_platform', lanes: 2, prepare: true, spread: false },
    ...{ wait: 10_000, statementTimeout: 10_000 },
  });
  const uploads = await mkdtemp(join(tmpdir(), 'uploads-'));
  const sweep = () =>
    sweepAll(buildJobContext('sweeps', { platform: pool, tenants: pool }), { remove: async () => undefined, uploads });
  try {
    // Prepared before the digest, because some need configuration, which live mode shares.
    const requests: [DeclaredOperation, PreparedRequest][] = [];
    for (const operation of writesToRecords)
      requests.push([operation, await goodRequest(operation, tenant, { mode: 'test' })]);
    expect(requests.length).toBeGreaterThan(10);
    await sweep();
    const before = await digestLive();
    await expectStatus(200, 'POST', '/v1/test-mode/clock', { key, body: { advance_seconds: 86_400 } });
    for (const [{ id: name, method }, { path, options }] of requests) {
      const { status } = await call(method, path, options);
      expect(status, name).toBeLessThan(300);
    }
    const { id } = await createRecord(key, 'leads', lead());
    await expectStatus(200, 'DELETE', '/v1/test-mode/clock', { key });
    await expectStatus(200, 'PATCH', recordsPath('leads', id), { key, body: { first_name: 'Ada' } });
    await database()`
      select make_audit_partitions((current_date + make_interval(months => n))::date) from generate_series(1, 26) n`;
    await sweep();
    expect(await database()`select action, occurred_at from audit_logs_other`).toEqual([]);
    expect(await digestLive()).toEqual(before);
  } finally {
    await pool.close(1);
    await rm(uploads, { recursive: true });
  }
});
