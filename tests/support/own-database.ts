// A separate PostgreSQL that a test may kill, pause and restart in place.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EmbeddedDatabase, startEmbedded } from '../../app/embedded-postgres/database.ts';

/** The longest start in milliseconds, while killed processes still free their memory. */
const patience = 60_000;

export class OwnDatabase {
  readonly #folder: string;
  #database: EmbeddedDatabase;
  /** Resumes paused processes. */
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

  /** Returns the postmaster, its connections and its helpers. */
  processes(): number[] {
    const { pid } = this.#database;
    const found = execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
    return [pid, ...found.trim().split('\n').map(Number)];
  }

  /** Kills all processes together, like a power failure. */
  kill(): void {
    for (const pid of this.processes()) process.kill(pid, 'SIGKILL');
  }

  /** Kills the process of one connection. PostgreSQL then drops all others and recovers. */
  killOne(pick: (processes: readonly number[]) => number): void {
    process.kill(pick(this.processes().slice(1)), 'SIGKILL');
  }

  /**
   * Pauses all processes.
   * @returns a function that resumes them
   */
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

  /** Restarts it on the same data and port. */
  async restart(): Promise<void> {
    const tooLate = performance.now() + patience;
    for (;;) {
      try {
        this.#database = await startEmbedded(this.#folder, () => undefined, this.port);
        return;
      } catch (error) {
        // Dying connections may still use its shared memory for a moment.
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
