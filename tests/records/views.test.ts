// Saved views: what they keep, who sees and changes them, and lists that apply them.
import { describe, expect, test } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import { createRecords, listProblems, newCustomField, newCustomObject, recordsPath, walk } from '../support/records.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, newUser } from '../support/tenants.ts';

const path = '/v1/views';
const inBerlin = { field: 'city', op: 'eq', value: 'Berlin' };
const isLarge = { field: 'employee_count', op: 'gte', value: 50 };

async function save(by: CallOptions, body: object = {}): Promise<Json> {
  const { data } = (
    await expectStatus(201, 'POST', path, { ...by, body: { object: 'accounts', name: 'Accounts', ...body } })
  ).body;
  return data.view;
}

async function names(by: CallOptions, query: Record<string, string> = {}): Promise<string[]> {
  const { data } = (await expectStatus(200, 'GET', path, { ...by, query })).body;
  return data.views.map((view: Json) => view.name);
}

async function list(key: string, query: Record<string, string | number>): Promise<Json> {
  return (await expectStatus(200, 'GET', recordsPath('accounts'), { key, query })).body.data;
}

const accounts = (key: string) =>
  createRecords(key, 'accounts', [
    { name: 'Ahorn', city: 'Berlin', employee_count: 20 },
    { name: 'Birke', city: 'Berlin', employee_count: 50 },
    { name: 'Chili', city: 'Berlin', employee_count: 90 },
    { name: 'Dill', city: 'Bonn', employee_count: 200 },
  ]);

const namesIn = (data: Json): string[] => data.records.map((record: Json) => record.name);

describe('a saved view', () => {
  test('returns what was saved, changes only what is sent, and is deleted', async () => {
    const { key } = await newTenant();
    const body = { filter: { and: [inBerlin, isLarge] }, sort: '-employee_count,name', fields: ['name', 'city'] };
    const view = await save({ key }, { name: '  Large  ', ...body });
    expect(view).toMatchObject({ object: 'accounts', name: 'Large', ...body, is_shared: false, problems: [] });
    expect(view.created_by).toMatchObject({ kind: 'api_key' });
    const at = `${path}/${view.id}`;
    expect((await expectStatus(200, 'GET', at, { key })).body.data.view).toEqual(view);
    const changed = (await expectStatus(200, 'PATCH', at, { key, body: { sort: null, is_shared: true } })).body.data
      .view;
    expect(changed).toMatchObject({ ...body, sort: null, is_shared: true, created_at: view.created_at });
    expect((await expectStatus(200, 'GET', at, { key })).body.data.view).toEqual(changed);
    const same = (await expectStatus(200, 'PATCH', at, { key, body: { name: 'Large' } })).body.data.view;
    expect(same).toEqual(changed);
    expect((await expectStatus(200, 'DELETE', at, { key })).body.data).toEqual({ id: view.id, deleted: true });
    for (const method of ['GET', 'DELETE']) await expectStatus(404, method, at, { key });
  });

  test('has only an object and a name if nothing else is sent', async () => {
    const { key } = await newTenant();
    expect(await save({ key })).toMatchObject({ filter: null, sort: null, fields: null, is_shared: false });
  });

  test('appears in pages, newest first, of one object or all', async () => {
    const { key } = await newTenant();
    for (const name of ['a', 'b', 'c']) await save({ key }, { name });
    await save({ key }, { name: 'd', object: 'leads' });
    expect(await names({ key })).toEqual(['d', 'c', 'b', 'a']);
    expect(await names({ key }, { object: 'accounts' })).toEqual(['c', 'b', 'a']);
    expect(await names({ key }, { object: 'nothing' })).toEqual([]);
    const first = (await expectStatus(200, 'GET', path, { key, query: { limit: 3 } })).body.data;
    expect(first.has_more).toBe(true);
    expect(await names({ key }, { limit: '3', cursor: first.next_cursor })).toEqual(['a']);
  });

  test('notes its changes in the audit log', async () => {
    const { key, companyId } = await newTenant();
    const view = await save({ key });
    await expectStatus(200, 'PATCH', `${path}/${view.id}`, { key, body: { name: 'Others' } });
    await expectStatus(200, 'DELETE', `${path}/${view.id}`, { key });
    const rows = await database()`
      select action, changes -> 'name' as name from audit_logs where company_id = ${companyId} and record_id = ${view.id} order by id`;
    expect(rows).toEqual([
      { action: 'settings.view.create', name: { from: null, to: 'Accounts' } },
      { action: 'settings.view.update', name: { from: 'Accounts', to: 'Others' } },
      { action: 'settings.view.delete', name: { from: 'Others', to: null } },
    ]);
  });
});

describe('the checks of a view', () => {
  test.each([
    ['an unknown object', { object: 'nothing' }, 422, ['object INVALID_OPTION']],
    ['a name of spaces', { name: '  ' }, 400, ['name INVALID_FORMAT']],
    [
      'an unknown field in the filter',
      { filter: { field: 'colour', op: 'eq', value: 'x' } },
      400,
      ['colour UNKNOWN_FIELD'],
    ],
    ['a value of another type', { filter: { ...isLarge, value: 'many' } }, 400, ['employee_count INVALID_TYPE']],
    ['a filter that is a text', { filter: '{}' }, 422, ['filter INVALID_TYPE']],
    ['an unknown field in the order', { sort: '-colour' }, 422, ['colour UNKNOWN_FIELD']],
    ['a field twice in the order', { sort: 'name,-name' }, 400, ['name DUPLICATE']],
    ['an unknown field to return', { fields: ['name', 'colour'] }, 422, ['colour UNKNOWN_FIELD']],
    ['a read-only property', { created_by: 'me' }, 422, ['created_by READ_ONLY']],
    ['an unknown property', { columns: ['name'] }, 422, ['columns UNKNOWN_FIELD']],
    [
      'several mistakes',
      { sort: 'colour', fields: ['shape'], filter: { field: 'size', op: 'is_null' } },
      422,
      ['colour UNKNOWN_FIELD', 'shape UNKNOWN_FIELD', 'size UNKNOWN_FIELD'],
    ],
  ] as const)('reject %s, when it is created and when it is changed', async (what, body, status, problems) => {
    const { key } = await newTenant();
    const created = await expectStatus(status, 'POST', path, { key, body: { object: 'accounts', name: 'A', ...body } });
    expect(listProblems(created.body.error)).toEqual(problems);
    if (what === 'an unknown object') return;
    const view = await save({ key });
    const changed = await expectStatus(status, 'PATCH', `${path}/${view.id}`, { key, body });
    expect(listProblems(changed.body.error)).toEqual(problems);
  });

  test('keep the object of a view, and require a change', async () => {
    const { key } = await newTenant();
    const at = `${path}/${(await save({ key })).id}`;
    const { error } = (await expectStatus(422, 'PATCH', at, { key, body: { object: 'leads' } })).body;
    expect(listProblems(error)).toEqual(['object READ_ONLY']);
    await expectStatus(400, 'PATCH', at, { key, body: {} });
  });

  test('keep names unique for an object and an owner, ignoring case', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const first = await save({ key }, { name: 'Straße', is_shared: true });
    const { error } = (await expectStatus(409, 'POST', path, { key, body: { object: 'accounts', name: 'STRASSE' } }))
      .body;
    expect(error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { existing_id: first.id, matched_fields: ['name'] },
    });
    await save({ key }, { name: 'Straße', object: 'leads' });
    await save({ key: await newKey(tenant) }, { name: 'Straße' });
    const second = await save({ key }, { name: 'Other' });
    await expectStatus(409, 'PATCH', `${path}/${second.id}`, { key, body: { name: 'strasse' } });
    await expectStatus(200, 'PATCH', `${path}/${first.id}`, { key, body: { name: 'STRASSE' } });
  });

  test('let one of several simultaneous calls take a name', async () => {
    const { key } = await newTenant();
    const answers = await Promise.all(
      ['Same', 'SAME', 'same', 'sAmE'].map((name) => call('POST', path, { key, body: { object: 'accounts', name } })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409]);
  });

  test('limit the shared views of a workspace, and the others of each owner', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const fill = async (view: Json, count: number) =>
      database()`
        insert into saved_views (company_id, id, object, name, is_shared, created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
        select company_id, gen_random_uuid(), object, name || n, is_shared, created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at
        from saved_views, generate_series(1, ${count}::int) n where company_id = ${tenant.companyId} and id = ${view.id}`;
    const own = await save({ key }, { name: 'Own ' });
    await fill(own, 199);
    const refused = await expectStatus(409, 'POST', path, { key, body: { object: 'accounts', name: 'More' } });
    expect(refused.body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'view_limit', limit: 200 } });
    await save({ key: await newKey(tenant) }, { name: 'More' });
    const shared = await save({ key }, { name: 'Shared ', is_shared: true });
    await fill(shared, 199);
    await expectStatus(409, 'PATCH', `${path}/${own.id}`, { key, body: { is_shared: true } });
    await expectStatus(409, 'PATCH', `${path}/${shared.id}`, { key, body: { is_shared: false } });
    await expectStatus(200, 'PATCH', `${path}/${own.id}`, { key, body: { name: 'Renamed' } });
  });
});

describe('the owner of a view', () => {
  test('shares it with everyone who can view the object, and nobody else sees the others', async () => {
    const tenant = await newTenant();
    const other = await newKey(tenant, { scopes: ['accounts:view'] });
    const own = await save({ key: tenant.key }, { name: 'own' });
    const shared = await save({ key: tenant.key }, { name: 'shared', is_shared: true });
    expect(await names({ key: tenant.key })).toEqual(['shared', 'own']);
    expect(await names({ key: other })).toEqual(['shared']);
    expect(await names({ key: tenant.testKey })).toEqual(['shared']);
    expect(await names({ key: await newKey(tenant, { scopes: ['leads:view'] }) })).toEqual([]);
    for (const [key, status] of [
      [other, 404],
      [tenant.key, 200],
      [(await newTenant()).key, 404],
    ] as const) {
      await expectStatus(status, 'GET', `${path}/${own.id}`, { key });
      await expectStatus(status, 'GET', recordsPath('accounts'), { key, query: { view: own.id } });
    }
    await expectStatus(200, 'GET', recordsPath('accounts'), { key: other, query: { view: shared.id } });
    await expectStatus(404, 'GET', recordsPath('accounts'), {
      key: (await newTenant()).key,
      query: { view: shared.id },
    });
  });

  test('is the user for whom apps and sessions act', async () => {
    const tenant = await newTenant();
    const user = await newUser(tenant, { role: 'Sales_Rep' });
    const [first, second] = await Promise.all(
      [1, 2].map(() => newBearer(tenant, ['accounts:view'], { userId: user.id, groups: ['pipeline'] })),
    );
    const view = await save({ token: first as string }, { name: 'mine' });
    expect(view.created_by.kind).toBe('oauth_client');
    expect(await names({ token: second as string })).toEqual(['mine']);
    await expectStatus(200, 'PATCH', `${path}/${view.id}`, { token: second as string, body: { name: 'still mine' } });
    const stranger = await newBearer(tenant, ['accounts:view'], { groups: ['pipeline'] });
    expect(await names({ token: stranger })).toEqual([]);
  });

  test('alone changes it, besides callers that configure settings', async () => {
    const tenant = await newTenant();
    const reader = await newKey(tenant, { scopes: ['accounts:view'] });
    const configurer = await newKey(tenant, { scopes: ['accounts:view', 'settings:configure'] });
    const view = await save({ key: reader }, { is_shared: true });
    const at = `${path}/${view.id}`;
    const other = await newKey(tenant, { scopes: ['accounts:view'] });
    for (const [method, body] of [['PATCH', { name: 'B' }], ['DELETE']] as const) {
      const { error } = (await expectStatus(403, method, at, { key: other, ...(body ? { body } : {}) })).body;
      expect(error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['settings:configure'] } });
    }
    const changed = (await expectStatus(200, 'PATCH', at, { key: configurer, body: { name: 'C' } })).body.data.view;
    expect(changed).toMatchObject({ name: 'C', created_by: view.created_by });
    await expectStatus(409, 'POST', path, { key: reader, body: { object: 'accounts', name: 'c' } });
    await expectStatus(200, 'DELETE', at, { key: configurer });
  });

  test('does not learn from a rename that someone else has a view with the name', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await save({ key }, { name: 'Private' });
    const shared = await save({ key }, { name: 'Shared', is_shared: true });
    const body = { name: 'Private' };
    const { error } = (await expectStatus(409, 'PATCH', `${path}/${shared.id}`, { key: await newKey(tenant), body }))
      .body;
    expect(error.details.existing_id).toBeNull();
  });

  test('needs the view scope of the object and a live key', async () => {
    const tenant = await newTenant();
    const body = { object: 'accounts', name: 'A' };
    const { error } = (
      await expectStatus(403, 'POST', path, { key: await newKey(tenant, { scopes: ['leads:view'] }), body })
    ).body;
    expect(error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['accounts:view'] } });
    await expectStatus(403, 'POST', path, { key: tenant.testKey, body });
    const view = await save({ key: tenant.key }, { is_shared: true });
    await expectStatus(403, 'PATCH', `${path}/${view.id}`, { key: tenant.testKey, body: { name: 'B' } });
    await expectStatus(403, 'DELETE', `${path}/${view.id}`, { key: tenant.testKey });
  });
});

describe('a list with a view', () => {
  test('has the filter, the order and the fields of the view, on every page', async () => {
    const { key } = await newTenant();
    await accounts(key);
    const view = await save({ key }, { filter: inBerlin, sort: '-employee_count', fields: ['name'] });
    const data = await list(key, { view: view.id, count: 'true' });
    expect(namesIn(data)).toEqual(['Chili', 'Birke', 'Ahorn']);
    expect(data.total).toBe(3);
    expect(Object.keys(data.records[0]).toSorted()).toEqual(['created_at', 'id', 'name', 'updated_at']);
    const paged = await walk(key, 'accounts', { view: view.id, limit: 1 });
    expect(paged.map(({ name }: Json) => name)).toEqual(['Chili', 'Birke', 'Ahorn']);
  });

  test('narrows the view by its own filter, and replaces order and fields', async () => {
    const { key } = await newTenant();
    await accounts(key);
    const view = await save({ key }, { filter: inBerlin, sort: '-employee_count', fields: ['name'] });
    const filter = JSON.stringify(isLarge);
    expect(namesIn(await list(key, { view: view.id, filter }))).toEqual(['Chili', 'Birke']);
    expect(namesIn(await list(key, { view: view.id, filter, sort: 'name' }))).toEqual(['Birke', 'Chili']);
    const [record] = (await list(key, { view: view.id, fields: 'city' })).records;
    expect(record).toMatchObject({ city: 'Berlin' });
    expect(record).not.toHaveProperty('name');
    const unfiltered = await save({ key }, { name: 'All', sort: 'name' });
    expect(namesIn(await list(key, { view: unfiltered.id, filter }))).toEqual(['Birke', 'Chili', 'Dill']);
  });

  test('keeps relative dates relative', async () => {
    const tenant = await newTenant();
    const { key, companyId } = tenant;
    await accounts(key);
    const filter = { field: 'created_at', op: 'gte', value: { relative: 'last_7_days' } };
    const view = await save({ key }, { filter });
    expect(view.filter).toEqual(filter);
    await database()`update accounts set created_at = now() - interval '30 days' where company_id = ${companyId} and name <> 'Dill'`;
    expect(namesIn(await list(key, { view: view.id }))).toEqual(['Dill']);
  });

  test('accepts the deepest filter that a list accepts', async () => {
    const { key } = await newTenant();
    await accounts(key);
    const isNew = { field: 'created_at', op: 'gte', value: { relative: 'last_7_days' } };
    const own = { and: [inBerlin, { or: [isLarge, { not: isNew }] }] };
    const related = { and: [isLarge, { not: { link: 'deals', any: { not: isNew } } }, inBerlin] };
    for (const [index, filter] of [own, related].entries()) {
      const body = { name: `Deep ${index}`, filter };
      const view = await save({ key }, { ...body, name: 'Before it is changed', filter: inBerlin });
      const changed = await expectStatus(200, 'PATCH', `${path}/${view.id}`, { key, body });
      expect(changed.body.data.view.filter).toEqual(filter);
      expect(await save({ key }, { ...body, name: `${body.name} again` })).toMatchObject({ filter, problems: [] });
      const found = namesIn(await list(key, { view: view.id }));
      expect(found).toEqual(['Chili', 'Birke']);
      expect(found).toEqual(namesIn(await list(key, { filter: JSON.stringify(filter) })));
    }
    const deeper = { and: [{ or: [{ not: { or: [inBerlin] } }] }] };
    const refused = await expectStatus(400, 'POST', path, {
      key,
      body: { object: 'accounts', name: 'Deeper', filter: deeper },
    });
    expect(listProblems(refused.body.error)).toEqual(['filter INVALID_FORMAT']);
  });

  test('counts the levels and conditions of both filters together', async () => {
    const { key } = await newTenant();
    await accounts(key);
    const either = { or: [inBerlin, { not: { or: [isLarge] } }] };
    const view = await save({ key }, { filter: { and: [{ or: [inBerlin, { not: isLarge }] }] } });
    const wrapped = JSON.stringify({ and: [{ or: [isLarge, { not: inBerlin }] }] });
    // An `and` at the top of either counts once, so three levels stay three.
    expect(namesIn(await list(key, { view: view.id, filter: wrapped }))).toEqual(['Chili', 'Birke']);
    const deep = JSON.stringify(either);
    await list(key, { filter: deep });
    const refused = async (id: string, filter: string) =>
      listProblems(
        (await expectStatus(400, 'GET', recordsPath('accounts'), { key, query: { view: id, filter } })).body.error,
      );
    expect(await refused(view.id, deep)).toEqual(['filter INVALID_FORMAT']);
    const many = (count: number) => ({ and: Array.from({ length: count }, () => inBerlin) });
    const wide = await save({ key }, { name: 'Wide', filter: many(30) });
    await list(key, { view: wide.id, filter: JSON.stringify(many(20)) });
    expect(await refused(wide.id, JSON.stringify(many(21)))).toEqual(['filter TOO_LONG']);
  });

  test('reports every mistake of its parameters, and a view of another object', async () => {
    const { key } = await newTenant();
    const view = await save({ key }, { object: 'leads', filter: { field: 'city', op: 'eq', value: 'Berlin' } });
    const query = { view: view.id, sort: 'colour', filter: '{' };
    const { error } = (await expectStatus(400, 'GET', recordsPath('accounts'), { key, query })).body;
    expect(listProblems(error)).toEqual(['colour UNKNOWN_FIELD', 'filter INVALID_FORMAT', 'view CONFLICTING_FIELDS']);
    const malformed = await expectStatus(400, 'GET', recordsPath('accounts'), { key, query: { view: 'mine' } });
    expect(listProblems(malformed.body.error)).toEqual(['view INVALID_FORMAT']);
  });

  test('continues a page only while the view has the same filter and order', async () => {
    const { key } = await newTenant();
    await accounts(key);
    const view = await save({ key }, { filter: inBerlin, sort: 'name' });
    const first = await list(key, { view: view.id, limit: 1 });
    const next = { view: view.id, limit: 1, cursor: first.next_cursor };
    const change = (body: object) => expectStatus(200, 'PATCH', `${path}/${view.id}`, { key, body });
    await change({ name: 'Renamed', fields: ['name'] });
    expect(namesIn(await list(key, next))).toEqual(['Birke']);
    await change({ filter: isLarge });
    const { error } = (await expectStatus(400, 'GET', recordsPath('accounts'), { key, query: next })).body;
    expect(listProblems(error)).toEqual(['cursor INVALID_FORMAT']);
    await change({ filter: inBerlin });
    expect(namesIn(await list(key, next))).toEqual(['Birke']);
  });

  test('says what to fix in a view that no longer fits, and works again afterwards', async () => {
    const tenant = await newTenant();
    const { key, companyId } = tenant;
    await newCustomField(tenant, 'accounts', 'tier');
    await accounts(key);
    const filter = { or: [{ field: 'tier', op: 'eq', value: 'gold' }, inBerlin] };
    const view = await save({ key }, { name: 'Gold', filter, sort: 'tier', fields: ['name', 'tier'] });
    const set = (enabled: boolean) =>
      database()`update custom_fields set enabled = ${enabled} where company_id = ${companyId} and name = 'tier'`;
    await set(false);
    const refused = async (query: object) =>
      (await expectStatus(422, 'GET', recordsPath('accounts'), { key, query: { view: view.id, ...query } })).body.error;
    const error = await refused({});
    expect(error).toMatchObject({ code: 'VALIDATION_ERROR', details: { reason: 'view_outdated', view_id: view.id } });
    expect(error.message).toContain('Gold');
    expect(listProblems(error)).toEqual(['tier UNKNOWN_FIELD', 'tier UNKNOWN_FIELD', 'tier UNKNOWN_FIELD']);
    expect(listProblems(await refused({ sort: 'name', fields: 'name' }))).toEqual(['tier UNKNOWN_FIELD']);
    const listed = (await expectStatus(200, 'GET', path, { key })).body.data.views;
    expect(listed[0].problems).toEqual(error.details.fields);
    await set(true);
    expect(namesIn(await list(key, { view: view.id }))).toHaveLength(3);
    await set(false);
    const body = { filter: inBerlin, sort: null, fields: null };
    const fixed = (await expectStatus(200, 'PATCH', `${path}/${view.id}`, { key, body })).body.data.view;
    expect(fixed.problems).toEqual([]);
    expect(namesIn(await list(key, { view: view.id }))).toHaveLength(3);
  });

  test('has views of custom objects while they are enabled, and views that go through a relation', async () => {
    const tenant = await newTenant();
    const { key, companyId } = tenant;
    const visits = await newCustomObject(tenant, 'visits');
    const view = await save({ key }, { object: visits, name: 'Visits', sort: 'name' });
    await createRecords(key, visits, [{ name: 'B' }, { name: 'A' }]);
    const data = (await expectStatus(200, 'GET', recordsPath(visits), { key, query: { view: view.id } })).body.data;
    expect(namesIn(data)).toEqual(['A', 'B']);
    await database()`update custom_objects set enabled = false where company_id = ${companyId}`;
    expect(await names({ key })).toEqual([]);
    await expectStatus(404, 'GET', `${path}/${view.id}`, { key });

    const [account] = await accounts(key);
    await createRecords(key, 'deals', [{ name: 'Won', account_id: account.id }, { name: 'Other' }]);
    const filter = { field: 'account.city', op: 'eq', value: 'Berlin' };
    const related = await save({ key }, { object: 'deals', name: 'Berlin', filter });
    const query = { view: related.id };
    expect(namesIn((await expectStatus(200, 'GET', recordsPath('deals'), { key, query })).body.data)).toEqual(['Won']);
    const blind = await newKey(tenant, { scopes: ['deals:view'] });
    await expectStatus(200, 'PATCH', `${path}/${related.id}`, { key, body: { is_shared: true } });
    const unseen = (await expectStatus(200, 'GET', recordsPath('deals'), { key: blind, query })).body.data;
    expect(namesIn(unseen)).toEqual([]);
  });

  test('names the status that was renamed since', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const status = await createSetting(tenant, '/v1/settings/statuses/leads', { name: 'Warm' });
    const filter = { field: 'lead_status', op: 'eq', value: 'warm' };
    const view = await save({ key }, { object: 'leads', filter });
    await expectStatus(200, 'GET', recordsPath('leads'), { key, query: { view: view.id } });
    await expectStatus(200, 'PATCH', `/v1/settings/statuses/leads/${status.id}`, { key, body: { name: 'Hot' } });
    const { error } = (await expectStatus(422, 'GET', recordsPath('leads'), { key, query: { view: view.id } })).body;
    expect(error.details.reason).toBe('view_outdated');
    expect(listProblems(error)).toEqual(['lead_status INVALID_OPTION']);
  });
});
