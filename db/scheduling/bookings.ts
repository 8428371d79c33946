// Bookings: meetings with people from outside. taken_times prevents double bookings.
import type { StoredBooking } from '../../domain/scheduling/bookings.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { type Actor, type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { DueDataRow } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';
import { type Reach, selectVisibleUserIds } from '../client/visibility.ts';

export interface BookingRow extends StoredBooking, CreatedByRow {
  userName: string;
}

type BookingScope = TenantScope & { reach: Reach };

const columns = [
  'id',
  'status',
  'user_id',
  'pool_id',
  'policy_id',
  'start_at',
  'end_at',
  'timezone',
  'attendee_name',
  'attendee_email',
  'attendee_phone',
  'attendee_timezone',
  'attendee_locale',
  'guests',
  'answers',
  'metadata',
  'meeting_title',
  'meeting_description',
  'location_kind',
  'location',
  'meeting_url',
  'provider',
  'calendar_event_link',
  'object',
  'record_id',
  'rescheduled_from',
  'rescheduled_to',
  'cancelled_at',
  'cancellation_reason',
  'invitation_id',
  'invitation_sequence',
  'created_by_kind',
  'created_by_id',
  'created_by_name',
  'created_at',
  'updated_at',
] as const;

const selectWithName = (sql: Sql, companyId: string) => sql`
  ${sql(columns)}, (select full_name from users where company_id = ${companyId} and id = bookings.user_id) as user_name`;

const inReach = (sql: Sql, { companyId, reach }: BookingScope) =>
  reach.kind === 'company' ? sql`true` : sql`user_id in (${selectVisibleUserIds(sql, companyId, reach)})`;

/** Filters of a list of bookings. */
export interface BookingFilter {
  userId: string | undefined;
  statuses: readonly string[] | undefined;
  from: Date | undefined;
  to: Date | undefined;
  /** Bookings that start after this time. */
  after: Date | undefined;
  poolId: string | undefined;
  /** In lower case. */
  attendeeEmail: string | undefined;
  record: { object: string; id: string } | undefined;
  /** True: the earliest start first. */
  ascending: boolean;
}

/** Returns a page of bookings in the order of the filter. */
export async function listBookings(
  sql: Sql,
  scope: BookingScope,
  filter: BookingFilter,
  last: readonly [startAt: string, id: string] | undefined,
  limit: number,
): Promise<BookingRow[]> {
  const { companyId, testMode } = scope;
  const { userId, statuses, from, to, after, poolId, attendeeEmail, record, ascending } = filter;
  const direction = ascending ? sql`asc` : sql`desc`;
  return await sql<BookingRow[]>`
    select ${selectWithName(sql, companyId)}
    from bookings
    where company_id = ${companyId} and test_mode = ${testMode} and ${inReach(sql, scope)}
      ${userId ? sql`and user_id = ${userId}` : sql``}
      ${statuses ? sql`and status = any(${[...statuses]})` : sql``}
      ${from ? sql`and start_at >= ${from}` : sql``}
      ${to ? sql`and start_at <= ${to}` : sql``}
      ${after ? sql`and start_at > ${after}` : sql``}
      ${poolId ? sql`and pool_id = ${poolId}` : sql``}
      ${attendeeEmail ? sql`and attendee_email = ${attendeeEmail}` : sql``}
      ${record ? sql`and object = ${record.object} and record_id = ${record.id}` : sql``}
      ${last ? sql`and (start_at, id) ${ascending ? sql`>` : sql`<`} (${last[0]}::timestamptz, ${last[1]}::uuid)` : sql``}
    order by start_at ${direction}, id ${direction}
    limit ${limit}`;
}

/** Returns bookings about a record, the latest beginning first. */
export async function listBookingsAbout(
  sql: Sql,
  scope: BookingScope,
  record: { object: string; id: string },
  after: readonly [startAt: string, id: string] | undefined,
  limit: number,
): Promise<BookingRow[]> {
  const { companyId, testMode } = scope;
  return await sql<BookingRow[]>`
    select ${selectWithName(sql, companyId)}
    from bookings
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${record.object} and record_id = ${record.id}
      and ${inReach(sql, scope)}
      ${after ? sql`and (start_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by start_at desc, id desc
    limit ${limit}`;
}

export async function findBooking(sql: Sql, scope: BookingScope, id: string): Promise<BookingRow | undefined> {
  const { companyId, testMode } = scope;
  const [row] = await sql<BookingRow[]>`
    select ${selectWithName(sql, companyId)} from bookings
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and ${inReach(sql, scope)}`;
  return row;
}

/** Returns when live bookings take place, in any status, by their ids. */
export async function findBookingTimes(
  sql: Sql,
  companyId: string,
  ids: readonly string[],
): Promise<Map<string, Interval>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<Pick<BookingRow, 'id' | 'startAt' | 'endAt'>[]>`
    select id, start_at, end_at from bookings
    where company_id = ${companyId} and not test_mode and id = any(${[...ids]}::uuid[])`;
  return new Map(rows.map(({ id, startAt, endAt }) => [id, { start: startAt.getTime(), end: endAt.getTime() }]));
}

/** As findBooking, with a lock until the transaction ends. */
export async function lockBooking(sql: Sql, scope: BookingScope, id: string): Promise<BookingRow | undefined> {
  const { companyId, testMode } = scope;
  const [row] = await sql<BookingRow[]>`
    select ${selectWithName(sql, companyId)} from bookings
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and ${inReach(sql, scope)}
    for update`;
  return row;
}

export async function insertBooking(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  booking: StoredBooking,
  actor: Actor,
): Promise<void> {
  const { createdByUser: _, ...creator } = toCreatedColumns({ actor, userId: null });
  const [guests, answers, metadata] = [booking.guests, booking.answers, booking.metadata].map((value) =>
    sql.json(value as never),
  );
  await sql`insert into bookings ${sql({ companyId, testMode, ...booking, guests, answers, metadata, ...creator })}`;
}

/** Ends a confirmed booking. */
export async function endBooking(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  end: Pick<StoredBooking, 'status' | 'rescheduledTo' | 'cancelledAt' | 'cancellationReason' | 'invitationSequence'>,
  now: Date,
): Promise<void> {
  await sql`
    update bookings set ${sql({ ...end, updatedAt: now })}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Milliseconds after its end when a confirmed booking counts as completed. */
export const completionDelay = 15 * 60_000;

/**
 * Returns confirmed bookings that are over, those that ended first before others.
 * @param failed companies that are left out
 */
export async function findEndedBookings(
  sql: Sql,
  limit: number,
  time: DueTime,
  failed: readonly string[],
): Promise<DueDataRow[]> {
  const before = new Date(time.now.getTime() - completionDelay);
  return await sql<DueDataRow[]>`
    select company_id, test_mode, id from bookings
    where status = 'confirmed' and end_at <= ${before} and company_id <> all(${[...failed]}::uuid[])
      and ${belongsToRun(sql, 'bookings', time)}
    order by end_at
    limit ${limit}`;
}

/** Returns the records that bookings are about. */
export async function findBookedRecords(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  ids: readonly string[],
): Promise<{ object: string; id: string }[]> {
  return await sql<{ object: string; id: string }[]>`
    select distinct object, record_id as id from bookings
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${[...ids]}::uuid[]) and record_id is not null`;
}

/** Completes those of the bookings that are still confirmed. */
export async function completeBookings(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  ids: readonly string[],
  now: Date,
): Promise<void> {
  await sql`
    update bookings set status = 'completed', updated_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = any(${[...ids]}::uuid[]) and status = 'confirmed'`;
}
