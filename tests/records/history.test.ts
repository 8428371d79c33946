// The history of a record: its audit rows, for callers that can see the record.
import { beforeAll, expect, test } from 'vitest';
import { newTeam } from '../support/arranged-ids.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { createRecord, lead, patchRecord, readRecord, recordsPath } from '../support/records.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const buildPath = (id: string): string => `${recordsPath('accounts', id)}/history`;

test('returns the changes of a record in pages, newest first', async () => {
  const { id } = await createRecord(key, 'accounts', { name: 'Blue Lake' });
  await createRecord(key, 'accounts', { name: 'Another' });
  for (const city of ['Hamburg', 'Berlin']) await patchRecord(key, 'accounts', id, { city });
  await expectStatus(201, 'POST', `${recordsPath('accounts', id)}/attachments`, { key, ...fileForm() });
  const { body } = await expectStatus(200, 'GET', buildPath(id), { key });
  const rows: Json[] = body.data.history;
  expect(rows.map(({ action }) => action)).toEqual([
    'attachment.create',
    'account.update',
    'account.update',
    'account.create',
  ]);
  expect(rows[1].changes).toEqual({ city: { from: 'Hamburg', to: 'Berlin' } });
  const first = (await expectStatus(200, 'GET', buildPath(id), { key, query: { limit: 3 } })).body.data;
  expect(first.history).toEqual(rows.slice(0, 3));
  const rest = { key, query: { limit: 3, cursor: first.next_cursor } };
  expect((await expectStatus(200, 'GET', buildPath(id), rest)).body.data).toEqual({
    history: rows.slice(3),
    next_cursor: null,
    has_more: false,
  });
});

test('shows the history only to callers that can see the record, and to none once it is deleted', async () => {
  const { id } = await createRecord(key, 'accounts', { name: 'Blue Lake' });
  const outside = await newKey(tenant, { reach: { kind: 'team', id: await newTeam(tenant) } });
  for (const other of [outside, tenant.testKey, await newKey(tenant, { scopes: ['leads:view'] })])
    await expectStatus(404, 'GET', buildPath(id), { key: other });
  await expectStatus(200, 'DELETE', recordsPath('accounts', id), { key });
  await expectStatus(404, 'GET', buildPath(id), { key });
  const { body } = await expectStatus(200, 'GET', '/v1/audit-logs', { key, query: { record_id: id } });
  expect(body.data.audit_logs.map(({ action }: Json) => action)).toEqual(['account.delete', 'account.create']);
});

/** Writers of every kind, which write to one lead concurrently. Each returns what it wrote. */
const writers: ((id: string, round: number) => Promise<unknown>)[] = [
  (id, round) => patchRecord(key, 'leads', id, { city: `First ${round}` }),
  (id, round) => patchRecord(key, 'leads', id, { city: `Second ${round}` }),
  (id, round) => {
    const body = [{ id, city: `Third ${round}` }];
    return expectStatus(200, 'POST', `${recordsPath('leads')}:batch-update`, { key, body, idempotencyKey: true });
  },
  (id) => {
    const body = { entity_type: 'lead', entity_id: id, activity_type: 'Call', summary: 'Spoke' };
    return expectStatus(201, 'POST', '/v1/activities', { key, body });
  },
];

async function wholeHistory(path: string): Promise<Json[]> {
  const rows: Json[] = [];
  let query: Record<string, string | number> = { limit: 100 };
  for (;;) {
    const { data } = (await expectStatus(200, 'GET', path, { key, query })).body;
    rows.push(...data.history);
    if (!data.has_more) return rows;
    query = { limit: 100, cursor: data.next_cursor };
  }
}

test('lists concurrent changes in the order in which they took effect', async () => {
  const { id } = await createRecord(key, 'leads', lead({ city: 'None' }));
  const cursor = await now(key);
  for (let round = 0; round < 40; round += 1) {
    await Promise.all(writers.map((write) => write(id, round)));
    const { body } = await expectStatus(200, 'GET', `${recordsPath('leads', id)}/history`, { key });
    const [last]: Json[] = body.data.history;
    expect(last.occurred_at, `round ${round}`).toBe((await readRecord(key, 'leads', id)).updated_at);
  }

  const rows = (await wholeHistory(`${recordsPath('leads', id)}/history`)).toReversed();
  const times = rows.map(({ occurred_at }) => occurred_at);
  expect(times).toEqual([...new Set(times)].toSorted());
  const record = await readRecord(key, 'leads', id);
  for (const field of ['city', 'last_contacted_at']) {
    const changes = rows.flatMap(({ changes: of }) => of?.[field] ?? []);
    const before = field === 'city' ? 'None' : null;
    const [last, ...earlier] = [...changes.map(({ to }) => to).toReversed(), before];
    expect(changes.map(({ from }) => from)).toEqual(earlier.toReversed());
    expect(last).toBe(record[field]);
  }
  const changes = (await changesAfter(key, cursor)).filter(({ record_id }) => record_id === id);
  expect(changes.map(({ occurred_at }) => occurred_at)).toEqual(times.slice(1));
});
