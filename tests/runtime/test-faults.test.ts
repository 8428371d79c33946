// Test-Fault: the failures that integrators can ask for, and what each leaves behind.
import { randomUUID } from 'node:crypto';
import { type Duplex, PassThrough } from 'node:stream';
import { beforeAll, describe, expect, test } from 'vitest';
import { waitForEnd } from '../../runtime/pipeline/test-faults.ts';
import { call, expectStatus } from '../support/client.ts';
import { post } from '../support/mcp.ts';
import { recordsPath } from '../support/records.ts';
import { signIn } from '../support/sign-in.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

const accounts = recordsPath('accounts');

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
});

/** Creates an account with a fault. */
const create = (fault: string, name: string, options: { key?: string; idempotencyKey?: string } = {}) =>
  call('POST', accounts, {
    key: tenant.testKey,
    body: { name },
    idempotencyKey: true,
    ...options,
    headers: { 'test-fault': fault },
  });

/** Returns how many accounts of the test mode have a name. */
async function countAccounts(name: string): Promise<number> {
  const rows = await database()`
    select from accounts where company_id = ${tenant.companyId} and test_mode and name = ${name}`;
  return rows.length;
}

describe('a fault that answers', () => {
  test('429 names the second after which the call may be repeated, and does nothing', async () => {
    const answer = await create('429', 'Limited');
    expect([answer.status, answer.body.error.code]).toEqual([429, 'RATE_LIMIT_EXCEEDED']);
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
    expect(answer.body.error.details).toMatchObject({ remaining: 0, retry_after: 1 });
    expect(await countAccounts('Limited')).toBe(0);
  });

  test('503 does nothing, and leaves the Idempotency-Key to the retry', async () => {
    const idempotencyKey = randomUUID();
    const answer = await create('503', 'Unavailable', { idempotencyKey });
    expect([answer.status, answer.body.error.code]).toEqual([503, 'SERVICE_UNAVAILABLE']);
    expect(await countAccounts('Unavailable')).toBe(0);
    const options = { key: tenant.testKey, body: { name: 'Unavailable' }, idempotencyKey };
    const retried = await expectStatus(201, 'POST', accounts, options);
    expect(retried.headers.get('idempotent-replay')).toBeNull();
  });

  test('slow_2000 carries the call out and answers two seconds later', async () => {
    const start = performance.now();
    const answer = await create('slow_2000', 'Slow');
    expect(answer.status).toBe(201);
    // Timers may fire up to a millisecond early.
    expect(performance.now() - start).toBeGreaterThanOrEqual(1999);
  });
});

describe('a fault that closes the connection', () => {
  test('drop_after_commit carries the call out once; a retry with the same key gets the stored response', async () => {
    const idempotencyKey = randomUUID();
    await expect(create('drop_after_commit', 'Dropped', { idempotencyKey })).rejects.toThrow(
      /socket hang up|ECONNRESET/,
    );
    expect(await countAccounts('Dropped')).toBe(1);
    const options = { key: tenant.testKey, body: { name: 'Dropped' }, idempotencyKey };
    const retried = await expectStatus(201, 'POST', accounts, options);
    expect(retried.headers.get('idempotent-replay')).toBe('true');
    expect(await countAccounts('Dropped')).toBe(1);
  });

  test('timeout carries nothing out and answers nothing while other calls are answered', async () => {
    const endings: string[] = [];
    const pending = call('POST', accounts, {
      key: tenant.testKey,
      body: { name: 'Silent' },
      idempotencyKey: true,
      headers: { 'test-fault': 'timeout' },
      within: 1500,
    }).then(
      () => endings.push('answered'),
      () => endings.push('given up'),
    );
    expect(await countAccounts('Silent')).toBe(0);
    expect(endings).toEqual([]);
    await pending;
    expect(endings).toEqual(['given up']);
    expect(await countAccounts('Silent')).toBe(0);
  });
});

test('the silence ends after its time, or when the client disconnects or resets the connection', async () => {
  const request = (socket: Duplex) => Object.assign(new PassThrough(), { socket }) as never;
  await waitForEnd({ delay: 20, isAnswered: false }, request(new PassThrough()));
  const socket = new PassThrough();
  const ended = waitForEnd({ delay: 3_600_000, isAnswered: false }, request(socket));
  socket.destroy();
  await ended;
  const reset = new PassThrough().on('error', () => undefined);
  const endedByReset = waitForEnd({ delay: 3_600_000, isAnswered: false }, request(reset));
  reset.destroy(new Error('read ECONNRESET'));
  await endedByReset;
});

describe('the header', () => {
  test('is rejected with every credential but a test key, so that it cannot lose a live write', async () => {
    const live = await create('drop_after_commit', 'Live', { key: tenant.key });
    expect([live.status, live.body.error.code]).toEqual([403, 'FORBIDDEN_SCOPE']);
    expect(live.body.error.details).toEqual({ required_scopes: [], reason: 'test_key_required' });
    const { access_token: token } = await signIn(tenant);
    const session = await call('GET', '/v1/me', { token, headers: { 'test-fault': '503' } });
    expect([session.status, session.body.error.details.reason]).toEqual([403, 'test_key_required']);
  });

  test('has no effect on calls that need no credential', async () => {
    await expectStatus(200, 'GET', '/v1/health', { headers: { 'test-fault': '503' } });
  });

  test('with an unknown value is rejected with the allowed ones, and nothing is done', async () => {
    const answer = await create('500', 'Unknown');
    expect([answer.status, answer.body.error.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(answer.body.error.details.fields).toMatchObject([
      {
        field: 'test-fault',
        code: 'INVALID_OPTION',
        allowed: ['429', '503', 'timeout', 'drop_after_commit', 'slow_2000'],
      },
    ]);
    expect(await countAccounts('Unknown')).toBe(0);
  });

  test('makes no fault for a revoked key', async () => {
    const key = await newKey(tenant, { environment: 'test' });
    await expectStatus(200, 'GET', accounts, { key });
    await database()`
      update api_keys set revoked_at = now() where company_id = ${tenant.companyId} and id = (
        select id from api_keys where company_id = ${tenant.companyId} order by created_at desc limit 1)`;
    const answer = await create('503', 'Revoked', { key });
    expect(answer.status).toBe(401);
  });

  test('works for calls of MCP tools, too', async () => {
    const params = { name: 'list_object_types', arguments: {} };
    const limited = await post('tools/call', params, { key: tenant.testKey, headers: { 'test-fault': '429' } });
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '1']);
    const live = await post('tools/call', params, { key: tenant.key, headers: { 'test-fault': '429' } });
    expect(live.status).toBe(403);
  });
});
