// Leases of the monthly quota: calls charged ahead, which this process may let pass without asking.
import type { ChargedCalls } from '../../domain/billing/quota.ts';
import { Semaphore } from './semaphore.ts';

/** The month of a company that a call was charged to. */
export interface Charge {
  companyId: string;
  monthStart: Date;
}

/** The result of charging one call. */
export interface Quota extends Charge {
  /** False if the calls of the month are used up. */
  charged: boolean;
  /** null: unlimited. */
  limit: number | null;
  monthEnd: Date;
}

/** Counts the calls of each month. For each company, it is asked one question at a time. */
interface LeaseStore {
  /** The process holds no lease then. @returns undefined if nothing is subscribed to */
  charge(companyId: string, calls: number, ahead: number): Promise<ChargedCalls | undefined>;
  /** Reports what is left of the lease. @returns the calls charged to the month, by all; undefined if the lease no longer exists */
  renew(companyId: string, left: number): Promise<number | undefined>;
  /** Ends the lease and gives back what is left. @param left null: as much as was last reported */
  giveBack(companyId: string, left: number | null): Promise<void>;
  /** Ends the leases of processes that died. */
  collect(companyId: string): Promise<unknown>;
}

interface Lease {
  monthStart: Date;
  monthEnd: Date;
  limit: number | null;
  left: number;
  /** Used since it was last renewed. */
  used: boolean;
  /** By performance.now(); -Infinity when the ledger may have ended it. */
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

/** What this process knows of one company. */
class Account {
  readonly companyId: string;
  lease: Lease | undefined;
  /** True after a charge failed: the ledger may have a lease of it that nobody uses. */
  isUnsure = false;
  readonly waiting: Waiting[] = [];
  /** True while the calls that wait are being charged. */
  isServed = false;
  /** The ledger is asked one question after the other: two at once would undo each other. */
  readonly ledger = new Semaphore(1);

  constructor(companyId: string) {
    this.companyId = companyId;
  }

  get isIdle(): boolean {
    return !this.lease && !this.isUnsure && !this.isServed;
  }
}

/** Milliseconds between renewals: the calls of the last ones are lost with a process that dies. */
const renewIntervalMs = 500;
/** Milliseconds without a renewal after which a lease is not used: the months cannot be counted then. Others take its process for dead after 30 s. */
const usableForMs = 2500;
/** Calls of a lease at most: for each lease there is a write. The ledger gives fewer if few are left of the month. */
const largestLease = 4000;
/** Calls left of a month below which leases are given back, so that none is kept from other processes. */
const lowWatermark = 2000;
/** Milliseconds for which a call waits for others to give back what they have not used, and between its questions. */
const waitForOthersMs = 1200;
const collectIntervalMs = 200;

export class QuotaLeases {
  readonly #ledger: LeaseStore;
  readonly #accounts = new Map<string, Account>();
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<unknown> = Promise.resolve();

  constructor(ledger: LeaseStore) {
    this.#ledger = ledger;
  }

  /** Charges one call: at once if a lease has calls left. @returns undefined if nothing is subscribed to */
  take(companyId: string, now: Date): Quota | Promise<Quota | undefined> {
    return this.#use(this.#accounts.get(companyId), now) ?? this.#wait(companyId, now);
  }

  /** Takes a call from a lease. @returns undefined if there is none to be taken */
  #use(account: Account | undefined, now: Date): Quota | undefined {
    const lease = account?.lease;
    if (!lease || lease.left === 0 || now >= lease.monthEnd) return undefined;
    if (performance.now() - lease.renewedAt >= usableForMs) return undefined;
    lease.left -= 1;
    lease.used = true;
    return quotaOf(account.companyId, lease, true);
  }

  /** Takes a call back that costs nothing after all. @returns false if there is no lease of its month */
  takeBack({ companyId, monthStart }: Charge): boolean {
    const lease = this.#accounts.get(companyId)?.lease;
    if (lease?.monthStart.getTime() !== monthStart.getTime()) return false;
    lease.left += 1;
    return true;
  }

  /** Gives back what is left of a company: what was subscribed to is not what it was. */
  async end(companyId: string): Promise<void> {
    const account = this.#accounts.get(companyId);
    if (account) await account.ledger.run(() => this.#giveBack(account));
  }

  /** Reports the calls that this process has let pass, so that the ledger shows them. @throws what the ledger throws */
  async settle(companyId: string): Promise<void> {
    const account = this.#accounts.get(companyId);
    if (account) await this.#renew(account);
  }

  /** Gives everything back. */
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
      // Those of one turn of the event loop go together.
      setImmediate(() => void this.#serve(account));
    }
    return asked;
  }

  /** Charges for all who wait, until nobody does. */
  async #serve(account: Account): Promise<void> {
    while (account.waiting.length > 0) {
      let late: Waiting[] = [];
      await account.ledger.run(async () => {
        late = await this.#acquire(account, this.#letPass(account, account.waiting.splice(0)));
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
   * Lets calls pass that came while the present lease was acquired: to acquire another for them would have the next ones wait for that, and so
   * on. @returns those for which it has no calls
   */
  #letPass(account: Account, waiting: readonly Waiting[]): Waiting[] {
    return waiting.filter(({ resolve, now }) => {
      const quota = this.#use(account, now);
      if (quota) resolve(quota);
      return !quota;
    });
  }

  /** Charges calls that wait. @returns those who may yet be charged from what others give back */
  async #acquire(account: Account, waiting: readonly Waiting[]): Promise<Waiting[]> {
    if (waiting.length === 0) return [];
    const { companyId } = account;
    let found: ChargedCalls | undefined;
    try {
      // Used up; or not renewed in time, or of a month that is over.
      await this.#giveBack(account);
      account.isUnsure = true;
      found = await this.#ledger.charge(companyId, waiting.length, largestLease);
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
    for (const { resolve } of waiting.slice(0, charged)) resolve(quotaOf(companyId, month, true));
    if (ahead > 0) {
      account.lease = { ...month, left: ahead, used: true, renewedAt: performance.now() };
      this.#renewSoon();
    }
    const uncharged = waiting.slice(charged);
    const late = heldByOthers ? uncharged.filter(({ since }) => performance.now() - since < waitForOthersMs) : [];
    for (const each of uncharged) if (!late.includes(each)) each.resolve(quotaOf(companyId, month, false));
    return late;
  }

  /** Ends the lease of a company, if there is one; in its turn. */
  async #giveBack(account: Account): Promise<void> {
    const { lease, isUnsure, companyId } = account;
    if (!lease && !isUnsure) return;
    account.lease = undefined;
    try {
      await this.#ledger.giveBack(companyId, lease ? lease.left : null);
      account.isUnsure = false;
    } catch (error) {
      // It may be there still, and is ended before there is another.
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
        await this.#giveBack(account);
        return;
      }
      const at = performance.now();
      lease.used = false;
      const charged = await this.#ledger.renew(companyId, lease.left);
      // Taken for dead, and given back by others.
      if (charged === undefined) account.lease = undefined;
      else if (lease.limit !== null && lease.limit - charged < lowWatermark) await this.#giveBack(account);
      else lease.renewedAt = at;
    });
    this.#forget(account);
  }

  #forget(account: Account): void {
    if (account.isIdle) this.#accounts.delete(account.companyId);
  }
}

function quotaOf(
  companyId: string,
  { limit, monthStart, monthEnd }: Pick<ChargedCalls, 'limit' | 'monthStart' | 'monthEnd'>,
  charged: boolean,
): Quota {
  return { companyId, charged, limit, monthStart, monthEnd };
}
