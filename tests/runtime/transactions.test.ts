// Transactions that share a connection over time: late statements never run in another one.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import { claimNow } from '../../db/client/idempotency.ts';
import type { KeyVersion } from '../../db/client/key-versions.ts';
import { isOutage, Pool } from '../../db/client/pool.ts';
import { type Preconditions, TransactionEnded } from '../../db/client/preconditions.ts';
import { enterTenant } from '../../db/client/tenant.ts';
import { Transaction } from '../../db/client/transaction.ts';
import { lockValues } from '../../db/client/value-locks.ts';
import { FaultProxy, through } from '../faults/support/proxy.ts';
import { tried } from '../support/noted-statements.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let pool: Pool;
let tenant: Tenant;
let stranger: Tenant;
beforeAll(async () => {
  const url = inject('databaseUrl');
  // One connection, so that each transaction reuses that of the previous one.
  pool = new Pool({
    url,
    role: tried('crm_app'),
    lanes: 1,
    prepare: true,
    spread: false,
    wait: 1000,
    statementTimeout: 1000,
  });
  [tenant, stranger] = [await newTenant(), await newTenant()];
});
afterAll(() => pool.close(1));

const begin = async ({ companyId }: Tenant) => Transaction.open(pool, { companyId, testMode: false });
const companies = (sql: Transaction['sql']) => sql<{ id: string }[]>`select id from companies`;

describe('a kept handle', () => {
  test.each(['endRead', 'abandon', 'destroy'] as const)(
    'a kept handle sends nothing into the next transaction after %s',
    async (end) => {
      const first = await begin(tenant);
      const { sql } = first;
      expect(await companies(sql)).toEqual([{ id: tenant.companyId }]);
      first[end]();
      const second = await begin(stranger);
      expect(await companies(second.sql)).toEqual([{ id: stranger.companyId }]);
      expect(() => companies(sql)).toThrow(TransactionEnded);
      expect(() => sql.unsafe('select 1')).toThrow(TransactionEnded);
      expect(() => first.sql).toThrow(TransactionEnded);
      expect(await companies(second.sql)).toEqual([{ id: stranger.companyId }]);
      second.endRead();
    },
  );

  test('a kept handle is invalid after a wait without a connection, and the transaction has a new one', async () => {
    const first = await begin(tenant);
    const { sql } = first;
    await companies(sql);
    await first.withoutConnection(sleep(1));
    expect(() => companies(sql)).toThrow(TransactionEnded);
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    first.abandon();
  });
});

describe('a call that passed its deadline', () => {
  test('releases the connection once after the deadline, even if the call waits without one afterwards', async () => {
    const late = await begin(tenant);
    late.destroy();
    await late.withoutConnection(sleep(1));
    expect(pool.usage).toMatchObject({ lanes: 1, free: 1 });
    expect(() => late.sql).toThrow(TransactionEnded);
  });

  test('releases the connection of a call that is resumed after its deadline', async () => {
    const late = await begin(tenant);
    await companies(late.sql);
    await late.suspend(1000);
    const holder = await begin(stranger);
    const resuming = late.resume();
    late.destroy();
    holder.endRead();
    await resuming;
    expect(() => late.sql).toThrow(TransactionEnded);
    expect(pool.usage).toMatchObject({ lanes: 1, free: 1 });
  });

  test('has a connection again after two concurrent waits without one', async () => {
    const first = await begin(tenant);
    await companies(first.sql);
    await Promise.all([first.withoutConnection(sleep(1)), first.withoutConnection(sleep(2))]);
    await first.withoutConnection(sleep(3));
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    first.endRead();
    expect(pool.usage.free).toBe(1);
  });
});

describe.each([
  ['pipelined', true],
  ['simple', false],
])('a checked rollback in %s messages', (_, prepare) => {
  let own: Pool;
  beforeAll(() => {
    const role = tried('crm_app');
    const url = inject('databaseUrl');
    own = new Pool({ url, role, lanes: 1, prepare, spread: false, wait: 1000, statementTimeout: 1000 });
  });
  afterAll(() => own.close(1));

  const beginOwn = () => Transaction.open(own, { companyId: tenant.companyId, testMode: false });
  const readName = async () => {
    const next = await beginOwn();
    const [row] = await next.sql<{ name: string }[]>`select name from companies where id = ${tenant.companyId}`;
    next.endRead();
    return row?.name;
  };

  test('rolls back and leaves a connection that works', async () => {
    const name = await readName();
    const dry = await beginOwn();
    dry.awaitAtCommit(dry.sql`update companies set name = 'Tried' where id = ${tenant.companyId}`.execute());
    await dry.checkAndRollBack(1000);
    expect(() => dry.sql).toThrow(TransactionEnded);
    expect(await readName()).toBe(name);
  });

  test('makes the checks that a commit would make, and reports the first failure', async () => {
    const dry = await beginOwn();
    await dry.sql`create temporary table tried (id integer unique deferrable initially deferred)`;
    await dry.sql`insert into tried values (1), (1)`;
    await expect(dry.checkAndRollBack(1000)).rejects.toMatchObject({ code: '23505' });
    const unawaited = await beginOwn();
    unawaited.awaitAtCommit(unawaited.sql`select 1 / 0`.execute());
    await expect(unawaited.checkAndRollBack(1000)).rejects.toMatchObject({ code: '22012' });
    const late = await beginOwn();
    await companies(late.sql);
    await expect(late.checkAndRollBack(0)).rejects.toMatchObject({ code: '57014' });
    expect(await readName()).toBe('Tenant');
    expect(own.usage).toMatchObject({ lanes: 1, free: 1 });
  });
});

describe('waiting without a connection', () => {
  test('releases the connection during a wait if nothing was written', async () => {
    const first = await begin(tenant);
    await companies(first.sql);
    let served = false;
    await first.withoutConnection(
      (async () => {
        const second = await begin(stranger);
        served = (await companies(second.sql))[0]?.id === stranger.companyId;
        second.endRead();
      })(),
    );
    expect(served).toBe(true);
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    first.endRead();
  });

  test('keeps connection and handle during a wait after a write, so that everything is one transaction', async () => {
    const first = await begin(tenant);
    const { sql } = first;
    await sql`update companies set name = 'Half done' where id = ${tenant.companyId}`;
    await first.withoutConnection(sleep(1));
    expect(await sql`select name from companies`).toEqual([{ name: 'Half done' }]);
    first.abandon();
    const second = await begin(tenant);
    expect(await second.sql`select name from companies`).toEqual([{ name: 'Tenant' }]);
    second.endRead();
  });

  test('rethrows an error of the awaited work, and the transaction remains usable', async () => {
    const first = await begin(tenant);
    await expect(first.withoutConnection(Promise.reject(new Error('the work failed')))).rejects.toThrow(
      'the work failed',
    );
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    first.endRead();
  });
});

describe('a commit', () => {
  const commit = (transaction: Transaction, left: number) => transaction.commit([], [], undefined, new Date(), left);
  const rename = (sql: Transaction['sql'], name: string) =>
    sql`update companies set name = ${name} where id = ${tenant.companyId}`;

  test('rejects a commit after its deadline as an outage, and the connection stays usable', async () => {
    const late = await begin(tenant);
    await rename(late.sql, 'Too late');
    const refused = await commit(late, 0).catch((error: unknown) => error);
    expect(isOutage(refused)).toBe(true);
    const next = await begin(tenant);
    expect(await next.sql`select name from companies`).toEqual([{ name: 'Tenant' }]);
    next.endRead();
  });

  test('commits before the deadline', async () => {
    const inTime = await begin(tenant);
    await rename(inTime.sql, 'In time');
    await commit(inTime, 1800);
    const next = await begin(tenant);
    expect(await next.sql`select name from companies`).toEqual([{ name: 'In time' }]);
    next.endRead();
  });
});

describe('a lock on a company', () => {
  test('fails a lock on a company that the transaction does not see, since nothing would be locked', async () => {
    const transaction = await begin(tenant);
    await lockValues(transaction.sql, tenant.companyId, ['a', 'b']);
    await expect(lockValues(transaction.sql, stranger.companyId, ['a'])).rejects.toThrow('does not exist');
    const claimed = { testMode: false, endpoint: 'POST /', key: 'a key of mine', requestHash: Buffer.alloc(32) };
    await expect(transaction.claim({ ...claimed, companyId: stranger.companyId })).rejects.toThrow('does not exist');
    transaction.abandon();
  });
});

describe('the deadline of a commit', () => {
  /**
   * Writes a change whose deadline passes, or not, between the check of the time and the commit.
   */
  const change = (id: string, milliseconds: number): Promise<unknown> =>
    database().begin(async (sql) => {
      await enterTenant(sql, { companyId: tenant.companyId, testMode: false });
      await sql`
        insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, test_mode)
        values (${tenant.companyId}, ${id}, now(), 'system', 'test', ${id}, 'local', 'test', false)`;
      await sql`call require_time_left(${milliseconds})`;
      await sql`select pg_sleep(0.3)`;
    });

  test('rows enforce a deadline that passes after the check of the time', async () => {
    const [late, timely] = [randomUUID(), randomUUID()];
    await expect(change(late, 250)).rejects.toMatchObject({ code: '57014' });
    await change(timely, 10_000);
    const rows = await database()`select id from audit_logs where company_id = ${tenant.companyId} and action = 'test'`;
    expect(rows).toEqual([{ id: timely }]);
  });

  test.each([true, false])(
    'rows enforce a deadline that passes while the commit waits, with prepare: %s',
    async (prepare) => {
      const scope = { companyId: tenant.companyId, testMode: false };
      const own = new Pool({
        url: inject('databaseUrl'),
        role: tried('crm_app'),
        lanes: 1,
        prepare,
        spread: false,
        wait: 1000,
        statementTimeout: 5000,
      });
      const transaction = await Transaction.open(own, scope);
      await transaction.sql`update companies set name = 'Held' where id = ${tenant.companyId}`;
      const row = buildSystemAuditRow(scope, 'test', 'test.held', {}, new Date());
      let committed: Promise<unknown> | undefined;
      await database().begin(async (sql) => {
        // The commit raises the version of the company's credentials before the audit rows check
        // the deadline.
        await sql`select from credential_versions where company_id = ${tenant.companyId} for update`;
        committed = transaction.commit([row], [], undefined, new Date(), 400).catch((error: unknown) => error);
        await sql`select pg_sleep(0.5)`;
      });
      expect(await committed).toMatchObject({ code: '57014' });
      await own.close(1);
      const rows =
        await database()`select from audit_logs where company_id = ${tenant.companyId} and action = 'test.held'`;
      expect(rows).toHaveLength(0);
    },
  );

  test('the deadline of a commit does not carry over to the next transaction', async () => {
    const first = await begin(tenant);
    await first.sql`update companies set name = 'Tenant' where id = ${tenant.companyId}`;
    await first.commit([], [], undefined, new Date(), 1000);
    const next = await begin(tenant);
    const [setting] = await next.sql`select current_setting('app.deadline', true) as deadline`;
    expect(setting?.deadline).toBe('');
    next.endRead();
  });
});

/** Returns the version of the tenant's keys. */
const readVersion = async (): Promise<KeyVersion> => {
  const { companyId } = tenant;
  const [row] =
    await database()`select version::text as stamp from credential_versions where company_id = ${companyId}`;
  return { companyId, stamp: row?.stamp as string };
};

describe('the preconditions of a transaction', () => {
  const opening = (asked: Preconditions) =>
    Transaction.open(pool, { companyId: tenant.companyId, testMode: false }, asked);
  test.each(
    ['api_keys', 'companies', 'subscriptions'].flatMap((table) => [
      { table, reads: undefined },
      { table, reads: 'one' as const },
      { table, reads: 'many' as const },
    ]),
  )('a precondition fails if the key was changed by $table, with reads: $reads', async ({ table, reads }) => {
    const credential = await readVersion();
    const first = await opening({ credential, reads });
    expect(await companies(first.sql)).toHaveLength(1);
    expect(await first.verifyPreconditions()).toBe('ok');
    first.endRead();
    await database().unsafe(
      `update ${table} set ${table === 'companies' ? 'id = id' : 'company_id = company_id'}
       where ${table === 'companies' ? 'id' : 'company_id'} = '${tenant.companyId}'`,
    );
    const second = await opening({ credential, reads });
    // Verified even if the transaction sends no statement.
    expect(await second.verifyPreconditions()).toBe('credential_changed');
    second.abandon();
    const third = await opening({ credential: { ...(await readVersion()), companyId: stranger.companyId }, reads });
    expect(await third.verifyPreconditions()).toBe('credential_changed');
    third.abandon();
  });

  const aClaim = () => ({
    companyId: tenant.companyId,
    testMode: false,
    endpoint: 'POST /taken',
    key: randomUUID(),
    requestHash: Buffer.alloc(32),
  });

  test('a rollback releases the claim of the Idempotency-Key', async () => {
    for (let round = 0; round < 50; round += 1)
      await database().begin(async (sql) => {
        await enterTenant(sql, { companyId: tenant.companyId, testMode: false });
        const claim = aClaim();
        const first = await opening({});
        expect(await first.claim(claim)).toEqual({ kind: 'ours' });
        await first.undo();
        expect(await claimNow(sql, claim)).toBe(true);
      });
  });

  test('all statements behind the claim of a taken key fail', async () => {
    const claim = aClaim();
    await database().begin(async (sql) => {
      await enterTenant(sql, { companyId: tenant.companyId, testMode: false });
      expect(await claimNow(sql, claim)).toBe(true);
      const second = await opening({ claim });
      const rename = second.sql`update companies set name = 'Twice' where id = ${tenant.companyId}`;
      await expect(rename).rejects.toMatchObject({ code: '25P02' });
      expect(await second.verifyPreconditions()).toBe('key_taken');
      second.abandon();
    });
    const third = await opening({ claim });
    expect(await third.verifyPreconditions()).toBe('ok');
    third.abandon();
  });

  test.each([
    { kept: 'a recent response', created: '0 hours', leased: null, verdict: 'conflict' },
    { kept: 'a running call', created: '0 hours', leased: '1 minute', verdict: 'conflict' },
    { kept: 'an expired response that was not swept', created: '-25 hours', leased: null, verdict: 'ours' },
    { kept: 'a call whose process died', created: '0 hours', leased: '-1 second', verdict: 'ours' },
  ])('a claim fails if there is $kept, and a later claim returns $verdict', async ({ created, leased, verdict }) => {
    const claim = aClaim();
    const { companyId, testMode, endpoint, key } = claim;
    await database()`
      insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at, leased_until)
      values (${companyId}, ${testMode}, ${endpoint}, ${key}, ${Buffer.alloc(32, 1)}, 200, 'old', now() + ${created}::interval, now() + ${leased}::interval)`;
    const first = await opening({ claim });
    expect(await first.verifyPreconditions()).toBe('key_taken');
    first.abandon();
    const second = await opening({});
    expect(await second.claim(claim)).toEqual({ kind: verdict });
    if (verdict === 'ours') await second.commit([], [], { claim, status: 201, body: 'new' }, new Date(), 1000);
    else second.abandon();
    const rows =
      await database()`select body, leased_until as leased from idempotency_records where company_id = ${companyId} and key = ${key}`;
    expect(rows).toEqual([
      verdict === 'ours' ? { body: 'new', leased: null } : { body: 'old', leased: leased && expect.any(Date) },
    ]);
  });

  describe('of a transaction whose commit is sent before their result is known', () => {
    const rename = (transaction: Transaction, name: string | null) =>
      transaction.sql`update companies set name = ${name} where id = ${tenant.companyId}`.execute();
    const nameNow = async () => (await database()`select name from companies where id = ${tenant.companyId}`)[0]?.name;
    const row = () =>
      buildSystemAuditRow({ companyId: tenant.companyId, testMode: false }, 'test', 'test.sent', {}, new Date());
    /** Sends a change and its commit in one turn of the event loop. */
    async function send(asked: Preconditions, name: string | null, left = 1000) {
      const transaction = await opening(asked);
      transaction.awaitAtCommit(rename(transaction, name));
      const committed = transaction.commit([row()], [], undefined, new Date(), left);
      const outcome = await committed.then(
        () => 'committed',
        (error: { code?: string }) => error.code,
      );
      return { outcome, opened: await transaction.verifyPreconditions() };
    }

    test('commits if all preconditions hold', async () => {
      // From the first round on, the statements are prepared and the database clock is known.
      for (const name of ['First sent', 'Then sent']) {
        expect(await send({ credential: await readVersion(), claim: aClaim() }, name)).toEqual({
          outcome: 'committed',
          opened: 'ok',
        });
        expect(await nameNow()).toBe(name);
      }
    });

    test('does not commit if the key was changed', async () => {
      const { companyId, stamp } = await readVersion();
      const before = await nameNow();
      const changed = { companyId, stamp: String(Number(stamp) - 1) };
      expect(await send({ credential: changed }, 'Changed')).toMatchObject({ opened: 'credential_changed' });
      expect(await nameNow()).toBe(before);
    });

    test('does not commit if the Idempotency-Key is taken', async () => {
      const claim = aClaim();
      const before = await nameNow();
      await database().begin(async (sql) => {
        await enterTenant(sql, { companyId: tenant.companyId, testMode: false });
        expect(await claimNow(sql, claim)).toBe(true);
        expect(await send({ claim }, 'Taken')).toMatchObject({ opened: 'key_taken' });
      });
      expect(await nameNow()).toBe(before);
    });

    test('does not commit if an earlier statement fails, and reports that failure', async () => {
      const before = await nameNow();
      expect(await send({ claim: aClaim() }, null)).toEqual({ outcome: '23502', opened: 'ok' });
      expect(await nameNow()).toBe(before);
    });

    test('does not commit after the deadline', async () => {
      const before = await nameNow();
      expect(await send({ claim: aClaim() }, 'Late', 90)).toEqual({ outcome: '57014', opened: 'ok' });
      expect(await nameNow()).toBe(before);
    });

    test('does not commit if the database receives the commit after the deadline', async () => {
      const before = await nameNow();
      await send({ claim: aClaim() }, before);
      const sent = await database().begin(async (sql) => {
        // The sent messages wait here, including begin with its own now().
        await sql`select from companies where id = ${tenant.companyId} for update`;
        const waiting = send({ claim: aClaim() }, 'Late', 300);
        await sql`select pg_sleep(0.4)`;
        return { waiting };
      });
      expect(await sent.waiting).toEqual({ outcome: '57014', opened: 'ok' });
      expect(await nameNow()).toBe(before);
    });
  });
});

const usual = { prepare: true, spread: false };

describe('in a read-only call', () => {
  const reading = (of: Tenant, credential?: KeyVersion, own = pool, reads: 'one' | 'many' = 'many') =>
    Transaction.open(own, { companyId: of.companyId, testMode: false }, { reads, credential });
  const newPool = (url: string, settings: { prepare: boolean; spread: boolean; lanes?: number } = usual) =>
    new Pool({ url, role: tried('crm_app'), lanes: 1, ...settings, wait: 1000, statementTimeout: 1000 });

  test('every statement of a read-only call sees only its tenant: on a new connection, next to others, and later', async () => {
    const own = newPool(inject('databaseUrl'));
    for (const of of [tenant, stranger, tenant]) {
      const first = await reading(of, undefined, own);
      const one = (sql: Transaction['sql']) =>
        sql<{ id: string }[]>`select id from companies where name <> ${'Nobody'}`;
      const several = [
        one(first.sql),
        companies(first.sql),
        first.sql.unsafe('select id from companies'),
        one(first.sql),
      ];
      expect(await Promise.all(several)).toEqual(Array(4).fill([{ id: of.companyId }]));
      expect(await first.sql`select id from ${first.sql(['companies'])} where ${first.sql`true`}`).toHaveLength(1);
      await first.withoutConnection(sleep(1));
      expect(await one(first.sql)).toEqual([{ id: of.companyId }]);
      first.endRead();
    }
    expect(await own.use((sql) => sql`select id from companies`)).toEqual([]);
    await own.close(1);
  });

  test('a failed statement of a read-only call does not affect others', async () => {
    const first = await reading(tenant);
    const failing = expect(first.sql`select 1 / ${0}::int`).rejects.toMatchObject({ code: '22012' });
    expect(await companies(first.sql)).toEqual([{ id: tenant.companyId }]);
    await failing;
    first.endRead();
  });

  test('a read-only call rejects writes, and writes rows at its end in a transaction', async () => {
    const first = await reading(tenant);
    const rename = first.sql`update companies set name = 'Read' where id = ${tenant.companyId}`;
    await expect(rename).rejects.toMatchObject({ code: '25006' });
    const seen = buildSystemAuditRow(
      { companyId: tenant.companyId, testMode: false },
      'test',
      'test.seen',
      {},
      new Date(),
    );
    await first.commit([seen], [], undefined, new Date(), 1000);
    const rows = await database()`
      select action from audit_logs where company_id = ${tenant.companyId} and action = 'test.seen'`;
    expect(rows).toHaveLength(1);
  });

  test('a read-only call resets all settings, including the plan mode', async () => {
    const first = await reading(tenant);
    const readSettings = (sql: Transaction['sql']) => sql`
      select current_setting('app.company_id', true) as company, current_setting('transaction_read_only') as "readOnly",
        current_setting('plan_cache_mode') as plan`;
    const settings = { company: tenant.companyId, readOnly: 'on' };
    expect(await readSettings(first.sql)).toEqual([{ ...settings, plan: 'auto' }]);
    first.planOnce();
    expect(await readSettings(first.sql)).toEqual([{ ...settings, plan: 'force_generic_plan' }]);
    first.endRead();
    expect(await pool.use(readSettings)).toEqual([{ company: '', readOnly: 'off', plan: 'auto' }]);
  });

  describe('a read of one record', () => {
    const one = (of: Tenant, credential?: KeyVersion, own = pool) => reading(of, credential, own, 'one');
    const readBackend = async (sql: Transaction['sql']) =>
      (await sql`select pg_backend_pid() as pid`)[0]?.pid as number;

    test('a read of one record shares its connection with up to seven others, and each sees its own tenant', async () => {
      const own = newPool(inject('databaseUrl'), { prepare: true, spread: false, lanes: 2 });
      const calls = await Promise.all(
        Array.from({ length: 9 }, (_, at) => one(at % 2 ? stranger : tenant, undefined, own)),
      );
      const seen = await Promise.all(
        calls.map(async ({ sql }, at) => {
          const failing = at === 3 ? sql`select 1 / ${0}::int`.execute() : undefined;
          failing?.catch(() => undefined);
          const rows = await sql<{ id: string; pid: number }[]>`
            select id, pg_backend_pid() as pid from companies where name <> ${'Nobody'}`;
          await expect(failing ?? Promise.reject({ code: '22012' })).rejects.toMatchObject({ code: '22012' });
          return rows;
        }),
      );
      const pids = seen.map(([row]) => row?.pid);
      expect(new Set(pids.slice(0, 8)).size).toBe(1);
      expect(pids[8]).not.toBe(pids[0]);
      expect(seen).toEqual(calls.map((_, at) => [{ id: (at % 2 ? stranger : tenant).companyId, pid: pids[at] }]));
      expect(own.usage.free).toBe(0);
      for (const call of calls.slice(1)) call.endRead();
      expect(own.usage.free).toBe(1);
      calls[0]?.endRead();
      expect(own.usage.free).toBe(2);
      await own.close(1);
    });

    test('reads of one record wait for a connection together, and fail together', async () => {
      const holder = await begin(tenant);
      const waiting = Array.from({ length: 3 }, () => one(stranger));
      expect(pool.usage.waiting).toBe(1);
      holder.abandon();
      for (const call of await Promise.all(waiting)) {
        expect(await companies(call.sql)).toEqual([{ id: stranger.companyId }]);
        call.endRead();
      }
      const another = await begin(tenant);
      const refused = await Promise.allSettled([one(tenant), one(tenant)]);
      expect(refused.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      another.abandon();
      expect(pool.usage.free).toBe(1);
    });

    test('a read of one record has its own connection from the next turn on, and for writes', async () => {
      const own = newPool(inject('databaseUrl'), { prepare: true, spread: false, lanes: 3 });
      const [first, other] = await Promise.all([one(tenant, undefined, own), one(stranger, undefined, own)]);
      const shared = await readBackend(first.sql);
      expect(await readBackend(other.sql)).toBe(shared);
      const later = await one(tenant, undefined, own);
      expect(await readBackend(later.sql)).not.toBe(shared);
      const seen = buildSystemAuditRow(
        { companyId: tenant.companyId, testMode: false },
        'test',
        'test.shared',
        {},
        new Date(),
      );
      await first.commit([seen], [], undefined, new Date(), 1000);
      expect(await companies(other.sql)).toEqual([{ id: stranger.companyId }]);
      other.endRead();
      later.endRead();
      expect(own.usage.free).toBe(3);
      await own.close(1);
      const rows = await database()`
        select action from audit_logs where company_id = ${tenant.companyId} and action = 'test.shared'`;
      expect(rows).toHaveLength(1);
    });

    test('a hanging read of one record fails those that share its connection, which is replaced', async () => {
      const own = newPool(inject('databaseUrl'));
      const [hanging, other] = await Promise.all([one(tenant, undefined, own), one(tenant, undefined, own)]);
      const outcomes = Promise.allSettled([hanging.sql`select pg_sleep(30)`.execute(), companies(other.sql)]);
      await sleep(20);
      hanging.destroy();
      expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      expect(other.broken).toBe(true);
      other.abandon();
      const next = await one(stranger, undefined, own);
      expect(await companies(next.sql)).toEqual([{ id: stranger.companyId }]);
      next.endRead();
      expect(own.usage).toMatchObject({ lanes: 1, free: 1 });
      await own.close(1);
    });
  });

  /**
   * Returns the messages of the second of two transactions: one text per protocol message, one list
   * per write that reaches PostgreSQL.
   */
  const sent = async (settings: { spread: boolean; prepare: boolean }): Promise<string[][]> => {
    const chunks: string[][] = [];
    const toServer = (bytes: Buffer) => {
      chunks.push([...readMessages(bytes)]);
      return { bytes };
    };
    const proxy = await FaultProxy.start(Number(new URL(inject('databaseUrl')).port), () => ({
      toServer,
      toClient: (bytes) => ({ bytes }),
    }));
    const own = newPool(through(inject('databaseUrl'), proxy), settings);
    for (const _ of ['first', 'second']) {
      chunks.length = 0;
      const transaction = await reading(tenant, await readVersion(), own);
      expect(await companies(transaction.sql)).toHaveLength(1);
      expect(await transaction.verifyPreconditions()).toBe('ok');
      transaction.endRead();
    }
    await own.close(1);
    await proxy.close();
    return chunks.slice(0, -1);
  };
  const settings = () => [`set local app.company_id = '${tenant.companyId}'`, "set local app.test_mode = 'false'"];

  test('settings, credential check and statement are one message with one response', async () => {
    expect(await sent({ spread: false, prepare: true })).toEqual([['B', 'E', 'B', 'E', 'S']]);
  });

  test('each setting is sent separately in a transaction if the database is distributed', async () => {
    const messages = (await sent({ spread: true, prepare: true })).flat();
    const begin = messages.indexOf('Q begin');
    expect(messages.slice(begin, begin + 3)).toEqual(['Q begin', ...settings().map((setting) => `Q ${setting}`)]);
  });

  test('all settings are sent with begin if statements are not prepared', async () => {
    const messages = (await sent({ spread: false, prepare: false })).flat();
    expect(messages).toContainEqual(expect.stringContaining(`Q ${['begin', ...settings()].join('; ')}`));
  });
});

/** Yields the kinds of protocol messages, with the texts of statements. */
function* readMessages(bytes: Buffer): Generator<string> {
  for (let at = 0; at < bytes.length; at += 1 + bytes.readInt32BE(at + 1)) {
    const kind = String.fromCharCode(bytes[at] as number);
    const body = bytes.toString('utf8', at + 5, at + 1 + bytes.readInt32BE(at + 1));
    yield [kind, kind === 'Q' ? body.split('\0')[0] : kind === 'P' ? body.split('\0')[1] : ''].join(' ').trim();
  }
}
