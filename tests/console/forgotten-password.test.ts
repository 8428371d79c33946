// Password reset: the email, its single-use link, and no account enumeration.
import { mkdirSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser } from '../support/browser.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { startSmtp, type TestSmtp } from '../support/smtp.ts';
import { adminPassword, database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `forgotten-${process.pid}`);
const secretKey = '5e'.repeat(32);
const forgotten = '/console/forgotten-password';
const chosen = { password: 'a phrase of mine', repeated: 'a phrase of mine' };

// A separate database, because other servers could process a mail first.
let databaseUrl: string;
let smtp: TestSmtp;
let server: TestServer;
beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  databaseUrl = await newDatabase();
  await useDatabase(databaseUrl);
  smtp = await startSmtp();
  server = await startServer({
    ...testSettings,
    DATABASE_URL: databaseUrl,
    SECRET_KEY: secretKey,
    DATA_DIR: folder,
    SMTP_URL: `smtp://127.0.0.1:${smtp.port}`,
  });
});
afterAll(async () => {
  await server?.stop();
  await smtp?.stop();
  await useDatabase(undefined);
  await dropDatabase(databaseUrl);
  rmSync(folder, { recursive: true, force: true });
});

const newVisitor = (): Visitor => new Visitor(server.url);
const mailsTo = (email: string): TestSmtp['received'] =>
  smtp.received.filter(({ recipients }) => recipients.includes(email));

/** Requests an email. @returns the path of its link */
async function linkFor({ admin }: Tenant): Promise<string> {
  const before = mailsTo(admin.email).length;
  await newVisitor().ask(forgotten, { email: admin.email });
  await vi.waitFor(() => expect(mailsTo(admin.email)).toHaveLength(before + 1));
  const text = (mailsTo(admin.email).at(-1)?.raw ?? '').replaceAll('=\r\n', '').replaceAll('=3D', '=');
  return new RegExp(`${server.url}(/console/new-password\\?link=[\\w.-]+)`).exec(text)?.[1] ?? '';
}

const useLink = (path: string, fields: Record<string, string> = chosen) =>
  newVisitor().ask('/console/new-password', { link: path.split('link=')[1] ?? '', ...fields });

describe('a link', () => {
  test('sets a new password once, ends all sessions, and writes an audit row', async () => {
    const tenant = await newTenant();
    const signedIn = newVisitor();
    await signedIn.signIn(tenant.admin.email);
    const path = await linkFor(tenant);
    expect((await newVisitor().ask(path)).status).toBe(200);
    const done = await useLink(path);
    expect([done.status, done.to]).toEqual([303, '/console/sign-in?done=password']);
    expect((await signedIn.ask('/console')).to).toContain('/console/sign-in');
    expect((await newVisitor().signIn(tenant.admin.email, adminPassword)).status).toBe(401);
    expect((await newVisitor().signIn(tenant.admin.email, chosen.password)).status).toBe(303);
    for (const again of [await newVisitor().ask(path), await useLink(path)]) expect(again.status).toBe(410);
    const rows = await database()`
      select action, actor_id, record_id from audit_logs where company_id = ${tenant.companyId} and action like 'user.password%'
      order by occurred_at, action`;
    const by = { actor_id: tenant.admin.id, record_id: tenant.admin.id };
    expect(rows).toEqual([
      { action: 'user.password_forgotten', ...by },
      { action: 'user.password_reset', ...by },
    ]);
  });

  test('changes the password once if many use a link concurrently', async () => {
    const tenant = await newTenant();
    const path = await linkFor(tenant);
    const phrases = Array.from({ length: 6 }, (_, index) => `phrase number ${index}`);
    const answers = await Promise.all(phrases.map((phrase) => useLink(path, { password: phrase, repeated: phrase })));
    const winners = phrases.filter((_, index) => answers[index]?.status === 303);
    expect([winners.length, answers.filter(({ status }) => status === 410).length]).toEqual([1, 5]);
    expect((await newVisitor().signIn(tenant.admin.email, winners[0])).status).toBe(303);
  });

  test('rejects a link after another password change, after an hour, and for inactive users', async () => {
    const tenant = await newTenant();
    const path = await linkFor(tenant);
    const signedIn = newVisitor();
    await signedIn.signIn(tenant.admin.email);
    const own = { current_password: adminPassword, password: 'changed by myself', repeated: 'changed by myself' };
    expect((await signedIn.send('/console/password', own)).status).toBe(303);
    expect((await useLink(path)).status).toBe(410);

    const later = await linkFor(tenant);
    const tokens = new SignedTokens(new Secrets(secretKey));
    const said = tokens.read('new password', later.split('link=')[1] ?? '') as unknown[];
    expect((said[2] as number) - Date.now()).toBeLessThanOrEqual(3_600_000);
    const rewritten = (value: unknown[]): string => `?link=${tokens.write('new password', value)}`;
    expect((await useLink(rewritten(said.with(2, Date.now() - 1)))).status).toBe(410);
    expect((await useLink(`?link=${tokens.write('unsubscribe', said)}`)).status).toBe(410);
    await database()`update users set status = 'inactive' where id = ${tenant.admin.id}`;
    expect((await useLink(later)).status).toBe(410);
    await database()`update users set status = 'active' where id = ${tenant.admin.id}`;
    expect((await useLink(later)).status).toBe(303);
  });

  test('accepts only a long enough password, typed twice', async () => {
    const path = await linkFor(await newTenant());
    const wrong = [
      [{ password: 'short', repeated: 'short' }, 'at least 8 characters'],
      [{ password: 'long enough', repeated: 'long enouph' }, 'The two passwords do not match.'],
    ] as const;
    for (const [fields, why] of wrong) {
      const { status, text } = await useLink(path, fields);
      expect([status, text.includes(why), text.includes('long enough')]).toEqual([400, true, false]);
    }
    expect((await useLink(path)).status).toBe(303);
  });

  test('stores no link in plain text in the database', async () => {
    const path = await linkFor(await newTenant());
    const rows = await database()`select row_to_json(m)::text as text from mails m`;
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.filter(({ text }) => text.includes(path.slice(-40)) || text.includes('new-password?'))).toEqual([]);
    expect(server.output()).not.toContain(path.slice(-40));
  });
});

describe('a request', () => {
  test('responds alike for every address, and sends mail only to accounts', async () => {
    const tenant = await newTenant();
    const unknown = 'nobody@x.example';
    const texts = [];
    for (const email of [tenant.admin.email, unknown]) {
      const asked = performance.now();
      const { status, text } = await newVisitor().ask(forgotten, { email });
      texts.push([status, text.replaceAll(email, '')]);
      // The response time must not reveal whether a mail was written.
      expect(performance.now() - asked).toBeGreaterThan(495);
    }
    expect(texts[0]).toEqual(texts[1]);
    await vi.waitFor(() => expect(mailsTo(tenant.admin.email)).toHaveLength(1));
    expect(mailsTo(unknown)).toEqual([]);
  });

  test('sends at most three mails per hour to one address, without revealing it', async () => {
    const tenant = await newTenant();
    const email = tenant.admin.email.toUpperCase();
    for (let asked = 0; asked < 5; asked += 1) expect((await newVisitor().ask(forgotten, { email })).status).toBe(200);
    const rows = await database()`select from mails where company_id = ${tenant.companyId}`;
    expect(rows).toHaveLength(3);
  });

  test('rejects too many requests from one address', async () => {
    const visitor = newVisitor();
    const statuses = [];
    for (let asked = 0; asked < 21; asked += 1) statuses.push((await visitor.ask(forgotten)).status);
    expect(statuses).toEqual([...Array(20).fill(200), 429]);
  });

  test('says that a server without email cannot reset passwords', async () => {
    expect((await new Visitor().ask(forgotten)).text).toContain('This server does not send email.');
  });
});

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser.close());

  test('shows accessible reset pages, also without JavaScript', async () => {
    const tenant = await newTenant();
    for (const javaScriptEnabled of [true, false]) {
      const page = await browser.newPage({ viewport: { width: 320, height: 800 }, javaScriptEnabled });
      const path = await linkFor(tenant);
      for (const place of javaScriptEnabled ? ['/console/sign-in', forgotten, path, `${path}x`] : []) {
        await page.goto(server.url + place);
        expect([place, await accessibilityProblems(page)]).toEqual([place, []]);
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
      }
      const phrase = `a phrase, with JavaScript: ${javaScriptEnabled}`;
      await page.goto(server.url + path);
      await page.getByLabel('New password', { exact: true }).fill(phrase);
      await page.getByLabel('Confirm new password').fill(phrase);
      await page.keyboard.press('Enter');
      expect(await page.getByRole('status').textContent()).toContain('Your password was changed.');
      await page.close();
    }
  });
});
