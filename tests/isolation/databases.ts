// Databases with the tenant alone and among shadow tenants, which requests must not tell apart.
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Sql } from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { inject } from 'vitest';
import { newLoggedRequest } from '../support/arranged-ids.ts';
import { type CallOptions, call, useServer } from '../support/client.ts';
import { inDatabase, newDatabase } from '../support/databases.ts';
import type { DeclaredOperation } from '../support/document.ts';
import { newWideTenant, sharedToken } from '../support/requests.ts';
import { frequentJobs, startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, useDatabase } from '../support/tenants.ts';
import { type LoadCredentials, newExhaustedTenant } from './concurrent-load.ts';
import { fillEmptyTables } from './fill-tables.ts';
import {
  arrangeAbsent,
  arrangeSubscriptions,
  type FixtureTenant,
  forgetExamples,
  prepareFixture,
} from './fixture-tenant.ts';
import { addJobWork, removeForeignWork } from './job-runs.ts';
import type { SourceEdit } from './mutants.ts';
import type { Probe } from './probe.ts';
import { creates, inOrder, isAboutRecords, prepareExamples, prepareNarrowKeys, prepareProbes } from './probes.ts';
import { type TenantTable, tenantTables } from './schema.ts';
import { copyTenant, dropChecks, type Shadow, swapModes } from './shadow-rows.ts';

export interface World {
  companyId: string;
  tables: TenantTable[];
  shadows: Shadow[];
  probes: Probe[];
  loadCredentials: LoadCredentials;
  /** The tenant alone, with its live rows. */
  alone: string;
  /** The same with shadow rows, and row-level security in force. */
  shadowed: string;
  /** The same with policies that allow everything, so that only the conditions isolate. */
  withoutPolicies: string;
  /** `alone` and `withoutPolicies` with both modes swapped, so that live rows are test rows. */
  aloneInTest: string;
  withoutPoliciesInTest: string;
}

/** Files of the tenant. Each server gets a copy, because its jobs remove files that others still need. */
const dataDir = `.test-data/isolation-${process.pid}`;
let copies = 0;

const inOwnOrder = /^(listChanges|listAuditLogs)$/;

const settings = (url: string, folder = dataDir): Record<string, string> => ({
  ...testSettings,
  DATABASE_URL: url,
  SECRET_KEY: inject('secretKey'),
  DATA_DIR: folder,
  DATABASE_POOL: '2',
  ONBOARDING_PER_HOUR: '1000',
  // When requests are written depends on the time. The tables have rows of requests from elsewhere.
  REQUEST_LOG: '0',
});

interface ServeOptions {
  /** Changes of the project's sources. */
  edits?: readonly SourceEdit[];
  /** Receives the sent conditions at the end, if they are marked (condition-recorder.ts). */
  reachedFile?: string;
}

/** Starts a server on a database, with frequent jobs and an unreachable mail server. */
export async function serve(url: string, { edits = [], reachedFile }: ServeOptions = {}): Promise<TestServer> {
  const { NODE_OPTIONS, ...frequent } = frequentJobs(3000);
  copies += 1;
  const folder = `${dataDir}-${copies}`;
  cpSync(dataDir, folder, { recursive: true });
  // First, because the others load sources of the project.
  const first = [...(edits.length > 0 ? [loading('./edited-sources.ts')] : []), NODE_OPTIONS];
  const more: Record<string, string> = {};
  if (edits.length > 0) {
    more.SOURCE_EDITS = join(folder, 'edits.json');
    writeFileSync(more.SOURCE_EDITS, JSON.stringify(edits));
  }
  if (reachedFile !== undefined) {
    first.push(loading('./condition-recorder.ts'));
    // Prepared statements carry their text only once.
    Object.assign(more, { REACHED_FILE: reachedFile, DATABASE_PREPARE: '0' });
  }
  const own = { ...frequent, NODE_OPTIONS: first.join(' '), SMTP_URL: 'smtp://127.0.0.1:9', ...more };
  const server = await startServer({ ...settings(url, folder), ...own });
  const stop: TestServer['stop'] = async (signal) => {
    const code = await server.stop(signal);
    rmSync(folder, { recursive: true, force: true });
    return code;
  };
  return { ...server, stop };
}

const loading = (file: string): string => `--import=${new URL(file, import.meta.url)}`;

export async function buildWorld(): Promise<World> {
  return addShadows(await buildAlone());
}

/** Creates the database with the tenant alone, and the requests about everything that it has. */
export async function buildAlone(): Promise<Filled> {
  rmSync(dataDir, { recursive: true, force: true });
  const alone = await newDatabase();
  await useDatabase(alone);
  const server = await startServer(settings(alone));
  useServer(server.url);
  try {
    return await fill(alone);
  } finally {
    useServer(undefined);
    await useDatabase(undefined);
    await server.stop();
  }
}

async function fill(alone: string): Promise<Filled> {
  // Other tenants with ids before and after the tenant's, so that one is last in any order.
  const before = await newExhaustedTenant();
  const tenant = await newWideTenant();
  await sharedToken(tenant);
  const fixture = await prepareFixture(tenant);
  const after = await newExhaustedTenant();
  const loadCredentials: LoadCredentials = {
    own: [{ key: tenant.key }, ...fixture.bearers.filter((_, index) => index % 2 === 0).map((token) => ({ token }))],
    others: [...before, ...after],
  };
  // Enough calls for a lease that is returned.
  await database()`update api_quota set calls = 1000 where company_id = ${tenant.companyId}`;
  const prepare = async (
    of: (operation: DeclaredOperation, fixture: FixtureTenant) => Promise<Probe[]>,
  ): Promise<Probe[]> => {
    const probes: Probe[] = [];
    for (const operation of inOrder) probes.push(...(await of(operation, fixture)));
    // Calls are counted after their responses, so the counts differ between runs.
    return probes.filter(({ operation, options }) => operation.id !== 'getUsage' || !options.query?.group_by);
  };
  const send = async (probes: readonly Probe[]): Promise<void> => {
    for (const { operation, path, options } of probes) await call(operation.method, path, options);
  };
  const { companyId } = tenant;
  return inDatabase(alone, async (sql) => {
    const tables = await tenantTables(sql);
    // Calls of every kind fill the tables. The remaining tables are filled directly.
    await send((await prepare(prepareExamples)).filter(({ operation }) => creates(operation)));
    // Its id contains a time that is not past the retention: the sweep would delete other ids.
    await newLoggedRequest(tenant, 'live');
    await fillEmptyTables(sql, tables, companyId);
    await forgetExamples(fixture);
    const kept = await readKeys(sql, tables, companyId);
    // From here on, only the shadows keep the rows. The tenant requests these and its own.
    const absentFixture = await arrangeAbsent(fixture);
    const absent = await prepare((operation) => prepareAbsentProbes(operation, fixture, absentFixture));
    await send(absent.filter(({ operation }) => creates(operation)));
    const made = await readKeys(sql, tables, companyId);
    for (const key of kept) made.delete(key);
    const present = await prepare(prepareProbes);
    await arrangeSubscriptions(tenant);
    // Marks every key as used, so that its first use makes no difference.
    await sql`update api_key_usage set last_used_ip = '10.9.9.9', last_used_at = now() where last_used_ip is null`;
    const probes = inOrder.flatMap((operation) => [
      ...absent.filter((probe) => probe.operation === operation),
      ...present.filter((probe) => probe.operation === operation),
    ]);
    // Without the feed and the audit log, in which the order of entries by jobs differs between
    // runs.
    const again = probes
      .filter(
        ({ operation, options }) => operation.method === 'GET' && !inOwnOrder.test(operation.id) && isPlain(options),
      )
      .map((probe): Probe => ({ ...probe, isAgain: true }));
    return { alone, companyId, tables, loadCredentials, probes: [...probes, ...again], made };
  });
}

export interface Filled {
  alone: string;
  companyId: string;
  tables: TenantTable[];
  loadCredentials: LoadCredentials;
  probes: Probe[];
  /** Keys of the rows that only the shadows have. */
  made: ReadonlySet<string>;
}

async function addShadows({ alone, companyId, tables, loadCredentials, probes, made }: Filled): Promise<World> {
  // Shadows sort before and after the tenant in every index, so foreign rows come first in either
  // direction.
  const yesterday = { msecs: Date.now() - 86_400_000 };
  const shadows: Shadow[] = [
    { kind: 'marked', companyId: uuidv7(yesterday) },
    { kind: 'renamed', companyId: uuidv7(yesterday) },
    { kind: 'twin', companyId: uuidv7() },
  ];
  await inDatabase(alone, (sql) => addJobWork(sql, companyId, dataDir));
  // A file lies in the folder of its mode, and modes are swapped below.
  const buildFilesPath = (mode: string): string => join(dataDir, 'attachments', companyId, mode);
  cpSync(buildFilesPath('live'), buildFilesPath('test'), { recursive: true });
  const shadowed = await newDatabase(alone);
  await inDatabase(shadowed, async (other) => {
    await other`set session_replication_role = replica`;
    await dropChecks(other, tables);
    for (const shadow of shadows)
      for (const testMode of [false, true]) await copyTenant(other, tables, companyId, shadow, testMode);
    for (const kind of ['twin', 'renamed'] as const)
      await copyTenant(other, tables, companyId, { companyId, kind }, true);
    await removeForeignWork(other, tables, { companyId, shadows, testMode: false });
    await removeKeys(other, tables, companyId, made);
    await moveToTheEnd(other, tables, companyId, shadows);
  });
  const withoutPolicies = await newDatabase(shadowed);
  await inDatabase(withoutPolicies, allowEverything);
  await inDatabase(alone, async (other) => {
    await other`set session_replication_role = replica`;
    await removeKeys(other, tables, companyId, made);
  });
  const swapped = async (template: string): Promise<string> => {
    const url = await newDatabase(template);
    await inDatabase(url, async (other) => {
      await other`set session_replication_role = replica`;
      await swapModes(other, tables);
    });
    return url;
  };
  const [aloneInTest, withoutPoliciesInTest] = [await swapped(alone), await swapped(withoutPolicies)];
  return {
    companyId,
    tables,
    shadows,
    probes,
    loadCredentials,
    alone,
    shadowed,
    withoutPolicies,
    aloneInTest,
    withoutPoliciesInTest,
  };
}

/**
 * Returns the primary keys of a tenant's live rows, without the company. Leaves out SLA clocks,
 * because some continue others.
 */
async function readKeys(sql: Sql, tables: readonly TenantTable[], companyId: string): Promise<Set<string>> {
  const parts = tables
    .filter((table) => table.company === 'company_id' && table.name !== 'sla_clocks')
    .map((table) => `select ${buildKey(table)} as key from ${table.name} t where ${isLive(table, companyId)}`);
  const rows = await sql.unsafe<{ key: string }[]>(parts.join(' union all '));
  return new Set(rows.map((row) => row.key));
}

const buildKey = (table: TenantTable): string => {
  const columns = table.columns.filter((column) => column.key && !['company_id', 'test_mode'].includes(column.name));
  return `jsonb_build_array('${table.name}', ${columns.map((column) => `t."${column.name}"`).join(', ') || 'null'})::text`;
};

const isLive = (table: TenantTable, companyId: string): string =>
  `t.${table.company} = '${companyId}' ${table.hasMode ? 'and not t.test_mode' : ''}`;

async function removeKeys(
  sql: Sql,
  tables: readonly TenantTable[],
  companyId: string,
  keys: ReadonlySet<string>,
): Promise<void> {
  for (const table of tables.filter((each) => each.company === 'company_id'))
    await sql.unsafe(
      `delete from ${table.name} t where ${isLive(table, companyId)} and ${buildKey(table)} = any($1::text[])`,
      [[...keys]],
    );
}

/**
 * Moves the tenant's rows behind the others, so that a statement without a condition finds others
 * first.
 */
async function moveToTheEnd(
  sql: Sql,
  tables: readonly TenantTable[],
  companyId: string,
  shadows: readonly Shadow[],
): Promise<void> {
  for (const table of tables.filter(({ company }) => company === 'company_id')) {
    // Not by an update, which may keep the row on its page.
    const names = table.columns.map((column) => `"${column.name}"`).join(', ');
    // Identity columns keep their order.
    const [numbered] = await sql<{ name: string }[]>`
      select attname as name from pg_attribute where attrelid = ${table.name}::regclass and attidentity <> ''`;
    const order = numbered ? `order by t."${numbered.name}"` : '';
    await sql.unsafe(
      `create temporary table moved as select ${names} from ${table.name} t where ${isLive(table, companyId)} ${order}`,
    );
    await sql.unsafe(`delete from ${table.name} t where ${isLive(table, companyId)}`);
    await sql.unsafe(`insert into ${table.name} (${names}) select ${names} from moved`);
    await sql`drop table moved`;
  }
  await sql`update companies set id = id where id <> all(${shadows.map((shadow) => shadow.companyId)}::uuid[])`;
}

/** Lets the tenants' policies allow everything. */
async function allowEverything(sql: Sql): Promise<void> {
  const policies = await sql<{ table: string; name: string }[]>`
    select tablename as table, policyname as name from pg_policies where schemaname = 'public' and 'crm_app' = any(roles)`;
  for (const { table, name } of policies) {
    const [policy] = await sql<
      { cmd: string }[]
    >`select cmd from pg_policies where tablename = ${table} and policyname = ${name}`;
    const using = policy?.cmd === 'INSERT' ? '' : 'using (true)';
    const check = policy?.cmd === 'SELECT' || policy?.cmd === 'DELETE' ? '' : 'with check (true)';
    await sql.unsafe(`alter policy ${name} on ${table} ${using} ${check}`);
  }
}

/** Returns requests about rows that the tenant lacks. Repeating them finds nothing either. */
async function prepareAbsentProbes(
  operation: DeclaredOperation,
  fixture: FixtureTenant,
  absentFixture: FixtureTenant,
): Promise<Probe[]> {
  if (!isAboutRecords(operation)) {
    const examples = await prepareExamples(operation, fixture);
    return [...examples, ...prepareNarrowKeys(examples, absentFixture)];
  }
  const probes = await prepareProbes(operation, absentFixture);
  // Also creations that match existing rows: repeating them finds nothing similar.
  return creates(operation)
    ? [...probes, ...(await prepareProbes(operation, fixture))]
    : probes.filter(({ options }) => isPlain(options));
}

const isPlain = (options: CallOptions): boolean => Object.keys(options.query ?? {}).length === 0;
