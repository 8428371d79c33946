// Counts the use of API keys in memory and writes the counts every second.

/** The use of one key since the last write. */
export interface Use {
  companyId: string;
  keyId: string;
  calls: number;
  /** Calls that were answered with an error. */
  failures: number;
  /** Client address of the last call. */
  ip: string;
}

/** Milliseconds until counts are written. A process that is killed loses at most this much. */
const writeIntervalMs = 1000;

export class UseCounts {
  readonly #write: (companyId: string, uses: readonly Use[]) => Promise<void>;
  #pending = new Map<string, Use>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  /** @param write writes the counts of one company */
  constructor(write: (companyId: string, uses: readonly Use[]) => Promise<void>) {
    this.#write = write;
  }

  add(companyId: string, keyId: string, ip: string, { calls = 0, failures = 0 }: Partial<Use>): void {
    const known = this.#pending.get(keyId);
    if (known) {
      known.calls += calls;
      known.failures += failures;
      known.ip = ip;
    } else this.#pending.set(keyId, { companyId, keyId, calls, failures, ip });
    this.#timer ??= setTimeout(() => {
      this.#writing = this.#flush();
    }, writeIntervalMs).unref();
  }

  /** Writes the counts now instead of within a second. */
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
        // The database logs the reason. The counts are kept for the next write.
        this.#write(companyId, own).catch(() => {
          for (const use of own) this.add(companyId, use.keyId, use.ip, use);
        }),
      ),
    );
  }
}
