// Parses server responses in a worker thread, which is terminated if it exceeds its limits.
import { Worker } from 'node:worker_threads';
import { CalendarFault, type CalendarFaultKind, type CalendarTimes } from '../../domain/scheduling/calendars.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import type { Properties } from './multistatus.ts';

/** A raw response, and how to parse it. */
export type Reading =
  | { kind: 'properties'; body: Uint8Array }
  | { kind: 'busy'; body: Uint8Array; within: Interval; userId: string; timezone: string };

export type ReadFrom<R extends Reading> = R extends { kind: 'properties' } ? Properties : CalendarTimes;

/**
 * Messages of the thread. First, for each response, the milliseconds of processor time used so far.
 * Then the result, or a general error message that contains nothing of the response.
 */
export type ThreadMessage = { beganAt: number } | { result: unknown } | { why: string };

/**
 * Processor time for one response in milliseconds. Processor time is fair on a busy machine, where
 * elapsed time is not.
 */
const processorBudgetMs = 1500;
/** Default limit of elapsed milliseconds for waiting and parsing. */
const defaultWaitMs = 10_000;
/** Minimum milliseconds between two checks of a nearly used budget. */
const minPauseMs = 20;
/** Milliseconds after which an idle thread is terminated. */
const idleTimeoutMs = 60_000;
/** `.ts`, or `.js` in dist/. */
const ownExtension = import.meta.filename.slice(-3);
const resourceLimits = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 };

/** A worker thread that parses responses one after the other. It is started on demand. */
export class Reader {
  #thread: Worker | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;
  readonly #longestWait: number;

  constructor(longestWait = defaultWaitMs) {
    this.#longestWait = longestWait;
  }

  /**
   * @throws CalendarFault `unreadable` if the response is invalid or exceeds the limits;
   * `overloaded` if no time is left
   */
  async read<R extends Reading>(reading: R): Promise<ReadFrom<R>> {
    const deadline = performance.now() + this.#longestWait;
    const turn = this.#last.then(() => {
      const left = deadline - performance.now();
      if (left <= 0) throw new CalendarFault('overloaded', 'too many calendars are being read');
      return this.#readNow(reading, left);
    });
    this.#last = turn.catch(() => undefined);
    return (await turn) as ReadFrom<R>;
  }

  /** @param left elapsed milliseconds until the deadline */
  #readNow(reading: Reading, left: number): Promise<unknown> {
    clearTimeout(this.#idle);
    const thread = this.#thread ?? this.#open();
    return new Promise((resolve, reject) => {
      const timers = new Set<NodeJS.Timeout>();
      let isOver = false;
      const finish = (): void => {
        isOver = true;
        for (const timer of timers) clearTimeout(timer);
        thread.removeAllListeners('message').removeAllListeners('error');
      };
      const fail = (kind: CalendarFaultKind, why: string): void => {
        if (isOver) return;
        finish();
        this.#close();
        reject(new CalendarFault(kind, why));
      };
      // The result may have arrived while this thread was busy, so it is read before the timeout
      // counts.
      const after = (milliseconds: number, work: () => void): void =>
        void timers.add(setTimeout(() => setImmediate(() => isOver || work()), milliseconds));
      const checkBudget = (beganAt: number): void => {
        processorTime(thread).then(
          (used) => {
            const unused = processorBudgetMs - (used - beganAt);
            if (unused <= 0) fail('unreadable', 'reading takes too long');
            else if (!isOver) after(Math.max(unused, minPauseMs), () => checkBudget(beganAt));
          },
          // The thread has ended, which its error event reports.
          () => undefined,
        );
      };
      after(left, () => fail('overloaded', 'no time left to read'));
      thread.on('message', (message: ThreadMessage) => {
        // Processor time never exceeds elapsed time, so an earlier check is pointless.
        if ('beganAt' in message) return after(processorBudgetMs, () => checkBudget(message.beganAt));
        finish();
        this.#idle = setTimeout(() => this.#close(), idleTimeoutMs).unref();
        if ('result' in message) resolve(message.result);
        else reject(new CalendarFault('unreadable', message.why));
      });
      thread.once('error', () => fail('unreadable', 'reading needs too much memory'));
      thread.postMessage(reading);
    });
  }

  #open(): Worker {
    const thread = new Worker(new URL(`./reading-thread${ownExtension}`, import.meta.url), { resourceLimits });
    // The thread must not keep the process alive.
    thread.unref();
    this.#thread = thread;
    return thread;
  }

  #close(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.removeAllListeners();
    // An error during termination is irrelevant, but unhandled it would crash the process.
    thread?.on('error', () => undefined);
    void thread?.terminate();
  }
}

/**
 * Returns the processor time of a thread in milliseconds. It also works while the thread is busy.
 */
async function processorTime(thread: Worker): Promise<number> {
  const { user, system } = await thread.cpuUsage();
  return (user + system) / 1000;
}
