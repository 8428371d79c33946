// Reads who can be booked, under which policy and when, for scheduling operations.
import { type CalendarState, findCalendars } from '../../db/scheduling/calendars.ts';
import { findMembers, type MemberRow } from '../../db/scheduling/members.ts';
import { findDefaultPolicy, findPolicy, type PolicyRow } from '../../db/scheduling/policies.ts';
import { findTurns, type PoolMember, type PoolRow } from '../../db/scheduling/pools.ts';
import { countAhead, findMeetingStarts, findTakenTimes } from '../../db/scheduling/taken-times.ts';
import type { AssignmentStrategy, Candidate } from '../../domain/scheduling/assignment.ts';
import type { Busy, Member, SlotDemand, SlotRules } from '../../domain/scheduling/slots.ts';
import type { CalendarStatus } from '../../domain/scheduling/user-availability.ts';
import type { WorkingHours } from '../../domain/scheduling/working-time.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { schedulingLimits } from '../../domain/service/request-limits.ts';
import { ApiError, buildProblem, conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';
import type { LiveTimes } from './outside-calendars.ts';

/** The parts of a call that reading availability needs. */
export interface SchedulingCall {
  db: Pick<Call['db'], 'sql'>;
  caller: Pick<Call['caller'], 'companyId' | 'testMode'>;
  now: Date;
}

const minute = 60_000;
const day = 24 * 60 * minute;
/** The maximum length of buffers, in milliseconds. */
const reach = 4 * 60 * minute;
const usualWindow = 7 * day;
const longestWindow = schedulingLimits.days * day;

/** The policy of a call, and the default policy, whose hours apply to users without their own. */
export interface Policies {
  policy: PolicyRow;
  standard: PolicyRow | undefined;
}

/**
 * @param asked the id in the call
 * @param ofPool the id in the pool
 * @throws ApiError 404 if the policy does not exist; 409 if none is named and there is no default
 */
export async function findPolicies(
  { caller: { companyId }, db: { sql } }: SchedulingCall,
  asked: string | undefined,
  ofPool: string | null = null,
): Promise<Policies> {
  const id = asked ?? ofPool;
  const [standard, named] = await Promise.all([
    findDefaultPolicy(sql, companyId),
    id === null ? undefined : findPolicy(sql, companyId, id),
  ]);
  const policy = id === null ? standard : orNotFound(named);
  if (!policy)
    throw conflict('no_policy', 'There is no default policy. Send policy_id, or assign a policy to the pool.');
  return { policy, standard };
}

/**
 * Returns the requested interval.
 * @throws ApiError 400 if it ends before it starts, or is longer than 31 days
 */
export function resolveWindow(now: Date, from: string | undefined, to: string | undefined): Interval {
  const start = from === undefined ? now.getTime() : Date.parse(from);
  const end = to === undefined ? start + usualWindow : Date.parse(to);
  if (end <= start) throw validationFailed([buildProblem('to', 'OUT_OF_RANGE', 'to must be after from')], 400);
  // A bare date stands for its last millisecond.
  if (end - start >= longestWindow + 1)
    throw validationFailed(
      [buildProblem('to', 'OUT_OF_RANGE', `to must be at most ${schedulingLimits.days} days after from`)],
      400,
    );
  return { start, end };
}

/** Returns the rules for slots in an interval. @param minutes overrides the policy's duration */
export function toSlotRules(
  policy: PolicyRow,
  within: Interval,
  now: Date,
  minutes = policy.durationMinutes,
): SlotRules {
  const soonest = now.getTime() + policy.minNoticeMinutes * minute;
  const latest = now.getTime() + policy.horizonDays * day;
  return {
    ...toSlotDemand(policy, minutes),
    intervalMinutes: policy.slotIntervalMinutes,
    within: { start: Math.max(within.start, soonest), end: Math.min(within.end, latest) },
  };
}

/**
 * Returns what a policy requires of a slot at any time.
 * @param minutes overrides the policy's duration
 */
export function toSlotDemand(policy: PolicyRow, minutes = policy.durationMinutes): SlotDemand {
  return {
    durationMinutes: minutes,
    bufferBeforeMinutes: policy.bufferBeforeMinutes,
    bufferAfterMinutes: policy.bufferAfterMinutes,
    maxPerDay: policy.maxBookingsPerDay,
    timezone: policy.timezone,
  };
}

/** A user with everything that determines their availability. */
export interface Person extends Member {
  fullName: string;
  isActive: boolean;
  calendar: CalendarStatus;
  provider: 'caldav' | 'internal' | 'test';
  /** When the calendar was last read; null for the internal one. */
  checkedAt: Date | null;
}

/**
 * Parses a list of ids in the query.
 * @throws ApiError 400 if it is not a list of 1 to 50 ids
 */
export function parseIds(field: string, list: string): string[] {
  const ids = [...new Set(list.split(',').map((id) => id.trim().toLowerCase()))];
  const isId = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
  if (ids.length > schedulingLimits.users)
    throw validationFailed(
      [buildProblem(field, 'OUT_OF_RANGE', `${field} must have at most ${schedulingLimits.users} ids`)],
      400,
    );
  if (!ids.every((id) => isId.test(id)))
    throw validationFailed(
      [buildProblem(field, 'INVALID_FORMAT', `${field} must be a list of user ids, separated by commas`)],
      400,
    );
  return ids;
}

/** Returns a 400 error for ids that belong to no user, or to none who can be booked. */
export function unknownUsers(field: string, ids: readonly string[]): ApiError {
  const message = `${field} contains ids that do not belong to a user.`;
  const fields = [buildProblem(field, 'NOT_FOUND', message)];
  return new ApiError('VALIDATION_ERROR', message, { fields, unknown_user_ids: ids }, { status: 400 });
}

/**
 * Returns the users of a list, in its order.
 * @param reach the visibility: the caller's, or the whole company if the operation is not limited
 * @throws ApiError 400 that names unknown ids
 */
export async function findUsersIn(
  { caller, db: { sql } }: SchedulingCall,
  field: string,
  ids: readonly string[],
  reach: Call['caller']['reach'],
): Promise<MemberRow[]> {
  const rows = new Map(
    (await findMembers(sql, { companyId: caller.companyId, reach }, ids)).map((row) => [row.id, row]),
  );
  const unknown = ids.filter((id) => !rows.has(id));
  if (unknown.length > 0) throw unknownUsers(field, unknown);
  return ids.map((id) => orNotFound(rows.get(id)));
}

/** Options for reading availability. */
export interface ReadingOptions {
  /** Replaces the stored busy intervals of these calendars. */
  live?: LiveTimes;
  /** Returns buffers around meetings as separate entries. */
  separateBuffers?: boolean;
}

/**
 * Reads the availability of users in an interval, in their order.
 * @param policy undefined: the users' own hours, regardless of policies
 */
export async function findPeople(
  { caller, now, db: { sql } }: SchedulingCall,
  users: readonly MemberRow[],
  { policy, standard }: { policy: PolicyRow | undefined; standard: PolicyRow | undefined },
  within: Interval,
  { live, separateBuffers = false }: ReadingOptions = {},
): Promise<Person[]> {
  const ids = users.map(({ id }) => id);
  const { companyId, testMode } = caller;
  const scope = { companyId, testMode };
  const window = { from: new Date(within.start), to: new Date(within.end) };
  // Whole days around the interval.
  const days = { from: new Date(within.start - 2 * day), to: new Date(within.end + 2 * day) };
  const reached = { start: within.start - reach, end: within.end + reach };
  const [taken, starts, calendars] = await Promise.all([
    findTakenTimes(sql, scope, ids, window, now, separateBuffers ? 'separate' : 'whole'),
    policy?.maxBookingsPerDay ? findMeetingStarts(sql, scope, ids, days, now) : undefined,
    testMode ? undefined : findCalendars(sql, companyId, ids, reached),
  ]);
  return users.map((user) => {
    const calendar = calendars?.get(user.id);
    const own = taken.get(user.id) ?? [];
    const outside = calendar ? outsideTimes(calendar, live?.get(user.id), reached) : free;
    const busy = outside.busy.length === 0 ? own : [...own, ...outside.busy];
    return {
      userId: user.id,
      fullName: user.fullName,
      isActive: user.isActive,
      hours: selectDates(findHours(user, policy, standard), days),
      daysOff: user.daysOff ?? [],
      daysOffTimezone: user.timezone ?? standard?.timezone ?? 'UTC',
      busy,
      bookedStarts: starts?.get(user.id) ?? [],
      calendar: outside.status,
      provider: testMode ? 'test' : (calendar?.provider ?? 'internal'),
      checkedAt: calendar?.checkedAt ?? null,
    };
  });
}

/** The busy intervals of an external calendar. */
interface OutsideTimes {
  status: CalendarStatus;
  busy: readonly Busy[];
}

const free: OutsideTimes = { status: 'connected', busy: [] };

/** @param live the intervals just read; null: reading failed; undefined: use the stored ones */
function outsideTimes(
  { provider, fault, readUntil, busy }: CalendarState,
  live: readonly Interval[] | null | undefined,
  within: Interval,
): OutsideTimes {
  if (live) return { status: 'connected', busy: live.map(asEvent) };
  if (live === null || fault !== null) return { status: 'error', busy: busy.map(asEvent) };
  // A test calendar has nothing to read.
  if (provider === 'test') return { status: 'connected', busy: busy.map(asEvent) };
  if (readUntil === null) return { status: 'not_read', busy: [] };
  const unread = { start: Math.max(readUntil.getTime(), within.start), end: within.end };
  const isRead = unread.start >= unread.end;
  return {
    status: 'connected',
    busy: isRead ? busy.map(asEvent) : [...busy.map(asEvent), { ...unread, reason: 'calendar_not_read_yet' }],
  };
}

const asEvent = ({ start, end }: Interval): Busy => ({ start, end, reason: 'external_event' });

/** Returns working hours with only the single dates around an interval. */
function selectDates(
  { timezone, weekly, dates = [] }: WorkingHours,
  { from, to }: { from: Date; to: Date },
): WorkingHours {
  const [first, last] = [from, to].map((time) => time.toISOString().slice(0, 10)) as [string, string];
  const near = dates.filter(({ date }) => first <= date && date <= last);
  return near.length === 0 ? { timezone, weekly } : { timezone, weekly, dates: near };
}

/**
 * Returns the policy's hours, or else the user's own, or else those of the default policy. Single
 * dates of the user apply unless the policy has hours.
 */
export function findHours(
  user: Pick<MemberRow, 'timezone' | 'weekly' | 'dates'>,
  policy: PolicyRow | undefined,
  standard: PolicyRow | undefined,
): WorkingHours {
  if (policy?.workingHours) return { timezone: policy.timezone, weekly: policy.workingHours };
  const dates = user.dates ?? [];
  if (user.timezone !== null && user.weekly) return { timezone: user.timezone, weekly: user.weekly, dates };
  return { timezone: standard?.timezone ?? 'UTC', weekly: standard?.workingHours ?? [], dates };
}

/** Returns the members of a pool for the assignment, in the pool's order. */
export async function findCandidates(
  { caller, now, db: { sql } }: SchedulingCall,
  pool: Pick<PoolRow, 'id' | 'rotation'>,
  members: readonly PoolMember[],
  strategy: AssignmentStrategy,
): Promise<Candidate[]> {
  const ids = members.map(({ user_id }) => user_id);
  const [turns, ahead] = await Promise.all([
    findTurns(sql, caller, pool),
    // All future meetings, counted only if the strategy needs them.
    strategy === 'least_busy' ? countAhead(sql, caller, ids, now) : undefined,
  ]);
  return members.map(({ user_id: userId, weight }) => ({
    userId,
    weight,
    assigned: turns.get(userId) ?? 0,
    load: ahead?.get(userId) ?? 0,
  }));
}
