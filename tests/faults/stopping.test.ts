// A server that is told to stop: requests in flight finish, clients move over to another server, and nobody notices.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Connection, requestText } from '../support/raw.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { newPlatformKey } from '../support/tenants.ts';

let platformKey: string;

beforeAll(async () => {
  platformKey = await newPlatformKey();
});

const start = (): Promise<TestServer> =>
  startServer({
    ...testSettings,
    DATABASE_URL: inject('databaseUrl'),
    SECRET_KEY: inject('secretKey'),
    DATA_DIR: '.test-data',
    DATABASE_POOL: '4',
  });

/** The state of one client that keeps asking, and goes to the other server when one does not take its call. */
interface Client {
  answered: number;
  moved: number;
  /** Answers that were no success, and answers that broke off. */
  failures: string[];
}

async function keepAsking(servers: readonly string[], until: () => boolean): Promise<Client> {
  const client: Client = { answered: 0, moved: 0, failures: [] };
  let at = 0;
  while (!until()) {
    const write = client.answered % 2 === 1;
    try {
      const response = await fetch(`${servers[at]}${write ? '/v1/check-email' : '/v1/health'}`, {
        method: write ? 'POST' : 'GET',
        headers: { 'x-api-key': platformKey, 'content-type': 'application/json' },
        ...(write ? { body: JSON.stringify({ email: `${randomUUID()}@example.com` }) } : {}),
      });
      const text = await response.text();
      if (response.status !== 200) client.failures.push(`${response.status} ${text}`);
      client.answered += 1;
    } catch (error) {
      const { code, message } = ((error as Error).cause ?? error) as { code?: string; message: string };
      // Refused, or closed before an answer began: the call is made again elsewhere.
      const notTaken = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(code ?? '');
      if (!notTaken) client.failures.push(`${code} ${message}`);
      client.moved += 1;
      at = (at + 1) % servers.length;
    }
  }
  return client;
}

describe('SIGTERM', () => {
  test('under load, with a second server beside, fails no request', async () => {
    const [first, second] = await Promise.all([start(), start()]);
    let finished = false;
    const clients = Array.from({ length: 16 }, () => keepAsking([first.url, second.url], () => finished));
    await vi.waitUntil(() => first.output().split('"msg":"request"').length > 200, { timeout: 10_000 });
    expect(await first.stop('SIGTERM')).toBe(0);
    expect(first.output()).toContain('"msg":"stopped"');
    await vi.waitUntil(() => second.output().split('"msg":"request"').length > 200, { timeout: 10_000 });
    finished = true;
    const done = await Promise.all(clients);
    expect(done.flatMap((client) => client.failures)).toEqual([]);
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
    const body = JSON.stringify({ email: 'sara@example.com' });
    const request = requestText(
      'POST',
      '/v1/check-email',
      { 'x-api-key': platformKey, 'content-type': 'application/json' },
      body,
    );
    connection.send(request.subarray(0, -5));
    await vi.waitUntil(async () => (await keepAsking([server.url], once())).answered === 1);
    const stopped = server.stop('SIGTERM');
    await idle.closed;
    const answer = await connection.send(request.subarray(-5)).answer();
    expect({ status: answer.status, connection: answer.headers.get('connection') }).toEqual({
      status: 200,
      connection: 'close',
    });
    await connection.closed;
    expect(await stopped).toBe(0);
  });

  test('does not wait for ever for a client that never finishes', { timeout: 20_000 }, async () => {
    const server = await start();
    const connection = new Connection(server.url);
    connection.send(requestText('POST', '/v1/check-email', { 'x-api-key': platformKey, 'content-length': '100' }));
    await vi.waitUntil(async () => (await keepAsking([server.url], once())).answered === 1);
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
