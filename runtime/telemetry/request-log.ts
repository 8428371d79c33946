// Records requests for their workspaces: queued in memory, written in batches after the responses.

/** Milliseconds until queued requests are written. A process that is killed loses at most this much. */
const writeIntervalMs = 1000;
/** Requests that are written without waiting for the interval. Large batches make large blocks. */
const batchSize = 2000;
/** Maximum number of requests that wait while the database is slow or unavailable. */
const maxQueued = 10_000;

/** Requests that wait to be written. */
interface Queue<Request, Block> {
  /** The number of requests. */
  readonly size: number;
  add(request: Request): void;
  /** Removes all requests and returns them in blocks. */
  take(): readonly Block[];
}

/** Some requests of a batch were not written. */
export class LostRequests extends Error {
  readonly requests: number;

  constructor(requests: number, cause: unknown) {
    super(String(cause), { cause });
    this.requests = requests;
  }
}

/** The log of a process. Nothing waits for it, and it never fails. */
export class RequestLog<Request, Block> {
  readonly #queue: Queue<Request, Block>;
  readonly #write: (blocks: readonly Block[]) => Promise<void>;
  readonly #onFailure: (error: unknown, requests: number) => void;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  /** Requests that were not recorded, since the start. */
  dropped = 0;

  /**
   * @param write rejects with LostRequests if only a part of the batch was lost
   * @param onFailure gets the error, and the number of requests that were lost
   */
  constructor(
    queue: Queue<Request, Block>,
    write: (blocks: readonly Block[]) => Promise<void>,
    onFailure: (error: unknown, requests: number) => void,
  ) {
    this.#queue = queue;
    this.#write = write;
    this.#onFailure = onFailure;
  }

  /** Adds a request, or drops it if too many wait. */
  add(request: Request): void {
    if (this.#queue.size >= maxQueued) {
      this.dropped += 1;
      return;
    }
    this.#queue.add(request);
    if (this.#writing) return;
    if (this.#queue.size >= batchSize) this.#start();
    else this.#timer ??= setTimeout(() => this.#start(), writeIntervalMs).unref();
  }

  /** Writes everything that is queued. */
  async flush(): Promise<void> {
    await this.#writing;
    if (this.#queue.size > 0) this.#start();
    await this.#writing;
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#queue.size > 0) this.#timer ??= setTimeout(() => this.#start(), writeIntervalMs).unref();
    });
  }

  /** Writes batch after batch until less than a batch is left. */
  async #writeAll(): Promise<void> {
    do {
      const { size } = this.#queue;
      try {
        await this.#write(this.#queue.take());
      } catch (error) {
        const lost = error instanceof LostRequests ? error.requests : size;
        this.dropped += lost;
        this.#onFailure(error, lost);
      }
    } while (this.#queue.size >= batchSize);
  }
}
