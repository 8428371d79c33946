// At which moment the clocks of a calendar's zones show a time.
import ICAL from 'ical.js';
import { Temporal } from 'temporal-polyfill';

/** @returns milliseconds since 1970 */
export type Clock = (time: ICAL.Time) => number;

const day = 86_400_000;

/** What the wall shows, as if it hung where the zone is UTC. */
export const wallTime = ({ year, month, day, hour, minute, second }: ICAL.Time): number =>
  Date.UTC(year, month - 1, day, hour, minute, second);

/** The time that the wall shows then. */
export function atWallTime(milliseconds: number, isDate: boolean): ICAL.Time {
  const time = ICAL.Time.fromJSDate(new Date(milliseconds), true);
  time.isDate = isDate;
  time.zone = ICAL.Timezone.localTimezone;
  return time;
}

export class Clocks {
  readonly #calendar: ICAL.Component;
  /** That of the owner: in which days begin, and times lie that name no zone. */
  readonly #own: Clock;
  readonly #byName = new Map<string, Clock>();

  /** @param timezone of the owner, as IANA names it */
  constructor(calendar: ICAL.Component, timezone: string) {
    this.#calendar = calendar;
    this.#own = clockOf(timezone);
  }

  /** @param property that the time stands in; undefined: one without a zone */
  moment(time: ICAL.Time, property: ICAL.Property | null | undefined): number {
    return this.of(time, property)(time);
  }

  /** The clock by which a time is meant. */
  of(time: ICAL.Time, property: ICAL.Property | null | undefined): Clock {
    if (!time.isDate && time.zone === ICAL.Timezone.utcTimezone) return wallTime;
    const name = property?.getParameter('tzid');
    return time.isDate || typeof name !== 'string' ? this.#own : this.#named(name);
  }

  /** A zone that IANA names is what it says today; any other is what the calendar says of it. */
  #named(name: string): Clock {
    const known = this.#byName.get(name);
    if (known) return known;
    const found = isZone(name) ? clockOf(name) : (this.#described(name) ?? this.#own);
    this.#byName.set(name, found);
    return found;
  }

  #described(name: string): Clock | undefined {
    const zone: ICAL.Timezone | null = this.#calendar.getTimeZoneByID(name);
    return zone ? (time) => wallTime(time) - zone.utcOffset(time) * 1000 : undefined;
  }
}

/** A time that is skipped is one of before the change, and of one that comes twice it is the first: so RFC 5545 says. */
function clockOf(timezone: string): Clock {
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

/** So many days later on the wall. */
export const daysLater = (time: ICAL.Time, days: number): ICAL.Time =>
  atWallTime(wallTime(time) + days * day, time.isDate);
