// The embedded PostgreSQL: started again when it dies, or the server ends too; of one server alone.
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
 * Kills it as nothing in it can notice. What serves connections would answer until it sees that its parent is gone;
 * one process never sees it, as one that waits for a lock of the killed does not.
 * @returns the process
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

describe('that is killed', () => {
  test('three times under 16 writers is back within seconds, and has every acknowledged write once', async () => {
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
        // Before it could be back: it says so, and does not hang.
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

describe('on whose folder a second server starts', () => {
  test('stays with the first, and is taken from it when it was killed', async () => {
    const first = await startServer(settings);
    const { key } = await newWorkspace();
    const refused = /Another server \(process \d+\) uses the database in .*, or set DATA_DIR to another folder\./;
    await expect(startServer(settings)).rejects.toThrow(refused);
    // Its database was not touched.
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

describe('that cannot be started again', () => {
  /** A server whose database has been killed, and lacks a file that it needs. */
  async function strike(): Promise<{ server: TestServer; pid: number; mend: () => void; id: string; key: string }> {
    const server = await startServer(settings);
    useServer(server.url);
    const { key } = await newWorkspace();
    const { id } = await createRecord(key, 'accounts', { name: 'Kept' });
    const [row] = await database()`show data_directory`;
    const needed = `${row?.data_directory}/global/pg_control`;
    renameSync(needed, `${needed}.away`);
    const pid = await killDatabase();
    return { server, pid, mend: () => renameSync(`${needed}.away`, needed), id, key };
  }

  test('ends the server with a sentence after some tries; started again, both are back', async () => {
    const { server, pid, mend, id, key } = await strike();
    await expectStatus(503, 'GET', '/v1/me', { key });
    await vi.waitFor(() => expect(server.output()).toContain('The server ends, since'), { timeout: 60_000 });
    expect(await server.stop()).toBe(1);
    expect(runs(pid)).toBe(false);
    const lines = server.output().split('\n');
    const told = (kind: string) => lines.filter((line) => line.includes(`"alert":"${kind}"`));
    expect(told('embedded_database_died')).toHaveLength(7);
    expect(told('embedded_database_died')[0]).toContain('"reason":"It ended by SIGKILL.","again_in_ms":100');
    expect(told('embedded_database_lost')).toHaveLength(1);
    expect(told('embedded_database_lost')[0]).toContain('pg_control');
    mend();
    const again = await startServer(settings);
    try {
      useServer(again.url);
      expect(await readRecord(key, 'accounts', id)).toMatchObject({ name: 'Kept' });
    } finally {
      await again.stop();
    }
  });

  test('does not keep a server from stopping', async () => {
    const { server, pid, mend } = await strike();
    await sleep(500);
    const asked = performance.now();
    expect(await server.stop()).toBe(0);
    expect(performance.now() - asked).toBeLessThan(30_000);
    expect(runs(pid)).toBe(false);
    mend();
    expect(findRunning(folder)).toBeUndefined();
  });
});
