// A transaction of one request: begun in the round trip of its first statement, ended with everything that must be written with it.
import { v7 as uuidv7 } from 'uuid';
import type { Lane, Pool, Sql } from './connect.ts';
import * as idempotency from './idempotency.ts';

/** Whose rows it sees. */
export type Scope = { companyId: string; testMode: boolean } | 'platform' | 'nobody';

export interface AuditRow {
  companyId: string;
  occurredAt: Date;
  actorKind: string;
  actorId: string;
  apiKeyId: string | null;
  keyName: string | null;
  requestId: string;
  ip: string;
  userAgent: string | null;
  action: string;
  object: string | null;
  recordId: string | null;
  changes: object | null;
  metadata: object | null;
  testMode: boolean;
  idempotencyKeyHash: Buffer | null;
}

export interface EventRow {
  companyId: string;
  testMode: boolean;
  event: string;
  occurredAt: Date;
  actor: object;
  /** null: the server did it by itself. */
  requestId: string | null;
  data: object;
}

/** Milliseconds before a request's deadline when its commit is refused: the time that the commit's answer may take. */
const answerTime = 100;

/** A statement was sent after its transaction: a fault of the code that sent it. */
export class TransactionEnded extends Error {
  constructor() {
    super('the transaction has ended, or another has begun');
  }
}

export class Transaction {
  readonly #pool: Pool;
  #lane: Lane | undefined;
  readonly #scope: Scope;
  /** Given out once begun, and good until the transaction ends or stands aside. */
  #handle: Sql | undefined;
  /** Resolves with when begin was answered, by performance.now(). */
  #begun: Promise<number> = Promise.resolve(0);
  #claimed = false;
  #ended = false;

  constructor(pool: Pool, lane: Lane, scope: Scope) {
    this.#pool = pool;
    this.#lane = lane;
    this.#scope = scope;
  }

  /** Sends begin and the tenant's settings on first use; they travel with the first statement. */
  get sql(): Sql {
    if (this.#handle) return this.#handle;
    if (this.#ended || !this.#lane) throw new TransactionEnded();
    const { sql, unended } = this.#lane;
    this.#lane.unended = false;
    const begun = sql.unsafe((unended ? 'commit; ' : '') + beginning(this.#scope)).execute();
    this.#begun = begun.then(
      () => performance.now(),
      () => 0,
    );
    this.#handle = this.#newHandle(sql);
    return this.#handle;
  }

  /** The driver's functions that statements are made of, behind a check: one sent after the end would run in somebody else's transaction. */
  #newHandle(sql: Sql): Sql {
    const check = (): void => {
      if (this.#handle !== handle) throw new TransactionEnded();
    };
    const send = (...parameters: Parameters<typeof sql>) => {
      check();
      return sql(...parameters);
    };
    send.unsafe = (...parameters: Parameters<typeof sql.unsafe>) => {
      check();
      return sql.unsafe(...parameters);
    };
    const { json, array, types, typed } = sql;
    const handle = Object.assign(send, { json, array, types, typed }) as unknown as Sql;
    return handle;
  }

  get broken(): boolean {
    return this.#lane?.broken ?? false;
  }

  /**
   * Waits for work that does not need the database. While nothing was written or locked, the connection serves others, and what
   * comes afterwards is a transaction of its own.
   */
  async aside<T>(work: Promise<T>): Promise<T> {
    work.catch(() => undefined);
    if (!this.#lane || this.#claimed || (this.#handle && (await this.#hasWritten()))) return work;
    if (this.#handle) this.#send('commit');
    this.#handle = undefined;
    this.#pool.release(this.#lane);
    this.#lane = undefined;
    try {
      return await work;
    } finally {
      const lane = await this.#pool.acquire();
      if (this.#ended) this.#pool.release(lane);
      else this.#lane = lane;
    }
  }

  /** True once a row was written or locked. */
  async #hasWritten(): Promise<boolean> {
    const [row] = await this.sql<
      { written: boolean }[]
    >`select pg_current_xact_id_if_assigned() is not null as written`;
    return row?.written ?? true;
  }

  /** Claims an Idempotency-Key until the transaction ends. */
  claim(claim: idempotency.Claim): Promise<idempotency.Verdict> {
    this.#claimed = true;
    return idempotency.claim(this.sql, claim);
  }

  /** Writes what belongs to the change and commits, in one round trip. @param left milliseconds that its request has left */
  async commit(
    audit: readonly AuditRow[],
    events: readonly EventRow[],
    answer: idempotency.Answer | undefined,
    now: Date,
    left: number,
  ): Promise<void> {
    if (!this.#handle && audit.length === 0 && events.length === 0 && !answer) {
      this.#end();
      return;
    }
    const { sql } = this;
    const statements: Promise<unknown>[] = [];
    if (audit.length > 0) statements.push(insertAudit(sql, audit));
    if (events.length > 0) statements.push(insertEvents(sql, events));
    if (answer) statements.push(idempotency.save(sql, answer, now));
    await this.#commitAfter(statements, left);
    if (this.broken) throw Object.assign(new Error('the connection failed'), { code: 'CONNECTION_CLOSED' });
  }

  /** Undoes the work since the claim, keeps the failure as its answer, and commits. */
  async keepFailure(answer: idempotency.Answer, now: Date, left: number): Promise<void> {
    const { sql } = this;
    const undone = sql.unsafe(`rollback to savepoint ${idempotency.savepoint}`).execute();
    const saved = idempotency.save(sql, answer, now);
    await this.#commitAfter([undone, saved], left);
  }

  /** Commits when all statements before were good and time is left, and rolls back otherwise. */
  async #commitAfter(statements: readonly Promise<unknown>[], left: number): Promise<void> {
    const deadline = performance.now() + left - answerTime;
    const before = Promise.allSettled(statements);
    const allowed = Math.floor(deadline - (await this.#begun));
    const [committed] = await Promise.allSettled([
      this.sql.unsafe(`call require_time_left(${allowed}); commit`).execute(),
    ]);
    const failed = [...(await before), committed].find((result) => result.status === 'rejected');
    // What failed took the commit behind it along.
    if (failed) this.abandon();
    else this.#end();
    if (failed) throw failed.reason;
  }

  endRead(): void {
    this.#end(this.#handle !== undefined);
  }

  abandon(): void {
    if (this.#ended) return;
    if (this.#handle && !this.broken) this.#send('rollback');
    this.#end();
  }

  destroy(): void {
    if (this.#ended) return;
    if (!this.#handle) {
      this.#end();
      return;
    }
    this.#ended = true;
    this.#handle = undefined;
    if (this.#lane) this.#pool.destroy(this.#lane);
  }

  /** Sends the end of the transaction; nothing waits for it. */
  #send(how: 'commit' | 'rollback'): void {
    const ending = this.sql.unsafe(how).execute();
    ending.catch(() => undefined);
  }

  #end(unended = false): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#handle = undefined;
    if (this.#lane) this.#pool.release(this.#lane, unended);
  }
}

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** One simple query: on both ends a third less work than begin and a prepared statement that sets the tenant. */
function beginning(scope: Scope): string {
  if (typeof scope === 'string') return 'begin';
  if (!uuid.test(scope.companyId)) throw new Error('not the id of a company');
  return `begin; set local app.company_id = '${scope.companyId}'; set local app.test_mode = '${scope.testMode}'`;
}

// Statements that are sent without waiting must all be started with execute(): a plain await starts a microtask later, and so out of order.
function insertAudit(sql: Sql, rows: readonly AuditRow[]): Promise<unknown> {
  const values = rows.map((row) => ({
    company_id: row.companyId,
    id: uuidv7(),
    occurred_at: row.occurredAt,
    actor_kind: row.actorKind,
    actor_id: row.actorId,
    api_key_id: row.apiKeyId,
    key_name: row.keyName,
    request_id: row.requestId,
    ip: row.ip,
    user_agent: row.userAgent,
    action: row.action,
    object: row.object,
    record_id: row.recordId,
    changes: row.changes === null ? null : sql.json(row.changes as never),
    metadata: row.metadata === null ? null : sql.json(row.metadata as never),
    test_mode: row.testMode,
    idempotency_key_hash: row.idempotencyKeyHash,
  }));
  return sql`insert into audit_logs ${sql(values)}`.execute();
}

function insertEvents(sql: Sql, rows: readonly EventRow[]): Promise<unknown> {
  const values = rows.map((row) => ({
    company_id: row.companyId,
    id: uuidv7(),
    test_mode: row.testMode,
    event: row.event,
    occurred_at: row.occurredAt,
    actor: sql.json(row.actor as never),
    request_id: row.requestId,
    data: sql.json(row.data as never),
  }));
  return sql`insert into outbox_events ${sql(values)}`.execute();
}
