// Part of the composition root: joins the functions of db/ to what the runtime asks of a store.
import { LRUCache } from 'lru-cache';
import { grace, isOutage, isOverdue, isRace, Pool } from './db/connect.ts';
import {
  type AskedGrant,
  type AskedKey,
  findGrants,
  findKeys,
  findSessions,
  type SessionRow,
} from './db/credentials.ts';
import { refundCalls } from './db/quota.ts';
import { announceFile, type StoredFile } from './db/stored-files.ts';
import { type AuditRow, Transaction as DatabaseTransaction, type EventRow } from './db/transaction.ts';
import { loadWorkspaceRows } from './db/workspace.ts';
import { callsPerMonth } from './domain/plans.ts';
import { buildWorkspace, type Workspace, type WorkspaceRows } from './domain/workspace.ts';
import { coalesce } from './runtime/coalesce.ts';
import type { Change } from './runtime/handler.ts';
import { shareOut } from './runtime/quota.ts';
import { Refunds } from './runtime/refunds.ts';
import type {
  ChangeContext,
  GrantRecord,
  IdempotencyClaim,
  KeptAnswer,
  KeyRecord,
  Store,
  Transaction,
} from './runtime/store.ts';

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

/** Milliseconds that a request may wait for a connection. */
const wait = 1000;
/** Milliseconds after which the database gives a statement up. */
const statementTimeout = 1500;

export function openPools(url: string, lanes: number, prepare: boolean): Pools {
  const shared = { url, prepare, wait, statementTimeout };
  return {
    tenants: new Pool({ ...shared, role: 'crm_app', lanes }),
    configuration: new Pool({ ...shared, role: 'crm_app', lanes: 2 }),
    platform: new Pool({ ...shared, role: 'crm_platform', lanes: 2 }),
    // Look-ups count the calls of each key; a few counts lost with the database are worth not waiting for the disk each time.
    credentials: new Pool({ ...shared, role: 'crm_platform', lanes: 3, commitsMayBeLost: true }),
  };
}

/** Opens the one connection of what runs beside the requests, and waits until the database answers on it. */
export async function openBackgroundPool(url: string, prepare: boolean): Promise<Pool> {
  const pool = new Pool({ url, prepare, wait, statementTimeout, role: 'crm_platform', lanes: 1 });
  await pool.use(async (sql) => void (await sql`select 1`));
  return pool;
}

/** Opens the one connection of background work that is done for one tenant at a time, under the role that row-level security binds. */
export function openBackgroundTenantPool(url: string, prepare: boolean): Pool {
  return new Pool({ url, prepare, wait, statementTimeout, role: 'crm_app', lanes: 1 });
}

/** Ends all connections; those at work may finish within the time. */
export async function closePools(pools: Pools, seconds: number): Promise<void> {
  await Promise.all(Object.values(pools).map((pool: Pool) => pool.close(seconds)));
}

/** Tenants whose configuration is kept in memory. */
const keptWorkspaces = 1000;

export function buildStore(
  pools: Pools,
): Store & { settled(): Promise<void>; announceFile(place: StoredFile): Promise<void> } {
  const askKey = coalesce<{ hash: Buffer; ip: string }, KeyRecord>(async (questions) => {
    const asked = new Map<string, AskedKey>();
    for (const { hash, ip } of questions) {
      const id = hash.toString('hex');
      const before = asked.get(id);
      if (before) before.calls += 1;
      else asked.set(id, { hash, ip, calls: 1 });
    }
    const sorted = [...asked.keys()].sort().map((id) => asked.get(id) as AskedKey);
    const rows = await pools.credentials.use((sql) => findKeys(sql, sorted, callsPerMonth, new Date()));
    const share = shareOut();
    return questions.map(({ hash }) => {
      const row = rows.get(hash.toString('hex'));
      return row && { ...row, quota: share(row.companyId, row) };
    });
  }, 2);
  const refunds = new Refunds((owed) => pools.credentials.use((sql) => refundCalls(sql, owed)));
  const askSession = coalesce<string, SessionRow>(async (ids) => {
    const rows = await pools.credentials.use((sql) => findSessions(sql, [...new Set(ids)]));
    return ids.map((id) => rows.get(id));
  }, 1);
  const askGrant = coalesce<AskedGrant, GrantRecord>(async (asked) => {
    const rows = await pools.credentials.use((sql) => findGrants(sql, asked, callsPerMonth, new Date()));
    const share = shareOut();
    return rows.map((row) => row && { ...row, quota: share(row.companyId, row) });
  }, 1);
  const workspaces = new LRUCache<string, { version: number; workspace: Promise<Workspace> }>({ max: keptWorkspaces });

  async function load(companyId: string): Promise<Workspace> {
    const scope = { companyId, testMode: false };
    const transaction = new DatabaseTransaction(pools.configuration, await pools.configuration.acquire(), scope);
    const overdue = setTimeout(() => transaction.destroy(), statementTimeout + grace);
    try {
      return buildWorkspace((await loadWorkspaceRows(transaction.sql, companyId)) as WorkspaceRows);
    } finally {
      clearTimeout(overdue);
      transaction.endRead();
    }
  }

  return {
    async open(scope) {
      const pool = scope === 'platform' ? pools.platform : pools.tenants;
      return new RequestTransaction(new DatabaseTransaction(pool, await pool.acquire(), scope));
    },
    findKey: (hash, ip) => askKey({ hash, ip }),
    refund: (charge) => refunds.add(charge),
    settled: () => refunds.settled(),
    findSession: askSession,
    findGrant: (userId, clientId) => askGrant({ userId, clientId }),
    workspace(companyId, version) {
      const kept = workspaces.get(companyId);
      // What was loaded for a version can only be newer than it, never older.
      if (kept && kept.version >= version) return kept.workspace;
      const workspace = load(companyId);
      const entry = { version, workspace };
      workspaces.set(companyId, entry);
      workspace.catch(() => {
        if (workspaces.get(companyId) === entry) workspaces.delete(companyId);
      });
      return workspace;
    },
    async announceFile(place: StoredFile) {
      const transaction = new DatabaseTransaction(pools.tenants, await pools.tenants.acquire(), place);
      const overdue = setTimeout(() => transaction.destroy(), statementTimeout + grace);
      try {
        await announceFile(transaction.sql, place, new Date());
        await transaction.commit([], [], undefined, new Date(), statementTimeout);
      } catch (error) {
        transaction.abandon();
        throw error;
      } finally {
        clearTimeout(overdue);
      }
    },
    ping: () => pools.credentials.use(async (sql) => void (await sql`select 1`)),
    isOutage,
    isOverdue,
    isRace,
  };
}

/** The runtime's transaction on top of the database's: turns changes into rows. */
class RequestTransaction implements Transaction {
  readonly #inner: DatabaseTransaction;

  constructor(inner: DatabaseTransaction) {
    this.#inner = inner;
  }

  get sql() {
    return this.#inner.sql;
  }

  get broken() {
    return this.#inner.broken;
  }

  claim(claim: IdempotencyClaim) {
    return this.#inner.claim(claim);
  }

  aside<T>(work: Promise<T>): Promise<T> {
    return this.#inner.aside(work);
  }

  commit(changes: readonly Change[], context: ChangeContext, left: number, answer?: KeptAnswer): Promise<void> {
    const audit = changes.map((change) => auditRow(change, context));
    const events = changes.flatMap((change) => eventRows(change, context));
    return this.#inner.commit(audit, events, answer, context.now, left);
  }

  keepFailure(answer: KeptAnswer, left: number): Promise<void> {
    return this.#inner.keepFailure(answer, new Date(), left);
  }

  endRead(): void {
    this.#inner.endRead();
  }

  abandon(): void {
    this.#inner.abandon();
  }

  destroy(): void {
    this.#inner.destroy();
  }
}

function auditRow(change: Change, { caller, now, idempotencyKeyHash }: ChangeContext): AuditRow {
  return {
    companyId: change.companyId ?? caller.companyId,
    occurredAt: now,
    actorKind: (change.actor ?? caller.actor).kind,
    actorId: (change.actor ?? caller.actor).id,
    apiKeyId: caller.kind === 'api_key' ? caller.actor.id : null,
    keyName: caller.kind === 'api_key' ? caller.actor.name : null,
    requestId: caller.requestId,
    ip: caller.ip,
    userAgent: caller.userAgent,
    action: change.action,
    object: change.object ?? null,
    recordId: change.recordId ?? null,
    changes: change.changes ?? null,
    metadata: change.metadata ?? null,
    testMode: caller.testMode,
    idempotencyKeyHash,
  };
}

function eventRows(change: Change, { caller, now }: ChangeContext): EventRow[] {
  if (!change.event) return [];
  return [change.event, ...(change.furtherEvents ?? [])].map((event) => ({
    companyId: change.companyId ?? caller.companyId,
    testMode: caller.testMode,
    event: event.name,
    occurredAt: now,
    actor: change.actor ?? caller.actor,
    requestId: caller.requestId,
    data: event.data,
  }));
}
