// Finds slots that can be offered, and checks single slots, with the same rules for both.
import { type Interval, Occupied } from '../service/intervals.ts';
import { day, findDate, minute, type Stretch, type WallDay, ZoneClocks } from '../service/zone-clocks.ts';
import {
  computeDaysOff,
  computeWorkingTime,
  type DayOff,
  type DayOffReason,
  type FindWindows,
  prepareWindows,
  type WorkingHours,
} from './working-time.ts';

/** What occupies a person's time. */
export type BusyReason = 'booking' | 'reservation' | 'external_event' | 'buffer' | 'calendar_not_read_yet';

export interface Busy extends Interval {
  reason: BusyReason;
}

export interface Member {
  userId: string;
  hours: WorkingHours;
  daysOff: readonly DayOff[];
  /** The zone of the days off. */
  daysOffTimezone: string;
  /**
   * Unordered, possibly overlapping: bookings and holds with their own buffers, and external
   * events.
   */
  busy: readonly Busy[];
  /** Starts of confirmed bookings and of holds, for the daily maximum. */
  bookedStarts: readonly number[];
}

/** The requirements of a slot. */
export interface SlotDemand {
  durationMinutes: number;
  /** Buffers must not overlap busy time, but may lie outside of working hours. */
  bufferBeforeMinutes: number;
  bufferAfterMinutes: number;
  /** Maximum bookings and holds per person and day; null: unlimited. */
  maxPerDay: number | null;
  /** The policy's zone, in which the days of the maximum are counted. */
  timezone: string;
}

export interface SlotRules extends SlotDemand {
  /**
   * Positive. Slots start at multiples of it from the start of each window of working hours, in
   * local time.
   */
  intervalMinutes: number;
  /** Slots lie completely within it: from the minimum notice to the horizon. */
  within: Interval;
}

export interface FreeSlot extends Interval {
  /** In the order of the members. */
  userIds: string[];
}

/** Why a person cannot take a slot. `buffer` means that only the time around it is occupied. */
export type SlotRejection = 'outside_working_hours' | DayOffReason | BusyReason | 'daily_maximum';

/** The schedule of a member, prepared for checking many slots. Lengths are in milliseconds. */
interface Calendar {
  duration: number;
  before: number;
  after: number;
  off: Occupied<Interval & { reason: DayOffReason }>;
  busy: Occupied<Busy>;
  /**
   * Bookings and holds by date, and the stretches that map times to dates; undefined: not counted.
   */
  daily: { stretches: readonly Stretch[]; counts: ReadonlyMap<number, number>; most: number } | undefined;
}

/**
 * Finds slots with all members who can take them. Slots start on the grid of any member: at the
 * start of a window and every interval after it, in local time. A local time that occurs twice at a
 * clock change is offered twice.
 * @param limit the maximum number of slots
 * @param clocks shared within a call
 * @param named `first`: a slot names one member only, so that many slots of many members are fast
 * @returns slots ordered by start; truncated: there are more
 */
export function findSlots(
  members: readonly Member[],
  rules: SlotRules,
  limit: number,
  clocks = new ZoneClocks(),
  named: 'all' | 'first' = 'all',
): { slots: FreeSlot[]; truncated: boolean } {
  const { within, intervalMinutes } = rules;
  const duration = rules.durationMinutes * minute;
  const shifts = new Map<string, Shift>();
  const people = members.map((member) => ({
    userId: member.userId,
    shift: findShift(member.hours, shifts, within, clocks),
    calendar: prepareCalendar(member, rules, within, clocks),
  }));
  const slots: FreeSlot[] = [];
  // Day by day for all members, so that days beyond the limit are not computed.
  for (let from = within.start; from < within.end && slots.length <= limit; from += day) {
    const part = { start: from, end: Math.min(from + day, within.end) };
    const starts = new Set<number>();
    for (const { timezone, findWindows } of shifts.values())
      for (const start of findGridStarts(clocks.days(timezone, part), findWindows, intervalMinutes * minute))
        starts.add(start);
    const offered = [...starts]
      .sort((a, b) => a - b)
      .map((start): FreeSlot => ({ start, end: start + duration, userIds: [] }));
    const workable = new Map(
      [...shifts.values()].map((shift) => [shift, offered.filter((slot) => isWithin(shift.working, slot))]),
    );
    for (const { userId, shift, calendar } of people)
      for (const slot of workable.get(shift) ?? [])
        if ((named === 'all' || slot.userIds.length === 0) && findRejection(calendar, slot.start) === undefined)
          slot.userIds.push(userId);
    slots.push(...offered.filter(({ userIds }) => userIds.length > 0));
  }
  return { slots: slots.slice(0, limit), truncated: slots.length > limit };
}

/**
 * Checks if a member can take a slot. findSlots lists exactly the members who can.
 * @param start milliseconds since 1970, on the grid or not
 * @param clocks shared within a call
 * @returns why not; undefined: the slot can be taken
 */
export function canTake(
  member: Member,
  demand: SlotDemand,
  start: number,
  clocks = new ZoneClocks(),
): SlotRejection | undefined {
  const slot = { start, end: start + demand.durationMinutes * minute };
  const working = new Occupied(computeWorkingTime(member.hours, slot, clocks));
  if (!isWithin(working, slot)) return 'outside_working_hours';
  return findRejection(prepareCalendar(member, demand, slot, clocks), start);
}

/** Working hours, shared by all members who have the same. */
interface Shift {
  timezone: string;
  findWindows: FindWindows;
  working: Occupied<Interval>;
}

/** @param shifts known shifts by their hours; new ones are added */
function findShift(hours: WorkingHours, shifts: Map<string, Shift>, within: Interval, clocks: ZoneClocks): Shift {
  const key = JSON.stringify(hours);
  const known = shifts.get(key);
  if (known) return known;
  const working = new Occupied(computeWorkingTime(hours, within, clocks));
  const shift = { timezone: hours.timezone, findWindows: prepareWindows(hours), working };
  shifts.set(key, shift);
  return shift;
}

/** @param within contains all slots that will be checked */
function prepareCalendar(member: Member, demand: SlotDemand, within: Interval, clocks: ZoneClocks): Calendar {
  return {
    duration: demand.durationMinutes * minute,
    before: demand.bufferBeforeMinutes * minute,
    after: demand.bufferAfterMinutes * minute,
    off: new Occupied(computeDaysOff(member.daysOff, member.daysOffTimezone, within, clocks)),
    busy: new Occupied(member.busy),
    daily: countPerDay(member, demand, within, clocks),
  };
}

function countPerDay(
  { bookedStarts }: Member,
  { maxPerDay, timezone }: SlotDemand,
  within: Interval,
  clocks: ZoneClocks,
): Calendar['daily'] {
  if (maxPerDay === null) return undefined;
  // A date is shorter than two days, so every booking on a slot's date lies in this interval.
  const around = { start: within.start - 2 * day, end: within.end + 2 * day };
  const stretches = clocks.stretches(timezone, around);
  const counts = new Map<number, number>();
  for (const start of bookedStarts) {
    const date = findDate(stretches, start);
    if (date !== undefined) counts.set(date, (counts.get(date) ?? 0) + 1);
  }
  return { stretches, counts, most: maxPerDay };
}

/** Returns true if the whole interval is working time. */
function isWithin(working: Occupied<Interval>, { start, end }: Interval): boolean {
  const work = working.firstMeeting(start, end);
  return work !== undefined && work.start <= start && work.end >= end;
}

/** Returns why a person cannot take a slot within their working hours. */
function findRejection(calendar: Calendar, start: number): SlotRejection | undefined {
  const { off, busy, daily } = calendar;
  const end = start + calendar.duration;
  const dayOff = off.firstMeeting(start, end);
  if (dayOff) return dayOff.reason;
  if (busy.firstMeeting(start - calendar.before, end + calendar.after))
    return busy.firstMeeting(start, end)?.reason ?? 'buffer';
  if (!daily) return undefined;
  const date = findDate(daily.stretches, start);
  return date !== undefined && (daily.counts.get(date) ?? 0) >= daily.most ? 'daily_maximum' : undefined;
}

/**
 * Returns the times at which a window starts in local time, or a whole number of intervals later
 * within that window.
 */
function findGridStarts(days: readonly WallDay[], findWindows: FindWindows, interval: number): number[] {
  const starts: number[] = [];
  for (const { start, end, midnight, date, weekday } of days) {
    for (const window of findWindows({ date, weekday })) {
      const opening = midnight + window.opening;
      const closing = Math.min(midnight + window.end, end);
      const skipped = Math.max(0, Math.ceil((Math.max(start, midnight + window.start) - opening) / interval));
      for (let moment = opening + skipped * interval; moment < closing; moment += interval) starts.push(moment);
    }
  }
  return starts;
}
