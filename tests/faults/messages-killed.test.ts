// Approved messages while the job is killed: each is sent with its ID. MESSAGES sets the number.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { approveRun } from '../../services/messaging/draft-approvals.ts';
import { openPeople } from '../support/approvals.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { newWideTenant } from '../support/requests.ts';
import { compileCache } from '../support/servers.ts';
import { startSmtp, type TestSmtp } from '../support/smtp.ts';
import { database, type Tenant, useDatabase } from '../support/tenants.ts';
import { untilAbandoned } from './support/until-abandoned.ts';

const count = Number(process.env.MESSAGES ?? 300);
const tenantCount = 5;
const kills = 10;
/**
 * One in this many drafts of a run has a suppressed recipient. A run without a decision has the
 * same number of drafts as there are suppressed recipients.
 */
const oneIn = 10;

const program = fileURLToPath(new URL('support/message-job.ts', import.meta.url));
let url: string;
let smtp: TestSmtp;
let people: ReturnType<typeof openPeople>;
let tenants: Tenant[];
let job: ChildProcess | undefined;

beforeAll(async () => {
  [url, smtp] = await Promise.all([newDatabase(), startSmtp()]);
  await useDatabase(url);
  people = openPeople(url);
  tenants = await Promise.all(Array.from({ length: tenantCount }, () => newWideTenant()));
});
afterAll(async () => {
  await kill();
  await Promise.all([people?.close(), smtp?.stop()]);
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

async function kill(): Promise<void> {
  const ended = new Promise((resolve) => job?.on('exit', resolve));
  if (!job?.kill('SIGKILL')) return;
  await ended;
  job = undefined;
}

function start(): void {
  const env = { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: compileCache };
  job = spawn(process.execPath, [program, url, `smtp://127.0.0.1:${smtp.port}`, 'twilio://AC0:x@127.0.0.1:9'], {
    env,
    stdio: 'inherit',
  });
}

/**
 * Creates a campaign run with email drafts.
 * @returns its ids and content hash
 */
async function preparedRun({ companyId }: Tenant, mails: readonly string[]) {
  const [campaignId, runId] = [uuidv7(), uuidv7()];
  const by = { created_by_kind: 'system', created_by_id: 'tests', created_at: new Date() };
  const own = { company_id: companyId, test_mode: false };
  const sql = database();
  const campaign = { id: campaignId, name: 'Many', status: 'completed', object: 'leads', channels: sql.json([]) };
  await sql`insert into campaigns ${sql({ ...own, ...campaign, ...by, updated_at: new Date() })}`;
  const run = {
    id: runId,
    campaign_id: campaignId,
    status: 'completed',
    content: sql.json({}),
    content_hash: Buffer.alloc(32, 7),
  };
  await sql`insert into campaign_runs ${sql({ ...own, ...run, ...by })}`;
  await sql`
    insert into message_drafts (company_id, test_mode, id, channel, status, recipient, subject, body, object, record_id, campaign_id, run_id,
      created_by_kind, created_by_id, created_at, updated_at)
    select ${companyId}, false, gen_random_uuid(), 'email', 'draft', recipient, 'Many', 'Hello', 'leads', gen_random_uuid(), ${campaignId}, ${runId},
      'system', 'tests', now(), now()
    from unnest(${mails as string[]}::text[]) recipient`;
  return { campaignId, runId, hash: '07'.repeat(32) };
}

test(`sends all ${count} approved messages and no others, although the job is killed ${kills} times`, async () => {
  const sql = database();
  const suppressed: string[] = [];
  const undecided: string[] = [];
  for (const tenant of tenants) {
    const mails = Array.from({ length: count / tenantCount }, () => `${randomUUID()}@x.example`);
    const { campaignId, runId, hash } = await preparedRun(tenant, mails);
    const stopped = mails.filter((_, index) => index % oneIn === 0);
    await sql`
      insert into email_suppressions (company_id, test_mode, id, email, reason, source, created_at)
      select ${tenant.companyId}, false, gen_random_uuid(), email, 'manual', 'api', now() from unnest(${stopped}::text[]) email`;
    suppressed.push(...stopped);
    const others = stopped.map(() => `${randomUUID()}@x.example`);
    await preparedRun(tenant, others);
    undecided.push(...others);
    await people.decide(tenant, (call) => approveRun(call, campaignId, runId, hash));
  }
  const expected = count - suppressed.length;
  let peak = 0;
  const began = performance.now();
  for (let round = 1; round <= kills; round += 1) {
    start();
    const until = Math.min((expected * round) / (kills + 1), expected);
    while (smtp.received.length < until) await sleep(5);
    peak = Math.max(peak, peakMegabytes(job?.pid ?? 0));
    await kill();
    await untilAbandoned('crm messages');
    // Ends the leases of the killed process.
    await sql`update message_drafts set due_at = now(), leased_until = null where status = 'approved' and due_at is not null`;
  }
  start();
  const open = async (): Promise<number> =>
    (
      await sql`
      select count(*)::int as count from message_drafts d
      join campaign_runs r on r.company_id = d.company_id and r.test_mode = d.test_mode and r.id = d.run_id
      where r.decision is not null and d.status in ('draft', 'approved')`
    )[0]?.count;
  await expect.poll(open, { timeout: 600_000, interval: 200 }).toBe(0);
  const seconds = (performance.now() - began) / 1000;
  peak = Math.max(peak, peakMegabytes(job?.pid ?? 0));

  const rows = await sql<{ id: string; recipient: string; status: string; error_code: string | null }[]>`
    select id, recipient, status, error_code from message_drafts`;
  const outcomes = await sql<{ outcome: string; times: number }[]>`
    select (data->>'draft_id') || ' ' || (data->>'to') as outcome, count(*)::int as times from ${recordedEvents(sql)}
    where event = 'message.draft.status_changed' and data->>'to' in ('sent', 'failed') group by 1`;
  const names = Map.groupBy(smtp.received, ({ recipients }) => recipients[0] ?? '');
  const counted = { sent: 0, twice: 0, failed: 0, undecided: 0 };
  const [stopped, open_] = [new Set(suppressed), new Set(undecided)];
  for (const { id, recipient, status, error_code } of rows) {
    const arrived = names.get(recipient) ?? [];
    if (open_.has(recipient)) {
      expect([status, arrived.length]).toEqual(['draft', 0]);
      counted.undecided += 1;
    } else if (stopped.has(recipient)) {
      expect([status, error_code, arrived.length]).toEqual(['failed', 'suppressed_email', 0]);
      counted.failed += 1;
    } else {
      expect([status, arrived.length > 0]).toEqual(['sent', true]);
      for (const { raw } of arrived) expect(raw).toContain(`Message-ID: <${id}@example.com>`);
      counted.sent += 1;
      if (arrived.length > 1) counted.twice += 1;
    }
  }
  // Each decided draft has one status event, and undecided drafts have none (A8).
  expect(outcomes.filter(({ times }) => times !== 1)).toEqual([]);
  const decided = rows.filter(({ status }) => status !== 'draft').map(({ id, status }) => `${id} ${status}`);
  expect(outcomes.map(({ outcome }) => outcome).sort()).toEqual(decided.sort());
  expect(counted).toMatchObject({ sent: expected, failed: suppressed.length, undecided: undecided.length });
  // Each kill affects at most the messages in flight.
  expect(counted.twice).toBeLessThanOrEqual(kills * 8);
  expect(smtp.received.length).toBeLessThanOrEqual(expected + kills * 8);
  process.stdout.write(
    `${JSON.stringify({ ...counted, status_events: outcomes.length, arrived: smtp.received.length, seconds: Math.round(seconds), each_second: Math.round(expected / seconds), peak_megabytes: peak })}\n`,
  );
}, 900_000);

/** Returns the peak memory of a process in megabytes. */
const peakMegabytes = (pid: number): number =>
  Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024);
