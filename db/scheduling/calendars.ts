// External calendars: their owners, the busy intervals found in them, and when they are read.
import type { Connection, SealedConnection } from '../../domain/scheduling/calendars.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import type { Sql } from '../client/pool.ts';

export interface CalendarRow {
  provider: Connection['provider'];
  url: string | null;
  username: string | null;
  /** null: the last read succeeded; otherwise the reason why it failed. */
  fault: string | null;
  checkedAt: Date;
}

/** The state from which slots are computed. */
export interface CalendarState extends Pick<CalendarRow, 'provider' | 'fault' | 'checkedAt'> {
  /**
   * The end of the time in which its events are known; null: it was not read since it was
   * connected.
   */
  readUntil: Date | null;
  /** Busy intervals in order and without overlaps, cut to the requested time. */
  busy: Interval[];
}

/**
 * Returns the calendars of users, by their ids. Users without an external calendar are left out.
 */
export async function findCalendars(
  sql: Sql,
  companyId: string,
  userIds: readonly string[],
  within: Interval,
): Promise<Map<string, CalendarState>> {
  const rows = await sql<(Omit<CalendarState, 'busy'> & { userId: string; bounds: number[] })[]>`
    select user_id, provider, fault, checked_at, looked_until as read_until, busy as bounds
    from user_calendars
    where company_id = ${companyId} and user_id = any(${[...userIds]}::uuid[])`;
  return new Map(rows.map(({ userId, bounds, ...row }) => [userId, { ...row, busy: clipIntervals(bounds, within) }]));
}

/**
 * Returns the parts of the intervals within a time.
 * @param bounds start and end of each, in order
 */
function clipIntervals(bounds: readonly number[], within: Interval): Interval[] {
  const intervals: Interval[] = [];
  for (let at = 0; at + 1 < bounds.length; at += 2) {
    const start = Math.max(bounds[at] as number, within.start);
    const end = Math.min(bounds[at + 1] as number, within.end);
    if (start < end) intervals.push({ start, end });
  }
  return intervals;
}

export async function findCalendar(sql: Sql, companyId: string, userId: string): Promise<CalendarRow | undefined> {
  const [row] = await sql<CalendarRow[]>`
    select provider, url, username, fault, checked_at
    from user_calendars
    where company_id = ${companyId} and user_id = ${userId}`;
  return row;
}

/**
 * Returns the connection to the calendar of a user; undefined if the user has no external calendar.
 */
export async function findConnection(
  sql: Sql,
  companyId: string,
  userId: string,
): Promise<SealedConnection | undefined> {
  const [row] = await sql<SealedConnection[]>`
    select k.user_id, k.provider, k.url, k.username, k.sealed_password,
      coalesce(h.timezone, c.timezone) as timezone
    from user_calendars k
    join companies c on c.id = ${companyId}
    left join user_working_hours h on h.company_id = ${companyId} and h.user_id = k.user_id
    where k.company_id = ${companyId} and k.user_id = ${userId}`;
  return row;
}

/** Returns the time zone in which the days of a user begin. */
export async function findTimezone(sql: Sql, companyId: string, userId: string): Promise<string> {
  const [row] = await sql<[{ timezone: string }]>`
    select coalesce(h.timezone, c.timezone) as timezone
    from companies c
    left join user_working_hours h on h.company_id = ${companyId} and h.user_id = ${userId}
    where c.id = ${companyId}`;
  return row.timezone;
}

/** Connects a calendar and replaces the previous one. Its first read is due immediately. */
export async function saveCalendar(
  sql: Sql,
  companyId: string,
  calendar: Omit<SealedConnection, 'timezone'>,
  now: Date,
): Promise<void> {
  const { userId, provider, url, username, sealedPassword } = calendar;
  await sql`
    insert into user_calendars (company_id, user_id, provider, url, username, sealed_password, checked_at, looked_until, due_at, created_at, updated_at)
    values (${companyId}, ${userId}, ${provider}, ${url}, ${username}, ${sealedPassword}, ${now}, null, ${now}, ${now}, ${now})
    on conflict (company_id, user_id) do update
    set provider = excluded.provider, url = excluded.url, username = excluded.username, sealed_password = excluded.sealed_password,
      fault = null, checked_at = excluded.checked_at, busy = '[]', looked_until = excluded.looked_until, due_at = excluded.due_at,
      updated_at = excluded.updated_at`;
}

/** @returns false if there was none */
export async function removeCalendar(sql: Sql, companyId: string, userId: string): Promise<boolean> {
  const removed = await sql`delete from user_calendars where company_id = ${companyId} and user_id = ${userId}`;
  return removed.count === 1;
}

/** The calendar of a user, or a booking, that is due. */
export interface DueRow {
  companyId: string;
  id: string;
}

/**
 * Finds due calendars, the longest overdue first, and at most a few for each company.
 * @returns the ids of their users
 */
export async function findDueCalendars(sql: Sql, ofEach: number, limit: number, now: Date): Promise<DueRow[]> {
  return await sql<DueRow[]>`
    select company_id, user_id as id
    from (
      select company_id, user_id, due_at, row_number() over (partition by company_id order by due_at) as turn
      from (select company_id, user_id, due_at from user_calendars where due_at <= ${now} order by due_at limit ${10 * limit}) due
    ) ranked
    where turn <= ${ofEach}
    order by due_at
    limit ${limit}`;
}

/** As findDueCalendars, but only calendars that were not read since they were connected. */
export async function findUnreadCalendars(sql: Sql, ofEach: number, limit: number, now: Date): Promise<DueRow[]> {
  return await sql<DueRow[]>`
    select company_id, user_id as id
    from (
      select company_id, user_id, due_at, row_number() over (partition by company_id order by due_at) as turn
      from (
        select company_id, user_id, due_at from user_calendars
        where looked_until is null and due_at <= ${now} order by due_at limit ${10 * limit}
      ) due
    ) ranked
    where turn <= ${ofEach}
    order by due_at
    limit ${limit}`;
}

export interface TakenCalendar extends SealedConnection {
  /** How far ahead bookings can be made in this company, in days. */
  horizonDays: number;
  /** Identifies this read. */
  leasedUntil: Date;
}

/**
 * Takes a calendar that is due, for one server only.
 * @returns undefined if another server has it
 */
export async function takeCalendar(
  sql: Sql,
  companyId: string,
  userId: string,
  lease: number,
  now: Date,
): Promise<TakenCalendar | undefined> {
  const leasedUntil = new Date(now.getTime() + lease);
  const taken = await sql`
    update user_calendars set due_at = ${leasedUntil}
    where company_id = ${companyId} and user_id = ${userId} and due_at <= ${now}`;
  if (taken.count === 0) return undefined;
  const [connection, [longest]] = await Promise.all([
    findConnection(sql, companyId, userId),
    sql<[{ days: number | null }]>`
      select max(horizon_days) as days from scheduling_policies where company_id = ${companyId}`.execute(),
  ]);
  return connection && { ...connection, horizonDays: longest.days ?? 0, leasedUntil };
}

/** The result of a read, or why it failed. After a failure, the previous result stays. */
export type CalendarReading = { busy: readonly Interval[]; until: Date } | { fault: string };

/** Stores the result of a read, unless the calendar was reconnected meanwhile. */
export async function noteLook(
  sql: Sql,
  companyId: string,
  { userId, leasedUntil }: Pick<TakenCalendar, 'userId' | 'leasedUntil'>,
  look: CalendarReading,
  next: Date,
  now: Date,
): Promise<void> {
  const found =
    'fault' in look
      ? sql`fault = ${look.fault}`
      : sql`fault = null, looked_until = ${look.until}, busy = ${sql.json(look.busy.flatMap(({ start, end }) => [start, end]))}`;
  await sql`
    update user_calendars set ${found}, checked_at = ${now}, due_at = ${next}
    where company_id = ${companyId} and user_id = ${userId} and due_at = ${leasedUntil}`;
}
