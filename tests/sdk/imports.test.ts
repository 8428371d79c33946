// Imports by the TypeScript client: one call from the file to its records, also interrupted.
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { createClient, type ImportProgress, isCrmError } from '../../sdk/src/index.ts';
import { anyAddress } from '../support/client.ts';
import { document } from '../support/document.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
});

interface Seen {
  method: string;
  path: string;
}

/** Returns a client whose requests are recorded, and fail if a function says so. */
function newClient({ fails = () => false }: { fails?: (seen: Seen) => boolean | 'lost' } = {}) {
  const seen: Seen[] = [];
  const crm = createClient({
    baseUrl: inject('baseUrl'),
    apiKey: tenant.key,
    headers: { 'x-forwarded-for': anyAddress() },
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url);
      const each = { method: request.method, path: pathname + search };
      seen.push(each);
      const outcome = fails(each);
      if (outcome === true) throw new TypeError('the connection failed');
      const response = await fetch(request);
      if (outcome !== 'lost') return response;
      await response.arrayBuffer();
      throw new TypeError('the response was lost');
    },
  });
  const parts = () => seen.filter(({ method, path }) => method === 'POST' && path.includes('/parts'));
  const numbers = () => parts().map(({ path }) => Number(/number=(\d+)/.exec(path)?.[1]));
  return { crm, seen, numbers };
}

const partBytes = 1000;
const body = { object: 'accounts' };

/** Returns a file of 200 accounts in five parts. */
function newFile(): { file: Blob; mark: string } {
  const mark = randomUUID();
  const rows = Array.from({ length: 200 }, (_, row) => `A ${String(row).padStart(4, '0')},${mark.slice(0, 13)}\n`);
  return { file: new Blob([`name,city\n${rows.join('')}`]), mark: mark.slice(0, 13) };
}

async function countAccounts(mark: string): Promise<number> {
  const rows = await database()`
    select from accounts where company_id = ${tenant.companyId} and city = ${mark}`;
  return rows.length;
}

describe('run', () => {
  test('imports a file in parts with their digests, and reports progress until the end', async () => {
    const { crm, numbers } = newClient();
    const { file, mark } = newFile();
    const progress: ImportProgress[] = [];
    const done = await crm.imports.run(file, { body, partBytes, onProgress: (each) => progress.push(each) });
    expect(done).toMatchObject({ status: 'completed', counts: { created: 200, failed: 0 }, percent: 100 });
    expect(await countAccounts(mark)).toBe(200);
    expect(numbers()).toEqual([1, 2, 3, 4, 5]);
    expect(progress[0]).toMatchObject({ import: { status: 'awaiting_file' }, uploadedBytes: 0, totalBytes: file.size });
    expect(progress.slice(1, 6).map(({ uploadedBytes }) => uploadedBytes)).toEqual([1000, 2000, 3000, 4000, file.size]);
    expect(progress.at(-1)?.import.status).toBe('completed');
    const { parts } = await crm.listImportParts({ path: { id: done.id } });
    const bytes = Buffer.from(await file.arrayBuffer());
    expect(parts.map(({ sha256 }) => sha256)).toEqual(
      [0, 1, 2, 3, 4].map((part) =>
        createHash('sha256')
          .update(bytes.subarray(part * 1000, part * 1000 + 1000))
          .digest('hex'),
      ),
    );
  });

  test('reads a file of the disk of any type', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sdk-import-'));
    try {
      const { file, mark } = newFile();
      const path = join(folder, 'accounts.csv');
      await writeFile(path, Buffer.from(await file.arrayBuffer()));
      const { crm } = newClient();
      const done = await crm.imports.run(await openAsBlob(path, { type: 'application/vnd.ms-excel' }), { body });
      expect([done.counts.created, await countAccounts(mark)]).toEqual([200, 200]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('goes on with an import that was interrupted, and uploads only what is missing', async () => {
    const { file, mark } = newFile();
    const abort = new AbortController();
    let id = '';
    const first = newClient();
    const interrupted = first.crm.imports.run(file, {
      body,
      partBytes,
      signal: abort.signal,
      onProgress: ({ import: { id: current }, uploadedBytes }) => {
        id = current;
        if (uploadedBytes === 2000) abort.abort(new Error('enough'));
      },
    });
    await expect(interrupted).rejects.toThrow('enough');
    expect(first.numbers()).toEqual([1, 2]);
    // A part that is not that of the file.
    await first.crm.uploadImportPart({ path: { id }, query: { number: 2 }, body: new Blob(['other']) });
    const second = newClient();
    const done = await second.crm.imports.run(file, { body, importId: id });
    expect(done).toMatchObject({ id, status: 'completed', counts: { created: 200, failed: 0 } });
    expect(second.numbers()).toEqual([2, 3, 4, 5]);
    expect(await countAccounts(mark)).toBe(200);
    // It has ended, so there is nothing left to do.
    const third = newClient();
    expect((await third.crm.imports.run(file, { body, importId: id })).counts.created).toBe(200);
    expect(third.seen.map(({ method }) => method)).toEqual(['GET']);
  });

  test('goes on with the import of its Idempotency-Key', async () => {
    const { file, mark } = newFile();
    const idempotencyKey = `accounts-${randomUUID()}`;
    const first = newClient({ fails: ({ path }) => path.endsWith('/start') });
    const options = { body, partBytes, idempotencyKey };
    const failure = await first.crm.imports.run(file, options).catch((error: unknown) => error);
    expect(isCrmError(failure, 'CONNECTION_FAILED')).toBe(true);
    const second = newClient();
    await second.crm.imports.run(file, options);
    expect(second.numbers()).toEqual([]);
    const third = newClient();
    await third.crm.imports.run(file, options);
    expect(await countAccounts(mark)).toBe(200);
  });

  test('sends a part again if its response was lost', async () => {
    const { file, mark } = newFile();
    let failures = 0;
    const { crm, numbers } = newClient({
      fails: ({ path }) => {
        if (!path.includes('number=3') || failures === 2) return false;
        failures += 1;
        return failures === 1 ? 'lost' : true;
      },
    });
    await crm.imports.run(file, { body, partBytes });
    expect(numbers()).toEqual([1, 2, 3, 3, 3, 4, 5]);
    expect(await countAccounts(mark)).toBe(200);
  });

  test('throws the reason if the import fails, and cancels one whose file cannot be imported', async () => {
    const { crm } = newClient();
    const failed = await crm.imports
      .run(new Blob(['name,city\n,A\n,B\n']), { body: { ...body, max_errors: 1 } })
      .catch((error: unknown) => error);
    expect(isCrmError(failed, 'IMPORT_FAILED') && failed.details.reason).toBe('VALIDATION_ERROR');
    let id = '';
    const onProgress = (progress: ImportProgress) => {
      id = progress.import.id;
    };
    const refused = await crm.imports
      .run(new Blob(['name,colour\nA,red\n']), { body, onProgress })
      .catch((error: unknown) => error);
    expect(isCrmError(refused, 'VALIDATION_ERROR') && refused.fields).toMatchObject([{ field: 'mapping.colour' }]);
    expect((await crm.getImport({ path: { id } })).import.status).toBe('cancelled');
    const cancelled = await crm.imports.run(new Blob(['']), { body, importId: id }).catch((error: unknown) => error);
    expect(isCrmError(cancelled, 'IMPORT_FAILED') && cancelled.details.reason).toBe('cancelled');
  });

  test('does not mix its parts with those of another file', async () => {
    const { crm } = newClient();
    const { id } = (await crm.createImport({ body })).import;
    await crm.uploadImportPart({ path: { id }, query: { number: 1 }, body: new Blob(['name\n']) });
    await crm.uploadImportPart({ path: { id }, query: { number: 9 }, body: new Blob(['A\n']) });
    await expect(crm.imports.run(new Blob(['name\nB\n']), { body, importId: id })).rejects.toThrow(TypeError);
  });

  test('does not report the import of another file as its own', async () => {
    const { crm } = newClient();
    const options = { body, idempotencyKey: randomUUID() };
    const first = await crm.imports.run(new Blob(['name\nA\n']), options);
    expect(await crm.imports.run(new Blob(['name\nA\n']), options)).toEqual(first);
    await expect(crm.imports.run(new Blob(['name\nA\nB\n']), options)).rejects.toThrow(TypeError);
  });
});

test('the programs of the guide to bulk data import a file and export records', async () => {
  const own = await newTenant();
  const guide = document.info.description ?? '';
  const programs = [...guide.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, program = '']) => program);
  const folder = await mkdtemp(join(tmpdir(), 'guide-'));
  try {
    await writeFile(join(folder, 'accounts.csv'), 'Name,Email\nNorth,n@north.example\n,x\n');
    const runProgram = async (name: string): Promise<string[]> => {
      const file = join(folder, `${name}.ts`);
      const program = programs.find((each) => each.includes(`crm.${name}.`)) ?? '';
      const text = program
        .replace("'@headless-crm/sdk'", JSON.stringify(resolve('sdk/src/index.ts')))
        .replace('http://127.0.0.1:8080', inject('baseUrl'));
      await writeFile(file, text);
      const env = { PATH: process.env.PATH ?? '', API_KEY: own.key };
      const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: folder, env });
      return stdout.trim().split('\n');
    };
    const imported = await runProgram('imports');
    expect([imported[0], imported.at(-1)]).toEqual(['awaiting_file 0 36', '1 0 1']);
    const exported = await runProgram('exports');
    expect([exported[0], exported.at(-1)?.slice(0, 64)]).toEqual([
      'queued 0',
      createHash('sha256')
        .update(await readFile(join(folder, 'leads.csv')))
        .digest('hex'),
    ]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
