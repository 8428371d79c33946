// The database access of a call: a read session, or a write transaction that can be suspended.
import type { AuditRow, EventRow } from './change-log.ts';
import type { Claim, ClaimResult, StoredResponse } from './idempotency.ts';
import type { Sql } from './pipeline.ts';
import type { Pool } from './pool.ts';
import { type PreconditionResult, type Preconditions, type Scope, TransactionEnded } from './preconditions.ts';
import { ReadSession } from './read-session.ts';
import { SuspendedTransaction } from './suspended-transaction.ts';
import { WriteTransaction } from './write-transaction.ts';

/**
 * Stays the same object for a call while its implementation changes: a read session becomes a write
 * transaction at the first write, and a write transaction is suspended and resumed.
 */
export class Transaction {
  readonly #pool: Pool;
  readonly #scope: Scope;
  #current: ReadSession | WriteTransaction | SuspendedTransaction;

  /**
   * Takes a connection; calls that read one thing share one.
   * @throws PoolExhausted if none became free in time
   */
  static async open(pool: Pool, scope: Scope, preconditions: Preconditions = {}): Promise<Transaction> {
    const tenant = ReadSession.findTenant(pool, scope, preconditions);
    if (!tenant) return new Transaction(pool, scope, await WriteTransaction.open(pool, scope, preconditions));
    const connection = await (preconditions.reads === 'one' ? pool.share() : pool.acquire());
    return new Transaction(pool, scope, new ReadSession(pool, connection, tenant, preconditions.credential));
  }

  constructor(pool: Pool, scope: Scope, current: ReadSession | WriteTransaction) {
    this.#pool = pool;
    this.#scope = scope;
    this.#current = current;
  }

  /**
   * Returns the current implementation, which takes statements.
   * @throws TransactionEnded while it is suspended
   */
  #active(): ReadSession | WriteTransaction {
    if (this.#current instanceof SuspendedTransaction) throw new TransactionEnded();
    return this.#current;
  }

  #writing(): WriteTransaction {
    if (this.#current instanceof ReadSession) throw new Error('a read session cannot write');
    if (this.#current instanceof SuspendedTransaction) throw new TransactionEnded();
    return this.#current;
  }

  /**
   * Valid until the transaction ends, is suspended or waits without a connection.
   * @throws TransactionEnded
   */
  get sql(): Sql {
    return this.#active().sql;
  }

  /**
   * Returns the state of the preconditions. If it is not `ok`, nothing that was read may be used.
   */
  async verifyPreconditions(): Promise<PreconditionResult> {
    return this.#current instanceof SuspendedTransaction ? 'ok' : this.#current.verifyPreconditions();
  }

  /**
   * Claims an Idempotency-Key until the transaction ends, or returns the state of the call that has
   * it.
   */
  claim(claim: Claim): Promise<ClaimResult> {
    return this.#writing().claim(claim);
  }

  /** Plans the statements that follow once for each connection, for any values. */
  planOnce(): void {
    this.#active().planOnce();
  }

  /**
   * Continues without the outcome of a sent statement. If the statement fails, the commit fails
   * with its error.
   */
  awaitAtCommit(outcome: Promise<unknown>): void {
    this.#writing().awaitAtCommit(outcome);
  }

  /**
   * Returns the error of the first failed statement that was not awaited; undefined if there is
   * none.
   */
  async firstFailure(): Promise<unknown> {
    return this.#current instanceof WriteTransaction ? this.#current.firstFailure() : undefined;
  }

  /**
   * Waits for work that does not need the database. If nothing was written or locked, the
   * connection serves other calls meanwhile.
   */
  withoutConnection<T>(work: Promise<T>): Promise<T> {
    return this.#current instanceof SuspendedTransaction ? work : this.#current.withoutConnection(work);
  }

  /**
   * Commits and gives the connection back while the call waits for other work. A row holds a
   * claimed Idempotency-Key meanwhile.
   * @param left milliseconds that the request has left
   */
  async suspend(left: number): Promise<void> {
    const claim = await this.#writing().suspend(left);
    this.#current = new SuspendedTransaction(this.#pool, this.#scope, claim);
  }

  /**
   * Takes a connection for a new transaction that continues the call.
   * @throws PoolExhausted if none became free in time
   */
  async resume(): Promise<void> {
    if (this.#current instanceof SuspendedTransaction) this.#current = await this.#current.resume();
  }

  /**
   * Writes the audit rows, the events and the response of the change and commits, in one round
   * trip. It may be sent before the preconditions are verified: if they do not hold, nothing is
   * committed.
   * @param left milliseconds that the request has left, after which the database rejects the commit
   * @throws the error of the first statement that failed
   */
  async commit(
    audit: readonly AuditRow[],
    events: readonly EventRow[],
    response: StoredResponse | undefined,
    now: Date,
    left: number,
  ): Promise<void> {
    if (this.#current instanceof ReadSession) {
      if ((await this.#current.verifyPreconditions()) !== 'ok') return;
      if (audit.length === 0 && events.length === 0 && !response) return this.#current.end();
      this.#current = await this.#current.startWriting();
    }
    await this.#writing().commit(audit, events, response, now, left);
  }

  /**
   * Makes the checks of a commit, then rolls back, in one round trip.
   * @param left milliseconds that the request has left
   * @throws the error of the first statement that failed
   */
  checkAndRollBack(left: number): Promise<void> {
    return this.#writing().checkAndRollBack(left);
  }

  /**
   * Rolls back, stores the failure as the response for the Idempotency-Key, and commits.
   * @returns false if another call with the key came in between, and nothing was stored
   */
  storeFailure(response: StoredResponse, now: Date, left: number): Promise<boolean> {
    return this.#writing().storeFailure(response, now, left);
  }

  /** Ends a transaction that only read, without waiting for the response. */
  endRead(): void {
    if (this.#current instanceof WriteTransaction) this.#current.endRead();
    else this.#current.end();
  }

  /** Rolls back and waits for that, so that a retry does not meet the locks of this transaction. */
  async undo(): Promise<void> {
    if (this.#current instanceof WriteTransaction) await this.#current.undo();
    else this.#current.end();
  }

  /** Rolls back, without waiting for the response. */
  abandon(): void {
    if (this.#current instanceof WriteTransaction) this.#current.abandon();
    else this.#current.end();
  }

  /** Closes the connection if statements may still run on it. For a call that ran out of time. */
  destroy(): void {
    if (this.#current instanceof SuspendedTransaction) this.#current.end();
    else this.#current.destroy();
  }

  /** True after the connection failed, even if its statements reported nothing. */
  get broken(): boolean {
    return !(this.#current instanceof SuspendedTransaction) && this.#current.broken;
  }
}
