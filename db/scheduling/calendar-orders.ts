// Pending writes of bookings to external calendars: stored with the booking, done later, once.
import type { Sql } from '../client/pool.ts';
import type { DueRow } from './calendars.ts';

export type OrderAction = 'write' | 'remove';

/**
 * Schedules writing or removing the event of a live booking, in the booking's own transaction. A
 * removal waits for a write that is in progress.
 * @param userId the owner of the calendar
 */
export async function enqueueCalendarWrite(
  sql: Sql,
  companyId: string,
  bookingId: string,
  userId: string,
  action: OrderAction,
  now: Date,
): Promise<void> {
  await sql`
    insert into calendar_orders (company_id, booking_id, user_id, action, due_at, created_at)
    values (${companyId}, ${bookingId}, ${userId}, ${action}, ${now}, ${now})
    on conflict (company_id, booking_id) do update
    set action = excluded.action, due_at = greatest(excluded.due_at, calendar_orders.leased_until), created_at = excluded.created_at`;
}

/**
 * Finds due writes, the longest overdue first, and at most a few for each company.
 * @returns the ids of their bookings
 */
export async function findDueOrders(sql: Sql, ofEach: number, limit: number, now: Date): Promise<DueRow[]> {
  return await sql<DueRow[]>`
    select company_id, booking_id as id
    from (
      select company_id, booking_id, due_at, row_number() over (partition by company_id order by due_at) as turn
      from (select company_id, booking_id, due_at from calendar_orders where due_at <= ${now} order by due_at limit ${10 * limit}) due
    ) ranked
    where turn <= ${ofEach}
    order by due_at
    limit ${limit}`;
}

/** The parts of a booking that are written to a calendar. */
export interface OrderedBooking {
  startAt: Date;
  endAt: Date;
  title: string;
  description: string | null;
  location: string | null;
  attendeeName: string;
  attendeeEmail: string | null;
  attendeePhone: string | null;
  createdAt: Date;
}

export interface TakenOrder {
  bookingId: string;
  userId: string;
  action: OrderAction;
  eventUrl: string | null;
  /** The number of this attempt. */
  attempts: number;
  createdAt: Date;
}

/**
 * Takes a due write, for one server only. If the booking is no longer active, it is a removal.
 * @returns undefined if another server has it
 */
export async function takeOrder(
  sql: Sql,
  companyId: string,
  bookingId: string,
  lease: number,
  now: Date,
): Promise<TakenOrder | undefined> {
  const leasedUntil = new Date(now.getTime() + lease);
  const [taken] = await sql<TakenOrder[]>`
    update calendar_orders set attempts = attempts + 1, due_at = ${leasedUntil}, leased_until = ${leasedUntil},
      action = case when exists (
        select from bookings
        where company_id = ${companyId} and not test_mode and id = ${bookingId} and status not in ('cancelled', 'rescheduled')
      ) then action else 'remove' end
    where company_id = ${companyId} and booking_id = ${bookingId} and due_at <= ${now}
    returning booking_id, user_id, action, event_url, attempts, created_at`;
  return taken;
}

export async function findOrderedBooking(
  sql: Sql,
  companyId: string,
  bookingId: string,
): Promise<OrderedBooking | undefined> {
  const [booking] = await sql<OrderedBooking[]>`
    select start_at, end_at, meeting_title as title, meeting_description as description,
      coalesce(meeting_url, location) as location, attendee_name, attendee_email,
      attendee_phone, created_at
    from bookings
    where company_id = ${companyId} and not test_mode and id = ${bookingId}`;
  return booking;
}

/**
 * Finishes a write that was carried out or given up. If it was changed meanwhile, it is due again
 * immediately.
 * @param eventUrl the current address of the event
 */
export async function finishOrder(
  sql: Sql,
  companyId: string,
  { bookingId, attempts, action }: Pick<TakenOrder, 'bookingId' | 'attempts' | 'action'>,
  eventUrl: string | null,
  now: Date,
): Promise<void> {
  await sql`
    update calendar_orders
    set leased_until = null, event_url = ${eventUrl}, due_at = case when action = ${action} then null else ${now}::timestamptz end
    where company_id = ${companyId} and booking_id = ${bookingId} and attempts = ${attempts}`;
}

/** Schedules the next attempt for a write. */
export async function postponeOrder(
  sql: Sql,
  companyId: string,
  { bookingId, attempts }: Pick<TakenOrder, 'bookingId' | 'attempts'>,
  until: Date,
): Promise<void> {
  await sql`
    update calendar_orders set leased_until = null, due_at = ${until}
    where company_id = ${companyId} and booking_id = ${bookingId} and attempts = ${attempts}`;
}

/** Stores the link to the event of a booking, for people. */
export async function noteEventLink(sql: Sql, companyId: string, bookingId: string, link: string): Promise<void> {
  await sql`
    update bookings set calendar_event_link = ${link}
    where company_id = ${companyId} and not test_mode and id = ${bookingId}`;
}
