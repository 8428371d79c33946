// A reference for free slots: minute by minute, on luxon's clocks.
import { IANAZone } from 'luxon';
import type { Member, SlotRejection, SlotRules } from '../../domain/scheduling/slots.ts';
import type { Interval } from '../../domain/service/intervals.ts';

export const minute = 60_000;
export const day = 24 * 60 * minute;

interface Wall {
  /** YYYY-MM-DD */
  date: string;
  /** 0 for Sunday. */
  weekday: number;
  /** HH:MM */
  time: string;
}

/** Local times, computed only from timestamps, which clock changes do not make ambiguous. */
const walls = new Map<string, Wall>();

function wall(timezone: string, moment: number): Wall {
  const full = Math.floor(moment / minute) * minute;
  const key = `${timezone} ${full}`;
  const known = walls.get(key);
  if (known) return known;
  const shown = new Date(full + IANAZone.create(timezone).offset(full) * minute);
  const text = shown.toISOString();
  const found = { date: text.slice(0, 10), weekday: shown.getUTCDay(), time: text.slice(11, 16) };
  if (walls.size > 50_000) walls.clear();
  walls.set(key, found);
  return found;
}

const parseMinutes = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));

/** Returns the windows that contain a local time, as minutes since they began by local clocks. */
function findElapsed({ timezone, weekly, dates = [] }: Member['hours'], moment: number): number[] {
  const { date, weekday, time } = wall(timezone, moment);
  const beginningOn = (itsDate: string, itsWeekday: number) =>
    dates.find((each) => each.date === itsDate)?.windows ?? weekly.filter((window) => window.weekday === itsWeekday);
  const yesterday = new Date(Date.parse(date) - day).toISOString().slice(0, 10);
  const ofToday = beginningOn(date, weekday).filter(({ start, end }) => start <= time && (end < start || time < end));
  const ofYesterday = beginningOn(yesterday, (weekday + 6) % 7).filter(({ start, end }) => end < start && time < end);
  return [
    ...ofToday.map(({ start }) => parseMinutes(time) - parseMinutes(start)),
    ...ofYesterday.map(({ start }) => parseMinutes(time) + 24 * 60 - parseMinutes(start)),
  ];
}

/** Returns true if the local time is within the hours of its day, or of the night before. */
const isWorking = (hours: Member['hours'], moment: number): boolean => findElapsed(hours, moment).length > 0;

const isOnGrid = (hours: Member['hours'], moment: number, intervalMinutes: number): boolean =>
  findElapsed(hours, moment).some((minutes) => minutes % intervalMinutes === 0);

const meets = (a: Interval, b: Interval): boolean => a.start < b.end && b.start < a.end;

export function refusal(member: Member, rules: SlotRules, start: number): SlotRejection | undefined {
  const slot = { start, end: start + rules.durationMinutes * minute };
  const moments = Array.from({ length: rules.durationMinutes }, (_, index) => start + index * minute);
  // A slot that starts within a minute ends within one.
  moments.push(slot.end - 1);
  if (!moments.every((moment) => isWorking(member.hours, moment))) return 'outside_working_hours';
  for (const moment of member.daysOff.length > 0 ? moments : []) {
    const { date } = wall(member.daysOffTimezone, moment);
    const off = member.daysOff.find(({ from, to }) => from <= date && date <= to);
    if (off) return off.reason;
  }
  const busy = member.busy.filter((entry) => entry.start < entry.end).toSorted((a, b) => a.start - b.start);
  const taken = busy.find((entry) => meets(entry, slot));
  if (taken) return taken.reason;
  const around = {
    start: slot.start - rules.bufferBeforeMinutes * minute,
    end: slot.end + rules.bufferAfterMinutes * minute,
  };
  if (busy.some((entry) => meets(entry, around))) return 'buffer';
  if (rules.maxPerDay === null) return undefined;
  const { date } = wall(rules.timezone, start);
  const booked = member.bookedStarts.filter((other) => wall(rules.timezone, other).date === date);
  return booked.length >= rules.maxPerDay ? 'daily_maximum' : undefined;
}

/** Returns all slots by start. */
export function findReferenceSlots(members: readonly Member[], rules: SlotRules) {
  const { within, intervalMinutes, durationMinutes } = rules;
  const slots = [];
  for (
    let start = Math.ceil(within.start / minute) * minute;
    start + durationMinutes * minute <= within.end;
    start += minute
  ) {
    if (!members.some(({ hours }) => isOnGrid(hours, start, intervalMinutes))) continue;
    const able = members.filter((member) => refusal(member, rules, start) === undefined);
    if (able.length > 0)
      slots.push({ start, end: start + durationMinutes * minute, userIds: able.map(({ userId }) => userId) });
  }
  return slots;
}

/** Returns the times of offset changes in a year of UTC, to the minute. */
export function findOffsetChanges(timezone: string, year: number): number[] {
  const zone = IANAZone.create(timezone);
  const changes: number[] = [];
  for (let from = Date.UTC(year, 0, 1); from < Date.UTC(year + 1, 0, 1); from += day) {
    const before = zone.offset(from);
    if (zone.offset(from + day) === before) continue;
    let [low, high] = [from, from + day];
    while (high - low > minute) {
      const middle = low + Math.floor((high - low) / (2 * minute)) * minute;
      if (zone.offset(middle) === before) low = middle;
      else high = middle;
    }
    changes.push(high);
  }
  return changes;
}
