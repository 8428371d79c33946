// Leases of the monthly quota: calls charged in advance, which this process admits without a query.
import type { ChargedCalls } from '../../domain/billing/quota.ts';
import { Semaphore } from './semaphore.ts';

/** The company and month that a call was charged to. */
export interface Charge {
  companyId: string;
  monthStart: Date;
}

/** The result of charging one call. */
export interface Quota extends Charge {
  /** False if the month's quota is used up. */
  charged: boolean;
  /** null: unlimited. */
  limit: number | null;
  monthEnd: Date;
}

/** Counts the calls of each month. Per company, its methods are called one at a time. */
interface LeaseStore {
  /**
   * Charges calls and acquires a lease. The process must not hold one already.
   * @returns undefined if the company has no subscription
   */
  charge(companyId: string, calls: number, ahead: number): Promise<ChargedCalls | undefined>;
  /**
   * Renews the lease and reports the calls left.
   * @returns the month's calls of all processes; undefined if the lease no longer exists
   */
  renew(companyId: string, left: number): Promise<number | undefined>;
  /**
   * Releases the lease and the calls left.
   * @param left null: as last reported
   */
  giveBack(companyId: string, left: number | null): Promise<void>;
  collect(companyId: string): Promise<unknown>;
}

interface Lease {
  monthStart: Date;
  monthEnd: Date;
  limit: number | null;
  left: number;
  /** True if calls were taken since the last renewal. */
  used: boolean;
  /** By performance.now(); -Infinity if the lease may have ended in the ledger. */
  renewedAt: number;
}

/** A call that waits to be charged. */
interface Waiting {
  resolve: (quota: Quota | undefined) => void;
  reject: (error: unknown) => void;
  now: Date;
  /** By performance.now(). */
  since: number;
}

/** The state of one company in this process. */
class Account {
  readonly companyId: string;
  lease: Lease | undefined;
  /** True after a charge failed: the ledger may contain a lease that this process does not use. */
  isUnsure = false;
  readonly waiting: Waiting[] = [];
  /** True while waiting calls are being charged. */
  isServed = false;
  /** Serializes calls of the ledger: concurrent ones would overwrite each other. */
  readonly ledger = new Semaphore(1);

  constructor(companyId: string) {
    this.companyId = companyId;
  }

  get isIdle(): boolean {
    return !this.lease && !this.isUnsure && !this.isServed;
  }
}

/** Milliseconds between renewals. A process that dies loses the calls since its last renewal. */
const renewIntervalMs = 500;
/**
 * Milliseconds after the last renewal for which a lease may be used; then the database may be down.
 * Other processes consider this one dead after 30 s.
 */
const usableForMs = 2500;
/**
 * Maximum calls of a lease; each lease costs a write. The ledger grants fewer if the month has few
 * left.
 */
const maxLeaseCalls = 4000;
/**
 * If fewer calls of the month are left, leases are released, so that no calls are withheld from
 * other processes.
 */
const lowWatermark = 2000;
/** Milliseconds for which a call waits for other processes to release unused calls. */
const waitForOthersMs = 1200;
/** Milliseconds between its attempts. */
const collectIntervalMs = 200;

export class QuotaLeases {
  readonly #ledger: LeaseStore;
  readonly #accounts = new Map<string, Account>();
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<unknown> = Promise.resolve();

  constructor(ledger: LeaseStore) {
    this.#ledger = ledger;
  }

  /**
   * Charges one call: synchronously if a lease has calls left.
   * @returns undefined if the company has no subscription
   */
  take(companyId: string, now: Date): Quota | Promise<Quota | undefined> {
    return this.#use(this.#accounts.get(companyId), now) ?? this.#wait(companyId, now);
  }

  /**
   * Takes a call from the lease.
   * @returns undefined if there is no usable lease
   */
  #use(account: Account | undefined, now: Date): Quota | undefined {
    const lease = account?.lease;
    if (!lease || lease.left === 0 || now >= lease.monthEnd) return undefined;
    if (performance.now() - lease.renewedAt >= usableForMs) return undefined;
    lease.left -= 1;
    lease.used = true;
    return toQuota(account.companyId, lease, true);
  }

  /**
   * Refunds a call to the lease.
   * @returns false if there is no lease of its month
   */
  takeBack({ companyId, monthStart }: Charge): boolean {
    const lease = this.#accounts.get(companyId)?.lease;
    if (lease?.monthStart.getTime() !== monthStart.getTime()) return false;
    lease.left += 1;
    return true;
  }

  /** Releases the lease of a company, because its subscription changed. */
  async end(companyId: string): Promise<void> {
    const account = this.#accounts.get(companyId);
    if (account) await account.ledger.run(() => this.#releaseLease(account));
  }

  /**
   * Reports the calls that this process admitted, so that the ledger counts them.
   * @throws errors of the ledger
   */
  async settle(companyId: string): Promise<void> {
    const account = this.#accounts.get(companyId);
    if (account) await this.#renew(account);
  }

  /** Releases all leases. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#renewing;
    clearTimeout(this.#timer);
    await Promise.allSettled([...this.#accounts.keys()].map((companyId) => this.end(companyId)));
  }

  #wait(companyId: string, now: Date): Promise<Quota | undefined> {
    const account = this.#accounts.get(companyId) ?? new Account(companyId);
    this.#accounts.set(companyId, account);
    const asked = new Promise<Quota | undefined>((resolve, reject) => {
      account.waiting.push({ resolve, reject, now, since: performance.now() });
    });
    if (!account.isServed) {
      account.isServed = true;
      // Calls of the same turn of the event loop are charged together.
      setImmediate(() => void this.#serve(account));
    }
    return asked;
  }

  /** Charges all waiting calls until none is left. */
  async #serve(account: Account): Promise<void> {
    while (account.waiting.length > 0) {
      let late: Waiting[] = [];
      await account.ledger.run(async () => {
        late = await this.#acquire(account, this.#admitFromLease(account, account.waiting.splice(0)));
      });
      if (late.length === 0) continue;
      account.waiting.push(...late);
      const collected = this.#ledger.collect(account.companyId).catch(() => undefined);
      await Promise.all([collected, new Promise((resolve) => setTimeout(resolve, collectIntervalMs))]);
    }
    account.isServed = false;
    this.#forget(account);
  }

  /**
   * Admits calls that arrived while the present lease was acquired. Another lease for them would
   * make the next calls wait for it, and so on.
   * @returns the calls that the lease does not cover
   */
  #admitFromLease(account: Account, waiting: readonly Waiting[]): Waiting[] {
    return waiting.filter(({ resolve, now }) => {
      const quota = this.#use(account, now);
      if (quota) resolve(quota);
      return !quota;
    });
  }

  /**
   * Charges waiting calls.
   * @returns the calls that may still be charged when other processes release theirs
   */
  async #acquire(account: Account, waiting: readonly Waiting[]): Promise<Waiting[]> {
    if (waiting.length === 0) return [];
    const { companyId } = account;
    let found: ChargedCalls | undefined;
    try {
      // The lease is used up, was not renewed in time, or its month is over.
      await this.#releaseLease(account);
      account.isUnsure = true;
      found = await this.#ledger.charge(companyId, waiting.length, maxLeaseCalls);
      account.isUnsure = false;
    } catch (error) {
      for (const { reject } of waiting) reject(error);
      this.#renewSoon();
      return [];
    }
    if (!found) {
      for (const { resolve } of waiting) resolve(undefined);
      return [];
    }
    const { charged, ahead, heldByOthers, ...month } = found;
    for (const { resolve } of waiting.slice(0, charged)) resolve(toQuota(companyId, month, true));
    if (ahead > 0) {
      account.lease = { ...month, left: ahead, used: true, renewedAt: performance.now() };
      this.#renewSoon();
    }
    const uncharged = waiting.slice(charged);
    const late = heldByOthers ? uncharged.filter(({ since }) => performance.now() - since < waitForOthersMs) : [];
    for (const each of uncharged) if (!late.includes(each)) each.resolve(toQuota(companyId, month, false));
    return late;
  }

  /** Releases the lease of a company, if there is one. Runs within `account.ledger`. */
  async #releaseLease(account: Account): Promise<void> {
    const { lease, isUnsure, companyId } = account;
    if (!lease && !isUnsure) return;
    account.lease = undefined;
    try {
      await this.#ledger.giveBack(companyId, lease ? lease.left : null);
      account.isUnsure = false;
    } catch (error) {
      // The lease may still exist; it is ended before the next one.
      if (lease) account.lease = { ...lease, renewedAt: Number.NEGATIVE_INFINITY };
      throw error;
    }
  }

  #renewSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#renewing = Promise.allSettled([...this.#accounts.values()].map((account) => this.#renew(account))).then(
        () => {
          this.#timer = undefined;
          if (this.#accounts.size > 0) this.#renewSoon();
        },
      );
    }, renewIntervalMs).unref();
  }

  async #renew(account: Account): Promise<void> {
    await account.ledger.run(async () => {
      const { lease, companyId } = account;
      const isGood = lease?.used && lease.left > 0 && lease.renewedAt > 0;
      if (!isGood) {
        await this.#releaseLease(account);
        return;
      }
      const at = performance.now();
      lease.used = false;
      const charged = await this.#ledger.renew(companyId, lease.left);
      // Other processes considered this one dead and released the lease.
      if (charged === undefined) account.lease = undefined;
      else if (lease.limit !== null && lease.limit - charged < lowWatermark) await this.#releaseLease(account);
      else lease.renewedAt = at;
    });
    this.#forget(account);
  }

  #forget(account: Account): void {
    if (account.isIdle) this.#accounts.delete(account.companyId);
  }
}

function toQuota(
  companyId: string,
  { limit, monthStart, monthEnd }: Pick<ChargedCalls, 'limit' | 'monthStart' | 'monthEnd'>,
  charged: boolean,
): Quota {
  return { companyId, charged, limit, monthStart, monthEnd };
}
