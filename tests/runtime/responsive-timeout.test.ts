// Timeouts while this process is too busy to read what has arrived.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { grace, Pool } from '../../db/client/pool.ts';
import { Deadline, DeadlinePassed } from '../../runtime/pipeline/deadline.ts';
import { readResponsiveClock, startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';
import { newTenant } from '../support/tenants.ts';

/** Blocks the event loop. */
function block(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

const free = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => startResponsiveTimeout(resolve, milliseconds));

describe('a responsive timeout', () => {
  test('fires after its time, and not before', async () => {
    const started = performance.now();
    await free(40);
    expect(performance.now() - started).toBeGreaterThanOrEqual(40);
  });

  test('does not fire if it is canceled, even by another one in the same tick', async () => {
    const fired: string[] = [];
    const cancels: (() => void)[] = [];
    const cancelOthers = (name: string) => () => {
      fired.push(name);
      for (const cancel of cancels) cancel();
    };
    for (const name of ['first', 'second', 'third']) cancels.push(startResponsiveTimeout(cancelOthers(name), 20));
    await free(60);
    expect(fired).toHaveLength(1);
  });

  test('counts time in which the event loop is blocked as one short tick', async () => {
    const waited = free(100);
    const before = readResponsiveClock();
    block(400);
    await new Promise((resolve) => setTimeout(resolve));
    expect(readResponsiveClock() - before).toBeLessThan(100);
    await waited;
  });
});

describe('a database that answers while this process is blocked', () => {
  const times = { wait: 500, statementTimeout: 500 };
  let pool: Pool;

  beforeAll(async () => {
    pool = new Pool({ url: inject('databaseUrl'), role: 'crm_app', prepare: true, spread: false, lanes: 1, ...times });
    await pool.use((sql) => sql`select 1`);
  });
  afterAll(() => pool.close(1));

  test('keeps the connection if the database responds while this process is blocked', async () => {
    const answer = pool.use((sql) => sql`select 7 as value`.execute());
    await new Promise((resolve) => setImmediate(resolve));
    block(times.statementTimeout + grace + 300);
    expect(await answer).toMatchObject([{ value: 7 }]);
  });

  test('frees the connection for the next caller although this process was blocked', async () => {
    const first = pool.use((sql) => sql`select 1`);
    const second = pool.use((sql) => sql`select 2 as value`);
    await new Promise((resolve) => setImmediate(resolve));
    block(times.wait + 300);
    await first;
    expect(await second).toMatchObject([{ value: 2 }]);
  });

  test('commits the transaction of a job although this process was blocked', async () => {
    const { companyId } = await newTenant();
    const scope = { companyId, testMode: false };
    const answer = inTransaction(pool, scope, 1000, async (sql) => {
      const rows = sql`select 3 as value`.execute();
      await new Promise((resolve) => setImmediate(resolve));
      block(1300);
      return await rows;
    });
    expect(await answer).toMatchObject([{ value: 3 }]);
  });

  test('meets the deadline of a request although this process was blocked, unless the database is silent', async () => {
    const answer = new Deadline().race(() => pool.use((sql) => sql`select 5 as value`.execute()));
    await new Promise((resolve) => setImmediate(resolve));
    block(2500);
    expect(await answer).toMatchObject([{ value: 5 }]);
    await expect(new Deadline().race(() => new Promise(() => undefined))).rejects.toBeInstanceOf(DeadlinePassed);
  });
});
