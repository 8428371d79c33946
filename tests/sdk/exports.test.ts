// Exports by the TypeScript client: one call from the request to the bytes of the file.
import { createHash, randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { createClient, isCrmError } from '../../sdk/src/index.ts';
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

const newClient = (apiKey: string) =>
  createClient({ baseUrl: inject('baseUrl'), apiKey, headers: { 'x-forwarded-for': anyAddress() } });

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
});
