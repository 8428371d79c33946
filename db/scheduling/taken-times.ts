// Times that reservations and bookings take: no user has two that overlap.
import type { Busy } from '../../domain/scheduling/slots.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { lockValues } from '../client/value-locks.ts';

/** A time to be taken for a user. */
export interface TimeToTake {
  /** The id of the reservation or booking. */
  id: string;
  userId: string;
  startAt: Date;
  endAt: Date;
  /** Including the buffers. */
  from: Date;
  to: Date;
  /** When the reservation expires; null: it is a booking. */
  expiresAt: Date | null;
}

/** How many meetings a user may have on a day. */
export interface DailyMaximum {
  meetings: number;
  dayStart: Date;
  dayEnd: Date;
}

/**
 * One transaction at a time changes the times of a user. With the exclusion constraint alone,
 * transactions could deadlock. The order of locks is the same everywhere: this lock, taken_times,
 * then the row of the reservation. The row of an existing booking is locked before all of them.
 */
const lockUser = (sql: Sql, { companyId, testMode }: TenantScope, userId: string) =>
  lockValues(sql, companyId, [`time of ${userId} ${testMode}`]);

/** Expired holds block nothing. Sends its statement immediately. */
const dropExpired = (sql: Sql, { companyId, testMode }: TenantScope, userId: string, now: Date) =>
  sql`
  delete from taken_times
  where company_id = ${companyId} and test_mode = ${testMode} and user_id = ${userId} and expires_at <= ${now}`.execute();

/** The result of an attempt to take a time; `reserved`: a reservation is in the way. */
export type Attempt = 'taken' | 'reserved' | 'unavailable';

/**
 * Takes a time of a user in one round trip, unless it is taken already, or the user has the maximum
 * of meetings on that day.
 */
export async function takeTime(
  sql: Sql,
  scope: TenantScope,
  time: TimeToTake,
  maximum: DailyMaximum | null,
  now: Date,
): Promise<Attempt> {
  const { companyId, testMode } = scope;
  const locked = lockUser(sql, scope, time.userId);
  const dropped = dropExpired(sql, scope, time.userId, now);
  const taken = sql`
    insert into taken_times (company_id, test_mode, id, user_id, start_at, end_at, during, expires_at)
    select ${companyId}, ${testMode}, ${time.id}, ${time.userId}, ${time.startAt}, ${time.endAt}, ${toRange(sql, time)}, ${time.expiresAt}
    where ${hasRoomOnDay(sql, scope, time.userId, null, maximum)}
    on conflict do nothing`.execute();
  // This reads while the lock is held: later, the reservation may be released.
  const held = isHeld(sql, scope, time, now);
  const [{ count }, isReserved] = await Promise.all([taken, held, dropped, locked]);
  if (count === 1) return 'taken';
  return isReserved ? 'reserved' : 'unavailable';
}

/** Returns true if another reservation overlaps with this time of a user. */
async function isHeld(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  time: Pick<TimeToTake, 'id' | 'userId' | 'from' | 'to'>,
  now: Date,
): Promise<boolean> {
  const rows = await sql`
    select from taken_times
    where company_id = ${companyId} and test_mode = ${testMode} and user_id = ${time.userId} and id <> ${time.id}
      and during && ${toRange(sql, time)} and expires_at > ${now}
    limit 1`;
  return rows.count > 0;
}

function hasRoomOnDay(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  userId: string,
  but: string | null,
  maximum: DailyMaximum | null,
) {
  if (!maximum) return sql`true`;
  return sql`(
    select count(*) from taken_times
    where company_id = ${companyId} and test_mode = ${testMode} and user_id = ${userId} and id is distinct from ${but}
      and start_at >= ${maximum.dayStart} and start_at < ${maximum.dayEnd}
  ) < ${maximum.meetings}`;
}

/**
 * Turns a held time into a booked one.
 * @returns false if it has expired
 */
export async function bookHeldTime(
  sql: Sql,
  scope: TenantScope,
  { reservationId, bookingId, userId }: { reservationId: string; bookingId: string; userId: string },
  now: Date,
): Promise<boolean> {
  const { companyId, testMode } = scope;
  const locked = lockUser(sql, scope, userId);
  const booked = sql`
    update taken_times set id = ${bookingId}, expires_at = null
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${reservationId} and expires_at > ${now}`;
  const [{ count }] = await Promise.all([booked, locked]);
  return count === 1;
}

/** The new time of a booking. */
export interface TimeToMove {
  bookingId: string;
  /** The id of the new booking. */
  newId: string;
  userId: string;
  startAt: Date;
  endAt: Date;
  /** Milliseconds from the old time to the new one. */
  later: number;
}

/**
 * Moves a booked time and keeps its buffers.
 * @returns false if the new time is taken
 */
export async function moveTime(
  sql: Sql,
  scope: TenantScope,
  { bookingId, newId, userId, startAt, endAt, later }: TimeToMove,
  now: Date,
): Promise<boolean> {
  const { companyId, testMode } = scope;
  const locked = lockUser(sql, scope, userId);
  const dropped = dropExpired(sql, scope, userId, now);
  const moved = sql`
    with place as (
      select id, int8range(lower(during) + ${later}::int8, upper(during) + ${later}::int8) as during
      from taken_times
      where company_id = ${companyId} and test_mode = ${testMode} and id = ${bookingId}
    )
    update taken_times t
    set id = ${newId}, start_at = ${startAt}, end_at = ${endAt}, during = place.during
    from place
    where t.company_id = ${companyId} and t.test_mode = ${testMode} and t.id = place.id
      and not exists (
        select from taken_times other
        where other.company_id = ${companyId} and other.test_mode = ${testMode} and other.user_id = ${userId} and other.id <> ${bookingId}
          and other.during && place.during
      )`;
  const [{ count }] = await Promise.all([moved, dropped, locked]);
  return count === 1;
}

/**
 * Extends a held time, and never shortens it.
 * @returns its new expiry; undefined if it has ended
 */
export async function extendTime(
  sql: Sql,
  scope: TenantScope,
  { id, userId, until }: { id: string; userId: string; until: Date },
  now: Date,
): Promise<Date | undefined> {
  const { companyId, testMode } = scope;
  const locked = lockUser(sql, scope, userId);
  const extended = sql<{ expiresAt: Date }[]>`
    update taken_times set expires_at = greatest(expires_at, ${until})
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and expires_at > ${now}
    returning expires_at`;
  const [[row]] = await Promise.all([extended, locked]);
  return row?.expiresAt;
}

/**
 * Frees a time of a user.
 * @param id of the reservation or of the booking
 * @returns false if it was already free
 */
export async function freeTime(
  sql: Sql,
  scope: TenantScope,
  { id, userId }: { id: string; userId: string },
): Promise<boolean> {
  const { companyId, testMode } = scope;
  const locked = lockUser(sql, scope, userId);
  const freed = sql`delete from taken_times where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  const [{ count }] = await Promise.all([freed, locked]);
  return count === 1;
}

/**
 * Milliseconds for which a meeting and its buffers may last after the meeting's start, or begin
 * before it.
 */
const maxMeetingSpan = (480 + 240) * 60_000;

/**
 * Returns when these users are taken, by user.
 * @param parts `whole`: a meeting and its buffers are one entry; `separate`: buffers are entries of their own, which
 *   takes longer to read
 */
export async function findTakenTimes(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  userIds: readonly string[],
  { from, to }: { from: Date; to: Date },
  now: Date,
  parts: 'whole' | 'separate' = 'whole',
): Promise<Map<string, Busy[]>> {
  // Lists of numbers, one row for each user: reading thousands of rows would take longer than
  // finding them.
  const milliseconds = (column: string) =>
    sql`array_to_json(array_agg((date_part('epoch', ${sql(column)}) * 1000)::int8))`;
  const rows = await sql<TakenRow[]>`
    select user_id, array_to_json(array_agg(lower(during))) as starts, array_to_json(array_agg(upper(during))) as ends,
      array_to_json(array_agg(expires_at is not null)) as held
      ${parts === 'whole' ? sql`` : sql`, ${milliseconds('start_at')} as meeting_starts, ${milliseconds('end_at')} as meeting_ends`}
    from taken_times
    where company_id = ${companyId} and test_mode = ${testMode} and user_id = any(${[...userIds]}::uuid[])
      and start_at >= ${new Date(from.getTime() - maxMeetingSpan)} and start_at < ${new Date(to.getTime() + maxMeetingSpan)}
      and (expires_at is null or expires_at > ${now})
    group by user_id`;
  return new Map(rows.map((row) => [row.userId, toBusy(row)]));
}

interface TakenRow {
  userId: string;
  /** Including the buffers. */
  starts: number[];
  ends: number[];
  held: boolean[];
  /** Without the buffers, if they were requested. */
  meetingStarts?: number[];
  meetingEnds?: number[];
}

function toBusy({ starts, ends, held, meetingStarts, meetingEnds }: TakenRow): Busy[] {
  return starts.flatMap((start, index): Busy[] => {
    const end = ends[index] ?? start;
    const reason = held[index] ? 'reservation' : 'booking';
    if (!meetingStarts || !meetingEnds) return [{ start, end, reason }];
    const [meetingStart, meetingEnd] = [meetingStarts[index] ?? start, meetingEnds[index] ?? end];
    const parts: Busy[] = [
      { start, end: meetingStart, reason: 'buffer' },
      { start: meetingStart, end: meetingEnd, reason },
      { start: meetingEnd, end, reason: 'buffer' },
    ];
    return parts.filter((part) => part.start < part.end);
  });
}

/**
 * Returns when meetings of these users begin, in milliseconds since 1970, by user. For the daily
 * maximum.
 */
export async function findMeetingStarts(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  userIds: readonly string[],
  { from, to }: { from: Date; to: Date },
  now: Date,
): Promise<Map<string, number[]>> {
  const rows = await sql<{ userId: string; starts: number[] }[]>`
    select user_id, array_to_json(array_agg(date_part('epoch', start_at) * 1000)) as starts
    from taken_times
    where company_id = ${companyId} and test_mode = ${testMode} and user_id = any(${[...userIds]}::uuid[])
      and start_at >= ${from} and start_at < ${to} and (expires_at is null or expires_at > ${now})
    group by user_id`;
  return new Map(rows.map(({ userId, starts }) => [userId, starts]));
}

const toRange = (sql: Sql, { from, to }: { from: Date; to: Date }) =>
  sql`int8range(${from.getTime()}::int8, ${to.getTime()}::int8)`;

/** Returns how many future meetings these users have, by user. */
export async function countAhead(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  userIds: readonly string[],
  now: Date,
): Promise<Map<string, number>> {
  const rows = await sql<{ userId: string; ahead: number }[]>`
    select user_id, count(*)::int as ahead
    from taken_times
    where company_id = ${companyId} and test_mode = ${testMode} and user_id = any(${[...userIds]}::uuid[]) and start_at >= ${now}
      and (expires_at is null or expires_at > ${now})
    group by user_id`;
  return new Map(rows.map(({ userId, ahead }) => [userId, ahead]));
}
