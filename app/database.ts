// Joins the functions of db/ to what the runtime asks of a database, and opens their pools.
import { LRUCache } from 'lru-cache';
import {
  type AskedGrant,
  countUse,
  findCompany,
  findGrants,
  findKeys,
  findSessions,
} from '../db/access/credentials.ts';
import { findKeyPlaces, findUserPlaces } from '../db/access/places.ts';
import { findQuota, refundCalls } from '../db/billing/quota.ts';
import type { AuditRow, EventRow } from '../db/client/change-log.ts';
import { inTransaction } from '../db/client/job-transactions.ts';
import { grace, isOutage, isOverdue, isRace, Pool, type Sql } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import { Transaction as DatabaseTransaction } from '../db/client/transaction.ts';
import { findInboundDoor } from '../db/messaging/inbound-secrets.ts';
import { loadWorkspaceRows } from '../db/objects/workspace.ts';
import { findLastPositions } from '../db/records/feed.ts';
import { announceFile, type StoredFile } from '../db/records/stored-files.ts';
import { callsPerMonth, extraCalls } from '../domain/billing/plans.ts';
import { buildWorkspace, type Workspace } from '../domain/objects/workspace.ts';
import { companiesAtOnce } from '../jobs/automation/webhook-matching.ts';
import { feedsAtOnce } from '../jobs/records/dispatcher.ts';
import type { JobPools } from '../jobs/runner.ts';
import type { Config } from '../runtime/config.ts';
import type {
  ChangeContext,
  Database,
  GrantRecord,
  IdempotencyClaim,
  KeptAnswer,
  KeyRecord,
  Opening,
  SessionRecord,
  Transaction,
} from '../runtime/database.ts';
import type { Change } from '../runtime/handler.ts';
import { QuotaLeases } from '../runtime/limits/quota-leases.ts';
import { Refunds } from '../runtime/limits/refunds.ts';
import { coalesce } from '../runtime/limits/single-flight.ts';
import { UseCounts } from '../runtime/limits/use-counts.ts';
import type { FeedPosition } from '../runtime/pipeline/feed-notifier.ts';
import { startResponsiveTimeout } from '../runtime/responsive-timeout.ts';
import { ledgerOf } from './call-ledger.ts';
import { grantOf, permitsOf, subscriptionOf } from './credentials.ts';

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
/** The same where payments are taken, and nobody else waits. */
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

/** Tenants whose configuration is kept in memory. */
const keptWorkspaces = 1000;

/** @param told runs when events were committed; they wait for their positions */
export function buildDatabase(
  pools: Pools,
  told: () => void,
): Database & {
  settled(): Promise<void>;
  announceFile(place: StoredFile): Promise<void>;
  lastPositions(companyIds: readonly string[]): Promise<FeedPosition[]>;
} {
  const { credentials } = pools;
  const blocks = new QuotaLeases(ledgerOf(credentials, statementTimeout + grace));
  // A block that could not be given back is swept as that of a process that died.
  const lookUps = lookUpsOf(credentials, (companyId) => void blocks.end(companyId).catch(() => undefined));
  const uses = new UseCounts((companyId, own) => credentials.use((sql) => countUse(sql, companyId, own, new Date())));
  const refunds = new Refunds((owed) =>
    credentials.use((sql) => Promise.allSettled(owed.map((refund) => refundCalls(sql, refund)))),
  );
  const workspaces = new LRUCache<string, { version: number; workspace: Promise<Workspace> }>(atMost(keptWorkspaces));

  async function load(companyId: string): Promise<Workspace> {
    const scope = { companyId, testMode: false };
    const transaction = await DatabaseTransaction.open(pools.configuration, scope, { reads: 'many' });
    const cancel = startResponsiveTimeout(() => transaction.destroy(), statementTimeout + grace);
    try {
      return buildWorkspace(await loadWorkspaceRows(transaction.sql, companyId));
    } finally {
      cancel();
      transaction.endRead();
    }
  }

  const inTenant = <T>(
    { companyId, testMode }: TenantScope,
    work: (sql: Sql, note: (row: AuditRow) => void) => Promise<T>,
  ): Promise<T> =>
    inTransaction(pools.tenants, { companyId, testMode }, statementTimeout + grace, (sql, _, note) => work(sql, note));

  return {
    async open(scope, opening?: Opening) {
      const pool = scope === 'platform' ? pools.platform : pools.tenants;
      return new RequestTransaction(await DatabaseTransaction.open(pool, scope, opening), told);
    },
    ...lookUps,
    findInboundDoor: (companyId, testMode, now) =>
      credentials.use((sql) => findInboundDoor(sql, companyId, testMode ? 'test' : 'live', now)),
    countUse: (companyId, keyId, ip) => uses.add(companyId, keyId, ip),
    async findCompany(companyId) {
      const row = await credentials.use((sql) => findCompany(sql, companyId));
      return row && { ...row, subscription: subscriptionOf(row, new Date()) };
    },
    charge: (companyId, now) => blocks.take(companyId, now),
    findQuota: (companyId) =>
      credentials.use((sql) => findQuota(sql, companyId, { callsPerMonth, extraCalls }, new Date())),
    refund(charge) {
      if (!blocks.takeBack(charge)) refunds.add(charge);
    },
    async settleUsage(companyId) {
      await Promise.all([blocks.settle(companyId), refunds.settled(), uses.flush()]);
    },
    async settled() {
      await Promise.all([refunds.settled(), blocks.close(), uses.flush()]);
    },
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
    apart: (by, work) =>
      inTenant(by.caller, (sql, note) => work(sql, (change) => note(auditRow(change, by, new Date())))),
    announceFile: (place: StoredFile) => inTenant(place, (sql) => announceFile(sql, place, new Date())),
    lastPositions: (companyIds) => pools.platform.use((sql) => findLastPositions(sql, companyIds)),
    ping: () => pools.credentials.use(async (sql) => void (await sql`select 1`)),
    isOutage,
    isOverdue,
    isRace,
  };
}

/**
 * The look-ups of credentials: requests that wait at the same moment share one for each company.
 * @param changed called with the company of a key that is not what it was, or whose subscription is not
 */
function lookUpsOf(
  credentials: Pool,
  changed: (companyId: string) => void,
): Pick<Database, 'findKey' | 'rememberedKey' | 'findSession' | 'findGrant'> {
  const keyPlace = rememberedPlaces((hashes) => credentials.use((sql) => findKeyPlaces(sql, hashes)));
  const userPlace = rememberedPlaces((userIds) => credentials.use((sql) => findUserPlaces(sql, userIds)));
  const remembered = new LRUCache<string, RememberedKey>(atMost(keptKeys));
  const askKey = coalesce<Placed<{ hash: string }>, KeyRecord>(
    byCompany(credentials, async (sql, companyId, questions) => {
      const now = new Date();
      const rows = await findKeys(sql, companyId, [...new Set(questions.map(({ hash }) => hash))]);
      const records = new Map<string, KeyRecord>();
      for (const { hash } of questions) {
        const row = rows.get(hash);
        if (!row) {
          remembered.delete(hash);
          continue;
        }
        const record = records.get(hash) ?? { ...row, subscription: subscriptionOf(row, now) };
        records.set(hash, record);
        const before = remembered.get(hash);
        if (before && before.record.stamp !== record.stamp) changed(companyId);
        // What the end of a trial opens or closes changes without a change of any row.
        const changesAt = row.trialEndsAt && row.trialEndsAt > now ? row.trialEndsAt : null;
        remembered.set(hash, { record, changesAt });
      }
      return ({ hash }) => records.get(hash);
    }),
    2,
  );
  const askSession = coalesce<Placed<{ sessionId: string }>, SessionRecord>(
    byCompany(credentials, async (sql, companyId, questions) => {
      const now = new Date();
      const rows = await findSessions(sql, companyId, [...new Set(questions.map(({ sessionId }) => sessionId))]);
      return ({ sessionId }) => {
        const row = rows.get(sessionId);
        return row && { ...row, subscription: subscriptionOf(row, now), permits: permitsOf(row) };
      };
    }),
    1,
  );
  const askGrant = coalesce<Placed<AskedGrant>, GrantRecord>(
    byCompany(credentials, async (sql, companyId, questions) => {
      const now = new Date();
      const rows = await findGrants(sql, companyId, questions);
      const records = new Map(
        rows.map((row, index) => [
          questions[index],
          row && { ...row, subscription: subscriptionOf(row, now), grant: grantOf(row) },
        ]),
      );
      return (question) => records.get(question);
    }),
    1,
  );
  return {
    async findKey(hash) {
      const id = hash.toString('hex');
      const companyId = await keyPlace(id);
      return companyId === undefined ? undefined : askKey({ companyId, hash: id });
    },
    rememberedKey(hash, now) {
      const kept = remembered.get(hash.toString('hex'));
      return kept && (kept.changesAt === null || now < kept.changesAt) ? kept.record : undefined;
    },
    findSession: (companyId, sessionId) => askSession({ companyId, sessionId }),
    async findGrant(userId, clientId, audience) {
      const companyId = await userPlace(userId);
      return companyId === undefined ? undefined : askGrant({ companyId, userId, clientId, audience });
    },
  };
}

/** A key as it was found last. */
interface RememberedKey {
  record: KeyRecord;
  /** When it becomes another by itself; null: never. */
  changesAt: Date | null;
}

/** Keys that are kept in memory as they were found. */
const keptKeys = 10_000;

type Placed<Question> = Question & { companyId: string };

/** Room for so many, which is taken as it fills: by `max` the library takes all of it at once. */
const atMost = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 });

/** Keys and users whose company is kept in memory. */
const keptPlaces = 50_000;

/**
 * Makes a function that tells the company of a key or a user. What was found is remembered, since it never changes; what became of
 * the key or the user is asked each time. What was not found may come yet.
 */
function rememberedPlaces(
  lookUp: (ids: readonly string[]) => Promise<Map<string, string>>,
): (id: string) => Promise<string | undefined> {
  const kept = new LRUCache<string, string>(atMost(keptPlaces));
  const ask = coalesce<string, string>((ids) => {
    const found = lookUp([...new Set(ids)]);
    return ids.map(async (id) => (await found).get(id));
  }, 1);
  return async (id) => {
    const known = kept.get(id);
    if (known !== undefined) return known;
    const found = await ask(id);
    if (found !== undefined) kept.set(id, found);
    return found;
  };
}

/**
 * Makes a look-up that asks about each company in a statement of its own, all of them in one round trip. Where one fails, only those fail
 * who asked about its company.
 * @param lookUp sends its statement at once; tells then what each question is answered with
 */
function byCompany<Question, Answer>(
  pool: Pool,
  lookUp: (
    sql: Sql,
    companyId: string,
    questions: readonly Placed<Question>[],
  ) => Promise<(question: Placed<Question>) => Answer | undefined>,
): (questions: readonly Placed<Question>[]) => readonly Promise<Answer | undefined>[] {
  return (questions) => {
    const asked = pool.use(async (sql) => {
      const companies = [...Map.groupBy(questions, ({ companyId }) => companyId)];
      const answers = new Map(companies.map(([companyId, own]) => [companyId, lookUp(sql, companyId, own)]));
      await Promise.allSettled(answers.values());
      return answers;
    });
    return questions.map(async (question) => (await (await asked).get(question.companyId))?.(question));
  };
}

/** The runtime's transaction on top of the database's: turns changes into rows. */
class RequestTransaction implements Transaction {
  readonly #inner: DatabaseTransaction;
  readonly #told: () => void;

  constructor(inner: DatabaseTransaction, told: () => void) {
    this.#inner = inner;
    this.#told = told;
  }

  get sql() {
    return this.#inner.sql;
  }

  get broken() {
    return this.#inner.broken;
  }

  opened() {
    return this.#inner.verifyPreconditions();
  }

  claim(claim: IdempotencyClaim) {
    return this.#inner.claim(claim);
  }

  expect(outcome: Promise<unknown>): void {
    this.#inner.awaitAtCommit(outcome);
  }

  firstFailure(): Promise<unknown> {
    return this.#inner.firstFailure();
  }

  planOnce(): void {
    this.#inner.planOnce();
  }

  aside<T>(work: Promise<T>): Promise<T> {
    return this.#inner.withoutConnection(work);
  }

  suspend(left: number): Promise<void> {
    return this.#inner.suspend(left);
  }

  resume(): Promise<void> {
    return this.#inner.resume();
  }

  async commit(changes: readonly Change[], context: ChangeContext, left: number, answer?: KeptAnswer): Promise<void> {
    const writtenAt = new Date();
    const audit = changes.map((change) => auditRow(change, context, writtenAt));
    const events = changes.flatMap((change) => eventRows(change, context));
    await this.#inner.commit(audit, events, answer, context.now, left);
    if (events.length > 0) this.#told();
  }

  keepFailure(answer: KeptAnswer, left: number): Promise<boolean> {
    return this.#inner.storeFailure(answer, new Date(), left);
  }

  endRead(): void {
    this.#inner.endRead();
  }

  undo(): Promise<void> {
    return this.#inner.undo();
  }

  abandon(): void {
    this.#inner.abandon();
  }

  destroy(): void {
    this.#inner.destroy();
  }
}

/** @param writtenAt after all locks, so that rows of one thing follow the order of its changes */
function auditRow(change: Change, { caller, idempotencyKeyHash }: ChangeContext, writtenAt: Date): AuditRow {
  return {
    companyId: change.companyId ?? caller.companyId,
    occurredAt: change.occurredAt ?? writtenAt,
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
    occurredAt: change.occurredAt ?? now,
    actor: change.actor ?? caller.actor,
    requestId: caller.requestId,
    data: event.data,
    changes: event.changes,
    takenFrom: event.takenFrom,
  }));
}
