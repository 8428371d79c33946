// Calls that wait for news of their company's feed, until time, their client or the server ends it.
import type { Log } from '../telemetry/log.ts';

/** A feed, of a company and mode. */
interface Feed {
  companyId: string;
  testMode: boolean;
}

/** How far a feed goes. */
export interface FeedPosition extends Feed {
  last: number;
}

/** What a call came on; closes when its client leaves. */
export interface Connection {
  destroyed: boolean;
  once(event: 'close', then: () => void): unknown;
  off(event: 'close', then: () => void): unknown;
}

interface Waiter {
  testMode: boolean;
  after: number;
  /** Lets it go on, to see what there is. */
  tell: () => void;
  end: () => void;
}

/** Calls that may wait at a time, in this process and of one company; those beyond are answered at once. */
const mostWaiting = { process: 1000, company: 100 } as const;
/** Milliseconds between two looks for what other processes have told, while somebody waits. */
const every = 200;

export class FeedNotifier {
  readonly #look: (companyIds: readonly string[]) => Promise<FeedPosition[]>;
  readonly #log: Log;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #count = 0;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;

  /** @param look tells how far the feeds of companies go */
  constructor(look: (companyIds: readonly string[]) => Promise<FeedPosition[]>, log: Log) {
    this.#look = look;
    this.#log = log;
  }

  /** Calls that wait now. */
  get waiting(): number {
    return this.#count;
  }

  /**
   * Waits until the feed goes beyond a position, or until there is no use in it any longer.
   * @returns milliseconds that are left to wait; 0 when they are over or waiting is
   */
  wait({ companyId, testMode }: Feed, after: number, milliseconds: number, connection: Connection): Promise<number> {
    const ofCompany = this.#waiters.get(companyId) ?? new Set();
    const isFull = this.#count >= mostWaiting.process || ofCompany.size >= mostWaiting.company;
    if (this.#stopped || isFull || connection.destroyed) return Promise.resolve(0);
    this.#waiters.set(companyId, ofCompany);
    this.#count += 1;
    this.#lookSoon();
    const until = performance.now() + milliseconds;
    return new Promise((resolve) => {
      const finish = (left: number): void => {
        if (!ofCompany.delete(waiter)) return;
        this.#count -= 1;
        if (ofCompany.size === 0) this.#waiters.delete(companyId);
        clearTimeout(timer);
        connection.off('close', end);
        resolve(left);
      };
      const end = (): void => finish(0);
      const waiter = { testMode, after, end, tell: () => finish(Math.max(0, until - performance.now())) };
      const timer = setTimeout(end, milliseconds);
      connection.once('close', end);
      ofCompany.add(waiter);
    });
  }

  /** Ends the waits of those for whom a feed now goes far enough. */
  announce({ companyId, testMode, last }: FeedPosition): void {
    for (const waiter of [...(this.#waiters.get(companyId) ?? [])])
      if (waiter.testMode === testMode && waiter.after < last) waiter.tell();
  }

  /** Ends all waits, and lets nobody wait any more. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    for (const waiters of [...this.#waiters.values()]) for (const waiter of [...waiters]) waiter.end();
  }

  #lookSoon(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(async () => {
      try {
        for (const position of await this.#look([...this.#waiters.keys()])) this.announce(position);
      } catch (error) {
        // What this process tells itself still arrives; who waits in vain asks again.
        this.#log.warn({ err: { message: (error as Error).message } }, 'failed to read feed positions');
      }
      this.#timer = undefined;
      if (this.#count > 0 && !this.#stopped) this.#lookSoon();
    }, every);
    this.#timer.unref();
  }
}
