// Taking a time of somebody: the first of those who can be met then, by strategy.
import { isHeld, takeTime } from '../db/scheduling/taken-times.ts';
import { type AssignmentStrategy, type Candidate, chooseMember } from '../domain/scheduling/assignment.ts';
import { canTake, type Member, type SlotDemand } from '../domain/scheduling/slots.ts';
import { dayAround } from '../domain/service/zone-clocks.ts';
import type { Call } from '../runtime/handler.ts';

type TakingCall = Pick<Call, 'sql' | 'caller' | 'now'>;

const minute = 60_000;

/** A slot that somebody is to take. */
export interface SlotToTake {
  /** Of the reservation or the booking. */
  id: string;
  /** Milliseconds since 1970. */
  start: number;
  demand: SlotDemand;
  /** Of a reservation; null: of a booking. */
  expiresAt: Date | null;
}

/** Of these people those who can take it, as far as is known. */
export function whoCan<Person extends Member>(people: readonly Person[], { start, demand }: SlotToTake): Person[] {
  return people.filter((person) => canTake(person, demand, start) === undefined);
}

/**
 * Takes the slot for the first by strategy who is still free: of racers for one person all but one go on to the next.
 * @param people who can take it
 * @param candidates all between whom turns are reckoned
 * @returns undefined where nobody is free any more
 */
export async function takeForSomebody<Person extends Member>(
  call: TakingCall,
  people: readonly Person[],
  { strategy, candidates }: { strategy: AssignmentStrategy; candidates: readonly Candidate[] },
  slot: SlotToTake,
): Promise<Person | undefined> {
  const left = new Map(people.map((person) => [person.userId, person]));
  for (;;) {
    const userId = chooseMember(strategy, candidates, new Set(left.keys()));
    const person = userId === undefined ? undefined : left.get(userId);
    if (!person) return undefined;
    if (await takeFor(call, person, slot)) return person;
    left.delete(person.userId);
  }
}

/** Takes the slot for one person. @returns false where the person is taken, or has enough meetings on that day */
export async function takeFor(
  { sql, caller, now }: TakingCall,
  { userId }: Member,
  { id, start, demand, expiresAt }: SlotToTake,
): Promise<boolean> {
  const end = start + demand.durationMinutes * minute;
  const time = {
    ...{ id, userId, expiresAt },
    startAt: new Date(start),
    endAt: new Date(end),
    from: new Date(start - demand.bufferBeforeMinutes * minute),
    to: new Date(end + demand.bufferAfterMinutes * minute),
  };
  const day = demand.maxPerDay === null ? null : dayAround(start, demand.timezone);
  const maximum = day && {
    meetings: demand.maxPerDay ?? 0,
    dayStart: new Date(day.start),
    dayEnd: new Date(day.end),
  };
  // The lock on a person who is taken is given back: whoever holds one and waits for another may wait for ever.
  await sql`savepoint taking`;
  const isTaken = await takeTime(sql, caller, time, maximum, now);
  await (isTaken ? sql`release savepoint taking` : sql`rollback to savepoint taking`);
  return isTaken;
}

/** True where it is a reservation that stands in the way of a slot. */
export function isReserved(
  { sql, caller, now }: TakingCall,
  people: readonly Member[],
  { start, demand }: SlotToTake,
): Promise<boolean> {
  const from = new Date(start - demand.bufferBeforeMinutes * minute);
  const to = new Date(start + (demand.durationMinutes + demand.bufferAfterMinutes) * minute);
  const ids = people.map(({ userId }) => userId);
  return isHeld(sql, caller, ids, { from, to }, now);
}
