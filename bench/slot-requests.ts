// P11: slot searches over HTTP, in pools of people with full calendars.
import postgres from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { request, sendOne } from './load.ts';
import type { Result } from './report.ts';
import { median, quantile } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

const days = 60;
/** Meetings per person. */
const busyEntries = 500;
const searches = 200;
const warmUp = 50;

export async function slotRequests(): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const pools = [await addPool(workspace, 50), await addPool(workspace, 100)];
    const server = await startServer('ours', workspace.env);
    try {
      const month = new Date(Date.now() + 31 * 86_400_000).toISOString();
      // The first search of a website, and a whole month of which every day is examined.
      const kinds = { first: { limit: 50 }, month: { limit: 100, to: month, duration_minutes: 480 } };
      const times = new Map<string, number[]>();
      for (let search = -warmUp; search < searches; search += 1)
        for (const [index, pool_id] of pools.entries())
          for (const [kind, body] of Object.entries(kinds)) {
            const headers = { 'x-api-key': workspace.key, 'content-type': 'application/json' };
            const ask = request('POST', '/v1/scheduling/slots/search', headers, JSON.stringify({ pool_id, ...body }));
            const began = performance.now();
            const { status } = await sendOne(server.port, ask);
            const took = performance.now() - began;
            if (status !== 200) throw new Error(`a search was answered with ${status}`);
            const name = `${index === 0 ? 50 : 100} members, ${kind}`;
            if (search >= 0) times.set(name, [...(times.get(name) ?? []), took]);
          }
      return result(times);
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

function result(times: ReadonlyMap<string, readonly number[]>): Result {
  const of = (name: string): readonly number[] => times.get(name) ?? [];
  const values = ['first', 'month'].flatMap((kind) => [
    { name: `50 members, ${kind}, median`, value: median([...of(`50 members, ${kind}`)]), unit: 'ms', target: 50 },
    { name: `50 members, ${kind}, 99 %`, value: quantile(of(`50 members, ${kind}`), 0.99), unit: 'ms', target: 50 },
    {
      name: `100 members of 50 members, ${kind}, medians`,
      value: median([...of(`100 members, ${kind}`)]) / median([...of(`50 members, ${kind}`)]),
      unit: '×',
      target: 2.2,
    },
  ]);
  return {
    name: 'slot-requests',
    figure: 'P11',
    what: `searches for slots in pools whose members have ${busyEntries} meetings in ${days} days: the first ones, and a whole month`,
    settings: { searches, days, busyEntries },
    sides: [],
    ratios: [],
    values,
  };
}

/**
 * Creates a pool of people with their meetings.
 * @returns its id
 */
async function addPool({ bareEnv }: Workspace, count: number): Promise<string> {
  const sql = postgres(bareEnv.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined });
  const company = bareEnv.COMPANY_ID ?? '';
  const id = uuidv7();
  await sql`
    insert into scheduling_pools (company_id, id, name, created_at, updated_at) values (${company}, ${id}, ${`Pool of ${count}`}, now(), now())`;
  const users = Array.from({ length: count }, () => uuidv7());
  await sql`
    insert into users (company_id, id, email, full_name, status, created_at, updated_at)
    select ${company}, id, id || '@example.com', 'Somebody', 'active', now(), now() from unnest(${users}::uuid[]) id`;
  await sql`
    insert into scheduling_pool_members (company_id, pool_id, user_id, position, weight)
    select ${company}, ${id}, id, position, 1 from unnest(${users}::uuid[]) with ordinality u (id, position)`;
  // Half hours with breaks of two hours and more, at different times per person.
  await sql`
    insert into taken_times (company_id, test_mode, id, user_id, start_at, end_at, during)
    select ${company}, false, gen_random_uuid(), u.id, at, at + interval '30 minutes', int8range((date_part('epoch', at) * 1000)::int8, (date_part('epoch', at) * 1000)::int8 + 1800000)
    from unnest(${users}::uuid[]) with ordinality u (id, position), generate_series(0, ${busyEntries - 1}) entry,
      lateral (select date_trunc('hour', now()) + entry * interval '1 day' * ${days} / ${busyEntries} + position % 4 * interval '30 minutes' as at) meeting`;
  await sql`analyze taken_times`;
  await sql.end();
  return id;
}
