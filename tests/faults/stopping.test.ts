// A server that is told to stop: requests in flight finish, clients move over to another server, and nobody notices.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Connection, requestText } from '../support/raw.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = await newKey(tenant, { perMinute: 1_000_000, perHour: 1_000_000 });
});

const start = (): Promise<TestServer> =>
  startServer({
    ...testSettings,
    DATABASE_URL: inject('databaseUrl'),
    SECRET_KEY: inject('secretKey'),
    DATA_DIR: '.test-data',
    DATABASE_POOL: '4',
  });

/** What happened to one client that keeps writing, and goes to the other server when one does not take its call. */
interface Client {
  /** Names that were acknowledged. */
  written: string[];
  moved: number;
  /** Answers that were no success, and answers that broke off. */
  failures: string[];
}

async function keepWriting(servers: readonly string[], until: () => boolean): Promise<Client> {
  const client: Client = { written: [], moved: 0, failures: [] };
  let at = 0;
  while (!until()) {
    const name = randomUUID();
    while (!(await write(name))) at = (at + 1) % servers.length;
  }
  return client;

  /** One call; false when the server did not take it. The same key makes a second try safe. */
  async function write(name: string): Promise<boolean> {
    try {
      const response = await fetch(`${servers[at]}/v1/objects/accounts/records`, {
        method: 'POST',
        headers: { 'x-api-key': key, 'content-type': 'application/json', 'idempotency-key': name },
        body: JSON.stringify({ name }),
      });
      const text = await response.text();
      if (response.status === 201) client.written.push(name);
      else client.failures.push(`${response.status} ${text}`);
      return true;
    } catch (error) {
      const { code, message } = ((error as Error).cause ?? error) as { code?: string; message: string };
      // Refused, or closed before an answer began: the call is made again elsewhere.
      const notTaken = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(code ?? '');
      if (!notTaken) client.failures.push(`${code} ${message}`);
      client.moved += 1;
      return !notTaken;
    }
  }
}

describe('SIGTERM', () => {
  test('under load, with a second server beside, fails no request and loses or doubles no write', async () => {
    const [first, second] = await Promise.all([start(), start()]);
    let finished = false;
    const clients = Array.from({ length: 16 }, () => keepWriting([first.url, second.url], () => finished));
    await vi.waitUntil(() => first.output().split('"msg":"request"').length > 200, { timeout: 10_000 });
    expect(await first.stop('SIGTERM')).toBe(0);
    expect(first.output()).toContain('"msg":"stopped"');
    await vi.waitUntil(() => second.output().split('"msg":"request"').length > 200, { timeout: 10_000 });
    finished = true;
    const done = await Promise.all(clients);
    expect(done.flatMap((client) => client.failures)).toEqual([]);
    const acknowledged = done.flatMap((client) => client.written);
    const stored = await database()<
      { name: string }[]
    >`select name from accounts where company_id = ${tenant.companyId}`;
    expect(stored.map((row) => row.name).toSorted()).toEqual(acknowledged.toSorted());
    // Each client is asked to go in an answer, or finds the door closed; none is cut off time and again.
    expect(Math.max(...done.map((client) => client.moved))).toBeLessThanOrEqual(2);
    expect(await second.stop('SIGTERM')).toBe(0);
  });

  test('lets a request that is being sent finish, and then closes its connection', async () => {
    const server = await start();
    const connection = new Connection(server.url);
    const idle = new Connection(server.url);
    idle.send(requestText('GET', '/v1/health'));
    expect((await idle.answer()).status).toBe(200);
    const headers = { 'x-api-key': key, 'content-type': 'application/json', 'idempotency-key': randomUUID() };
    const request = requestText('POST', '/v1/objects/accounts/records', headers, JSON.stringify({ name: 'Slow' }));
    connection.send(request.subarray(0, -5));
    await keepWriting([server.url], once());
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

  test('does not wait for ever for a client that never finishes', { timeout: 20_000 }, async () => {
    const server = await start();
    const connection = new Connection(server.url);
    connection.send(requestText('POST', '/v1/leads', { 'x-api-key': key, 'content-length': '100' }));
    await keepWriting([server.url], once());
    expect(await server.stop('SIGTERM')).toBe(0);
    connection.close();
  });

  test('given twice ends as one', async () => {
    const server = await start();
    process.kill(server.pid, 'SIGTERM');
    expect(await server.stop('SIGTERM')).toBe(0);
  });
});

/** True from the second time on. */
function once(): () => boolean {
  let asked = false;
  return () => {
    const before = asked;
    asked = true;
    return before;
  };
}
