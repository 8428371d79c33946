// Service mails: committed with their change, delivered once, retried, abandoned, and safe.
import { mkdirSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { v7 as uuidv7 } from 'uuid';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { readConfig } from '../../runtime/config.ts';
import { expectStatus, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { frequentJobs, startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { startSmtp, type TestSmtp } from '../support/smtp.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { newEmail, person } from '../support/users.ts';

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `mail-${process.pid}`);
const patience = { timeout: 60_000, interval: 50 };

const createUser = async (tenant: Tenant, more: object = {}): Promise<Json> => {
  const body = person({ send_welcome: true, ...more });
  return (await expectStatus(201, 'POST', '/v1/users', { key: tenant.key, body })).body.data;
};
const signup = (more: { company?: object; admin_user?: object } & Record<string, unknown> = {}): object => ({
  region: 'europe',
  industry: 'Retail',
  ...more,
  company: { name: 'Blue Lake Trading', email: 'office@bluelake.example', ...more.company },
  admin_user: { email: newEmail(), full_name: 'Sara Haddad', password: 'long enough', ...more.admin_user },
});

interface StoredMail {
  id: string;
  recipient: string;
  status: string;
  attempts: number;
}

const readMails = (companyId: string): Promise<StoredMail[]> =>
  database()<
    StoredMail[]
  >`select id, recipient, status, attempts from mails where company_id = ${companyId} order by id`;

/** Waits until the only mail of a company is as expected. */
async function mailBecomes(companyId: string, expected: Partial<StoredMail>): Promise<StoredMail> {
  return vi.waitFor(async () => {
    const mails = await readMails(companyId);
    expect(mails).toEqual([expect.objectContaining(expected)]);
    return mails[0] as StoredMail;
  }, patience);
}

const makeDue = (companyId: string): Promise<unknown> =>
  database()`update mails set next_attempt_at = now() where company_id = ${companyId} and status = 'queued'`;

/** Returns the log lines about a mail. */
const linesAbout = (output: string, mailId: string): Json[] =>
  output
    .split('\n')
    .filter((line) => line.includes(mailId))
    .map((line) => JSON.parse(line));

// A separate database, because other servers could process a mail first.
let databaseUrl: string;
const servers: TestServer[] = [];

/** @param smtpUrl undefined: mails are stored and not sent */
async function start(smtpUrl?: string): Promise<TestServer> {
  const started = await startServer({
    ...testSettings,
    ...frequentJobs(100),
    DATABASE_URL: databaseUrl,
    SECRET_KEY: '5e'.repeat(32),
    DATA_DIR: folder,
    DASHBOARD_URL: 'https://app.example',
    ...(smtpUrl === undefined ? {} : { SMTP_URL: smtpUrl }),
  });
  servers.push(started);
  return started;
}

async function stopAll(): Promise<void> {
  await Promise.all(servers.splice(0).map((each) => each.stop()));
}

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  databaseUrl = await newDatabase();
  await useDatabase(databaseUrl);
});

afterAll(async () => {
  await stopAll();
  await useDatabase(undefined);
  useServer(undefined);
  await dropDatabase(databaseUrl);
  rmSync(folder, { recursive: true, force: true });
});

describe('without SMTP_URL', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await start();
    useServer(server.url);
  });
  afterAll(stopAll);

  test('stores and logs mails without SMTP_URL, and does not claim that they were sent', async () => {
    const tenant = await newTenant();
    const { user, welcome_email_sent: isSent } = await createUser(tenant);
    expect(isSent).toBe(false);
    const mail = await mailBecomes(tenant.companyId, { recipient: user.email, status: 'kept' });
    await vi.waitFor(() => {
      const lines = linesAbout(server.output(), mail.id);
      expect(lines).toMatchObject([{ level: 'info', msg: expect.stringContaining('kept'), template: 'welcome' }]);
      expect(JSON.stringify(lines)).not.toContain(user.email);
    }, patience);
    const { data } = (await expectStatus(201, 'POST', '/v1/onboarding', { body: signup() })).body;
    expect(data.welcome_email_sent).toBe(false);
    await mailBecomes(data.company.id, { recipient: data.user.email, status: 'kept' });
  });
});

describe('with an SMTP server', () => {
  let smtp: TestSmtp;
  let server: TestServer;

  beforeAll(async () => {
    smtp = await startSmtp();
    server = await start(`smtp://127.0.0.1:${smtp.port}`);
    useServer(server.url);
  });

  afterAll(async () => {
    await stopAll();
    await smtp.stop();
  });

  afterEach(() => {
    smtp.refusal = undefined;
  });

  const sentTo = (email: string): TestSmtp['received'] =>
    smtp.received.filter(({ recipients }) => recipients.includes(email));

  test('delivers a welcome mail once, to its recipient only, without a password', async () => {
    const tenant = await newTenant('Blue Lake Trading');
    const { user, temp_password: password, welcome_email_sent: isSent } = await createUser(tenant);
    expect(isSent).toBe(true);
    const mail = await mailBecomes(tenant.companyId, { recipient: user.email, status: 'sent', attempts: 1 });
    const received = sentTo(user.email);
    expect(received.map(({ recipients }) => recipients)).toEqual([[user.email]]);
    const [{ raw = '' } = {}] = received;
    expect(raw).toMatch(/^Subject: Welcome to Blue Lake Trading\r$/m);
    expect(raw).toMatch(/^From: no-reply@127\.0\.0\.1\r$/m);
    expect(raw).toContain(`To: ${user.email}`);
    expect(raw).toContain(`Message-ID: <${mail.id}@`);
    expect(raw).toContain('https://app.example');
    expect(raw).toContain('Hello Omar Nasser');
    expect(raw).not.toContain(password);
    const [stored] = await database()`select row_to_json(m)::text as text from mails m where id = ${mail.id}`;
    expect(stored?.text).not.toContain(password);
    await vi.waitFor(() => {
      expect(linesAbout(server.output(), mail.id).map((line) => line.msg)).toEqual(['sent a mail']);
    }, patience);
  });

  test('sends a welcome mail after a signup by default, and none after a rejected one', async () => {
    const { data } = (await expectStatus(201, 'POST', '/v1/onboarding', { body: signup() })).body;
    expect(data.welcome_email_sent).toBe(true);
    await mailBecomes(data.company.id, { recipient: data.user.email, status: 'sent' });
    expect(sentTo(data.user.email)).toHaveLength(1);
    const quiet = (await expectStatus(201, 'POST', '/v1/onboarding', { body: signup({ send_welcome_email: false }) }))
      .body.data;
    expect(quiet.welcome_email_sent).toBe(false);
    expect(await readMails(quiet.company.id)).toEqual([]);
    await expectStatus(400, 'POST', '/v1/onboarding', { body: signup({ admin_user: { email: data.user.email } }) });
    const [count] = await database()`select count(*)::int as count from mails where recipient = ${data.user.email}`;
    expect(count).toEqual({ count: 1 });
  });

  test('writes no mail for a rejected creation or on request', async () => {
    const tenant = await newTenant();
    await createUser(tenant, { send_welcome: false });
    await database()`update subscriptions set package_code = 'starter', seats = 2 where company_id = ${tenant.companyId}`;
    await createUser(tenant, { send_welcome: false });
    await expectStatus(409, 'POST', '/v1/users', {
      key: tenant.key,
      body: person({ send_welcome: true }),
    });
    expect(await readMails(tenant.companyId)).toEqual([]);
  });

  test('retries with growing pauses while the mail server rejects temporarily, and delivers once', async () => {
    const tenant = await newTenant();
    smtp.refusal = 451;
    const { user } = await createUser(tenant);
    for (const attempts of [1, 2, 3]) {
      await vi.waitFor(() => {
        const mine = smtp.attempts.filter((email) => email === user.email);
        expect(mine).toHaveLength(attempts);
        expect(linesAbout(server.output(), user.email)).toEqual([]);
      }, patience);
      const { id } = await mailBecomes(tenant.companyId, { status: 'queued', attempts });
      await vi.waitFor(() => {
        const waits = linesAbout(server.output(), id).map((line) => line.next_in_minutes);
        expect(waits).toEqual([1, 3, 9].slice(0, attempts));
      }, patience);
      if (attempts === 3) smtp.refusal = undefined;
      await makeDue(tenant.companyId);
    }
    await mailBecomes(tenant.companyId, { status: 'sent', attempts: 4 });
    expect(sentTo(user.email)).toHaveLength(1);
  });

  test('abandons a mail after seven attempts with an error in the log', async () => {
    const tenant = await newTenant();
    smtp.refusal = 451;
    const { user } = await createUser(tenant);
    for (let attempts = 1; attempts < 7; attempts += 1) {
      const { id } = await mailBecomes(tenant.companyId, { status: 'queued', attempts });
      await vi.waitFor(() => expect(linesAbout(server.output(), id)).toHaveLength(attempts), patience);
      await makeDue(tenant.companyId);
    }
    const { id } = await mailBecomes(tenant.companyId, { status: 'failed', attempts: 7 });
    expect(smtp.attempts.filter((email) => email === user.email)).toHaveLength(7);
    await vi.waitFor(() => {
      expect(linesAbout(server.output(), id).at(-1)).toMatchObject({
        level: 'error',
        msg: 'gave up on a mail',
        attempts: 7,
        response_code: 451,
      });
    }, patience);
  });

  test('abandons a mail immediately if the server permanently rejects the recipient', async () => {
    const tenant = await newTenant();
    smtp.refusal = 550;
    const { user } = await createUser(tenant);
    await mailBecomes(tenant.companyId, { status: 'failed', attempts: 1 });
    expect(smtp.attempts.filter((email) => email === user.email)).toHaveLength(1);
  });

  test('prevents names from adding headers, recipients or addresses', async () => {
    const name = 'Eve\r\nBcc: victim@example.com\r\nSubject: Prize\r\n\r\nhttp://evil.example/x <script>';
    const { data } = (
      await expectStatus(201, 'POST', '/v1/onboarding', {
        body: signup({ company: { name }, admin_user: { full_name: name } }),
      })
    ).body;
    await mailBecomes(data.company.id, { status: 'sent' });
    const [{ raw, recipients } = { raw: '', recipients: [] }] = sentTo(data.user.email);
    expect(recipients).toEqual([data.user.email]);
    const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ');
    const names = head.split('\r\n').map((line) => line.slice(0, line.indexOf(':')).toLowerCase());
    expect(names.filter((each) => ['to', 'cc', 'bcc', 'subject', 'from'].includes(each)).toSorted()).toEqual([
      'from',
      'subject',
      'to',
    ]);
    expect(head).toContain('Subject: Welcome to Eve Bcc victim example com');
    for (const forbidden of ['victim@', 'evil.example', '<script>']) expect(raw).not.toContain(forbidden);
  });

  test('delivers each mail once across several servers', async () => {
    const tenant = await newTenant();
    const second = await start(`smtp://127.0.0.1:${smtp.port}`);
    expect(second.url).not.toBe(server.url);
    const sql = database();
    const rows = Array.from({ length: 40 }, () => ({
      company_id: tenant.companyId,
      id: uuidv7(),
      recipient: newEmail(),
      template: 'welcome',
      data: sql.json({ full_name: 'Crowd', company_name: 'Crowd' }),
      next_attempt_at: new Date(),
      created_at: new Date(),
    }));
    await sql`insert into mails ${sql(rows)}`;
    await vi.waitFor(async () => {
      expect((await readMails(tenant.companyId)).filter(({ status }) => status !== 'sent')).toEqual([]);
    }, patience);
    for (const { recipient } of rows) expect([recipient, sentTo(recipient).length]).toEqual([recipient, 1]);
  });

  test('retries a mail when the lease of a crashed server expires', async () => {
    const tenant = await newTenant();
    const email = newEmail();
    const sql = database();
    await sql`
      insert into mails (company_id, id, recipient, template, data, attempts, next_attempt_at, created_at)
      values (${tenant.companyId}, ${uuidv7()}, ${email}, 'welcome', '{}', 1, now() + interval '10 minutes', now())`;
    expect(sentTo(email)).toEqual([]);
    await makeDue(tenant.companyId);
    await mailBecomes(tenant.companyId, { status: 'sent', attempts: 2 });
    expect(sentTo(email)).toHaveLength(1);
  });

  test('abandons a mail without another attempt if servers died in each of its attempts', async () => {
    const tenant = await newTenant();
    const email = newEmail();
    await database()`
      insert into mails (company_id, id, recipient, template, data, attempts, next_attempt_at, created_at)
      values (${tenant.companyId}, ${uuidv7()}, ${email}, 'welcome', '{}', 7, now(), now())`;
    await mailBecomes(tenant.companyId, { status: 'failed' });
    expect(sentTo(email)).toEqual([]);
  });

  describe('that requires credentials', () => {
    const withTls = { authOptional: false, disabledCommands: [] };
    const secret = 'p@ss:w/rd';
    const login = `crm:${encodeURIComponent(secret)}@`;
    let guarded: TestSmtp | undefined;

    afterEach(async () => {
      await stopAll();
      await guarded?.stop();
    });

    /** Lets a server with these settings deliver a mail. */
    async function deliver(smtpUrl: string, expected: Partial<StoredMail>): Promise<void> {
      await stopAll();
      const started = await start(smtpUrl);
      useServer(started.url);
      const tenant = await newTenant();
      await createUser(tenant);
      const mail = await mailBecomes(tenant.companyId, expected);
      await vi.waitFor(() => expect(linesAbout(started.output(), mail.id)).not.toEqual([]), patience);
      expect(started.output()).not.toContain(secret);
      // Hides the mail from the next servers.
      await database()`delete from mails where company_id = ${tenant.companyId}`;
    }

    test('sends credentials under STARTTLS', async () => {
      guarded = await startSmtp(withTls);
      await deliver(`smtp://${login}127.0.0.1:${guarded.port}?verify=0`, { status: 'sent' });
      expect(guarded.received).toMatchObject([{ isSecure: true, user: 'crm' }]);
      expect(guarded.credentials).toEqual([{ user: 'crm', password: secret }]);
    });

    test('sends credentials under TLS from the first byte', async () => {
      guarded = await startSmtp({ ...withTls, secure: true });
      await deliver(`smtps://${login}127.0.0.1:${guarded.port}?verify=0`, { status: 'sent' });
      expect(guarded.received).toMatchObject([{ isSecure: true, user: 'crm' }]);
    });

    test('sends no credentials in plain text, and the mail waits', async () => {
      guarded = await startSmtp({ authOptional: false, allowInsecureAuth: true });
      await deliver(`smtp://${login}127.0.0.1:${guarded.port}`, { status: 'queued', attempts: 1 });
      expect([guarded.credentials, guarded.received]).toEqual([[], []]);
    });

    test('sends no credentials to a server with an untrusted certificate, and the mail waits', async () => {
      guarded = await startSmtp(withTls);
      await deliver(`smtp://${login}127.0.0.1:${guarded.port}`, { status: 'queued', attempts: 1 });
      expect([guarded.credentials, guarded.received]).toEqual([[], []]);
    });
  });

  test.each([
    ['SMTP_URL', 'http://user:hush@mail.example'],
    ['SMTP_URL', 'smtp://user:hush@'],
    ['SMTP_URL', 'smtp://user:hush@mail.example/inbox'],
    ['SMTP_URL', 'smtp://user:hush@mail.example?verify=2'],
    ['SMTP_URL', 'smtp://user:hush@mail.example?pool=1'],
    ['MAIL_FROM', 'nobody'],
    ['MAIL_FROM', 'a@b.example, c@d.example'],
  ])('rejects %s such as %s without repeating a password', (name, value) => {
    const read = () => readConfig({ [name]: value });
    expect(read).toThrow(`${name} must be`);
    expect(read).toThrow(/^(?!.*hush)/s);
  });
});
