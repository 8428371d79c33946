// Dry runs besides other calls: batches, Idempotency-Keys, locks, seats, caches and counted calls.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type CallOptions, call, expectStatus } from '../support/client.ts';
import { post } from '../support/mcp.ts';
import { createRecord, lead, newCustomField, readRecord, recordsPath } from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { person } from '../support/users.ts';

const headers = { 'dry-run': 'true' };

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
});

const accounts = recordsPath('accounts');
const runDry = (method: string, path: string, options: CallOptions): Promise<Answer> =>
  call(method, path, { key: tenant.key, ...options, headers: { ...headers, ...options.headers } });
const run = (method: string, path: string, options: CallOptions): Promise<Answer> =>
  call(method, path, { key: tenant.key, ...options });

/** Returns the data of a response without the ids and times of new records. */
const withoutIds = ({ body }: Answer): unknown =>
  JSON.parse(JSON.stringify(body.data).replaceAll(/"(id|created_at|updated_at)":"[^"]*"/g, '"$1":""'));

describe('a batch', () => {
  const records = [{ name: 'North' }, { name: 7 }, { name: 'South', employee_count: 'many' }, { name: 'West' }];

  test('reports the items that would fail, and the effects of the others', async () => {
    const path = `${accounts}:batch`;
    const tried = await runDry('POST', path, { body: { records }, idempotencyKey: true });
    const real = await run('POST', path, { body: { records }, idempotencyKey: true });
    expect([tried.status, withoutIds(tried)]).toEqual([real.status, withoutIds(real)]);
    expect(tried.body.data.failed.map(({ index }: { index: number }) => index)).toEqual([1, 2]);
    // Each name once, although two records would be created.
    expect(tried.body.meta.would).toEqual({ events: ['record.created'], audit: ['account.create'] });
  });

  test('answers for all or nothing, as the real call does', async () => {
    const path = `${accounts}:batch`;
    const body = { records, atomic: true };
    const tried = await runDry('POST', path, { body, idempotencyKey: true });
    const real = await run('POST', path, { body, idempotencyKey: true });
    expect([tried.status, tried.body.error]).toEqual([real.status, real.body.error]);
    expect(tried.status).toBeGreaterThanOrEqual(400);
    expect(tried.body.meta.dry_run).toBe(true);
  });

  test('whose items all fail would record nothing', async () => {
    const body = { records: [{ name: 7 }] };
    const tried = await runDry('POST', `${accounts}:batch`, { body, idempotencyKey: true });
    expect(tried.body.meta.would).toEqual({ events: [], audit: [] });
  });
});

describe('an Idempotency-Key', () => {
  test('is free for the real call after a dry run, also with another body', async () => {
    const idempotencyKey = randomUUID();
    const tried = await runDry('POST', accounts, { body: { name: 'First' }, idempotencyKey });
    const rejected = await runDry('POST', accounts, { body: { name: 7 }, idempotencyKey });
    expect([tried.status, rejected.status]).toEqual([201, 422]);
    const real = await run('POST', accounts, { body: { name: 'Second' }, idempotencyKey });
    expect([real.status, real.headers.get('idempotent-replay')]).toEqual([201, null]);
    expect(await readRecord(tenant.key, 'accounts', real.body.data.record.id)).toMatchObject({ name: 'Second' });
  });

  test('replays no stored response to a dry run, and keeps it for the next real call', async () => {
    const idempotencyKey = randomUUID();
    const request = { body: { name: 'Stored' }, idempotencyKey };
    const real = await run('POST', accounts, request);
    const tried = await runDry('POST', accounts, request);
    expect([tried.status, tried.headers.get('idempotent-replay')]).toEqual([201, null]);
    expect(tried.body.meta.dry_run).toBe(true);
    expect(tried.body.data.record.id).not.toBe(real.body.data.record.id);
    const other = await runDry('POST', accounts, { body: { name: 'Other' }, idempotencyKey });
    expect(other.status).toBe(201);
    const again = await run('POST', accounts, request);
    expect([again.text, again.headers.get('idempotent-replay')]).toEqual([real.text, 'true']);
  });

  test('may be in use by a running call, which a dry run neither disturbs nor waits for', async () => {
    const idempotencyKey = randomUUID();
    const request = { body: { name: 'Twice' }, idempotencyKey };
    const answers = await Promise.all([
      run('POST', accounts, request),
      ...Array.from({ length: 8 }, () => runDry('POST', accounts, request)),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(Array(9).fill(201));
    expect(answers.map(({ headers }) => headers.get('idempotent-replay'))).toEqual(Array(9).fill(null));
  });
});

describe('concurrent calls', () => {
  test('update a record while dry runs of the same update come and go', async () => {
    const { id } = await createRecord(tenant.key, 'accounts', { name: 'Busy', employee_count: 0 });
    const path = recordsPath('accounts', id);
    const updates = Array.from({ length: 10 }, (_, index) => [
      run('PATCH', path, { body: { employee_count: index + 1 } }),
      runDry('PATCH', path, { body: { employee_count: 1000 + index } }),
    ]).flat();
    const answers = await Promise.all(updates);
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    const record = await readRecord(tenant.key, 'accounts', id);
    expect(record.employee_count).toBeLessThanOrEqual(10);
    const versions = await database()`
      select from audit_logs where company_id = ${tenant.companyId} and record_id = ${id} and action = 'account.update'`;
    expect(versions.length).toBe(10);
  });

  test('take a unique value that dry runs take and release', async () => {
    await newCustomField(tenant, 'accounts', 'key_elsewhere', { unique: true });
    const request = (): CallOptions => ({ body: { name: 'Only one', key_elsewhere: 'K1' }, idempotencyKey: true });
    const tryEight = () => Array.from({ length: 8 }, () => runDry('POST', accounts, request()));
    const before = await Promise.all(tryEight());
    expect(before.map(({ status }) => status)).toEqual(Array(8).fill(201));
    const [real, ...beside] = await Promise.all([run('POST', accounts, request()), ...tryEight()]);
    expect(real.status).toBe(201);
    for (const { status, body } of beside) expect([201, 'ALREADY_EXISTS']).toContain(body.error?.code ?? status);
    const after = await runDry('POST', accounts, request());
    const again = await run('POST', accounts, request());
    expect([after.status, after.body.error]).toEqual([again.status, again.body.error]);
    expect([after.status, after.body.meta.dry_run]).toEqual([409, true]);
  });

  test('find no lock of a dry run that has answered', async () => {
    const { id } = await createRecord(tenant.key, 'accounts', { name: 'Locked' });
    await runDry('PATCH', recordsPath('accounts', id), { body: { name: 'Free' } });
    const [row] = await database()`select name from accounts where id = ${id} for update nowait`;
    expect(row).toEqual({ name: 'Locked' });
  });
});

test('a dry run neither takes nor needs the version that the real call then finds', async () => {
  const { id } = await createRecord(tenant.key, 'accounts', { name: 'One' });
  const path = recordsPath('accounts', id);
  const { headers: read } = await run('GET', path, {});
  const match = { 'if-match': read.get('etag') ?? '' };
  const tried = await runDry('PATCH', path, { body: { name: 'Two' }, headers: match });
  const real = await run('PATCH', path, { body: { name: 'Two' }, headers: match });
  expect([tried.status, real.status]).toEqual([200, 200]);
  expect(tried.headers.get('etag')).toBe(real.headers.get('etag'));
  const late = await runDry('PATCH', path, { body: { name: 'Three' }, headers: match });
  expect(late.body).toMatchObject({ error: { details: { reason: 'version_mismatch' } }, meta: { dry_run: true } });
});

test('a dry run takes no seat, and is rejected if none is free', async () => {
  const workspace = await newTenant();
  const { companyId } = workspace;
  await database()`update subscriptions set package_code = 'starter', seats = null where company_id = ${companyId}`;
  await newUser(workspace);
  // The last of three seats.
  const request = { key: workspace.key, body: person({ send_welcome: true }) };
  const tried = [
    await call('POST', '/v1/users', { ...request, headers }),
    await call('POST', '/v1/users', { ...request, headers }),
  ];
  expect(tried.map(({ status }) => status)).toEqual([201, 201]);
  expect(await database()`select from mails where company_id = ${companyId} and template = 'welcome'`).toHaveLength(0);
  await expectStatus(201, 'POST', '/v1/users', request);
  const another = { key: workspace.key, body: person() };
  const late = await call('POST', '/v1/users', { ...another, headers });
  const real = await expectStatus(409, 'POST', '/v1/users', another);
  expect(late.body).toMatchObject({ error: real.body.error, meta: { dry_run: true } });
  expect(real.body.error.code).toBe('SEAT_LIMIT_REACHED');
});

test('a dry run without the scope is rejected like the real call', async () => {
  const key = await newKey(tenant, { scopes: ['accounts:view'] });
  const { status, body } = await runDry('POST', accounts, { key, body: { name: 'No' }, idempotencyKey: true });
  expect([status, body.error.code, body.meta.dry_run]).toEqual([403, 'FORBIDDEN_SCOPE', true]);
});

test('a new field of a dry run is known to no later call', async () => {
  const name = `only_tried_${Date.now()}`;
  const body = { name, label: 'Only tried', type: 'text' };
  const tried = await runDry('POST', '/v1/objects/accounts/fields', { body });
  expect([tried.status, tried.body.data.field.name]).toEqual([201, name]);
  const used = await run('POST', accounts, { body: { name: 'No', [name]: 'x' }, idempotencyKey: true });
  expect(used.body.error.details.fields).toMatchObject([{ field: name, code: 'UNKNOWN_FIELD' }]);
  await expectStatus(404, 'PATCH', `/v1/objects/accounts/fields/${name}`, { key: tenant.key, body: { label: 'No' } });
});

test('a dry run counts as a call, in the rate limit and in the quota', async () => {
  const workspace = await newTenant();
  const usage = async (): Promise<number> => {
    const { body } = await expectStatus(200, 'GET', '/v1/usage', { key: workspace.key });
    return body.data.usage.api_calls.used;
  };
  const before = await usage();
  const first = await call('POST', '/v1/leads', { key: workspace.key, body: lead(), headers });
  const second = await call('POST', '/v1/leads', { key: workspace.key, body: lead(), headers });
  expect(first.body.meta.rate_limit.remaining - second.body.meta.rate_limit.remaining).toBe(1);
  // Two dry runs, and the call that reads the figure.
  expect((await usage()) - before).toBe(3);
});

test('routes outside of the OpenAPI document reject the header, too', async () => {
  const mcp = await post('tools/list', {}, { key: tenant.key, headers });
  expect([mcp.status, mcp.body.error.details]).toEqual([400, { reason: 'dry_run_unsupported' }]);
  const page = await call('GET', '/console/sign-in', { headers });
  expect([page.status, page.body.error.details.reason]).toEqual([400, 'dry_run_unsupported']);
});

test('an unknown path is not found, with meta.dry_run', async () => {
  const { status, body } = await runDry('POST', '/v1/nothing', { body: {} });
  expect([status, body.error.code, body.meta.dry_run]).toEqual([404, 'NOT_FOUND', true]);
});
