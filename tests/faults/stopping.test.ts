// A server that is asked to stop: requests in flight finish, clients move, and no call fails.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { besideCommon } from '../support/databases.ts';
import { Connection, requestText } from '../support/raw-connection.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';
import { keepWriting, namesOfAccounts } from '../support/writers.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = await newKey(tenant, { perMinute: 1_000_000, perHour: 1_000_000 });
});

const start = (): Promise<TestServer> =>
  startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: '.test-data',
    DATABASE_POOL: '4',
  });

describe('SIGTERM', () => {
  test('fails no request under load with a second server, and loses or doubles no write', async () => {
    const [first, second] = await Promise.all([start(), start()]);
    let finished = false;
    const clients = Array.from({ length: 16 }, () => keepWriting(key, [first.url, second.url], () => finished));
    await vi.waitUntil(() => first.output().split('"msg":"request"').length > 200);
    expect(await first.stop('SIGTERM')).toBe(0);
    expect(first.output()).toContain('"msg":"stopped"');
    await vi.waitUntil(() => second.output().split('"msg":"request"').length > 200);
    finished = true;
    const done = await Promise.all(clients);
    expect(done.flatMap((client) => client.failures)).toEqual([]);
    const acknowledged = done.flatMap((client) => client.written);
    expect(await namesOfAccounts(tenant)).toEqual(acknowledged.toSorted());
    // Each client is asked to disconnect in a response, or finds the port closed. None is cut off
    // repeatedly.
    expect(Math.max(...done.map((client) => client.moved))).toBeLessThanOrEqual(2);
    expect(await second.stop('SIGTERM')).toBe(0);
  });

  test('finishes a request that is being received, and then closes its connection', async () => {
    const server = await start();
    const connection = new Connection(server.url);
    const idle = new Connection(server.url);
    idle.send(requestText('GET', '/v1/health'));
    expect((await idle.answer()).status).toBe(200);
    const headers = { 'x-api-key': key, 'content-type': 'application/json', 'idempotency-key': randomUUID() };
    const request = requestText('POST', '/v1/objects/accounts/records', headers, JSON.stringify({ name: 'Slow' }));
    connection.send(request.subarray(0, -5));
    await keepWriting(key, [server.url], once());
    const stopped = server.stop('SIGTERM');
    await idle.closed;
    const answer = await connection.send(request.subarray(-5)).answer();
    expect({ status: answer.status, connection: answer.headers.get('connection') }).toEqual({
      status: 201,
      connection: 'close',
    });
    await connection.closed;
    expect(await stopped).toBe(0);
  });

  test('does not wait forever for a client that never finishes', async () => {
    const server = await start();
    const connection = new Connection(server.url);
    connection.send(requestText('POST', '/v1/leads', { 'x-api-key': key, 'content-length': '100' }));
    await keepWriting(key, [server.url], once());
    expect(await server.stop('SIGTERM')).toBe(0);
    connection.close();
  });

  test('treats a second SIGTERM like one', async () => {
    const server = await start();
    process.kill(server.pid, 'SIGTERM');
    expect(await server.stop('SIGTERM')).toBe(0);
  });
});

/** Returns a function that returns true from its second call on. */
function once(): () => boolean {
  let asked = false;
  return () => {
    const before = asked;
    asked = true;
    return before;
  };
}
