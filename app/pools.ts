// Opens the connection pools of a process: their roles, sizes and timeouts.
import { grace, Pool } from '../db/client/pool.ts';
import { companiesAtOnce } from '../jobs/automation/webhook-matching.ts';
import { feedsAtOnce } from '../jobs/records/dispatcher.ts';
import { exportsAtOnce } from '../jobs/records/exports.ts';
import type { JobPools } from '../jobs/runner.ts';
import type { Config } from '../runtime/config.ts';

/**
 * No call waits for a connection of a pool while it holds one of the same pool: that would deadlock
 * under load.
 */
export interface Pools {
  /** Tenants' transactions, under the role that row-level security binds. */
  tenants: Pool;
  /** Tenants' configuration, loaded for a request that already holds its transaction. */
  configuration: Pool;
  /** Transactions of operations that look across tenants, and the sweeps. */
  platform: Pool;
  /** Credentials and sessions; separate, so that no other work can delay authentication. */
  credentials: Pool;
}

/** Settings of all pools of a process. */
export interface DatabaseSettings {
  url: string;
  /** False behind a pooler that does not keep prepared statements. */
  prepare: boolean;
  /** True for a database that is distributed over machines. */
  spread: boolean;
}

/** Milliseconds that a request may wait for a connection. */
const wait = 1000;
/** Milliseconds that background work may wait for a connection; no client waits for it. */
const jobWaitMs = 10_000;
/** Statement timeout of the database in milliseconds. */
const statementTimeout = 1500;
/**
 * Timeout in milliseconds of a transaction with one or a few statements, in case the database
 * hangs.
 */
export const transactionTimeout = statementTimeout + grace;
/** Statement timeout in milliseconds for payments, which no request waits behind. */
const paymentTimeout = 5000;
/** Statement timeout in milliseconds for chunks of imports and reverts. */
const importTimeout = 5000;

export function buildDatabaseSettings(url: string, { databasePrepare, databaseSpread }: Config): DatabaseSettings {
  return { url, prepare: databasePrepare, spread: databaseSpread };
}

/** @param lanes connections for tenants' transactions */
export function openPools(settings: DatabaseSettings, lanes: number): Pools {
  const shared = { ...settings, wait, statementTimeout };
  return {
    tenants: new Pool({ ...shared, role: 'crm_app', lanes }),
    configuration: new Pool({ ...shared, role: 'crm_app', lanes: 2 }),
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 2 }),
    // Look-ups also count the calls of each key. Losing a few counts in a crash is better than
    // waiting for the disk each time.
    credentials: new Pool({ ...shared, role: 'crm_platform', lanes: 3, commitsMayBeLost: true }),
  };
}

/** Opens the connection of background work, and waits until the database responds on it. */
export async function openBackgroundPool(settings: DatabaseSettings): Promise<Pool> {
  const shared = { ...settings, wait, statementTimeout, name: 'background' };
  const pool = new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
  await pool.use(async (sql) => void (await sql`select 1`));
  return pool;
}

/**
 * Opens the connection of background work for single tenants, under the role that row-level
 * security binds.
 */
export function openBackgroundTenantPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait, statementTimeout, role: 'crm_app', name: 'background', lanes: 1 });
}

/** Opens the dispatcher's own connections, so that no other background work delays the feeds. */
export function openDispatcherPools(settings: DatabaseSettings): JobPools {
  // A server that loses its network locks a feed for at most this long.
  const shared = { ...settings, wait, statementTimeout, name: 'dispatcher', abandonedAfter: 3000 };
  return {
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: feedsAtOnce }),
  };
}

/**
 * Opens the connections for creating and sending webhook deliveries, so that no other background
 * work waits for them.
 */
export function openSenderPools(settings: DatabaseSettings): JobPools {
  const shared = { ...settings, wait: jobWaitMs, statementTimeout, name: 'webhooks' };
  return {
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
    tenants: new Pool({ ...shared, role: 'crm_app', lanes: 4 + companiesAtOnce }),
  };
}

/** Opens the connections for payments: separate from all that requests wait for. */
export function openPaymentsPool(settings: DatabaseSettings): Pool {
  const times = { wait: jobWaitMs, statementTimeout: paymentTimeout };
  return new Pool({ ...settings, ...times, role: 'crm_app', name: 'payments', lanes: 2 });
}

/** Opens the connections for external calendars: none before the first calendar is connected. */
export function openCalendarsPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: jobWaitMs, statementTimeout, role: 'crm_app', name: 'calendars', lanes: 2 });
}

/** Opens the connections on which workforces record their steps: none before the first run. */
export function openWorkforcesPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: jobWaitMs, statementTimeout, role: 'crm_app', name: 'workforces', lanes: 2 });
}

/** Opens the connection on which exports record their progress: none before the first export. */
export function openExportsPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: jobWaitMs, statementTimeout, role: 'crm_app', name: 'exports', lanes: 1 });
}

/** Statement timeout in milliseconds for a page of an export, whose filter may match few records. */
const exportPageTimeout = 60_000;

/**
 * Opens the connections for the snapshots of exports: none before the first export. Requests do not
 * share them, because a snapshot is held until its file is written.
 */
export function openSnapshotPool(settings: DatabaseSettings): Pool {
  const times = { wait: jobWaitMs, statementTimeout: exportPageTimeout, abandonedAfter: exportPageTimeout };
  return new Pool({ ...settings, ...times, role: 'crm_app', name: 'snapshots', lanes: exportsAtOnce });
}

/**
 * Opens the connections on which imports write their rows: none before the first import. A chunk takes
 * longer than a request, and the statement timeout allows for that.
 */
export function openImportsPool(settings: DatabaseSettings): Pool {
  const times = { wait: jobWaitMs, statementTimeout: importTimeout };
  return new Pool({ ...settings, ...times, role: 'crm_app', name: 'imports', lanes: 2 });
}

/** Opens the connection on which reverts write their chunks: none before the first revert. */
export function openRevertsPool(settings: DatabaseSettings): Pool {
  const times = { wait: jobWaitMs, statementTimeout: importTimeout };
  return new Pool({ ...settings, ...times, role: 'crm_app', name: 'reverts', lanes: 1 });
}

/**
 * Opens the connections for sending messages: several, so that parallel sends do not wait for each
 * other's writes.
 */
export function openMessagesPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: jobWaitMs, statementTimeout, role: 'crm_app', name: 'messages', lanes: 4 });
}

/**
 * Opens the connections of the OAuth server, under a role that sees only its own tables: none
 * before the first app.
 */
export function openOAuthPool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait, statementTimeout, role: 'crm_oauth', name: 'oauth', lanes: 2 });
}

/**
 * Opens the connection on which the request log is written. A crash of the database may lose the
 * latest rows.
 */
export function openRequestLogPool(settings: DatabaseSettings): Pool {
  const shared = { ...settings, wait, statementTimeout, name: 'request-log', commitsMayBeLost: true };
  return new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
}

/** Opens the connection for purging companies, under a role that sees one company at a time. */
export function openPurgePool(settings: DatabaseSettings): Pool {
  return new Pool({ ...settings, wait: jobWaitMs, statementTimeout, role: 'crm_purge', name: 'purges', lanes: 1 });
}

/** Closes all pools; running transactions may finish within the time. */
export async function closePools(pools: Pools, seconds: number): Promise<void> {
  await Promise.all(Object.values(pools).map((pool: Pool) => pool.close(seconds)));
}
