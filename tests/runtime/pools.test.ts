// Connections of a pool: how many are opened at a time, and which are used.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { isOutage, Pool } from '../../db/client/pool.ts';

/** Connections that arrived, and whether they are forwarded to PostgreSQL. */
let came: Socket[];
let gate: 'open' | 'held' | 'cut' | 'reset';
let openGate: () => void;
let door: Server;
let pool: Pool;

beforeEach(async () => {
  came = [];
  gate = 'open';
  const opened = new Promise<void>((resolve) => {
    openGate = resolve;
  });
  const { port, hostname } = new URL(inject('databaseUrl'));
  door = createServer(async (socket) => {
    came.push(socket);
    socket.on('error', () => undefined);
    if (gate === 'cut') return socket.destroy();
    if (gate === 'reset') return socket.resetAndDestroy();
    if (gate === 'held') await opened;
    const there = connect(Number(port), hostname);
    there.on('error', () => socket.destroy());
    return socket.pipe(there).pipe(socket);
  }).listen(0, '127.0.0.1');
  await once(door, 'listening');
  const url = new URL(inject('databaseUrl'));
  url.port = String((door.address() as AddressInfo).port);
  const shared = { url: url.href, role: 'crm_app', prepare: true, spread: false };
  pool = new Pool({ ...shared, lanes: 6, wait: 10_000, statementTimeout: 5000 });
});
afterEach(async () => {
  openGate();
  await pool.close(1);
  for (const socket of came) socket.destroy();
  door.close();
});

const ask = () => pool.use(async (sql) => (await sql<{ one: number }[]>`select 1 as one`)[0]?.one);
const askTimes = (times: number) => Promise.all(Array.from({ length: times }, ask));

describe('Connections of a pool', () => {
  test('opens two connections at a time, and serves waiting callers with the first ones', async () => {
    gate = 'held';
    const answers = askTimes(20);
    await expect.poll(() => came.length).toBe(2);
    await sleep(200);
    expect(came.length).toBe(2);
    expect(pool.usage).toMatchObject({ lanes: 6, waiting: 18 });
    openGate();
    expect(await answers).toEqual(Array.from({ length: 20 }, () => 1));
    expect(came.length).toBeLessThanOrEqual(6);
    expect(pool.usage).toMatchObject({ free: 6, waiting: 0 });
  });

  test('has connections ready before the first call if it was opened ahead', async () => {
    await pool.open();
    gate = 'held';
    expect(came.length).toBe(2);
    expect(await ask()).toBe(1);
    expect(came.length).toBe(2);
  });

  test.each(['cut', 'reset'] as const)(
    'opens connections on the next call if opening them ahead failed: %s',
    async (how) => {
      gate = how;
      await pool.open();
      gate = 'open';
      expect(await ask()).toBe(1);
      expect(pool.usage).toMatchObject({ lanes: 6, free: 6, waiting: 0 });
    },
  );

  test('does not reuse connections after a reset during a statement', async () => {
    expect(await ask()).toBe(1);
    const asked = pool
      .use((sql) => sql`select pg_sleep(10)`)
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    await expect.poll(() => pool.usage.free).toBe(5);
    await sleep(50);
    for (const socket of came) socket.resetAndDestroy();
    expect(isOutage(await asked)).toBe(true);
    expect(await ask()).toBe(1);
  });

  test('does not count connections as open that were acquired and never used', async () => {
    const unused = [await pool.acquire(), await pool.acquire()];
    for (const lane of unused) pool.release(lane);
    gate = 'held';
    const answers = askTimes(10);
    await expect.poll(() => came.length).toBe(2);
    await sleep(200);
    expect(came.length).toBe(2);
    openGate();
    expect(await answers).toEqual(Array.from({ length: 10 }, () => 1));
  });

  test('opens all connections if all are needed', async () => {
    const all = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const lane = await pool.acquire();
        await pool.sendTogether(lane, ['select 1']);
        return lane;
      }),
    );
    expect(came.length).toBe(6);
    for (const lane of all) pool.release(lane);
  });

  test('prefers open connections', async () => {
    for (let turn = 0; turn < 5; turn += 1) expect(await ask()).toBe(1);
    expect(came.length).toBe(1);
    // A broken connection is replaced by an unopened one, which waits behind the open ones.
    await askTimes(6);
    const before = came.length;
    expect(before).toBeGreaterThan(1);
    came[0]?.destroy();
    for (let turn = 0; turn < 20; turn += 1) await ask().catch(() => undefined);
    expect(came.length).toBeLessThanOrEqual(before + 1);
  });

  test('continues after connections that cannot be opened', async () => {
    gate = 'cut';
    const failed = await Promise.allSettled(Array.from({ length: 10 }, ask));
    expect(failed.every((each) => each.status === 'rejected' && isOutage(each.reason))).toBe(true);
    gate = 'open';
    expect(await askTimes(20)).toEqual(Array.from({ length: 20 }, () => 1));
    expect(pool.usage).toMatchObject({ lanes: 6, free: 6, waiting: 0 });
  });
});
