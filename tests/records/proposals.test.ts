// Credentials that only propose: their writes become change sets, and people decide about these.
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test, vi } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { callTool } from '../support/mcp.ts';
import { createRecord } from '../support/records.ts';
import { adminToken } from '../support/sessions.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

const records = '/v1/objects/accounts/records';
const unique = (): string => `Acme ${randomUUID().slice(0, 8)}`;
const readName = async (id: string): Promise<string> =>
  (await expectStatus(200, 'GET', `${records}/${id}`, { key: tenant.key })).body.data.record.name;

let tenant: Tenant;
let token: string;
beforeAll(async () => {
  tenant = await newTenant();
  token = await adminToken(tenant);
});
const newProposer = (scopes = ['*']): Promise<string> => newKey(tenant, { scopes, writeMode: 'propose' });

test('a write becomes a change set, and its approval applies it', async () => {
  const key = await newProposer();
  const { id, name } = await createRecord(tenant.key, 'accounts', { name: unique() });
  const body = { name: unique() };
  const answer = await expectStatus(202, 'PATCH', `${records}/${id}`, { key, body });
  const { change_set: set } = answer.body.data;
  expect(set).toMatchObject({
    status: 'pending',
    title: 'Update a record',
    operations: [
      { method: 'PATCH', path: `${records}/${id}`, body, before: { record: { name } }, after: { record: body } },
    ],
  });
  expect(Date.parse(set.expires_at) - Date.parse(set.created_at)).toBe(72 * 3_600_000);
  expect(answer.body.meta.pending_change_sets).toBe(1);
  expect(await readName(id)).toBe(name);
  const approval = { token, body: { digest: set.digest } };
  const decided = await expectStatus(200, 'POST', `/v1/change-sets/${set.id}/approve`, approval);
  expect(decided.body.data.change_set).toMatchObject({ status: 'applied', proposed_by: { kind: 'api_key' } });
  expect(await readName(id)).toBe(body.name);
  expect((await call('GET', records, { key })).body.meta.pending_change_sets).toBeUndefined();
});

test('concurrent calls with the same proposal make one set, which a repeated call finds', async () => {
  const key = await newProposer();
  const body = { name: unique() };
  const request = { key, body, idempotencyKey: true as const };
  const answers = await Promise.all(Array.from({ length: 8 }, () => call('POST', records, request)));
  expect(answers.map(({ status }) => status).sort()).toEqual([...Array(7).fill(200), 202]);
  const sets = answers.map(({ body }) => body.data.change_set.id);
  expect(new Set(sets).size).toBe(1);
  const again = await call('POST', records, request);
  expect(again).toMatchObject({
    status: 200,
    body: { data: { already_pending: true }, meta: { pending_change_sets: 1 } },
  });
  await expectStatus(200, 'POST', `/v1/change-sets/${sets[0]}/withdraw`, { key });
  expect((await call('POST', records, request)).status).toBe(202);
  // Another credential's proposal is another set.
  expect((await call('POST', records, { ...request, key: await newProposer() })).status).toBe(202);
});

test('a set whose time is over does not count as pending', async () => {
  const key = await newProposer();
  const body = { name: unique() };
  const request = { key, body, idempotencyKey: true as const };
  const first = (await expectStatus(202, 'POST', records, request)).body.data.change_set;
  await database()`
    update change_sets set expires_at = now() - interval '1 second'
    where company_id = ${tenant.companyId} and id = ${first.id}`;
  const second = await expectStatus(202, 'POST', records, request);
  expect(second.body.meta.pending_change_sets).toBe(1);
  expect(second.body.data.change_set.id).not.toBe(first.id);
});

test('a stale set gives way to the same proposal, which then applies to the new version', async () => {
  const key = await newProposer();
  const { id } = await createRecord(tenant.key, 'accounts', { name: unique() });
  const request = { key, body: { name: unique() } };
  const first = (await expectStatus(202, 'PATCH', `${records}/${id}`, request)).body.data.change_set;
  expect((await call('PATCH', `${records}/${id}`, request)).status).toBe(200);
  await expectStatus(200, 'PATCH', `${records}/${id}`, { key: tenant.key, body: { city: 'Rome' } });
  const second = await expectStatus(202, 'PATCH', `${records}/${id}`, request);
  const { change_set: set } = second.body.data;
  expect(second.body.meta.pending_change_sets).toBe(1);
  expect(set.operations[0].if_version).toBe(2);
  const old = await expectStatus(200, 'GET', `/v1/change-sets/${first.id}`, { key });
  expect(old.body.data.change_set).toMatchObject({ status: 'withdrawn', operations: [{ status: 'skipped' }] });
  const approval = { token, body: { digest: set.digest } };
  const decided = await expectStatus(200, 'POST', `/v1/change-sets/${set.id}/approve`, approval);
  expect(decided.body.data.change_set.status).toBe('applied');
});

test('texts that cannot be stored are rejected as for other credentials', async () => {
  const key = await newProposer();
  for (const text of ['{"first_name":"a\\u0000"}', '{"first_name":"\\ud800"}', '{"first_name":"a","__proto__":{}}']) {
    const answers = await Promise.all(
      [tenant.key, key].map((each) =>
        call('POST', '/v1/leads', {
          key: each,
          rawBody: text,
          headers: { 'content-type': 'application/json', 'idempotency-key': randomUUID() },
        }),
      ),
    );
    const [direct, proposed] = answers.map(({ status, body }) => ({ status, error: body.error }));
    expect(proposed).toEqual(direct);
    expect([400, 422]).toContain(direct?.status);
  }
});

test('a merge or its undo with dry_run is a dry run, and cannot be in a set', async () => {
  const key = await newProposer();
  const [source, target] = [
    await createRecord(tenant.key, 'accounts', { name: unique() }),
    await createRecord(tenant.key, 'accounts', { name: unique() }),
  ];
  const path = `${records}/${source.id}/merge`;
  const body = { into_id: target.id, dry_run: true };
  const dry = await expectStatus(200, 'POST', path, { key, body, idempotencyKey: true });
  expect(dry.body).toMatchObject({ data: { dry_run: true, merge: { id: null } } });
  expect(dry.body.meta.pending_change_sets).toBeUndefined();
  expect(await readName(source.id)).toBe(source.name);
  const set = await call('POST', '/v1/change-sets', {
    key,
    body: { title: 'x', operations: [{ method: 'POST', path, body }] },
  });
  expect(set).toMatchObject({
    status: 422,
    body: {
      error: { details: { operations: [{ index: 0, status: 422, error: { details: { reason: 'dry_run_in_set' } } }] } },
    },
  });
  const merged = await expectStatus(200, 'POST', path, {
    key: tenant.key,
    body: { into_id: target.id },
    idempotencyKey: true,
  });
  const undo = `/v1/merges/${merged.body.data.merge.id}/undo`;
  const planned = await expectStatus(200, 'POST', undo, { key, body: { dry_run: true }, idempotencyKey: true });
  expect(planned.body.data.dry_run).toBe(true);
  expect((await call('GET', `${records}/${source.id}`, { key })).status).toBe(404);
});

test('an import ends as failed if its key only proposes by then', async () => {
  const key = await newKey(tenant, { scopes: ['imports:*', 'accounts:*'] });
  const options = { object: 'accounts', format: 'csv', mapping: { name: 'name' } };
  const { id } = (await expectStatus(201, 'POST', '/v1/imports', { key, body: options, idempotencyKey: true })).body
    .data.import;
  await expectStatus(200, 'POST', `/v1/imports/${id}/parts?number=1`, {
    key,
    rawBody: `name\n${unique()}\n`,
    headers: { 'content-type': 'text/csv' },
  });
  await database()`
    update api_keys set write_mode = 'propose'
    where company_id = ${tenant.companyId} and id = (select created_by_id::uuid from imports where id = ${id})`;
  await expectStatus(202, 'POST', `/v1/imports/${id}/start`, { key: tenant.key });
  const ended = await vi.waitUntil(
    async () => {
      const found = (await expectStatus(200, 'GET', `/v1/imports/${id}`, { key: tenant.key })).body.data.import;
      return ['completed', 'failed'].includes(found.status) && found;
    },
    { timeout: 20_000, interval: 50 },
  );
  expect(ended).toMatchObject({ status: 'failed', error: { code: 'FORBIDDEN_SCOPE' }, counts: { created: 0 } });
});

test('a dry run and a rejected write make no set', async () => {
  const key = await newProposer();
  const dry = await call('POST', records, {
    key,
    body: { name: unique() },
    idempotencyKey: true,
    headers: { 'dry-run': 'true' },
  });
  expect(dry).toMatchObject({ status: 201, body: { meta: { dry_run: true } } });
  expect((await call('POST', records, { key, body: { nmae: 'x' }, idempotencyKey: true })).status).toBe(422);
  const { id } = await createRecord(tenant.key, 'accounts', { name: unique() });
  const stale = { key, body: { name: 'x' }, headers: { 'if-match': '"7"' } };
  expect((await call('PATCH', `${records}/${id}`, stale)).status).toBe(409);
  expect((await call('GET', records, { key })).body.meta.pending_change_sets).toBeUndefined();
});

test('an Idempotency-Key replays the answer of a proposal', async () => {
  const key = await newProposer();
  const request = { key, body: { name: unique() }, idempotencyKey: randomUUID() };
  const first = await expectStatus(202, 'POST', records, request);
  const again = await expectStatus(202, 'POST', records, request);
  expect(again.headers.get('idempotent-replay')).toBe('true');
  expect(again.body.data).toEqual(first.body.data);
});

test('it withdraws its own sets only, and needs the scopes of its writes', async () => {
  const [key, other] = [await newProposer(), await newProposer()];
  const { change_set: set } = (
    await expectStatus(202, 'POST', records, { key, body: { name: unique() }, idempotencyKey: true })
  ).body.data;
  const foreign = await call('POST', `/v1/change-sets/${set.id}/withdraw`, { key: other });
  expect(foreign).toMatchObject({ status: 403, body: { error: { details: { reason: 'propose_only' } } } });
  await expectStatus(200, 'POST', `/v1/change-sets/${set.id}/withdraw`, { key });
  const narrow = await newProposer(['accounts:view']);
  expect(await call('POST', records, { key: narrow, body: { name: unique() }, idempotencyKey: true })).toMatchObject({
    status: 403,
    body: { error: { details: { required_scopes: ['accounts:create'] } } },
  });
});

test('the write mode of a key can be changed, and applies from the next call', async () => {
  const made = await expectStatus(201, 'POST', '/v1/api-keys', {
    token,
    body: { name: 'Agent', scopes: ['*'], write_mode: 'propose' },
  });
  const { api_key: stored, key } = made.body.data;
  expect(stored.write_mode).toBe('propose');
  expect((await call('POST', records, { key, body: { name: unique() }, idempotencyKey: true })).status).toBe(202);
  const changed = await expectStatus(200, 'PATCH', `/v1/api-keys/${stored.id}`, {
    token,
    body: { write_mode: 'direct' },
  });
  expect(changed.body.data.api_key.write_mode).toBe('direct');
  expect((await call('POST', records, { key, body: { name: unique() }, idempotencyKey: true })).status).toBe(201);
  await expectStatus(200, 'PATCH', `/v1/api-keys/${stored.id}`, { token, body: { write_mode: 'propose' } });
  expect((await call('POST', records, { key, body: { name: unique() }, idempotencyKey: true })).status).toBe(202);
  const rotated = await expectStatus(201, 'POST', `/v1/api-keys/${stored.id}/rotate`, { token });
  expect(rotated.body.data.api_key.write_mode).toBe('propose');
  expect((await call('PATCH', `/v1/api-keys/${stored.id}`, { token, body: { write_mode: 'ask' } })).status).toBe(400);
});

test('an app whose user is asked before each change proposes', async () => {
  const bearer = await newBearer(tenant, ['accounts:view', 'accounts:create'], { writeMode: 'propose' });
  const answer = await call('POST', records, { token: bearer, body: { name: unique() }, idempotencyKey: true });
  expect(answer).toMatchObject({
    status: 202,
    body: { data: { change_set: { proposed_by: { kind: 'oauth_client' } } } },
  });
});

test('a batch is proposed as it was sent', async () => {
  const key = await newProposer();
  const body = [{ name: unique() }, { name: unique() }];
  const answer = await expectStatus(202, 'POST', `${records}:batch`, { key, body, idempotencyKey: true });
  const { id, digest, operations } = answer.body.data.change_set;
  expect(operations).toMatchObject([{ body }]);
  const approved = await expectStatus(200, 'POST', `/v1/change-sets/${id}/approve`, { token, body: { digest } });
  expect(approved.body.data.change_set.status).toBe('applied');
});

test('tools say that a change is proposed, and show the decision', async () => {
  const key = await newProposer();
  const answer = await callTool('create_record', { object: 'accounts', record: { name: unique() } }, { key });
  const { structuredContent: result, isError } = answer.body.result as Json;
  expect(isError).toBeUndefined();
  expect(result).toMatchObject({ proposed: true, change_set: { status: 'pending' } });
  expect(result.hint).toMatch(/^Proposed, not done: .*waits for a person.*get_change_set/);
  expect(result.hint).toContain(result.change_set.id);
  const read = await callTool('get_change_set', { id: result.change_set.id }, { key });
  expect(read.body.result.structuredContent.change_set).toMatchObject({ id: result.change_set.id, status: 'pending' });
});

test('tools only name get_change_set if the credential can use it', async () => {
  const key = await newProposer(['accounts:*']);
  const answer = await callTool('create_record', { object: 'accounts', record: { name: unique() } }, { key });
  const { hint } = answer.body.result.structuredContent;
  expect(hint).toMatch(/waits for a person/);
  expect(hint).not.toContain('get_change_set');
});

test('an applied set shows the ID of what it created, not that of its trial', async () => {
  const key = await newProposer();
  const answer = await expectStatus(202, 'POST', records, { key, body: { name: unique() }, idempotencyKey: true });
  const { id, digest, operations } = answer.body.data.change_set;
  const approved = await expectStatus(200, 'POST', `/v1/change-sets/${id}/approve`, { token, body: { digest } });
  const { after } = approved.body.data.change_set.operations[0];
  expect(after.record.id).not.toBe(operations[0].after.record.id);
  expect(await readName(after.record.id)).toBe(after.record.name);
  const read = await expectStatus(200, 'GET', `/v1/change-sets/${id}`, { key });
  expect(read.body.data.change_set.operations[0].after).toEqual(after);
});
