// Exports by the TypeScript client: one call from the request to the bytes of the file.
import { createHash, randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type ClientOptions, createClient, isCrmError } from '../../sdk/src/index.ts';
import { Sha256 } from '../../sdk/src/sha256.ts';
import { anyAddress, type Json } from '../support/client.ts';
import { createRecords } from '../support/records.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
  await createRecords(
    tenant.key,
    'accounts',
    Array.from({ length: 30 }, (_, index) => ({ name: `A ${index}` })),
  );
});

const newClient = (apiKey: string, options: Partial<ClientOptions> = {}) =>
  createClient({ baseUrl: inject('baseUrl'), apiKey, headers: { 'x-forwarded-for': anyAddress() }, ...options });

/** Has an export of another server run, so that no other starts. */
async function occupy({ companyId }: Tenant): Promise<void> {
  await database()`
    insert into exports (company_id, test_mode, id, object, format, spreadsheet_safe, modules, sources, status, claimed_until,
      created_by_kind, created_by_id, created_at)
    values (${companyId}, false, ${randomUUID()}, 'leads', 'csv', false, '{leads}', '[]', 'running', now() + interval '1 hour',
      'system', 'test', now())`;
}

describe('download', () => {
  test('returns the file as a stream, and reports progress until then', async () => {
    const seen: (string | number | null)[][] = [];
    const { export: done, stream } = await newClient(tenant.key).exports.download({
      body: { object: 'accounts', format: 'csv', fields: ['name'] },
      onProgress: ({ status, rows }) => seen.push([status, rows]),
    });
    const file = Buffer.from(await new Response(stream).arrayBuffer());
    expect(file.toString().trimEnd().split('\r\n')).toHaveLength(31);
    expect(createHash('sha256').update(file).digest('hex')).toBe(done.sha256);
    expect(seen[0]).toEqual(['queued', null]);
    expect(seen.at(-1)).toEqual(['completed', 30]);
  });

  test('cancels the export if it is aborted', async () => {
    const own = await newTenant();
    await occupy(own);
    const abort = new AbortController();
    let id = '';
    const download = newClient(own.key).exports.download({
      body: { object: 'accounts' },
      signal: abort.signal,
      onProgress: (progress) => {
        id = progress.id;
      },
    });
    const failure = download.catch((error: unknown) => error);
    await vi.waitUntil(() => id !== '');
    abort.abort(new Error('enough'));
    expect(await failure).toEqual(new Error('enough'));
    const [row] = await database()`select status from exports where id = ${id}`;
    expect(row?.status).toBe('cancelled');
  });

  test('throws the reason if the export fails', async () => {
    const own = await newTenant();
    await occupy(own);
    const download = newClient(own.key).exports.download({
      body: { object: 'accounts' },
      onProgress: ({ id }: Json) =>
        void database()`update exports set status = 'failed', error = 'too_long' where id = ${id}`.execute(),
    });
    const failure = await download.catch((error: unknown) => error);
    expect(isCrmError(failure, 'EXPORT_FAILED') && failure.details.reason).toBe('too_long');
  });

  /** Sends the requests of a client, and changes the downloads. @returns the ranges that were asked for */
  function changeDownloads(change: (response: Response, download: number) => Response, keepsRange = true) {
    const ranges: (string | null)[] = [];
    const statuses: number[] = [];
    const send = async (request: Request): Promise<Response> => {
      if (!request.url.includes('/content')) return fetch(request);
      ranges.push(request.headers.get('range'));
      const response = await fetch(keepsRange ? request : request.url);
      statuses.push(response.status);
      return change(response, ranges.length);
    };
    return { ranges, statuses, fetch: send };
  }

  /** Returns a response that breaks off after some bytes, with an error or as if it had ended. */
  function breakAfter(response: Response, bytes: number, isSilent = false): Response {
    let left = bytes;
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        controller.enqueue(chunk.subarray(0, left));
        left -= chunk.length;
        if (left > 0) return;
        if (isSilent) controller.terminate();
        else controller.error(new Error('the connection broke'));
      },
    });
    return new Response(response.body?.pipeThrough(cut), response);
  }

  const body = { object: 'accounts', format: 'csv', fields: ['name'] } as const;

  test.each([true, false])('goes on where the download broke off, if the server keeps ranges: %s', async (keeps) => {
    const changed = changeDownloads(
      (response, download) => (download > 2 ? response : breakAfter(response, 100 * download, download === 2)),
      keeps,
    );
    const crm = newClient(tenant.key, { fetch: changed.fetch });
    const { export: done, stream } = await crm.exports.download({ body: { ...body, fields: [...body.fields] } });
    const file = Buffer.from(await new Response(stream).arrayBuffer());
    expect([file.length, createHash('sha256').update(file).digest('hex')]).toEqual([done.bytes, done.sha256]);
    expect(changed.ranges).toEqual([null, 'bytes=100-', keeps ? 'bytes=300-' : 'bytes=200-']);
    expect(changed.statuses).toEqual([200, keeps ? 206 : 200, keeps ? 206 : 200]);
  });

  test('gives up after as many interruptions as the client retries', async () => {
    const changed = changeDownloads((response) => breakAfter(response, 0));
    const crm = newClient(tenant.key, { fetch: changed.fetch, retries: 1 });
    const { stream } = await crm.exports.download({ body: { ...body, fields: [...body.fields] } });
    const failure = await new Response(stream).arrayBuffer().catch((error: unknown) => error);
    expect(isCrmError(failure, 'CONNECTION_FAILED')).toBe(true);
    expect(changed.ranges).toHaveLength(2);
  });

  test('fails if the file does not have the digest of the export', async () => {
    const wrong = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => controller.enqueue(chunk.map((byte) => byte ^ 1)),
    });
    const changed = changeDownloads((response) => new Response(response.body?.pipeThrough(wrong), response));
    const crm = newClient(tenant.key, { fetch: changed.fetch });
    const { stream } = await crm.exports.download({ body: { ...body, fields: [...body.fields] } });
    const failure = await new Response(stream).arrayBuffer().catch((error: unknown) => error);
    expect(isCrmError(failure, 'EXPORT_FAILED') && failure.details.reason).toBe('digest_mismatch');
  });
});

test('hashes a stream as the digest of the whole', () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 100_003]) {
    const bytes = Buffer.from(Array.from({ length }, (_, index) => (index * 31) % 251));
    const hash = new Sha256();
    for (let at = 0; at < length; at += 37) hash.update(bytes.subarray(at, at + 37));
    expect(hash.digest()).toBe(createHash('sha256').update(bytes).digest('hex'));
  }
});
