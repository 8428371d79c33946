// Exports in one call: created, waited for, and passed on as a stream.
import { CrmError } from './errors.ts';
import type { Operations } from './generated/operations.ts';
import { sleep } from './retries.ts';
import type { CallOf, Schemas } from './shapes.ts';

export interface DownloadOptions extends Pick<CallOf<'createExport'>, 'body' | 'idempotencyKey' | 'signal'> {
  /** Receives the export after each look at it: its `status`, and `rows` written so far. */
  onProgress?: (progress: Schemas['DataExport']) => void;
}

export interface ExportDownload {
  /** The completed export, with `bytes` and `sha256` of the file and `changes_cursor`. */
  export: Schemas['DataExport'];
  /** The file, as it arrives. */
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
  fetchFile: (request: Request) => Promise<Response>,
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
      return { export: current, stream: await openFile(current, fetchFile, signal) };
    },
  };
}

async function openFile(
  { status, error, download_url: url }: Schemas['DataExport'],
  fetchFile: (request: Request) => Promise<Response>,
  signal: AbortSignal | undefined,
): Promise<ReadableStream<Uint8Array>> {
  if (url === null)
    throw new CrmError('EXPORT_FAILED', `The export has ended with the status ${status}.`, {
      details: { reason: error ?? status },
    });
  // Without a credential: the link is enough, and may lead to another host.
  const response = await fetchFile(new Request(url, signal ? { signal } : {})).catch((cause: unknown) => {
    if (signal?.aborted) throw signal.reason;
    throw new CrmError('CONNECTION_FAILED', 'The connection failed before the file arrived.', { cause });
  });
  if (!response.ok || !response.body) {
    const { status: found } = response;
    throw new CrmError('UNREADABLE_ANSWER', `The download was answered with status ${found}.`, { status: found });
  }
  return response.body;
}
