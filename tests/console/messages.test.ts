// Messages at the console: the queue, decisions about many of them, and the history.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser } from '../support/browser.ts';
import { anyAddress, expectStatus, type Json } from '../support/client.ts';
import { furnishedTenant } from '../support/console.ts';
import { newDraft, newPhoneNumber } from '../support/messaging.ts';
import { hiddenFields, type Seen, Visitor } from '../support/page-client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { createRecord } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { newPerson } from '../support/sessions.ts';
import { adminPassword, database, type Tenant } from '../support/tenants.ts';

const base = inject('baseUrl');
const home = '/console/messages';
const email = { channel: 'email', subject: 'Your quote', body: 'Hello' };

async function signInVisitor(address: string): Promise<Visitor> {
  const visitor = new Visitor();
  await visitor.signIn(address);
  return visitor;
}

/** Creates emails to person1@x.example and so on. @returns their IDs */
async function newEmails({ key }: Tenant, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 1; made <= count; made += 1)
    ids.push((await newDraft(key, { ...email, to: `person${made}@x.example` })).id);
  return ids;
}

/** Returns the check boxes on a page: the IDs of drafts with the hashes of what it shows. */
const readBoxes = (text: string): string[] =>
  [...text.matchAll(/name="draft" form="decide" value="([^"]+)"/g)].map(([, value = '']) => value);

/** Decides about the drafts of check boxes. The form of the filter has the same address. */
function decide(visitor: Visitor, text: string, boxes: readonly string[], action: string, reason = ''): Promise<Seen> {
  const form = new URLSearchParams({ ...hiddenFields(text, `${home}" class="tall`), action, reason });
  for (const box of boxes) form.append('draft', box);
  return visitor.ask(home, form);
}

const readStatuses = async (ids: readonly string[]): Promise<Record<string, string>> => {
  const rows = await database()<Json[]>`select id, status from message_drafts where id = any(${[...ids]}::uuid[])`;
  return Object.fromEntries(rows.map(({ id, status }) => [id, status]));
};
/** A job sends approved messages. */
const isApproved = (status: string | undefined): boolean => ['approved', 'sent', 'failed'].includes(status ?? '');

describe('the queue', () => {
  test('shows what a message is about, from whom, and why it would not be sent', async () => {
    const tenant = await newWideTenant();
    const lead = await createRecord(tenant.key, 'leads', {
      first_name: 'Ada',
      last_name: '<Lee>',
      email: 'ada@x.example',
    });
    const about = { object: 'leads', record_id: lead.id, note: 'Asked on the phone', from: tenant.admin.email };
    await newDraft(tenant.key, { ...email, to: 'ada@x.example', ...about });
    const visitor = await signInVisitor(tenant.admin.email);
    const { text } = await visitor.ask(home);
    expect(text).toContain(`<a href="/console/records/leads/${lead.id}"><bdi>Ada &lt;Lee&gt;</bdi></a>`);
    for (const part of ['Asked on the phone', `<bdi>${tenant.admin.email}</bdi>`, '(API key)', 'just now'])
      expect(text).toContain(part);
    expect(text).not.toContain('class="problem"');
    const stopped = await newDraft(tenant.key, { body: 'Stopped' });
    const body = { phone_number: stopped.to };
    await expectStatus(201, 'POST', '/v1/dnc-list', { key: tenant.key, body });
    const sms = (await visitor.ask(`${home}?channel=sms`)).text;
    expect(sms).toContain('Cannot be approved: The recipient is on the do-not-call list.');
    expect(sms).not.toContain('ada@x.example');
    const other = await newDraft(tenant.key);
    expect((await visitor.ask(home)).text).toContain(
      'if you approve it now: No active phone number can send the message.',
    );
    await newPhoneNumber(tenant.key, { is_default: true });
    expect((await visitor.ask(`${home}/${other.id}`)).text).not.toContain('class="problem"');
  });

  test('shows the beginning of a long message, and the whole of it on demand', async () => {
    const tenant = await newWideTenant();
    await newDraft(tenant.key, { ...email, to: 'ada@x.example', body: `${'word '.repeat(400)}end of it` });
    const { text } = await (await signInVisitor(tenant.admin.email)).ask(home);
    expect([text.includes('The whole message (2009 characters)'), text.includes('end of it</pre></details>')]).toEqual([
      true,
      true,
    ]);
  });

  test('pages to older messages and back, and selects those of one page', async () => {
    const tenant = await newWideTenant();
    await newEmails(tenant, 30);
    const visitor = await signInVisitor(tenant.admin.email);
    const first = (await visitor.ask(home)).text;
    expect([readBoxes(first).length, first.includes('checked')]).toEqual([25, false]);
    const older = /<a href="([^"]*)">Older<\/a>/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? '';
    const second = (await visitor.ask(older)).text;
    expect(readBoxes(second)).toHaveLength(5);
    const select =
      /<a href="([^"]*)#decide">Select all 5 on this page<\/a>/.exec(second)?.[1]?.replaceAll('&amp;', '&') ?? '';
    const selected = (await visitor.ask(select)).text;
    expect([readBoxes(selected), selected.split(' checked>').length - 1]).toEqual([readBoxes(second), 5]);
    const decided = await decide(visitor, selected, readBoxes(selected), 'reject', 'Too late');
    expect(decided.to).toContain('cursor=');
    const back = (await visitor.ask(decided.to ?? '')).text;
    expect([back.includes('5 rejected.'), readBoxes(back).length]).toEqual([true, 0]);
    expect(/<a href="([^"]*)">Newer<\/a>/.exec(back)?.[1]).toBe(`${home}?status=draft`);
    const reasons = await database()`
      select distinct rejection_reason from message_drafts where company_id = ${tenant.companyId} and status = 'rejected'`;
    expect(reasons).toEqual([{ rejection_reason: 'Too late' }]);
    for (const cursor of ['nonsense', '2026-13-45T99:99:99.999Z_x', `2026-11-29T10:00:00.000Z_${"'"}`])
      expect((await visitor.ask(`${home}?${new URLSearchParams({ cursor })}`)).status).toBe(200);
  });
});

describe('a decision about many messages', () => {
  test('approves those that are as shown, and names the others with the reason', async () => {
    const tenant = await newWideTenant();
    const ids = await newEmails(tenant, 7);
    const [visitor, colleague] = [
      await signInVisitor(tenant.admin.email),
      await signInVisitor((await newPerson(tenant, 'Company_Admin')).email),
    ];
    const page = (await visitor.ask(home)).text;
    const boxes = readBoxes(page);
    expect(boxes).toHaveLength(7);
    // Meanwhile, a colleague decides, a message changes, a recipient opts out, and one is withdrawn.
    const findBox = (index: number): string => boxes.find((box) => box.startsWith(ids[index] ?? '')) ?? '';
    await decide(colleague, (await colleague.ask(home)).text, [findBox(0)], 'reject', 'Not this one');
    await database()`update message_drafts set body = 'Changed' where id = ${ids[1] ?? ''}`;
    await expectStatus(201, 'POST', '/v1/email-suppression', { key: tenant.key, body: { email: 'person3@x.example' } });
    await expectStatus(200, 'POST', `/v1/messages/drafts/${ids[3]}/withdraw`, { key: tenant.key });

    const answer = await decide(visitor, page, boxes, 'approve');
    expect(answer.status).toBe(303);
    const { text } = await visitor.ask(answer.to ?? '');
    expect(text).toContain('<p role="status">3 approved. The messages will be sent shortly.</p>');
    const alert = /<div role="alert">(.*?)<\/div>/s.exec(text)?.[1]?.replace(/<[^>]*>/g, '') ?? '';
    for (const part of [
      '4 could not be approved',
      /The message to person1@x.example: it was already decided. Rejected by .*: Not this one/,
      'The message to person2@x.example: it has changed since you opened the page.',
      'The message to person3@x.example: The recipient is on the email suppression list.',
      'The message to person4@x.example: it was already decided. Withdrawn',
    ])
      expect(alert).toMatch(part);
    const statuses = await readStatuses(ids);
    expect(ids.map((id) => (isApproved(statuses[id]) ? 'approved' : statuses[id]))).toEqual([
      'rejected',
      'draft',
      'draft',
      'withdrawn',
      'approved',
      'approved',
      'approved',
    ]);
    const audit = await database()`
      select count(*)::int as count from audit_logs
      where company_id = ${tenant.companyId} and action = 'message_draft.approve' and actor_id = ${tenant.admin.id}`;
    expect(audit).toEqual([{ count: 3 }]);
    // A second click says the same and does nothing.
    const again = await decide(visitor, page, boxes, 'approve');
    expect((await visitor.ask(again.to ?? '')).text).toContain('3 approved.');
    const events = await database()`
      select count(*)::int as count from audit_logs where company_id = ${tenant.companyId} and action = 'message_draft.approve'`;
    expect(events).toEqual([{ count: 3 }]);
  });

  test('decides about each message once under concurrent decisions', async () => {
    const tenant = await newWideTenant();
    const ids = await newEmails(tenant, 10);
    const people = await Promise.all(
      [tenant.admin, await newPerson(tenant, 'Company_Admin')].map(({ email: address }) => signInVisitor(address)),
    );
    const pages = await Promise.all(people.map(async (visitor) => (await visitor.ask(home)).text));
    const answers = await Promise.all(
      people.flatMap((visitor, index) =>
        ['approve', 'reject'].map((action) => {
          const boxes = readBoxes(pages[index] ?? '');
          return decide(visitor, pages[index] ?? '', index === 0 ? boxes : boxes.reverse(), action);
        }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 303, 303]);
    const audit = await database()`
      select record_id, count(*)::int as count from audit_logs
      where company_id = ${tenant.companyId} and action in ('message_draft.approve', 'message_draft.reject') group by 1`;
    expect([audit.length, new Set(audit.map(({ count }) => count))]).toEqual([ids.length, new Set([1])]);
  });

  test('needs a selection, at most a page of it, and an action', async () => {
    const tenant = await newWideTenant();
    const ids = await newEmails(tenant, 26);
    const visitor = await signInVisitor(tenant.admin.email);
    const page = (await visitor.ask(home)).text;
    const [box = ''] = readBoxes(page);
    const hash = box.split('.')[1];
    const many = ids.map((id) => `${id}.${hash}`);
    for (const [boxes, action, message] of [
      [[], 'approve', 'Select at least one message.'],
      [['nonsense', `${ids[0]}.x`], 'approve', 'Select at least one message.'],
      [many, 'approve', 'Select at most 25 messages.'],
      [[box], '', 'Choose Approve or Reject. Nothing was decided.'],
    ] as const) {
      const { status, text } = await decide(visitor, page, boxes, action);
      expect([status, text.includes(`<div role="alert"><p>${message}</p></div>`), readBoxes(text).length]).toEqual([
        400,
        true,
        25,
      ]);
    }
    expect(new Set(Object.values(await readStatuses(ids)))).toEqual(new Set(['draft']));
  });

  test('leaves messages of another workspace and mode alone, and says nothing of them', async () => {
    const [tenant, other] = [await newWideTenant(), await newWideTenant()];
    const [own = ''] = await newEmails(tenant, 1);
    const [foreign = ''] = await newEmails(other, 1);
    const trial = (await newDraft(tenant.testKey, { ...email, to: 'trial@x.example' })).id;
    const visitor = await signInVisitor(tenant.admin.email);
    const page = (await visitor.ask(home)).text;
    const hashes = await database()<Json[]>`
      select id, encode(sha256(convert_to(jsonb_build_array(channel, sender, recipient, subject, body)::text, 'UTF8')), 'hex') as hash
      from message_drafts where id = any(${[own, foreign, trial]}::uuid[])`;
    const boxes = hashes.map(({ id, hash }) => `${id}.${hash}`);
    expect(readBoxes(page)).toEqual(boxes.filter((box) => box.startsWith(own)));
    const answer = await decide(visitor, page, boxes, 'reject');
    const { text } = await visitor.ask(answer.to ?? '');
    expect([text.includes('Rejected.'), text.includes('could not be rejected'), text.includes('trial@')]).toEqual([
      true,
      false,
      false,
    ]);
    expect(await readStatuses([own, foreign, trial])).toEqual({
      [own]: 'rejected',
      [foreign]: 'draft',
      [trial]: 'draft',
    });
  });

  test('approves nothing with the reason of a rejection', async () => {
    const tenant = await newWideTenant();
    const ids = await newEmails(tenant, 2);
    const visitor = await signInVisitor(tenant.admin.email);
    const page = (await visitor.ask(home)).text;
    const many = await decide(visitor, page, readBoxes(page), 'approve', 'Too expensive');
    expect([many.status, many.text.includes('A reason belongs to a rejection.'), readBoxes(many.text).length]).toEqual([
      400,
      true,
      2,
    ]);
    const one = await visitor.send(`${home}/${ids[0]}`, { action: 'approve', reason: 'Too expensive' });
    expect([one.status, one.text.includes('A reason belongs to a rejection.')]).toEqual([400, true]);
    expect(new Set(Object.values(await readStatuses(ids)))).toEqual(new Set(['draft']));
  });

  test('explains why a single decision had no effect', async () => {
    const tenant = await newWideTenant();
    const [id = ''] = await newEmails(tenant, 1);
    const visitor = await signInVisitor(tenant.admin.email);
    const form = await visitor.readForm(`${home}/${id}`, `${home}/${id}`);
    await database()`update message_drafts set body = 'Changed' where id = ${id}`;
    const decideAgain = async (action: string): Promise<string> => {
      const answer = await visitor.ask(`${home}/${id}`, { ...form, action });
      expect(answer.status).toBe(303);
      return (await visitor.ask(answer.to ?? '')).text;
    };
    expect(await decideAgain('approve')).toContain('it has changed since you opened the page. Review it again.');
    expect(await decideAgain('reject')).toContain('Rejected. The message will not be sent.');
    expect(await decideAgain('approve')).toContain('it was already decided.');
    expect(await readStatuses([id])).toEqual({ [id]: 'rejected' });
  });

  test('is announced only if it happened', async () => {
    const tenant = await newWideTenant();
    const ids = await newEmails(tenant, 2);
    const visitor = await signInVisitor(tenant.admin.email);
    const forged = `${home}?decided=${ids.join('.')}.nonsense&action=approve`;
    expect((await visitor.ask(forged)).text).not.toContain('role="status"');
  });
});

test('decides nothing without a known action, about a message, a campaign run and a change set', async () => {
  const { tenant, draft, campaign, run, changeSet } = await furnishedTenant();
  const visitor = await signInVisitor(tenant.admin.email);
  const sql = database();
  for (const path of [
    `${home}/${draft}`,
    `/console/campaigns/${campaign}/runs/${run}`,
    `/console/change-sets/${changeSet}`,
  ])
    for (const fields of [{}, { action: 'delete' }]) {
      const { status, text } = await visitor.send(path, fields);
      expect([path, status, text.includes('Choose Approve or Reject. Nothing was decided.')]).toEqual([
        path,
        400,
        true,
      ]);
    }
  expect(await readStatuses([draft])).toEqual({ [draft]: 'draft' });
  expect(await sql`select decision from campaign_runs where id = ${run}`).toEqual([{ decision: null }]);
  expect(await sql`select status from change_sets where id = ${changeSet}`).toEqual([{ status: 'pending' }]);
});

describe('the history', () => {
  test('shows messages by status, with who decided and why', async () => {
    const tenant = await newWideTenant();
    const ids = await newEmails(tenant, 3);
    const visitor = await signInVisitor(tenant.admin.email);
    const page = (await visitor.ask(home)).text;
    const [box = ''] = readBoxes(page);
    await decide(visitor, page, [box], 'reject', 'Wrong <price>');
    await database()`
      update message_drafts set status = 'failed', error_code = 'refused', error_message = 'The provider rejected the message.'
      where id = ${ids[0] ?? ''}`;
    const rejected = (await visitor.ask(`${home}?status=rejected`)).text;
    expect(rejected.replace(/<[^>]*>/g, '')).toContain('Rejected by Ada Admin: Wrong &lt;price&gt;');
    expect([rejected.includes('person3@'), rejected.includes('person1@')]).toEqual([true, false]);
    expect((await visitor.ask(`${home}?status=failed`)).text).toContain('The provider rejected the message.');
    const all = (await visitor.ask(`${home}?status=all`)).text;
    expect(['person1@', 'person2@', 'person3@'].every((part) => all.includes(part))).toBe(true);
    const narrowed = (await visitor.ask(`${home}?status=all&channel=sms`)).text;
    expect(narrowed).toContain('No messages.');
    expect(narrowed).toContain(`<a href="${home}?status=all">Clear</a>`);
    const one = await visitor.ask(`${home}/${box.split('.')[0]}`);
    expect([one.status, one.text.includes('Wrong &lt;price&gt;'), one.text.includes('name="action"')]).toEqual([
      200,
      true,
      false,
    ]);
  });

  test('shows a message that waits with its decision, and none of another workspace', async () => {
    const [tenant, other] = [await newWideTenant(), await newWideTenant()];
    const [own = ''] = await newEmails(tenant, 1);
    const [foreign = ''] = await newEmails(other, 1);
    const visitor = await signInVisitor(tenant.admin.email);
    expect((await visitor.ask(`${home}/${foreign}`)).status).toBe(404);
    expect((await visitor.ask(`${home}/${own}?mode=test`)).status).toBe(404);
    const answer = await visitor.send(`${home}/${own}`, { action: 'approve' });
    expect(answer.to).toBe(`${home}?decided=${own}&action=approve`);
    expect(isApproved((await readStatuses([own]))[own])).toBe(true);
  });
});

describe.skipIf(!findProgram('chromium'))(`in a browser${skipNote('chromium')}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser.close());

  test('approves nothing when a person presses Enter in the reason of a rejection', async () => {
    const { tenant, draft, campaign, run } = await furnishedTenant();
    const context = await browser.newContext({ extraHTTPHeaders: { 'x-forwarded-for': anyAddress() } });
    context.setDefaultTimeout(90_000);
    const page = await context.newPage();
    await page.goto(`${base}/console/sign-in?next=${encodeURIComponent(`${home}?selected=all`)}`);
    await page.getByLabel('Email').fill(tenant.admin.email);
    await page.getByLabel('Password').fill(adminPassword);
    await page.keyboard.press('Enter');
    // Of the selected messages, Enter in the reason and in a check box decides nothing.
    await page.getByLabel('Reason for a rejection').fill('Too expensive');
    await page.keyboard.press('Enter');
    await page.getByRole('checkbox').first().press('Enter');
    await page.goto(`${base}/console/campaigns/${campaign}/runs/${run}`);
    expect(await readStatuses([draft])).toEqual({ [draft]: 'draft' });
    for (const path of [`/console/campaigns/${campaign}/runs/${run}`, `${home}/${draft}`]) {
      await page.goto(`${base}${path}`);
      await page.getByText('Reason for the rejection').click();
      await page.getByLabel('Reason (optional)').fill('Too expensive');
      await page.keyboard.press('Enter');
      await page.getByRole('status').waitFor();
      expect(await page.getByRole('status').textContent()).toMatch(/^Rejected\./);
    }
    expect(await readStatuses([draft])).toEqual({ [draft]: 'rejected' });
    expect(await database()`select decision from campaign_runs where id = ${run}`).toEqual([{ decision: 'rejected' }]);
    await context.close();
  });

  test.each([true, false])(
    'approves 25 messages in three clicks from Home, with JavaScript: %s',
    async (javaScriptEnabled) => {
      const tenant = await newWideTenant();
      const ids = await newEmails(tenant, 25);
      const extraHTTPHeaders = { 'x-forwarded-for': anyAddress() };
      const context = await browser.newContext({
        viewport: { width: 320, height: 800 },
        javaScriptEnabled,
        extraHTTPHeaders,
      });
      context.setDefaultTimeout(90_000);
      const page = await context.newPage();
      await page.goto(`${base}/console/sign-in?next=${encodeURIComponent('/console?mode=live')}`);
      await page.getByLabel('Email').fill(tenant.admin.email);
      await page.getByLabel('Password').fill(adminPassword);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Home' }).waitFor();
      let clicks = 0;
      const click = async (role: 'link' | 'button', name: string): Promise<void> => {
        clicks += 1;
        await page.locator('main').getByRole(role, { name, exact: true }).first().click();
      };
      await click('link', 'Messages');
      await click('link', 'Select all 25 on this page');
      await page.getByRole('checkbox', { name: 'Select the message to person25@x.example', checked: true }).waitFor();
      await click('button', 'Approve selected');
      await page.getByRole('status').waitFor();
      expect(await page.getByRole('status').textContent()).toBe('25 approved. The messages will be sent shortly.');
      expect(clicks).toBe(3);
      expect(Object.values(await readStatuses(ids)).every(isApproved)).toBe(true);
      // axe-core runs in the page.
      if (javaScriptEnabled) expect(await accessibilityProblems(page)).toEqual([]);
      await context.close();
    },
  );
});
