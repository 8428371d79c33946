// Blocks of calls that were charged ahead: what this process may let pass without asking.
import type { Charge, Quota } from '../database.ts';
import { Turns } from './semaphore.ts';

/** What became of charging calls. */
interface Charged {
  /** How many of the calls that wait were charged. */
  charged: number;
  /** Calls to come that were charged with them. */
  ahead: number;
  /** null: unlimited. */
  limit: number | null;
  monthStart: Date;
  monthEnd: Date;
  /** True while other processes have calls of this month that they have not used. */
  elsewhere: boolean;
}

/** Where the months are counted. Of each company, one question at a time is asked of it. */
export interface CallLedger {
  /** The process has no block then. @returns undefined where nothing is subscribed to */
  charge(companyId: string, calls: number, ahead: number): Promise<Charged | undefined>;
  /** Tells what is left of the block. @returns the calls charged to the month, by all; undefined when the block is not there any more */
  renew(companyId: string, left: number): Promise<number | undefined>;
  /** Ends the block and gives back what is left. @param left null: as much as was last told */
  giveBack(companyId: string, left: number | null): Promise<void>;
  /** Ends the blocks of processes that died. */
  collect(companyId: string): Promise<unknown>;
}

interface Block {
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
  block: Block | undefined;
  /** True when a charge failed: the ledger may have a block of it that nobody uses. */
  isUnsure = false;
  readonly waiting: Waiting[] = [];
  /** True while somebody asks for those who wait. */
  isServed = false;
  /** The ledger is asked one question after the other: two at once would undo each other. */
  readonly ledger = new Turns(1);

  constructor(companyId: string) {
    this.companyId = companyId;
  }

  get isIdle(): boolean {
    return !this.block && !this.isUnsure && !this.isServed;
  }
}

/** Milliseconds between renewals: for so long at most a process that died may have let calls pass that nobody knows of. */
const renewedEvery = 500;
/** Milliseconds without a renewal after which a block is not used: the months cannot be counted then. Others take its process for dead after 30 s. */
const usableFor = 2500;
/** Calls of a block at most: for each there is a write. The ledger gives fewer where few are left of the month. */
const largest = 4000;
/** Calls left of a month below which blocks go back, so that none is kept from those who ask. */
const scarce = 2000;
/** Milliseconds for which a call waits for others to give back what they have not used, and between its questions. */
const patience = 1200;
const pause = 200;

export class CallBlocks {
  readonly #ledger: CallLedger;
  readonly #accounts = new Map<string, Account>();
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<unknown> = Promise.resolve();

  constructor(ledger: CallLedger) {
    this.#ledger = ledger;
  }

  /** Charges one call: at once where a block has calls left. @returns undefined where nothing is subscribed to */
  take(companyId: string, now: Date): Quota | Promise<Quota | undefined> {
    return this.#use(this.#accounts.get(companyId), now) ?? this.#wait(companyId, now);
  }

  /** Takes a call from a block. @returns undefined where there is none to be taken */
  #use(account: Account | undefined, now: Date): Quota | undefined {
    const block = account?.block;
    if (!block || block.left === 0 || now >= block.monthEnd) return undefined;
    if (performance.now() - block.renewedAt >= usableFor) return undefined;
    block.left -= 1;
    block.used = true;
    return quotaOf(account.companyId, block, true);
  }

  /** Takes a call back that costs nothing after all. @returns false when there is no block of its month */
  takeBack({ companyId, monthStart }: Charge): boolean {
    const block = this.#accounts.get(companyId)?.block;
    if (block?.monthStart.getTime() !== monthStart.getTime()) return false;
    block.left += 1;
    return true;
  }

  /** Gives back what is left of a company: what was subscribed to is not what it was. */
  async end(companyId: string): Promise<void> {
    const account = this.#accounts.get(companyId);
    if (account) await account.ledger.take(() => this.#giveBack(account));
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
      await account.ledger.take(async () => {
        late = await this.#charge(account, this.#letPass(account, account.waiting.splice(0)));
      });
      if (late.length === 0) continue;
      account.waiting.push(...late);
      const collected = this.#ledger.collect(account.companyId).catch(() => undefined);
      await Promise.all([collected, new Promise((resolve) => setTimeout(resolve, pause))]);
    }
    account.isServed = false;
    this.#forget(account);
  }

  /**
   * Lets those pass who came while the block was charged that is there now: to charge them by another would have the next ones wait for that,
   * and so on. @returns those for whom it has no calls
   */
  #letPass(account: Account, waiting: readonly Waiting[]): Waiting[] {
    return waiting.filter(({ resolve, now }) => {
      const quota = this.#use(account, now);
      if (quota) resolve(quota);
      return !quota;
    });
  }

  /** Charges calls that wait. @returns those who may yet be charged from what others give back */
  async #charge(account: Account, waiting: readonly Waiting[]): Promise<Waiting[]> {
    if (waiting.length === 0) return [];
    const { companyId } = account;
    let found: Charged | undefined;
    try {
      // Used up; or not renewed in time, or of a month that is over.
      await this.#giveBack(account);
      account.isUnsure = true;
      found = await this.#ledger.charge(companyId, waiting.length, largest);
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
    const { charged, ahead, elsewhere, ...month } = found;
    for (const { resolve } of waiting.slice(0, charged)) resolve(quotaOf(companyId, month, true));
    if (ahead > 0) {
      account.block = { ...month, left: ahead, used: true, renewedAt: performance.now() };
      this.#renewSoon();
    }
    const uncharged = waiting.slice(charged);
    const late = elsewhere ? uncharged.filter(({ since }) => performance.now() - since < patience) : [];
    for (const each of uncharged) if (!late.includes(each)) each.resolve(quotaOf(companyId, month, false));
    return late;
  }

  /** Ends the block of a company, if it has one; in its turn. */
  async #giveBack(account: Account): Promise<void> {
    const { block, isUnsure, companyId } = account;
    if (!block && !isUnsure) return;
    account.block = undefined;
    try {
      await this.#ledger.giveBack(companyId, block ? block.left : null);
      account.isUnsure = false;
    } catch (error) {
      // It may be there still, and is ended before there is another.
      if (block) account.block = { ...block, renewedAt: Number.NEGATIVE_INFINITY };
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
    }, renewedEvery).unref();
  }

  async #renew(account: Account): Promise<void> {
    await account.ledger.take(async () => {
      const { block, companyId } = account;
      const isGood = block?.used && block.left > 0 && block.renewedAt > 0;
      if (!isGood) {
        await this.#giveBack(account);
        return;
      }
      const at = performance.now();
      block.used = false;
      const charged = await this.#ledger.renew(companyId, block.left);
      // Taken for dead, and given back by others.
      if (charged === undefined) account.block = undefined;
      else if (block.limit !== null && block.limit - charged < scarce) await this.#giveBack(account);
      else block.renewedAt = at;
    });
    this.#forget(account);
  }

  #forget(account: Account): void {
    if (account.isIdle) this.#accounts.delete(account.companyId);
  }
}

function quotaOf(
  companyId: string,
  { limit, monthStart, monthEnd }: Pick<Charged, 'limit' | 'monthStart' | 'monthEnd'>,
  charged: boolean,
): Quota {
  return { companyId, charged, limit, monthStart, monthEnd };
}
