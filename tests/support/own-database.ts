// A PostgreSQL of a test's own, which it may kill, pause and start again where it was.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EmbeddedDatabase, startEmbedded } from '../../app/embedded-postgres/database.ts';

/** Milliseconds that a start may take, while what was killed still gives its memory back. */
const patience = 60_000;

export class OwnDatabase {
  readonly #folder: string;
  #database: EmbeddedDatabase;
  /** Lets go on what stands still. */
  #resume: () => void = () => undefined;

  private constructor(folder: string, database: EmbeddedDatabase) {
    this.#folder = folder;
    this.#database = database;
  }

  static async start(folder: string): Promise<OwnDatabase> {
    mkdirSync(folder, { recursive: true });
    return new OwnDatabase(folder, await startEmbedded(folder, () => undefined));
  }

  get url(): string {
    return this.#database.url;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** The server, its connections and its own helpers. */
  processes(): number[] {
    const { pid } = this.#database;
    const found = execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
    return [pid, ...found.trim().split('\n').map(Number)];
  }

  /** Ends all its processes at once, as a power failure would. */
  kill(): void {
    for (const pid of this.processes()) process.kill(pid, 'SIGKILL');
  }

  /** Kills one connection's process: PostgreSQL then throws all others away and recovers by itself. */
  killOne(pick: (processes: readonly number[]) => number): void {
    process.kill(pick(this.processes().slice(1)), 'SIGKILL');
  }

  /** Stops all its processes where they are. @returns what lets them go on */
  pause(): () => void {
    const paused = this.processes();
    for (const pid of paused) process.kill(pid, 'SIGSTOP');
    this.#resume = () => {
      this.#resume = () => undefined;
      for (const pid of paused) process.kill(pid, 'SIGCONT');
    };
    return () => this.#resume();
  }

  stop(): Promise<void> {
    return this.#database.stop();
  }

  /** Starts it again on the same data and port. */
  async restart(): Promise<void> {
    const tooLate = performance.now() + patience;
    for (;;) {
      try {
        this.#database = await startEmbedded(this.#folder, () => undefined, this.port);
        return;
      } catch (error) {
        // Its memory may still be in use for a moment by connections that are dying.
        if (performance.now() > tooLate) throw error;
        await sleep(50);
      }
    }
  }

  async remove(): Promise<void> {
    this.#resume();
    await this.#database.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
