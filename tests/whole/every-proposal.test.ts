// Every operation and every tool with a credential that only proposes: none of them changes a row.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { jobNames } from '../../jobs/index.ts';
import { tools } from '../../mcp/tools.ts';
import type { TenantTable } from '../isolation/schema.ts';
import { newBearer } from '../support/access-tokens.ts';
import { type Answer, type CallOptions, call } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { callTool } from '../support/mcp.ts';
import { toolExamples } from '../support/mcp-examples.ts';
import { PausedJobs } from '../support/paused-jobs.ts';
import { createRecord } from '../support/records.ts';
import { goodRequest, isForPlatform, newWideTenant } from '../support/requests.ts';
import { digestRows, listDigestedTables } from '../support/row-digests.ts';
import { database, newKey, type Tenant } from '../support/tenants.ts';
import { openedByKey, openedByOAuth } from '../support/walk.ts';

/** Tables that a proposal itself writes. */
const ownTables = ['change_sets', 'credential_versions', 'audit_logs', 'outbox_events', 'idempotency_records'];
const writes = operations.filter(({ method, declared }) => method !== 'GET' && !declared['x-only-reads']);
const isWrite = ({ id }: { id: string }): boolean => writes.some((each) => each.id === id);
/** They make and withdraw proposals. */
const proposing = ['createChangeSet', 'withdrawChangeSet'];

let paused: PausedJobs;
let tenant: Tenant;
let tables: TenantTable[];
let key: string;
let testKey: string;
beforeAll(async () => {
  // No job changes a row between two digests.
  paused = await PausedJobs.of(...jobNames);
  tenant = await newWideTenant();
  tables = await listDigestedTables(ownTables);
  key = await newKey(tenant, { writeMode: 'propose' });
  testKey = await newKey(tenant, { writeMode: 'propose', environment: 'test' });
  return () => paused.close();
});

/** Returns a digest of the tenant's rows by table, and its audit rows that are not about proposals. */
function digestAll(): Promise<Map<string, string>> {
  const audit = `select 'audit_logs', count(*)::text from audit_logs
    where company_id = '${tenant.companyId}' and action not in ('change_set.submit', 'change_set.withdraw')`;
  return digestRows(tables, tenant, audit);
}

type Declared = (typeof operations)[number];

async function expectNoChange(operation: Declared, credential: CallOptions, isTest: boolean): Promise<Answer> {
  const { path, options } = await goodRequest(operation, tenant, { mode: isTest ? 'test' : 'live' });
  const { key: _key, token: _token, ...rest } = options;
  const idempotencyKey = options.idempotencyKey && randomUUID();
  const before = await digestAll();
  const answer = await call(operation.method, path, {
    ...rest,
    ...(idempotencyKey ? { idempotencyKey } : {}),
    ...credential,
  });
  expect(await digestAll()).toEqual(before);
  return answer;
}

function expectProposal({ id, declared }: Declared, answer: Answer): void {
  const shown = { status: answer.status, text: answer.text };
  if (proposing.includes(id)) expect([200, 201, 403], answer.text).toContain(answer.status);
  else if (declared['x-dry-run']) {
    expect([200, 202], answer.text).toContain(answer.status);
    expect(answer.body.data).toMatchObject({ change_set: { status: 'pending' } });
  } else {
    expect(shown).toMatchObject({ status: 403 });
    expect(answer.body.error.details.reason).toBe('propose_only');
  }
}

const byKey = openedByKey.filter((operation) => isWrite(operation) && !isForPlatform(operation));

test.each(byKey)('$id with an API key', async (operation) => {
  const isTest = operation.declared['x-test-only'] === true;
  expectProposal(operation, await expectNoChange(operation, { key: isTest ? testKey : key }, isTest));
});

test.each(byKey.filter(({ declared }) => declared['x-dry-run']))('a dry run of $id', async (operation) => {
  const { path, options } = await goodRequest(operation, tenant);
  const before = await digestAll();
  const sets = () => database()`select id from change_sets where company_id = ${tenant.companyId}`;
  const count = (await sets()).length;
  const answer = await call(operation.method, path, { ...options, key, headers: { 'dry-run': 'true' } });
  expect(answer.body.meta.dry_run, answer.text).toBe(true);
  expect(answer.status).toBeLessThan(300);
  expect(await digestAll()).toEqual(before);
  expect((await sets()).length).toBe(count);
});

test.each(openedByOAuth.filter((operation) => isWrite(operation) && !operation.declared['x-test-only']))(
  '$id with an app whose user is asked before each change',
  async (operation) => {
    const scopes = (operation.declared.security as Record<string, string[]>[]).flatMap(({ oauth }) => oauth ?? []);
    const all = [...new Set(scopes)].filter((scope) => !scope.startsWith('{'));
    const groups = ['records', 'pipeline', 'automation', 'calendar', 'messaging', 'billing', 'admin'];
    const token = await newBearer(tenant, all, { groups, writeMode: 'propose' });
    const answer = await expectNoChange(operation, { token }, false);
    // The consent may lack a scope that the operation needs for the object of the example.
    if (answer.status !== 403) expectProposal(operation, answer);
  },
);

describe('a tool', () => {
  const hidden = ['hold_slot', 'book_meeting', 'draft_message'];

  test.each(tools.filter(({ effect }) => effect !== 'reads'))('$name changes nothing', async ({ name }) => {
    const { id } = await createRecord(tenant.key, 'leads', {
      first_name: 'Sara',
      email: `${randomUUID()}@example.com`,
    });
    const args = await toolExamples(tenant, id)[name]?.();
    const before = await digestAll();
    const { body } = await callTool(name, args ?? {}, { key });
    expect(await digestAll()).toEqual(before);
    // Tools whose operations cannot be proposed are not offered.
    if (hidden.includes(name)) {
      expect(body.result.isError).toBe(true);
      expect(body.result.content[0].text).toMatch(/^FORBIDDEN_SCOPE: This credential only proposes .*Ask a person/);
    } else expect(body.result.structuredContent).toMatchObject({ proposed: true, change_set: { status: 'pending' } });
  });
});
