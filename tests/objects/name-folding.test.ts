// Case-insensitive names of configured lists, folded equally by the server and by PostgreSQL.
import { describe, expect, test } from 'vitest';
import { foldName } from '../../domain/objects/name-folding.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, lead } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newUser, type Tenant } from '../support/tenants.ts';

const same: readonly (readonly string[])[] = [
  ['İzmir', 'izmir', 'IZMIR', 'İZMİR', 'I\u0307zmir'],
  ['Isparta', 'ISPARTA', 'ısparta'],
  ['Straße', 'STRASSE', 'strasse'],
  ['Café', 'CAFÉ', 'Cafe\u0301'],
  ['ΟΔΟΣ', 'οδος'],
  ['ПОЧТА', 'почта'],
  ['ﬁle', 'FILE'],
  ['Ǆ', 'ǆ', 'ǅ'],
];

describe('names', () => {
  test('compares names without case in every script', () => {
    for (const spellings of same) expect([...new Set(spellings.map(foldName))]).toHaveLength(1);
    expect(foldName('Cafe')).not.toBe(foldName('Café'));
  });

  test('folds names in PostgreSQL exactly as in the server', async () => {
    // Excludes the Georgian capitals of Unicode 11, which the ICU of a PostgreSQL may not know yet.
    // The server compares names under the lock of the workspace, so the index is a second guard.
    const letters = Array.from({ length: 0x2c00 }, (_, code) => code)
      .filter((code) => code >= 0x20 && (code < 0x1c80 || code >= 0x1cc0))
      .map((code) => String.fromCodePoint(code));
    const texts = [...same.flat(), ...letters, ...letters.map((letter) => `a${letter}b`)];
    const rows = await database()<{ text: string; folded: string }[]>`
      select text, fold_name(text) as folded from unnest(${texts}::text[]) as text`;
    expect(rows.filter(({ text, folded }) => folded !== foldName(text))).toEqual([]);
    expect(rows).toHaveLength(texts.length);
  });
});

const spellings = ['izmir', 'İZMİR', 'IZMIR', 'I\u0307zmir', ' İzmir '];

/** Lists in which names are unique, with what else a new item needs. */
const lists: readonly (readonly [path: string, more: object])[] = [
  ['/v1/settings/sources', {}],
  ['/v1/settings/statuses/leads', {}],
  ['/v1/settings/statuses/deals', {}],
  ['/v1/settings/tags/leads', { fields: [] }],
  ['/v1/settings/tags/customers', { fields: [] }],
  ['/v1/settings/activity-types', {}],
  ['/v1/settings/pipelines', {}],
  ['/v1/settings/sla-policies', { entity_type: 'lead', first_response_time: 60 }],
  ['/v1/scheduling/policies', {}],
  ['/v1/scheduling/pools', { member_ids: [] }],
  ['/v1/workforces', { subject_types: ['lead'], steps: [{ kind: 'add_note', content: 'x' }] }],
  ['/v1/views', { object: 'leads' }],
  ['/v1/reports/saved', { object_id: 'leads', config: {} }],
];

test.each(lists)('rejects a second name of %s that differs only in case', async (path, more) => {
  const { key } = await newWideTenant();
  const post = (name: string) => call('POST', path, { key, body: { ...more, name }, idempotencyKey: true });
  const first = await post('İzmir');
  expect([first.status, first.body.error]).toEqual([201, undefined]);
  for (const name of spellings) {
    const twin = await post(name);
    expect([name, twin.status, twin.body.error?.code]).toEqual([name, 409, 'ALREADY_EXISTS']);
  }
  expect((await post('İzmir 2')).status).toBe(201);
});

/** Requests that name an item of a list, and the name in the response. */
const uses: readonly (readonly [path: string, more: object, use: (tenant: Tenant, name: string) => Promise<string>])[] =
  [
    [
      '/v1/settings/sources',
      {},
      async ({ key }, source) => (await createRecord(key, 'customers', { first_name: 'A', source })).source,
    ],
    [
      '/v1/settings/statuses/leads',
      {},
      async ({ key }, name) => (await createRecord(key, 'leads', lead({ lead_status: name }))).lead_status,
    ],
    [
      '/v1/settings/statuses/deals',
      {},
      async ({ key }, stage) => (await createRecord(key, 'deals', { name: 'A', stage })).stage,
    ],
    [
      '/v1/settings/tags/leads',
      { fields: [] },
      async ({ key }, tag) => {
        const body = { first_name: 'A', email: 'a@x.example', tags: [tag] };
        return (await expectStatus(201, 'POST', '/v1/leads', { key, body })).body.data.lead.tags[0];
      },
    ],
    [
      '/v1/settings/activity-types',
      {},
      async ({ key }, name) => {
        const { id } = await createRecord(key, 'leads', lead());
        const body = { activity_type: name, entity_type: 'lead', entity_id: id, summary: 'A' };
        return (await createRecord(key, 'activities', body)).activity_type;
      },
    ],
    [
      '/v1/settings/pipelines',
      {},
      async ({ key }, name) => {
        const { pipelines } = (await expectStatus(200, 'GET', '/v1/settings/pipelines', { key })).body.data;
        const { id } = pipelines.find((each: Json) => each.name === 'İzmir');
        const body = { name: 'Open', pipeline_id: id };
        await call('POST', '/v1/settings/statuses/deals', { key, body });
        return (await createRecord(key, 'deals', { name: 'A', pipeline: name })).pipeline;
      },
    ],
  ];

test.each(uses)('finds a name of %s in every spelling', async (path, more, use) => {
  const tenant = await newWideTenant();
  await expectStatus(201, 'POST', path, { key: tenant.key, body: { ...more, name: 'İzmir' } });
  for (const name of spellings) expect(await use(tenant, name)).toBe('İzmir');
});

test('finds a role, a task type and the account of a company in every spelling', async () => {
  const tenant = await newWideTenant();
  const { key } = tenant;
  await database()`
    insert into task_types (company_id, id, name, order_position)
    values (${tenant.companyId}, gen_random_uuid(), 'İzmir', 99)`;
  for (const task_type of spellings) {
    const task = { title: 'A', scheduled_at: '2036-01-01T09:00:00Z', task_type };
    expect((await createRecord(key, 'tasks', task)).task_type).toBe('İzmir');
  }
  const account = await createRecord(key, 'accounts', { name: 'STRASSE Ltd' });
  const { id } = await createRecord(key, 'leads', lead({ company_name: ' Straße ltd' }));
  const { body } = await expectStatus(200, 'POST', `/v1/leads/${id}/convert`, { key, body: {}, idempotencyKey: true });
  expect(body.data.account.id).toBe(account.id);
  const user = await newUser(tenant);
  const patch = { key, body: { role: 'SALES_REP' } };
  expect((await call('PATCH', `/v1/users/${user.id}`, patch)).status).toBe(200);
});
