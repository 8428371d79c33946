// Holds calls that wait for new events in a feed, until a timeout, a disconnect or the server's
// stop.
import type { Log } from '../telemetry/log.ts';

/** The feed of a company in one mode. */
interface Feed {
  companyId: string;
  testMode: boolean;
}

/** The position of the last event of a feed. */
export interface FeedPosition extends Feed {
  last: number;
}

/** The connection of a call. Emits close if the client disconnects. */
export interface Connection {
  destroyed: boolean;
  once(event: 'close', then: () => void): unknown;
  off(event: 'close', then: () => void): unknown;
}

interface Waiter {
  testMode: boolean;
  after: number;
  /** Resumes the call, which then reads the feed. */
  resume: () => void;
  end: () => void;
}

/** Maximum number of waiting calls, per process and per company. Further calls do not wait. */
const maxWaiting = { process: 1000, company: 100 } as const;
/**
 * Milliseconds between reads of feed positions while calls wait, to notice events of other
 * processes.
 */
const pollIntervalMs = 200;

export class FeedNotifier {
  readonly #readPositions: (companyIds: readonly string[]) => Promise<FeedPosition[]>;
  readonly #log: Log;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #count = 0;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;

  /** @param readPositions returns the last positions of the companies' feeds */
  constructor(readPositions: (companyIds: readonly string[]) => Promise<FeedPosition[]>, log: Log) {
    this.#readPositions = readPositions;
    this.#log = log;
  }

  /** The number of waiting calls. */
  get waiting(): number {
    return this.#count;
  }

  /**
   * Waits until the feed has events after a position, or until waiting is useless.
   * @returns milliseconds left to wait; 0 if the time is up or the caller should not wait again
   */
  wait({ companyId, testMode }: Feed, after: number, milliseconds: number, connection: Connection): Promise<number> {
    const ofCompany = this.#waiters.get(companyId) ?? new Set();
    const isFull = this.#count >= maxWaiting.process || ofCompany.size >= maxWaiting.company;
    if (this.#stopped || isFull || connection.destroyed) return Promise.resolve(0);
    this.#waiters.set(companyId, ofCompany);
    this.#count += 1;
    this.#pollSoon();
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
      const waiter = { testMode, after, end, resume: () => finish(Math.max(0, until - performance.now())) };
      const timer = setTimeout(end, milliseconds);
      connection.once('close', end);
      ofCompany.add(waiter);
    });
  }

  /** Resumes the calls that wait for a position before `last`. */
  announce({ companyId, testMode, last }: FeedPosition): void {
    for (const waiter of [...(this.#waiters.get(companyId) ?? [])])
      if (waiter.testMode === testMode && waiter.after < last) waiter.resume();
  }

  /** Ends all waits, and rejects new ones. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    for (const waiters of [...this.#waiters.values()]) for (const waiter of [...waiters]) waiter.end();
  }

  #pollSoon(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(async () => {
      try {
        for (const position of await this.#readPositions([...this.#waiters.keys()])) this.announce(position);
      } catch (error) {
        // Events of this process still arrive by announce(). Calls that time out poll again.
        this.#log.warn({ err: { message: (error as Error).message } }, 'failed to read feed positions');
      }
      this.#timer = undefined;
      if (this.#count > 0 && !this.#stopped) this.#pollSoon();
    }, pollIntervalMs);
    this.#timer.unref();
  }
}
