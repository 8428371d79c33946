// The calendar job, killed at each point: one event for each booking, and none without a booking.
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { runCalendarOrders } from '../../jobs/scheduling/calendars.ts';
import { cancelOrderedBooking, newOrderedBooking, newOwner, openCalendarServer } from '../support/calendar-jobs.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { type TestCalendar, TestRadicale } from '../support/radicale.ts';
import { compileCache } from '../support/servers.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { calendarPoints, fatal, type Moment, type Statement, Traps } from './support/points.ts';
import { FaultProxy, type Link, through, type Watcher } from './support/proxy.ts';
import { untilAbandoned } from './support/until-abandoned.ts';

/** Waits for a request to the calendar. */
class RequestTrap {
  #waitsFor: { method: string; moment: Moment; act: () => void } | undefined;

  set(method: string, moment: Moment): Promise<void> {
    return new Promise((resolve) => {
      this.#waitsFor = { method, moment, act: resolve };
    });
  }

  /**
   * Watcher for the proxy in front of the calendar, which gets each request on a new connection.
   */
  readonly watch = (link: Link): Watcher => {
    let method = '';
    const pass = (moment: Moment, bytes: Buffer) => {
      const trap = this.#waitsFor;
      if (trap?.method !== method || trap.moment !== moment) return { bytes };
      this.#waitsFor = undefined;
      link.lose();
      return { bytes: moment === 'sent' ? bytes : Buffer.alloc(0), afterwards: trap.act };
    };
    return {
      toServer: (chunk) => {
        const isFirst = method === '';
        if (isFirst) [method = ''] = chunk.toString('latin1').split(' ', 1);
        const { bytes, afterwards } = pass('before', chunk);
        return afterwards ? { bytes, afterwards } : pass('sent', chunk);
      },
      toClient: (chunk) => pass('answered', chunk),
    };
  };
}

const program = fileURLToPath(new URL('support/calendar-job.ts', import.meta.url));

describe.skipIf(!findProgram('radicale'))(`calendar operations${skipNote('radicale')}`, () => {
  const traps = new Traps({});
  const requests = new RequestTrap();
  const proxies: FaultProxy[] = [];
  let radicale: TestRadicale;
  let url: string;
  let tenant: Tenant;
  let userId: string;
  let calendar: TestCalendar;
  let server: ReturnType<typeof openCalendarServer>;
  let job: ChildProcess | undefined;

  // A separate database, because another server would carry out the remaining operations.
  beforeAll(async () => {
    [url, radicale] = await Promise.all([newDatabase(), TestRadicale.start()]);
    await useDatabase(url);
    proxies.push(await FaultProxy.start(Number(new URL(url).port), traps.watch));
    proxies.push(await FaultProxy.start(radicale.port, requests.watch));
    server = openCalendarServer(url);
    tenant = await newTenant();
    calendar = await radicale.newCalendar('work');
    const behindProxy = calendar.url.replace(String(radicale.port), String(proxies[1]?.port));
    userId = await newOwner(tenant, { ...calendar, url: behindProxy });
  });
  afterEach(() => kill());
  afterAll(async () => {
    await server?.close();
    await Promise.all(proxies.map((proxy) => proxy.close()));
    await radicale?.stop();
    await useDatabase(undefined);
    if (url) await dropDatabase(url);
  });

  async function kill(): Promise<void> {
    const ended = new Promise((resolve) => job?.on('exit', resolve));
    if (!job?.kill('SIGKILL')) return;
    await ended;
    job = undefined;
  }

  /**
   * Carries out due operations, as another server does once the lease of the killed one has ended.
   */
  async function recover(): Promise<void> {
    await untilAbandoned('crm calendars');
    await database()`update calendar_orders set due_at = now() - interval '1 second', leased_until = null where due_at is not null`;
    while ((await runCalendarOrders(server.context(), server.services)) > 0);
  }

  /** Runs a job, kills it when a trap springs, and compares the calendar with the bookings. */
  async function killedAt(
    sprung: Promise<void>,
    meanwhile: () => Promise<void> = async () => undefined,
  ): Promise<void> {
    const env = { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: compileCache };
    job = spawn(process.execPath, [program, through(url, proxies[0] as FaultProxy)], { env, stdio: 'inherit' });
    await sprung;
    await kill();
    await meanwhile();
    await recover();
    const bookings = await database()`select id from bookings where status = 'confirmed'`;
    const events = await calendar.events();
    expect(events.map((text) => /UID:([^@]+)@/.exec(text)?.[1]).sort()).toEqual(bookings.map(({ id }) => id).sort());
  }

  const newBooking = (): Promise<string> => newOrderedBooking(tenant, userId);
  const cancel = (id: string): Promise<void> => cancelOrderedBooking(tenant, userId, id);
  const atStatement = (statement: Statement, moment: Moment): Promise<void> =>
    traps.set({ statement, moment, act: () => undefined });

  test.each(fatal(calendarPoints))(
    'writes one event if the job is killed with $statement $moment',
    async ({ statement, moment }) => {
      await newBooking();
      await killedAt(atStatement(statement, moment));
    },
  );

  test.each(['before', 'sent', 'answered'] as const)(
    'writes one event if the job is killed with the request %s',
    async (moment) => {
      await newBooking();
      await killedAt(requests.set('PUT', moment));
    },
  );

  test.each(['before', 'answered'] as const)(
    'removes an event if the job is killed with the removal %s',
    async (moment) => {
      const id = await newBooking();
      await recover();
      await cancel(id);
      await killedAt(requests.set('DELETE', moment));
    },
  );

  test('removes a written event whose booking is cancelled before the job knew of it', async () => {
    const id = await newBooking();
    await killedAt(requests.set('PUT', 'answered'), () => cancel(id));
    expect((await calendar.events()).join()).not.toContain(id);
  });
});
