// P12: time from a write's response to its line at waiting readers, and the speed of the
// dispatcher.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres, { type Sql } from 'postgres';
import { load, request, sendOne } from './load.ts';
import { Answered, moment } from './moments.ts';
import { batchRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, median, nothingMeasured, quantile, type Settings, startUsage } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

/** Changes per second, and per write. */
const pace = 500;
const together = 20;
const readers = 3;
/** Events in the queue when the speed of the dispatcher is measured. */
const queue = 20_000;

export async function feedLag(settings: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const server = await startServer('ours', workspace.env);
    const sql = postgres(workspace.env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined });
    try {
      const writes: Measured = nothingMeasured(`${together} leads`);
      const delays: number[][] = [];
      for (let round = -1; round < settings.rounds; round += 1) {
        const found = await follow(server.port, workspace, settings.seconds, round);
        // The first round warms up.
        if (round < 0) continue;
        delays.push(found.delays);
        writes.perSecond.push(found.perSecond);
        writes.p50.push(found.p50);
        writes.p99.push(found.p99);
      }
      const dispatcher = nothingMeasured('dispatcher');
      for (let round = 0; round < settings.rounds; round += 1) await empty(sql, server.pid, workspace, dispatcher);
      const value = (name: string, share: number, target: number) => ({
        name,
        value: median(delays.map((each) => quantile(each, share))),
        unit: 'ms',
        target,
      });
      return {
        name: 'feed-lag',
        figure: 'P12',
        what: `${pace} changes a second in batches of ${together}, read by ${readers} long polls; and a queue of ${queue} events emptied`,
        settings: { ...settings, pace, together, readers, queue },
        sides: [writes, dispatcher],
        ratios: [],
        values: [
          value('from the answer to the line in the feed, median', 0.5, 500),
          value('from the answer to the line in the feed, 99 %', 0.99, 500),
        ],
      };
    } finally {
      await sql.end();
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

/** Writes for a time while readers follow the feed. */
async function follow(port: number, workspace: Workspace, seconds: number, round: number) {
  const answered = new Answered();
  const ends = new AbortController();
  const begun = Array.from({ length: readers }, () => startReader(port, workspace.key, ends.signal));
  const following = await Promise.all(begun);
  let number = 0;
  const written = await load({
    port,
    connections: 4,
    milliseconds: seconds * 1000,
    perSecond: pace / together,
    seen: answered.note,
    next: () => {
      number += together;
      return batchRequest(workspace.key, `feed-${round}`, number, together);
    },
  });
  const isComplete = (): boolean => following.every(({ arrivals }) => arrivals.size >= answered.at.size);
  for (const tooLate = moment() + 30_000; !isComplete() && moment() < tooLate; ) await sleep(10);
  ends.abort();
  await Promise.all(following.map(({ ended }) => ended));
  return { ...written, delays: following.flatMap(({ arrivals }) => answered.delays(arrivals)) };
}

/** Follows the feed from its present end with long polls. */
async function startReader(port: number, key: string, ends: AbortSignal) {
  const arrivals = new Map<string, number>();
  const read = async (query: string) => {
    const { status, body } = await sendOne(port, request('GET', `/v1/changes?${query}`, { 'x-api-key': key }));
    if (status !== 200) throw new Error(`the feed could not be read: ${body}`);
    return JSON.parse(body).data;
  };
  const start = await read('cursor=now');
  const follow = async (): Promise<void> => {
    let cursor: string = start.next_cursor;
    while (!ends.aborted) {
      const page = await read(`limit=1000&wait=1&cursor=${encodeURIComponent(cursor)}`);
      const now = moment();
      for (const { record_id } of page.changes) if (!arrivals.has(record_id)) arrivals.set(record_id, now);
      cursor = page.next_cursor;
    }
  };
  return { arrivals, ended: follow() };
}

/** Inserts a queue of events, and waits until all have positions. */
async function empty(sql: Sql, pid: number, { bareEnv }: Workspace, into: Measured): Promise<void> {
  const { COMPANY_ID: companyId = '' } = bareEnv;
  const actor = { kind: 'api_key', id: 'bench', name: 'Bench' };
  const readPosition = async (): Promise<number> => {
    const [feed] =
      await sql`select last_position::int as last from feeds where company_id = ${companyId} and not test_mode`;
    return feed?.last ?? 0;
  };
  const before = await readPosition();
  await sql`
    insert into outbox_events (company_id, id, test_mode, event, occurred_at, actor, request_id, data)
    select ${companyId}, gen_random_uuid(), false, 'record.created', now(), ${sql.json(actor)}, ${randomUUID()},
      jsonb_build_object('object', 'leads', 'record_id', gen_random_uuid(), 'occurred_at', now())
    from generate_series(1, ${queue})`;
  const start = performance.now();
  const used = startUsage(pid);
  while ((await readPosition()) < before + queue) await sleep(10);
  const milliseconds = performance.now() - start;
  into.perSecond.push((queue / milliseconds) * 1000);
  into.p50.push(Number.NaN);
  into.p99.push(Number.NaN);
  used(queue, into);
}
