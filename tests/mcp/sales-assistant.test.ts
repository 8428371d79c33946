// Ten tasks of a sales team, done by an assistant that has to ask before each change.
import { mkdirSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { demoCompanyId } from '../../domain/demo/workspace.ts';
import { jobNames } from '../../jobs/index.ts';
import type { TenantTable } from '../isolation/schema.ts';
import { type Answer, anyAddress, call, expectStatus, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { findFreePort } from '../support/free-port.ts';
import { mcpPath } from '../support/mcp.ts';
import { AppVisitor, authorizeAddress, exchangeForm, newProof, post, register } from '../support/oauth-apps.ts';
import { Visitor } from '../support/page-client.ts';
import { createRecord, readRecord } from '../support/records.ts';
import { digestRows, listDigestedTables } from '../support/row-digests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';

const revision = '2025-11-25';
const dayMs = 86_400_000;
const daysFromNow = (days: number): string => new Date(Date.now() + days * dayMs).toISOString();
const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `sales-assistant-${process.pid}`);
/** Tables that a proposal itself writes, and those about sign-ins. */
const ownTables = ['change_sets', 'audit_logs', 'outbox_events', 'idempotency_records'];

let databaseUrl: string;
let sql: postgres.Sql;
let server: TestServer;
let base: string;
/** The person who approves, in the console. */
let person: Visitor;
/** A key of the person, to prepare records and to see results. */
let key: string;
/** The access token of the assistant. */
let assistant: string;
let tables: TenantTable[];
const records = { nina: '', omar: '', lea: '', falk: '', ida: '', deal: '' };

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  databaseUrl = await newDatabase();
  sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined });
  const port = await findFreePort();
  base = `http://127.0.0.1:${port}`;
  server = await startServer({
    ...testSettings,
    DATABASE_URL: databaseUrl,
    DATA_DIR: folder,
    DEMO: '1',
    PORT: String(port),
    BASE_URL: base,
    // No other job changes a row between two digests.
    PAUSED_JOBS: jobNames.filter((name) => name !== 'reverts').join(),
  });
  useServer(base);
  const [, email = '', password = ''] = await vi.waitUntil(() => /Sign in: +(\S+) \/ (\S+)/.exec(server.output()));
  const query = { grant_type: 'password' };
  const session = await expectStatus(200, 'POST', '/auth/v1/token', { query, body: { email, password } });
  const token = session.body.access_token;
  const body = { name: 'Preparations', environment: 'live', scopes: ['*'] };
  key = (await expectStatus(201, 'POST', '/v1/api-keys', { token, body })).body.data.key;
  person = new Visitor(base);
  expect((await person.signIn(email, password)).status).toBe(303);
  await prepareRecords();
  tables = await listDigestedTables(ownTables, sql);
  assistant = await connect(email, password);
});

afterAll(async () => {
  useServer(undefined);
  await server?.stop();
  await sql?.end();
  await dropDatabase(databaseUrl);
  rmSync(folder, { recursive: true, force: true });
});

/** Creates the records of a small pipeline: two neglected leads, and one that was called yesterday. */
async function prepareRecords(): Promise<void> {
  const newLead = async (name: string): Promise<string> =>
    (await createRecord(key, 'leads', { first_name: name, email: `${name}@lead.example` })).id;
  records.nina = await newLead('Nina');
  records.omar = await newLead('Omar');
  records.lea = await newLead('Lea');
  for (const [id, days] of [
    [records.nina, -40],
    [records.lea, -1],
  ] as const) {
    const activity = { entity_type: 'lead', entity_id: id, activity_type: 'Call', summary: 'First call' };
    await expectStatus(201, 'POST', '/v1/activities', { key, body: { ...activity, performed_at: daysFromNow(days) } });
  }
  records.falk = (await createRecord(key, 'accounts', { name: 'Falk Roofing' })).id;
  const ida = { first_name: 'Ida', last_name: 'Falk', email: 'ida@falk.example', mobile: '+4915112345678' };
  records.ida = (await createRecord(key, 'customers', ida)).id;
  records.deal = (await createRecord(key, 'deals', { name: 'Roof of Falk', amount_minor: 1_200_000 })).id;
  await expectStatus(201, 'POST', '/v1/settings/tags/customers', { key, body: { name: 'VIP', fields: [] } });
}

/** Connects the assistant by consent, with “Ask me before each change”. @returns its access token */
async function connect(email: string, password: string): Promise<string> {
  const visitor = new AppVisitor(base);
  await visitor.signIn(email, password);
  const app = await register(base);
  const { verifier, challenge } = newProof();
  const scopes = ['users:view', 'settings:view'];
  const asked = { prompt: 'consent', resource: base + mcpPath, scope: scopes.join(' ') };
  const { to } = await visitor.ask(authorizeAddress(app, challenge, asked));
  const groups = ['records', 'pipeline', 'calendar', 'messaging'];
  const back = await visitor.decide(to ?? '', 'allow', groups, scopes, 'propose');
  const exchange = exchangeForm(app, back.searchParams.get('code') ?? '', verifier);
  return (await post(base, '/auth/v1/oauth/token', exchange)).body.access_token;
}

/** Sends a JSON-RPC request as the assistant. @returns its result */
async function ask(method: string, params: object): Promise<Json> {
  const answer: Answer = await call('POST', mcpPath, {
    token: assistant,
    body: { jsonrpc: '2.0', id: 1, method, params },
    headers: { accept: 'application/json', 'mcp-protocol-version': revision, 'x-forwarded-for': anyAddress() },
  });
  expect([answer.status, answer.body.error], answer.text).toEqual([200, undefined]);
  return answer.body.result;
}

/** Calls a tool that must succeed. @returns its data */
async function use(name: string, args: object): Promise<Json> {
  const result = await ask('tools/call', { name, arguments: args });
  expect(result.isError, result.content[0].text).toBeUndefined();
  expect(JSON.parse(result.content[0].text)).toEqual(result.structuredContent);
  return result.structuredContent;
}

/** Returns the error text of a tool that must fail. */
async function expectRejection(name: string, args: object): Promise<string> {
  const result = await ask('tools/call', { name, arguments: args });
  expect(result.isError, result.content[0].text).toBe(true);
  return result.content[0].text;
}

const digest = (): Promise<Map<string, string>> =>
  digestRows(tables, { companyId: demoCompanyId }, `select 'none', ''`, sql);

/**
 * Calls a tool that writes. Checks that its result asks for the approval of a person, and that no
 * row has changed.
 * @returns the ID of the change set
 */
async function propose(name: string, args: object): Promise<string> {
  const before = await digest();
  const result = await use(name, args);
  expect(await digest()).toEqual(before);
  const { id } = result.change_set;
  expect(result).toMatchObject({ proposed: true, change_set: { status: 'pending' } });
  expect(result.hint).toMatch(/^Proposed, not done: nothing has changed yet\. It waits for a person/);
  expect(result.hint).toContain(`get_change_set with id ${id}`);
  expect((await use('get_change_set', { id })).change_set).toMatchObject({ status: 'pending', decided_by: null });
  return id;
}

/** Approves a set on its page of the console. @returns the set as the assistant then reads it */
async function approve(id: string): Promise<Json> {
  const path = `/console/change-sets/${id}`;
  const { to } = await person.send(`${path}?mode=live`, { action: 'approve' }, path);
  expect(to).toMatch(/[?&]done=approved$/);
  const { change_set: set } = await use('get_change_set', { id });
  expect(set).toMatchObject({ status: 'applied', decided_by: { kind: 'user', name: 'Dana Demo' } });
  return set;
}

const read = (object: string, id: string): Promise<Json> => readRecord(key, object, id);
const list = async (path: string): Promise<Json> => (await expectStatus(200, 'GET', path, { key })).body.data;

test('the assistant learns that it only proposes, before it changes anything', async () => {
  const client = { capabilities: {}, clientInfo: { name: 'assistant', version: '1.0.0' } };
  const { instructions } = await ask('initialize', { protocolVersion: revision, ...client });
  expect(instructions).toMatch(/proposed = true, nothing has changed yet: a person has to approve/);
  const { tools } = await ask('tools/list', {});
  const names = tools.map(({ name }: Json) => name);
  expect(names).toContain('get_change_set');
  expect(names).not.toContain('book_meeting');
  expect(await use('whoami', {})).toMatchObject({ write_mode: 'propose', environment: 'live' });
});

test('1. creates follow-up tasks for all leads that nobody has contacted for 30 days', async () => {
  const field = 'last_contacted_at';
  const filter = {
    or: [
      { field, op: 'lt', value: daysFromNow(-30) },
      { field, op: 'is_null', value: true },
    ],
  };
  const found = (await use('query_records', { object: 'leads', filter, fields: 'first_name', sort: 'first_name' }))
    .records;
  expect(found.map(({ id }: Json) => id)).toEqual([records.nina, records.omar]);
  const task = { title: 'Follow up', scheduled_at: daysFromNow(1), task_type: 'Follow-up' };
  const sets: string[] = [];
  for (const { id } of found) sets.push(await propose('create_task', { object: 'leads', id, ...task }));
  for (const id of sets) await approve(id);
  for (const id of [records.nina, records.omar])
    expect((await list(`/v1/objects/leads/records/${id}/tasks`)).tasks).toMatchObject([{ title: 'Follow up' }]);
  expect((await list(`/v1/objects/leads/records/${records.lea}/tasks`)).tasks).toEqual([]);
});

test('2. moves a deal to the next stage, with the reason', async () => {
  const { stage } = (await use('get_record', { object: 'deals', id: records.deal })).record;
  const { statuses } = await use('list_settings', { kind: 'statuses', object: 'deals' });
  const names = statuses.map(({ name }: Json) => name);
  const next = names[names.indexOf(stage) + 1];
  expect([stage, next]).toEqual(['New', 'Contacted']);
  const reason = 'They asked for an offer';
  const set = await approve(await propose('move_deal_stage', { id: records.deal, stage: next, reason }));
  expect(set.operations[0].before).toMatchObject({ record: { stage: 'New' } });
  expect(await read('deals', records.deal)).toMatchObject({ stage: 'Contacted' });
});

test('3. logs a call on an account', async () => {
  const [hit] = (await use('search', { q: 'Falk Roofing' })).groups[0].hits;
  expect(hit.id).toBe(records.falk);
  const activity = { activity_type: 'Call', summary: 'They want 40 panels', outcome: 'Offer by Friday' };
  await approve(await propose('log_activity', { entity_type: 'account', entity_id: hit.id, ...activity }));
  const logged = await list(`/v1/activities?entity_type=account&entity_id=${hit.id}`);
  expect(logged.activities).toMatchObject([{ summary: 'They want 40 panels', created_by: { name: 'Dana Demo' } }]);
});

test('4. creates a contact, and links it to its company after an error that says how', async () => {
  const record = { first_name: 'Per', last_name: 'Lund', email: 'per@falk.example' };
  const created = await approve(await propose('create_record', { object: 'customers', record }));
  // The ID in the proposal was that of a trial. The applied set has the real one.
  const { id } = created.operations[0].after.record;
  expect(await read('customers', id)).toMatchObject(record);
  const link = { object: 'customers', id, link_type: 'account', record_id: records.falk };
  expect(await expectRejection('link_records', link)).toMatch(/account is a reference\. Change account_id/);
  const change = { object: 'customers', id, record: { account_id: records.falk } };
  await approve(await propose('update_record', change));
  expect(await read('customers', id)).toMatchObject({ account_id: records.falk });
});

test('5. tags a customer as VIP', async () => {
  const { tags } = await use('list_settings', { kind: 'tags', object: 'customers' });
  expect(tags.map(({ name }: Json) => name)).toContain('VIP');
  const { customer } = await use('get_customer', { email: 'ida@falk.example' });
  const change = { object: 'customers', id: customer.id, record: { tags: ['VIP'] } };
  await approve(await propose('update_record', change));
  const { record } = await list(`/v1/objects/customers/records/${records.ida}?expand=tags`);
  expect(record.expanded.tags).toMatchObject([{ name: 'VIP' }]);
});

test('6. corrects a phone number, after an error that says what is wrong with it', async () => {
  const change = (mobile: string) => ({ object: 'customers', id: records.ida, record: { mobile } });
  expect(await expectRejection('update_record', change('12'))).toMatch(/^VALIDATION_ERROR: .*\n- mobile \(/);
  await approve(await propose('update_record', change('+4915187654321')));
  expect(await read('customers', records.ida)).toMatchObject({ mobile: '+4915187654321' });
});

test('7. assigns a lead to a user found by name, and the assignment is undone byte for byte', async () => {
  const before = await read('leads', records.nina);
  const { users } = await use('find_users', { q: 'Jonas' });
  expect(users).toMatchObject([{ full_name: 'Jonas Reuter' }]);
  const change = { object: 'leads', id: records.nina, record: { assigned_to: users[0].id } };
  const set = await approve(await propose('update_record', change));
  expect(await read('leads', records.nina)).toMatchObject({ assigned_to: users[0].id });

  const planned = await expectStatus(201, 'POST', '/v1/reverts', { key, body: { change_set_id: set.id } });
  const { revert: plan } = planned.body.data;
  expect(plan).toMatchObject({ status: 'planned', counts: { records: 1, conflicts: 0 } });
  const path = `/v1/reverts/${plan.id}`;
  await expectStatus(202, 'POST', `${path}/apply`, { key, body: { digest: plan.digest, conflicts: 'fail' } });
  const ended = await vi.waitUntil(
    async () => {
      const { revert } = await list(path);
      return revert.status !== 'running' && revert;
    },
    { timeout: 30_000, interval: 50 },
  );
  expect(ended).toMatchObject({ status: 'completed', counts: { reverted: 1 } });
  // The time of the last change is that of the revert.
  const after = await read('leads', records.nina);
  expect(JSON.stringify({ ...after, updated_at: null })).toBe(JSON.stringify({ ...before, updated_at: null }));
});

test('8. leaves a message that it cannot draft as a note, because the error says why', async () => {
  const before = await digest();
  const message = { channel: 'email', to: 'ida@falk.example', subject: 'Your offer', body: 'Dear Ida, here it is.' };
  const error = await expectRejection('draft_message', message);
  expect(error).toMatch(/^FORBIDDEN_SCOPE: This credential only proposes changes.* Ask a person to do it/);
  expect(await digest()).toEqual(before);
  const content = `To ${message.to}: ${message.body}`;
  await approve(await propose('add_note', { object: 'customers', id: records.ida, content }));
  expect((await list(`/v1/objects/customers/records/${records.ida}/notes`)).notes).toMatchObject([{ content }]);
});

test('9. finds slots for a meeting, which a person then books', async () => {
  const before = await digest();
  const { pools } = await use('list_settings', { kind: 'scheduling_pools' });
  const pool = pools.find(({ name }: Json) => name === 'Sales');
  const { slots } = await use('find_slots', { pool_id: pool.id, from: daysFromNow(2), to: daysFromNow(9), limit: 3 });
  expect(slots).toHaveLength(3);
  const { slot_token } = slots[0];
  const meeting = { attendee: { name: 'Ida', email: 'ida@falk.example' }, meeting: { title: 'Offer' } };
  expect(await expectRejection('hold_slot', { slot_token })).toMatch(/^FORBIDDEN_SCOPE: .* Ask a person to do it/);
  expect(await expectRejection('book_meeting', { slot_token, ...meeting })).toMatch(/Ask a person to do it/);
  expect(await digest()).toEqual(before);
});

test('10. summarizes the pipeline without a proposal', async () => {
  const before = await digest();
  const sets = async (): Promise<number> => (await list('/v1/change-sets?limit=100')).change_sets.length;
  const count = await sets();
  const { by_status: stages } = await use('pipeline_report', { object: 'deals' });
  const open = stages.filter(({ outcome }: Json) => outcome === 'open');
  const total = open.reduce((sum: number, { amount_minor }: Json) => sum + amount_minor, 0);
  const report = await use('run_report', { object: 'deals', metric: 'sum', field: 'amount_minor' });
  expect([total, report.value ?? report.groups?.[0]?.value]).toEqual([1_200_000, 1_200_000]);
  expect(await digest()).toEqual(before);
  expect(await sets()).toBe(count);
});
