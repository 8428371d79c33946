// How often each API key was used, gathered here and written down every second.

/** Use of one key since it was last written down. */
export interface Use {
  companyId: string;
  keyId: string;
  calls: number;
  /** Where its last call came from. */
  ip: string;
}

/** Milliseconds until uses are written down: so many a process that is killed may lose. */
const pause = 1000;

export class UseCounts {
  readonly #write: (companyId: string, uses: readonly Use[]) => Promise<void>;
  #pending = new Map<string, Use>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  /** @param write those of one company */
  constructor(write: (companyId: string, uses: readonly Use[]) => Promise<void>) {
    this.#write = write;
  }

  add(companyId: string, keyId: string, ip: string, calls = 1): void {
    const known = this.#pending.get(keyId);
    if (known) {
      known.calls += calls;
      known.ip = ip;
    } else this.#pending.set(keyId, { companyId, keyId, calls, ip });
    this.#timer ??= setTimeout(() => {
      this.#writing = this.#flush();
    }, pause).unref();
  }

  /** Writes down what there is now, instead of within a second. */
  async flush(): Promise<void> {
    await this.#writing;
    clearTimeout(this.#timer);
    this.#writing = this.#flush();
    await this.#writing;
  }

  async #flush(): Promise<void> {
    const uses = [...this.#pending.values()];
    this.#pending = new Map();
    this.#timer = undefined;
    const companies = [...Map.groupBy(uses, ({ companyId }) => companyId)];
    await Promise.all(
      companies.map(([companyId, own]) =>
        // The statement says in the log of the database why; what was not written down is kept for the next time.
        this.#write(companyId, own).catch(() => {
          for (const { keyId, ip, calls } of own) this.add(companyId, keyId, ip, calls);
        }),
      ),
    );
  }
}
