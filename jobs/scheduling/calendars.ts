// External calendars: reads each one every five minutes, and writes and removes events.
import type { Sql } from '../../db/client/pool.ts';
import { findBookingTimes } from '../../db/scheduling/bookings.ts';
import * as orders from '../../db/scheduling/calendar-orders.ts';
import {
  type DueRow,
  findConnection,
  findDueCalendars,
  findUnreadCalendars,
  noteLook,
  takeCalendar,
} from '../../db/scheduling/calendars.ts';
import {
  buildEventUid,
  CalendarFault,
  type CalendarFaultKind,
  type Calendars,
  type Connection,
  computeBlockedTimes,
  openConnection,
  type SealedConnection,
} from '../../domain/scheduling/calendars.ts';
import type { TenantJobContext } from '../runner.ts';

export interface CalendarServices {
  calendars: Calendars;
  /** Decrypts passwords. */
  decrypt: (sealed: string) => string;
}

type CalendarContext = TenantJobContext & CalendarServices;

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Milliseconds between two reads of a calendar. */
const lookEvery = 5 * minute;
/**
 * The same after a fault. Rejected credentials are retried rarely, because repeated failures can
 * lock accounts.
 */
const lookAgain: Readonly<Record<CalendarFaultKind, number>> = {
  unreachable: lookEvery,
  timeout: lookEvery,
  overloaded: minute,
  unreadable: minute,
  refused: hour,
};
/**
 * Milliseconds, longer than a calendar can take. After that, the server that leased an item counts
 * as dead.
 */
const lease = minute;
/** How far beyond the last bookable day calendars are read, and the maximum. */
const lookBeyond = day;
const furthestLook = 366 * day;
/**
 * Limits of the pause between attempts. The pause equals the time that the order has waited so far.
 */
const pauses = { shortest: minute, longest: 6 * hour };
/** Time after which a failing order is abandoned. */
const givenUpAfter = 7 * day;
/** Items per tenant in one query: few, so that a slow calendar delays only its own tenant. */
const foundOfEach = 4;
/** Tenants that are processed at the same time. */
const tenantsAtOnce = 8;
/**
 * Milliseconds after which a run starts no more work, so that new items do not wait for slow
 * calendars.
 */
const runMs = 5 * second;

/**
 * Reads calendars that are due. Several servers may run it at the same time.
 * @returns the number found
 */
export function lookAtCalendars(context: TenantJobContext, services: CalendarServices): Promise<number> {
  return eachDue({ ...context, ...services }, findDueCalendars, look);
}

/**
 * Reads calendars that were connected and not read yet. Several servers may run it at the same
 * time.
 * @returns the number found
 */
export function lookAtUnreadCalendars(context: TenantJobContext, services: CalendarServices): Promise<number> {
  return eachDue({ ...context, ...services }, findUnreadCalendars, look);
}

/**
 * Carries out due orders. Several servers may run it at the same time.
 * @returns the number found
 */
export function runCalendarOrders(context: TenantJobContext, services: CalendarServices): Promise<number> {
  return eachDue({ ...context, ...services }, orders.findDueOrders, carryOut);
}

/** Processes due items: several tenants at the same time, one item after the other in each. */
async function eachDue(
  context: CalendarContext,
  find: (sql: Sql, ofEach: number, limit: number, now: Date) => Promise<DueRow[]>,
  work: (context: CalendarContext, due: DueRow) => Promise<void>,
): Promise<number> {
  const { platform, batchSize, log, now, signal } = context;
  const due = await platform.use((sql) => find(sql, foundOfEach, batchSize, now()));
  const companies = [...Map.groupBy(due, ({ companyId }) => companyId).values()];
  const began = performance.now();
  const isOver = (): boolean => signal.aborted || performance.now() - began > runMs;
  const serve = async (): Promise<void> => {
    for (let own = companies.shift(); own; own = companies.shift()) {
      for (const each of own) {
        if (isOver()) return;
        try {
          await work(context, each);
        } catch (error) {
          // A tenant that fails does not delay others. The item is due again when its lease
          // expires.
          const err = { message: (error as Error).message };
          log.warn({ company: each.companyId, err }, 'failed to process a calendar; will retry');
        }
      }
    }
  };
  await Promise.all(Array.from({ length: tenantsAtOnce }, serve));
  return due.length;
}

async function look(context: CalendarContext, { companyId, id: userId }: DueRow): Promise<void> {
  const now = context.now();
  const scope = { companyId, testMode: false };
  const within = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => context.transaction(scope, work);
  const taken = await within((sql) => takeCalendar(sql, companyId, userId, lease, now));
  if (!taken) return;
  const length = Math.min(taken.horizonDays * day + lookBeyond, furthestLook);
  const asked = { start: now.getTime(), end: now.getTime() + length };
  const answer = await orFault(async () => context.calendars.busyTimes(opened(context, taken), asked));
  const isFault = answer instanceof CalendarFault;
  if (isFault)
    context.log.warn(
      { company: companyId, user: userId, fault: answer.kind, why: answer.message },
      'failed to read a calendar',
    );
  const next = new Date(now.getTime() + (isFault ? lookAgain[answer.kind] : lookEvery));
  await within(async (sql) => {
    if (isFault) return noteLook(sql, companyId, taken, { fault: answer.kind }, next, now);
    const ids = answer.own.map(({ bookingId }) => bookingId);
    const busy = computeBlockedTimes(answer, await findBookingTimes(sql, companyId, ids));
    await noteLook(sql, companyId, taken, { busy, until: new Date(asked.end) }, next, now);
  });
}

async function carryOut(context: CalendarContext, { companyId, id: bookingId }: DueRow): Promise<void> {
  const now = context.now();
  const scope = { companyId, testMode: false };
  const within = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => context.transaction(scope, work);
  const taken = await within(async (sql) => {
    const order = await orders.takeOrder(sql, companyId, bookingId, lease, now);
    if (!order) return undefined;
    const [sealed, booking] = await Promise.all([
      findConnection(sql, companyId, order.userId),
      orders.findOrderedBooking(sql, companyId, bookingId),
    ]);
    return { order, sealed, booking };
  });
  if (!taken) return;
  const { order, sealed, booking } = taken;
  const log = context.log.child({ company: companyId, booking: bookingId, action: order.action });
  // A user without an external calendar has nothing to write to.
  const outcome = sealed
    ? await orFault(async () => writeToCalendar(context.calendars, opened(context, sealed), order, booking))
    : { url: null, link: null };
  if (!(outcome instanceof CalendarFault)) {
    await within(async (sql) => {
      if (outcome.link !== null) await orders.noteEventLink(sql, companyId, bookingId, outcome.link);
      await orders.finishOrder(sql, companyId, order, outcome.url, now);
    });
    return;
  }
  const waited = now.getTime() - order.createdAt.getTime();
  const why = { fault: outcome.kind, why: outcome.message, attempts: order.attempts };
  if (waited >= givenUpAfter) {
    await within((sql) => orders.finishOrder(sql, companyId, order, order.eventUrl, now));
    log.error(why, 'gave up on a calendar event');
    return;
  }
  const pause = Math.min(Math.max(waited, pauses.shortest), pauses.longest);
  await within((sql) => orders.postponeOrder(sql, companyId, order, new Date(now.getTime() + pause)));
  log.warn({ ...why, next_in_minutes: Math.round(pause / minute) }, 'failed to write a calendar event; will retry');
}

async function writeToCalendar(
  calendars: Calendars,
  connection: Connection,
  { bookingId, userId, action, eventUrl }: orders.TakenOrder,
  booking: orders.OrderedBooking | undefined,
): Promise<{ url: string | null; link: string | null }> {
  const uid = buildEventUid(bookingId, userId);
  if (action === 'remove' || !booking) {
    await calendars.removeEvent(connection, { uid, url: eventUrl });
    return { url: null, link: null };
  }
  return calendars.writeEvent(connection, {
    uid,
    start: booking.startAt.getTime(),
    end: booking.endAt.getTime(),
    title: booking.title,
    description: booking.description,
    location: booking.location,
    attendee: { name: booking.attendeeName, email: booking.attendeeEmail, phone: booking.attendeePhone },
    createdAt: booking.createdAt.getTime(),
  });
}

const opened = ({ decrypt }: CalendarContext, sealed: SealedConnection): Connection => openConnection(sealed, decrypt);

/** Returns the result of the work, or the fault of the calendar. */
async function orFault<T>(work: () => Promise<T>): Promise<T | CalendarFault> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CalendarFault) return error;
    throw error;
  }
}
