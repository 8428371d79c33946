// The log of the server: one JSON line per request and event, without secrets.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let server: TestServer;
let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: '.test-data',
    METRICS_PORT: '0',
  });
});
afterAll(() => server?.stop());

describe('The log', () => {
  test('logs one JSON line per event and request from start to stop, with caller, operation and outcome', async () => {
    const { url: baseUrl } = server;
    const body = { name: 'Whispered' };
    const created = await expectStatus(201, 'POST', '/v1/objects/accounts/records', {
      key: tenant.key,
      body,
      baseUrl,
      headers: { 'idempotency-key': 'a-key-of-the-caller' },
    });
    const refused = await expectStatus(401, 'GET', '/v1/me', { key: `${tenant.key}0`, baseUrl });
    expect(await server.stop()).toBe(0);
    const lines = server
      .output()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    for (const line of lines)
      expect(line).toMatchObject({ level: 'info', time: expect.any(String), pid: server.pid, msg: expect.any(String) });
    expect(lines.map(({ msg }) => msg)).toEqual([
      'listening',
      'request',
      'request',
      expect.stringContaining('stopping'),
      'stopped',
    ]);
    expect(lines[1]).toMatchObject({
      request_id: created.headers.get('x-request-id'),
      operation: 'createRecord',
      method: 'POST',
      status: 201,
      ms: expect.any(Number),
      company: tenant.companyId,
      actor: expect.any(String),
      test_mode: false,
    });
    expect(lines[2]).toMatchObject({
      request_id: refused.headers.get('x-request-id'),
      operation: 'getMe',
      method: 'GET',
      status: 401,
      error: refused.body.error.code,
    });
    for (const secret of [tenant.key, inject('secretKey'), 'Whispered', 'a-key-of-the-caller', tenant.admin.email])
      expect(server.output()).not.toContain(secret);
  });
});
