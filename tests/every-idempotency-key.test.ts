// Idempotency keys of every operation that takes them.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import type { Mode } from './support/arranged-ids.ts';
import { type Answer, call } from './support/client.ts';
import { exchange, requestText } from './support/raw.ts';
import { goodRequest, newWideTenant } from './support/requests.ts';
import { bodySchema } from './support/schemas.ts';
import { database, type Tenant } from './support/tenants.ts';
import { expectFailure, honouring } from './support/walk.ts';

let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newWideTenant(), newWideTenant()]);
});

describe.skipIf(honouring.length === 0)('idempotency keys', () => {
  test.each(honouring)(
    '$id gives the first answer again, byte for byte, for the same key and body',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      const first = await call(operation.method, path, { ...options, idempotencyKey });
      expect(first.status).toBeLessThan(300);
      expect(first.headers.get('idempotent-replay')).toBeNull();
      const reordered = JSON.stringify(options.body, null, 2);
      for (const body of [{ body: options.body }, { rawBody: reordered, body: undefined }]) {
        const again = await call(operation.method, path, { ...options, ...body, idempotencyKey });
        expect({ status: again.status, text: again.text }).toEqual({ status: first.status, text: first.text });
        expect(again.headers.get('idempotent-replay')).toBe('true');
      }
    },
  );

  test.each(honouring.filter((operation) => bodySchema(operation)))(
    '$id refuses the same key with another body',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      await call(operation.method, path, { ...options, idempotencyKey });
      const answer = await call(operation.method, path, { ...options, body: { zzz: 1 }, idempotencyKey });
      expectFailure(operation, answer, 422, 'IDEMPOTENCY_CONFLICT');
    },
  );

  test.each(honouring)('$id keeps keys apart by tenant and by mode', async (operation) => {
    const idempotencyKey = randomUUID();
    const callers: [Tenant, Mode][] = [
      [tenant, 'live'],
      [tenant, 'test'],
      [other, 'live'],
    ];
    for (const [whose, mode] of callers) {
      const { path, options } = await goodRequest(operation, whose, { mode });
      const answer = await call(operation.method, path, { ...options, idempotencyKey });
      expect(answer.status).toBeLessThan(300);
      expect(answer.headers.get('idempotent-replay')).toBeNull();
    }
  });

  test.each(honouring)('$id refuses a malformed key before anything runs', async (operation) => {
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
    '$id needs a key',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const { idempotencyKey: _key, ...rest } = options;
      const answer = await call(operation.method, path, rest);
      expectFailure(operation, answer, 428, 'IDEMPOTENCY_KEY_REQUIRED');
    },
  );

  test.each(honouring)(
    '$id answers 409 while the first call with a key still runs, and lets it finish',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const idempotencyKey = randomUUID();
      const ask = (body = options.body): Promise<Answer> =>
        call(operation.method, path, { ...options, body, idempotencyKey });
      // The place where the first call keeps its answer, taken and not yet committed: it stops in the middle.
      const held = await database().reserve();
      await held`begin`;
      await held`
      insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
      values (${tenant.companyId}, false, ${`${operation.method} ${path}`}, ${idempotencyKey}, '', 0, '', now())`;
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

  const requestHeaders = (key: string, idempotencyKey: string): Record<string, string> => ({
    'x-api-key': key,
    'content-type': 'application/json',
    'idempotency-key': idempotencyKey,
  });
});
