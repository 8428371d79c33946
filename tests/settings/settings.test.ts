// Rules of every configured list: unique names, no writes without a change, known fields only.
import { describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { leftBehind } from '../support/records.ts';
import { configVersion, createSetting } from '../support/settings.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

const readOnly = ['id', 'created_at', 'updated_at'];
const lists = [
  { root: '/v1/settings/statuses/leads', key: 'status', body: {}, fixed: [...readOnly, 'object'] },
  { root: '/v1/settings/statuses/deals', key: 'status', body: {}, fixed: [...readOnly, 'object'] },
  {
    root: '/v1/settings/tags/leads',
    key: 'tag',
    body: { fields: [{ field: 'priority', operator: 'eq', value: 1 }] },
    fixed: [...readOnly, 'object'],
  },
  { root: '/v1/settings/tags/customers', key: 'tag', body: { fields: ['email'] }, fixed: [...readOnly, 'object'] },
  { root: '/v1/settings/sources', key: 'source', body: {}, fixed: readOnly },
  {
    root: '/v1/settings/sla-policies',
    key: 'sla_policy',
    body: { entity_type: 'lead', first_response_time: 60 },
    fixed: readOnly,
  },
];

/** Retries 503, as clients do, because a busy machine may answer it. */
async function callUntilServed(...[method, path, options]: Parameters<typeof call>): Promise<Answer> {
  for (;;) {
    const answer = await call(method, path, options);
    if (answer.status !== 503) return answer;
  }
}

describe.each(lists)('$root', ({ root, key: shown, body, fixed }) => {
  const create = (tenant: Tenant, name: string): Promise<Json> => createSetting(tenant, root, { ...body, name });

  test('creates one of 32 items with one name in any case, and rejects the others as existing', async () => {
    const tenant = await newTenant();
    const names = Array.from({ length: 32 }, (_, index) => (index % 2 ? 'Twin name' : ' TWIN NAME '));
    const answers = await Promise.all(
      names.map((name) => callUntilServed('POST', root, { key: tenant.key, body: { ...body, name } })),
    );
    const [made, ...more] = answers.filter(({ status }) => status === 201);
    expect(more).toEqual([]);
    const refused = answers.filter(({ status }) => status === 409).map(({ body: { error } }) => error);
    expect(refused).toHaveLength(31);
    const details = { matched_fields: ['name'], existing_id: made?.body.data[shown].id };
    for (const error of refused) expect(error).toMatchObject({ code: 'ALREADY_EXISTS', details });
  });

  test('renames one of 32 items to one name, and keeps the names of the others', async () => {
    const tenant = await newTenant();
    const items: Json[] = [];
    for (let index = 0; index < 32; index += 1) items.push(await create(tenant, `Item ${index}`));
    const answers = await Promise.all(
      items.map(({ id }, index) =>
        callUntilServed('PATCH', `${root}/${id}`, { key: tenant.key, body: { name: index % 2 ? 'Wanted' : 'wanted' } }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(31).fill(409)]);
    const names = await Promise.all(
      items.map(async ({ id }) => {
        const answer = await expectStatus(200, 'GET', `${root}/${id}`, { key: tenant.key });
        return answer.body.data[shown].name;
      }),
    );
    expect(names.filter((name, index) => name !== `Item ${index}`)).toHaveLength(1);
  });

  test('writes neither an audit row nor a new version for a change without effect', async () => {
    const tenant = await newTenant();
    const item = await create(tenant, 'Same');
    const version = await configVersion(tenant);
    // The pipeline of a stage can be chosen only when it is created.
    const unchangeable = [...fixed, 'pipeline_id'];
    const same = Object.fromEntries(Object.entries(item).filter(([name]) => !unchangeable.includes(name)));
    for (const sent of [same, { name: ' Same ' }]) {
      const answer = await expectStatus(200, 'PATCH', `${root}/${item.id}`, { key: tenant.key, body: sent });
      expect(answer.body.data[shown]).toEqual(item);
    }
    expect([(await leftBehind(item.id)).audit.length, await configVersion(tenant)]).toEqual([1, version]);
  });

  test('rejects every read-only and unknown field on create and change without effect', async () => {
    const tenant = await newTenant();
    const item = await create(tenant, 'Kept');
    const version = await configVersion(tenant);
    for (const field of [...fixed, 'company_id', 'test_mode', 'colour', '__proto__', 'constructor']) {
      const code = fixed.includes(field) ? 'READ_ONLY' : 'UNKNOWN_FIELD';
      const given = `"${field}":${JSON.stringify(Object.hasOwn(item, field) ? item[field] : 'x')}`;
      const rest = JSON.stringify({ ...body, name: 'Other' }).slice(1, -1);
      for (const [method, path, rawBody] of [
        ['POST', root, `{${rest},${given}}`],
        ['PATCH', `${root}/${item.id}`, `{"name":"Other",${given}}`],
      ] as const) {
        const answer = await expectStatus(422, method, path, { key: tenant.key, rawBody });
        expect(answer.body.error.details.fields).toMatchObject([{ field, code }]);
      }
    }
    const kept = await expectStatus(200, 'GET', `${root}/${item.id}`, { key: tenant.key });
    expect([kept.body.data[shown], await configVersion(tenant)]).toEqual([item, version]);
  });
});
