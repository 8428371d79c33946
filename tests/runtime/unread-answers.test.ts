// Clients that pipeline requests and do not read: their memory is bounded, and they are closed.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { besideCommon } from '../support/databases.ts';
import { readMetrics, seriesValue } from '../support/metrics.ts';
import { Connection, requestText } from '../support/raw-connection.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';

const mebibyte = 1024 * 1024;
/** Milliseconds until they are disconnected, doubled for a busy machine. */
const cutWithin = 90_000;

let server: TestServer;
beforeAll(async () => {
  server = await startServer({
    ...testSettings,
    ...besideCommon(),
    DATA_DIR: '.test-data',
    METRICS_PORT: '0',
  });
});
afterAll(() => server?.stop());

interface Figures {
  waiting: number;
  unreadBytes: number;
  cut: number;
}

async function figures(): Promise<Figures> {
  const text = await readMetrics(server);
  const readFigure = (name: string): number => seriesValue(text, `crm_http_${name}`) as number;
  return {
    waiting: readFigure('requests_waiting'),
    unreadBytes: readFigure('unread_bytes'),
    cut: readFigure('connections_cut_total'),
  };
}

/** Opens connections that send the same bytes and read nothing. */
function openDeaf(count: number, sent: Buffer): Connection[] {
  return Array.from({ length: count }, () => {
    const connection = new Connection(server.url);
    connection.socket.removeAllListeners('data').pause();
    return connection.send(sent);
  });
}

/**
 * Watches the figures while the connections are open. Other clients are served meanwhile.
 * @param isDone ends the watch; by default it ends after a backlog has built up and is gone
 * @returns the highest figures, and the last ones
 */
async function watch(
  connections: Connection[],
  isDone = (highest: Figures, last: Figures): boolean =>
    highest.unreadBytes >= mebibyte && last.waiting + last.unreadBytes === 0,
): Promise<{ highest: Figures; last: Figures }> {
  const highest = await figures();
  let last = highest;
  const end = performance.now() + cutWithin;
  while (performance.now() < end && !isDone(highest, last)) {
    last = await figures();
    for (const name of ['waiting', 'unreadBytes', 'cut'] as const) highest[name] = Math.max(highest[name], last[name]);
    expect((await fetch(`${server.url}/v1/nowhere`)).status).toBe(404);
    await sleep(100);
  }
  for (const connection of connections) connection.close();
  return { highest, last };
}

describe('clients that do not read', () => {
  test('bounds unread responses to 32 MB, and disconnects all clients that do not read', async () => {
    const page = requestText('GET', '/docs/redoc.js');
    const { highest, last } = await watch(openDeaf(80, Buffer.concat(Array(20).fill(page))));
    expect(highest.unreadBytes).toBeGreaterThan(16 * mebibyte);
    expect(highest.unreadBytes).toBeLessThanOrEqual(32 * mebibyte);
    expect(highest.cut).toBeGreaterThan(20);
    expect(last).toMatchObject({ waiting: 0, unreadBytes: 0 });
  });

  test('bounds waiting requests to 8 MB', async () => {
    const page = requestText('GET', '/docs/redoc.js');
    const before = (await figures()).cut;
    const atLeast = performance.now() + 3000;
    const { highest } = await watch(
      openDeaf(120, Buffer.concat(Array(100).fill(page))),
      ({ waiting, cut }) => performance.now() > atLeast && waiting > 2000 && cut - before > 20,
    );
    expect(highest.waiting).toBeGreaterThan(2000);
    expect(highest.waiting).toBeLessThanOrEqual((8 * mebibyte) / 3000);
    expect(highest.cut - before).toBeGreaterThan(20);
  });

  test('disconnects clients that do not read even if they keep sending', async () => {
    const connections = openDeaf(5, Buffer.concat(Array(20).fill(requestText('GET', '/docs/redoc.js'))));
    const more = setInterval(() => {
      for (const connection of connections) connection.send(requestText('GET', '/v1/nowhere'));
    }, 500);
    const { highest, last } = await watch(connections);
    clearInterval(more);
    expect(highest.unreadBytes).toBeGreaterThan(mebibyte);
    expect(last).toMatchObject({ waiting: 0, unreadBytes: 0 });
  });
});

test('a client that reads slowly receives all of its responses', async () => {
  const connection = new Connection(server.url);
  connection.send(Buffer.concat(Array.from({ length: 10 }, () => requestText('GET', '/docs/redoc.js'))));
  const pauses = setInterval(() => {
    connection.socket.pause();
    setTimeout(() => connection.socket.resume(), 400);
  }, 800);
  for (let index = 0; index < 10; index += 1) expect((await connection.answer()).status).toBe(200);
  clearInterval(pauses);
  connection.close();
});
