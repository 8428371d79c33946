// How people of the demo workspace can be met, and what was booked with them, in test mode.
import type { DemoMeetings } from '../../domain/demo/meetings.ts';
import type { StoredBooking } from '../../domain/scheduling/bookings.ts';
import type { Sql } from '../client/pool.ts';
import { insertBooking } from '../scheduling/bookings.ts';
import { insertPolicy } from '../scheduling/policies.ts';
import { insertPool, replaceMembers } from '../scheduling/pools.ts';
import { insertReservation } from '../scheduling/reservations.ts';

const maker = { kind: 'system', id: 'system', name: 'Demo' } as const;

export async function insertMeetings(sql: Sql, companyId: string, demo: DemoMeetings, now: Date): Promise<void> {
  const scope = { companyId, testMode: true };
  const stamps = { created_at: now, updated_at: now };
  await insertPolicy(sql, companyId, { ...demo.policy, ...stamps });
  for (const { members, ...pool } of demo.pools) {
    await insertPool(sql, companyId, { ...pool, policy_id: null, assignment_strategy: null, rotation: 1, ...stamps });
    await replaceMembers(sql, companyId, pool.id, members);
  }
  const poolId = demo.pools[0]?.id ?? null;
  await Promise.all(
    demo.bookings.map((each) => {
      const isCancelled = each.status === 'cancelled';
      const booking: StoredBooking = {
        id: each.id,
        status: each.status,
        user_id: each.userId,
        pool_id: poolId,
        policy_id: demo.policy.id,
        start_at: each.startAt,
        end_at: each.endAt,
        timezone: demo.policy.timezone,
        attendee_name: each.attendee.name,
        attendee_email: each.attendee.email,
        attendee_phone: each.attendee.phone,
        attendee_timezone: null,
        attendee_locale: null,
        meeting_title: each.title,
        meeting_description: null,
        location_kind: 'video',
        location: null,
        meeting_url: null,
        provider: 'test',
        calendar_event_link: null,
        object: each.leadId === null ? null : 'leads',
        record_id: each.leadId,
        rescheduled_from: null,
        rescheduled_to: null,
        cancelled_at: isCancelled ? each.createdAt : null,
        cancellation_reason: isCancelled ? 'No time after all' : null,
        invitation_id: each.id,
        invitation_sequence: 0,
        created_at: each.createdAt,
        updated_at: each.createdAt,
      };
      return insertBooking(sql, scope, booking, maker);
    }),
  );
  const { reservation } = demo;
  await insertReservation(
    sql,
    scope,
    {
      id: reservation.id,
      status: 'held',
      user_id: reservation.userId,
      is_assigned: true,
      pool_id: poolId ?? '',
      policy_id: demo.policy.id,
      start_at: reservation.startAt,
      end_at: reservation.endAt,
      ttl_seconds: 600,
      expires_at: reservation.expiresAt,
      hard_cap_at: new Date(reservation.expiresAt.getTime() + 1000),
      created_at: now,
    },
    maker,
  );
  const taken = [
    ...demo.bookings
      .filter(({ status }) => status !== 'cancelled')
      .map(({ id, userId, startAt, endAt }) => ({ id, userId, startAt, endAt, expiresAt: null as Date | null })),
    reservation,
  ];
  await Promise.all(
    taken.map(
      ({ id, userId, startAt, endAt, expiresAt }) => sql`
        insert into taken_times (company_id, test_mode, id, user_id, start_at, end_at, during, expires_at)
        values (${companyId}, true, ${id}, ${userId}, ${startAt}, ${endAt}, int8range(${startAt.getTime()}::int8, ${endAt.getTime()}::int8), ${expiresAt})`,
    ),
  );
}
