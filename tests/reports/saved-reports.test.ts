// Saved reports: their definitions, who sees and changes them, and their results.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import { createRecords, listProblems, newCustomField, newCustomObject } from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const path = '/v1/reports/saved';

/** Stores a report as another client of the database would. */
const store = async (tenant: Tenant, name: string, more: { user?: string; shared?: boolean; object?: string } = {}) => {
  const id = randomUUID();
  const config = { metric: 'count', group_by: 'stage', chart_type: 'bar' };
  await database()`
    insert into saved_reports (company_id, id, name, object, config, is_shared, created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
    values (${tenant.companyId}, ${id}, ${name}, ${more.object ?? 'deals'}, ${database().json(config)}, ${more.shared ?? false}, 'user', ${more.user ?? 'x'}, 'Uma', ${more.user ?? null}, now(), now())`;
  return id;
};

const names = async (options: CallOptions): Promise<string[]> =>
  (await expectStatus(200, 'GET', path, options)).body.data.reports.map((each: Json) => each.name);

async function save(by: CallOptions, body: object = {}): Promise<Json> {
  const report = { name: 'Deals by stage', object_id: 'deals', config: {}, ...body };
  return (await expectStatus(201, 'POST', path, { ...by, body: report })).body.data.report;
}

const readResults = async (key: string, { id }: Json): Promise<Json> =>
  (await expectStatus(200, 'GET', `${path}/${id}/results`, { key })).body.data;

const deals = (key: string, ...bodies: object[]) =>
  createRecords(
    key,
    'deals',
    bodies.map((body) => ({ name: 'Seats', ...body })),
  );

describe('the list of saved reports', () => {
  test('lists shared reports for a key, and also their own for a user', async () => {
    const tenant = await newTenant();
    const user = await newUser(tenant);
    await store(await newTenant(), 'foreign', { shared: true });
    await store(tenant, 'shared', { shared: true });
    await store(tenant, 'of another', { user: user.id });
    await store(tenant, 'of the admin', { user: tenant.admin.id });
    await store(tenant, 'of an object that is gone', { shared: true, object: 'object:gone' });
    expect(await names({ key: tenant.key })).toEqual(['shared']);
    expect(await names({ key: tenant.testKey })).toEqual(['shared']);
    const ofAdmin = await newBearer(tenant, ['reports:view']);
    expect((await names({ token: ofAdmin })).toSorted()).toEqual(['of the admin', 'shared']);
  });

  test('lists saved reports with their whole definition in pages', async () => {
    const tenant = await newTenant();
    for (const name of ['a', 'b', 'c']) await store(tenant, name, { shared: true });
    const first = (await expectStatus(200, 'GET', path, { key: tenant.key, query: { limit: 2 } })).body.data;
    expect(first.has_more).toBe(true);
    expect(first.reports[0]).toMatchObject({
      object_id: 'deals',
      config: { metric: 'count', field: null, group_by: 'stage', bucket: null, filter: null, chart_type: 'bar' },
      is_shared: true,
      created_by: { kind: 'user', id: 'x', name: 'Uma' },
    });
    const rest = await names({ key: tenant.key, query: { limit: 2, cursor: first.next_cursor } });
    expect([...first.reports.map((each: Json) => each.name), ...rest].toSorted()).toEqual(['a', 'b', 'c']);
  });
});

describe('a saved report', () => {
  test('returns what was saved, changes only what is sent, and is deleted', async () => {
    const { key } = await newTenant();
    const filter = { field: 'won_at', op: 'eq', value: { relative: 'this_month' } };
    const config = { metric: 'sum', field: 'amount_minor', group_by: 'stage', chart_type: 'bar', filter };
    const report = await save({ key }, { name: ' Won ', config });
    expect(report).toMatchObject({ name: 'Won', object_id: 'deals', is_shared: false });
    expect(report.config).toEqual({ ...config, bucket: null });
    expect(report.created_by).toMatchObject({ kind: 'api_key' });
    const at = `${path}/${report.id}`;
    expect((await expectStatus(200, 'GET', at, { key })).body.data.report).toEqual(report);
    const body = { name: 'Won this month', is_shared: true };
    const renamed = (await expectStatus(200, 'PATCH', at, { key, body })).body.data.report;
    expect(renamed).toMatchObject({ ...body, config: report.config, created_at: report.created_at });
    const replaced = (await expectStatus(200, 'PATCH', at, { key, body: { config: { group_by: 'stage' } } })).body.data;
    expect(replaced.report.config).toMatchObject({ metric: 'count', field: null, group_by: 'stage', filter: null });
    expect((await expectStatus(200, 'DELETE', at, { key })).body.data).toEqual({ id: report.id, deleted: true });
    for (const [method, of] of [
      ['GET', at],
      ['DELETE', at],
      ['GET', `${at}/results`],
    ] as const)
      await expectStatus(404, method, of, { key });
  });

  test('keeps everything that a report can have', async () => {
    const { key } = await newTenant();
    const more = { group_by: ['stage', 'won_at'], bucket: 'month', labels: true, date_field: 'won_at' };
    const { config } = await save({ key }, { config: { ...more, from: '2026-01-01', to: '2026-01-31' } });
    const times = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-31T23:59:59.999Z' };
    expect(config).toMatchObject({ ...more, ...times });
  });

  test('notes its changes in the audit log', async () => {
    const { key, companyId } = await newTenant();
    const report = await save({ key });
    await expectStatus(200, 'PATCH', `${path}/${report.id}`, { key, body: { name: 'Deals by stage' } });
    await expectStatus(200, 'PATCH', `${path}/${report.id}`, { key, body: { is_shared: true } });
    await expectStatus(200, 'DELETE', `${path}/${report.id}`, { key });
    const rows = await database()<{ action: string }[]>`
      select action from audit_logs where company_id = ${companyId} and record_id = ${report.id} order by id`;
    const actions = ['create', 'update', 'delete'].map((verb) => `settings.saved_report.${verb}`);
    expect(rows.map(({ action }) => action)).toEqual(actions);
  });
});

describe('the checks of a saved report', () => {
  test.each([
    ['an unknown metric', { config: { metric: 'median' } }, 400, ['config.metric INVALID_OPTION']],
    ['a metric without a field', { config: { metric: 'sum' } }, 400, ['config.field REQUIRED']],
    ['an unknown field', { config: { metric: 'sum', field: 'colour' } }, 422, ['config.field UNKNOWN_FIELD']],
    ['an unknown group', { config: { group_by: ['colour'] } }, 422, ['config.group_by[0] UNKNOWN_FIELD']],
    ['a bucket without a date', { config: { bucket: 'day' } }, 400, ['config.bucket CONFLICTING_FIELDS']],
    ['a window backwards', { config: { from: '2026-02-02', to: '2026-02-01' } }, 400, ['config.to OUT_OF_RANGE']],
    ['an unknown property', { config: { object: 'deals' } }, 422, ['config.object UNKNOWN_FIELD']],
    ['no definition', { config: null }, 422, ['config INVALID_TYPE']],
    ['an invalid filter', { config: { filter: { field: 'colour', op: 'is_null' } } }, 400, ['colour UNKNOWN_FIELD']],
    [
      'several mistakes',
      { name: '', config: { group_by: 'colour', filter: { field: 'shape', op: 'is_null' } } },
      422,
      ['config.group_by UNKNOWN_FIELD', 'shape UNKNOWN_FIELD', 'name TOO_SHORT'],
    ],
    ['a read-only property', { created_at: 'now' }, 422, ['created_at READ_ONLY']],
  ] as const)('reject %s, when it is created and when it is changed', async (_, body, status, problems) => {
    const { key } = await newTenant();
    const given = { name: 'A', object_id: 'deals', config: {}, ...body };
    expect(listProblems((await expectStatus(status, 'POST', path, { key, body: given })).body.error)).toEqual(problems);
    const { id } = await save({ key });
    const changed = await expectStatus(status, 'PATCH', `${path}/${id}`, { key, body });
    expect(listProblems(changed.body.error)).toEqual(problems);
  });

  test('reject an unknown object, and another object later', async () => {
    const { key } = await newTenant();
    const body = { name: 'A', object_id: 'deal', config: {} };
    const { error } = (await expectStatus(422, 'POST', path, { key, body })).body;
    expect(error.details.fields[0]).toMatchObject({
      field: 'object_id',
      code: 'INVALID_OPTION',
      did_you_mean: 'deals',
    });
    const { id } = await save({ key });
    const changed = await expectStatus(422, 'PATCH', `${path}/${id}`, { key, body: { object_id: 'leads' } });
    expect(listProblems(changed.body.error)).toEqual(['object_id READ_ONLY']);
  });

  test('keep names unique for an object and an owner, also across simultaneous calls', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const first = await save({ key }, { name: 'Umsätze' });
    const body = { name: 'UMSÄTZE', object_id: 'deals', config: {} };
    const { error } = (await expectStatus(409, 'POST', path, { key, body })).body;
    expect(error).toMatchObject({ code: 'ALREADY_EXISTS', details: { existing_id: first.id } });
    await save({ key }, { name: 'Umsätze', object_id: 'leads' });
    await save({ key: await newKey(tenant) }, { name: 'Umsätze' });
    const answers = await Promise.all(
      [1, 2, 3, 4].map(() => call('POST', path, { key, body: { ...body, name: 'Same' } })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409]);
  });

  test('limit the shared reports of a workspace, and the others of each owner', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const fill = (report: Json) => database()`
      insert into saved_reports (company_id, id, object, name, is_shared, created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at)
      select company_id, gen_random_uuid(), object, name || n, is_shared, created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at
      from saved_reports, generate_series(1, 199) n where company_id = ${tenant.companyId} and id = ${report.id}`;
    await fill(await save({ key }, { name: 'Own ' }));
    const body = { name: 'More', object_id: 'deals', config: {} };
    const { error } = (await expectStatus(409, 'POST', path, { key, body })).body;
    expect(error).toMatchObject({ code: 'CONFLICT', details: { reason: 'report_limit', limit: 200 } });
    const other = { key: await newKey(tenant) };
    await save(other, { name: 'More' });
    await fill(await save({ key }, { name: 'Shared ', is_shared: true }));
    await expectStatus(409, 'POST', path, { ...other, body: { ...body, name: 'Most', is_shared: true } });
  });
});

describe('the owner of a saved report', () => {
  test('alone changes it, besides callers that configure settings', async () => {
    const tenant = await newTenant();
    const scopes = ['reports:view', 'reports:create', 'reports:edit'];
    const [owner, other, configurer] = await Promise.all([
      newKey(tenant, { scopes }),
      newKey(tenant, { scopes }),
      newKey(tenant, { scopes: [...scopes, 'settings:configure'] }),
    ]);
    const hidden = await save({ key: owner }, { name: 'hidden' });
    const shared = await save({ key: owner }, { name: 'shared', is_shared: true });
    expect(await names({ key: owner })).toEqual(['shared', 'hidden']);
    expect(await names({ key: other })).toEqual(['shared']);
    for (const key of [other, configurer, (await newTenant()).key])
      for (const [method, of, body] of [
        ['GET', ''],
        ['GET', '/results'],
        ['PATCH', '', { name: 'B' }],
        ['DELETE', ''],
      ] as const)
        await expectStatus(404, method, `${path}/${hidden.id}${of}`, { key, ...(body ? { body } : {}) });
    const at = `${path}/${shared.id}`;
    await expectStatus(200, 'GET', at, { key: other });
    for (const [method, body] of [['PATCH', { name: 'B' }], ['DELETE']] as const) {
      const { error } = (await expectStatus(403, method, at, { key: other, ...(body ? { body } : {}) })).body;
      expect(error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['settings:configure'] } });
    }
    const changed = await expectStatus(200, 'PATCH', at, { key: configurer, body: { name: 'C' } });
    expect(changed.body.data.report.created_by).toEqual(shared.created_by);
    await expectStatus(200, 'DELETE', at, { key: configurer });
  });

  test('is the user for whom apps act', async () => {
    const tenant = await newTenant();
    const { id } = await newUser(tenant, { role: 'Sales_Rep' });
    const scopes = ['reports:view', 'reports:create', 'reports:edit'];
    const options = { userId: id, extraScopes: scopes };
    const [first, second] = await Promise.all([1, 2].map(() => newBearer(tenant, scopes, options)));
    const report = await save({ token: first as string }, { name: 'mine' });
    expect(await names({ token: second as string })).toEqual(['mine']);
    await expectStatus(200, 'PATCH', `${path}/${report.id}`, { token: second as string, body: { name: 'still mine' } });
    expect(await names({ key: tenant.key })).toEqual([]);
  });

  test('needs the scopes of the operations, and a live key', async () => {
    const tenant = await newTenant();
    const body = { name: 'A', object_id: 'deals', config: {} };
    const viewer = await newKey(tenant, { scopes: ['reports:view'] });
    const { error } = (await expectStatus(403, 'POST', path, { key: viewer, body })).body;
    expect(error.details.required_scopes).toEqual(['reports:create']);
    const { id } = await save({ key: tenant.key }, { is_shared: true });
    for (const [method, change] of [['PATCH', { name: 'B' }], ['DELETE']] as const) {
      const options = change ? { body: change } : {};
      const refused = (await expectStatus(403, method, `${path}/${id}`, { key: viewer, ...options })).body.error;
      expect(refused.details.required_scopes).toEqual(['reports:edit']);
      await expectStatus(403, method, `${path}/${id}`, { key: tenant.testKey, ...options });
    }
    await expectStatus(403, 'POST', path, { key: tenant.testKey, body });
    await expectStatus(200, 'GET', `${path}/${id}`, { key: tenant.testKey });
  });

  test('saves a report that reveals texts only with the view scope of the object', async () => {
    const tenant = await newTenant();
    const key = await newKey(tenant, { scopes: ['reports:view', 'reports:create', 'reports:edit'] });
    const body = { name: 'A', object_id: 'deals', config: { group_by: 'name' } };
    const { error } = (await expectStatus(403, 'POST', path, { key, body })).body;
    expect(error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['deals:view'] } });
    const { id } = await save({ key }, { name: 'B' });
    await expectStatus(403, 'PATCH', `${path}/${id}`, { key, body: { config: body.config } });
    const shared = await save({ key: tenant.key }, { ...body, is_shared: true });
    await expectStatus(200, 'GET', `${path}/${shared.id}`, { key });
    await expectStatus(403, 'GET', `${path}/${shared.id}/results`, { key });
  });
});

describe('the results of a saved report', () => {
  test('equal those of the same report that is not saved', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const [won] = await deals(
      key,
      { stage: 'Won', amount_minor: 5, assigned_to: tenant.admin.id },
      { stage: 'New', amount_minor: 7, expected_close_date: '2026-11-02' },
      { stage: 'New', amount_minor: 9, expected_close_date: '2026-12-02' },
    );
    await database()`update deals set created_at = '2020-01-01' where company_id = ${tenant.companyId} and id = ${won.id}`;
    const configs = [
      {},
      { metric: 'sum', field: 'amount_minor', group_by: 'stage', chart_type: 'pie' },
      { group_by: ['stage', 'expected_close_date'], bucket: 'month' },
      { group_by: 'assigned_to', labels: true },
      { metric: 'avg', field: 'amount_minor', filter: { field: 'stage', op: 'eq', value: 'new' } },
      { filter: { field: 'created_at', op: 'gte', value: { relative: 'last_7_days' } } },
      { from: '2026-11-01', to: '2026-11-30', date_field: 'expected_close_date' },
      { to: '2020-12-31' },
    ];
    for (const [index, config] of configs.entries()) {
      const report = await save({ key }, { name: `Report ${index}`, config });
      const { saved_report, ...results } = await readResults(key, report);
      expect(saved_report).toEqual({ id: report.id, name: `Report ${index}` });
      const { chart_type: _, ...body } = config;
      const query = { object: 'deals', ...body };
      expect(results).toEqual((await expectStatus(200, 'POST', '/v1/reports/query', { key, body: query })).body.data);
    }
  });

  test('follow the deepest filter that a list accepts', async () => {
    const { key } = await newTenant();
    await deals(key, { priority: 1 }, { priority: 2 }, { priority: 3, name: 'Chairs' });
    const isNew = { field: 'created_at', op: 'gte', value: { relative: 'last_7_days' } };
    const isSeats = { field: 'name', op: 'eq', value: 'Seats' };
    const withoutTasks = {
      link: 'tasks',
      none: { not: { or: [{ field: 'created_at', op: 'lt', value: { relative: 'today' } }] } },
    };
    for (const filter of [
      { and: [isSeats, { or: [{ field: 'priority', op: 'eq', value: 2 }, { not: isNew }] }] },
      { and: [{ field: 'priority', op: 'eq', value: 2 }, withoutTasks] },
    ]) {
      const report = await save(
        { key },
        { name: JSON.stringify(Object.keys(filter.and[1] ?? {})), config: { filter } },
      );
      expect(report.config.filter).toEqual(filter);
      expect((await readResults(key, report)).total.count).toBe(1);
      const body = { object: 'deals', filter };
      const { data } = (await expectStatus(200, 'POST', '/v1/reports/query', { key, body })).body;
      expect(data.total.count).toBe(1);
    }
  });

  test('cover the records of the mode and of the visibility of the reader', async () => {
    const tenant = await newTenant();
    const branchId = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branchId}, 'West', now())`;
    const user = await newUser(tenant, { branchId });
    await deals(tenant.key, {}, { assigned_to: user.id });
    await deals(tenant.testKey, {}, {}, {});
    const report = await save({ key: tenant.key }, { is_shared: true });
    const limited = await newKey(tenant, { reach: { kind: 'branch', id: branchId } });
    const totals = await Promise.all([tenant.key, tenant.testKey, limited].map((key) => readResults(key, report)));
    expect(totals.map(({ total }) => total.count)).toEqual([2, 3, 1]);
  });

  test('say what to fix if the definition no longer fits the object', async () => {
    const tenant = await newTenant();
    const { key, companyId } = tenant;
    await newCustomField(tenant, 'deals', 'tier');
    const config = { group_by: 'tier', filter: { field: 'tier', op: 'is_null' } };
    const report = await save({ key }, { name: 'Tiers', config });
    await readResults(key, report);
    await database()`update custom_fields set enabled = false where company_id = ${companyId}`;
    const { error } = (await expectStatus(422, 'GET', `${path}/${report.id}/results`, { key })).body;
    expect(error).toMatchObject({ details: { reason: 'saved_report_outdated', report_id: report.id } });
    expect(error.message).toContain('Tiers');
    expect(listProblems(error)).toEqual(['config.group_by UNKNOWN_FIELD', 'tier UNKNOWN_FIELD']);
    const body = { config: { group_by: 'stage' } };
    await expectStatus(200, 'PATCH', `${path}/${report.id}`, { key, body });
    await readResults(key, report);
  });

  test('are absent for objects that are disabled, and rejected if their module is off', async () => {
    const tenant = await newTenant();
    const { key, companyId } = tenant;
    const visits = await newCustomObject(tenant, 'visits');
    const report = await save({ key }, { object_id: visits });
    const ofDeals = await save({ key });
    await database()`update custom_objects set enabled = false where company_id = ${companyId}`;
    await expectStatus(404, 'GET', `${path}/${report.id}/results`, { key });
    await expectStatus(404, 'GET', `${path}/${report.id}`, { key });
    await database()`update companies set disabled_modules = '{deals}' where id = ${companyId}`;
    const refused = await expectStatus(403, 'GET', `${path}/${ofDeals.id}/results`, { key });
    expect(refused.body.error.code).toBe('MODULE_DISABLED');
    await expectStatus(404, 'GET', `${path}/${ofDeals.id}`, { key });
    expect(await names({ key })).toEqual([]);
  });
});
