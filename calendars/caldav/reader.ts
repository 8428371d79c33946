// Has what a server sent read in a thread of its own, which is ended when that takes too much.
import { Worker } from 'node:worker_threads';
import { CalendarFault } from '../../domain/scheduling/calendars.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import type { Properties } from './multistatus.ts';

/** What is to be read, as it came. */
export type Reading =
  | { kind: 'properties'; body: Uint8Array }
  | { kind: 'busy'; body: Uint8Array; within: Interval; userId: string; timezone: string };

export type ReadFrom<R extends Reading> = R extends { kind: 'properties' } ? Properties : Interval[];

/** What the thread answers; why says in general what is wrong, and nothing of what was read. */
export type ThreadAnswer = { result: unknown } | { why: string };

/** Milliseconds that an answer may take to be read, and that it may wait for others. */
const times = { reading: 1500, waiting: 1500 };
/** Milliseconds after which a thread that is not needed is ended. */
const idleTime = 60_000;
const resourceLimits = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 };

/** One thread, which reads one answer after the other; made when it is needed. */
export class Reader {
  #thread: Worker | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;

  /** @throws CalendarFault for what cannot be read, or not in time */
  async read<R extends Reading>(reading: R): Promise<ReadFrom<R>> {
    const asked = performance.now();
    const turn = this.#last.then(() => {
      if (performance.now() - asked > times.waiting) throw new CalendarFault('timeout', 'too much is being read');
      return this.#readNow(reading);
    });
    this.#last = turn.catch(() => undefined);
    return (await turn) as ReadFrom<R>;
  }

  #readNow(reading: Reading): Promise<unknown> {
    clearTimeout(this.#idle);
    const thread = this.#thread ?? this.#open();
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        this.#close();
        reject(new CalendarFault('unreadable', why));
      };
      const overdue = setTimeout(fail, times.reading, 'it takes too long to be read');
      thread.once('message', (answer: ThreadAnswer) => {
        clearTimeout(overdue);
        thread.removeAllListeners('error');
        this.#idle = setTimeout(() => this.#close(), idleTime).unref();
        if ('result' in answer) resolve(answer.result);
        else reject(new CalendarFault('unreadable', answer.why));
      });
      thread.once('error', () => {
        clearTimeout(overdue);
        fail('it takes too much to be read');
      });
      thread.postMessage(reading);
    });
  }

  #open(): Worker {
    const thread = new Worker(new URL('./reading-thread.ts', import.meta.url), { resourceLimits });
    // Whoever stops does not wait for it.
    thread.unref();
    this.#thread = thread;
    return thread;
  }

  #close(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.removeAllListeners();
    // It may fail once more while it ends, which is nobody's business.
    thread?.on('error', () => undefined);
    void thread?.terminate();
  }
}
