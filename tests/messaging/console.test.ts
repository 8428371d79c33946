// Decisions about messages at the console: who can decide, and on which content.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openBrowser, watchedPage } from '../support/browser.ts';
import { call, type Json } from '../support/client.ts';
import { newCampaign, newDraft } from '../support/messaging.ts';
import { Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { createRecords } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { newPerson } from '../support/sessions.ts';
import { adminPassword, database, type Tenant } from '../support/tenants.ts';

const base = inject('baseUrl');
const home = '/console/messages';

let tenant: Tenant;
let admin: Visitor;
beforeAll(async () => {
  tenant = await newWideTenant();
  admin = new Visitor();
  await admin.signIn(tenant.admin.email);
});

const readDraft = async (id: string, key = tenant.key): Promise<Json> =>
  (await call('GET', `/v1/messages/drafts/${id}`, { key })).body.data.draft;
const to = (id: string): string => `${home}/${id}`;

describe('the sign-in', () => {
  test('returns to the requested console page after the sign-in, and to no other site', async () => {
    const visitor = new Visitor();
    expect((await visitor.ask(`${home}?mode=test`)).to).toBe(
      '/console/sign-in?next=%2Fconsole%2Fmessages%3Fmode%3Dtest',
    );
    const signedIn = await visitor.signIn(tenant.admin.email, adminPassword, { next: `${home}?mode=test` });
    expect([signedIn.status, signedIn.to]).toEqual([303, `${home}?mode=test`]);
    expect(signedIn.headers.get('set-cookie')).toMatch(
      /^console_session=[\w=/+-]+; Path=\/console; HttpOnly; SameSite=Lax; Max-Age=604800$/,
    );
    for (const next of ['https://evil.example', '//evil.example', '/console/../v1/leads', '/v1/leads']) {
      const away = await new Visitor().signIn(tenant.admin.email, adminPassword, { next });
      expect(away.to).toBe('/console');
    }
  });

  test('reveals nothing after a wrong password', async () => {
    for (const email of [tenant.admin.email, 'nobody@x.example']) {
      const refused = await new Visitor().signIn(email, 'wrong horse');
      expect([refused.status, refused.headers.get('set-cookie')]).toEqual([401, null]);
      expect(refused.text).toContain('The email address or the password is wrong.');
    }
  });

  test('invalidates the cookie at the sign-out, even for copies of it', async () => {
    const visitor = new Visitor();
    await visitor.signIn(tenant.admin.email);
    const form = await visitor.readForm(home, '/console/sign-out');
    const kept = visitor.cookie;
    expect((await visitor.ask('/console/sign-out', form)).to).toBe('/console/sign-in?done=out');
    visitor.cookie = kept;
    expect((await visitor.ask(home)).to).toContain('/console/sign-in');
  });

  test('ignores a cookie that another sign-in planted', async () => {
    const visitor = new Visitor();
    visitor.cookie = `console_session=${'A'.repeat(400)}`;
    expect((await visitor.ask(home)).to).toContain('/console/sign-in');
  });
});

describe('a decision', () => {
  test('approves a draft in the name of the person', async () => {
    const { id } = await newDraft(tenant.key, { body: 'Hello <b>you</b>' });
    const page = await admin.ask(home);
    expect(page.text).toContain('Hello &lt;b&gt;you&lt;/b&gt;');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const form = await admin.readForm(home, to(id));
    expect(await admin.ask(to(id), { ...form, action: 'approve' })).toMatchObject({
      status: 303,
      to: `${home}?decided=${id}&action=approve`,
    });
    const after = await readDraft(id);
    expect(['approved', 'sent']).toContain(after.status);
    expect(after.approved_by).toEqual({ kind: 'user', id: tenant.admin.id, name: expect.any(String) });
    const [row] = await database()`
      select actor_kind, actor_id from audit_logs where company_id = ${tenant.companyId} and record_id = ${id} and action = 'message_draft.approve'`;
    expect(row).toEqual({ actor_kind: 'user', actor_id: tenant.admin.id });
    // A second click says the same and does nothing.
    const again = await admin.ask(to(id), { ...form, action: 'approve' });
    expect([again.status, again.to]).toEqual([303, `${home}?decided=${id}&action=approve`]);
    expect((await readDraft(id)).approved_at).toBe(after.approved_at);
  });

  test('rejects a draft with a reason', async () => {
    const { id } = await newDraft(tenant.key);
    const form = await admin.readForm(home, to(id));
    await admin.ask(to(id), { ...form, action: 'reject', reason: 'Too short' });
    expect(await readDraft(id)).toMatchObject({ status: 'rejected', rejection_reason: 'Too short' });
  });

  test('rejects a decision if the displayed content has changed', async () => {
    const { id } = await newDraft(tenant.key);
    const form = await admin.readForm(home, to(id));
    await database()`update message_drafts set body = 'Something else' where id = ${id}`;
    const refused = await admin.ask(to(id), { ...form, action: 'approve' });
    const { text } = await admin.ask(refused.to ?? '');
    expect([refused.status, text.includes('it has changed since you opened the page')]).toEqual([303, true]);
    expect((await readDraft(id)).status).toBe('draft');
  });

  test('requires the password again for a decision long after the sign-in', async () => {
    const visitor = new Visitor();
    await visitor.signIn(tenant.admin.email);
    visitor.growStale();
    const { id } = await newDraft(tenant.key);
    const form = await visitor.readForm(home, to(id));
    expect((await visitor.ask(to(id), { ...form, action: 'approve' })).to).toContain('/console/sign-in');
    expect((await readDraft(id)).status).toBe('draft');
  });

  test('requires a form token of the same session', async () => {
    const { id } = await newDraft(tenant.key);
    const form = await admin.readForm(home, to(id));
    for (const token of ['', 'A'.repeat(43)]) {
      const refused = await admin.ask(to(id), { ...form, token, action: 'approve' });
      expect(refused.status).toBe(403);
    }
    const other = new Visitor();
    await other.signIn(tenant.admin.email);
    // The same person in another session has other form tokens.
    expect((await other.ask(to(id), { ...form, action: 'approve' })).status).toBe(403);
    expect((await readDraft(id)).status).toBe('draft');
  });

  test('returns 404 for drafts of another company', async () => {
    const other = await newWideTenant();
    const { id } = await newDraft(other.key);
    const form = await admin.readForm(home, '/console/sign-out');
    const refused = await admin.ask(to(id), { ...form, mode: 'live', hash: 'x', action: 'reject' });
    expect(refused.status).toBe(404);
    expect((await readDraft(id, other.key)).status).toBe('draft');
  });

  test('lets only people with permitted roles decide', async () => {
    const { email } = await newPerson(tenant, 'Viewer');
    const viewer = new Visitor();
    await viewer.signIn(email);
    const refused = await viewer.ask(home);
    expect(refused.status).toBe(403);
  });

  test('keeps decisions in test mode separate', async () => {
    const email = { channel: 'email', to: 'sara@x.example', subject: 'Your quote' };
    const [trial, real] = [await newDraft(tenant.testKey, email), await newDraft(tenant.key, email)];
    const { text } = await admin.ask(`${home}?mode=test`);
    expect([text.includes(trial.id), text.includes(real.id)]).toEqual([true, false]);
    const form = await admin.readForm(`${home}?mode=test`, to(trial.id));
    const approved = await admin.ask(to(trial.id), { ...form, action: 'approve' });
    expect(approved.to).toBe(`${home}?mode=test&decided=${trial.id}&action=approve`);
    await expect.poll(async () => (await readDraft(trial.id, tenant.testKey)).provider_ref).toBe('dry_run');
  });

  test('decides about all prepared messages of a campaign run together', async () => {
    const own = await newWideTenant();
    const people = ['Ada', 'Ben', 'Cem'].map((first_name) => ({ first_name, email: `${first_name}@x.example` }));
    await createRecords(own.key, 'leads', people);
    const campaign = await newCampaign(own.key);
    const begun = await call('POST', `/v1/campaigns/${campaign.id}/runs`, { key: own.key, idempotencyKey: true });
    const path = `/console/campaigns/${campaign.id}/runs/${begun.body.data.run.id}`;
    const visitor = new Visitor();
    await visitor.signIn(own.admin.email);
    await expect.poll(async () => (await visitor.ask(home)).text).toContain(path);
    const page = await visitor.ask(path);
    expect(page.text).toContain('3 messages prepared.');
    expect(page.text).toContain('Hello {{first_name}}');
    const form = await visitor.readForm(path, path);
    expect(await visitor.ask(path, { ...form, action: 'approve' })).toMatchObject({ status: 303 });
    const statuses = async () => {
      const { drafts } = (await call('GET', '/v1/messages/drafts', { key: own.key })).body.data;
      return new Set(drafts.map(({ status }: Json) => status));
    };
    await expect.poll(statuses).not.toContain('draft');
    expect((await visitor.ask(home)).text).not.toContain(path);
  });
});

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser.close());

  test('lets a person sign in and decide by keyboard alone on a small screen', async () => {
    const own = await newWideTenant();
    const { id } = await newDraft(own.key, {
      channel: 'email',
      to: 'sara@x.example',
      subject: 'Your quote',
      body: 'Hello',
    });
    const { page, requests, complaints } = await watchedPage(browser, 320);
    await page.goto(`${base}/console`);
    await page.getByLabel('Email').fill(own.admin.email);
    await page.getByLabel('Password').fill(adminPassword);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Messages' }).first().focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Messages', exact: true }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
    expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1);
    await page.getByRole('button', { name: 'Approve the message to sara@x.example' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('status').waitFor();
    expect(await page.getByRole('status').textContent()).toContain('Approved.');
    expect(['approved', 'sent']).toContain((await readDraft(id, own.key)).status);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(requests.every((url) => [`${base}/console`, `${base}/assets/`].some((own) => url.startsWith(own)))).toBe(
      true,
    );
    expect(complaints).toEqual([]);
  });
});
