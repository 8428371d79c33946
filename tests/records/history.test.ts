// The history of a record: its rows of the audit log, for those who see the record.
import { beforeAll, expect, test } from 'vitest';
import { newTeam } from '../support/arranged-ids.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { createRecord, patchRecord, recordsPath } from '../support/records.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const pathOf = (id: string): string => `${recordsPath('accounts', id)}/history`;

test('is what was done to the record, the newest first, in pages', async () => {
  const { id } = await createRecord(key, 'accounts', { name: 'Blue Lake' });
  await createRecord(key, 'accounts', { name: 'Another' });
  for (const city of ['Hamburg', 'Berlin']) await patchRecord(key, 'accounts', id, { city });
  await expectStatus(201, 'POST', `${recordsPath('accounts', id)}/attachments`, { key, ...fileForm() });
  const { body } = await expectStatus(200, 'GET', pathOf(id), { key });
  const rows: Json[] = body.data.history;
  expect(rows.map(({ action }) => action)).toEqual([
    'attachment.create',
    'account.update',
    'account.update',
    'account.create',
  ]);
  expect(rows[1].changes).toEqual({ city: { from: 'Hamburg', to: 'Berlin' } });
  const first = (await expectStatus(200, 'GET', pathOf(id), { key, query: { limit: 3 } })).body.data;
  expect(first.history).toEqual(rows.slice(0, 3));
  const rest = { key, query: { limit: 3, cursor: first.next_cursor } };
  expect((await expectStatus(200, 'GET', pathOf(id), rest)).body.data).toEqual({
    ...{ history: rows.slice(3), next_cursor: null, has_more: false },
  });
});

test('is seen by those alone who see the record; once it is deleted, by nobody here', async () => {
  const { id } = await createRecord(key, 'accounts', { name: 'Blue Lake' });
  const outside = await newKey(tenant, { reach: { kind: 'team', id: await newTeam(tenant) } });
  for (const other of [outside, tenant.testKey, await newKey(tenant, { scopes: ['leads:view'] })])
    await expectStatus(404, 'GET', pathOf(id), { key: other });
  await expectStatus(200, 'DELETE', recordsPath('accounts', id), { key });
  await expectStatus(404, 'GET', pathOf(id), { key });
  const { body } = await expectStatus(200, 'GET', '/v1/audit-logs', { key, query: { record_id: id } });
  expect(body.data.audit_logs.map(({ action }: Json) => action)).toEqual(['account.delete', 'account.create']);
});
