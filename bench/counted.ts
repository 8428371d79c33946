// P16: the costs of requests as counts: socket writes, statements, bytes of log and disk.
import postgres from 'postgres';
import { load, sendOne } from './load.ts';
import { startProxy } from './proxy.ts';
import {
  batchRequest,
  createLead,
  createRequest,
  filteredListRequest,
  listRequest,
  readManyRequest,
  readRequest,
  toolRequest,
  updateRequest,
} from './records.ts';
import type { Result, Value } from './report.ts';
import { median } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace, waitUntilIdle } from './workspace.ts';

/**
 * Sequential requests of each kind, in rounds. The lowest round counts, since timers do not write
 * in every round. For bytes of log the median counts, since the splits of index pages, up to 8 % of
 * a round, are a part of the costs.
 */
const calls = 500;
const rounds = 5;
/** Number of leads whose bytes on disk are counted. */
const leads = 2000;

export interface Counts {
  /** By kind of request: socket writes and statements of the server for one request. */
  writes: Record<string, number>;
  statements: Record<string, number>;
  /** Bytes of write-ahead log for one request. */
  log: Record<string, number>;
  /** Bytes on disk for one lead, including audit row and event. */
  disk: number;
}

/**
 * Counts on a separate server and database.
 * @param dataDir folder for the database
 */
export async function count(dataDir: string): Promise<Counts> {
  const workspace = await openWorkspace(dataDir);
  const { DATABASE_URL = '' } = workspace.env;
  const proxy = await startProxy(DATABASE_URL, 0);
  const sql = postgres(DATABASE_URL, { max: 1, onnotice: () => undefined });
  try {
    // Otherwise the first change of a page after a checkpoint writes the whole page to the log.
    await sql`alter system set full_page_writes = off`;
    // Its statistics go to the log too, at a time of its own.
    await sql`alter system set autovacuum = off`;
    await sql`select pg_reload_conf()`;
    // The request log writes rows in batches by time: how many fall into a round depends on load.
    // FIGURES=request-log measures it.
    const server = await startServer('ours', { ...workspace.env, DATABASE_URL: proxy.url, REQUEST_LOG: '0' });
    try {
      const id = await createLead(server.port, workspace);
      const { key } = workspace;
      let number = 1;
      const next = (): number => {
        number += 1;
        return number;
      };
      const kinds: Record<string, () => Buffer> = {
        read: () => readRequest(key, id),
        'read by a list': () => readManyRequest(key, [id]),
        list: () => listRequest(key),
        'filtered list': () => filteredListRequest(key),
        create: () => createRequest(key, 'counted', next()),
        'call of a tool': () => toolRequest(key, id),
        'batch of 100': () => batchRequest(key, 'counted', next() * 100),
      };
      const counts: Counts = { writes: {}, statements: {}, log: {}, disk: 0 };
      const countKind = async (kind: string, bytes: () => Buffer): Promise<void> => {
        const send = (most: number) =>
          load({ port: server.port, connections: 1, milliseconds: 60_000, most, next: bytes });
        await send(20);
        const found = { writes: [] as number[], statements: [] as number[], log: [] as number[] };
        for (let round = 0; round < rounds; round += 1) {
          const before = { ...proxy.sent(), log: await readLogBytes(sql) };
          const { requests: some } = await send((kind === 'batch of 100' ? calls / 20 : calls) / rounds);
          const after = { ...proxy.sent(), log: await readLogBytes(sql) };
          for (const what of ['writes', 'statements', 'log'] as const)
            found[what].push((after[what] - before[what]) / some);
        }
        // One more for the response.
        counts.writes[kind] = Math.min(...found.writes) + 1;
        counts.statements[kind] = Math.min(...found.statements);
        counts.log[kind] = median(found.log);
      };
      for (const [kind, bytes] of Object.entries(kinds)) await countKind(kind, bytes);
      const before = await readDiskBytes(sql);
      for (let lead = 0; lead < leads; lead += 100) await sendOne(server.port, batchRequest(key, 'disk', next() * 100));
      counts.disk = ((await readDiskBytes(sql)) - before) / leads;
      // Last, because dead row versions of updates take disk space too.
      await countKind('update', () => updateRequest(key, id, 'changed', next()));
      return counts;
    } finally {
      await server.stop();
    }
  } finally {
    proxy.stop();
    await sql.end();
    await workspace.stop();
  }
}

/** The target costs of a request. tests/runtime/counted.test.ts enforces the actual costs. */
const most: Readonly<Record<'writes' | 'log', Readonly<Record<string, number>>>> = {
  writes: {
    read: 2,
    'read by a list': 2,
    list: 2,
    'filtered list': 2,
    create: 4,
    update: 4,
    'call of a tool': 2,
    'batch of 100': 5,
  },
  log: { read: 0, create: 4096 },
};

export async function measureCountedCalls(): Promise<Result> {
  const counts = await count(folder);
  const values: Value[] = [];
  for (const [kind, value] of Object.entries(counts.writes))
    values.push({ name: `writes to sockets for a ${kind}`, value, unit: '', target: most.writes[kind] ?? 0 });
  for (const [kind, value] of Object.entries(counts.statements))
    values.push({ name: `statements for a ${kind}`, value, unit: '' });
  for (const [kind, value] of Object.entries(counts.log))
    values.push({
      name: `bytes of log for a ${kind}`,
      value,
      unit: 'bytes',
      target: most.log[kind],
    });
  values.push({ name: 'bytes on disk for a lead', value: counts.disk, unit: 'bytes', target: 2048 });
  return {
    name: 'counted',
    figure: 'P16',
    what: 'counts for one request',
    settings: { calls },
    sides: [],
    ratios: [],
    values,
  };
}

async function readLogBytes(sql: postgres.Sql): Promise<number> {
  const [row] = await sql`select pg_current_wal_insert_lsn() - '0/0' as bytes`;
  return Number(row?.bytes);
}

async function readDiskBytes(sql: postgres.Sql): Promise<number> {
  await waitUntilIdle(sql);
  await sql.unsafe('vacuum');
  const [row] = await sql`
    select sum(pg_total_relation_size(c.oid))::bigint as bytes from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
      and not c.relname = any('{idempotency_records,api_key_usage,api_quota,api_quota_blocks}')`;
  return Number(row?.bytes);
}
