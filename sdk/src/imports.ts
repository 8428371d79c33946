// Imports in one call: created, uploaded in parts, started and waited for, and resumed.
import { CrmError } from './errors.ts';
import type { Operations } from './generated/operations.ts';
import { type RetryPolicy, sleep, withRetries } from './retries.ts';
import type { CallOf, Schemas } from './shapes.ts';

type Import = Schemas['ImportJob'];

export interface ImportOptions extends Pick<CallOf<'createImport'>, 'signal'> {
  /** The options of a new import. */
  body: Schemas['ImportCreate'];
  /**
   * The Idempotency-Key of a new import. The same call with the same key goes on with that import.
   */
  idempotencyKey?: string;
  /** The ID of an import to go on with, instead of creating one. */
  importId?: string;
  /** Bytes of a part, up to 64 MiB; 8 MiB by default. */
  partBytes?: number;
  /** Receives the import after each part and each look at it. */
  onProgress?: (progress: ImportProgress) => void;
}

export interface ImportProgress {
  /** With `status`, `percent` and `counts`. */
  import: Import;
  /** Bytes of the file that the server has, of so many. */
  uploadedBytes: number;
  totalBytes: number;
}

export interface Imports {
  /**
   * Imports a file: creates the import, uploads the file in parts, starts it, and waits for its
   * end. Parts are sent with their digest, and only if the server does not have them. If it is
   * interrupted or `signal` is aborted, the import stays as it is, and `importId` or the same
   * `idempotencyKey` goes on with it.
   * @param file in Node, `await openAsBlob(path)` of node:fs reads it part by part
   * @returns the completed import; rows that failed are in `counts.failed`
   * @throws CrmError IMPORT_FAILED with `details.reason` if the import fails or is cancelled
   */
  run(file: Blob, options: ImportOptions): Promise<Import>;
}

type Client = Pick<
  Operations,
  'cancelImport' | 'createImport' | 'getImport' | 'listImportParts' | 'startImport' | 'uploadImportPart'
>;

const defaultPartBytes = 8 * 1024 * 1024;
const mostParts = 1000;
/** Milliseconds in which a part must arrive. */
const partTimeoutMs = 600_000;
/** Milliseconds between two looks at an import: at first, and at most. */
const pollMs = { first: 100, most: 5000 };

export function createImports(client: Client, policy: Pick<RetryPolicy, 'retries' | 'longestWait'>): Imports {
  return { run: (file, options) => runImport(client, policy, file, options) };
}

async function runImport(
  client: Client,
  policy: Pick<RetryPolicy, 'retries' | 'longestWait'>,
  file: Blob,
  options: ImportOptions,
): Promise<Import> {
  const { signal, onProgress } = options;
  const signaled = signal ? { signal } : {};
  let current = await open(client, options, signaled);
  const hasFile = ['queued', 'running', 'completed'].includes(current.status);
  // The server forgets the size of a file after 30 days.
  if (hasFile && current.file.bytes > 0 && current.file.bytes !== file.size)
    throw new TypeError('the import has another file; create another import');
  const path = { id: current.id };
  let uploadedBytes = current.status === 'awaiting_file' ? 0 : file.size;
  const report = (): void => onProgress?.({ import: current, uploadedBytes, totalBytes: file.size });
  report();
  if (current.status === 'awaiting_file') {
    for await (const bytes of uploadParts(client, policy, file, path, options)) {
      uploadedBytes = bytes;
      report();
    }
    current = await start(client, path, signaled);
    report();
  }
  for (let wait = pollMs.first; current.status === 'queued' || current.status === 'running'; ) {
    await sleep(wait, signal);
    wait = Math.min(wait * 2, pollMs.most);
    current = (await client.getImport({ path, ...signaled })).import;
    report();
  }
  if (current.status === 'failed' || current.status === 'cancelled')
    throw new CrmError('IMPORT_FAILED', current.error?.message ?? 'The import was cancelled.', {
      details: { reason: current.error?.code ?? current.status, import_id: current.id },
    });
  return current;
}

/** Creates an import, or finds the one to go on with. */
async function open(
  client: Client,
  { body, importId, idempotencyKey }: ImportOptions,
  signaled: { signal?: AbortSignal },
): Promise<Import> {
  if (importId !== undefined) return (await client.getImport({ path: { id: importId }, ...signaled })).import;
  const created = await client.createImport({ body, ...(idempotencyKey ? { idempotencyKey } : {}), ...signaled });
  // A repeated call gets the response of the first one, which may be long ago.
  if (!idempotencyKey) return created.import;
  return (await client.getImport({ path: { id: created.import.id }, ...signaled })).import;
}

/** Uploads the parts that the server does not have. Returns the bytes that it has after each part. */
async function* uploadParts(
  client: Client,
  policy: Pick<RetryPolicy, 'retries' | 'longestWait'>,
  file: Blob,
  path: { id: string },
  { signal, partBytes = defaultPartBytes }: ImportOptions,
): AsyncGenerator<number, void, undefined> {
  const signaled = signal ? { signal } : {};
  const stored = new Map<number, Schemas['ImportPart']>();
  for await (const part of client.listImportParts.all({ path, ...signaled })) stored.set(part.number, part);
  // The size of the parts that are there, so that they can stay.
  const size = Math.max(stored.get(1)?.bytes ?? partBytes, Math.ceil(file.size / mostParts), 1);
  const count = Math.max(1, Math.ceil(file.size / size));
  if ([...stored.keys()].some((number) => number > count))
    throw new TypeError('the import has parts of another file; create another import');
  for (let number = 1; number <= count; number += 1) {
    signal?.throwIfAborted();
    const part = file.slice((number - 1) * size, number * size, 'application/octet-stream');
    const digest = await crypto.subtle.digest('SHA-256', await part.arrayBuffer());
    if (stored.get(number)?.sha256 !== toHex(digest)) {
      const headers = { 'content-digest': `sha-256=:${toBase64(digest)}:` };
      const upload = { path, query: { number }, body: part, headers, timeout: partTimeoutMs, retries: 0, ...signaled };
      // The same part again has the same effect.
      await withRetries(() => client.uploadImportPart(upload), { ...policy, repeatable: true, signal });
    }
    yield Math.min(number * size, file.size);
  }
}

/** Starts an import. If its file cannot be imported, the import is cancelled, as it can never start. */
async function start(client: Client, path: { id: string }, signaled: { signal?: AbortSignal }): Promise<Import> {
  try {
    return (await client.startImport({ path, ...signaled })).import;
  } catch (error) {
    if (error instanceof CrmError && error.code === 'VALIDATION_ERROR')
      await client.cancelImport({ path }).catch(() => undefined);
    throw error;
  }
}

const toHex = (digest: ArrayBuffer): string =>
  Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
const toBase64 = (digest: ArrayBuffer): string => btoa(String.fromCharCode(...new Uint8Array(digest)));
