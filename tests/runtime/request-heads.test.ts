// Request heads that a parser accepts and a server must not: rejected, and the connection closed.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { anyAddress, call, expectStatus } from '../support/client.ts';
import { Connection, exchange } from '../support/raw-connection.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
});

const from = (): string => `X-Forwarded-For: ${anyAddress()}\r\n`;

describe('a request', () => {
  test.each([
    ['two Hosts', 'GET /v1/health HTTP/1.1\r\nHost: a\r\nHost: b\r\n'],
    ['the same Host twice', 'GET /v1/health HTTP/1.1\r\nHost: a\r\nhost: a\r\n'],
    ['a Host of two words', 'GET /v1/health HTTP/1.1\r\nHost: a b\r\n'],
    ['a Host with a path', 'GET /v1/health HTTP/1.1\r\nHost: a/b\r\n'],
    ['a Host with a user', 'GET /v1/health HTTP/1.1\r\nHost: u@a\r\n'],
    ['a Host with a port of letters', 'GET /v1/health HTTP/1.1\r\nHost: a:x\r\n'],
    ['a list of Hosts', 'GET /v1/health HTTP/1.1\r\nHost: a, b c\r\n'],
    ['no Host', 'GET /v1/health HTTP/1.1\r\n'],
    ['a Host of two words in HTTP/1.0', 'GET /v1/health HTTP/1.0\r\nHost: a b\r\n'],
    ['HTTP/0.9', 'GET /v1/health HTTP/0.9\r\nHost: a\r\n'],
    ['HTTP/2.0', 'GET /v1/health HTTP/2.0\r\nHost: a\r\n'],
    ['HTTP/1.2', 'GET /v1/health HTTP/1.2\r\nHost: a\r\n'],
  ])('rejects a request with %s with 400, and closes the connection', async (_, head) => {
    const connection = new Connection();
    const { status, body } = await connection.send(`${head}${from()}\r\n`).answer();
    expect([status, JSON.parse(body).error.details]).toEqual([400, { reason: 'malformed_request' }]);
    await connection.closed;
  });

  test.each([
    'a',
    'crm.example',
    'crm.example:443',
    'crm.example:',
    '127.0.0.1:80',
    '[::1]:8080',
    '[2001:db8::1]',
    '',
    'a_b-c.d',
  ])('answers a request with the Host %j', async (host) => {
    expect((await exchange(`GET /v1/health HTTP/1.1\r\nHost: ${host}\r\n${from()}\r\n`)).status).toBe(200);
  });

  test.each(['gzip, chunked', 'identity, chunked', 'chunked, chunked', 'x-chunked, chunked'])(
    'rejects the transfer coding %s, and does not perform the request',
    async (coding) => {
      const name = `Coded ${randomUUID()}`;
      const body = JSON.stringify({ name });
      const head = `POST /v1/objects/accounts/records HTTP/1.1\r\nHost: a\r\n${from()}x-api-key: ${tenant.key}\r\n`;
      const more = `Content-Type: application/json\r\nIdempotency-Key: ${randomUUID()}\r\nTransfer-Encoding: ${coding}\r\n\r\n`;
      const answer = await exchange(`${head}${more}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
      expect([answer.status, JSON.parse(answer.body).error.details]).toEqual([400, { reason: 'malformed_request' }]);
      const filter = JSON.stringify({ field: 'name', op: 'eq', value: name });
      const found = await call('GET', '/v1/objects/accounts/records', { key: tenant.key, query: { filter } });
      expect(found.body.data.records).toEqual([]);
    },
  );

  test('rejects a request that never ends with 400, in its headers or in its body', async () => {
    const head = `POST /v1/objects/accounts/records HTTP/1.1\r\nHost: a\r\n${from()}x-api-key: ${tenant.key}\r\n`;
    const withBody = `${head}Content-Type: application/json\r\nIdempotency-Key: ${randomUUID()}\r\nContent-Length: 100\r\n\r\n{`;
    const answers = await Promise.all([head, withBody].map((text) => exchange(text)));
    for (const { status, body } of answers)
      expect([status, JSON.parse(body).error.details]).toEqual([400, { reason: 'request_timeout' }]);
  });
});

describe('integers in a query', () => {
  const ask = (limit: string) => call('GET', `/v1/objects/accounts/records?limit=${limit}`, { key: tenant.key });

  test.each(['0x10', '1e3', '5.', '%2010', '10%20', '%2B5', '5.0', '0b1', '1_0', '', '%D9%A3', 'Infinity', '--5'])(
    '%j is not an integer',
    async (limit) => {
      const { status, body } = await ask(limit);
      expect([status, body.error?.details.fields]).toEqual([
        400,
        [{ field: 'limit', code: 'INVALID_TYPE', message: 'limit must be an integer.' }],
      ]);
    },
  );

  test.each(['0', '-5', '1000', '7', '007'])('%j is an integer', async (limit) => {
    expect((await ask(limit)).status).toBe(200);
  });

  test('booleans must be true or false', async () => {
    for (const [count, status] of [
      ['true', 200],
      ['false', 200],
      ['1', 400],
      ['TRUE', 400],
      ['', 400],
    ]) {
      const path = `/v1/objects/accounts/records?count=${count}`;
      expect([count, (await call('GET', path, { key: tenant.key })).status]).toEqual([count, status]);
    }
  });
});

describe('times with an impossible offset', () => {
  const offsets: [string, boolean][] = [
    ['%2B15:59', true],
    ['-15:59', true],
    ['%2B14:00', true],
    ['%2B16:00', false],
    ['-16:00', false],
    ['%2B23:59', false],
  ];

  test.each(offsets)('accepts times with the offset %s in queries: %s', async (offset, isGood) => {
    for (const name of ['performed_from', 'performed_to']) {
      const { status, body } = await call('GET', `/v1/activities?${name}=2026-11-27T07:24:50${offset}`, {
        key: tenant.key,
      });
      expect([status, body.error?.details.fields[0].code]).toEqual(isGood ? [200, undefined] : [400, 'INVALID_FORMAT']);
    }
  });

  test.each(offsets)('accepts times with the offset %s in records: %s', async (offset, isGood) => {
    const scheduled_at = `2026-11-27T07:24:50${decodeURIComponent(offset)}`;
    const { status, body } = await call('POST', '/v1/objects/tasks/records', {
      key: tenant.key,
      idempotencyKey: true,
      body: { title: 'Call', scheduled_at },
    });
    const problems = (body.error?.details.fields ?? []).filter(
      (each: { field: string }) => each.field === 'scheduled_at',
    );
    expect([status, problems.length]).not.toEqual(isGood ? [422, 1] : [201, 0]);
    expect(problems.length).toBe(isGood ? 0 : 1);
  });
});

describe('error responses for test keys', () => {
  test('marks every error for test keys with test_mode, unlike those for live keys', async () => {
    const unknown = `svc_test_${'0'.repeat(32)}`;
    for (const [method, path, key, status] of [
      ['GET', '/v1/objects/accounts/records/x', tenant.testKey, 404],
      ['GET', '/v1/objects/accounts/records?zzz=1', tenant.testKey, 400],
      ['POST', '/v1/objects/accounts/records', tenant.testKey, 428],
      ['GET', '/v1/nowhere', tenant.testKey, 404],
      ['PUT', '/v1/activities', tenant.testKey, 405],
      ['GET', '/v1/activities', unknown, 401],
    ] as const) {
      const { body } = await expectStatus(status, method, path, { key });
      expect(body.meta.test_mode, `${method} ${path}`).toBe(true);
      const live = await call(method, path, { key: tenant.key });
      expect(live.body.meta).not.toHaveProperty('test_mode');
    }
  });

  test('marks replays for test keys with test_mode too', async () => {
    const options = { key: tenant.testKey, idempotencyKey: randomUUID(), body: {} };
    const first = await expectStatus(422, 'POST', '/v1/objects/accounts/records', options);
    const replay = await expectStatus(422, 'POST', '/v1/objects/accounts/records', options);
    expect(first.body.meta.test_mode).toBe(true);
    expect(replay.text).toBe(first.text);
  });
});

test('no request of this file caused an unexpected error', () => {
  expect(readFileSync(inject('logFile'), 'utf8')).not.toContain('"unexpected error"');
});
