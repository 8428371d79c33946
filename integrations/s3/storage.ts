// File storage in an S3-compatible store.
import { openAsBlob } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { AwsClient } from 'aws4fetch';
import { buildContentDisposition } from '../../domain/records/file-names.ts';
import type { S3Settings } from '../../runtime/config.ts';
import type { FileStorage } from '../../runtime/files/storage.ts';
import { startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';

/** Timeout of one call in milliseconds. */
const timeout = 30_000;
/** Bytes per millisecond of a large upload, at least: a megabyte a second. */
const slowestUpload = 1000;

export class S3Storage implements FileStorage {
  readonly #client: AwsClient;
  readonly #bucket: string;

  constructor({ endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Settings) {
    this.#client = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: 0 });
    this.#bucket = `${endpoint}/${bucket}`;
  }

  async keep(key: string, path: string, sha256: string): Promise<void> {
    // Streamed from the disk, so that the file is never in memory as a whole.
    const [body, { size }] = await Promise.all([openAsBlob(path), stat(path)]);
    const headers = { 'content-type': 'application/octet-stream', 'x-amz-content-sha256': sha256 };
    await this.#send('PUT', key, { body, headers }, timeout + size / slowestUpload);
    await rm(path, { force: true });
  }

  async remove(key: string): Promise<void> {
    await this.#send('DELETE', key);
  }

  async link(key: string, name: string, seconds: number): Promise<string> {
    const url = new URL(`${this.#bucket}/${key}`);
    url.searchParams.set('X-Amz-Expires', String(seconds));
    url.searchParams.set('response-content-disposition', buildContentDisposition(name));
    url.searchParams.set('response-content-type', 'application/octet-stream');
    return (await this.#client.sign(url, { aws: { signQuery: true } })).url;
  }

  async open(): Promise<undefined> {
    return undefined;
  }

  async read(key: string, start: number): Promise<AsyncIterable<Uint8Array> | undefined> {
    const headers = start > 0 ? { range: `bytes=${start}-` } : {};
    const answer = await this.#client.fetch(`${this.#bucket}/${key}`, { headers });
    if (answer.status === 404) return undefined;
    if (!answer.ok || !answer.body) throw new Error(`the file storage responded to GET with status ${answer.status}`);
    return answer.body;
  }

  async #send(method: string, key: string, more: RequestInit = {}, milliseconds = timeout): Promise<void> {
    const overdue = new AbortController();
    const cancel = startResponsiveTimeout(
      () => overdue.abort(new Error('timed out waiting for a response')),
      milliseconds,
    );
    try {
      const answer = await this.#client.fetch(`${this.#bucket}/${key}`, { method, signal: overdue.signal, ...more });
      await answer.arrayBuffer();
      if (!answer.ok && !(method === 'DELETE' && answer.status === 404))
        throw new Error(`the file storage responded to ${method} with status ${answer.status}`);
    } finally {
      cancel();
    }
  }
}
