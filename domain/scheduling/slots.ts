// Which slots can be offered, and whether somebody can take one: the same rule for both.
import { type Interval, Occupied } from '../service/intervals.ts';
import { dateAt, day, minute, type Stretch, type WallDay, ZoneClocks } from '../service/zone-clocks.ts';
import {
  type DayOff,
  type DayOffReason,
  daysOff,
  type WindowOfDay,
  type WorkingHours,
  windowsByWeekday,
  workingTime,
} from './working-time.ts';

/** What takes somebody's time. */
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
  /** In any order, overlapping or not: bookings and holds with their own buffers, events of other calendars. */
  busy: readonly Busy[];
  /** Starts of confirmed bookings and of holds, for the most of a day. */
  bookedStarts: readonly number[];
}

/** What a slot asks of who takes it. */
export interface SlotDemand {
  durationMinutes: number;
  /** Not taken by anything else, but outside of working time if need be. */
  bufferBeforeMinutes: number;
  bufferAfterMinutes: number;
  /** Bookings and holds that one person has on one day; null: as many as fit. */
  maxPerDay: number | null;
  /** Of the policy: on its wall begin the days that the maximum counts. */
  timezone: string;
}

export interface SlotRules extends SlotDemand {
  /** Above 0: from the start of each window of working hours, on the wall. */
  intervalMinutes: number;
  /** Slots lie wholly in it: from the earliest notice to the horizon. */
  within: Interval;
}

export interface FreeSlot extends Interval {
  /** In the order of the members. */
  userIds: string[];
}

/** Why somebody cannot take a slot; `buffer` also where only the time around it is taken. */
export type Refusal = 'outside_working_hours' | DayOffReason | BusyReason | 'daily_maximum';

/** What is known of a member over some time, arranged to be asked for many slots; lengths in milliseconds. */
interface Calendar {
  duration: number;
  before: number;
  after: number;
  off: Occupied<Interval & { reason: DayOffReason }>;
  busy: Occupied<Busy>;
  /** Bookings and holds by date, and the clock that says the date; undefined: they are not counted. */
  daily: { stretches: readonly Stretch[]; counts: ReadonlyMap<number, number>; most: number } | undefined;
}

/**
 * Slots with every member who can take them, at the wall times of the grid of any of them: a window's start and every interval
 * after it.
 * A wall time that the night repeats is offered twice.
 * @param limit how many at most
 * @param clocks shared with what else the call asks
 * @returns in order of start; truncated: there are more
 */
export function findSlots(
  members: readonly Member[],
  rules: SlotRules,
  limit: number,
  clocks = new ZoneClocks(),
): { slots: FreeSlot[]; truncated: boolean } {
  const { within, intervalMinutes } = rules;
  const duration = rules.durationMinutes * minute;
  const shifts = new Map<string, Shift>();
  const people = members.map((member) => ({
    userId: member.userId,
    shift: shiftOf(member.hours, shifts, within, clocks),
    calendar: calendarOf(member, rules, within, clocks),
  }));
  const slots: FreeSlot[] = [];
  // All members day by day, so that what is beyond the limit is not looked at.
  for (let from = within.start; from < within.end && slots.length <= limit; from += day) {
    const part = { start: from, end: Math.min(from + day, within.end) };
    const starts = new Set<number>();
    for (const { timezone, windows } of shifts.values())
      for (const start of gridStarts(clocks.days(timezone, part), windows, intervalMinutes * minute)) starts.add(start);
    const offered = [...starts]
      .sort((a, b) => a - b)
      .map((start): FreeSlot => ({ start, end: start + duration, userIds: [] }));
    const workable = new Map(
      [...shifts.values()].map((shift) => [shift, offered.filter((slot) => isIn(shift.working, slot))]),
    );
    for (const { userId, shift, calendar } of people)
      for (const slot of workable.get(shift) ?? [])
        if (refusalAtWork(calendar, slot.start) === undefined) slot.userIds.push(userId);
    slots.push(...offered.filter(({ userIds }) => userIds.length > 0));
  }
  return { slots: slots.slice(0, limit), truncated: slots.length > limit };
}

/**
 * Whether a member can take the slot that starts then: findSlots lists with a slot exactly those who can.
 * @param start milliseconds since 1970, on the grid or not
 * @param clocks shared with what else the call asks
 * @returns why not; undefined: it can be taken
 */
export function canTake(
  member: Member,
  demand: SlotDemand,
  start: number,
  clocks = new ZoneClocks(),
): Refusal | undefined {
  const slot = { start, end: start + demand.durationMinutes * minute };
  const working = new Occupied(workingTime(member.hours, slot, clocks));
  if (!isIn(working, slot)) return 'outside_working_hours';
  return refusalAtWork(calendarOf(member, demand, slot, clocks), start);
}

/** The hours of all who have the same. */
interface Shift {
  timezone: string;
  windows: readonly (readonly WindowOfDay[])[];
  working: Occupied<Interval>;
}

/** @param shifts those that are known, by what their hours are; grows */
function shiftOf(hours: WorkingHours, shifts: Map<string, Shift>, within: Interval, clocks: ZoneClocks): Shift {
  const key = JSON.stringify(hours);
  const known = shifts.get(key);
  if (known) return known;
  const working = new Occupied(workingTime(hours, within, clocks));
  const shift = { timezone: hours.timezone, windows: windowsByWeekday(hours), working };
  shifts.set(key, shift);
  return shift;
}

/** @param within has in it all slots that will be asked for */
function calendarOf(member: Member, demand: SlotDemand, within: Interval, clocks: ZoneClocks): Calendar {
  return {
    duration: demand.durationMinutes * minute,
    before: demand.bufferBeforeMinutes * minute,
    after: demand.bufferAfterMinutes * minute,
    off: new Occupied(daysOff(member.daysOff, member.daysOffTimezone, within, clocks)),
    busy: new Occupied(member.busy),
    daily: dailyCounts(member, demand, within, clocks),
  };
}

function dailyCounts(
  { bookedStarts }: Member,
  { maxPerDay, timezone }: SlotDemand,
  within: Interval,
  clocks: ZoneClocks,
): Calendar['daily'] {
  if (maxPerDay === null) return undefined;
  // No date lasts two days, so that whatever shares one with a slot lies in here.
  const around = { start: within.start - 2 * day, end: within.end + 2 * day };
  const stretches = clocks.stretches(timezone, around);
  const counts = new Map<number, number>();
  for (const start of bookedStarts) {
    const date = dateAt(stretches, start);
    if (date !== undefined) counts.set(date, (counts.get(date) ?? 0) + 1);
  }
  return { stretches, counts, most: maxPerDay };
}

/** Whether all of it is working time. */
function isIn(working: Occupied<Interval>, { start, end }: Interval): boolean {
  const work = working.firstMeeting(start, end);
  return work !== undefined && work.start <= start && work.end >= end;
}

/** Why somebody cannot take a slot that is in their working hours. */
function refusalAtWork(calendar: Calendar, start: number): Refusal | undefined {
  const { off, busy, daily } = calendar;
  const end = start + calendar.duration;
  const dayOff = off.firstMeeting(start, end);
  if (dayOff) return dayOff.reason;
  if (busy.firstMeeting(start - calendar.before, end + calendar.after))
    return busy.firstMeeting(start, end)?.reason ?? 'buffer';
  if (!daily) return undefined;
  const date = dateAt(daily.stretches, start);
  return date !== undefined && (daily.counts.get(date) ?? 0) >= daily.most ? 'daily_maximum' : undefined;
}

/** Moments at which the wall shows a window's start, or some full intervals later, within that window. */
function gridStarts(
  days: readonly WallDay[],
  windows: readonly (readonly WindowOfDay[])[],
  interval: number,
): number[] {
  const starts: number[] = [];
  for (const { start, end, midnight, weekday } of days) {
    for (const window of windows[weekday] ?? []) {
      const opening = midnight + window.start;
      const closing = Math.min(midnight + window.end, end);
      const skipped = Math.max(0, Math.ceil((start - opening) / interval));
      for (let moment = opening + skipped * interval; moment < closing; moment += interval) starts.push(moment);
    }
  }
  return starts;
}
