// Approved drafts: sent once by email or by the text provider, with recorded outcomes.
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../runtime/config.ts';
import { approveDraft, findDraftsToApprove } from '../../services/messaging/draft-approvals.ts';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openPeople } from '../support/approvals.ts';
import { openBrowser } from '../support/browser.ts';
import { expectStatus, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { newDraft, newPhoneNumber } from '../support/messaging.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { listChildren, newAccount } from '../support/record-children.ts';
import { newWideTenant } from '../support/requests.ts';
import { frequentJobs, startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { type ReceivedMail, startSmtp, type TestSmtp } from '../support/smtp.ts';
import { database, newUser, type Tenant, useDatabase } from '../support/tenants.ts';
import { TestTwilio } from '../support/twilio.ts';

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `sending-${process.pid}`);
const patience = { timeout: 60_000, interval: 50 };

// A separate database, because other servers would process these drafts without a provider.
let databaseUrl: string;
let smtp: TestSmtp;
let twilio: TestTwilio;
let server: TestServer;
let people: ReturnType<typeof openPeople>;
let tenant: Tenant;
let number: string;

const start = (more: Record<string, string>): Promise<TestServer> =>
  startServer({
    ...testSettings,
    ...frequentJobs(100),
    DATABASE_URL: databaseUrl,
    SECRET_KEY: '5e'.repeat(32),
    DATA_DIR: folder,
    ...more,
  });

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  databaseUrl = await newDatabase();
  await useDatabase(databaseUrl);
  [smtp, twilio] = await Promise.all([startSmtp(), TestTwilio.start()]);
  server = await start({ SMTP_URL: `smtp://127.0.0.1:${smtp.port}`, MESSAGING_URL: twilio.url() });
  useServer(server.url);
  people = openPeople(databaseUrl);
  tenant = await newWideTenant();
  number = (await newPhoneNumber(tenant.key, { is_default: true })).phone_number;
});

afterEach(() => {
  smtp.refusal = undefined;
  smtp.words = 'not now';
  twilio.behave = () => undefined;
});

afterAll(async () => {
  await people?.close();
  await server?.stop();
  await Promise.all([smtp?.stop(), twilio?.stop()]);
  await useDatabase(undefined);
  useServer(undefined);
  await dropDatabase(databaseUrl);
  rmSync(folder, { recursive: true, force: true });
});

async function approve(draft: Json, whose = tenant): Promise<void> {
  await people.decide(whose, async (call) => {
    const found = (await findDraftsToApprove(call, undefined, 50)).find((each) => each.draft.id === draft.id);
    await approveDraft(call, draft.id, found?.draft.hash ?? '');
  });
}
const read = async (draft: Json, whose = tenant): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/messages/drafts/${draft.id}`, { key: whose.key })).body.data.draft;
const becomes = (draft: Json, expected: object, whose = tenant): Promise<void> =>
  expect.poll(() => read(draft, whose), patience).toMatchObject(expected);
const readAttempts = async (draft: Json): Promise<Json> =>
  (await database()`select status, attempts, attempted_at, leased_until from message_drafts where id = ${draft.id}`)[0];
/** Waits until this many attempts were made and the next one is pending. */
const waits = (draft: Json, attempts: number): Promise<void> =>
  expect.poll(() => readAttempts(draft), patience).toMatchObject({ status: 'approved', attempts, leased_until: null });
const makeDue = (draft: Json): Promise<unknown> =>
  database()`update message_drafts set due_at = now() where id = ${draft.id} and status = 'approved'`;
const anEmail = (): { channel: string; to: string; subject: string; body: string } => ({
  channel: 'email',
  to: `${randomUUID()}@bluelake.example`,
  subject: 'Your quote',
  body: 'Hello Sara',
});
const sentTo = (email: string): ReceivedMail[] => smtp.received.filter(({ recipients }) => recipients.includes(email));
const mailTo = (email: string): string => sentTo(email)[0]?.raw ?? '';
/** Returns the decoded text of an email. */
const decodeText = (raw: string): string =>
  raw
    .slice(raw.indexOf('\r\n\r\n') + 4)
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));
const linkIn = (raw: string): string => /^List-Unsubscribe: <(\S+)>\r$/m.exec(raw)?.[1] ?? '';

describe('an email', () => {
  test('sends an email once from the service in the name of the company, with the user as reply-to and the draft as its id', async () => {
    const user = await newUser(tenant);
    const account = await newAccount(tenant.key);
    const email = anEmail();
    const draft = await newDraft(tenant.key, { ...email, from: user.email, object: 'accounts', record_id: account });
    await approve(draft);
    await becomes(draft, { status: 'sent', provider_ref: `<${draft.id}@127.0.0.1>`, error: null });
    expect(sentTo(email.to).map(({ recipients }) => recipients)).toEqual([[email.to]]);
    const raw = mailTo(email.to);
    expect(raw).toMatch(/^From: Wide <no-reply@127\.0\.0\.1>\r$/m);
    expect(raw).toContain(`Reply-To: ${user.email}\r\n`);
    expect(raw).toContain(`Message-ID: <${draft.id}@127.0.0.1>\r\n`);
    expect(raw).toMatch(/^Subject: Your quote\r$/m);
    expect(raw).toMatch(/^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m);
    expect(linkIn(raw)).toContain(`${server.url}/unsubscribe/`);
    expect(decodeText(raw).trim()).toBe('Hello Sara');

    const timeline = await listChildren(tenant.key, 'accounts', account, 'messages');
    expect(timeline.messages).toMatchObject([
      {
        channel: 'email',
        direction: 'outbound',
        source: null,
        status: 'sent',
        to: email.to,
        from: user.email,
        draft_id: draft.id,
        campaign_id: null,
        preview: 'Hello Sara',
        subject: 'Your quote',
      },
    ]);
    const events = await database()`
      select data->>'to' as to, actor->>'kind' as by from ${recordedEvents(database())}
      where data->>'draft_id' = ${draft.id} order by occurred_at, id`;
    expect(events).toEqual([
      { to: 'approved', by: 'user' },
      { to: 'sent', by: 'system' },
    ]);
    const audit = await database()`
      select actor_kind, changes from audit_logs where record_id = ${draft.id} and action = 'message_draft.send'`;
    expect(audit).toEqual([{ actor_kind: 'system', changes: { status: { from: 'approved', to: 'sent' } } }]);
  });

  test('prevents header injection through company names and subjects', async () => {
    const other = await newWideTenant();
    const evil = 'Eve"\r\nBcc: victim@example.com\r\n\r\n<script>';
    await database()`update companies set name = ${evil} where id = ${other.companyId}`;
    const draft = await newDraft(other.key, anEmail());
    await database()`update message_drafts set subject = ${evil} where id = ${draft.id}`;
    await approve(draft, other);
    await becomes(draft, { status: 'sent' }, other);
    const [{ recipients, raw } = { recipients: [], raw: '' }] = sentTo(draft.to);
    expect(recipients).toEqual([draft.to]);
    const head = raw.slice(0, raw.indexOf('\r\n\r\n'));
    expect(head).not.toMatch(/^Bcc/im);
  });

  test('retries an email with growing pauses and the same id while the server rejects it temporarily', async () => {
    const draft = await newDraft(tenant.key, anEmail());
    smtp.refusal = 451;
    await approve(draft);
    for (const [index, minutes] of [1, 3, 9].entries()) {
      await waits(draft, index + 1);
      const [row] = await database()`
        select extract(epoch from due_at - now())::int / 60.0 as pause from message_drafts where id = ${draft.id}`;
      expect(Math.round(row?.pause)).toBe(minutes);
      if (index === 2) smtp.refusal = undefined;
      await makeDue(draft);
    }
    await becomes(draft, { status: 'sent' });
    expect(await readAttempts(draft)).toMatchObject({ attempts: 4, attempted_at: null });
    expect(sentTo(draft.to)).toHaveLength(1);
  });

  test('fails an email as undeliverable after a day of retries', async () => {
    const draft = await newDraft(tenant.key, anEmail());
    smtp.refusal = 451;
    await approve(draft);
    await waits(draft, 1);
    await database()`update message_drafts set attempts = 9 where id = ${draft.id}`;
    await makeDue(draft);
    await becomes(draft, { status: 'failed', error: { code: 'undeliverable' }, sent_at: null, provider_ref: null });
  });

  test('fails an email as undeliverable without another attempt if servers died in each of its attempts', async () => {
    const draft = await newDraft(tenant.key, anEmail());
    smtp.refusal = 451;
    await approve(draft);
    await waits(draft, 1);
    smtp.refusal = undefined;
    await database()`update message_drafts set attempts = 10 where id = ${draft.id}`;
    await makeDue(draft);
    await becomes(draft, { status: 'failed', error: { code: 'undeliverable' }, sent_at: null });
    expect(sentTo(draft.to)).toEqual([]);
  });

  test.each([
    [550, '5.7.1 we do not want it', false],
    [550, '5.1.1 there is nobody', true],
  ])('fails an email rejected with %i %s, and suppresses the address: %s', async (status, words, bounced) => {
    const draft = await newDraft(tenant.key, anEmail());
    Object.assign(smtp, { refusal: status, words });
    await approve(draft);
    await becomes(draft, { status: 'failed', error: { code: 'refused' } });
    expect(JSON.stringify((await read(draft)).error)).not.toContain(draft.to);
    const rows = await database()`select reason, source from email_suppressions where email = ${draft.to}`;
    expect(rows).toEqual(bounced ? [{ reason: 'bounced', source: 'provider' }] : []);
    expect(sentTo(draft.to)).toEqual([]);
  });

  test('fails an email whose recipient was suppressed after the approval', async () => {
    const draft = await newDraft(tenant.key, anEmail());
    smtp.refusal = 451;
    await approve(draft);
    await waits(draft, 1);
    smtp.refusal = undefined;
    const body = { email: draft.to, reason: 'manual' };
    await expectStatus(201, 'POST', '/v1/email-suppression', { key: tenant.key, body });
    await makeDue(draft);
    await becomes(draft, { status: 'failed', error: { code: 'suppressed_email' } });
    expect(sentTo(draft.to)).toEqual([]);
  });

  test('fails an email whose sender was deactivated, or whose workspace lost the inbox', async () => {
    const user = await newUser(tenant);
    const other = await newWideTenant();
    const [orphan, lost] = [
      await newDraft(tenant.key, { ...anEmail(), from: user.email }),
      await newDraft(other.key, anEmail()),
    ];
    smtp.refusal = 451;
    await Promise.all([approve(orphan), approve(lost, other)]);
    await Promise.all([waits(orphan, 1), waits(lost, 1)]);
    smtp.refusal = undefined;
    await database()`update users set status = 'inactive' where id = ${user.id}`;
    await database()`update subscriptions set package_code = 'starter' where company_id = ${other.companyId}`;
    await Promise.all([makeDue(orphan), makeDue(lost)]);
    await becomes(orphan, { status: 'failed', error: { code: 'no_sender' } });
    await expect
      .poll(async () => (await database()`select error_code from message_drafts where id = ${lost.id}`)[0], patience)
      .toEqual({ error_code: 'module_disabled' });
    expect([...sentTo(orphan.to), ...sentTo(lost.to)]).toEqual([]);
  });
});

describe('the link in an email', () => {
  const button = /<button>Unsubscribe<\/button>/;
  const suppressed = (email: string) => database()`
    select reason, source, campaign_id from email_suppressions where email = ${email}`;

  async function sendLink(more: { campaignId?: string } = {}): Promise<{ draft: Json; link: string }> {
    const draft = await newDraft(tenant.key, anEmail());
    if (more.campaignId)
      await database()`update message_drafts set campaign_id = ${more.campaignId} where id = ${draft.id}`;
    await approve(draft);
    await becomes(draft, { status: 'sent' });
    return { draft, link: linkIn(mailTo(draft.to)) };
  }

  test('shows a button on the unsubscribe page for GET requests and changes nothing', async () => {
    const { draft, link } = await sendLink();
    for (const method of ['GET', 'HEAD']) {
      const answer = await fetch(link, { method });
      expect(answer.status).toBe(200);
      if (method === 'GET') expect(await answer.text()).toMatch(button);
    }
    expect(await suppressed(draft.to)).toEqual([]);
  });

  test('unsubscribes by one-click POST and by the button, repeatably', async () => {
    const campaignId = randomUUID();
    const { draft, link } = await sendLink({ campaignId });
    for (const body of ['List-Unsubscribe=One-Click', '']) {
      const answer = await fetch(link, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('You are unsubscribed')]);
    }
    expect(await suppressed(draft.to)).toEqual([
      { reason: 'unsubscribed', source: 'opt_out', campaign_id: campaignId },
    ]);
    const audit = await database()`
      select metadata->>'source' as source from audit_logs
      where action = 'email_suppression.create' and metadata->>'draft_id' = ${draft.id}`;
    expect(audit).toEqual([{ source: 'opt_out' }]);
  });

  test.skipIf(!findProgram('chromium'))(
    `shows the unsubscribe page accessibly, on small screens, by keyboard, without JavaScript${skipNote('chromium')}`,
    async () => {
      const { draft, link } = await sendLink();
      const browser = await openBrowser();
      const viewport = { width: 320, height: 640 };
      try {
        const page = await browser.newPage({ viewport });
        const wrong = async (): Promise<string[]> => [
          ...(await accessibilityProblems(page)),
          ...((await page.evaluate('document.documentElement.scrollWidth')) === viewport.width ? [] : ['too wide']),
        ];
        await page.goto(link);
        expect(await wrong()).toEqual([]);
        const plain = await browser.newPage({ viewport, javaScriptEnabled: false });
        await plain.goto(link);
        await plain.keyboard.press('Tab');
        await plain.keyboard.press('Enter');
        await plain.getByRole('heading', { name: 'You are unsubscribed' }).waitFor();
        await page.getByRole('button', { name: 'Unsubscribe' }).click();
        await page.getByRole('status').waitFor();
        expect(await wrong()).toEqual([]);
      } finally {
        await browser.close();
      }
      expect(await suppressed(draft.to)).toHaveLength(1);
    },
  );

  test('repeats the unsubscribe link as the last line of campaign emails', async () => {
    const { draft, link } = await sendLink({ campaignId: randomUUID() });
    expect(decodeText(mailTo(draft.to)).trim().split(/\r?\n/).at(-1)).toBe(`Unsubscribe: ${link}`);
  });

  test('rejects an unsubscribe link with any changed character', async () => {
    const { draft, link } = await sendLink();
    const at = link.lastIndexOf('/') + 5;
    const changed = `${link.slice(0, at)}${link[at] === 'A' ? 'B' : 'A'}${link.slice(at + 1)}`;
    expect((await fetch(changed, { method: 'POST', body: '' })).status).toBe(404);
    expect((await fetch(`${server.url}/unsubscribe/x`)).status).toBe(404);
    expect(await suppressed(draft.to)).toEqual([]);
    expect(server.output()).not.toContain(link.slice(link.lastIndexOf('/') + 1));
  });
});

describe('a text', () => {
  test.each([
    ['sms', ''],
    ['whatsapp', 'whatsapp:'],
  ])("sends a message by %s from the default number, with the provider's reference", async (channel, prefix) => {
    const draft = await newDraft(tenant.key, { channel });
    await approve(draft);
    await becomes(draft, { status: 'sent', error: null });
    const [taken, ...more] = twilio.to(prefix + draft.to);
    expect([taken, more]).toMatchObject([{ from: prefix + number, body: draft.body }, []]);
    expect((await read(draft)).provider_ref).toBe(taken?.sid);
    expect(twilio.strangers).toBe(0);
  });

  test('sends a text from the number that its draft names', async () => {
    const { phone_number: from } = await newPhoneNumber(tenant.key);
    const draft = await newDraft(tenant.key, { from });
    await approve(draft);
    await becomes(draft, { status: 'sent' });
    expect(twilio.to(draft.to)).toMatchObject([{ from }]);
  });

  test.each([
    [400, 21610, 'refused', true],
    [400, 21211, 'refused', false],
    [400, 21614, 'refused', false],
    [400, 21606, 'no_sender', false],
    [422, undefined, 'refused', false],
  ])('fails a text rejected with %i and %s as %s', async (status, code, error, isOptedOut) => {
    const draft = await newDraft(tenant.key);
    twilio.behave = ({ to }) => (to === draft.to ? { status, ...(code ? { code } : {}) } : undefined);
    await approve(draft);
    await becomes(draft, { status: 'failed', error: { code: error } });
    expect(JSON.stringify((await read(draft)).error)).not.toContain(draft.to);
    const rows =
      await database()`select source, created_by_kind as by from do_not_call where phone_number = ${draft.to}`;
    expect(rows).toEqual(isOptedOut ? [{ source: 'opt_out', by: 'system' }] : []);
    expect((await readAttempts(draft)).attempts).toBe(1);
  });

  test.each([429, 401])('retries a text after status %i without a lookup', async (status) => {
    const draft = await newDraft(tenant.key);
    twilio.behave = ({ to }) => (to === draft.to ? { status } : undefined);
    await approve(draft);
    await waits(draft, 1);
    const looked = twilio.lookups;
    twilio.behave = () => undefined;
    await makeDue(draft);
    await becomes(draft, { status: 'sent' });
    expect([twilio.lookups, twilio.to(draft.to).length]).toEqual([looked, 1]);
  });

  test('finds a text that was accepted without a response, and does not send it again', async () => {
    const draft = await newDraft(tenant.key);
    twilio.behave = ({ to }) => (to === draft.to ? 'swallow' : undefined);
    await approve(draft);
    await expect.poll(() => twilio.to(draft.to).length, patience).toBe(1);
    await waits(draft, 1);
    expect((await readAttempts(draft)).attempted_at).toBeInstanceOf(Date);
    twilio.behave = () => undefined;
    await makeDue(draft);
    await becomes(draft, { status: 'sent', provider_ref: twilio.to(draft.to)[0]?.sid });
    expect(twilio.to(draft.to)).toHaveLength(1);
  });

  test('sends a text again if the provider does not have it after a failed attempt', async () => {
    const draft = await newDraft(tenant.key);
    twilio.behave = ({ to }) => (to === draft.to ? { status: 503 } : undefined);
    await approve(draft);
    await waits(draft, 1);
    const looked = twilio.lookups;
    twilio.behave = () => undefined;
    // Another text with the same words to the same number is not confused with it.
    const twin = await newDraft(tenant.key, { to: draft.to });
    await approve(twin);
    await becomes(twin, { status: 'sent' });
    await makeDue(draft);
    await becomes(draft, { status: 'sent' });
    expect([twilio.lookups > looked, twilio.to(draft.to).length]).toEqual([true, 2]);
  });

  test('fails a text without an active number', async () => {
    const other = await newWideTenant();
    const draft = await newDraft(other.key);
    await approve(draft, other);
    await becomes(draft, { status: 'failed', error: { code: 'no_sender' } }, other);
  });
});

test('delays no other company while one has many messages', async () => {
  const [crowd, other] = [await newWideTenant(), await newWideTenant()];
  const rows = Array.from({ length: 2000 }, (_, index) => ({
    company_id: crowd.companyId,
    test_mode: false,
    id: randomUUID(),
    channel: 'email',
    status: 'approved',
    recipient: `crowd-${index}@x.example`,
    subject: 'Many',
    body: 'Hello',
    due_at: new Date(0),
    created_by_kind: 'system',
    created_by_id: 'tests',
    created_at: new Date(),
    updated_at: new Date(),
  }));
  await database()`insert into message_drafts ${database()(rows)}`;
  const draft = await newDraft(other.key, anEmail());
  await approve(draft, other);
  await becomes(draft, { status: 'sent' }, other);
  const [left] = await database()`
    select count(*)::int as count from message_drafts where company_id = ${crowd.companyId} and status = 'approved'`;
  expect(left?.count).toBeGreaterThan(0);
  await database()`update message_drafts set due_at = null where company_id = ${crowd.companyId}`;
});

describe('without SMTP_URL and MESSAGING_URL', () => {
  let bare: TestServer;
  afterAll(async () => {
    await bare?.stop();
    useServer(server.url);
  });

  test('stores and logs messages without SMTP_URL and MESSAGING_URL', async () => {
    await server.stop();
    bare = await start({});
    useServer(bare.url);
    const drafts = [await newDraft(tenant.key, anEmail()), await newDraft(tenant.key)];
    for (const draft of drafts) {
      await approve(draft);
      await becomes(draft, { status: 'sent', provider_ref: 'kept' });
      await expect.poll(() => bare.output(), patience).toMatch(new RegExp(`${draft.id}.*kept a message`));
      expect(bare.output()).not.toContain(draft.to);
    }
  });
});

test.each([
  'http://AC1:hush@api.twilio.com',
  'twilio://AC1@api.twilio.com',
  'twilio://:hush@api.twilio.com',
  'twilio://AC1:hush@',
  'twilio://AC1:hush@api.twilio.com/2010',
  'twilio://AC1:hush@api.twilio.com?insecure=2',
])('rejects a MESSAGING_URL such as %s without repeating the token', (value) => {
  const reading = () => readConfig({ MESSAGING_URL: value });
  expect(reading).toThrow('MESSAGING_URL must be');
  expect(reading).toThrow(/^(?!.*hush)/s);
});

test('reads the account, the token and the host from MESSAGING_URL', () => {
  const { messagingProvider } = readConfig({ MESSAGING_URL: 'twilio://AC1:hu%3Ash@api.twilio.com' });
  expect(messagingProvider).toEqual({
    kind: 'twilio',
    accountId: 'AC1',
    authToken: 'hu:sh',
    url: 'https://api.twilio.com',
  });
});
