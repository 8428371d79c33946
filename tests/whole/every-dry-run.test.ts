// Dry runs of every operation that offers them: the response of the real call, and no effect.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { jobNames } from '../../jobs/index.ts';
import { type TenantTable, tenantTables } from '../isolation/schema.ts';
import { type Answer, call } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { PausedJobs } from '../support/paused-jobs.ts';
import { goodRequest, newWideTenant } from '../support/requests.ts';
import { bodyExamples, bodySchema } from '../support/schemas.ts';
import { database, type Tenant } from '../support/tenants.ts';
import { anyPath, expectFailure } from '../support/walk.ts';

const dry = { headers: { 'dry-run': 'true' } };
const offering = operations.filter(({ declared }) => declared['x-dry-run']);
const others = operations.filter(({ declared }) => !declared['x-dry-run']);

/** The tables that count and log calls. */
const counters = ['api_key_days', 'api_key_usage', 'api_quota', 'api_quota_blocks', 'request_log'];

let paused: PausedJobs;
let tenant: Tenant;
let tables: TenantTable[];

beforeAll(async () => {
  // No job changes a row between two digests, and none moves events out of the outbox.
  paused = await PausedJobs.of(...jobNames);
  tenant = await newWideTenant();
  tables = (await tenantTables(database())).filter(({ name }) => !counters.includes(name));
  return () => paused.close();
});

/** Returns a digest of the tenant's rows by table, and the last values of the sequences of changes. */
async function digestRows(): Promise<Map<string, string>> {
  const parts = tables.map(
    ({
      name,
      company,
    }) => `select '${name}' as name, coalesce(md5(string_agg(t::text, '' order by t::text)), '') as digest
      from ${name} t where ${company} = '${tenant.companyId}'`,
  );
  const numbers = `select sequencename, last_value::text from pg_sequences where sequencename ~ '^(audit_logs|outbox_events)'`;
  const rows = await database().unsafe<{ name: string; digest: string }[]>([...parts, numbers].join(' union all '));
  return new Map(rows.map(({ name, digest }) => [name, digest]));
}

const uuid = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;

/** Returns the response without the values that are new for each call. */
function comparable({ status, body }: Answer): object {
  const { meta: _, ...rest } = body;
  const text = JSON.stringify(rest, (name, value) =>
    /^(temp_password|secret|secret_last4)$/.test(name) ? name : value,
  );
  return { status, body: JSON.parse(text.replaceAll(uuid, 'an id').replaceAll(time, 'a time')) };
}

/** Returns what a call recorded, in the format of meta.would. */
async function readEffects(answer: Answer): Promise<{ events: string[]; audit: string[] }> {
  const requestId = answer.headers.get('x-request-id');
  const audit = await database()<{ name: string }[]>`
    select action as name from audit_logs where company_id = ${tenant.companyId} and request_id = ${requestId} order by seq`;
  const events = await database()<{ name: string }[]>`
    select event as name from outbox_events where company_id = ${tenant.companyId} and request_id = ${requestId} order by seq`;
  const names = (rows: readonly { name: string }[]): string[] => [...new Set(rows.map(({ name }) => name))];
  return { events: names(events), audit: names(audit) };
}

const examples = offering.flatMap((operation) =>
  (bodyExamples(operation).length > 0 ? bodyExamples(operation) : [undefined]).map((_, example) => ({
    id: operation.id,
    example,
    operation,
  })),
);

test.each(examples)(
  'a dry run of $id, example $example, answers like the real call and changes nothing',
  async ({ operation, example }) => {
    const { path, options } = await goodRequest(operation, tenant, { example });
    const idempotencyKey = options.idempotencyKey && randomUUID();
    const request = { ...options, ...(idempotencyKey ? { idempotencyKey } : {}) };
    const before = await digestRows();
    const tried = await call(operation.method, path, { ...request, ...dry });
    expect(await digestRows()).toEqual(before);
    const real = await call(operation.method, path, request);
    expect({ text: real.text, isDone: real.status < 300 }).toMatchObject({ isDone: true });
    expect(real.headers.get('idempotent-replay')).toBeNull();
    expect(comparable(tried)).toEqual(comparable(real));
    expect(tried.headers.get('etag')).toBe(real.headers.get('etag'));
    expect([real.body.meta.dry_run, real.body.meta.would]).toEqual([undefined, undefined]);
    expect(tried.body.meta.dry_run).toBe(true);
    expect(tried.body.meta.would).toEqual(await readEffects(real));
  },
);

describe('a rejected dry run', () => {
  test.each(offering)('of $id is the usual error, carries meta.dry_run and changes nothing', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const wrong = bodySchema(operation) ? { ...options, body: { zzz: 1 } } : { ...options, query: { zzz: '1' } };
    const { idempotencyKey: _, ...rest } = wrong;
    const request = options.idempotencyKey ? { ...rest, idempotencyKey: randomUUID() } : rest;
    const before = await digestRows();
    const tried = await call(operation.method, path, { ...request, ...dry });
    expect(await digestRows()).toEqual(before);
    const real = await call(operation.method, path, request);
    expect(tried.status).toBeGreaterThanOrEqual(400);
    expect(comparable(tried)).toEqual(comparable(real));
    expect([tried.body.meta.dry_run, real.body.meta.dry_run]).toEqual([true, undefined]);
  });

  test.each(offering)('of $id without a credential carries meta.dry_run, too', async (operation) => {
    const answer = await call(operation.method, anyPath(operation), dry);
    expectFailure(operation, answer, 401, 'MISSING_API_KEY');
    expect(answer.body.meta.dry_run).toBe(true);
  });
});

test.each(offering)('$id accepts no other value of Dry-Run than true', async (operation) => {
  const { path, options } = await goodRequest(operation, tenant);
  const before = await digestRows();
  for (const value of ['false', 'TRUE', '1', '', 'true, true']) {
    const answer = await call(operation.method, path, { ...options, headers: { 'dry-run': value } });
    expectFailure(operation, answer, 400, 'VALIDATION_ERROR', { reason: 'invalid_dry_run' });
    expect(answer.body.meta.dry_run).toBeUndefined();
  }
  expect(await digestRows()).toEqual(before);
});

test.each(offering.filter(({ declared }) => declared['x-idempotency'] === 'required'))(
  'a dry run of $id requires an Idempotency-Key',
  async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const { idempotencyKey: _, ...rest } = options;
    const answer = await call(operation.method, path, { ...rest, ...dry });
    expectFailure(operation, answer, 428, 'IDEMPOTENCY_KEY_REQUIRED');
    expect(answer.body.meta.dry_run).toBe(true);
  },
);

describe('operations without dry runs', () => {
  test.each(others)('$id rejects the header and does nothing', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    const before = await digestRows();
    for (const value of ['true', 'false']) {
      const answer = await call(operation.method, path, { ...options, headers: { 'dry-run': value } });
      expectFailure(operation, answer, 400, 'VALIDATION_ERROR', { reason: 'dry_run_unsupported' });
    }
    expect(await digestRows()).toEqual(before);
  });
});
