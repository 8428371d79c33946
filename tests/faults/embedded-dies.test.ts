// The embedded PostgreSQL: restarted when it dies, or the server exits; used by one server only.
import { renameSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';
import { findRunning } from '../../app/embedded-postgres/database.ts';
import { call, expectStatus, useServer } from '../support/client.ts';
import { createRecord, readRecord } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { check } from './support/oracle.ts';
import { OwnServer } from './support/own-server.ts';
import { Random } from './support/random.ts';
import { Writers } from './support/writers.ts';

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `embedded-dies-${process.pid}`);
const settings = { ...testSettings, DATA_DIR: folder };
const random = new Random();

afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  await useDatabase(undefined);
  useServer(undefined);
});

async function newWorkspace(): Promise<Tenant> {
  await useDatabase(findRunning(folder));
  return newTenant();
}

/**
 * Kills the database without any of its processes noticing. Backends would answer until they see
 * that their parent is gone. The walwriter stays stopped, as a process that waits for a lock of a
 * killed one does.
 * @returns the process id
 */
async function killDatabase(): Promise<number> {
  const [row] = await database()`
    select split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int as pid,
      (select array_agg(pid) from pg_stat_activity where backend_type = 'client backend') as serving,
      (select pid from pg_stat_activity where backend_type = 'walwriter') as unaware`;
  for (const pid of [row?.pid, row?.unaware]) process.kill(pid, 'SIGSTOP');
  for (const pid of [...(row?.serving ?? []), row?.pid]) process.kill(pid, 'SIGKILL');
  return row?.pid;
}

const runs = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('an embedded database that is killed', () => {
  test('returns within seconds after three kills under 16 writers, with every acknowledged write once', async () => {
    process.stdout.write(`faults: the seed of the embedded database's deaths is ${random.seed}\n`);
    const server = await OwnServer.start(settings);
    try {
      const tenant = await newWorkspace();
      const apiKey = await newKey(tenant, { perMinute: 1_000_000, perHour: 10_000_000 });
      const writers = new Writers({ servers: [server.url], apiKey, random, count: 16 });
      const back: number[] = [];
      for (let kill = 0; kill < 3; kill += 1) {
        await writers.progress(random.whole(20, 100));
        await killDatabase();
        // Before the database can be back, the server answers 503 and does not hang.
        expect((await call('GET', '/v1/me', { key: apiKey, baseUrl: server.url, within: 15_000 })).status).toBe(503);
        back.push(await server.untilHealthy());
      }
      await writers.progress(50);
      await writers.settle();
      const tally = writers.takeTally();
      await writers.replayAll();
      expect(writers.violations).toEqual([]);
      expect(server.failures).toEqual([]);
      expect([...tally.broken]).toEqual([]);
      expect(await check(database(), tenant.companyId, writers.writes)).toEqual([]);
      process.stdout.write(`faults: healthy ${back.map(Math.round).join(', ')} ms after the embedded one was killed\n`);
    } finally {
      await server.stop();
    }
  });
});

describe('an embedded database whose folder a second server uses', () => {
  test('keeps the database with the first server, and gives it to the second after the first is killed', async () => {
    const first = await startServer(settings);
    const { key } = await newWorkspace();
    const refused = /Another server \(process \d+\) uses the database in .*, or set DATA_DIR to another folder\./;
    await expect(startServer(settings)).rejects.toThrow(refused);
    // The rejected start did not touch the database of the first server.
    useServer(first.url);
    const { id } = await createRecord(key, 'accounts', { name: 'Kept' });
    const running = findRunning(folder);
    expect(first.output()).not.toContain('embedded_database_died');
    await first.stop('SIGKILL');
    expect(findRunning(folder)).toBe(running);
    const second = await startServer(settings);
    try {
      useServer(second.url);
      expect(await readRecord(key, 'accounts', id)).toMatchObject({ name: 'Kept' });
    } finally {
      await second.stop();
    }
  });
});

describe('an embedded database that cannot be started again', () => {
  /** Starts a server and kills its database, which then lacks a file that it needs. */
  async function startWithLostDatabase(): Promise<{
    server: TestServer;
    pid: number;
    repair: () => void;
    id: string;
    key: string;
  }> {
    const server = await startServer(settings);
    useServer(server.url);
    const { key } = await newWorkspace();
    const { id } = await createRecord(key, 'accounts', { name: 'Kept' });
    const [row] = await database()`show data_directory`;
    const needed = `${row?.data_directory}/global/pg_control`;
    renameSync(needed, `${needed}.away`);
    const pid = await killDatabase();
    return { server, pid, repair: () => renameSync(`${needed}.away`, needed), id, key };
  }

  test('exits with a message after several attempts, and works again after a restart', async () => {
    const { server, pid, repair, id, key } = await startWithLostDatabase();
    await expectStatus(503, 'GET', '/v1/me', { key });
    await vi.waitFor(() => expect(server.output()).toContain('The server exits because'), { timeout: 60_000 });
    expect(await server.stop()).toBe(1);
    expect(runs(pid)).toBe(false);
    const lines = server.output().split('\n');
    const listAlerts = (kind: string) => lines.filter((line) => line.includes(`"alert":"${kind}"`));
    expect(listAlerts('embedded_database_died')).toHaveLength(7);
    expect(listAlerts('embedded_database_died')[0]).toContain('"reason":"It ended by SIGKILL.","again_in_ms":100');
    expect(listAlerts('embedded_database_lost')).toHaveLength(1);
    expect(listAlerts('embedded_database_lost')[0]).toContain('pg_control');
    repair();
    const again = await startServer(settings);
    try {
      useServer(again.url);
      expect(await readRecord(key, 'accounts', id)).toMatchObject({ name: 'Kept' });
    } finally {
      await again.stop();
    }
  });

  test('stops while its database cannot be started', async () => {
    const { server, pid, repair } = await startWithLostDatabase();
    await sleep(500);
    const asked = performance.now();
    expect(await server.stop()).toBe(0);
    expect(performance.now() - asked).toBeLessThan(30_000);
    expect(runs(pid)).toBe(false);
    repair();
    expect(findRunning(folder)).toBeUndefined();
  });
});
