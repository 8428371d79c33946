// Records requests for their workspaces: queued in memory, written in batches after the responses.

/** Milliseconds until queued requests are written. A process that is killed loses at most this much. */
const writeIntervalMs = 1000;
/**
 * Requests that are written together, without waiting for the interval. Large batches make large
 * blocks, even if many workspaces send requests.
 */
const batchSize = 2000;
/** Maximum number of requests that wait while the database is slow or unavailable. */
const maxQueued = 10_000;

/** The log of a process. Nothing waits for it, and it never fails. */
export class RequestLog<Request> {
  readonly #write: (requests: readonly Request[]) => Promise<void>;
  readonly #onFailure: (error: unknown, count: number) => void;
  #queue: Request[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  /** Requests that were not recorded, since the start. */
  dropped = 0;

  /**
   * @param write writes a batch
   * @param onFailure gets the error of a batch that is lost, and its number of requests
   */
  constructor(
    write: (requests: readonly Request[]) => Promise<void>,
    onFailure: (error: unknown, count: number) => void,
  ) {
    this.#write = write;
    this.#onFailure = onFailure;
  }

  /** Adds a request, or drops it if too many wait. */
  add(request: Request): void {
    if (this.#queue.length >= maxQueued) {
      this.dropped += 1;
      return;
    }
    this.#queue.push(request);
    if (this.#writing) return;
    if (this.#queue.length >= batchSize) this.#start();
    else this.#timer ??= setTimeout(() => this.#start(), writeIntervalMs).unref();
  }

  /** Writes everything that is queued. */
  async flush(): Promise<void> {
    await this.#writing;
    if (this.#queue.length > 0) this.#start();
    await this.#writing;
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#queue.length > 0) this.#timer ??= setTimeout(() => this.#start(), writeIntervalMs).unref();
    });
  }

  /** Writes batch after batch until less than a batch is left. */
  async #writeAll(): Promise<void> {
    do {
      const requests = this.#queue.splice(0, batchSize);
      try {
        await this.#write(requests);
      } catch (error) {
        this.dropped += requests.length;
        this.#onFailure(error, requests.length);
      }
    } while (this.#queue.length >= batchSize);
  }
}
