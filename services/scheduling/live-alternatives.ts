// Alternative times after a user's calendar turned out to have changed.
import type { BookingRow } from '../../db/scheduling/bookings.ts';
import { findDefaultPolicy, findPolicy, type PolicyRow } from '../../db/scheduling/policies.ts';
import type { FreeSlot } from '../../domain/scheduling/slots.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { conflict } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';
import { findUsersIn } from './bookable-users.ts';
import { type AskingCall, type LiveTimes, readAhead } from './outside-calendars.ts';
import { computeHorizon, findNextSlots } from './slot-offers.ts';

export function addBuffers({ start, end }: Interval, policy: PolicyRow): Interval {
  return {
    start: start - policy.bufferBeforeMinutes * 60_000,
    end: end + policy.bufferAfterMinutes * 60_000,
  };
}

/** Returns the interval in which alternatives are searched, extended by the policy's buffers. */
export function computeAlternativesInterval(call: Pick<Call, 'now'>, from: number, policy: PolicyRow): Interval {
  return addBuffers({ start: from, end: Math.max(computeHorizon(call, policy), from) }, policy);
}

/** Reads the current calendar of one user from a time on. @param except as for askCalendar */
export async function readLiveTimes(
  call: AskingCall & Pick<Call, 'now'>,
  userId: string,
  from: number,
  policy: PolicyRow,
  except?: string,
): Promise<LiveTimes> {
  return new Map([[userId, await readAhead(call, userId, computeAlternativesInterval(call, from, policy), except)]]);
}

/**
 * Returns 409 slot_conflict with other times of the booking's user, if there are any.
 * @param where the place of the conflict. `outside` reads the external calendar again, so call it
 * before any write.
 */
export async function conflictWithAlternatives(
  call: AskingCall & Pick<Call, 'now'>,
  row: BookingRow,
  start: number,
  where: 'here' | 'outside',
): Promise<Error> {
  const { companyId } = call.caller;
  // The policy may have been deleted.
  const policy = await findPolicy(call.db.sql, companyId, row.policyId);
  const slots = policy ? await otherTimes(call, row, start, policy, where) : [];
  const alternatives = slots.map((slot) => ({
    start_at: new Date(slot.start).toISOString(),
    end_at: new Date(slot.end).toISOString(),
  }));
  return conflict('slot_conflict', `${row.userName} is not available at this time.`, { alternatives });
}

async function otherTimes(
  call: AskingCall & Pick<Call, 'now'>,
  row: BookingRow,
  start: number,
  policy: PolicyRow,
  where: 'here' | 'outside',
): Promise<FreeSlot[]> {
  const live = where === 'outside' ? await readLiveTimes(call, row.userId, start, policy, row.id) : undefined;
  const [standard, users] = await Promise.all([
    findDefaultPolicy(call.db.sql, call.caller.companyId),
    findUsersIn(call, 'user_id', [row.userId], { kind: 'company' }),
  ]);
  const minutes = (row.endAt.getTime() - row.startAt.getTime()) / 60_000;
  return findNextSlots(call, { policy, standard }, users, start, minutes, live);
}
