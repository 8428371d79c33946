// Times to which an attendee can move a booking: those that a search would offer.
import type { BookingRow } from '../../db/scheduling/bookings.ts';
import { findMembers } from '../../db/scheduling/members.ts';
import { findDefaultPolicy, findPolicy } from '../../db/scheduling/policies.ts';
import type { FreeSlot } from '../../domain/scheduling/slots.ts';
import type { SchedulingCall } from './bookable-users.ts';
import { computeHorizon, findSlotsWithin } from './slot-offers.ts';

/** The slots of a page, and where the next page starts; null: there are no more. */
export interface SlotPage {
  slots: FreeSlot[];
  next: number | null;
}

/**
 * Returns free times of a booking's user, of the length of the booking, under its policy or the
 * default policy. None if the user is inactive or no policy exists.
 * @param from milliseconds since 1970
 */
export async function findAttendeeSlots(
  call: SchedulingCall,
  booking: BookingRow,
  from: number,
  limit: number,
): Promise<SlotPage> {
  const { companyId } = call.caller;
  const { sql } = call.db;
  const [named, standard, users] = await Promise.all([
    findPolicy(sql, companyId, booking.policyId),
    findDefaultPolicy(sql, companyId),
    findMembers(sql, { companyId, reach: { kind: 'company' } }, [booking.userId]),
  ]);
  const policy = named ?? standard;
  const start = Math.max(from, call.now.getTime());
  if (!policy || !users[0]?.isActive || start >= computeHorizon(call, policy)) return { slots: [], next: null };
  const within = { start, end: computeHorizon(call, policy) };
  const minutes = (booking.endAt.getTime() - booking.startAt.getTime()) / 60_000;
  const { slots } = await findSlotsWithin(call, { policy, standard }, users, within, minutes, limit + 1);
  return { slots: slots.slice(0, limit), next: slots[limit]?.start ?? null };
}
