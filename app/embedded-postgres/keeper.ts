// Restarts the embedded PostgreSQL when it dies, up to a number of attempts.
import { setTimeout as sleep } from 'node:timers/promises';
import { type EmbeddedDatabase, startEmbedded } from './database.ts';

/** Milliseconds before a restart: after the first death in a row, and at most. */
const backoff = { first: 100, most: 5000 };
/** Milliseconds of running after which the next death counts as the first in a row. */
const stableMs = 30_000;
/** Maximum number of short-lived starts in a row. */
const maxStarts = 7;

/** Callbacks for what happens to the database. */
export interface Watcher {
  /** Receives messages for the operator. */
  note(text: string): void;
  /**
   * It died or did not start, and will be restarted.
   * @param wait milliseconds until then
   */
  died(reason: string, wait: number): void;
  returned(pid: number): void;
  /** It keeps stopping, and is no longer restarted. */
  lost(reason: string): void;
}

/** An embedded database that survives the death of its process, always at the same address. */
export class KeptDatabase {
  readonly url: string;
  readonly #dataDir: string;
  readonly #watcher: Watcher;
  readonly #stopping = new AbortController();
  #database: EmbeddedDatabase;
  /** Resolves when no start is in progress. */
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
   * @throws EmbeddedDatabaseError if the first start fails
   */
  static async start(dataDir: string, watcher: Watcher): Promise<KeptDatabase> {
    const database = await startEmbedded(dataDir, (text) => watcher.note(text));
    const kept = new KeptDatabase(dataDir, database, watcher);
    void kept.#keep();
    return kept;
  }

  /** The current process, or the last one. */
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
      if (performance.now() - since > stableMs) starts = 0;
      while (reason !== undefined) {
        if (signal.aborted) return;
        if (starts === maxStarts) return this.#watcher.lost(reason);
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

  /** @returns why it did not start; undefined if it runs or is being stopped */
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
