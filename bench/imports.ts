// P22: rows per second of imports that create and that upsert, and the memory they take.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Result } from './report.ts';
import { readUsage, startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

const rows = Number(process.env.IMPORT_ROWS ?? 50_000);
interface Shown {
  id: string;
  status: string;
  counts: { failed: number };
}

const header = 'name,email,phone,city,lead_source\n';

export async function imports(): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const server = await startServer('ours', workspace.env);
    const ask = async (method: string, path: string, body?: object | string) => {
      const isFile = typeof body === 'string';
      const response = await fetch(`http://127.0.0.1:${server.port}/v1/imports${path}`, {
        method,
        headers: { 'x-api-key': workspace.key, 'content-type': isFile ? 'text/csv' : 'application/json' },
        ...(body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) }),
      });
      const answer = (await response.json()) as { data: { import: Shown } };
      if (!response.ok) throw new Error(JSON.stringify(answer));
      return answer.data.import;
    };
    const resident = () => readUsage(server.pid)?.residentMegabytes ?? Number.NaN;
    let highest = 0;
    const run = async (options: object, content: string): Promise<number> => {
      const { id } = await ask('POST', '', options);
      await ask('POST', `/${id}/parts?number=1`, content);
      const startedAt = performance.now();
      await ask('POST', `/${id}/start`);
      for (;;) {
        const { status, counts } = await ask('GET', `/${id}`);
        highest = Math.max(highest, resident());
        if (status === 'completed' && counts.failed === 0) return rows / ((performance.now() - startedAt) / 1000);
        if (status === 'completed' || status === 'failed') throw new Error(JSON.stringify(counts));
        await sleep(50);
      }
    };
    const lines = (city: string): string =>
      header + Array.from({ length: rows }, (_, row) => `Lead ${row},lead${row}@import.example,,${city},\n`).join('');
    try {
      await run({ object: 'accounts', mapping: { phone: null, lead_source: null } }, `${header}A,,,,\n`.repeat(1));
      const before = resident();
      highest = 0;
      const create = await run({ object: 'accounts', mapping: { lead_source: null } }, lines('Bonn'));
      const upsert = await run(
        { object: 'accounts', mapping: { lead_source: null }, mode: 'upsert', match_on: ['email'] },
        lines('Rome'),
      );
      return {
        name: 'imports',
        figure: 'P22',
        what: `imports of ${rows} rows with four columns, into an object that was empty before`,
        settings: { rows },
        sides: [],
        ratios: [],
        values: [
          { name: 'create', value: create, unit: 'rows/s', target: 5000, atLeast: true },
          { name: 'upsert by email, all of them there', value: upsert, unit: 'rows/s', target: 3000, atLeast: true },
          { name: 'memory more than before, at most', value: highest - before, unit: 'MB', target: 64 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}
