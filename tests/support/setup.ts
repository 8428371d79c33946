// Before all tests: one PostgreSQL and one server. After them: the coverage table and checks.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import postgres from 'postgres';
import type { TestProject } from 'vitest/node';
import { isWholeRun, reportCoverage } from './coverage.ts';
import { makeTemplate } from './migrated-template.ts';
import { sentStatements, startNoting, tried, triedRoles } from './noted-statements.ts';
import { startServer } from './servers.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    baseUrl: string;
    /**
     * The owner of the tables, to prepare data and to start further servers on the same database.
     */
    databaseUrl: string;
    /** The secret that all servers on this database share. */
    secretKey: string;
    logFile: string;
    serverPid: number;
    coverageFolder: string;
  }
}

/** Settings of the server under test, with a trusted proxy, so that tests can use any address. */
export const testSettings = {
  TRUSTED_PROXIES: '127.0.0.1',
  LOG_LEVEL: 'info',
  WEBHOOK_ALLOW_PRIVATE: '1',
  CALENDAR_ALLOW_PRIVATE: '1',
};

async function arrange(url: string): Promise<void> {
  const sql = postgres(url, { max: 1 });
  // All tests share the platform company and thus its rate limit. Each tenant has its own.
  await sql`update subscriptions set api_rate_limit_per_minute = 1000000 where package_code = 'platform'`;
  // The data is deleted after the run. Tests of a killed PostgreSQL use separate databases
  // (own-database.ts).
  await sql`alter system set fsync = off`;
  await sql`alter system set full_page_writes = off`;
  await sql`select pg_reload_conf()`;
  // Servers open a dozen connections each. Thousands of iterations per password check protect
  // nothing here.
  await sql`set scram_iterations = 1`;
  await sql.unsafe(`alter user current_user password '${new URL(url).password}'`);
  // Tests look for what a call or a record left behind, in the tables of all tests.
  await sql`create index on audit_logs (request_id)`;
  await sql`create index on audit_logs (record_id)`;
  await sql`create index on feed_events (record_id)`;
  for (const role of triedRoles) await sql`create role ${sql(tried(role))} in role ${sql(role)}`;
  await sql.end();
}

/**
 * Reports statements that are bound to no company and, for a run of all tests, conditions that were
 * never sent.
 */
async function reportStatements(url: string): Promise<boolean> {
  // Loaded here, because every file that starts a server loads this one.
  const { readCatalogue, unboundIn, findUnsent } = await import('../isolation/sent-statements.ts');
  const { byServers, byAnybody } = await sentStatements(url);
  const sql = postgres(url, { max: 1 });
  const problems = await unboundIn(byServers, await readCatalogue(sql));
  await sql.end();
  if (isWholeRun()) problems.push(...findUnsent(byAnybody).map((id) => `no test sends ${id}`));
  process.stdout.write(
    `\n${byServers.length} statements of servers; ${problems.length} problems of whose rows they are about\n`,
  );
  for (const problem of problems) process.stderr.write(`  ${problem}\n`);
  return problems.length === 0;
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `run-${process.pid}`);
  const coverageFolder = resolve(folder, 'coverage');
  mkdirSync(coverageFolder, { recursive: true });
  const logFile = resolve(folder, 'server.log');
  const secretKey = '5e'.repeat(32);
  // Servers that run from the sources serve what was rendered before they started.
  const renderer = fileURLToPath(new URL('../../site/main.ts', import.meta.url));
  const [database] = await Promise.all([startNoting(folder), promisify(execFile)(process.execPath, [renderer])]);
  const settings = { ...testSettings, DATABASE_URL: database.url, SECRET_KEY: secretKey, DATA_DIR: folder };
  // Tests run the sweeps themselves. A sweep of the server could delete what they count.
  const server = await startServer({ ...settings, PAUSED_JOBS: 'sweeps' }, { logFile }).catch(
    async (error: unknown) => {
      await database.stop();
      throw error;
    },
  );
  await arrange(database.url);
  await makeTemplate(database.url);
  project.provide('baseUrl', server.url);
  project.provide('databaseUrl', database.url);
  project.provide('secretKey', secretKey);
  project.provide('logFile', logFile);
  project.provide('serverPid', server.pid);
  project.provide('coverageFolder', coverageFolder);
  return async () => {
    await server.stop();
    const areBound = await reportStatements(database.url);
    await database.remove();
    const failures = readFileSync(logFile, 'utf8')
      .split('\n')
      .filter((line) => line.includes('"msg":"unexpected error"'));
    for (const line of failures.slice(0, 20))
      process.stderr.write(`unexpected error in the server: ${line.slice(0, 1500)}\n`);
    const complete = reportCoverage(coverageFolder);
    rmSync(folder, { recursive: true, force: true });
    if (failures.length > 0 || !complete || !areBound) process.exitCode = 1;
  };
}
