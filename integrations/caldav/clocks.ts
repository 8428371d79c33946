// Converts times of a calendar to timestamps, by their time zones.
import ICAL from 'ical.js';
import { Temporal } from 'temporal-polyfill';

/** @returns milliseconds since 1970 */
export type Clock = (time: ICAL.Time) => number;

const day = 86_400_000;

/** Returns a local time as if it were UTC, in milliseconds. */
export const toWallMilliseconds = ({ year, month, day, hour, minute, second }: ICAL.Time): number =>
  Date.UTC(year, month - 1, day, hour, minute, second);

/** Returns the local time for such milliseconds. */
export function toLocalTime(milliseconds: number, isDate: boolean): ICAL.Time {
  const time = ICAL.Time.fromJSDate(new Date(milliseconds), true);
  time.isDate = isDate;
  time.zone = ICAL.Timezone.localTimezone;
  return time;
}

export class Clocks {
  readonly #calendar: ICAL.Component;
  /** The owner's zone, for whole days and for times without a zone. */
  readonly #own: Clock;
  readonly #byName = new Map<string, Clock>();

  /** @param timezone IANA name of the owner's zone */
  constructor(calendar: ICAL.Component, timezone: string) {
    this.#calendar = calendar;
    this.#own = createClock(timezone);
  }

  /** @param property the property that contains the time; undefined: a time without a zone */
  moment(time: ICAL.Time, property: ICAL.Property | null | undefined): number {
    return this.of(time, property)(time);
  }

  /** Returns the clock of a time's zone. */
  of(time: ICAL.Time, property: ICAL.Property | null | undefined): Clock {
    if (!time.isDate && time.zone === ICAL.Timezone.utcTimezone) return toWallMilliseconds;
    const name = property?.getParameter('tzid');
    return time.isDate || typeof name !== 'string' ? this.#own : this.#named(name);
  }

  /**
   * Looks up a zone. An IANA name uses the current rules, any other name the definition in the
   * calendar.
   */
  #named(name: string): Clock {
    const known = this.#byName.get(name);
    if (known) return known;
    const found = isZone(name) ? createClock(name) : (this.#described(name) ?? this.#own);
    this.#byName.set(name, found);
    return found;
  }

  #described(name: string): Clock | undefined {
    const zone: ICAL.Timezone | null = this.#calendar.getTimeZoneByID(name);
    return zone ? (time) => toWallMilliseconds(time) - zone.utcOffset(time) * 1000 : undefined;
  }
}

/**
 * RFC 5545: a skipped time uses the offset before the change, and a repeated time is the first of
 * the two.
 */
function createClock(timezone: string): Clock {
  return ({ year, month, day, hour, minute, second, isDate }) => {
    const date = { year, month, day };
    if (isDate) return Temporal.PlainDate.from(date).toZonedDateTime(timezone).epochMilliseconds;
    const wall = Temporal.PlainDateTime.from({ ...date, hour, minute, second });
    return wall.toZonedDateTime(timezone, { disambiguation: 'compatible' }).epochMilliseconds;
  };
}

function isZone(name: string): boolean {
  try {
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** Adds days in local time. */
export const addDays = (time: ICAL.Time, days: number): ICAL.Time =>
  toLocalTime(toWallMilliseconds(time) + days * day, time.isDate);
