// Keeps the embedded PostgreSQL running: starts it again when it dies, for as long as that helps.
import { setTimeout as sleep } from 'node:timers/promises';
import { type EmbeddedDatabase, startEmbedded } from './database.ts';

/** Milliseconds before it is started again: after the first death in a row, and at most. */
const backoff = { first: 100, most: 5000 };
/** Milliseconds after which a death begins a row of its own. */
const stable = 30_000;
/** Starts in a row that do not last, after which none is tried any more. */
const mostStarts = 7;

/** Who is told of what happens to it. */
export interface Watcher {
  /** Something that an operator may want to know. */
  note(text: string): void;
  /** It died, or did not start, and will be started. @param wait milliseconds until then */
  died(reason: string, wait: number): void;
  returned(pid: number): void;
  /** It keeps dying, and is not started any more. */
  lost(reason: string): void;
}

/** An embedded database that outlives its process: always at the same address. */
export class KeptDatabase {
  readonly url: string;
  readonly #dataDir: string;
  readonly #watcher: Watcher;
  readonly #stopping = new AbortController();
  #database: EmbeddedDatabase;
  /** Resolves when no start is under way. */
  #settled: Promise<unknown> = Promise.resolve();

  private constructor(dataDir: string, database: EmbeddedDatabase, watcher: Watcher) {
    this.url = database.url;
    this.#dataDir = dataDir;
    this.#database = database;
    this.#watcher = watcher;
  }

  /**
   * Starts it.
   * @param dataDir absolute path, as for startEmbedded
   * @throws EmbeddedDatabaseError when it does not start this first time
   */
  static async start(dataDir: string, watcher: Watcher): Promise<KeptDatabase> {
    const database = await startEmbedded(dataDir, (text) => watcher.note(text));
    const kept = new KeptDatabase(dataDir, database, watcher);
    void kept.#keep();
    return kept;
  }

  /** The process that runs now, or ran last. */
  get pid(): number {
    return this.#database.pid;
  }

  /** Stops it for good. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#settled;
    await this.#database.stop();
  }

  async #keep(): Promise<void> {
    const { signal } = this.#stopping;
    let starts = 0;
    for (;;) {
      const since = performance.now();
      let reason: string | undefined = `It ended ${await this.#database.ended}.`;
      if (performance.now() - since > stable) starts = 0;
      while (reason !== undefined) {
        if (signal.aborted) return;
        if (starts === mostStarts) return this.#watcher.lost(reason);
        const wait = Math.min(backoff.first * 2 ** starts, backoff.most);
        starts += 1;
        this.#watcher.died(reason, wait);
        const started = this.#startAfter(wait);
        this.#settled = started;
        reason = await started;
      }
      if (signal.aborted) return;
      this.#watcher.returned(this.pid);
    }
  }

  /** @returns why it did not start; undefined when it runs, or is wanted no more */
  async #startAfter(wait: number): Promise<string | undefined> {
    const { signal } = this.#stopping;
    try {
      await sleep(wait, undefined, { signal });
      const port = Number(new URL(this.url).port);
      this.#database = await startEmbedded(this.#dataDir, (text) => this.#watcher.note(text), port);
      return undefined;
    } catch (error) {
      return signal.aborted ? undefined : (error as Error).message;
    }
  }
}
