// Computes a user's busy intervals from the events of a calendar, including recurrences.
import ICAL from 'ical.js';
import { type CalendarTimes, type OwnEvent, parseEventUid } from '../../domain/scheduling/calendars.ts';
import { type Interval, intersect } from '../../domain/service/intervals.ts';
import { Clocks } from './clocks.ts';
import { findStarts, type Part, readLength } from './repetitions.ts';
import { Unreadable } from './unreadable.ts';

/** Limits of one calendar: events, expanded recurrences, and returned intervals. */
const limits = { events: 20_000, repetitions: 20_000, intervals: 5000 };

export interface BusyTimesQuery {
  within: Interval;
  /** The owner of the calendar. */
  userId: string;
  /** The owner's zone, for whole days and for times without a zone. */
  timezone: string;
}

/** A busy interval of the owner. Events that this server wrote carry their booking. */
type BusyEvent = Interval | OwnEvent;

/**
 * Reads busy intervals from iCalendar objects.
 * @returns intervals cut to the requested time
 * @throws Unreadable if a limit is exceeded, and errors of the library if the text is not iCalendar
 */
export function readBusyTimes(objects: readonly string[], asked: BusyTimesQuery): CalendarTimes {
  const countEvent = counter(limits.events, 'too many events');
  const countRepetition = counter(limits.repetitions, 'too many recurrences');
  const intervals = objects.flatMap(parseCalendars).flatMap((calendar) => {
    const events = calendar.getAllSubcomponents('vevent');
    for (const _ of events) countEvent();
    return readCalendar(calendar, events, asked, countRepetition);
  });
  const isOwn = (found: BusyEvent): found is OwnEvent => 'bookingId' in found;
  const external = intersect(
    intervals.filter((found) => !isOwn(found)),
    [asked.within],
  );
  const own = intervals.filter(isOwn).flatMap(({ bookingId, ...event }) => {
    const [part] = intersect([event], [asked.within]);
    return part ? [{ bookingId, ...part }] : [];
  });
  if (external.length + own.length > limits.intervals) throw new Unreadable('too many events');
  return { external, own };
}

function counter(limit: number, why: string): () => void {
  let count = 0;
  return () => {
    count += 1;
    if (count > limit) throw new Unreadable(why);
  };
}

/** Parses one text, which may contain several calendars. */
function parseCalendars(text: string): ICAL.Component[] {
  const read: unknown = ICAL.parse(text);
  const all = Array.isArray(read) && Array.isArray(read[0]) ? read : [read];
  return all.map((each) => {
    const calendar = new ICAL.Component(each);
    if (calendar.name !== 'vcalendar') throw new Unreadable('not a calendar');
    return calendar;
  });
}

function readCalendar(
  calendar: ICAL.Component,
  events: readonly ICAL.Component[],
  { within, userId, timezone }: BusyTimesQuery,
  countRepetition: () => void,
): BusyEvent[] {
  const clocks = new Clocks(calendar, timezone);
  const byUid = Map.groupBy(events, (event) => String(event.getFirstPropertyValue('uid') ?? ''));
  return [...byUid].flatMap(([uid, components]) => {
    const bookingId = parseEventUid(uid, userId);
    const parts = components.flatMap((component) => readPart(component, clocks) ?? []);
    const replaced = new Set(parts.flatMap(({ replaces }) => replaces ?? []));
    return parts
      .filter((part) => part.isBusy)
      .flatMap((part) => {
        const length = readLength(part, clocks);
        return findStarts(part, replaced, length, clocks, within, countRepetition).map((start) => ({
          ...(bookingId === undefined ? {} : { bookingId }),
          start: start.moment,
          end: length.computeEnd(start),
        }));
      });
  });
}

/** @returns undefined if the component has no start, and therefore takes no time */
function readPart(component: ICAL.Component, clocks: Clocks): Part | undefined {
  const property = component.getFirstProperty('dtstart');
  const start = property?.getFirstValue();
  if (!(start instanceof ICAL.Time)) return undefined;
  const replacing = component.getFirstProperty('recurrence-id');
  const replaces = replacing?.getFirstValue();
  const says = (name: string): string => String(component.getFirstPropertyValue(name) ?? '').toUpperCase();
  return {
    component,
    start,
    clock: clocks.of(start, property),
    replaces: replaces instanceof ICAL.Time ? clocks.moment(replaces, replacing) : null,
    isBusy: says('transp') !== 'TRANSPARENT' && says('status') !== 'CANCELLED',
  };
}
