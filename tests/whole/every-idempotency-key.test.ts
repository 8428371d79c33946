// Idempotency-Keys of every operation that accepts them.
import { createHash, randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import type { Mode } from '../support/arranged-ids.ts';
import { type Answer, call } from '../support/client.ts';
import { exchange, requestText } from '../support/raw-connection.ts';
import { goodRequest, newWideTenant } from '../support/requests.ts';
import { bodySchema } from '../support/schemas.ts';
import { database, type Tenant } from '../support/tenants.ts';
import { expectFailure, honouring } from '../support/walk.ts';

let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newWideTenant(), newWideTenant()]);
});

describe.skipIf(honouring.length === 0)('idempotency keys', () => {
  test.each(honouring)(
    'replays the first response of $id byte for byte for the same key and body',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      const first = await call(operation.method, path, { ...options, idempotencyKey });
      expect(first.status).toBeLessThan(300);
      expect(first.headers.get('idempotent-replay')).toBeNull();
      const reordered = JSON.stringify(options.body, null, 2);
      const sameBodies = options.rawBody ? [{}] : [{ body: options.body }, { rawBody: reordered, body: undefined }];
      for (const body of sameBodies) {
        const again = await call(operation.method, path, { ...options, ...body, idempotencyKey });
        expect({ status: again.status, text: again.text }).toEqual({ status: first.status, text: first.text });
        expect(again.headers.get('idempotent-replay')).toBe('true');
      }
    },
  );

  test('binds a key to the resource that the path names, in any spelling', async () => {
    const options = { key: tenant.key, idempotencyKey: randomUUID(), body: { name: 'Acme' } };
    const first = await call('POST', '/v1/objects/accounts/records', options);
    const again = await call('POST', '/v1/objects/%61ccounts/records', options);
    expect({ status: again.status, text: again.text }).toEqual({ status: 201, text: first.text });
    expect(again.headers.get('idempotent-replay')).toBe('true');
  });

  test.each(honouring.filter((operation) => bodySchema(operation)))(
    'rejects the same key with another body in $id',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      await call(operation.method, path, { ...options, idempotencyKey });
      const answer = await call(operation.method, path, { ...options, body: { zzz: 1 }, idempotencyKey });
      expectFailure(operation, answer, 422, 'IDEMPOTENCY_CONFLICT');
    },
  );

  test.each(honouring)('executes $id once for 16 concurrent calls with one key', async (operation) => {
    const [alone, crowd] = [randomUUID(), randomUUID()];
    const once = await goodRequest(operation, tenant);
    await call(operation.method, once.path, { ...once.options, idempotencyKey: alone });
    const { path, options } = await goodRequest(operation, tenant);
    const ask = (): Promise<Answer> => call(operation.method, path, { ...options, idempotencyKey: crowd });
    const answers = await Promise.all(Array.from({ length: 16 }, ask));
    const running = answers.filter((answer) => answer.status === 409);
    for (const answer of running) expectFailure(operation, answer, 409, 'IDEMPOTENCY_IN_PROGRESS');
    const done = answers.filter((answer) => answer.status !== 409);
    expect(done.filter((answer) => answer.headers.get('idempotent-replay') === null)).toHaveLength(1);
    expect(new Set(done.map((answer) => `${answer.status} ${answer.text}`)).size).toBe(1);
    expect(await changesBy(crowd)).toBe(await changesBy(alone));
  });

  test.each(honouring.filter((operation) => bodySchema(operation)))(
    'executes one of two bodies of $id for 16 concurrent calls with one key, and always rejects the other',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      const bodies = [options.body, { zzz: 1 }];
      const ask = async (body: unknown): Promise<string> => {
        const answer = await call(operation.method, path, { ...options, body, idempotencyKey });
        return answer.body.error?.code ?? 'done';
      };
      const codes = await Promise.all(Array.from({ length: 16 }, (_, index) => ask(bodies[index % 2])));
      // While no response is stored yet, each call may be rejected because another is in progress.
      const isRefusal = (code: string): boolean => /^IDEMPOTENCY_(CONFLICT|IN_PROGRESS)$/.test(code);
      const outcomes = [0, 1].map((side) => codes.filter((code, index) => index % 2 === side && !isRefusal(code)));
      const winner = outcomes.findIndex((side) => side.length > 0);
      expect([winner >= 0, new Set(outcomes[winner]).size, outcomes[1 - winner]]).toEqual([true, 1, []]);
      expect(await ask(bodies[winner])).toBe(outcomes[winner]?.[0]);
      expect(await ask(bodies[1 - winner])).toBe('IDEMPOTENCY_CONFLICT');
    },
  );

  test.each(honouring)('separates the keys of $id by tenant and mode', async (operation) => {
    const idempotencyKey = randomUUID();
    const callers: [Tenant, Mode][] = [
      [tenant, 'live'],
      [tenant, 'test'],
      [other, 'live'],
    ];
    for (const [whose, mode] of callers) {
      if (operation.declared[mode === 'test' ? 'x-live-only' : 'x-test-only']) continue;
      const { path, options } = await goodRequest(operation, whose, { mode });
      const answer = await call(operation.method, path, { ...options, idempotencyKey });
      expect(answer.status).toBeLessThan(300);
      expect(answer.headers.get('idempotent-replay')).toBeNull();
    }
  });

  test.each(honouring)('rejects a malformed key of $id before anything runs', async (operation) => {
    const { path, options } = await goodRequest(operation, tenant);
    for (const idempotencyKey of ['short-7', 'x'.repeat(256), 'with space', 'sémicolon', 'semi;colon', '']) {
      const headers = requestHeaders(options.key ?? '', Buffer.from(idempotencyKey).toString('latin1'));
      const answer = await exchange(requestText(operation.method, path, headers, JSON.stringify(options.body)));
      expect({ status: answer.status, error: JSON.parse(answer.body).error }).toMatchObject({
        status: 400,
        error: { code: 'VALIDATION_ERROR', details: { reason: 'invalid_idempotency_key' } },
      });
    }
  });

  test.each(honouring.filter((operation) => operation.declared['x-idempotency'] === 'required'))(
    'requires a key for $id',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const { idempotencyKey: _key, ...rest } = options;
      const answer = await call(operation.method, path, rest);
      expectFailure(operation, answer, 428, 'IDEMPOTENCY_KEY_REQUIRED');
    },
  );

  test.each(honouring)(
    'returns 409 from $id while the first call with a key runs, and lets that call finish',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      const ask = (body = options.body): Promise<Answer> =>
        call(operation.method, path, { ...options, body, idempotencyKey });
      // Blocks the first call in the middle: its row of stored responses is locked and not
      // committed.
      const held = await database().reserve();
      await held`begin`;
      await held`
      insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
      values (${tenant.companyId}, ${operation.declared['x-test-only'] === true}, ${`${operation.method} ${path}`}, ${idempotencyKey}, '', 0, '', now())`;
      const first = ask();
      try {
        await vi.waitUntil(
          async () =>
            (await held`select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))`).length > 0,
        );
        const second = await ask();
        expectFailure(operation, second, 409, 'IDEMPOTENCY_IN_PROGRESS');
        expect(second.headers.get('retry-after')).toBe('1');
        if (options.body) expectFailure(operation, await ask({ zzz: 1 }), 422, 'IDEMPOTENCY_CONFLICT');
      } finally {
        await held`rollback`;
        held.release();
      }
      const done = await first;
      expect(done.status).toBeLessThan(300);
      expect((await ask()).text).toBe(done.text);
    },
  );

  /** Counts the audit rows of calls with the key. */
  async function changesBy(idempotencyKey: string): Promise<number> {
    const hash = createHash('sha256').update(idempotencyKey).digest();
    const [row] = await database()<{ count: number }[]>`
      select count(*)::int as count from audit_logs where company_id = ${tenant.companyId} and idempotency_key_hash = ${hash}`;
    return row?.count ?? 0;
  }

  const requestHeaders = (key: string, idempotencyKey: string): Record<string, string> => ({
    'x-api-key': key,
    'content-type': 'application/json',
    'idempotency-key': idempotencyKey,
  });
});
