// The discovery operations return exactly what the server does.
import { expect, test } from 'vitest';
import { moduleActions } from '../../domain/access/scopes.ts';
import { expectStatus } from '../support/client.ts';
import { document, operations } from '../support/document.ts';
import { database, newKey, newTenant, newUser } from '../support/tenants.ts';

const schemas = document.components?.schemas ?? {};

interface CodeEntry {
  code: string;
  statuses: number[];
  meaning: string;
  action: string;
}

test('returns the error codes of the frozen catalog with their statuses', async () => {
  const { body, headers } = await expectStatus(200, 'GET', '/v1/error-codes');
  const codes: CodeEntry[] = body.data.error_codes;
  const frozen = schemas.ErrorCode?.enum ?? [];
  expect(codes.map(({ code }) => code).sort()).toEqual([...frozen].sort());
  expect(headers.get('cache-control')).toBe('public, max-age=300');
  // Every status that an operation declares has a code.
  const documented = new Set(codes.flatMap(({ statuses }) => statuses.map(String)));
  for (const { statuses } of operations)
    for (const status of statuses.filter((each) => Number(each) >= 400)) expect(documented).toContain(status);
});

test('returns the scopes of all modules and custom objects, with those that the key has and the plan lacks', async () => {
  const tenant = await newTenant();
  await database()`
    insert into custom_objects (company_id, slug, label, plural, created_at, updated_at) values (${tenant.companyId}, 'visits', 'Visit', 'Visits', now(), now())`;
  await database()`update companies set disabled_modules = '{reports}' where id = ${tenant.companyId}`;
  const key = await newKey(tenant, { scopes: ['leads:write', 'deals:*'] });
  const { body } = await expectStatus(200, 'GET', '/v1/scopes', { key });
  const scopes: { scope: string; granted: boolean; module_state: string; add_on: string | null }[] = body.data.scopes;
  const named = (scope: string) => scopes.find((each) => each.scope === scope);
  const own = ['view', 'create', 'edit', 'delete'].map((action) => `object:visits:${action}`);
  const builtin = Object.entries(moduleActions).flatMap(([module, actions]) =>
    actions.map((each) => `${module}:${each}`),
  );
  expect(scopes.map(({ scope }) => scope)).toEqual([...builtin, ...own]);
  expect(scopes.filter(({ granted }) => granted).map(({ scope }) => scope)).toEqual([
    'leads:create',
    'deals:view',
    'deals:create',
    'deals:edit',
    'deals:delete',
  ]);
  expect(named('reports:view')?.module_state).toBe('disabled_by_admin');
  expect(named('campaigns:view')).toMatchObject({ module_state: 'not_in_plan', add_on: 'campaigns' });
  expect(named('bookings:view')?.module_state).toBe('on');
  expect(body.data.legacy_scopes).toContainEqual({ scope: 'leads:write', grants: 'leads:create' });
});

test('returns the limits of the key, its plan and the API, and counts the calls of the month', async () => {
  const tenant = await newTenant();
  await database()`
    update subscriptions set package_code = 'bespoke', api_rate_limit_per_minute = null, api_call_cap = 3000000 where company_id = ${tenant.companyId}`;
  const key = await newKey(tenant, { perMinute: 33, perHour: 444 });
  for (let turn = 0; turn < 2; turn += 1) await expectStatus(200, 'GET', '/v1/limits', { key });
  // The quota is charged in leases. Figures are exact once the lease has ended.
  const blocks = () => database()`select from api_quota_blocks where company_id = ${tenant.companyId}`;
  await expect.poll(blocks).toEqual([]);
  const { body } = await expectStatus(200, 'GET', '/v1/limits', { key });
  const { rates, quota, requests } = body.data.limits;
  expect(rates).toEqual({
    per_minute_and_endpoint: 33,
    per_hour: 444,
    workspace_per_minute: 70,
    workspace_per_day: 100_000,
    reports_per_minute: 600,
  });
  expect(quota).toMatchObject({ limit: 3_000_000, used: 3, remaining: 2_999_997 });
  expect(Date.parse(quota.period.start)).toBeLessThanOrEqual(Date.now());
  expect(Date.parse(quota.period.end)).toBeGreaterThan(Date.now());
  expect(requests.batch_items).toBe(schemas.RecordBatchItems?.maxItems);
});

test('returns the limits of files, seats and workspace configuration', async () => {
  const tenant = await newTenant();
  await newUser(tenant);
  await database()`update subscriptions set package_code = 'starter', seats = 7 where company_id = ${tenant.companyId}`;
  const { limits } = (await expectStatus(200, 'GET', '/v1/limits', { key: tenant.testKey })).body.data;
  expect(limits.uploads).toMatchObject({ file_bytes: 10_485_760, least_bytes_in_ten_seconds: 102_400 });
  expect(limits.uploads.refused_extensions).toEqual(expect.arrayContaining(['exe', 'svg', 'xhtml']));
  expect(limits.workspace).toMatchObject({
    seats: 7,
    active_users: 2,
    pipelines: 20,
    statuses_of_object: 100,
    tag_conditions_of_object: 1000,
  });
  // No more sources than the limit can be created.
  const room = limits.workspace.sources;
  await database()`
    insert into sources (company_id, id, name, is_enabled, created_at, updated_at)
    select ${tenant.companyId}, gen_random_uuid(), 'Source ' || number, true, now(), now()
    from generate_series(1, ${room}::int - (select count(*)::int from sources where company_id = ${tenant.companyId})) number`;
  const answer = await expectStatus(409, 'POST', '/v1/settings/sources', {
    key: tenant.key,
    body: { name: 'One more' },
  });
  expect(answer.body.error.details).toEqual({ reason: 'source_limit_reached', limit: room });
});

test('returns null for limits that an unlimited plan does not have', async () => {
  const tenant = await newTenant();
  await database()`update subscriptions set package_code = 'enterprise' where company_id = ${tenant.companyId}`;
  const { body } = await expectStatus(200, 'GET', '/v1/limits', { key: tenant.key });
  expect(body.data.limits.quota).toMatchObject({ limit: null, remaining: null });
  expect(body.data.limits.rates.workspace_per_day).toBeNull();
});
