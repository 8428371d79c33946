// Opens the connection pools of a process: their roles, sizes and timeouts.
import { grace, Pool } from '../db/client/pool.ts';
import { companiesAtOnce } from '../jobs/automation/webhook-matching.ts';
import { feedsAtOnce } from '../jobs/records/dispatcher.ts';
import type { JobPools } from '../jobs/runner.ts';
import type { Config } from '../runtime/config.ts';

/** Nobody waits in one of them while holding a connection of the same: that would be a deadlock under load. */
export interface Pools {
  /** Tenants' transactions, under the role that row-level security binds. */
  tenants: Pool;
  /** Tenants' configuration, loaded for a request that already holds its transaction. */
  configuration: Pool;
  /** Transactions of operations that look across tenants, and the sweeps. */
  platform: Pool;
  /** Credentials and sessions; apart, so that no other work can hold up authentication. */
  credentials: Pool;
}

/** What all pools of a process are opened with. */
export interface DatabaseSettings {
  url: string;
  /** False behind a pooler that does not keep prepared statements. */
  prepare: boolean;
  /** True for a database that is spread over machines. */
  spread: boolean;
}

/** Milliseconds that a request may wait for a connection. */
const wait = 1000;
/** Milliseconds that background work may wait for one: nobody waits for it. */
const longestQueue = 10_000;
/** Milliseconds after which the database gives a statement up. */
const statementTimeout = 1500;
/** Milliseconds after which a transaction of one or a few statements is given up: a database that hangs does not say so. */
export const transactionTimeout = statementTimeout + grace;
/** Milliseconds for a statement where payments are taken, and nobody else waits. */
const paymentTimeout = 5000;

export function databaseSettings(url: string, { databasePrepare, databaseSpread }: Config): DatabaseSettings {
  return { url, prepare: databasePrepare, spread: databaseSpread };
}

/** @param lanes connections for tenants' transactions */
export function openPools(settings: DatabaseSettings, lanes: number): Pools {
  const shared = { ...settings, wait, statementTimeout };
  return {
    tenants: new Pool({ ...shared, role: 'crm_app', lanes }),
    configuration: new Pool({ ...shared, role: 'crm_app', lanes: 2 }),
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 2 }),
    // Look-ups count the calls of each key; a few counts lost with the database are worth not waiting for the disk each time.
    credentials: new Pool({ ...shared, role: 'crm_platform', lanes: 3, commitsMayBeLost: true }),
  };
}

/** Opens the one connection of what runs beside the requests, and waits until the database answers on it. */
export async function openBackgroundPool(settings: DatabaseSettings): Promise<Pool> {
  const shared = { ...settings, wait, statementTimeout, name: 'background' };
  const pool = new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
  await pool.use(async (sql) => void (await sql`select 1`));
  return pool;
}

/** Opens the one connection of background work that is done for one tenant at a time, under the role that row-level security binds. */
export function openBackgroundTenantPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait, statementTimeout, role: 'crm_app', name: 'background', lanes: 1 });
}

/** Opens the connections of the dispatcher: its own, so that no other background work holds up the feeds. */
export function openDispatcherPools(settings: DatabaseSettings): JobPools {
  // A server that loses its network holds a feed for no longer than this.
  const shared = { ...settings, wait, statementTimeout, name: 'dispatcher', abandonedAfter: 3000 };
  return {
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: feedsAtOnce }),
  };
}

/** Opens the connections of those who make and send deliveries of webhooks, so that no other background work waits for them. */
export function openSenderPools(settings: DatabaseSettings): JobPools {
  const shared = { ...settings, wait: longestQueue, statementTimeout, name: 'webhooks' };
  return {
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: 4 + companiesAtOnce }),
  };
}

/** Opens the connections of what takes payments: apart from all that requests wait on. */
export function openPaymentsPool(settings: DatabaseSettings): Pool {
  const times = { wait: longestQueue, statementTimeout: paymentTimeout };
  return new Pool({ ...settings, ...times, role: 'crm_app', name: 'payments', lanes: 2 });
}

/** Opens the connections of what asks and tells calendars outside: none of them before the first calendar is connected. */
export function openCalendarsPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: longestQueue, statementTimeout, role: 'crm_app', name: 'calendars', lanes: 2 });
}

/** Opens the connections on which workforces note what they do: none of them before the first run. */
export function openWorkforcesPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: longestQueue, statementTimeout, role: 'crm_app', name: 'workforces', lanes: 2 });
}

/** Opens the connections of what sends messages: so many that those on their way do not wait for each other's notes. */
export function openMessagesPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: longestQueue, statementTimeout, role: 'crm_app', name: 'messages', lanes: 4 });
}

/** Opens the connections of the OAuth server, under a role that sees what it remembers and nothing else: none before the first app. */
export function openOAuthPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait, statementTimeout, role: 'crm_oauth', name: 'oauth', lanes: 2 });
}

/** Opens the connection of what removes companies, under a role that sees one at a time. */
export function openPurgePool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: longestQueue, statementTimeout, role: 'crm_purge', name: 'purges', lanes: 1 });
}

/** Ends all connections; those at work may finish within the time. */
export async function closePools(pools: Pools, seconds: number): Promise<void> {
  await Promise.all(Object.values(pools).map((pool: Pool) => pool.close(seconds)));
}
