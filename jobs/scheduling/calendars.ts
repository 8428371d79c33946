// Calendars outside: looks at each every five minutes, and has events written and removed.

import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
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
  blockedTimes,
  CalendarFault,
  type CalendarFaultKind,
  type Calendars,
  type Connection,
  eventUid,
  openConnection,
  type SealedConnection,
} from '../../domain/scheduling/calendars.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

export interface CalendarParts {
  /** Finds whose turn it is. */
  platform: Pool;
  /** Everything else, bound to one company at a time. */
  tenants: Pool;
  calendars: Calendars;
  /** Opens passwords. */
  decrypt: (sealed: string) => string;
  log: Log;
  now: () => Date;
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** From one search for work to the next. */
const rounds = { looks: 5 * second, firstLooks: second, orders: second };
/** From one look at a calendar to the next. */
const lookEvery = 5 * minute;
/** The same after a fault. Refused credentials that are tried all day long have accounts locked. */
const lookAgain: Readonly<Record<CalendarFaultKind, number>> = {
  unreachable: lookEvery,
  timeout: lookEvery,
  overloaded: minute,
  unreadable: minute,
  refused: hour,
};
/** Longer than a calendar is waited for: after it, whoever took something up is taken for dead. */
const lease = minute;
/** How far is looked beyond the last day that can be booked, and at most. */
const lookBeyond = day;
const furthestLook = 366 * day;
/** Pauses between two tries: as long as an order has waited so far, between these. */
const pauses = { shortest: minute, longest: 6 * hour };
/** After which an order that does not succeed is given up. */
const patienceWithOrders = 7 * day;
/** Found in a round; of each company a few, so that a slow calendar keeps its own company waiting. */
const found = { most: 100, ofEach: 4 };
/** Companies that are served at once. */
const companiesAtOnce = 8;
/** Milliseconds after which a round begins nothing more: what is due meanwhile need not wait for calendars that are slow. */
const roundTime = 5 * second;
/** Milliseconds after which a transaction is given up. */
const patience = 5000;

/** Starts the rounds. @returns a function that stops them, once what is on its way has ended or a few seconds have passed */
export function startCalendars(parts: CalendarParts): () => Promise<void> {
  const log = parts.log.child({ job: 'calendars' });
  const stops = [
    everyRound(rounds.looks, async (stop) => void (await lookAtCalendars({ ...parts, log }, stop)), log),
    // A user whose calendar was just connected is not free until the first look, so it does not wait for slow calendars.
    everyRound(rounds.firstLooks, async (stop) => void (await lookAtUnreadCalendars({ ...parts, log }, stop)), log),
    everyRound(rounds.orders, async (stop) => void (await carryOutOrders({ ...parts, log }, stop)), log),
  ];
  return async () => void (await Promise.all(stops.map((stop) => stop())));
}

/** Looks at calendars that are due. Servers may do so at the same time. @returns how many were found */
export function lookAtCalendars(parts: CalendarParts, stop?: AbortSignal): Promise<number> {
  return eachDue(parts, findDueCalendars, (due) => look(parts, due), stop);
}

/** Looks at calendars that were connected and not read yet. Servers may do so at the same time. @returns how many were found */
function lookAtUnreadCalendars(parts: CalendarParts, stop?: AbortSignal): Promise<number> {
  return eachDue(parts, findUnreadCalendars, (due) => look(parts, due), stop);
}

/** Carries out orders that are due. Servers may do so at the same time. @returns how many were found */
export function carryOutOrders(parts: CalendarParts, stop?: AbortSignal): Promise<number> {
  return eachDue(parts, orders.findDueOrders, (due) => carryOut(parts, due), stop);
}

/** Does what is due: several companies at once, one thing after the other in each. */
async function eachDue(
  { platform, log, now }: CalendarParts,
  find: (sql: Sql, ofEach: number, limit: number, now: Date) => Promise<DueRow[]>,
  work: (due: DueRow) => Promise<void>,
  stop: AbortSignal | undefined,
): Promise<number> {
  const due = await platform.use((sql) => find(sql, found.ofEach, found.most, now()));
  const companies = [...Map.groupBy(due, ({ companyId }) => companyId).values()];
  const began = performance.now();
  const isOver = (): boolean => stop?.aborted === true || performance.now() - began > roundTime;
  const serve = async (): Promise<void> => {
    for (let own = companies.shift(); own; own = companies.shift()) {
      for (const each of own) {
        if (isOver()) return;
        try {
          await work(each);
        } catch (error) {
          // The others do not wait for one that fails; it is due again when its lease has ended.
          const err = { message: (error as Error).message };
          log.warn({ company: each.companyId, err }, 'a calendar could not be served; it is tried again');
        }
      }
    }
  };
  await Promise.all(Array.from({ length: companiesAtOnce }, serve));
  return due.length;
}

async function look(parts: CalendarParts, { companyId, id: userId }: DueRow): Promise<void> {
  const now = parts.now();
  const scope = { companyId, testMode: false };
  const within = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => inTransaction(parts.tenants, scope, patience, work);
  const taken = await within((sql) => takeCalendar(sql, companyId, userId, lease, now));
  if (!taken) return;
  const length = Math.min(taken.horizonDays * day + lookBeyond, furthestLook);
  const asked = { start: now.getTime(), end: now.getTime() + length };
  const answer = await orFault(async () => parts.calendars.busyTimes(opened(parts, taken), asked));
  const isFault = answer instanceof CalendarFault;
  if (isFault)
    parts.log.warn(
      { company: companyId, user: userId, fault: answer.kind, why: answer.message },
      'a calendar could not be looked at',
    );
  const next = new Date(now.getTime() + (isFault ? lookAgain[answer.kind] : lookEvery));
  await within(async (sql) => {
    if (isFault) return noteLook(sql, companyId, taken, { fault: answer.kind }, next, now);
    const ids = answer.own.map(({ bookingId }) => bookingId);
    const busy = blockedTimes(answer, await findBookingTimes(sql, companyId, ids));
    await noteLook(sql, companyId, taken, { busy, until: new Date(asked.end) }, next, now);
  });
}

async function carryOut(parts: CalendarParts, { companyId, id: bookingId }: DueRow): Promise<void> {
  const now = parts.now();
  const scope = { companyId, testMode: false };
  const within = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => inTransaction(parts.tenants, scope, patience, work);
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
  const log = parts.log.child({ company: companyId, booking: bookingId, action: order.action });
  // Who has no calendar outside any more has nothing that could be told.
  const told = sealed
    ? await orFault(async () => tell(parts.calendars, opened(parts, sealed), order, booking))
    : { url: null, link: null };
  if (!(told instanceof CalendarFault)) {
    await within(async (sql) => {
      if (told.link !== null) await orders.noteEventLink(sql, companyId, bookingId, told.link);
      await orders.finishOrder(sql, companyId, order, told.url, now);
    });
    return;
  }
  const waited = now.getTime() - order.createdAt.getTime();
  const why = { fault: told.kind, why: told.message, attempts: order.attempts };
  if (waited >= patienceWithOrders) {
    await within((sql) => orders.finishOrder(sql, companyId, order, order.eventUrl, now));
    log.error(why, 'an order to a calendar is given up');
    return;
  }
  const pause = Math.min(Math.max(waited, pauses.shortest), pauses.longest);
  await within((sql) => orders.postponeOrder(sql, companyId, order, new Date(now.getTime() + pause)));
  log.warn({ ...why, next_in_minutes: Math.round(pause / minute) }, 'a calendar could not be told; it is tried again');
}

async function tell(
  calendars: Calendars,
  connection: Connection,
  { bookingId, userId, action, eventUrl }: orders.TakenOrder,
  booking: orders.OrderedBooking | undefined,
): Promise<{ url: string | null; link: string | null }> {
  const uid = eventUid(bookingId, userId);
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

const opened = ({ decrypt }: CalendarParts, sealed: SealedConnection): Connection => openConnection(sealed, decrypt);

/** What work brought, or the fault of the calendar. */
async function orFault<T>(work: () => Promise<T>): Promise<T | CalendarFault> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CalendarFault) return error;
    throw error;
  }
}
