// Clients that hold connections without using them are disconnected, and others are served.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newRecord } from '../support/arranged-ids.ts';
import { besideCommon } from '../support/databases.ts';
import { Connection, type RawAnswer, requestText } from '../support/raw-connection.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { newKey, newTenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

/** Milliseconds within which all of them are disconnected. */
const timeoutMs = 60_000;
/** Milliseconds to read the bytes in transit after the disconnect: megabytes, on a busy machine. */
const reading = 60_000;

let server: TestServer;
let key: string;
let uploads: string;

beforeAll(async () => {
  const tenant = await newTenant();
  key = await newKey(tenant, { perMinute: 1_000_000, perHour: 1_000_000 });
  uploads = `/v1/objects/accounts/records/${await newRecord(tenant, 'live', 'accounts')}/attachments`;
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: '.test-data',
    DATABASE_POOL: '2',
  });
});

afterAll(() => server?.stop());

/**
 * Opens connections that ignore the server's end, and returns how many the server has not closed by
 * then.
 */
async function stillOpen(
  count: number,
  use: (connection: Connection) => void,
  within: number = timeoutMs,
): Promise<number> {
  const connections = Array.from({ length: count }, () => new Connection(server.url));
  for (const connection of connections) use(connection);
  let open = count;
  const ends = connections.map((connection) =>
    connection.closed.then(() => {
      open -= 1;
    }),
  );
  await Promise.race([Promise.all(ends), sleep(within)]);
  // A client that does not read does not notice the disconnect. It now reads the bytes in transit
  // and the end after them.
  for (const connection of connections) connection.socket.resume();
  await Promise.race([Promise.all(ends), sleep(reading)]);
  for (const connection of connections) connection.close();
  return open;
}

/** Sends one byte per second. */
function trickle(connection: Connection, bytes: string): void {
  let sent = 0;
  const timer = setInterval(() => {
    connection.send(bytes[sent % bytes.length] ?? ' ');
    sent += 1;
  }, 1000);
  void connection.closed.then(() => clearInterval(timer));
}

/** Sends a file of 260 KB in 13 seconds. */
async function uploadSlowly(): Promise<RawAnswer> {
  const form = fileForm({ content: Buffer.alloc(260_000, 'a') });
  const headers = { ...form.headers, 'x-api-key': key, 'content-length': String(form.rawBody.length) };
  const connection = new Connection(server.url);
  connection.send(requestText('POST', uploads, headers));
  for (let sent = 0; sent < form.rawBody.length; sent += 20_000) {
    connection.send(form.rawBody.subarray(sent, sent + 20_000));
    await sleep(1000);
  }
  const answer = await connection.answer();
  connection.close();
  return answer;
}

describe('slow clients', () => {
  const attacks: Record<string, Promise<number>> = {};
  let served = 0;
  let slowUpload: Promise<RawAnswer>;

  beforeAll(async () => {
    attacks['50 that never send a byte'] = stillOpen(50, () => undefined);
    attacks['50 that send one byte of headers per second'] = stillOpen(50, (connection) => {
      connection.send('GET /v1/health HTTP/1.1\r\nHost: a\r\nX-Slow: ');
      trickle(connection, 'a');
    });
    attacks['50 that send one byte of a body per second'] = stillOpen(50, (connection) => {
      const headers = { 'x-api-key': key, 'content-type': 'application/json', 'content-length': '1000' };
      connection.send(requestText('POST', '/v1/leads', headers));
      trickle(connection, ' ');
    });
    attacks['20 that upload one byte of a file per second'] = stillOpen(20, (connection) => {
      const form = fileForm();
      const headers = { ...form.headers, 'x-api-key': key, 'content-length': '1000000' };
      connection.send(requestText('POST', uploads, headers)).send(form.rawBody.subarray(0, -60));
      trickle(connection, 'a');
    });
    attacks['20 that never read their responses'] = stillOpen(
      20,
      (connection) => {
        connection.socket.removeAllListeners('data').pause();
        for (let index = 0; index < 20; index += 1) connection.send(requestText('GET', '/docs/redoc.js'));
      },
      20_000,
    );
    slowUpload = uploadSlowly();
    let running = true;
    void Promise.all(Object.values(attacks)).then(() => {
      running = false;
    });
    while (running) {
      const response = await fetch(`${server.url}/v1/objects/leads/records`, {
        headers: { 'x-api-key': key },
        signal: AbortSignal.timeout(60_000),
      });
      expect(response.status).toBe(200);
      await response.text();
      served += 1;
    }
  });

  test.each([
    '50 that never send a byte',
    '50 that send one byte of headers per second',
    '50 that send one byte of a body per second',
    '20 that upload one byte of a file per second',
    '20 that never read their responses',
  ])('disconnects all of %s', async (attack) => {
    expect(await attacks[attack]).toBe(0);
  });

  test('accepts a file at 20 KB per second, although it takes longer than other requests may', async () => {
    expect((await slowUpload).status).toBe(201);
  });

  test('serves other clients while slow ones hold connections', () => {
    expect(served).toBeGreaterThan(100);
  });
});
