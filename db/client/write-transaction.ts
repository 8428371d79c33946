// A transaction that may write. It begins with its first statement and commits audit and outbox.
import { type AuditRow, type EventRow, insertAudit, insertEvents } from './change-log.ts';
import * as idempotency from './idempotency.ts';
import { beginStatement, buildStampQuery, isChanged, isKeyUnchanged } from './key-versions.ts';
import { guardStatements, isPipelined, type Sql, sendBehind } from './pipeline.ts';
import type { Pool, PooledConnection } from './pool.ts';
import { appendStatement, begin, beginWith, PreparedPreamble } from './preambles.ts';
import {
  createConnectionError,
  type PreconditionResult,
  type Preconditions,
  type Scope,
  TransactionEnded,
} from './preconditions.ts';
import { buildTenantSettings } from './tenant.ts';

/**
 * Milliseconds before a request's deadline from which its commit is rejected: the time that the
 * response to the commit may take.
 */
const responseTime = 100;

/**
 * Fails if a time of the database has passed, and stores that time as a setting, so that triggers
 * can check it. This is what require_time_left does, without the cost of a procedure.
 */
const requireTimeLeft = new PreparedPreamble(
  'in time',
  `select case when set_config('app.deadline', $1, true)::timestamptz < clock_timestamp()
     then refuse('the time of the transaction has run out', '57014') end`,
);
/** Makes the checks of deferred constraints now instead of at the commit. */
const checkDeferred = 'set constraints all immediate';

/** The deadline of a transaction whose begin failed: its commit fails. */
const longAgo = '-infinity';

/** The information from the response to begin. */
interface Begun {
  /** By performance.now(); 0 if begin failed. */
  at: number;
  /**
   * Milliseconds by which the database's clock was ahead of `performance.now()`, at least;
   * undefined if begin did not return the time.
   */
  clockAhead: number | undefined;
}

interface Open {
  kind: 'open';
  connection: PooledConnection;
  /** Creates its statements. */
  handle: Sql;
  /** Never rejects. */
  begun: Promise<Begun>;
}

type State =
  /** Begins with its next statement. */
  | { kind: 'ready'; connection: PooledConnection }
  | Open
  /** It waits for other work, and its connection serves other calls. */
  | { kind: 'without connection' }
  | { kind: 'ended'; connection: PooledConnection | undefined };

/** The holder of the call's Idempotency-Key. */
type KeyState =
  | { kind: 'none' }
  /**
   * The locks of this transaction. If isFirstUse is true, no response is stored for the key, or the
   * transaction fails.
   */
  | { kind: 'claimed'; claim: idempotency.Claim; isFirstUse: boolean }
  /** A row, since the call was suspended. */
  | { kind: 'held'; claim: idempotency.Claim };

export class WriteTransaction {
  readonly #pool: Pool;
  readonly #scope: Scope;
  readonly #preconditions: Preconditions;
  #state: State;
  #key: KeyState;
  /**
   * Resolves when the transaction has begun and its preconditions are known; undefined until they
   * are sent.
   */
  #result: Promise<PreconditionResult> | undefined;
  /** True once a statement was created by the handle. */
  #isUsed = false;
  /** Outcomes of statements that were not awaited. */
  readonly #awaited: Promise<unknown>[] = [];

  /** Takes a connection. @throws PoolExhausted if none became free in time */
  static async open(pool: Pool, scope: Scope, preconditions: Preconditions = {}): Promise<WriteTransaction> {
    return new WriteTransaction(pool, await pool.acquire(), scope, preconditions);
  }

  /** @param held the Idempotency-Key that a row has held since the call was suspended */
  constructor(
    pool: Pool,
    connection: PooledConnection,
    scope: Scope,
    preconditions: Preconditions = {},
    held?: idempotency.Claim,
  ) {
    this.#pool = pool;
    this.#scope = scope;
    this.#preconditions = preconditions;
    this.#state = { kind: 'ready', connection };
    this.#key = held ? { kind: 'held', claim: held } : { kind: 'none' };
  }

  /**
   * Opens the transaction at its first use: begin, the tenant's settings and the preconditions are
   * sent with the first statement.
   * @throws TransactionEnded
   */
  get sql(): Sql {
    return this.#open().handle;
  }

  #open(): Open {
    const state = this.#state;
    if (state.kind === 'open') return state;
    if (state.kind !== 'ready') throw new TransactionEnded();
    const { connection } = state;
    if (connection.shared)
      throw new Error('a transaction would include statements of other requests on its connection');
    const known = this.#result;
    const beginning = this.#begin(connection, known ? {} : this.#preconditions);
    const begun = beginning.then(
      ({ clockAhead }) => ({ at: performance.now(), clockAhead }),
      () => ({ at: 0, clockAhead: undefined }),
    );
    this.#result = known ? beginning.then(() => known) : this.#verify(connection, beginning);
    // Callers that act on what they read wait for it themselves.
    this.#result.catch(() => undefined);
    const open: Open = { kind: 'open', connection, handle: this.#newHandle(connection), begun };
    this.#state = open;
    return open;
  }

  /** A statement that is sent after the end would run in the transaction of another call. */
  #newHandle(connection: PooledConnection): Sql {
    const handle = guardStatements(connection.sql, () => {
      if (this.#state.kind !== 'open' || this.#state.handle !== handle) throw new TransactionEnded();
      this.#isUsed = true;
      return undefined;
    });
    return handle;
  }

  /**
   * Sends begin. If it fails, the statements behind it fail, too. If statements are pipelined, a
   * violated precondition also makes it fail.
   * @returns the version of the credential, if the caller must compare it
   */
  async #begin(
    connection: PooledConnection,
    { credential, claim }: Preconditions,
  ): Promise<{ stamp?: string | null; clockAhead: number | undefined }> {
    if (typeof this.#scope !== 'string' && this.#pool.canPipeline) {
      const { text, parameters } = beginStatement(this.#scope, credential, claim);
      const preamble = claim ? beginWith(idempotency.lock(claim)) : begin;
      const [row] = await this.#pool.sendPipelined(connection, preamble, text, parameters);
      const { clock } = row as { clock: Date };
      connection.clock.note(clock);
      return { clockAhead: clock.getTime() - performance.now() };
    }
    const statements = ['begin'];
    if (typeof this.#scope !== 'string') statements.push(...buildTenantSettings(this.#scope));
    if (credential) statements.push(buildStampQuery(credential));
    const rows = await this.#pool.sendTogether(connection, statements);
    return { clockAhead: undefined, ...(credential ? (rows[0] as { stamp: string | null }) : {}) };
  }

  async #verify(
    connection: PooledConnection,
    beginning: Promise<{ stamp?: string | null }>,
  ): Promise<PreconditionResult> {
    const { credential, claim } = this.#preconditions;
    const isVerifiedByBegin = isPipelined(connection.sql);
    if (claim) this.#key = { kind: 'claimed', claim, isFirstUse: isVerifiedByBegin };
    const claiming = claim === undefined || isVerifiedByBegin || idempotency.claimNow(connection.sql, claim);
    // If both fail, begin is the reason.
    if (typeof claiming === 'object') claiming.catch(() => undefined);
    try {
      const { stamp } = await beginning;
      if (credential && !isVerifiedByBegin && !isKeyUnchanged(stamp, credential)) return 'credential_changed';
    } catch (error) {
      if (idempotency.isTaken(error)) return 'key_taken';
      if (isChanged(error)) return 'credential_changed';
      throw error;
    }
    return (await claiming) ? 'ok' : 'key_taken';
  }

  get #hasPreconditions(): boolean {
    return this.#preconditions.credential !== undefined || this.#preconditions.claim !== undefined;
  }

  /**
   * Returns the state of the preconditions. If it is not `ok`, nothing that was read may be used.
   */
  async verifyPreconditions(): Promise<PreconditionResult> {
    if (!this.#result && !this.#hasPreconditions) return 'ok';
    if (!this.#result) this.#open();
    return this.#result as Promise<PreconditionResult>;
  }

  /**
   * Plans the statements that follow once for each connection, for any values, until the
   * transaction ends.
   */
  planOnce(): void {
    this.#send('set local plan_cache_mode = force_generic_plan');
  }

  /**
   * Claims an Idempotency-Key until the transaction ends, or returns the state of the call that has
   * it.
   */
  claim(claim: idempotency.Claim): Promise<idempotency.ClaimResult> {
    this.#key = { kind: 'claimed', claim, isFirstUse: false };
    return idempotency.claim(this.#open().connection.sql, claim);
  }

  /**
   * Waits for work that does not need the database. If nothing was written or locked, the
   * connection serves other calls meanwhile, and later statements are a new transaction.
   */
  async withoutConnection<T>(work: Promise<T>): Promise<T> {
    work.catch(() => undefined);
    if (this.#key.kind !== 'none' || (this.#state.kind === 'open' && (await this.#hasWritten()))) return work;
    const state = this.#state;
    if (state.kind !== 'ready' && state.kind !== 'open') return work;
    if (state.kind === 'open') this.#send('commit');
    this.#state = { kind: 'without connection' };
    this.#pool.release(state.connection);
    try {
      return await work;
    } finally {
      await this.#takeConnection();
    }
  }

  async #takeConnection(): Promise<void> {
    const connection = await this.#pool.acquire();
    if (this.#state.kind === 'ended') this.#pool.release(connection);
    else this.#state = { kind: 'ready', connection };
  }

  /** Returns true if a row was written or locked. */
  async #hasWritten(): Promise<boolean> {
    const [row] = await this.sql<
      { written: boolean }[]
    >`select pg_current_xact_id_if_assigned() is not null as written`;
    return row?.written ?? true;
  }

  /**
   * Continues without the outcome of a sent statement. If the statement fails, the commit fails
   * with its error.
   */
  awaitAtCommit(outcome: Promise<unknown>): void {
    outcome.catch(() => undefined);
    this.#awaited.push(outcome);
  }

  /**
   * Returns the error of the first failed statement that was not awaited; undefined if there is
   * none.
   */
  async firstFailure(): Promise<unknown> {
    const failed = (await Promise.allSettled(this.#awaited)).find((outcome) => outcome.status === 'rejected');
    return failed?.reason;
  }

  /**
   * Commits and gives the connection back while the call waits for other work.
   * @param left milliseconds that the request has left
   * @returns the claim of the Idempotency-Key, which a row holds from now on
   */
  async suspend(left: number): Promise<idempotency.Claim | undefined> {
    const key = this.#key;
    // A call may suspend several times. Each time extends the lease of its key.
    const hold = key.kind === 'claimed' ? idempotency.hold : idempotency.renewHold;
    await this.#commitAfter(key.kind === 'none' ? [] : [hold(this.#open().connection.sql, key.claim)], left);
    if (this.broken) throw createConnectionError();
    return key.kind === 'none' ? undefined : key.claim;
  }

  /**
   * Writes the audit rows, the events and the response of the change and commits, in one round
   * trip. It may be sent before the preconditions are known. If one does not hold, or if an earlier
   * statement failed, nothing is committed.
   * @param left milliseconds that the request has left
   * @throws the error of the first statement that failed
   */
  async commit(
    audit: readonly AuditRow[],
    events: readonly EventRow[],
    response: idempotency.StoredResponse | undefined,
    now: Date,
    left: number,
  ): Promise<void> {
    const isVerified = this.#result !== undefined || !this.#hasPreconditions;
    const hasNothing = audit.length === 0 && events.length === 0 && !response && this.#key.kind !== 'held';
    if (this.#state.kind !== 'open' && isVerified && hasNothing) return this.end();
    const { connection } = this.#open();
    // Without pipelining, nothing else prevents the commit.
    if (!isPipelined(connection.sql) && this.#result && (await this.#result) !== 'ok') return;
    const statements: Promise<unknown>[] = [];
    if (audit.length > 0) statements.push(insertAudit(connection.sql, audit));
    if (events.length > 0) statements.push(insertEvents(connection.sql, events));
    if (response) {
      const isFirstUse = this.#key.kind === 'claimed' && this.#key.isFirstUse;
      statements.push(idempotency.save(connection.sql, response, now, isFirstUse));
    } else if (this.#key.kind === 'held') statements.push(idempotency.releaseHold(connection.sql, this.#key.claim));
    await this.#commitAfter(statements, left);
    if (this.broken) throw createConnectionError();
  }

  /**
   * Rolls back, claims the key again if there was any work, stores the failure as its response, and
   * commits. A savepoint would avoid the second claim, but every successful call would pay for it.
   * @returns false if another call with the key came in between, and nothing was stored
   */
  async storeFailure(response: idempotency.StoredResponse, now: Date, left: number): Promise<boolean> {
    this.#awaited.length = 0;
    const isAgain = this.#isUsed && this.#key.kind !== 'held';
    if (this.#isUsed) {
      const { connection } = this.#open();
      this.#send('rollback');
      this.#state = { kind: 'ready', connection };
    }
    const { sql } = this.#open().connection;
    const claimed = isAgain ? idempotency.claimNow(sql, response.claim) : Promise.resolve(true);
    const saved = idempotency.save(sql, response, now, false);
    try {
      await this.#commitAfter([claimed, saved], left);
      return true;
    } catch (error) {
      if ((await claimed.catch(() => true)) === false) return false;
      throw error;
    }
  }

  /**
   * Makes the checks of a commit, including deferred constraints, then rolls back, in one round
   * trip. The locks are released when it returns.
   * @param left milliseconds that the request has left
   * @throws the error of the first statement that failed
   */
  async checkAndRollBack(left: number): Promise<void> {
    await this.#endAfter([], left, 'rollback');
    if (this.broken) throw createConnectionError();
  }

  /** Commits if all earlier statements succeeded and time is left, and rolls back otherwise. */
  #commitAfter(statements: readonly Promise<unknown>[], left: number): Promise<void> {
    return this.#endAfter(statements, left, 'commit');
  }

  /**
   * @param ending `rollback` checks deferred constraints first, which `commit` does by itself
   */
  async #endAfter(statements: readonly Promise<unknown>[], left: number, ending: 'commit' | 'rollback'): Promise<void> {
    const deadline = performance.now() + left - responseTime;
    const before = Promise.allSettled([...this.#awaited.splice(0), ...statements]);
    const { connection, begun } = this.#open();
    let ended: PromiseLike<unknown>;
    if (isPipelined(connection.sql)) {
      const inTime = requireTimeLeft.bind([await toDatabaseTime(connection, begun, deadline)]);
      ended = sendBehind(connection.sql, ending === 'commit' ? inTime : appendStatement(inTime, checkDeferred), ending);
    } else {
      const inTime = `call require_time_left(${Math.floor(deadline - (await begun).at)})`;
      const checks = ending === 'commit' ? [inTime] : [inTime, checkDeferred];
      ended = connection.sql.unsafe([...checks, ending].join('; ')).execute();
    }
    const [outcome] = await Promise.allSettled([ended]);
    const failed = [...(await before), outcome].find((result) => result.status === 'rejected');
    // The failed statement also prevented the commit or rollback behind it.
    if (failed) this.abandon();
    else this.end();
    if (failed) throw failed.reason;
  }

  /** Ends a transaction that only read, without waiting for the response. */
  endRead(): void {
    if (this.#state.kind === 'open' && !this.broken) this.#send('commit');
    this.end();
  }

  /** Rolls back and waits for that, so that a retry does not meet the locks of this transaction. */
  async undo(): Promise<void> {
    const state = this.#state;
    if (state.kind === 'open' && !this.broken) {
      // If the connection failed, PostgreSQL has rolled back, too.
      await state.connection.sql
        .unsafe('rollback')
        .execute()
        .catch(() => undefined);
      if (this.#state === state) this.#state = { kind: 'ready', connection: state.connection };
    }
    this.abandon();
  }

  /** Rolls back, without waiting for the response. */
  abandon(): void {
    const state = this.#state;
    if ((state.kind === 'open' || state.kind === 'ready') && !this.broken) {
      if (state.kind === 'open') this.#send('rollback');
      if (this.#key.kind === 'held') this.#releaseHold(state.connection, this.#key.claim);
    }
    this.end();
  }

  /** Does not wait for the response: if this fails, the key becomes free when its lease expires. */
  #releaseHold(connection: PooledConnection, claim: idempotency.Claim): void {
    this.#state = { kind: 'ready', connection };
    void idempotency.releaseHold(this.#open().connection.sql, claim).catch(() => undefined);
    this.#send('commit');
  }

  /** Ends the transaction and closes its connection if statements may still run on it. */
  destroy(): void {
    const state = this.#state;
    if (state.kind === 'open') {
      this.#state = { kind: 'ended', connection: state.connection };
      this.#pool.destroy(state.connection);
    } else this.end();
  }

  /** Gives the connection back without sending anything. */
  end(): void {
    const state = this.#state;
    if (state.kind === 'ended') return;
    const connection = state.kind === 'without connection' ? undefined : state.connection;
    this.#state = { kind: 'ended', connection };
    if (connection) this.#pool.release(connection);
  }

  /** Sends a statement of the transaction itself, without waiting for the response. */
  #send(text: string): void {
    this.#open()
      .connection.sql.unsafe(text)
      .execute()
      .catch(() => undefined);
  }

  /** True after the connection failed, even if its statements reported nothing. */
  get broken(): boolean {
    return this.#state.kind !== 'without connection' && (this.#state.connection?.broken ?? false);
  }
}

/**
 * Returns the database's time at a timestamp of `performance.now()`. The connection may not know
 * the time, because it is new or because this machine's clock was set. Then the function waits for
 * the response to begin.
 */
async function toDatabaseTime({ clock }: PooledConnection, begun: Promise<Begun>, timestamp: number): Promise<string> {
  const known = clock.at(timestamp);
  if (known !== undefined) return known;
  const { clockAhead } = await begun;
  return clockAhead === undefined ? longAgo : new Date(Math.floor(timestamp + clockAhead)).toISOString();
}
