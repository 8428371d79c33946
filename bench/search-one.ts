// P15: searches of one object with 10,000 records; creates with and without the search index.
import postgres from 'postgres';
import { load, request } from './load.ts';
import { batchRequest, createRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, measure, median, ratio, type Settings } from './rounds.ts';
import { type Side, startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace, waitUntilIdle } from './workspace.ts';

const records = 10_000;
const size = 100;
/**
 * Terms that one record, a hundred and all records contain, one in unsearched fields, and one in
 * none.
 */
const parts = ['lead-one-4711@', 'one-47', 'Haddad', 'price list', 'nobody is called so'];

export async function searchOne(settings: Settings): Promise<Result> {
  const written = await writes(settings);
  const searched = await searches(settings);
  return {
    name: 'search-one',
    figure: 'P15',
    what: `creates with what searches need, and without; searches of ${records.toLocaleString('en')} leads`,
    settings: { ...settings, records },
    sides: [...written, searched],
    ratios: [ratio(...written, 0.9)],
    values: [{ name: 'median of a search alone', value: median(searched.p50), unit: 'ms', target: 3 }],
  };
}

/** Measures creates on two databases, of which one has no search index. */
async function writes(settings: Settings): Promise<[Measured, Measured]> {
  const workspaces: Workspace[] = [];
  const sides: Side[] = [];
  try {
    for (const name of ['with', 'without']) {
      const workspace = await openWorkspace(`${folder}-${name}`);
      workspaces.push(workspace);
      if (name === 'without')
        await inDatabase(workspace, (sql) => sql.unsafe('drop trigger note_added_texts on leads'));
      sides.push({ ...(await startServer(name, workspace.env)), name });
    }
    let number = 0;
    const next = (side: Side) => () => {
      number += 1;
      return createRequest(workspaces[sides.indexOf(side)]?.key ?? '', side.name, number);
    };
    return (await measure(sides, next, settings)) as [Measured, Measured];
  } finally {
    for (const side of sides) await side.stop();
    for (const workspace of workspaces) await workspace.stop();
  }
}

async function searches(settings: Settings): Promise<Measured> {
  const workspace = await openWorkspace(folder);
  try {
    const server = await startServer('search', workspace.env);
    try {
      const { key } = workspace;
      let number = 0;
      const batch = (): Buffer => {
        number += size;
        return batchRequest(key, 'one', number, size);
      };
      await load({ port: server.port, connections: 1, milliseconds: 60_000, most: records / size, next: batch });
      await inDatabase(workspace, async (sql) => {
        await waitUntilIdle(sql);
        // Updates statistics, as autovacuum does within minutes.
        await sql`vacuum analyze`;
      });
      const requests = parts.map((part) =>
        request('GET', `/v1/search?objects=leads&q=${encodeURIComponent(part)}`, { 'x-api-key': key }),
      );
      let turn = 0;
      const next = (): Buffer => requests[turn++ % requests.length] as Buffer;
      const [measured] = await measure([server], () => next, { ...settings, connections: 1 });
      return measured as Measured;
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

async function inDatabase<T>({ env }: Workspace, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}
