// Has what a server sent read in a thread of its own, which is ended when that takes too much.
import { Worker } from 'node:worker_threads';
import { CalendarFault, type CalendarFaultKind, type CalendarTimes } from '../../domain/scheduling/calendars.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import type { Properties } from './multistatus.ts';

/** What is to be read, as it came. */
export type Reading =
  | { kind: 'properties'; body: Uint8Array }
  | { kind: 'busy'; body: Uint8Array; within: Interval; userId: string; timezone: string };

export type ReadFrom<R extends Reading> = R extends { kind: 'properties' } ? Properties : CalendarTimes;

/**
 * What the thread sends: first, for each reading, the milliseconds of processor time that it has used so far; then the
 * result, or why there is none: in general words, and nothing of what was read.
 */
export type ThreadMessage = { beganAt: number } | { result: unknown } | { why: string };

/** Milliseconds of processor time that one answer may take: on a busy machine the clock runs on without the thread. */
const processorBudget = 1500;
/** Milliseconds by the clock for waiting and reading, after which a caller waits no longer. */
const usualWait = 10_000;
/** Milliseconds between two looks at a budget that is almost used up. */
const shortestPause = 20;
/** Milliseconds after which a thread that is not needed is ended. */
const idleTime = 60_000;
/** `.ts`, or `.js` in dist/. */
const ownExtension = import.meta.filename.slice(-3);
const resourceLimits = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 };

/** One thread, which reads one answer after the other; made when it is needed. */
export class Reader {
  #thread: Worker | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;
  readonly #longestWait: number;

  constructor(longestWait = usualWait) {
    this.#longestWait = longestWait;
  }

  /** @throws CalendarFault unreadable for what takes too much or is not written as it should be; overloaded if there is no time for it */
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

  /** @param left milliseconds by the clock */
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
      // An answer may have come while this thread was busy: it is read before the timer counts.
      const after = (milliseconds: number, work: () => void): void =>
        void timers.add(setTimeout(() => setImmediate(() => isOver || work()), milliseconds));
      const checkBudget = (beganAt: number): void => {
        processorTime(thread).then(
          (used) => {
            const unused = processorBudget - (used - beganAt);
            if (unused <= 0) fail('unreadable', 'reading takes too long');
            else if (!isOver) after(Math.max(unused, shortestPause), () => checkBudget(beganAt));
          },
          // The thread has ended, which its error event reports.
          () => undefined,
        );
      };
      after(left, () => fail('overloaded', 'no time left to read'));
      thread.on('message', (message: ThreadMessage) => {
        // No thread uses more processor time than the clock shows, so nothing is to be looked at before.
        if ('beganAt' in message) return after(processorBudget, () => checkBudget(message.beganAt));
        finish();
        this.#idle = setTimeout(() => this.#close(), idleTime).unref();
        if ('result' in message) resolve(message.result);
        else reject(new CalendarFault('unreadable', message.why));
      });
      thread.once('error', () => fail('unreadable', 'reading needs too much memory'));
      thread.postMessage(reading);
    });
  }

  #open(): Worker {
    const thread = new Worker(new URL(`./reading-thread${ownExtension}`, import.meta.url), { resourceLimits });
    // A process that stops does not wait for it.
    thread.unref();
    this.#thread = thread;
    return thread;
  }

  #close(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.removeAllListeners();
    // It may fail once more while it ends, which concerns nobody.
    thread?.on('error', () => undefined);
    void thread?.terminate();
  }
}

/** Returns the milliseconds of processor time that a thread has used; it answers while it is busy, too. */
async function processorTime(thread: Worker): Promise<number> {
  const { user, system } = await thread.cpuUsage();
  return (user + system) / 1000;
}
