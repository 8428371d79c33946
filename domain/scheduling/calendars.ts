// Calendars outside of the server: what they are asked and told, whichever provider they are of.
import { type Interval, subtract, union } from '../service/intervals.ts';

/** Somebody's calendar, and who we are there. */
export type Connection = { userId: string } & (
  | {
      provider: 'caldav';
      /** Of the calendar itself, with a slash at its end. */
      url: string;
      username: string;
      password: string;
      /** As IANA names it: in which days begin, and times that name no zone lie. */
      timezone: string;
    }
  /** Always free, and remembers nothing. */
  | { provider: 'test' }
);

/** A connection as it is kept. */
export interface SealedConnection {
  userId: string;
  provider: Connection['provider'];
  url: string | null;
  username: string | null;
  sealedPassword: string | null;
  /** That of the user's working hours, else the company's. */
  timezone: string;
}

/** @param decrypt opens the password */
export function openConnection(sealed: SealedConnection, decrypt: (text: string) => string): Connection {
  const { userId, provider, url, username, sealedPassword, timezone } = sealed;
  if (provider === 'test') return { provider, userId };
  if (url === null || username === null || sealedPassword === null) throw new Error('the connection is incomplete');
  return { provider, userId, url, username, password: decrypt(sealedPassword), timezone };
}

/**
 * Why a calendar could not be asked or told. unreachable: no answer, or one that says "later". refused: it does not take the credentials,
 * or does not let them do this. unreadable: it answers, but not as a calendar does. timeout: it took too long. overloaded: it answered, and this server did not
 * get to read it in time.
 */
export type CalendarFaultKind = 'unreachable' | 'refused' | 'unreadable' | 'timeout' | 'overloaded';

export class CalendarFault extends Error {
  readonly kind: CalendarFaultKind;

  /** @param message for the log: it names no secret, and nothing of what is in the calendar */
  constructor(kind: CalendarFaultKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** An event that this service wrote for a booking, where it is now: people move events in their calendars. */
export interface OwnEvent extends Interval {
  bookingId: string;
}

/** Busy times in a calendar. */
export interface CalendarTimes {
  /** Events that others wrote: in order, without overlaps. */
  external: Interval[];
  own: OwnEvent[];
}

/**
 * Returns when a calendar keeps its owner from being booked, in order and without overlaps. An event of ours does
 * not count at the time of its booking, which is taken (or free again) by the booking itself. It counts anywhere else.
 * @param bookingTimes by the ids of bookings; an event of an unknown booking counts as one that others wrote
 */
export function blockedTimes(
  { external, own }: CalendarTimes,
  bookingTimes: ReadonlyMap<string, Interval>,
): Interval[] {
  if (own.length === 0) return external;
  const moved = own.flatMap(({ bookingId, start, end }) => {
    const booked = bookingTimes.get(bookingId);
    return booked ? subtract([{ start, end }], [wholeSeconds(booked)]) : [{ start, end }];
  });
  return union([...external, ...moved]);
}

/** Calendars keep no milliseconds. */
function wholeSeconds({ start, end }: Interval): Interval {
  return { start: Math.floor(start / 1000) * 1000, end: Math.ceil(end / 1000) * 1000 };
}

/** What a booking looks like in a calendar. */
export interface CalendarEvent extends Interval {
  uid: string;
  title: string;
  description: string | null;
  location: string | null;
  attendee: { name: string; email: string | null; phone: string | null };
  /** Milliseconds since 1970 at which it was booked. */
  createdAt: number;
}

/** Where an event is that was written. */
interface WrittenEvent {
  /** For the calendar; null where it keeps none. */
  url: string | null;
  /** For people; null where the calendar has no pages for them. */
  link: string | null;
}

/** What every calendar does for us. Where one cannot be asked or told it throws CalendarFault, after seventeen seconds at the latest. */
export interface Calendars {
  /** What speaks against calling an address, in words that follow its name; undefined where nothing does. */
  refusalOf(url: string): Promise<string | undefined>;
  /** Asks whether there is a calendar that these credentials may read and write. */
  verify(connection: Connection): Promise<void>;
  /** Returns what takes the owner's time, cut to the time that is asked about. */
  busyTimes(connection: Connection, within: Interval): Promise<CalendarTimes>;
  /** Writes an event once: one that is there already stays as it is. */
  writeEvent(connection: Connection, event: CalendarEvent): Promise<WrittenEvent>;
  /** Removes an event; one that is not there is removed already. @param event with the url that was told when it was written, if one was */
  removeEvent(connection: Connection, event: { uid: string; url: string | null }): Promise<void>;
}

/** The UID of a booking's event. It names the user as well: another user's booking in a calendar that two share is taken time. */
export const eventUid = (bookingId: string, userId: string): string => `${bookingId}@${userId}`;

/** Returns the id of the booking that an event was written for; undefined if it is not an event of this user's booking. */
export function bookingIdIn(uid: string, userId: string): string | undefined {
  const bookingId = uid.slice(0, 36);
  return uid === eventUid(bookingId, userId) && isUuid.test(bookingId) ? bookingId : undefined;
}

const isUuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
