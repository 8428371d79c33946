// Assigns a slot to the first available person by strategy.
import { type Attempt, takeTime } from '../../db/scheduling/taken-times.ts';
import { type AssignmentStrategy, type Candidate, chooseMember } from '../../domain/scheduling/assignment.ts';
import { canTake, type Member, type SlotDemand } from '../../domain/scheduling/slots.ts';
import { findDay } from '../../domain/service/zone-clocks.ts';
import type { Call } from '../../runtime/handler.ts';

type TakingCall = Pick<Call, 'db' | 'caller' | 'now'>;

const minute = 60_000;

/** A slot to assign. */
export interface SlotToTake {
  /** The id of the reservation or the booking. */
  id: string;
  /** Milliseconds since 1970. */
  start: number;
  demand: SlotDemand;
  /** The expiry of a reservation; null: a booking. */
  expiresAt: Date | null;
}

/** Returns the people who can take the slot, as far as is known. */
function whoCan<Person extends Member>(people: readonly Person[], { start, demand }: SlotToTake): Person[] {
  return people.filter((person) => canTake(person, demand, start) === undefined);
}

/**
 * Assigns the slot to the first person by strategy who is still free. If several calls compete for
 * one person, the losers try the next one.
 * @param people who may take it
 * @param candidates all members among whom turns are counted
 * @returns the person. If no one is free, `isReserved` says if a reservation was in the way. It may
 * have expired since, so do not look it up afterwards.
 */
export async function takeForSomebody<Person extends Member>(
  call: TakingCall,
  people: readonly Person[],
  { strategy, candidates }: { strategy: AssignmentStrategy; candidates: readonly Candidate[] },
  slot: SlotToTake,
): Promise<{ person: Person } | { person: undefined; isReserved: boolean }> {
  let isReserved = people.some((person) => isReservedFor(person, slot));
  const left = new Map(whoCan(people, slot).map((person) => [person.userId, person]));
  for (;;) {
    const userId = chooseMember(strategy, candidates, new Set(left.keys()));
    const person = userId === undefined ? undefined : left.get(userId);
    if (!person) return { person: undefined, isReserved };
    const attempt = await takeFor(call, person, slot);
    if (attempt === 'taken') return { person };
    isReserved ||= attempt === 'reserved';
    left.delete(person.userId);
  }
}

/** Returns true if a known reservation of this person overlaps the slot or its buffers. */
function isReservedFor({ busy }: Member, { start, demand }: SlotToTake): boolean {
  const from = start - demand.bufferBeforeMinutes * minute;
  const to = start + (demand.durationMinutes + demand.bufferAfterMinutes) * minute;
  return busy.some((entry) => entry.reason === 'reservation' && entry.start < to && entry.end > from);
}

/**
 * Assigns the slot to one person, unless the person is busy or has reached the meetings of that
 * day.
 */
export async function takeFor(
  { caller, now, db: { sql } }: TakingCall,
  { userId }: Member,
  { id, start, demand, expiresAt }: SlotToTake,
): Promise<Attempt> {
  const end = start + demand.durationMinutes * minute;
  const time = {
    id,
    userId,
    expiresAt,
    startAt: new Date(start),
    endAt: new Date(end),
    from: new Date(start - demand.bufferBeforeMinutes * minute),
    to: new Date(end + demand.bufferAfterMinutes * minute),
  };
  const day = demand.maxPerDay === null ? null : findDay(start, demand.timezone);
  const maximum = day && {
    meetings: demand.maxPerDay ?? 0,
    dayStart: new Date(day.start),
    dayEnd: new Date(day.end),
  };
  // Releases the lock on a busy person. Holding it while waiting for another person's lock could
  // deadlock.
  await sql`savepoint taking`;
  const attempt = await takeTime(sql, caller, time, maximum, now);
  await (attempt === 'taken' ? sql`release savepoint taking` : sql`rollback to savepoint taking`);
  return attempt;
}
