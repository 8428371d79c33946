// The audit log at the console: filters, and everything that one request did.
import { expect, test } from 'vitest';
import { call, expectStatus } from '../support/client.ts';
import { Visitor } from '../support/page-client.ts';
import { createRecords } from '../support/records.ts';
import { newPerson } from '../support/sessions.ts';
import { newTenant } from '../support/tenants.ts';

const home = '/console/audit-log';

test('shows who did what, filters by request id, and keeps modes separate', async () => {
  const tenant = await newTenant();
  const admin = new Visitor();
  await admin.signIn(tenant.admin.email);
  const made = await call('POST', '/v1/leads', {
    key: tenant.key,
    body: { first_name: 'Ada', email: 'ada@x.example' },
  });
  await createRecords(tenant.testKey, 'leads', [{ first_name: 'Ben', email: 'ben@x.example' }]);
  const request = made.headers.get('x-request-id') ?? '';
  const { id } = made.body.data.lead;
  const all = await admin.ask(home);
  for (const part of ['lead.create', 'session.create', 'Ada Admin', 'Test key', id]) expect(all.text).toContain(part);
  const link = `${home}?request_id=${request}`;
  expect(all.text).toContain(link);
  const one = await admin.ask(link);
  expect([one.text.includes(id), one.text.includes('session.create')]).toEqual([true, false]);
  const narrowed = await admin.ask(`${home}?request_id=&record_id=&action=session.create&from=2026-01-01&to=`);
  expect([narrowed.text.includes('session.create'), narrowed.text.includes(id)]).toEqual([true, false]);
  const ofTest = await admin.ask(`${home}?mode=test`);
  expect([ofTest.text.includes('>lead.create<'), ofTest.text.includes(id)]).toEqual([true, false]);
  const wrong = await admin.ask(`${home}?from=yesterday`);
  expect([wrong.status, wrong.text.includes('href="#from"')]).toEqual([400, true]);
});

test('names people, branches and teams, in entries and in their changed fields', async () => {
  const tenant = await newTenant();
  const { key } = tenant;
  const admin = new Visitor();
  await admin.signIn(tenant.admin.email);
  const leeds = (await expectStatus(201, 'POST', '/v1/branches', { key, body: { name: 'Leeds' } })).body.data.branch;
  const body = { name: 'Inbound', branch_id: leeds.id };
  const { team } = (await expectStatus(201, 'POST', '/v1/teams', { key, body })).body.data;
  const gone = (await expectStatus(201, 'POST', '/v1/branches', { key, body: { name: 'Bonn' } })).body.data.branch;
  await expectStatus(200, 'DELETE', `/v1/branches/${gone.id}`, { key });
  const { id } = await newPerson(tenant, 'Viewer');
  await expectStatus(200, 'PATCH', `/v1/users/${id}`, { key, body: { branch_id: leeds.id } });
  const { text } = await admin.ask(home);
  for (const link of [`organization/branches/${leeds.id}"><bdi>Leeds`, `organization/teams/${team.id}"><bdi>Inbound`])
    expect(text).toContain(`href="/console/${link}</bdi></a>`);
  expect(text).toMatch(new RegExp(`href="/console/people/${id}"><bdi>[^<]+</bdi></a>`));
  // A changed field shows the name of the branch, and a deleted branch keeps the name of its entry.
  const rows = text.split('</tr>').map((row) => row.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' '));
  expect(rows.some((row) => /Branch id .*Leeds/.test(row) && !row.includes(`Branch id ${leeds.id}`))).toBe(true);
  expect(text).toContain('branches <bdi>Bonn</bdi>');
  expect(text).not.toContain(`/console/organization/branches/${gone.id}`);
});

test('shows no audit rows of another company', async () => {
  const [tenant, other] = [await newTenant(), await newTenant()];
  const made = await call('POST', '/v1/leads', { key: other.key, body: { first_name: 'Ada', email: 'ada@x.example' } });
  const admin = new Visitor();
  await admin.signIn(tenant.admin.email);
  const { status, text } = await admin.ask(`${home}?request_id=${made.headers.get('x-request-id')}`);
  expect([status, text.includes('No matching entries.')]).toEqual([200, true]);
});
