// The transactions of requests, and the rows that are written with their changes.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import type { StoredResponse } from '../../db/client/idempotency.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { Preconditions, Scope } from '../../db/client/preconditions.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { Transaction } from '../../db/client/transaction.ts';
import type { Caller } from '../caller.ts';
import type { AuditedChange, Change } from '../handler.ts';

/** The facts about a call for audit rows and events. */
export interface ChangeContext {
  caller: Caller;
  now: Date;
  idempotencyKeyHash: Buffer | null;
}

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
    await transaction.commit(audit, events, response, context.now, left);
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
  inTenantOf<T>(
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

/**
 * @param writtenAt a time after all locks, so that the rows of one record are in the order of its
 * changes
 */
function toAuditRow(change: Change, { caller, idempotencyKeyHash }: ChangeContext, writtenAt: Date): AuditRow {
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

function toEventRows(change: Change, { caller, now }: ChangeContext): EventRow[] {
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
