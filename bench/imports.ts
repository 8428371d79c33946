// P22: rows per second of imports and exports, their memory, and what another tenant notices.
import { createWriteStream, openAsBlob } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { load } from './load.ts';
import { createLead, readRequest } from './records.ts';
import type { Result } from './report.ts';
import { quantile } from './rounds.ts';
import { readUsage, startServer } from './sides.ts';
import { addNeighbour, folder, openWorkspace } from './workspace.ts';

const rows = Number(process.env.IMPORT_ROWS ?? 50_000);
/** Bytes of the large file, and of its parts and rows. */
const large = { bytes: Number(process.env.IMPORT_FILE_BYTES ?? 200_000_000), part: 50_000_000, row: 20_000 };
/** Calls per second of the tenant that reads during an import, and seconds for which it reads. */
const reading = { perSecond: 100, seconds: 5 };
/** Milliseconds after which a measurement is given up. */
const mostMs = 600_000;

interface Shown {
  id: string;
  status: string;
  counts: { failed: number };
  rows: number;
}

const header = 'name,email,phone,city,lead_source\n';
const lines = (city: string): string =>
  header + Array.from({ length: rows }, (_, row) => `Lead ${row},lead${row}@import.example,,${city},\n`).join('');
const mapping = { lead_source: null };

/** Writes the large file: rows that are mostly a text in a column that is not imported. */
async function writeLarge(path: string): Promise<void> {
  const text = 'x'.repeat(large.row - 20);
  function* parts(): Iterable<string> {
    yield 'name,text\n';
    for (let row = 0; row * large.row < large.bytes; row += 1) yield `Large ${row},${text}\n`;
  }
  await pipeline(parts, createWriteStream(path));
}

export async function imports(): Promise<Result> {
  const workspace = await openWorkspace(folder);
  const temporary = await mkdtemp(join(tmpdir(), 'bench-imports-'));
  try {
    const neighbourKey = await addNeighbour(workspace, 1_000_000);
    const server = await startServer('ours', workspace.env);
    const ask = async (key: string, method: string, path: string, body?: object | Blob): Promise<Shown> => {
      const isFile = body instanceof Blob;
      const response = await fetch(`http://127.0.0.1:${server.port}/v1/${path}`, {
        method,
        headers: { 'x-api-key': key, 'content-type': isFile ? 'text/csv' : 'application/json' },
        ...(body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) }),
      });
      const answer = (await response.json()) as { data: Record<'import' | 'export', Shown> };
      if (!response.ok) throw new Error(JSON.stringify(answer));
      return answer.data.import ?? answer.data.export;
    };
    const resident = () => readUsage(server.pid)?.residentMegabytes ?? Number.NaN;
    let highest = 0;
    /** Waits for the end of an import or export. @returns its milliseconds */
    const finish = async (key: string, path: string): Promise<{ milliseconds: number; ended: Shown }> => {
      const startedAt = performance.now();
      for (;;) {
        const ended = await ask(key, 'GET', path);
        highest = Math.max(highest, resident());
        const milliseconds = performance.now() - startedAt;
        if (ended.status === 'completed' && !ended.counts?.failed) return { milliseconds, ended };
        if (!['queued', 'running'].includes(ended.status) || milliseconds > mostMs)
          throw new Error(JSON.stringify(ended));
        await sleep(50);
      }
    };
    const begin = async (key: string, options: object, content: Blob): Promise<string> => {
      const { id } = await ask(key, 'POST', 'imports', options);
      for (let part = 0; part * large.part < content.size; part += 1) {
        const bytes = content.slice(part * large.part, (part + 1) * large.part);
        await ask(key, 'POST', `imports/${id}/parts?number=${part + 1}`, bytes);
        highest = Math.max(highest, resident());
      }
      await ask(key, 'POST', `imports/${id}/start`);
      return `imports/${id}`;
    };
    const run = async (options: object, content: string): Promise<number> => {
      const path = await begin(workspace.key, options, new Blob([content]));
      return rows / ((await finish(workspace.key, path)).milliseconds / 1000);
    };
    try {
      await run({ object: 'accounts', mapping: { phone: null, lead_source: null } }, `${header}A,,,,\n`);
      const before = resident();
      const create = await run({ object: 'accounts', mapping }, lines('Bonn'));
      const upsert = await run({ object: 'accounts', mapping, mode: 'upsert', match_on: ['email'] }, lines('Rome'));
      const memory = highest - before;

      const { id } = await ask(workspace.key, 'POST', 'exports', { object: 'accounts', format: 'csv' });
      const exported = await finish(workspace.key, `exports/${id}`);

      const request = readRequest(workspace.key, await createLead(server.port, workspace));
      const milliseconds = reading.seconds * 1000;
      const read = async (): Promise<readonly number[]> =>
        (
          await load({
            port: server.port,
            connections: 2,
            milliseconds,
            perSecond: reading.perSecond,
            next: () => request,
          })
        ).latencies;
      await read();
      const alone = quantile(await read(), 0.99);
      const path = await begin(neighbourKey, { object: 'accounts', mapping }, new Blob([lines('Bonn')]));
      const during = quantile(await read(), 0.99);
      await finish(neighbourKey, path);

      const file = join(temporary, 'large.csv');
      await writeLarge(file);
      const beforeLarge = resident();
      highest = 0;
      const options = { object: 'accounts', mapping: { text: null } };
      await finish(workspace.key, await begin(workspace.key, options, await openAsBlob(file)));
      return {
        name: 'imports',
        figure: 'P22',
        what: `imports of ${rows} rows with four columns into an object that was empty before, and an export of them`,
        settings: { rows, largeBytes: large.bytes, ...reading },
        sides: [],
        ratios: [],
        values: [
          { name: 'create', value: create, unit: 'rows/s', target: 5000, atLeast: true },
          { name: 'upsert by email, all of them there', value: upsert, unit: 'rows/s', target: 3000, atLeast: true },
          { name: 'export as CSV', value: exported.ended.rows / (exported.milliseconds / 1000), unit: 'rows/s' },
          { name: 'memory more than before, at most', value: memory, unit: 'MB', target: 64 },
          { name: `memory before a file of ${large.bytes / 1_000_000} MB`, value: beforeLarge, unit: 'MB' },
          {
            name: 'memory more than before with that file, at most',
            value: highest - beforeLarge,
            unit: 'MB',
            target: 64,
          },
          { name: '99 % of reads of another tenant, alone', value: alone, unit: 'ms' },
          { name: '99 % of reads of another tenant, during an import', value: during, unit: 'ms' },
          { name: 'the second of the first', value: during / alone, unit: '×', target: 1.5 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await rm(temporary, { recursive: true, force: true });
    await workspace.stop();
  }
}
