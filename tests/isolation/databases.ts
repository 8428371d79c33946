// One tenant alone, and in a crowd of its doubles: requests must not tell the two apart.
import type { Sql } from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { inject } from 'vitest';
import { type CallOptions, call, useServer } from '../support/client.ts';
import { inDatabase, newDatabase } from '../support/databases.ts';
import type { DeclaredOperation } from '../support/document.ts';
import { newWideTenant, sharedToken } from '../support/requests.ts';
import { frequentJobs, startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, useDatabase } from '../support/tenants.ts';
import { newPauper, type Rush } from './concurrent-load.ts';
import { fillEmptyTables } from './fill-tables.ts';
import { arrangeAbsent, arrangeGround, arrangeSubscriptions, forgetExamples, type Ground } from './fixture-tenant.ts';
import { leaveChores, spareOthers } from './job-runs.ts';
import type { Probe } from './probe.ts';
import { creates, examplesOf, inOrder, isAboutRecords, narrowKeysOf, probesOf } from './probes.ts';
import { type TenantTable, tenantTables } from './schema.ts';
import { copyTenant, dropChecks, type Shadow, swapModes } from './shadow-rows.ts';

export interface World {
  companyId: string;
  tables: TenantTable[];
  shadows: Shadow[];
  probes: Probe[];
  rush: Rush;
  /** The tenant with its live rows and nobody beside it. */
  alone: string;
  /** The same with its doubles; row-level security in force. */
  crowded: string;
  /** The same, where row-level security lets everything through: only the predicates are left. */
  unwalled: string;
  /** The first and the last with both modes swapped: what was live is now test. */
  aloneInTest: string;
  unwalledInTest: string;
}

const dataDir = '.test-data';

const inOwnOrder = /^(listChanges|listAuditLogs)$/;

const settings = (url: string): Record<string, string> => ({
  ...testSettings,
  DATABASE_URL: url,
  SECRET_KEY: inject('secretKey'),
  DATA_DIR: dataDir,
  DATABASE_POOL: '2',
  ONBOARDING_PER_HOUR: '1000',
});

/**
 * Starts a server on a database; what it does at intervals, it does soon, and nobody takes its mails.
 * @param main the program, where it is not the project's own
 * @param reachedFile where to write at its end which marked conditions were sent (reached.ts)
 */
export function serve(url: string, main?: string, reachedFile?: string): Promise<TestServer> {
  const { NODE_OPTIONS, ...frequent } = frequentJobs(3000);
  const first = [NODE_OPTIONS];
  // Statements that are prepared are named after the first time.
  const noting: Record<string, string> =
    reachedFile === undefined ? {} : { REACHED_FILE: reachedFile, DATABASE_PREPARE: '0' };
  if (reachedFile !== undefined) first.push(loading('./condition-recorder.ts'));
  const own = { ...frequent, NODE_OPTIONS: first.join(' '), SMTP_URL: 'smtp://127.0.0.1:9', ...noting };
  return startServer({ ...settings(url), ...own }, { main });
}

const loading = (file: string): string => `--import=${new URL(file, import.meta.url)}`;

export async function buildWorld(): Promise<World> {
  return crowd(await buildAlone());
}

/** The tenant with nobody beside it, and the requests that reach what it has. */
export async function buildAlone(): Promise<Filled> {
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
  // Neighbours with ids before and after the tenant's, so that one of them comes last whatever the order is.
  const before = await newPauper();
  const tenant = await newWideTenant();
  await sharedToken(tenant);
  const ground = await arrangeGround(tenant);
  const after = await newPauper();
  const rush: Rush = {
    own: [{ key: tenant.key }, ...ground.bearers.filter((_, index) => index % 2 === 0).map((token) => ({ token }))],
    others: [...before, ...after],
  };
  // Calls enough to give back.
  await database()`update api_quota set calls = 1000 where company_id = ${tenant.companyId}`;
  const prepare = async (of: (operation: DeclaredOperation, ground: Ground) => Promise<Probe[]>): Promise<Probe[]> => {
    const probes: Probe[] = [];
    for (const operation of inOrder) probes.push(...(await of(operation, ground)));
    // Calls are counted behind their answers: how many there are at a moment is not the same twice.
    return probes.filter(({ operation, options }) => operation.id !== 'getUsage' || !options.query?.group_by);
  };
  const send = async (probes: readonly Probe[]): Promise<void> => {
    for (const { operation, path, options } of probes) await call(operation.method, path, options);
  };
  const { companyId } = tenant;
  return inDatabase(alone, async (sql) => {
    const tables = await tenantTables(sql);
    // Calls of every kind leave their traces in every table; what none of them fills is filled by hand.
    await send((await prepare(examplesOf)).filter(({ operation }) => creates(operation)));
    await fillEmptyTables(sql, tables, companyId);
    await forgetExamples(ground);
    const kept = await keysOf(sql, tables, companyId);
    // Only the doubles have what is made from here on: the tenant asks for it and for its own.
    const ghosts = await arrangeAbsent(ground);
    const absent = await prepare((operation) => absentOf(operation, ground, ghosts));
    await send(absent.filter(({ operation }) => creates(operation)));
    const made = await keysOf(sql, tables, companyId);
    for (const key of kept) made.delete(key);
    const present = await prepare(probesOf);
    await arrangeSubscriptions(tenant);
    // Every key was used before, so that its use is not the same for all.
    await sql`update api_key_usage set last_used_ip = '10.9.9.9', last_used_at = now() where last_used_ip is null`;
    const probes = inOrder.flatMap((operation) => [
      ...absent.filter((probe) => probe.operation === operation),
      ...present.filter((probe) => probe.operation === operation),
    ]);
    // Not the feed and the log: in which order others than their callers tell something is not the same twice.
    const again = probes
      .filter(
        ({ operation, options }) => operation.method === 'GET' && !inOwnOrder.test(operation.id) && isPlain(options),
      )
      .map((probe): Probe => ({ ...probe, isAgain: true }));
    return { alone, companyId, tables, rush, probes: [...probes, ...again], made };
  });
}

export interface Filled {
  alone: string;
  companyId: string;
  tables: TenantTable[];
  rush: Rush;
  probes: Probe[];
  /** Keys of the rows that only the doubles shall have. */
  made: ReadonlySet<string>;
}

async function crowd({ alone, companyId, tables, rush, probes, made }: Filled): Promise<World> {
  // Before and after the tenant in every index, so that rows of others are met first whichever way is taken.
  const yesterday = { msecs: Date.now() - 86_400_000 };
  const shadows: Shadow[] = [
    { kind: 'marked', companyId: uuidv7(yesterday) },
    { kind: 'renamed', companyId: uuidv7(yesterday) },
    { kind: 'twin', companyId: uuidv7() },
  ];
  await inDatabase(alone, (sql) => leaveChores(sql, companyId, dataDir));
  const crowded = await newDatabase(alone);
  await inDatabase(crowded, async (other) => {
    await other`set session_replication_role = replica`;
    await dropChecks(other, tables);
    for (const shadow of shadows)
      for (const testMode of [false, true]) await copyTenant(other, tables, companyId, shadow, testMode);
    for (const kind of ['twin', 'renamed'] as const)
      await copyTenant(other, tables, companyId, { companyId, kind }, true);
    await spareOthers(other, tables, { companyId, shadows, testMode: false });
    await removeKeys(other, tables, companyId, made);
    await moveToTheEnd(other, tables, companyId, shadows);
  });
  const unwalled = await newDatabase(crowded);
  await inDatabase(unwalled, openWalls);
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
  const [aloneInTest, unwalledInTest] = [await swapped(alone), await swapped(unwalled)];
  return { companyId, tables, shadows, probes, rush, alone, crowded, unwalled, aloneInTest, unwalledInTest };
}

/** The primary keys of a tenant's live rows, without the tenant; not of clocks, some of which go on from others. */
async function keysOf(sql: Sql, tables: readonly TenantTable[], companyId: string): Promise<Set<string>> {
  const parts = tables
    .filter((table) => table.company === 'company_id' && table.name !== 'sla_clocks')
    .map((table) => `select ${keyOf(table)} as key from ${table.name} t where ${isLive(table, companyId)}`);
  const rows = await sql.unsafe<{ key: string }[]>(parts.join(' union all '));
  return new Set(rows.map((row) => row.key));
}

const keyOf = (table: TenantTable): string => {
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
      `delete from ${table.name} t where ${isLive(table, companyId)} and ${keyOf(table)} = any($1::text[])`,
      [[...keys]],
    );
}

/** Where a statement finds rows of several tenants, the own one is then not found first. */
async function moveToTheEnd(
  sql: Sql,
  tables: readonly TenantTable[],
  companyId: string,
  shadows: readonly Shadow[],
): Promise<void> {
  for (const table of tables.filter(({ company }) => company === 'company_id')) {
    // Not an update: tables that are often updated keep room for it where the row was.
    const names = table.columns.map((column) => `"${column.name}"`).join(', ');
    // What the database numbers itself keeps its order.
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

/** Lets the policies for tenants pass everything. */
async function openWalls(sql: Sql): Promise<void> {
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

/** Requests about what the tenant does not have; none finds it again when it is sent again. */
async function absentOf(operation: DeclaredOperation, ground: Ground, ghosts: Ground): Promise<Probe[]> {
  if (!isAboutRecords(operation)) {
    const examples = await examplesOf(operation, ground);
    return [...examples, ...narrowKeysOf(examples, ghosts)];
  }
  const probes = await probesOf(operation, ghosts);
  // A creation by what is there, too: nothing like it is found again.
  return creates(operation)
    ? [...probes, ...(await probesOf(operation, ground))]
    : probes.filter(({ options }) => isPlain(options));
}

const isPlain = (options: CallOptions): boolean => Object.keys(options.query ?? {}).length === 0;
