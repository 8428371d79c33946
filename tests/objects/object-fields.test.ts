// Fields: what a workspace can add and change, and what stays as it is.
import { describe, expect, test } from 'vitest';
import { reservedNames } from '../../domain/objects/field-names.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { database, newKey, newTenant } from '../support/tenants.ts';

const budget = { name: 'budget', label: 'Budget', type: 'currency' };
const color = { name: 'color', label: 'Color', type: 'select', options: [{ label: 'Red' }, { label: 'Dark blue' }] };

const buildFieldsPath = (object: string) => `/v1/objects/${encodeURIComponent(object)}/fields`;
const add = async (key: string, body: object, object = 'leads') =>
  (await expectStatus(201, 'POST', buildFieldsPath(object), { key, body })).body.data.field;
const change = async (key: string, name: string, body: object, object = 'leads') =>
  (await expectStatus(200, 'PATCH', `${buildFieldsPath(object)}/${name}`, { key, body })).body.data.field;
const problems = (body: Json) => body.error.details.fields.map(({ field, code }: Json) => [field, code]);
const refuse = async (key: string, body: object, object = 'leads') =>
  problems((await expectStatus(422, 'POST', buildFieldsPath(object), { key, body })).body);
const refuseChange = async (key: string, name: string, body: object, object = 'leads') =>
  problems((await expectStatus(422, 'PATCH', `${buildFieldsPath(object)}/${name}`, { key, body })).body);
const published = async (key: string, name: string, object = 'leads') =>
  (
    await expectStatus(200, 'GET', `/v1/objects/${encodeURIComponent(object)}/schema`, { key })
  ).body.data.schema.fields.find((field: Json) => field.name === name);
const newObject = (key: string, slug = 'visits') =>
  expectStatus(201, 'POST', '/v1/objects', { key, body: { slug, label: 'Visit', plural: 'Visits' } });

describe('POST /v1/objects/{object}/fields', () => {
  test('adds a field that the next call sees, in both modes', async () => {
    const tenant = await newTenant();
    const field = await add(tenant.key, { ...budget, required: true });
    const descriptor = {
      name: 'budget',
      label: 'Budget',
      type: 'currency',
      required: true,
      custom: true,
      unique: false,
    };
    expect(field).toEqual({ ...descriptor, enabled: true });
    expect(await published(tenant.key, 'budget')).toEqual(descriptor);
    expect(await published(tenant.testKey, 'budget')).toEqual(descriptor);
    expect(await published(tenant.key, 'budget', 'deals')).toBeUndefined();
    expect(await published((await newTenant()).key, 'budget')).toBeUndefined();
  });

  test.each(['text', 'textarea', 'number', 'boolean', 'date', 'datetime', 'email', 'phone', 'url', 'currency'])(
    'adds a field of the type %s',
    async (type) => {
      const tenant = await newTenant();
      await newObject(tenant.key);
      expect(await add(tenant.key, { name: 'extra', label: 'Extra', type }, 'object:visits')).toEqual({
        name: 'extra',
        label: 'Extra',
        type,
        required: false,
        custom: true,
        unique: false,
        enabled: true,
      });
    },
  );

  test('lists custom fields after the built-in ones, in the order of their creation', async () => {
    const tenant = await newTenant();
    for (const name of ['zebra', 'apple', 'mango']) await add(tenant.key, { ...budget, name }, 'accounts');
    const { body } = await expectStatus(200, 'GET', '/v1/objects/accounts/schema', { key: tenant.key });
    expect(body.data.schema.fields.slice(-3).map((field: Json) => field.name)).toEqual(['zebra', 'apple', 'mango']);
  });

  test.each([
    ['  Budget Range  ', 'budget_range'],
    ['Réf. Client', 'ref_client'],
    ['İstanbul--office', 'istanbul_office'],
    ['Straße', 'stra_e'],
    ['a__b', 'a_b'],
    ['Size (m²)', 'size_m2_'],
    ['x'.repeat(61), 'x'.repeat(60)],
    ['CamelCase9', 'camelcase9'],
  ])('normalizes the field name %j to %s', async (given, name) => {
    const tenant = await newTenant();
    expect((await add(tenant.key, { ...budget, name: given })).name).toBe(name);
  });

  test.each([
    ['9 lives', 'INVALID_FORMAT'],
    ['!bang', 'INVALID_FORMAT'],
    ['قيمة', 'INVALID_FORMAT'],
    [' ', 'INVALID_FORMAT'],
    ['', 'TOO_SHORT'],
    ['x'.repeat(101), 'TOO_LONG'],
    ['id', 'RESERVED_NAME'],
    ['Created At', 'RESERVED_NAME'],
    ['COMPANY-ID', 'RESERVED_NAME'],
    ['tags', 'RESERVED_NAME'],
    ['Has more', 'RESERVED_NAME'],
    ['NULL', 'RESERVED_NAME'],
    ['_private', 'RESERVED_NAME'],
    ['__proto__', 'RESERVED_NAME'],
    ['constructor', 'RESERVED_NAME'],
    ['assigned_to_email', 'RESERVED_NAME'],
    ['First Name', 'NAME_COLLISION'],
    ['converted_at', 'NAME_COLLISION'],
  ])('rejects the field name %j with %s', async (name, code) => {
    const tenant = await newTenant();
    expect(await refuse(tenant.key, { ...budget, name })).toEqual([['name', code]]);
  });

  test.each([
    ['type', 'custom_type'],
    ['Created At', 'custom_created_at'],
    ['_private', 'private'],
    ['__proto__', 'proto'],
    ['_id', 'custom_id'],
  ])('suggests a free name instead of the field name %j', async (name, suggested) => {
    const tenant = await newTenant();
    const hintFor = async (): Promise<string> => {
      const body = { ...budget, name };
      const answer = await expectStatus(422, 'POST', buildFieldsPath('leads'), { key: tenant.key, body });
      return answer.body.error.details.fields[0].hint;
    };
    const hint = `Use ${suggested}, for example. /docs#operation/createField lists the reserved names.`;
    expect(await hintFor()).toBe(hint);
    expect((await add(tenant.key, { ...budget, name: suggested })).name).toBe(suggested);
    const next = /^Use (\w+),/.exec(await hintFor())?.[1];
    expect(next).not.toBe(suggested);
    expect((await add(tenant.key, { ...budget, name: next })).name).toBe(next);
  });

  test('documents exactly the reserved field names', () => {
    const description = operations.find(({ id }) => id === 'createField')?.declared.description ?? '';
    const [, list = ''] = /\*\*Reserved names\.\*\*.*?and so are:\n(.*?)\n\n/s.exec(description) ?? [];
    expect([...list.matchAll(/`(\w+)`/g)].map(([, name]) => name)).toEqual([...reservedNames]);
  });

  test.each(['external_id', 'external_ids'])(
    'takes %s, the key of an outside system, and finds records by it',
    async (name) => {
      const tenant = await newTenant();
      await add(tenant.key, { name, label: 'External id', type: 'text' });
      const record = { first_name: 'Sara', email: 'sara@example.com', [name]: 'ERP-1' };
      const path = '/v1/objects/leads/records';
      const made = await expectStatus(201, 'POST', path, { key: tenant.key, body: record, idempotencyKey: true });
      const filter = JSON.stringify({ field: name, op: 'eq', value: 'ERP-1' });
      const { body } = await expectStatus(200, 'GET', path, { key: tenant.key, query: { filter } });
      expect(body.data.records).toEqual([expect.objectContaining({ id: made.body.data.record.id, [name]: 'ERP-1' })]);
    },
  );

  test('rejects the name of a disabled built-in field, and accepts it on another object', async () => {
    const tenant = await newTenant();
    await change(tenant.key, 'origin', { enabled: false });
    expect(await refuse(tenant.key, { ...budget, name: 'origin' })).toEqual([['name', 'NAME_COLLISION']]);
    await add(tenant.key, { ...budget, name: 'origin' }, 'deals');
    await newObject(tenant.key);
    expect(await refuse(tenant.key, { ...budget, name: 'name' }, 'object:visits')).toEqual([
      ['name', 'NAME_COLLISION'],
    ]);
  });

  test('rejects a custom field name that is taken in any spelling, also by a retired field', async () => {
    const tenant = await newTenant();
    await add(tenant.key, budget);
    await change(tenant.key, 'budget', { enabled: false });
    const { body } = await expectStatus(409, 'POST', buildFieldsPath('leads'), {
      key: tenant.key,
      body: { ...budget, name: ' Búdget' },
    });
    expect(body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['name'], existing_id: 'budget' },
    });
  });

  test('creates a field once for 32 concurrent calls with the same name', async () => {
    const tenant = await newTenant();
    const answers = await Promise.all(
      Array.from({ length: 32 }, () => call('POST', buildFieldsPath('leads'), { key: tenant.key, body: budget })),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, ...Array(31).fill(409)]);
    expect(await published(tenant.key, 'budget')).toMatchObject({ custom: true });
  });

  test.each([
    ['<b>Budget</b> <i class="a>b">total</i>', 'Budget total'],
    ['Budget<script', 'Budget'],
    ['Budget <<b>script>alert(1)<</b>/script>', 'Budget alert(1)'],
    ['Budget<!-- <b> --><?php ?>', 'Budget'],
    ['Budget<img src=x onerror="alert(1)', 'Budget'],
    ['5 < 6 & 7 > 3', '5 < 6 & 7 > 3'],
    ['  Total\n\tbudget ', 'Total budget'],
    ['ميزانية', 'ميزانية'],
  ])('stores only the text of the field label %j', async (label, text) => {
    const tenant = await newTenant();
    expect((await add(tenant.key, { ...budget, label })).label).toBe(text);
  });

  test.each(['<<b>script>', '<b></b>', '   ', '<!--', '<<<b>b>b>'])('rejects the field label %j', async (label) => {
    const tenant = await newTenant();
    expect(await refuse(tenant.key, { ...budget, label })).toEqual([['label', 'TOO_SHORT']]);
  });

  test('derives the values of select options from their labels, unless given', async () => {
    const tenant = await newTenant();
    const options = [{ label: '<b>Dark</b> blue' }, { label: 'Red', value: 'Rouge 1' }, { label: 'أحمر' }];
    const field = await add(tenant.key, { ...color, options });
    expect(field.options).toEqual([
      { label: 'Dark blue', value: 'dark_blue' },
      { label: 'Red', value: 'Rouge 1' },
      { label: 'أحمر', value: 'أحمر' },
    ]);
    expect((await published(tenant.key, 'color')).options).toEqual(field.options);
    const many = Array.from({ length: 200 }, (_, index) => ({ label: `Option ${index}` }));
    expect((await add(tenant.key, { ...color, name: 'many', options: many })).options).toHaveLength(200);
  });

  test('rejects options that are missing, empty, too many, equal, blank or on another field type', async () => {
    const tenant = await newTenant();
    const options = (list: object[] | undefined, type = 'select') =>
      refuse(tenant.key, { ...color, type, options: list });
    expect(await options(undefined)).toEqual([['options', 'REQUIRED']]);
    expect(await options([])).toEqual([['options', 'TOO_SHORT']]);
    expect(await options(Array.from({ length: 201 }, (_, index) => ({ label: `Option ${index}` })))).toEqual([
      ['options', 'TOO_LONG'],
    ]);
    expect(await options([{ label: 'Dark blue' }, { label: 'Navy', value: 'DARK_BLUE' }])).toEqual([
      ['options[1].value', 'DUPLICATE'],
    ]);
    expect(await options([{ label: '<i>' }, { label: 'x', value: ' x' }])).toEqual([
      ['options[1].value', 'INVALID_FORMAT'],
    ]);
    expect(await options([{ label: '<i>' }])).toEqual([['options[0].label', 'TOO_SHORT']]);
    expect(await options([{ label: 'Red', color: 'red' } as object])).toEqual([['options[0].color', 'UNKNOWN_FIELD']]);
    expect(await options([{ label: 'Red' }], 'text')).toEqual([['options', 'CONFLICTING_FIELDS']]);
  });

  test('reports all problems of a new field with 422', async () => {
    const tenant = await newTenant();
    expect(await refuse(tenant.key, { type: 'json', required: 'yes', id: 1 })).toEqual(
      expect.arrayContaining([
        ['name', 'REQUIRED'],
        ['label', 'REQUIRED'],
        ['type', 'INVALID_OPTION'],
        ['required', 'INVALID_TYPE'],
        ['id', 'UNKNOWN_FIELD'],
      ]),
    );
    expect(await refuse(tenant.key, { name: 'id', label: '<b>', type: 'select' })).toEqual([
      ['name', 'RESERVED_NAME'],
      ['label', 'TOO_SHORT'],
      ['options', 'REQUIRED'],
    ]);
    await expectStatus(400, 'POST', buildFieldsPath('leads'), { key: tenant.key, rawBody: '{' });
  });

  test('rejects lone surrogates anywhere in the body of a field', async () => {
    const tenant = await newTenant();
    const body = { ...color, label: 'a\ud800', options: [{ label: 'b', value: 'c\udc00' }] };
    expect(await refuse(tenant.key, body)).toEqual([
      ['label', 'INVALID_FORMAT'],
      ['options[0].value', 'INVALID_FORMAT'],
    ]);
  });

  test('never has more than 100 fields on an object under concurrent creation, built-in and retired ones included', async () => {
    const tenant = await newTenant();
    await newObject(tenant.key);
    const names = Array.from({ length: 95 }, (_, index) => `kept_${index}`);
    await database()`
      insert into custom_fields (company_id, object, name, label, type, enabled, created_at, updated_at)
      select ${tenant.companyId}, 'object:visits', name, name, 'text', name <> 'kept_7', now(), now() from unnest(${names}::text[]) as name`;
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        call('POST', buildFieldsPath('object:visits'), { key: tenant.key, body: { ...budget, name: `new_${index}` } }),
      ),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(4);
    const refused = answers.filter((answer) => answer.status === 409);
    expect(refused).toHaveLength(12);
    expect(refused[0]?.body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'field_limit_reached', limit: 100 },
    });
  });

  test('accepts 99 fields with a new object, and rejects the next one', async () => {
    const tenant = await newTenant();
    const fields = Array.from({ length: 99 }, (_, index) => ({ ...budget, name: `field_${index}` }));
    const visits = { slug: 'visits', label: 'Visit', plural: 'Visits', fields };
    const { body } = await expectStatus(201, 'POST', '/v1/objects', { key: tenant.key, body: visits });
    expect(body.data.object.fields.map((field: Json) => field.name)).toEqual([
      'name',
      ...fields.map((field) => field.name),
    ]);
    await expectStatus(409, 'POST', buildFieldsPath('object:visits'), { key: tenant.key, body: budget });
    const more = { ...visits, slug: 'more', fields: [...fields, budget] };
    const refused = await expectStatus(422, 'POST', '/v1/objects', { key: tenant.key, body: more });
    expect(problems(refused.body)).toEqual([['fields', 'TOO_LONG']]);
  });

  test('returns 404 for fields of an object that is unknown or belongs to another workspace', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    await newObject(other.key);
    for (const object of ['object:visits', 'object:never-was', 'contacts', 'reports']) {
      const { body } = await expectStatus(404, 'POST', buildFieldsPath(object), { key: tenant.key, body: budget });
      expect(body.error).toEqual({ code: 'NOT_FOUND', message: 'There is no such resource.' });
    }
  });

  test('requires settings:configure and a live key to add a field, and no scope of the object', async () => {
    const tenant = await newTenant();
    const send = (status: number, key: string | undefined) =>
      expectStatus(status, 'POST', buildFieldsPath('leads'), { key, body: budget });
    await send(401, undefined);
    const refused = await send(403, await newKey(tenant, { scopes: ['leads:*', 'settings:view'] }));
    expect(refused.body.error.details.required_scopes).toEqual(['settings:configure']);
    expect((await send(403, tenant.testKey)).body.error).toMatchObject({
      code: 'FORBIDDEN_SCOPE',
      details: { reason: 'live_key_required' },
    });
    await send(201, await newKey(tenant, { scopes: ['settings:configure'] }));
  });
});

describe('PATCH /v1/objects/{object}/fields/{field}', () => {
  test('changes only the sent properties of a field', async () => {
    const tenant = await newTenant();
    await add(tenant.key, { ...color, required: true });
    expect(await change(tenant.key, 'color', { label: '<b>Colour</b>' })).toMatchObject({
      label: 'Colour',
      required: true,
      enabled: true,
      options: [{ value: 'red' }, { value: 'dark_blue' }],
    });
    expect(await change(tenant.key, 'color', { required: false })).toMatchObject({ label: 'Colour', required: false });
    expect(await published(tenant.key, 'color')).toMatchObject({ label: 'Colour', required: false });
    const rows = await database()`
      select action, object, record_id, changes from audit_logs where company_id = ${tenant.companyId} order by seq`;
    expect(rows).toEqual([
      { action: 'field.create', object: 'leads', record_id: 'color', changes: null },
      {
        action: 'field.update',
        object: 'leads',
        record_id: 'color',
        changes: { label: { from: 'Color', to: 'Colour' } },
      },
      {
        action: 'field.update',
        object: 'leads',
        record_id: 'color',
        changes: { required: { from: true, to: false } },
      },
    ]);
  });

  test.each([{ name: 'budget' }, { type: 'currency' }, { name: 'cost' }, { type: 'text', label: 'Cost' }])(
    'rejects the change %j, because name and type are immutable',
    async (body) => {
      const tenant = await newTenant();
      await add(tenant.key, budget);
      const immutable = [[Object.keys(body)[0], 'IMMUTABLE']];
      expect(await refuseChange(tenant.key, 'budget', body)).toEqual(immutable);
      expect(await refuseChange(tenant.key, 'first_name', body)).toEqual(immutable);
      expect(await published(tenant.key, 'budget')).toMatchObject({ label: 'Budget', type: 'currency' });
    },
  );

  test('retires a custom field, and restores it unchanged', async () => {
    const tenant = await newTenant();
    await add(tenant.key, color);
    expect(await change(tenant.key, 'color', { enabled: false })).toMatchObject({ name: 'color', enabled: false });
    expect(await published(tenant.key, 'color')).toBeUndefined();
    expect(await change(tenant.key, 'color', { label: 'Paint' })).toMatchObject({ label: 'Paint', enabled: false });
    expect(await change(tenant.key, 'color', { enabled: true })).toMatchObject({ enabled: true });
    expect(await published(tenant.key, 'color')).toMatchObject({ label: 'Paint', options: [{}, {}] });
  });

  test('keeps removed options for the records that have them, and restores them', async () => {
    const tenant = await newTenant();
    await add(tenant.key, color);
    const stored = async () => {
      const [row] = await database()`
        select options from custom_fields where company_id = ${tenant.companyId} and name = 'color'`;
      return row?.options;
    };
    const replaced = await change(tenant.key, 'color', {
      options: [{ label: 'Green' }, { label: 'Rot', value: 'red' }],
    });
    const shown = [
      { label: 'Green', value: 'green' },
      { label: 'Rot', value: 'red' },
    ];
    expect(replaced.options).toEqual(shown);
    expect((await published(tenant.key, 'color')).options).toEqual(shown);
    expect(await stored()).toEqual([...shown, { label: 'Dark blue', value: 'dark_blue', retired: true }]);
    await change(tenant.key, 'color', { options: [{ label: 'Dark blue' }] });
    expect((await published(tenant.key, 'color')).options).toEqual([{ label: 'Dark blue', value: 'dark_blue' }]);
    expect(await stored()).toEqual([
      { label: 'Dark blue', value: 'dark_blue' },
      { label: 'Green', value: 'green', retired: true },
      { label: 'Rot', value: 'red', retired: true },
    ]);
    const many = (prefix: string) => Array.from({ length: 200 }, (_, index) => ({ label: `${prefix} ${index}` }));
    for (const prefix of ['a', 'b', 'c', 'd']) await change(tenant.key, 'color', { options: many(prefix) });
    expect(await refuseChange(tenant.key, 'color', { options: many('e') })).toEqual([['options', 'TOO_LONG']]);
  });

  test('rejects options of fields that are not custom selects', async () => {
    const tenant = await newTenant();
    await add(tenant.key, budget);
    await add(tenant.key, color);
    const options = [{ label: 'Red' }];
    expect(await refuseChange(tenant.key, 'budget', { options })).toEqual([['options', 'CONFLICTING_FIELDS']]);
    expect(await refuseChange(tenant.key, 'city', { options })).toEqual([['options', 'CONFLICTING_FIELDS']]);
    expect(await refuseChange(tenant.key, 'source', { options })).toEqual([['options', 'RULE_FAILED']]);
    expect(await refuseChange(tenant.key, 'status', { options }, 'tasks')).toEqual([['options', 'RULE_FAILED']]);
    expect(await refuseChange(tenant.key, 'color', { options: [...options, { label: 'RED' }] })).toEqual([
      ['options[1].value', 'DUPLICATE'],
    ]);
  });

  test('disables, enables, renames and requires a built-in field for one workspace only', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    expect(await change(tenant.key, 'company_name', { label: 'Firm', required: true })).toEqual({
      name: 'company_name',
      label: 'Firm',
      type: 'text',
      required: true,
      custom: false,
      unique: false,
      enabled: true,
    });
    expect(await change(tenant.key, 'company_name', { enabled: false })).toMatchObject({ enabled: false });
    expect(await published(tenant.key, 'company_name')).toBeUndefined();
    expect(await published(other.key, 'company_name')).toMatchObject({ label: 'Company', required: false });
    await change(tenant.key, 'company_name', { enabled: true });
    expect(await published(tenant.key, 'company_name')).toMatchObject({ label: 'Firm', required: true });
    expect(await change(tenant.key, 'first_name', { required: false }, 'customers')).toMatchObject({ required: false });
    expect(await change(tenant.key, 'converted_at', { label: 'Won on' })).toMatchObject({
      label: 'Won on',
      read_only: true,
    });
  });

  test.each([
    ['leads', 'first_name'],
    ['deals', 'name'],
    ['accounts', 'name'],
    ['tasks', 'title'],
    ['tasks', 'scheduled_at'],
    ['activities', 'activity_type'],
    ['activities', 'entity_type'],
    ['activities', 'entity_id'],
  ])('keeps a field of %s required and enabled: %s', async (object, name) => {
    const tenant = await newTenant();
    expect(await refuseChange(tenant.key, name, { enabled: false, required: false }, object)).toEqual([
      ['required', 'RULE_FAILED'],
      ['enabled', 'RULE_FAILED'],
    ]);
    expect(await change(tenant.key, name, { enabled: true, required: true, label: 'Mine' }, object)).toMatchObject({
      label: 'Mine',
      required: true,
      enabled: true,
    });
  });

  test('keeps email or mobile on leads when both are disabled concurrently', async () => {
    const tenant = await newTenant();
    const off = (name: string) =>
      call('PATCH', `${buildFieldsPath('leads')}/${name}`, { key: tenant.key, body: { enabled: false } });
    const answers = await Promise.all([off('email'), off('mobile')]);
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 422]);
    const refused = answers.find((answer) => answer.status === 422);
    expect(problems(refused?.body)).toEqual([['enabled', 'RULE_FAILED']]);
  });

  test('rejects making a read-only field required', async () => {
    const tenant = await newTenant();
    expect(await refuseChange(tenant.key, 'converted_at', { required: true })).toEqual([['required', 'RULE_FAILED']]);
    expect(await change(tenant.key, 'converted_at', { required: false })).toMatchObject({ required: false });
  });

  test('rejects disabling fields of custom objects, and accepts their other changes', async () => {
    const tenant = await newTenant();
    await newObject(tenant.key);
    await add(tenant.key, color, 'object:visits');
    for (const name of ['color', 'name']) {
      expect(await refuseChange(tenant.key, name, { enabled: false }, 'object:visits')).toEqual([
        ['enabled', 'RULE_FAILED'],
      ]);
    }
    expect(await refuseChange(tenant.key, 'name', { required: false }, 'object:visits')).toEqual([
      ['required', 'RULE_FAILED'],
    ]);
    const changed = await change(tenant.key, 'color', { enabled: true, label: 'Paint' }, 'object:visits');
    expect(changed).toMatchObject({ label: 'Paint', enabled: true });
    expect(await change(tenant.key, 'name', { label: 'Title' }, 'object:visits')).toMatchObject({ label: 'Title' });
    expect(await published(tenant.key, 'name', 'object:visits')).toMatchObject({ label: 'Title', required: true });
  });

  test('rejects an empty change, unknown fields, wrong types and a label without text', async () => {
    const tenant = await newTenant();
    await add(tenant.key, budget);
    expect(await refuseChange(tenant.key, 'budget', {})).toEqual([['', 'REQUIRED']]);
    expect(await refuseChange(tenant.key, 'budget', { custom: false })).toEqual([['custom', 'UNKNOWN_FIELD']]);
    expect(await refuseChange(tenant.key, 'budget', { enabled: null, label: 7 })).toEqual([
      ['label', 'INVALID_TYPE'],
      ['enabled', 'INVALID_TYPE'],
    ]);
    expect(await refuseChange(tenant.key, 'budget', { label: '<b><i>' })).toEqual([['label', 'TOO_SHORT']]);
    await expectStatus(400, 'PATCH', `${buildFieldsPath('leads')}/budget`, { key: tenant.key, rawBody: 'x' });
  });

  test('returns 404 for a field that is unknown, common to all objects, malformed or of another workspace', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    await add(other.key, budget);
    await newObject(other.key);
    for (const path of [
      'leads/fields/budget',
      'leads/fields/created_at',
      'leads/fields/First%20name',
      'leads/fields/constructor',
      'deals/fields/first_name',
      'object%3Avisits/fields/name',
      'contacts/fields/name',
    ]) {
      const { body } = await expectStatus(404, 'PATCH', `/v1/objects/${path}`, {
        key: tenant.key,
        body: { label: 'Mine' },
      });
      expect(body.error, path).toEqual({ code: 'NOT_FOUND', message: 'There is no such resource.' });
    }
    expect(await published(other.key, 'budget')).toMatchObject({ label: 'Budget' });
  });

  test('requires settings:configure and a live key to change a field', async () => {
    const tenant = await newTenant();
    const send = (status: number, key: string | undefined) =>
      expectStatus(status, 'PATCH', `${buildFieldsPath('leads')}/city`, { key, body: { enabled: false } });
    await send(401, undefined);
    await send(403, await newKey(tenant, { scopes: ['leads:*'] }));
    expect((await send(403, tenant.testKey)).body.error.details.reason).toBe('live_key_required');
    expect(await published(tenant.key, 'city')).toBeDefined();
  });

  test('loses no concurrent change of one field', async () => {
    const tenant = await newTenant();
    await add(tenant.key, color);
    const changes = [{ label: 'Paint' }, { required: true }, { options: [{ label: 'Green' }] }, { enabled: true }];
    await Promise.all(changes.map((body) => change(tenant.key, 'color', body)));
    expect(await published(tenant.key, 'color')).toMatchObject({
      label: 'Paint',
      required: true,
      options: [{ label: 'Green', value: 'green' }],
    });
  });
});
