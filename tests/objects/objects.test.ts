// Objects: the list and the schemas by visibility, and the objects that a workspace defines.

import { describe, expect, inject, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { startServer } from '../support/servers.ts';
import { database, newKey, newTenant } from '../support/tenants.ts';

const visits = { slug: 'site-visits', label: 'Site visit', plural: 'Site visits' };

const list = async (key: string, baseUrl?: string) =>
  (await expectStatus(200, 'GET', '/v1/objects', { key, baseUrl })).body.data.objects;
const names = async (key: string) => (await list(key)).map((object: Json) => object.object);
const buildPath = (object: string) => `/v1/objects/${encodeURIComponent(object)}`;
const create = (key: string, body: object = visits) => expectStatus(201, 'POST', '/v1/objects', { key, body });
const problems = (body: Json) => body.error.details.fields.map(({ field, code }: Json) => [field, code]);

async function switchOff(companyId: string, modules: string[]): Promise<void> {
  await database()`update companies set disabled_modules = ${modules} where id = ${companyId}`;
}

describe('GET /v1/objects', () => {
  test('lists built-in objects before custom ones, equally in both modes', async () => {
    const tenant = await newTenant();
    await create(tenant.key);
    const objects = await list(tenant.key);
    expect(objects.map((object: Json) => object.object)).toEqual([
      'leads',
      'deals',
      'customers',
      'accounts',
      'tasks',
      'activities',
      'object:site-visits',
    ]);
    expect(objects[0]).toEqual({ object: 'leads', label: 'Lead', plural: 'Leads', kind: 'builtin', module: 'leads' });
    expect(objects[6]).toEqual({
      object: 'object:site-visits',
      label: 'Site visit',
      plural: 'Site visits',
      kind: 'custom',
      module: 'object:site-visits',
    });
    expect(await list(tenant.testKey)).toEqual(objects);
  });

  test('shows a key only objects that it can view, not those that it can only create', async () => {
    const tenant = await newTenant();
    await create(tenant.key);
    const narrow = await newKey(tenant, { scopes: ['leads:read', 'deals:create', 'object:site-visits:view'] });
    expect(await names(narrow)).toEqual(['leads', 'object:site-visits']);
    expect(await names(await newKey(tenant, { scopes: ['accounts:*', 'object:site-visits:*'] }))).toEqual([
      'accounts',
      'object:site-visits',
    ]);
    expect(await names(await newKey(tenant, { scopes: ['settings:configure'] }))).toEqual([]);
  });

  test('requires a credential to list objects', async () => {
    await expectStatus(401, 'GET', '/v1/objects');
  });

  test('hides the object of a disabled module, and shows it again to the same keys once enabled', async () => {
    const tenant = await newTenant();
    const key = await newKey(tenant, { scopes: ['leads:view', 'deals:view'] });
    await switchOff(tenant.companyId, ['leads']);
    expect(await names(key)).toEqual(['deals']);
    const { body } = await expectStatus(403, 'GET', '/v1/objects/leads/schema', { key });
    expect(body.error).toMatchObject({
      code: 'MODULE_DISABLED',
      details: { module: 'leads', reason: 'disabled_by_admin' },
    });
    await switchOff(tenant.companyId, []);
    expect(await names(key)).toEqual(['leads', 'deals']);
    await expectStatus(200, 'GET', '/v1/objects/leads/schema', { key });
  });
});

describe('GET /v1/objects/{object}/schema', () => {
  test('returns the fields of a built-in object with types, options and read-only flags', async () => {
    const tenant = await newTenant();
    const { body } = await expectStatus(200, 'GET', '/v1/objects/leads/schema', { key: tenant.key });
    const { schema } = body.data;
    expect(schema).toMatchObject({ object: 'leads', label: 'Lead', plural: 'Leads', kind: 'builtin', module: 'leads' });
    const field = (name: string) => schema.fields.find((each: Json) => each.name === name);
    expect(field('first_name')).toEqual({
      name: 'first_name',
      label: 'First name',
      type: 'text',
      required: true,
      custom: false,
      unique: false,
    });
    expect(field('lead_status').options.map((option: Json) => option.value)).toEqual([
      'New',
      'Contacted',
      'Qualified',
      'Converted',
      'Disqualified',
    ]);
    expect(field('source').options).toEqual([]);
    expect(field('converted_at')).toMatchObject({ type: 'datetime', read_only: true, required: false });
    for (const common of ['id', 'created_at', 'updated_at']) expect(field(common)).toBeUndefined();
  });

  test.each(['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities'])(
    'describes the fields of %s',
    async (object) => {
      const tenant = await newTenant();
      const { body } = await expectStatus(200, 'GET', `/v1/objects/${object}/schema`, { key: tenant.testKey });
      expect(body.data.schema.object).toBe(object);
      expect(body.data.schema.fields.length).toBeGreaterThan(5);
    },
  );

  test('returns the same 404 for an unknown object and for one that the key cannot view', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    await create(other.key);
    await create(tenant.key, { ...visits, slug: 'off' });
    await expectStatus(200, 'PATCH', buildPath('object:off'), { key: tenant.key, body: { enabled: false } });
    const narrow = await newKey(tenant, { scopes: ['deals:create', 'leads:view'] });
    const refusals: [string, string][] = [
      ['deals', narrow],
      ['object:off', narrow],
      ['object:never-was', narrow],
      ['object:never-was', tenant.key],
      ['object:site-visits', tenant.key],
      ['object:off', tenant.key],
      ['object:Not A Slug', tenant.key],
      ['reports', tenant.key],
      ['campaigns', tenant.key],
      ['constructor', tenant.key],
    ];
    for (const [object, key] of refusals) {
      const { body } = await expectStatus(404, 'GET', `${buildPath(object)}/schema`, { key });
      expect(body.error, object).toEqual({ code: 'NOT_FOUND', message: 'There is no such resource.' });
    }
  });
});

describe('POST /v1/objects', () => {
  test('creates an object with a required name and the given fields in order', async () => {
    const tenant = await newTenant();
    const { body } = await create(tenant.key, {
      ...visits,
      label: 'Site <b>visit</b>',
      fields: [
        { name: 'Visited on', label: 'Visited on', type: 'date', required: true },
        { name: 'outcome', label: 'Outcome', type: 'select', options: [{ label: 'Follow up' }] },
        { name: 'area', label: 'Area', type: 'number' },
      ],
    });
    expect(body.data.object).toMatchObject({
      object: 'object:site-visits',
      label: 'Site visit',
      kind: 'custom',
      module: 'object:site-visits',
      enabled: true,
    });
    expect(body.data.object.fields).toEqual([
      { name: 'name', label: 'Name', type: 'text', required: true, custom: false, unique: false },
      { name: 'visited_on', label: 'Visited on', type: 'date', required: true, custom: true, unique: false },
      {
        name: 'outcome',
        label: 'Outcome',
        type: 'select',
        required: false,
        custom: true,
        unique: false,
        options: [{ label: 'Follow up', value: 'follow_up' }],
      },
      { name: 'area', label: 'Area', type: 'number', required: false, custom: true, unique: false },
    ]);
    const schema = await expectStatus(200, 'GET', `${buildPath('object:site-visits')}/schema`, { key: tenant.key });
    expect(schema.body.data.schema.fields).toEqual(body.data.object.fields);
    await expectStatus(200, 'GET', '/v1/objects/object:site-visits/schema', { key: tenant.key });
  });

  test('writes an audit row that names the key, and an event, for a new object', async () => {
    const tenant = await newTenant();
    await create(tenant.key);
    const sql = database();
    expect(await sql`select action, object, key_name from audit_logs where company_id = ${tenant.companyId}`).toEqual([
      { action: 'object.create', object: 'object:site-visits', key_name: 'Test key' },
    ]);
    expect(
      await sql`select event, data ->> 'object' as object from ${recordedEvents(sql)} where company_id = ${tenant.companyId}`,
    ).toEqual([{ event: 'schema.changed', object: 'object:site-visits' }]);
  });

  test('checks all fields of a new object, reports all problems and creates nothing', async () => {
    const tenant = await newTenant();
    const { body } = await expectStatus(422, 'POST', '/v1/objects', {
      key: tenant.key,
      body: {
        ...visits,
        plural: '<i></i>',
        fields: [
          { name: 'id', label: 'Id', type: 'text' },
          { name: 'Name', label: 'Name', type: 'text' },
          { name: 'size', label: 'Size', type: 'select' },
          { name: 'Size', label: 'Size', type: 'text', options: [{ label: 'S' }] },
        ],
      },
    });
    expect(problems(body)).toEqual([
      ['fields[0].name', 'RESERVED_NAME'],
      ['fields[1].name', 'NAME_COLLISION'],
      ['fields[2].options', 'REQUIRED'],
      ['fields[3].options', 'CONFLICTING_FIELDS'],
      ['fields[3].name', 'DUPLICATE'],
      ['plural', 'TOO_SHORT'],
    ]);
    expect(await names(tenant.key)).not.toContain('object:site-visits');
  });

  test.each([
    ['slug', 'S', 'TOO_SHORT'],
    ['slug', 'a'.repeat(41), 'TOO_LONG'],
    ['slug', 'Site', 'INVALID_FORMAT'],
    ['slug', '1st', 'INVALID_FORMAT'],
    ['slug', 'site_visits', 'INVALID_FORMAT'],
    ['label', 'a'.repeat(101), 'TOO_LONG'],
    ['plural', 7, 'INVALID_TYPE'],
    ['kind', 'builtin', 'UNKNOWN_FIELD'],
  ])('rejects an object with the %s %s with 422', async (field, value, code) => {
    const tenant = await newTenant();
    const { body } = await expectStatus(422, 'POST', '/v1/objects', {
      key: tenant.key,
      body: { ...visits, [field]: value },
    });
    expect(problems(body)).toContainEqual([field, code]);
  });

  test('never reuses a slug, not even of a disabled object', async () => {
    const tenant = await newTenant();
    await create(tenant.key);
    await expectStatus(200, 'PATCH', buildPath('object:site-visits'), { key: tenant.key, body: { enabled: false } });
    const { body } = await expectStatus(409, 'POST', '/v1/objects', { key: tenant.key, body: visits });
    expect(body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['slug'], existing_id: 'object:site-visits' },
    });
    await create((await newTenant()).key);
  });

  test('creates an object once for 32 concurrent calls with the same slug', async () => {
    const tenant = await newTenant();
    const answers = await Promise.all(
      Array.from({ length: 32 }, () => call('POST', '/v1/objects', { key: tenant.key, body: visits })),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, ...Array(31).fill(409)]);
  });

  test('never has more than 50 custom objects under concurrent creation', async () => {
    const tenant = await newTenant();
    const slugs = Array.from({ length: 45 }, (_, index) => `kept-${index}`);
    await database()`
      insert into custom_objects (company_id, slug, label, plural, enabled, created_at, updated_at)
      select ${tenant.companyId}, slug, slug, slug, false, now(), now() from unnest(${slugs}::text[]) as slug`;
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        call('POST', '/v1/objects', { key: tenant.key, body: { ...visits, slug: `new-${index}` } }),
      ),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(5);
    const refused = answers.filter((answer) => answer.status === 409);
    expect(refused).toHaveLength(11);
    expect(refused[0]?.body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'object_limit_reached', limit: 50 },
    });
  });

  test('requires settings:configure and a live key to create an object', async () => {
    const tenant = await newTenant();
    const viewer = await newKey(tenant, { scopes: ['settings:view'] });
    const refused = await expectStatus(403, 'POST', '/v1/objects', { key: viewer, body: visits });
    expect(refused.body.error.details.required_scopes).toEqual(['settings:configure']);
    const test = await expectStatus(403, 'POST', '/v1/objects', { key: tenant.testKey, body: visits });
    expect(test.body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { reason: 'live_key_required' } });
    await expectStatus(401, 'POST', '/v1/objects', { body: visits });
    await expectStatus(400, 'POST', '/v1/objects', { key: tenant.key, rawBody: '{' });
    await create(await newKey(tenant, { scopes: ['settings:configure'] }));
  });
});

describe('PATCH /v1/objects/{object}', () => {
  test('changes only the sent properties of an object, and audits their old values', async () => {
    const tenant = await newTenant();
    await create(tenant.key);
    const { body } = await expectStatus(200, 'PATCH', buildPath('object:site-visits'), {
      key: tenant.key,
      body: { label: 'Visit' },
    });
    expect(body.data.object).toMatchObject({ label: 'Visit', plural: 'Site visits', enabled: true });
    expect((await list(tenant.key)).at(-1)).toMatchObject({ label: 'Visit', plural: 'Site visits' });
    const [row] = await database()`
      select changes from audit_logs where company_id = ${tenant.companyId} and action = 'object.update'`;
    expect(row?.changes).toEqual({ label: { from: 'Site visit', to: 'Visit' } });
  });

  test('disables and enables an object with everything that belongs to it', async () => {
    const tenant = await newTenant();
    await create(tenant.key, { ...visits, fields: [{ name: 'area', label: 'Area', type: 'number' }] });
    const change = (enabled: boolean) =>
      expectStatus(200, 'PATCH', buildPath('object:site-visits'), { key: tenant.key, body: { enabled } });
    expect((await change(false)).body.data.object.enabled).toBe(false);
    expect(await names(tenant.key)).not.toContain('object:site-visits');
    await expectStatus(404, 'GET', `${buildPath('object:site-visits')}/schema`, { key: tenant.key });
    await expectStatus(404, 'POST', `${buildPath('object:site-visits')}/fields`, {
      key: tenant.key,
      body: { name: 'x', label: 'X', type: 'text' },
    });
    expect((await change(true)).body.data.object.enabled).toBe(true);
    const { body } = await expectStatus(200, 'GET', `${buildPath('object:site-visits')}/schema`, { key: tenant.key });
    expect(body.data.schema.fields.map((field: Json) => field.name)).toEqual(['name', 'area']);
  });

  test('rejects changes of a built-in object', async () => {
    const tenant = await newTenant();
    const { body } = await expectStatus(409, 'PATCH', '/v1/objects/leads', {
      key: tenant.key,
      body: { label: 'Prospect' },
    });
    expect(body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'builtin_object' } });
  });

  test('rejects a change of the slug, an empty change and a label without text', async () => {
    const tenant = await newTenant();
    await create(tenant.key);
    const refuse = async (body: object) =>
      problems((await expectStatus(422, 'PATCH', buildPath('object:site-visits'), { key: tenant.key, body })).body);
    expect(await refuse({ slug: 'site-visits' })).toEqual([['slug', 'IMMUTABLE']]);
    expect(await refuse({})).toEqual([['', 'REQUIRED']]);
    expect(await refuse({ label: '<<b>script>' })).toEqual([['label', 'TOO_SHORT']]);
    expect(await refuse({ fields: [] })).toEqual([['fields', 'UNKNOWN_FIELD']]);
    await expectStatus(400, 'PATCH', buildPath('object:site-visits'), { key: tenant.key, rawBody: '[]' });
  });

  test('returns 404 for unknown objects and those of others, and requires the scope and a live key for changes', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    await create(other.key);
    const change = (status: number, object: string, key: string | undefined) =>
      expectStatus(status, 'PATCH', buildPath(object), { key, body: { enabled: false } });
    await change(404, 'object:site-visits', tenant.key);
    await change(404, 'object:X', tenant.key);
    await change(404, 'reports', tenant.key);
    await change(403, 'object:site-visits', await newKey(other, { scopes: ['object:site-visits:*'] }));
    expect((await change(403, 'object:site-visits', other.testKey)).body.error.details.reason).toBe(
      'live_key_required',
    );
    await change(401, 'object:site-visits', undefined);
    expect(await names(other.key)).toContain('object:site-visits');
  });
});

test('applies a configuration change to the next call on any server', async () => {
  const tenant = await newTenant();
  const second = await startServer({
    ...besideCommon(),
    LOG_LEVEL: 'info',
  });
  try {
    const objectsOn = async (baseUrl: string) =>
      (await list(tenant.key, baseUrl)).slice(6).map((object: Json) => object.object);
    const servers = [inject('baseUrl'), second.url] as const;
    for (let round = 0; round < 5; round += 1) {
      const [writer, reader] = round % 2 === 0 ? servers : ([servers[1], servers[0]] as const);
      // Both servers have cached the previous configuration.
      expect(await objectsOn(writer)).toHaveLength(round);
      expect(await objectsOn(reader)).toHaveLength(round);
      await expectStatus(201, 'POST', '/v1/objects', {
        key: tenant.key,
        baseUrl: writer,
        body: { ...visits, slug: `round-${round}` },
      });
      expect(await objectsOn(reader)).toHaveLength(round + 1);
      expect(await objectsOn(writer)).toHaveLength(round + 1);
    }
  } finally {
    await second.stop();
  }
});
