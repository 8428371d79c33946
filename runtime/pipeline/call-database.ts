// The transaction of a call as handlers see it, and the changes that commit with it.

import type { Transaction } from '../../db/client/transaction.ts';
import type { Caller } from '../caller.ts';
import type { AuditedChange, CallDatabase, Change, Sql } from '../handler.ts';
import type { Operation } from '../openapi/document.ts';
import { Deadline } from './deadline.ts';
import type { RequestDatabase } from './request-database.ts';
import type { Trace } from './trace.ts';

/** The context that all parts of one call share. */
export interface CallContext {
  readonly operation: Operation;
  readonly caller: Caller;
  /** The real time of the arrival. */
  readonly arrivedAt: Date;
  readonly now: Date;
  /** The version of the tenant's configuration when the caller was authenticated. */
  readonly configVersion: number;
  readonly deadline: Deadline;
  readonly trace: Trace;
  /** True after the preconditions of the transaction were verified. */
  isVerified: boolean;
}

/**
 * @throws Error if the call may still be rolled back, as every dry run is: effects outside its
 * transaction cannot be
 */
export function requireVerified({ isVerified, operation, trace }: CallContext): void {
  if (trace.dryRun) throw new Error(`${operation.id} acts outside of its transaction: it cannot declare x-dry-run`);
  if (!isVerified) throw new Error(`${operation.id} acts outside of its transaction: declare x-acts-outside`);
}

/** Bound to one attempt of a call. */
export class BoundDatabase implements CallDatabase {
  readonly changes: Change[] = [];
  /** Callbacks that run after the commit. */
  readonly callbacks: (() => void)[] = [];
  /** undefined for public reads. */
  readonly transaction: Transaction | undefined;
  readonly #database: RequestDatabase;
  readonly #context: CallContext;
  #sql: Sql | undefined;

  constructor(database: RequestDatabase, transaction: Transaction | undefined, context: CallContext) {
    this.#database = database;
    this.transaction = transaction;
    this.#context = context;
  }

  get sql(): Sql {
    const transaction = this.#required;
    // Reading transaction.sql begins the transaction, which then overlaps with awaits before the
    // first statement.
    const { json, array, types, typed } = transaction.sql;
    this.#sql ??= Object.assign((...parameters: Parameters<Sql>) => transaction.sql(...parameters), {
      json,
      array,
      types,
      typed,
      unsafe: (...parameters: Parameters<Sql['unsafe']>) => transaction.sql.unsafe(...parameters),
    }) as unknown as Sql;
    return this.#sql;
  }

  get #required(): Transaction {
    if (!this.transaction) throw new Error('a public read has no transaction');
    return this.transaction;
  }

  record(change: Change): void {
    this.changes.push(change);
  }

  awaitAtCommit(result: Promise<unknown>): void {
    this.transaction?.awaitAtCommit(result);
  }

  /** Waits for statements that the operation did not await, if the commit does not do so. */
  settle(): Promise<void> {
    return Promise.resolve();
  }

  withoutConnection<T>(work: Promise<T>): Promise<T> {
    const paused = this.#context.deadline.pause(work);
    return this.transaction ? this.transaction.withoutConnection(paused) : paused;
  }

  async commitThenRun<T>(work: () => Promise<T>): Promise<T> {
    requireVerified(this.#context);
    if (this.changes.length > 0) throw new Error('changes are recorded with the outcome of the work');
    const transaction = this.#required;
    const { deadline } = this.#context;
    await transaction.suspend(deadline.left);
    try {
      return await deadline.pause(work());
    } finally {
      await transaction.resume();
    }
  }

  inSeparateTransaction<T>(work: (sql: Sql, audit: (change: AuditedChange) => void) => Promise<T>): Promise<T> {
    requireVerified(this.#context);
    const { caller, now } = this.#context;
    return this.withoutConnection(this.#database.inCallersTenant({ caller, now, idempotencyKeyHash: null }, work));
  }

  afterCommit(work: () => void): void {
    this.callbacks.push(work);
  }

  planOnce(): void {
    this.transaction?.planOnce();
  }

  ping(): Promise<void> {
    return new Deadline().race(() => this.#database.ping());
  }
}

/** The database of an operation that runs inside the transaction of another call. */
export class NestedDatabase extends BoundDatabase {
  readonly #outer: BoundDatabase;
  readonly #sent: Promise<unknown>[] = [];

  constructor(database: RequestDatabase, outer: BoundDatabase, context: CallContext) {
    super(database, outer.transaction, context);
    this.#outer = outer;
  }

  override get sql(): Sql {
    return this.#outer.sql;
  }

  /** A failure must be known before the savepoint is released. */
  override awaitAtCommit(result: Promise<unknown>): void {
    result.catch(() => undefined);
    this.#sent.push(result);
  }

  /** Waits for statements that the operation did not await. @throws the error of the first one */
  override async settle(): Promise<void> {
    await Promise.all(this.#sent);
  }

  /** The connection stays with the transaction, which has a savepoint. */
  override withoutConnection<T>(work: Promise<T>): Promise<T> {
    return work;
  }

  override commitThenRun(): Promise<never> {
    throw new Error('an operation inside another transaction cannot commit');
  }

  override inSeparateTransaction(): Promise<never> {
    throw new Error('an operation inside another transaction cannot open a further one');
  }
}
