// Records at the console: search, lists, one record with its timeline, and who sees them.
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { newDraft } from '../support/messaging.ts';
import { Visitor } from '../support/page-client.ts';
import { addNote } from '../support/record-children.ts';
import { createRecord, createRecords, newCustomField, newCustomObject } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { newPerson } from '../support/sessions.ts';
import { database, type Tenant } from '../support/tenants.ts';

const home = '/console/records';

let tenant: Tenant;
let admin: Visitor;
beforeAll(async () => {
  tenant = await newWideTenant();
  admin = await signInVisitor(tenant.admin.email);
});

async function signInVisitor(email: string): Promise<Visitor> {
  const visitor = new Visitor();
  await visitor.signIn(email);
  return visitor;
}

/** Returns the values on the page of a record by their labels, without markup. */
const readFacts = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<dt>([^<]*)<\/dt><dd>(.*?)<\/dd>/gs)].map(([, label, value = '']) => [
      label,
      value.replace(/<[^>]*>/g, '').trim(),
    ]),
  );

/** Returns the titles of the timeline, from top to bottom. */
const readTimeline = (text: string): string[] =>
  [...text.matchAll(/<li><h3>(.*?)<\/h3>/gs)].map(([, title = '']) => title.replace(/<[^>]*>/g, ''));

test('shows the fields of a record with labels, names and formatted values', async () => {
  await newCustomField(tenant, 'deals', 'roof', { type: 'select', options: [{ value: 'flat', label: 'Flat roof' }] });
  const account = await createRecord(tenant.key, 'accounts', { name: 'Blue Lake <Trading>' });
  const fields = { amount_minor: 1_250_000, currency_code: 'EUR', expected_close_date: '2036-05-01', roof: 'flat' };
  const deal = await createRecord(tenant.key, 'deals', {
    ...fields,
    name: 'Rooftop system',
    account_id: account.id,
    assigned_to: tenant.admin.id,
  });
  const { status, text } = await admin.ask(`${home}/deals/${deal.id}`);
  expect(status).toBe(200);
  expect(text).toContain('<h1><bdi>Rooftop system</bdi></h1>');
  expect(readFacts(text)).toMatchObject({
    Amount: '12500.00 EUR',
    'Expected close': '2036-05-01',
    roof: 'Flat roof',
    Account: 'Blue Lake &lt;Trading&gt;',
    'Assigned to': 'Ada Admin',
  });
  const cheap = { name: 'Temple', amount_minor: 1_200_000, currency_code: 'JPY' };
  const yen = await createRecord(tenant.key, 'deals', cheap);
  expect(readFacts((await admin.ask(`${home}/deals/${yen.id}`)).text)).toMatchObject({ Amount: '1200000 JPY' });
  expect(text).toContain(`href="${home}/accounts/${account.id}"`);
  expect(text).toContain(`/console/audit-log?record_id=${deal.id}`);
  expect(text).not.toContain(deal.stage_id);
});

test('names the record of an activity and who added it, and shows no IDs', async () => {
  const lead = await createRecord(tenant.key, 'leads', { first_name: 'Eve', email: 'eve@x.example' });
  const body = { entity_type: 'lead', entity_id: lead.id, activity_type: 'Call', summary: 'Asked for a visit' };
  const { activity } = (await expectStatus(201, 'POST', '/v1/activities', { key: tenant.key, body })).body.data;
  const read = async (): Promise<Record<string, string>> =>
    readFacts((await admin.ask(`${home}/activities/${activity.id}`)).text);
  expect(await read()).toMatchObject({ Type: 'Call', Entity: 'Eve', Summary: 'Asked for a visit' });
  expect(Object.keys(await read())).not.toContain('Created by');
  await database()`
    update activities set created_by_kind = 'user', created_by_id = ${tenant.admin.id}, created_by_user = ${tenant.admin.id}
    where id = ${activity.id}`;
  expect((await read())['Created by']).toBe('Ada Admin');
});

test('shows the tags of a lead, and the messages about it that wait', async () => {
  await expectStatus(201, 'POST', '/v1/settings/tags/leads', {
    key: tenant.key,
    body: { name: 'Fair', color: '#16A34A', fields: [] },
  });
  const lead = await createRecord(tenant.key, 'leads', { first_name: 'Ada', email: 'ada@x.example', tags: ['Fair'] });
  const about = { object: 'leads', record_id: lead.id };
  const draft = await newDraft(tenant.key, { channel: 'email', to: 'ada@x.example', subject: 'Your quote', ...about });
  const { text } = await admin.ask(`${home}/leads/${lead.id}`);
  expect(readFacts(text).Tags).toBe('Fair');
  expect(text).toContain('Waiting for approval');
  expect(text).toContain(`href="/console/messages/${draft.id}"`);
});

test('pages through the timeline of a record, and shows parts of it', async () => {
  const { id } = await createRecord(tenant.key, 'accounts', { name: 'Busy' });
  const task = { title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z', object: 'accounts', record_id: id };
  await createRecord(tenant.key, 'tasks', task);
  for (let added = 0; added < 30; added += 1) await addNote(tenant.key, 'accounts', id, `Note ${added}`);
  const path = `${home}/accounts/${id}`;
  const first = await admin.ask(path);
  expect(readTimeline(first.text)).toEqual(Array.from({ length: 25 }, () => 'Note Note'));
  const follow = async (text: string, link: string): Promise<string> => {
    const address = new RegExp(`<a href="([^"]*)">${link}</a>`).exec(text)?.[1]?.replaceAll('&amp;', '&') ?? '';
    return (await admin.ask(address)).text;
  };
  const second = await follow(first.text, 'Older');
  expect(readTimeline(second)).toEqual([...Array.from({ length: 5 }, () => 'Note Note'), 'Task Call back']);
  expect(second).not.toContain('>Older<');
  expect(await follow(second, 'Newer')).toContain('Note 29');
  expect(readTimeline((await admin.ask(`${path}?kind=task`)).text)).toEqual(['Task Call back']);
  expect((await admin.ask(`${path}?kind=booking`)).text).toContain('No meetings.');
  expect((await admin.ask(`${path}?cursor=nonsense`)).status).toBe(400);
});

test('lists the newest records of each object, and pages to older ones and back', async () => {
  const own = await newWideTenant();
  const object = await newCustomObject(own, 'visits');
  const visitor = await signInVisitor(own.admin.email);
  expect((await visitor.ask(`${home}?object=leads`)).text).toContain('No leads yet.');
  const visit = await createRecord(own.key, object, { name: 'Visit of Ada' });
  const visits = await visitor.ask(`${home}?object=${encodeURIComponent(object)}`);
  expect(visits.text).toContain(`<a href="${home}/${object}/${visit.id}"><bdi>Visit of Ada</bdi></a>`);
  expect((await visitor.ask(`${home}/${object}/${visit.id}`)).status).toBe(200);
  await createRecords(
    own.key,
    'accounts',
    Array.from({ length: 60 }, (_, index) => ({ name: `Account ${index}` })),
  );
  let address = `${home}?object=accounts`;
  const seen: number[] = [];
  const go = async (link: string): Promise<string | undefined> => {
    const { text } = await visitor.ask(address);
    seen.push(text.split(`href="${home}/accounts/`).length - 1);
    return new RegExp(`<a href="([^"]*)">${link}</a>`).exec(text)?.[1]?.replaceAll('&amp;', '&');
  };
  for (let next = await go('Older'); next !== undefined; next = await go('Older')) address = next;
  expect(seen).toEqual([25, 25, 10]);
  for (let next = await go('Newer'); next !== undefined; next = await go('Newer')) address = next;
  expect(address).toBe(`${home}?object=accounts`);
});

test('searches all objects or one, and explains a search that is too short', async () => {
  const word = `Zephyr${randomUUID().slice(0, 8)}`;
  const accounts = Array.from({ length: 7 }, (_, index) => ({ name: `${word} ${index}` }));
  const [account] = await createRecords(tenant.key, 'accounts', accounts);
  await createRecord(tenant.key, 'leads', { first_name: word, email: `${word}@x.example` });
  const all = await admin.ask(`${home}?q=${word}`);
  expect([all.status, all.text.includes('Leads: 1 match<'), all.text.includes('Accounts: 7 matches<')]).toEqual([
    200,
    true,
    true,
  ]);
  const more = `${home}?q=${word}&amp;object=accounts`;
  expect(all.text).toContain(`<a href="${more}">More matches: Accounts</a>`);
  const one = await admin.ask(more.replace('&amp;', '&'));
  expect(one.text.split(`href="${home}/accounts/`).length - 1).toBe(7);
  expect(one.text).toContain(`${home}/accounts/${account.id}`);
  const short = await admin.ask(`${home}?q=z`);
  expect([short.status, short.text.includes('aria-invalid="true"')]).toEqual([400, true]);
  expect((await admin.ask(`${home}?q=${word}none`)).text).toContain('No matching records.');
  expect((await admin.ask(`${home}?object=nothing`)).status).toBe(404);
});

test('keeps the modes apart', async () => {
  const trial = await createRecord(tenant.testKey, 'accounts', { name: 'Trial' });
  expect((await admin.ask(`${home}/accounts/${trial.id}`)).status).toBe(404);
  const shown = await admin.ask(`${home}/accounts/${trial.id}?mode=test`);
  expect([shown.status, shown.text.includes(`${home}?mode=test&amp;object=accounts`)]).toEqual([200, true]);
  expect((await admin.ask(`${home}?object=accounts&mode=test`)).text).toContain(`${trial.id}?mode=test`);
});

test('shows a person only the records and parts that their roles allow', async () => {
  const own = await newWideTenant();
  const { email, id } = await newPerson(own, 'Sales_Rep');
  const [mine, other] = await createRecords(own.key, 'accounts', [
    { name: 'Mine', assigned_to: id },
    { name: 'Other', assigned_to: own.admin.id },
  ]);
  const [deal] = await createRecords(own.key, 'deals', [{ name: 'Deal', account_id: other.id, assigned_to: id }]);
  const visitor = await signInVisitor(email);
  const seen = await visitor.ask(`${home}/accounts/${mine.id}`);
  expect([seen.status, seen.text.includes('<h1><bdi>Mine</bdi></h1>')]).toEqual([200, true]);
  const hidden = await visitor.ask(`${home}/accounts/${other.id}`);
  const listed = (await visitor.ask(`${home}?object=accounts`)).text;
  expect([hidden.status, listed.includes('Mine'), listed.includes('Other')]).toEqual([404, true, false]);
  const { text } = await visitor.ask(`${home}/deals/${deal.id}`);
  expect(readFacts(text).Account).toBe('a record that you cannot see, or that was deleted');
  expect(text).not.toContain(other.id);
  await database()`delete from user_roles where user_id = ${id}`;
  expect((await visitor.ask(home)).status).toBe(403);
  expect((await visitor.ask(`${home}/accounts/${mine.id}`)).status).toBe(404);
});

test('is linked by name from change sets, requests and the audit log', async () => {
  const account = await createRecord(tenant.key, 'accounts', { name: 'Old Mill' });
  const path = `/v1/objects/accounts/records/${account.id}`;
  const link = `<a href="${home}/accounts/${account.id}"><bdi>Old Mill</bdi></a>`;
  const operations = [{ method: 'PATCH', path, body: { city: 'Rome' } }];
  const proposed = { title: 'Move the mill', operations };
  const set = (await expectStatus(201, 'POST', '/v1/change-sets', { key: tenant.key, body: proposed })).body.data
    .change_set;
  const read = await expectStatus(200, 'GET', path, { key: tenant.key });
  expect((await admin.ask(`/console/change-sets/${set.id}`)).text).toContain(link);
  const waiting = `<a href="/console/change-sets/${set.id}">Change set: <bdi>Move the mill</bdi></a>`;
  expect((await admin.ask(`${home}/accounts/${account.id}`)).text).toContain(waiting);
  const [another] = await createRecords(tenant.key, 'accounts', [{ name: 'New Mill' }]);
  expect((await admin.ask(`${home}/accounts/${another.id}`)).text).not.toContain('Waiting for approval');
  expect((await admin.ask(`/console/audit-log?record_id=${account.id}`)).text).toContain(link);
  await expect
    .poll(async () => (await admin.ask(`/console/requests/${read.body.meta.request_id}`)).text)
    .toContain(link);
  await expectStatus(200, 'POST', `/v1/change-sets/${set.id}/withdraw`, { key: tenant.key });
  expect((await admin.ask(`${home}/accounts/${account.id}`)).text).not.toContain('Waiting for approval');
  const other = await signInVisitor((await newWideTenant()).admin.email);
  for (const page of [`/console/change-sets/${set.id}`, `/console/audit-log?record_id=${account.id}`])
    expect((await other.ask(page)).text).not.toContain('Old Mill');
});
