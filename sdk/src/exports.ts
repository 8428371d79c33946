// Exports in one call: created, waited for, and passed on as a stream.
import { CrmError } from './errors.ts';
import type { Operations } from './generated/operations.ts';
import { computeWait, type RetryPolicy, sleep, withRetries } from './retries.ts';
import { Sha256 } from './sha256.ts';
import type { CallOf, Schemas } from './shapes.ts';

export interface DownloadOptions extends Pick<CallOf<'createExport'>, 'body' | 'idempotencyKey' | 'signal'> {
  /** Receives the export after each look at it: its `status`, and `rows` written so far. */
  onProgress?: (progress: Schemas['DataExport']) => void;
}

export interface ExportDownload {
  /** The completed export, with `bytes` and `sha256` of the file and `changes_cursor`. */
  export: Schemas['DataExport'];
  /**
   * The file, as it arrives. It goes on after interruptions, and fails if the file does not have
   * the digest of the export.
   */
  stream: ReadableStream<Uint8Array>;
}

export interface Exports {
  /**
   * Creates an export, waits until it is completed, and opens its file. If `signal` is aborted
   * before that, the export is cancelled.
   * @throws CrmError EXPORT_FAILED with `details.reason` if the export fails or is cancelled
   */
  download(options: DownloadOptions): Promise<ExportDownload>;
}

/** Milliseconds between two looks at an export: at first, and at most. */
const pollMs = { first: 100, most: 5000 };

export function createExports(
  client: Pick<Operations, 'createExport' | 'getExport' | 'cancelExport'>,
  fetchFile: FetchFile,
  policy: Pick<RetryPolicy, 'retries' | 'longestWait'>,
): Exports {
  return {
    async download({ onProgress, ...call }) {
      const { signal } = call;
      const options = signal ? { signal } : {};
      let current = (await client.createExport(call)).export;
      const path = { id: current.id };
      onProgress?.(current);
      try {
        for (let wait = pollMs.first; current.status === 'queued' || current.status === 'running'; ) {
          await sleep(wait, signal);
          wait = Math.min(wait * 2, pollMs.most);
          current = (await client.getExport({ path, ...options })).export;
          onProgress?.(current);
        }
      } catch (error) {
        // Nobody is waiting for the file.
        if (signal?.aborted) await client.cancelExport({ path }).catch(() => undefined);
        throw error;
      }
      return { export: current, stream: await openFile(current, fetchFile, policy, signal) };
    },
  };
}

/** Returns the file. Its download goes on after interruptions, and fails if its digest is not that of the export. */
async function openFile(
  { status, error, download_url: url, bytes, sha256 }: Schemas['DataExport'],
  fetchFile: FetchFile,
  policy: Pick<RetryPolicy, 'retries' | 'longestWait'>,
  signal: AbortSignal | undefined,
): Promise<ReadableStream<Uint8Array>> {
  if (url === null || bytes === null)
    throw new CrmError('EXPORT_FAILED', `The export has ended with the status ${status}.`, {
      details: { reason: error ?? status },
    });
  const download = new Download(url, bytes, fetchFile, policy, signal);
  await download.open();
  const hash = new Sha256();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = await download.read();
        if (chunk) {
          hash.update(chunk);
          controller.enqueue(chunk);
          return;
        }
        if (sha256 !== null && hash.digest() !== sha256)
          throw new CrmError('EXPORT_FAILED', 'The file does not have the digest of the export. Download it again.', {
            details: { reason: 'digest_mismatch' },
          });
        controller.close();
      },
      cancel: () => download.close(),
    },
    { highWaterMark: 0 },
  );
}

type FetchFile = (request: Request) => Promise<Response>;

/** Reads a file from a link, and asks for the rest of it after an interruption. */
class Download {
  readonly #url: string;
  readonly #bytes: number;
  readonly #fetchFile: FetchFile;
  readonly #policy: Pick<RetryPolicy, 'retries' | 'longestWait'>;
  readonly #signal: AbortSignal | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #received = 0;
  /** Bytes to leave out, because the server has begun at the start again. */
  #toSkip = 0;
  /** Interruptions since the last byte. */
  #failures = 0;

  constructor(
    url: string,
    bytes: number,
    fetchFile: FetchFile,
    policy: Pick<RetryPolicy, 'retries' | 'longestWait'>,
    signal: AbortSignal | undefined,
  ) {
    this.#url = url;
    this.#bytes = bytes;
    this.#fetchFile = fetchFile;
    this.#policy = policy;
    this.#signal = signal;
  }

  /** Opens the file, or the rest of it. */
  open(): Promise<void> {
    return withRetries(() => this.#request(), { ...this.#policy, repeatable: true, signal: this.#signal });
  }

  async #request(): Promise<void> {
    const signal = this.#signal;
    // Without a credential: the link is enough, and may lead to another host.
    const headers = this.#received > 0 ? { range: `bytes=${this.#received}-` } : {};
    const request = new Request(this.#url, { headers, ...(signal ? { signal } : {}) });
    const response = await this.#fetchFile(request).catch((cause: unknown) => {
      if (signal?.aborted) throw signal.reason;
      throw new CrmError('CONNECTION_FAILED', 'The connection failed before the file arrived.', { cause });
    });
    const { status, ok, body } = response;
    if (!ok || !body)
      throw new CrmError('UNREADABLE_ANSWER', `The download was answered with status ${status}.`, { status });
    this.#toSkip = status === 206 ? 0 : this.#received;
    this.#reader = body.getReader();
  }

  /** Returns the next bytes; undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (this.#received >= this.#bytes) return undefined;
      const chunk = await this.#readOn();
      const skipped = Math.min(this.#toSkip, chunk.length);
      this.#toSkip -= skipped;
      if (skipped === chunk.length) continue;
      this.#failures = 0;
      const rest = chunk.subarray(skipped);
      this.#received += rest.length;
      return rest;
    }
  }

  /** Returns bytes of the response, or of another one if it breaks off. */
  async #readOn(): Promise<Uint8Array> {
    for (;;) {
      let failure: unknown;
      try {
        const { value } = (await this.#reader?.read()) ?? {};
        if (value) return value;
      } catch (error) {
        if (this.#signal?.aborted) throw this.#signal.reason;
        failure = error;
      }
      const lost = new CrmError('CONNECTION_FAILED', 'The connection failed before the file was complete.', {
        cause: failure,
      });
      if (this.#failures >= this.#policy.retries) throw lost;
      await sleep(computeWait(lost, this.#failures, Math.random()), this.#signal);
      this.#failures += 1;
      await this.open();
    }
  }

  async close(): Promise<void> {
    await this.#reader?.cancel();
  }
}
