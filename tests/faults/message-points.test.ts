// The job that sends messages, killed at each point: every approved message is sent under one id.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { sendDue } from '../../jobs/messaging/message-sending.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { newDefaultNumber, newStoredDraft, openMessageServer } from '../support/message-jobs.ts';
import { someNumber } from '../support/messaging.ts';
import { newWideTenant } from '../support/requests.ts';
import { compileCache } from '../support/servers.ts';
import { startSmtp, type TestSmtp } from '../support/smtp.ts';
import { database, type Tenant, useDatabase } from '../support/tenants.ts';
import { TestTwilio } from '../support/twilio.ts';
import { fatal, messagePoints, Traps } from './support/points.ts';
import { FaultProxy, through } from './support/proxy.ts';
import { untilAbandoned } from './support/until-abandoned.ts';

const program = fileURLToPath(new URL('support/message-job.ts', import.meta.url));
const traps = new Traps({});
let proxy: FaultProxy;
let smtp: TestSmtp;
let twilio: TestTwilio;
let url: string;
let tenant: Tenant;
let server: Awaited<ReturnType<typeof openMessageServer>>;
let job: ChildProcess | undefined;

// A separate database, because another server would send the remaining messages.
beforeAll(async () => {
  [url, smtp, twilio] = await Promise.all([newDatabase(), startSmtp(), TestTwilio.start()]);
  await useDatabase(url);
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  server = await openMessageServer(url, `smtp://127.0.0.1:${smtp.port}`, twilio.url());
  tenant = await newWideTenant();
  await newDefaultNumber(tenant, someNumber());
});
afterEach(async () => {
  smtp.fallsSilent = () => false;
  twilio.behave = () => undefined;
  await kill();
});
afterAll(async () => {
  await server?.close();
  await Promise.all([proxy?.close(), smtp?.stop(), twilio?.stop()]);
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

async function kill(): Promise<void> {
  const ended = new Promise((resolve) => job?.on('exit', resolve));
  if (!job?.kill('SIGKILL')) return;
  await ended;
  job = undefined;
}

/** Sends due messages, as another server does once the lease of the killed one has ended. */
async function recover(channel: 'email' | 'sms'): Promise<void> {
  await untilAbandoned('crm messages');
  await database()`update message_drafts set due_at = now() - interval '1 second', leased_until = null where status = 'approved'`;
  while ((await sendDue(buildJobContext('messages', server.pools), server.services, [channel])) > 0);
}

/** Returns the ids of the messages that arrived for a recipient. */
const arrivedAt = (channel: 'email' | 'sms', recipient: string): (string | undefined)[] =>
  channel === 'email'
    ? smtp.received
        .filter(({ recipients }) => recipients.includes(recipient))
        .map(({ raw }) => /^Message-ID: <([^@>]+)@/m.exec(raw)?.[1])
    : twilio.to(recipient).map(({ sid }) => sid);

/**
 * Runs a job, kills it when the trap springs, and checks the message.
 * @param most how often it may arrive
 */
async function killedAt(channel: 'email' | 'sms', most: number, sprung: Promise<void>): Promise<void> {
  const to = (): string => (channel === 'email' ? `${randomUUID()}@x.example` : someNumber());
  const [recipient, undecided] = [to(), to()];
  const id = await newStoredDraft(tenant, channel, recipient, true);
  await newStoredDraft(tenant, channel, undecided, false);
  const env = { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: compileCache };
  const settings = [through(url, proxy), `smtp://127.0.0.1:${smtp.port}`, twilio.url()];
  job = spawn(process.execPath, [program, ...settings], { env, stdio: 'inherit' });
  await sprung;
  await kill();
  await recover(channel);
  const arrived = arrivedAt(channel, recipient);
  const [draft] = await database()`select status, provider_ref, attempts from message_drafts where id = ${id}`;
  expect(arrived.length).toBeGreaterThan(0);
  expect(arrived.length).toBeLessThanOrEqual(most);
  expect(new Set(arrived).size).toBe(1);
  const ref = channel === 'email' ? `<${id}@example.com>` : arrived[0];
  expect(draft).toMatchObject({ status: 'sent', provider_ref: ref });
  expect(draft?.attempts).toBeLessThanOrEqual(2);
  expect(arrivedAt(channel, undecided)).toEqual([]);
  const [noted] = await database()`
    select (select count(*)::int from messages where draft_id = ${id}) as messages,
      (select count(*)::int from ${recordedEvents(database())} where data->>'draft_id' = ${id}) as events,
      (select count(*)::int from audit_logs where record_id = ${id} and action = 'message_draft.send') as audit`;
  expect(noted).toEqual({ messages: 1, events: 1, audit: 1 });
}

const nothing = (): void => undefined;

describe.each([
  ['email', 2],
  ['sms', 1],
] as const)('an approved message by %s, which may arrive %i times', (channel, most) => {
  test.each(fatal(messagePoints))(
    'sends the message if the job is killed with $statement $moment',
    async ({ statement, moment }) => {
      await killedAt(channel, most, traps.set({ statement, moment, act: nothing }));
    },
  );
});

test.each([
  ['recipient', 1],
  ['message', 2],
] as const)('sends an email if the job is killed before the response to the %s, at most %i times', async (at, most) => {
  await killedAt(
    'email',
    most,
    new Promise((resolve) => {
      smtp.fallsSilent = (before) => {
        if (before !== at) return false;
        smtp.fallsSilent = () => false;
        resolve();
        return true;
      };
    }),
  );
});

test.each(['lose', 'swallow'] as const)(
  'sends a text message if the job is killed while the provider is about to %s it',
  async (how) => {
    await killedAt(
      'sms',
      1,
      new Promise((resolve) => {
        twilio.behave = () => {
          twilio.behave = () => undefined;
          setImmediate(resolve);
          return how;
        };
      }),
    );
  },
);
