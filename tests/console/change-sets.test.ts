// The pages of change sets: what they show, and decisions by people.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { subscribed } from '../support/billing.ts';
import { proposeAccount } from '../support/change-sets.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { hiddenFields, Visitor } from '../support/page-client.ts';
import { createRecord } from '../support/records.ts';
import { newPerson } from '../support/sessions.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const path = '/v1/change-sets';
const records = '/v1/objects/accounts/records';
const home = '/console/change-sets';
const unique = (): string => `Acme ${randomUUID().slice(0, 8)}`;

let tenant: Tenant;
let admin: Visitor;
beforeAll(async () => {
  tenant = await newTenant();
  admin = new Visitor();
  await admin.signIn(tenant.admin.email);
});

const propose = async (operations: object[], more: object = {}, key = tenant.key): Promise<Json> =>
  (await expectStatus(201, 'POST', path, { key, body: { title: 'Changes', operations, ...more } })).body.data
    .change_set;
const proposeName = (name: string, more: object = {}, key = tenant.key): Promise<Json> =>
  propose([{ method: 'POST', path: records, body: { name } }], more, key);
const readStatus = async (id: string, key = tenant.key): Promise<string> =>
  (await expectStatus(200, 'GET', `${path}/${id}`, { key })).body.data.change_set.status;

/** Sends one of the forms of a set's page. @param shown the form as it was shown before */
const decide = async (
  visitor: Visitor,
  id: string,
  action: 'approve' | 'reject',
  more: Record<string, string> = {},
  query = '',
) => {
  const form = hiddenFields((await visitor.ask(`${home}/${id}${query}`)).text, `${home}/${id}`);
  return visitor.ask(`${home}/${id}`, { ...form, action, ...more });
};

/** Returns the texts of the cells of the rows, without elements. */
const readRows = (text: string): string[][] =>
  [...text.matchAll(/<tr>(<td.*?)<\/tr>/gs)].map(([, row = '']) =>
    [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell = '']) => toText(cell)),
  );
const toText = (html: string): string => html.replace(/<[^>]*>/g, '').trim();
/** Returns the heading of each change. */
const readChanges = (text: string): string[] =>
  [...text.matchAll(/<h3[^>]*>(.*?)<\/h3>/gs)].map(([, heading = '']) => toText(heading));

describe('the list', () => {
  test('shows the sets that wait first, in pages, and others by their status', async () => {
    const own = await newTenant();
    const visitor = new Visitor();
    await visitor.signIn(own.admin.email);
    expect((await visitor.ask(home)).text).toContain('No change sets are waiting for a decision.');
    const sets: Json[] = [];
    for (let made = 0; made < 26; made += 1) sets.push(await proposeName(unique(), { title: `Add ${made}` }, own.key));
    const first = await visitor.ask(home);
    expect(readRows(first.text).map(([title]) => title)).toEqual(
      Array.from({ length: 25 }, (_, index) => `Add ${25 - index}`),
    );
    const [, proposer, count, status] = readRows(first.text)[0] ?? [];
    expect([proposer, count, status]).toEqual([sets[0]?.proposed_by.name, '1', 'Waiting']);
    const [, older = ''] = /href="([^"]+)">Older</.exec(first.text) ?? [];
    expect(readRows((await visitor.ask(older.replaceAll('&amp;', '&'))).text).map(([title]) => title)).toEqual([
      'Add 0',
    ]);
    await decide(visitor, sets[3]?.id, 'reject');
    expect(readRows((await visitor.ask(`${home}?status=rejected`)).text).map(([title]) => title)).toEqual(['Add 3']);
    expect((await visitor.ask(`${home}?status=nonsense`)).status).toBe(400);
  });

  test('is announced by the home page, which counts the sets of its mode', async () => {
    const own = await newTenant();
    const visitor = new Visitor();
    await visitor.signIn(own.admin.email);
    const openHome = async (mode: string) => (await visitor.ask(`/console?mode=${mode}`)).text;
    expect(await openHome('live')).not.toContain('>Change sets</a><p>');
    await proposeAccount(own.key);
    expect(await openHome('live')).toContain(`<span class="number">1</span><a href="${home}">Change sets</a><p>`);
    await proposeAccount(own.key);
    expect(await openHome('live')).toContain(`<span class="number">2</span><a href="${home}">Change sets</a><p>`);
    expect(await openHome('test')).not.toContain('>Change sets</a><p>');
    await proposeAccount(own.testKey);
    expect(await openHome('test')).toContain(
      `<span class="number">1</span><a href="${home}?mode=test">Change sets</a><p>`,
    );
  });
});

describe('a set', () => {
  test('shows what each operation does, and its fields before and after', async () => {
    const { key } = tenant;
    const lead = await createRecord(key, 'leads', { first_name: 'Ada', last_name: 'Lane', email: 'ada@x.example' });
    const [kept, merged] = [unique(), unique()];
    const target = await createRecord(key, 'accounts', { name: kept });
    const source = await createRecord(key, 'accounts', { name: merged, city: 'Rome' });
    const set = await propose([
      { method: 'PATCH', path: `/v1/objects/leads/records/${lead.id}`, body: { last_name: 'Lovelace' } },
      { method: 'POST', path: records, body: { name: 'Northwind', city: 'Oslo' }, ref: 'north' },
      { method: 'POST', path: `${records}/$ref.north.id/notes`, body: { content: 'Called' } },
      { method: 'POST', path: `${records}/${target.id}/notes`, body: { content: 'Wrote' } },
      { method: 'POST', path: `${records}/${source.id}/merge`, body: { into_id: target.id } },
      { method: 'POST', path: `${records}:batch`, body: [{ name: 'East' }, { name: 'West' }] },
      { method: 'POST', path: '/v1/settings/sources', body: { name: 'Fair' } },
      { method: 'DELETE', path: `/v1/objects/leads/records/${lead.id}` },
    ]);
    const { text } = await admin.ask(`${home}/${set.id}`);
    expect(readChanges(text)).toEqual([
      '1. Update lead Ada Lane',
      '2. Create account Northwind',
      '3. Add a note to account Northwind',
      `4. Add a note to account ${kept}`,
      `5. Merge account ${merged} into account ${kept}`,
      '6. Create 2 accounts',
      '7. Create a source: Fair',
      '8. Delete lead Ada Lovelace',
    ]);
    const articles = text.split('<article').slice(1);
    // Only what changes, on two sides.
    expect(readRows(articles[0] ?? '')).toEqual([['Last name', 'Lane', 'Lovelace']]);
    // A new record has one side.
    expect(articles[1]).toContain('<th scope="col">After</th>');
    expect(articles[1]).not.toContain('<th scope="col">Before</th>');
    expect(readRows(articles[1] ?? '')).toEqual(
      expect.arrayContaining([
        ['Name', 'Northwind'],
        ['City', 'Oslo'],
      ]),
    );
    expect(readRows(articles[4] ?? '')).toContainEqual(['City', 'empty', 'Rome']);
    expect(readRows(articles[5] ?? '')).toEqual([['Items', 'Name: EastName: West']]);
    // A deleted record has the other one.
    expect(articles[7]).not.toContain('<th scope="col">After</th>');
    expect(readRows(articles[7] ?? '')).toContainEqual(['Last name', 'Lovelace']);
    expect(text).toContain('<code>PATCH /v1/objects/leads/records/');
  });

  test('shows everything that is requested, also what the fields before and after do not have', async () => {
    const { key } = tenant;
    const tag = `Tag ${randomUUID().slice(0, 8)}`;
    await expectStatus(201, 'POST', '/v1/settings/tags/customers', { key, body: { name: tag, fields: [] } });
    const customer = await createRecord(key, 'customers', { first_name: 'Ada', last_name: 'Lane', tags: [tag] });
    const [converted, moved] = await Promise.all(
      [1, 2].map(() =>
        createRecord(key, 'leads', { first_name: 'Eve', email: `${randomUUID()}@x.example`, company_name: unique() }),
      ),
    );
    const address = `/v1/objects/customers/records/${customer.id}`;
    const set = await propose([
      { method: 'PATCH', path: address, body: { city: 'Oslo', tags: [] } },
      { method: 'PATCH', path: address, body: { city: 'Rome', tags: [], last_name: 'Lane' } },
      {
        method: 'POST',
        path: `/v1/leads/${converted?.id}/convert`,
        body: { deal: { name: 'Big deal', amount_minor: 1_250_000, currency_code: 'EUR' } },
      },
      {
        method: 'POST',
        path: `/v1/leads/${moved?.id}/status`,
        body: { lead_status: 'Contacted', reason: 'They called' },
      },
    ]);
    const [, ...articles] = (await admin.ask(`${home}/${set.id}`)).text.split('<article');
    expect(readRows(articles[0] ?? '')).toEqual([
      ['City', 'empty', 'Oslo'],
      ['Tags', tag, 'empty'],
    ]);
    expect(readRows(articles[1] ?? '')).toEqual([
      ['City', 'Oslo', 'Rome'],
      ['Tags', 'empty'],
      ['Last name', 'Lane'],
    ]);
    expect(readRows(articles[2] ?? '')).toEqual(
      expect.arrayContaining([
        ['Customer › Created', 'yes'],
        ['Account › Created', 'yes'],
        ['Deal › Name', 'Big deal'],
        ['Deal › Amount', '12500.00 EUR'],
        ['Deal › Customer', 'Eve'],
      ]),
    );
    expect(readRows(articles[3] ?? '')).toEqual(expect.arrayContaining([['Reason', 'They called']]));
  });

  test('shows names of records and users, labels of fields, and amounts with their currency', async () => {
    const own = await newTenant();
    const { key } = own;
    const visitor = new Visitor();
    await visitor.signIn(own.admin.email);
    const [first, second] = [
      await createRecord(key, 'accounts', { name: 'East' }),
      await createRecord(key, 'accounts', { name: 'West' }),
    ];
    const customer = await createRecord(key, 'customers', {
      first_name: 'Ada',
      last_name: 'Lane',
      account_id: first.id,
    });
    const amount = { amount_minor: 1_200_000, currency_code: 'JPY' };
    const temple = await createRecord(key, 'deals', { name: 'Temple', ...amount });
    const fields = '/v1/objects/customers/fields';
    await expectStatus(201, 'POST', fields, {
      key,
      body: { name: 'cf_size', label: 'Size of the team', type: 'number' },
    });
    const set = await propose(
      [
        {
          method: 'PATCH',
          path: `/v1/objects/customers/records/${customer.id}`,
          body: { account_id: second.id, cf_size: 3, assigned_to: own.admin.id },
        },
        {
          method: 'POST',
          path: '/v1/objects/deals/records',
          body: { name: 'Big deal', amount_minor: 1_250_050, currency_code: 'USD', customer_id: customer.id },
        },
        { method: 'POST', path: `${records}:batch-update`, body: [{ id: second.id, city: 'Oslo' }] },
        { method: 'POST', path: `${records}:batch-delete`, body: { ids: [first.id, second.id] } },
        {
          method: 'PATCH',
          path: `/v1/objects/deals/records/${temple.id}`,
          body: { amount_minor: 1_300_000 },
        },
        {
          method: 'POST',
          path: '/v1/objects/deals/records:batch-update',
          body: [{ id: temple.id, amount_minor: 1_400_000 }],
        },
      ],
      {},
      key,
    );
    const { text } = await visitor.ask(`${home}/${set.id}`);
    const [, ...articles] = text.split('<article').map((each) => each.replace(/<details>.*?<\/details>/gs, ''));
    expect(readRows(articles[0] ?? '').sort()).toEqual([
      ['Account', 'East', 'West'],
      ['Assigned to', 'empty', 'Ada Admin'],
      ['Size of the team', 'empty', '3'],
    ]);
    expect(readRows(articles[1] ?? '')).toEqual(
      expect.arrayContaining([
        ['Amount', '12500.50 USD'],
        ['Customer', 'Ada Lane'],
      ]),
    );
    expect(readRows(articles[2] ?? '')).toEqual([['Items', 'Record: WestCity: Oslo']]);
    expect(readRows(articles[3] ?? '')).toEqual([['Records', 'EastWest']]);
    expect(readRows(articles[4] ?? '')).toEqual([['Amount', '1200000 JPY', '1300000 JPY']]);
    expect(readRows(articles[5] ?? '')).toEqual([
      ['Items', 'Record: TempleAmount: 1400000 in minor units, currency unknown'],
    ]);
    expect(JSON.stringify(articles.map(readRows))).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/);
  });

  test('escapes what the proposer wrote', async () => {
    const name = `<script>alert(1)</script>${unique()}`;
    const set = await proposeName(name, { title: '<b>bold</b>', reason: '<i>why</i>' });
    for (const page of [`${home}/${set.id}`, home]) {
      const { text } = await admin.ask(page);
      expect([page, text.includes('<script>alert'), text.includes('<b>bold'), text.includes('<i>why')]).toEqual([
        ...[page, false, false, false],
      ]);
    }
  });

  test('is not found by people who may not see its modules', async () => {
    const [seen, hidden] = [await proposeName(unique()), await proposeName(unique())];
    // The roles that see the whole workspace can view every module that operations of sets need today.
    await database()`
      update change_sets set modules = '{accounts,billing}'
      where company_id = ${tenant.companyId} and id = ${hidden.id}`;
    const { email } = await newPerson(tenant, 'Viewer');
    const viewer = new Visitor();
    await viewer.signIn(email);
    const { text } = await viewer.ask(home);
    expect([text.includes(seen.id), text.includes(hidden.id)]).toEqual([true, false]);
    expect((await viewer.ask(`${home}/${seen.id}`)).status).toBe(200);
    expect((await viewer.ask(`${home}/${hidden.id}`)).status).toBe(404);
    expect((await admin.ask(`${home}/${hidden.id}`)).status).toBe(200);
  });

  test('is not shown to people who do not see the whole workspace, and the list says why', async () => {
    const set = await proposeName(unique());
    const { email } = await newPerson(tenant, 'Sales_Manager');
    const visitor = new Visitor();
    await visitor.signIn(email);
    expect((await visitor.ask('/console')).text).not.toContain(home);
    const { status, text } = await visitor.ask(home);
    expect([status, text.includes('your role does not see the whole workspace')]).toEqual([200, true]);
    expect((await visitor.ask(`${home}/${set.id}`)).status).toBe(404);
    expect((await admin.ask(home)).text).not.toContain('your role does not see the whole workspace');
  });

  test('is not shown to people without the permission to view change sets', async () => {
    const { email } = await newPerson(tenant, 'Sales_Rep');
    const visitor = new Visitor();
    await visitor.signIn(email);
    expect((await visitor.ask('/console')).text).not.toContain(home);
    expect((await visitor.ask(home)).status).toBe(403);
  });
});

describe('a decision', () => {
  test('applies the changes that were shown, and says so after a redirect', async () => {
    const name = unique();
    const set = await proposeName(name);
    const answer = await decide(admin, set.id, 'approve');
    expect([answer.status, answer.to]).toEqual([303, `${home}/${set.id}?done=approved`]);
    const { text } = await admin.ask(answer.to ?? '');
    expect(text).toContain('Approved. The changes are applied.');
    expect(text).toContain('<strong>Applied.</strong>');
    expect(text).not.toContain('value="approve"');
    const [, log = ''] = /href="([^"]+)">Audit log of the approval/.exec(text) ?? [];
    expect((await admin.ask(log)).text).toContain('change_set.approve');
    const again = await admin.ask(answer.to ?? '');
    expect(again.status).toBe(200);
  });

  test('rejects with or without a reason, which the page then shows', async () => {
    for (const reason of ['Not this <quarter>', '']) {
      const set = await proposeName(unique());
      const answer = await decide(admin, set.id, 'reject', { reason });
      expect(answer.to).toBe(`${home}/${set.id}?done=rejected`);
      const { text } = await admin.ask(answer.to ?? '');
      expect(text).toContain('Rejected. Nothing was changed.');
      expect(text.includes('Not this &lt;quarter&gt;')).toBe(reason !== '');
      expect(await readStatus(set.id)).toBe('rejected');
    }
  });

  test('explains why it had no effect, and shows the set as it is', async () => {
    const changed = await proposeName(unique());
    const mismatch = async (action: 'approve' | 'reject') => decide(admin, changed.id, action, { digest: 'other' });
    for (const action of ['approve', 'reject'] as const) {
      const { status, text } = await mismatch(action);
      expect([status, text.includes('the form was not about these changes')]).toEqual([409, true]);
    }
    expect(await readStatus(changed.id)).toBe('pending');

    const form = hiddenFields((await admin.ask(`${home}/${changed.id}`)).text, `${home}/${changed.id}`);
    await expectStatus(200, 'POST', `${path}/${changed.id}/withdraw`, { key: tenant.key });
    for (const action of ['approve', 'reject']) {
      const { status, text } = await admin.ask(`${home}/${changed.id}`, { ...form, action });
      expect([status, text.includes('this change set is already decided')]).toEqual([409, true]);
    }

    const late = await proposeName(unique());
    const shown = hiddenFields((await admin.ask(`${home}/${late.id}`)).text, `${home}/${late.id}`);
    await database()`
      update change_sets set expires_at = now() - interval '1 second'
      where company_id = ${tenant.companyId} and id = ${late.id}`;
    const expired = await admin.ask(`${home}/${late.id}`, { ...shown, action: 'approve' });
    expect([expired.status, expired.text.includes('this change set has expired')]).toEqual([409, true]);
  });

  test('names the changes whose records have changed since, and leaves the set as it is', async () => {
    const { id } = await createRecord(tenant.key, 'accounts', { name: unique() });
    const set = await propose([
      { method: 'POST', path: records, body: { name: unique() } },
      { method: 'PATCH', path: `${records}/${id}`, body: { name: unique() } },
    ]);
    await expectStatus(200, 'PATCH', `${records}/${id}`, { key: tenant.key, body: { name: unique() } });
    const { status, text } = await decide(admin, set.id, 'approve');
    expect([status, text.includes('(change 2)')]).toEqual([409, true]);
    const [, first, second] = text.split('<article');
    expect([first, second].map((each) => each?.includes('has changed since this was proposed'))).toEqual([false, true]);
    // Only a rejection is left.
    expect([text.includes('value="approve"'), text.includes('value="reject"')]).toEqual([false, true]);
    expect(await readStatus(set.id)).toBe('pending');
  });

  test('shows which change failed, and what was applied of a set that is not atomic', async () => {
    for (const atomic of [true, false]) {
      const { id } = await createRecord(tenant.key, 'accounts', { name: unique() });
      const operations = [
        { method: 'POST', path: records, body: { name: unique() } },
        { method: 'POST', path: `${records}/${id}/notes`, body: { content: 'Called' } },
      ];
      const set = await propose(operations, { atomic });
      await expectStatus(200, 'DELETE', `${records}/${id}`, { key: tenant.key });
      const answer = await decide(admin, set.id, 'approve');
      expect(answer.to).toBe(`${home}/${set.id}${atomic ? '' : '?done=partly'}`);
      const { text } = await admin.ask(answer.to ?? '');
      const said = atomic ? 'Approved, but nothing was applied. Change 2 failed:' : 'Some of the changes are applied.';
      expect(text).toContain(said);
      const [, first, second] = text.split('<article');
      expect(first).toContain(atomic ? 'Not applied.' : 'Applied.');
      expect(second).toContain('Failed: ');
    }
  });

  test('is offered only to people who may make the changes, and needs their permissions', async () => {
    const set = await proposeName(unique());
    const { email } = await newPerson(tenant, 'Viewer');
    const viewer = new Visitor();
    await viewer.signIn(email);
    const page = await viewer.ask(`${home}/${set.id}`);
    expect(page.text).toContain('Waiting for a decision by someone who may make these changes.');
    expect(page.text).not.toContain('name="action"');
    const { token = '' } = hiddenFields(page.text, '/console/sign-out');
    for (const action of ['approve', 'reject'] as const) {
      const form = { token, mode: 'live', digest: set.digest, action };
      const { status, text } = await viewer.ask(`${home}/${set.id}`, form);
      expect([status, text.includes('requires the permission accounts:create')]).toEqual([403, true]);
    }
    expect(await readStatus(set.id)).toBe('pending');
  });

  test('says after a second click what the first one did', async () => {
    const [approved, rejected] = [await proposeName(unique()), await proposeName(unique())];
    for (const [set, action] of [
      [approved, 'approve'],
      [rejected, 'reject'],
    ] as const) {
      const form = { ...hiddenFields((await admin.ask(`${home}/${set.id}`)).text, `${home}/${set.id}`), action };
      const [first, second] = [await admin.ask(`${home}/${set.id}`, form), await admin.ask(`${home}/${set.id}`, form)];
      expect([first.status, first.to]).toEqual([
        303,
        `${home}/${set.id}?done=${action === 'approve' ? 'approved' : 'rejected'}`,
      ]);
      expect([second.status, second.to]).toEqual([303, first.to]);
    }
    // To another person, the same click says that it had no effect.
    const { email } = await newPerson(tenant, 'Company_Admin');
    const other = new Visitor();
    await other.signIn(email);
    const { token = '' } = hiddenFields((await other.ask('/console')).text, '/console/sign-out');
    const form = { token, mode: 'live', digest: approved.digest, action: 'approve' };
    const answer = await other.ask(`${home}/${approved.id}`, form);
    expect([answer.status, answer.text.includes('this change set is already decided')]).toEqual([409, true]);
  });

  test('is announced only on the page of a set with this decision', async () => {
    const set = await proposeName(unique());
    for (const done of ['approved', 'partly', 'rejected'])
      expect((await admin.ask(`${home}/${set.id}?done=${done}`)).text).not.toContain('role="status"');
    await decide(admin, set.id, 'reject');
    for (const done of ['approved', 'partly', 'rejected'])
      expect((await admin.ask(`${home}/${set.id}?done=${done}`)).text.includes('role="status"')).toBe(
        done === 'rejected',
      );
  });

  test('shows the reason again that was typed, if it had no effect', async () => {
    const set = await proposeName(unique());
    const mismatch = await decide(admin, set.id, 'reject', { digest: 'other', reason: 'Not this quarter' });
    expect([mismatch.status, mismatch.text.includes('value="Not this quarter"')]).toEqual([409, true]);
    const long = 'x'.repeat(2001);
    const refused = await decide(admin, set.id, 'reject', { reason: long });
    expect([refused.status, refused.text.includes(`value="${long}"`)]).toEqual([400, true]);
    expect(refused.text).toContain('aria-invalid="true"');
    expect(await readStatus(set.id)).toBe('pending');
  });

  test('says that it needs a subscription', async () => {
    const own = await newTenant();
    const set = await proposeName(unique(), {}, own.key);
    await subscribed(own, 'live', { status: 'canceled', ended_at: new Date(Date.now() - 86_400_000) });
    const visitor = new Visitor();
    await visitor.signIn(own.admin.email);
    const { status, text } = await decide(visitor, set.id, 'approve');
    expect([status, text.includes('subscription has ended')]).toEqual([402, true]);
    expect(await database()`select status from change_sets where company_id = ${own.companyId}`).toEqual([
      { status: 'pending' },
    ]);
  });

  test('about a set of a test key is made in test mode, and changes only test data', async () => {
    const name = unique();
    const set = await proposeName(name, {}, tenant.testKey);
    expect((await admin.ask(`${home}/${set.id}`)).status).toBe(404);
    expect((await admin.ask(`${home}?mode=test`)).text).toContain(`${home}/${set.id}?mode=test`);
    const answer = await decide(admin, set.id, 'approve', {}, '?mode=test');
    expect(answer.to).toBe(`${home}/${set.id}?mode=test&done=approved`);
    const find = async (key: string): Promise<Json[]> => {
      const filter = JSON.stringify({ field: 'name', op: 'eq', value: name });
      return (await call('GET', records, { key, query: { filter } })).body.data.records;
    };
    expect([(await find(tenant.testKey)).length, (await find(tenant.key)).length]).toEqual([1, 0]);
    const other = await proposeName(unique(), {}, tenant.testKey);
    await decide(admin, other.id, 'reject', {}, '?mode=test');
    expect(await readStatus(other.id, tenant.testKey)).toBe('rejected');
  });
});
