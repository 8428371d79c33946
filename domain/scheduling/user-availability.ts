// Describes a person's availability in an interval, and whether they can be booked.
import { type Interval, Occupied, subtract } from '../service/intervals.ts';
import { ZoneClocks } from '../service/zone-clocks.ts';
import type { Busy, BusyReason } from './slots.ts';
import {
  computeDaysOff,
  computeWorkingTime,
  type DayOff,
  type DayOffReason,
  type WorkingHours,
} from './working-time.ts';

/** `not_read`: connected, but its events were not read yet. */
export type CalendarStatus = 'connected' | 'not_connected' | 'not_read' | 'error';

/** Returns true if the calendar's busy intervals are known. */
export const isKnown = (calendar: CalendarStatus): boolean => calendar !== 'error' && calendar !== 'not_read';

export interface Person {
  isActive: boolean;
  /** The status of the external calendar. Users without one are booked in the internal calendar. */
  calendar: CalendarStatus;
  hours: WorkingHours;
  daysOff: readonly DayOff[];
  /** The zone of the days off. */
  daysOffTimezone: string;
  /** Unordered, possibly overlapping. */
  busy: readonly Busy[];
}

/** What occupies a person's time. */
type BusyOrOffReason = BusyReason | DayOffReason;

/** In the order of the response. */
const reasons = [
  'user_inactive',
  'calendar_error',
  'calendar_not_read_yet',
  'calendar_not_connected',
  'outside_working_hours',
  'time_off',
  'holiday',
  'booking',
  'reservation',
  'external_event',
  'buffer',
] as const;

type UnavailableReason = (typeof reasons)[number];

export interface Availability {
  bookable: boolean;
  /**
   * Why the person cannot be booked, without duplicates. `calendar_not_connected` does not prevent
   * bookings.
   */
  reasons: UnavailableReason[];
  workingHours: Interval[];
  /** Free working hours; empty if the person cannot be booked. */
  free: Interval[];
  /** Ordered by start, inside and outside of working hours. Intervals may overlap. */
  busy: (Interval & { reason: BusyOrOffReason })[];
}

/**
 * Describes a person's availability, cut to the requested interval.
 * @param within milliseconds since 1970
 * @param clocks shared if the call covers several people
 */
export function describeAvailability(person: Person, within: Interval, clocks = new ZoneClocks()): Availability {
  const workingHours = computeWorkingTime(person.hours, within, clocks);
  const off = computeDaysOff(person.daysOff, person.daysOffTimezone, within, clocks);
  const busy = [...off, ...clip(person.busy, within)].sort((a, b) => a.start - b.start);
  const free = subtract(workingHours, busy);
  const found = new Set<UnavailableReason>();
  if (!person.isActive) found.add('user_inactive');
  if (person.calendar === 'error') found.add('calendar_error');
  if (person.calendar === 'not_read') found.add('calendar_not_read_yet');
  if (free.length === 0) for (const reason of findFullReasons(workingHours, busy)) found.add(reason);
  const bookable = found.size === 0;
  if (person.calendar === 'not_connected') found.add('calendar_not_connected');
  return {
    bookable,
    reasons: reasons.filter((reason) => found.has(reason)),
    workingHours,
    free: bookable ? free : [],
    busy,
  };
}

function clip(busy: readonly Busy[], within: Interval): Busy[] {
  return busy
    .map((entry) => ({ ...entry, start: Math.max(entry.start, within.start), end: Math.min(entry.end, within.end) }))
    .filter(({ start, end }) => start < end);
}

/** Returns what fills the working hours, or that there are none. */
function findFullReasons(working: readonly Interval[], busy: Availability['busy']): UnavailableReason[] {
  if (working.length === 0) return ['outside_working_hours'];
  const hours = new Occupied(working);
  return busy.filter(({ start, end }) => hours.firstMeeting(start, end)).map(({ reason }) => reason);
}
