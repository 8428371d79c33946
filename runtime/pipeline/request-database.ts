// The transactions of requests, and the rows that are written with their changes.
import type { AuditRow } from '../../db/client/change-log.ts';
import type { StoredResponse } from '../../db/client/idempotency.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { Preconditions, Scope } from '../../db/client/preconditions.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { Transaction } from '../../db/client/transaction.ts';
import type { AuditedChange, Change } from '../handler.ts';
import { type ChangeContext, toAuditRow, toEventRows } from './change-rows.ts';

export interface RequestPools {
  /** Tenants' transactions, under the role that row-level security binds. */
  tenants: Pool;
  /** Transactions of operations that look across tenants. */
  platform: Pool;
  /** Used for ping(). */
  credentials: Pool;
}

export class RequestDatabase {
  readonly #pools: RequestPools;
  readonly #timeoutMs: number;
  readonly #onEvents: () => void;

  /** @param timeoutMs timeout in milliseconds of transactions outside a request's own */
  constructor(pools: RequestPools, timeoutMs: number, onEvents: () => void) {
    this.#pools = pools;
    this.#timeoutMs = timeoutMs;
    this.#onEvents = onEvents;
  }

  /** @throws PoolExhausted if no connection became free in time */
  open(scope: Scope, preconditions?: Preconditions): Promise<Transaction> {
    return Transaction.open(scope === 'platform' ? this.#pools.platform : this.#pools.tenants, scope, preconditions);
  }

  /**
   * Writes audit rows, events and the stored response of changes, and commits, in one round trip.
   * @param left milliseconds until the request's deadline, after which the database refuses to
   *   commit
   */
  async commit(
    transaction: Transaction,
    changes: readonly Change[],
    context: ChangeContext,
    left: number,
    response?: StoredResponse,
  ): Promise<void> {
    const writtenAt = new Date();
    const audit = changes.map((change) => toAuditRow(change, context, writtenAt));
    const events = changes.flatMap((change) => toEventRows(change, context));
    await transaction.commit(audit, events, response, writtenAt, left);
    if (events.length > 0) this.#onEvents();
  }

  /** Runs work in a separate transaction of a tenant, within the statement timeout. */
  inTenant<T>(
    { companyId, testMode }: TenantScope,
    work: (sql: Sql, audit: (row: AuditRow) => void) => Promise<T>,
  ): Promise<T> {
    const scope = { companyId, testMode };
    return inTransaction(this.#pools.tenants, scope, this.#timeoutMs, (sql, _, audit) => work(sql, audit));
  }

  /** Runs work in a separate transaction, with audit rows of the caller. */
  inCallersTenant<T>(
    context: ChangeContext,
    work: (sql: Sql, audit: (change: AuditedChange) => void) => Promise<T>,
  ): Promise<T> {
    return this.inTenant(context.caller, (sql, audit) =>
      work(sql, (change) => audit(toAuditRow(change, context, new Date()))),
    );
  }

  /** Resolves if the database responds. */
  async ping(): Promise<void> {
    await this.#pools.credentials.use(async (sql) => void (await sql`select 1`));
  }
}
