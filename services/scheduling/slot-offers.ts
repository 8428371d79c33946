// Slots of a pool with their tokens: for searches and as alternatives.
import { findMembers, type MemberRow } from '../../db/scheduling/members.ts';
import { findPool, type PoolRow } from '../../db/scheduling/pools.ts';
import { type AssignmentStrategy, type Candidate, chooseMember } from '../../domain/scheduling/assignment.ts';
import type { Exposure } from '../../domain/scheduling/policies.ts';
import { readClaim, type SlotClaim, writeClaim } from '../../domain/scheduling/slot-claims.ts';
import { canTake, type FreeSlot, findSlots } from '../../domain/scheduling/slots.ts';
import { isKnown } from '../../domain/scheduling/user-availability.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { ZoneClocks } from '../../domain/service/zone-clocks.ts';
import type { components } from '../../generated/api.ts';
import { ApiError, conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';
import {
  findCandidates,
  findPeople,
  findPolicies,
  type Person,
  type Policies,
  type ReadingOptions,
  type SchedulingCall,
  toSlotRules,
} from './bookable-users.ts';
import type { LiveTimes } from './outside-calendars.ts';

type SlotOffer = components['schemas']['SlotOffer'];
type OfferingCall = Pick<Call, 'db' | 'caller' | 'now' | 'services'>;

/** A pool with the members who can be booked. */
export interface OpenPool extends Policies {
  pool: PoolRow;
  strategy: AssignmentStrategy;
  /** Active and visible members, in the pool's order. */
  users: MemberRow[];
  /** Active and visible members whose calendar was read, in the pool's order. */
  people: Person[];
  candidates: Candidate[];
  /** Active and visible members whose calendar was not read yet, or cannot be read. */
  unknown: Unknown[];
}

/** A person whose availability is unknown, and why. */
export interface Unknown {
  user_id: string;
  reason: 'calendar_error' | 'calendar_not_read_yet';
}

export function listUnknown(people: readonly Person[]): Unknown[] {
  return people
    .filter(({ calendar }) => !isKnown(calendar))
    .map(({ userId, calendar }) => ({
      user_id: userId,
      reason: calendar === 'error' ? 'calendar_error' : 'calendar_not_read_yet',
    }));
}

/**
 * Returns a 409 error if no calendar of these people is readable.
 * @param whose names them in the message
 */
export function noCalendar(whose: string, unknown: readonly Unknown[]): ApiError {
  const isComing = unknown.some(({ reason }) => reason === 'calendar_not_read_yet');
  const advice = isComing
    ? 'has been read yet. Try again in a few seconds.'
    : 'can be read. Connect them again, or try again in a minute.';
  return conflict('no_calendar', `No calendar of ${whose} ${advice}`, { excluded: unknown });
}

/**
 * @param within the interval in which availability is read
 * @throws ApiError 404 if the pool or the policy does not exist or is not visible; 409 no_policy,
 * no_eligible_rep, no_calendar
 */
export async function openPool(
  call: OfferingCall,
  poolId: string,
  policyId: string | undefined,
  within: Interval,
  options: ReadingOptions = {},
): Promise<OpenPool> {
  const { caller } = call;
  const { sql } = call.db;
  const pool = orNotFound(await findPool(sql, caller, poolId));
  const order = pool.members.filter(({ is_active }) => is_active).map(({ user_id }) => user_id);
  const [policies, rows] = await Promise.all([
    findPolicies(call, policyId, pool.policyId),
    findMembers(sql, caller, order),
  ]);
  const users = rows.filter(({ isActive }) => isActive).sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
  if (users.length === 0) throw conflict('no_eligible_rep', `The pool ${pool.name} has no active member in reach.`);
  const members = pool.members.filter(({ user_id }) => users.some(({ id }) => id === user_id));
  const strategy = pool.assignmentStrategy ?? policies.policy.assignmentStrategy;
  const [people, candidates] = await Promise.all([
    findPeople(call, users, policies, within, options),
    findCandidates(call, pool, members, strategy),
  ]);
  const known = people.filter(({ calendar }) => isKnown(calendar));
  const unknown = listUnknown(people);
  if (known.length === 0) throw noCalendar(`the pool ${pool.name}`, unknown);
  return {
    ...policies,
    pool,
    users,
    strategy,
    people: known,
    candidates,
    unknown,
  };
}

/** How slots are offered. */
export interface OfferTerms {
  exposure: Exposure;
  /** Overrides the policy's duration in minutes; undefined: the policy's. */
  minutes: number | undefined;
  timezone: string | null;
}

export function findOffers(
  call: OfferingCall,
  opened: OpenPool,
  slots: readonly FreeSlot[],
  terms: OfferTerms,
): SlotOffer[] {
  const { companyId, testMode } = call.caller;
  const { pool, policy } = opened;
  const expiresAt = call.now.getTime() + policy.reservationTtlSeconds * 1000;
  return slots.map(({ start, end, userIds }) => {
    const userId =
      terms.exposure === 'individual'
        ? (chooseMember(opened.strategy, opened.candidates, new Set(userIds)) ?? null)
        : null;
    const claim: SlotClaim = {
      companyId,
      testMode,
      poolId: pool.id,
      policyId: policy.id,
      userId,
      exposure: terms.exposure,
      start,
      end,
      expiresAt,
      timezone: terms.timezone,
    };
    return {
      start_at: new Date(start).toISOString(),
      end_at: new Date(end).toISOString(),
      ...(userId === null ? {} : { user_id: userId }),
      ...(terms.exposure === 'merged' ? { user_ids: userIds } : {}),
      slot_token: tokenPrefix + call.services.signedTokens.write(tokenPurpose, writeClaim(claim)),
      token_expires_at: new Date(expiresAt).toISOString(),
    };
  });
}

const tokenPrefix = 'st_';
const tokenPurpose = 'slot tokens';

/**
 * Reads a slot token, which may have expired.
 * @throws ApiError 400 if it is not a token of this workspace and mode
 */
export function readSlotClaim({ caller, services: { signedTokens } }: OfferingCall, token: string): SlotClaim {
  const written = token.startsWith(tokenPrefix)
    ? signedTokens.read(tokenPurpose, token.slice(tokenPrefix.length))
    : undefined;
  const claim = written === undefined ? undefined : readClaim(written);
  if (claim?.companyId === caller.companyId && claim.testMode === caller.testMode) return claim;
  const message = 'slot_token must be a token that a slot search of this workspace returned.';
  const fields = [{ field: 'slot_token', code: 'INVALID_FORMAT', message }];
  throw new ApiError('VALIDATION_ERROR', message, { reason: 'invalid_slot_token', fields }, { status: 400 });
}

const alternatives = 5;
const day = 86_400_000;

/** Returns the next slots from a time on, within the horizon. */
export async function findAlternatives(
  call: OfferingCall,
  opened: OpenPool,
  from: number,
  terms: OfferTerms,
  live?: LiveTimes,
): Promise<SlotOffer[]> {
  return findOffers(call, opened, await findNextSlots(call, opened, opened.users, from, terms.minutes, live), terms);
}

/**
 * Returns a few slots of users from a time on, within the policy's horizon.
 * @param users in the order in which slots name them
 */
export async function findNextSlots(
  call: SchedulingCall,
  policies: Policies,
  users: readonly MemberRow[],
  from: number,
  minutes: number | undefined,
  live?: LiveTimes,
): Promise<FreeSlot[]> {
  const end = computeHorizon(call, policies.policy);
  if (from >= end) return [];
  const known = live ? { live } : {};
  return (await findSlotsWithin(call, policies, users, { start: from, end }, minutes, alternatives, known)).slots;
}

/** Returns the time until which slots are offered, in milliseconds since 1970. */
export const computeHorizon = ({ now }: Pick<Call, 'now'>, { horizonDays }: Policies['policy']): number =>
  now.getTime() + horizonDays * day;

/**
 * Returns the slot that exactly fills the interval, on the grid or not. undefined if the duration
 * differs.
 * @param people their availability in the interval
 */
export function findSlot(
  within: Interval,
  policy: Policies['policy'],
  people: readonly Person[],
  now: Date,
): FreeSlot | undefined {
  const rules = toSlotRules(policy, within, now);
  if (within.end - within.start !== rules.durationMinutes * 60_000) return undefined;
  const isOffered = rules.within.start <= within.start && rules.within.end >= within.end;
  const able = isOffered ? people.filter((person) => canTake(person, rules, within.start) === undefined) : [];
  return { ...within, userIds: able.map(({ userId }) => userId) };
}

/**
 * Milliseconds that are searched in one step. The first step is short, because most searches end in
 * it.
 */
const stretches = { first: 3 * day, further: 31 * day };

/**
 * Returns the starts of all slots of a pool that begin in an interval, ordered, in milliseconds.
 * @param people their availability in the interval and for one meeting after it
 */
export function findSlotStarts(
  { now }: Pick<Call, 'now'>,
  { policy, people }: OpenPool,
  within: Interval,
  clocks: ZoneClocks,
): number[] {
  const rules = toSlotRules(policy, { ...within, end: within.end + policy.durationMinutes * 60_000 }, now);
  const { slots } = findSlots(people, rules, Number.POSITIVE_INFINITY, clocks, 'first');
  return slots.map(({ start }) => start).filter((start) => start < within.end);
}

/** Returns the part of an interval that is searched first. */
export function getFirstStretch({ start, end }: Interval): Interval {
  return { start, end: Math.min(end, start + stretches.first) };
}

/**
 * Returns the earliest slots in an interval, searched step by step.
 * @param users in the order in which slots name them
 * @param minutes overrides the policy's duration; undefined: the policy's
 * @param limit the maximum number of slots
 * @param known the availability in the first step, and intervals of calendars just read
 */
export async function findSlotsWithin(
  call: SchedulingCall,
  policies: Policies,
  users: readonly MemberRow[],
  within: Interval,
  minutes: number | undefined,
  limit: number,
  { people: first, live }: { people?: readonly Person[]; live?: LiveTimes } = {},
): Promise<{ slots: FreeSlot[]; truncated: boolean }> {
  const rules = toSlotRules(policies.policy, within, call.now, minutes);
  const duration = rules.durationMinutes * 60_000;
  const clocks = new ZoneClocks();
  const slots: FreeSlot[] = [];
  let stretch = getFirstStretch(within);
  for (;;) {
    const isFirst = stretch.start === within.start;
    const people =
      (isFirst ? first : undefined) ?? (await findPeople(call, users, policies, stretch, live ? { live } : {}));
    const usable = people.filter(({ calendar, isActive }) => isActive && isKnown(calendar));
    const part = { start: Math.max(rules.within.start, stretch.start), end: Math.min(rules.within.end, stretch.end) };
    const found = findSlots(usable, { ...rules, within: part }, limit - slots.length, clocks);
    slots.push(...found.slots);
    if (found.truncated || stretch.end >= within.end) return { slots, truncated: found.truncated };
    // Continues at the first time at which a slot no longer fit.
    const start = stretch.end - duration + 1;
    stretch = { start, end: Math.min(within.end, start + stretches.further) };
  }
}
