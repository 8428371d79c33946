// Creates a database with a workspace, for measurements that need data.
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { type EmbeddedDatabase, startEmbedded } from '../app/embedded-postgres/database.ts';
import { migrate } from '../db/client/migrate.ts';
import { rowNames } from '../db/client/row-names.ts';
import { createCompany } from '../db/onboarding/onboarding.ts';
import { recordsOfBlock } from '../db/reports/signature.ts';
import { activityTypes, dealStatuses, leadStatuses, pipelineName, taskTypes } from '../domain/onboarding/defaults.ts';
import { buildStandardPolicy } from '../domain/scheduling/policies.ts';
import { newApiKey } from '../runtime/credentials/secrets.ts';

export interface Workspace {
  /** A live key with all scopes and the highest limits. */
  key: string;
  /** Environment of a server on this database. */
  env: Record<string, string>;
  /** Environment of a baseline. */
  bareEnv: Record<string, string>;
  stop(): Promise<void>;
}

/** Folder for the data of a running measurement. */
export const folder = process.env.BENCH_DIR ?? '.bench';

const nowhere = { phone: null, website: null, address: null, city: null, state: null, country: null, postalCode: null };

/** Starts a new database in a folder and creates a workspace. Stopping it removes the folder. */
export async function openWorkspace(folder: string): Promise<Workspace> {
  const dataDir = resolve(folder);
  rmSync(dataDir, { recursive: true, force: true });
  const database: EmbeddedDatabase = await startEmbedded(dataDir, () => undefined);
  await migrate(database.url);
  const sql = postgres(database.url, { max: 1, onnotice: () => undefined, transform: rowNames });
  const companyId = await addCompany(sql, 'Bench');
  const { key, keyId } = await addKey(sql, companyId);
  await sql.end();
  return {
    key,
    env: { DATABASE_URL: database.url, DATA_DIR: dataDir, LOG_LEVEL: process.env.LOG_LEVEL ?? 'info' },
    bareEnv: { DATABASE_URL: database.url, COMPANY_ID: companyId, KEY_ID: keyId },
    async stop() {
      await database.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/**
 * Creates a key of another company in the same database.
 * @param perMinute its calls per endpoint and minute
 */
export async function addNeighbour({ env }: Workspace, perMinute: number): Promise<string> {
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined, transform: rowNames });
  const { key } = await addKey(sql, await addCompany(sql, 'Neighbour'), perMinute);
  await sql.end();
  return key;
}

/**
 * Creates test keys of further companies in the same database. In test mode the server can be
 * allowed to call receivers on this machine.
 */
export async function addTestKeys({ env }: Workspace, count: number): Promise<string[]> {
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined, transform: rowNames });
  const keys: string[] = [];
  for (let number = 1; number <= count; number += 1) {
    const { key } = await addKey(sql, await addCompany(sql, `Test ${number}`), unlimited, 'test');
    keys.push(key);
  }
  await sql.end();
  return keys;
}

/**
 * Creates a company with its defaults. All its calls are counted, as for any workspace, and none is
 * rejected.
 * @returns its id
 */
export async function addCompany(sql: postgres.Sql, name: string): Promise<string> {
  const companyId = uuidv7();
  const now = new Date();
  const email = `${companyId}@example.com`;
  const company = {
    ...nowhere,
    id: companyId,
    name,
    email,
    region: 'europe',
    industry: 'Measuring',
    timezone: 'Europe/Berlin',
    currency: 'EUR',
  };
  const admin = {
    id: uuidv7(),
    email,
    fullName: 'Ben Chmark',
    passwordHash: 'nobody signs in',
    mustChangePassword: false,
    metadata: {},
  };
  const trial = { packageCode: 'growth', endsAt: new Date(now.getTime() + 14 * 86_400_000) };
  await sql.begin(async (transaction) => {
    const defaults = {
      pipelineName,
      dealStatuses,
      leadStatuses,
      activityTypes,
      taskTypes,
      sources: [],
      trial,
      policy: buildStandardPolicy(company.timezone),
    };
    await createCompany(transaction, company, admin, defaults, now);
    await transaction`update subscriptions set api_rate_limit_per_minute = 2147483647 where company_id = ${companyId}`;
  });
  return companyId;
}

const unlimited = 2_147_483_647;

/**
 * Creates a key with all scopes and the highest limits, in live mode by default.
 * @param perMinute its calls per endpoint and minute
 */
export async function addKey(
  sql: postgres.Sql,
  companyId: string,
  perMinute = unlimited,
  environment: 'live' | 'test' = 'live',
): Promise<{ key: string; keyId: string }> {
  const { key, hash, prefix, last4 } = newApiKey(environment);
  const keyId = uuidv7();
  await sql`
    insert into api_keys (company_id, id, key_hash, name, environment, prefix, last4, scopes, rate_limit_per_minute, rate_limit_per_hour,
      created_by_id, created_at, updated_at)
    values (${companyId}, ${keyId}, ${hash}, 'Bench', ${environment}, ${prefix}, ${last4}, ${['*']}, ${perMinute}, ${unlimited}, 'bench', now(), now())`;
  await sql`insert into api_key_usage (company_id, api_key_id) values (${companyId}, ${keyId})`;
  await sql`insert into api_key_places (key_hash, company_id) values (${hash}, ${companyId})`;
  return { key, keyId };
}

/**
 * Waits until all events have positions, and until fewer texts wait for the search index than fill
 * a block.
 */
export async function waitUntilIdle(sql: postgres.Sql): Promise<void> {
  for (let waited = 0; waited < 600; waited += 1) {
    const [row] = await sql<{ events: number; texts: number }[]>`
      select (select count(*)::int from outbox_events) as events, (select count(*)::int from search_changes) as texts`;
    if (row?.events === 0 && row.texts < recordsOfBlock) return;
    await sleep(100);
  }
  throw new Error('what is done behind the writes is not done after a minute');
}
