// The monthly quota: charges each call, from a lease if there is one, and refunds calls.
import { randomUUID } from 'node:crypto';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { ChargedCalls } from '../../domain/billing/quota.ts';
import { type Charge, type Quota, QuotaLeases } from './quota-leases.ts';
import { Refunds } from './refunds.ts';

/** The calls of a month. */
export interface QuotaFigures {
  used: number;
  /** null: unlimited. */
  limit: number | null;
}

/**
 * The statements of db/billing/quota.ts, which app/ passes in. Only they read the catalogue of
 * plans.
 */
export interface QuotaStatements<Catalogue> {
  chargeCalls(
    sql: Sql,
    companyId: string,
    holder: string,
    calls: number,
    ahead: number,
    catalogue: Catalogue,
    now: Date,
  ): Promise<ChargedCalls | undefined>;
  saveLease(sql: Sql, lease: Charge & { holder: string; calls: number }, now: Date): Promise<number>;
  renewLease(sql: Sql, companyId: string, holder: string, left: number, now: Date): Promise<number | undefined>;
  returnLease(sql: Sql, companyId: string, holder: string, left: number | null): Promise<void>;
  sweepCompanyLeases(sql: Sql, companyId: string, now: Date): Promise<unknown>;
  refundCalls(sql: Sql, refund: Charge & { calls: number }): Promise<void>;
  findQuota(sql: Sql, companyId: string, catalogue: Catalogue, now: Date): Promise<QuotaFigures | undefined>;
}

/** One per process; the process is the holder of its leases. */
export class QuotaLedger<Catalogue = unknown> {
  readonly #pool: Pool;
  readonly #timeoutMs: number;
  readonly #statements: QuotaStatements<Catalogue>;
  readonly #catalogue: Catalogue;
  readonly #holder = randomUUID();
  readonly #leases: QuotaLeases;
  readonly #refunds: Refunds;

  /** @param timeoutMs timeout of a charge in milliseconds */
  constructor(pool: Pool, timeoutMs: number, statements: QuotaStatements<Catalogue>, catalogue: Catalogue) {
    this.#pool = pool;
    this.#timeoutMs = timeoutMs;
    this.#statements = statements;
    this.#catalogue = catalogue;
    const holder = this.#holder;
    this.#leases = new QuotaLeases({
      charge: (companyId, calls, ahead) => this.#charge(companyId, calls, ahead),
      renew: (companyId, left) => pool.use((sql) => statements.renewLease(sql, companyId, holder, left, new Date())),
      giveBack: (companyId, left) => pool.use((sql) => statements.returnLease(sql, companyId, holder, left)),
      collect: (companyId) => pool.use((sql) => statements.sweepCompanyLeases(sql, companyId, new Date())),
    });
    this.#refunds = new Refunds((owed) =>
      pool.use((sql) => Promise.allSettled(owed.map((refund) => statements.refundCalls(sql, refund)))),
    );
  }

  /**
   * Charges a call to the month of a company; synchronously if the lease has calls left. Returns
   * undefined if the company never subscribed.
   */
  charge(companyId: string, now: Date): Quota | Promise<Quota | undefined> {
    return this.#leases.take(companyId, now);
  }

  /** Refunds a call that turned out to be free. Nothing waits for it. */
  refund(charge: Charge): void {
    if (!this.#leases.takeBack(charge)) this.#refunds.add(charge);
  }

  /**
   * Returns the calls of a company's month, or of the last one that was paid for; undefined if the
   * company never subscribed.
   */
  findFigures(companyId: string): Promise<QuotaFigures | undefined> {
    return this.#pool.use((sql) => this.#statements.findQuota(sql, companyId, this.#catalogue, new Date()));
  }

  /**
   * Writes the calls of a company that this process admitted, so that the database counts them.
   * Other processes do so within a second.
   */
  async flush(companyId: string): Promise<void> {
    await Promise.all([this.#leases.settle(companyId), this.#refunds.settled()]);
  }

  /**
   * Releases the lease of a company because its subscription changed. If that fails, the lease is
   * swept like that of a dead process.
   */
  releaseLease(companyId: string): void {
    void this.#leases.end(companyId).catch(() => undefined);
  }

  /** Releases all leases. */
  async close(): Promise<void> {
    await Promise.all([this.#refunds.settled(), this.#leases.close()]);
  }

  /** Charges calls and acquires a lease, in one transaction. */
  #charge(companyId: string, calls: number, ahead: number): Promise<ChargedCalls | undefined> {
    return inTransaction(this.#pool, 'platform', this.#timeoutMs, async (sql) => {
      const now = new Date();
      const { chargeCalls, saveLease } = this.#statements;
      const found = await chargeCalls(sql, companyId, this.#holder, calls, ahead, this.#catalogue, now);
      if (!found?.ahead) return found;
      const lease = { companyId, holder: this.#holder, monthStart: found.monthStart, calls: found.ahead };
      return { ...found, ahead: await saveLease(sql, lease, now) };
    });
  }
}
