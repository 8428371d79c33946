// Scheduling of the demo workspace, with bookings and a reservation, in test mode.
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
  const stamps = { createdAt: now, updatedAt: now };
  await insertPolicy(sql, companyId, { ...demo.policy, ...stamps });
  for (const { members, ...pool } of demo.pools) {
    await insertPool(sql, companyId, { ...pool, policyId: null, assignmentStrategy: null, rotation: 1, ...stamps });
    await replaceMembers(sql, companyId, pool.id, members);
  }
  const poolId = demo.pools[0]?.id ?? null;
  await Promise.all(
    demo.bookings.map((each) => {
      const isCancelled = each.status === 'cancelled';
      const booking: StoredBooking = {
        id: each.id,
        status: each.status,
        userId: each.userId,
        poolId,
        policyId: demo.policy.id,
        startAt: each.startAt,
        endAt: each.endAt,
        timezone: demo.policy.timezone,
        attendeeName: each.attendee.name,
        attendeeEmail: each.attendee.email,
        attendeePhone: each.attendee.phone,
        attendeeTimezone: null,
        attendeeLocale: null,
        guests: [],
        answers: [],
        metadata: {},
        meetingTitle: each.title,
        meetingDescription: null,
        locationKind: 'video',
        location: null,
        meetingUrl: null,
        provider: 'test',
        calendarEventLink: null,
        object: each.leadId === null ? null : 'leads',
        recordId: each.leadId,
        rescheduledFrom: null,
        rescheduledTo: null,
        cancelledAt: isCancelled ? each.createdAt : null,
        cancellationReason: isCancelled ? 'No time after all' : null,
        invitationId: each.id,
        invitationSequence: 0,
        createdAt: each.createdAt,
        updatedAt: each.createdAt,
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
      userId: reservation.userId,
      isAssigned: true,
      poolId: poolId ?? '',
      policyId: demo.policy.id,
      startAt: reservation.startAt,
      endAt: reservation.endAt,
      ttlSeconds: 600,
      expiresAt: reservation.expiresAt,
      hardCapAt: new Date(reservation.expiresAt.getTime() + 1000),
      createdAt: now,
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
