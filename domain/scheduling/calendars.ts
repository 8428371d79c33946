// The interface of external calendars, independent of their provider.
import { type Interval, subtract, unite } from '../service/intervals.ts';

/** The calendar of a user, with credentials. */
export type Connection = { userId: string } & (
  | {
      provider: 'caldav';
      /** The URL of the calendar itself, with a trailing slash. */
      url: string;
      username: string;
      password: string;
      /** IANA zone for whole days and for times without a zone. */
      timezone: string;
    }
  /** Always free, and stores nothing. */
  | { provider: 'test' }
);

/** A stored connection. */
export interface SealedConnection {
  userId: string;
  provider: Connection['provider'];
  url: string | null;
  username: string | null;
  sealedPassword: string | null;
  /** The zone of the user's working hours, or else the company's. */
  timezone: string;
}

/** @param decrypt decrypts the password */
export function openConnection(sealed: SealedConnection, decrypt: (text: string) => string): Connection {
  const { userId, provider, url, username, sealedPassword, timezone } = sealed;
  if (provider === 'test') return { provider, userId };
  if (url === null || username === null || sealedPassword === null) throw new Error('the connection is incomplete');
  return { provider, userId, url, username, password: decrypt(sealedPassword), timezone };
}

/**
 * Why a calendar request failed. unreachable: no response, or a temporary error. refused: the
 * credentials are rejected, or lack the permission. unreadable: the response is not valid for a
 * calendar. timeout: it took too long. overloaded: it responded, but this server had no time to
 * read the response.
 */
export type CalendarFaultKind = 'unreachable' | 'refused' | 'unreadable' | 'timeout' | 'overloaded';

export class CalendarFault extends Error {
  readonly kind: CalendarFaultKind;

  /** @param message for the log: without secrets and without calendar content */
  constructor(kind: CalendarFaultKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/**
 * An event that this service wrote for a booking, at its current time. People move events in their
 * calendars.
 */
export interface OwnEvent extends Interval {
  bookingId: string;
}

/** The busy intervals of a calendar. */
export interface CalendarTimes {
  /** Events written by others, in order and without overlaps. */
  external: Interval[];
  own: OwnEvent[];
}

/**
 * Returns when a calendar prevents bookings of its owner, in order and without overlaps. Our own
 * event does not count at the time of its booking, because the booking itself takes that time. At
 * any other time it counts.
 * @param bookingTimes by booking id; an event of an unknown booking counts like one written by
 * others
 */
export function computeBlockedTimes(
  { external, own }: CalendarTimes,
  bookingTimes: ReadonlyMap<string, Interval>,
): Interval[] {
  if (own.length === 0) return external;
  const moved = own.flatMap(({ bookingId, start, end }) => {
    const booked = bookingTimes.get(bookingId);
    return booked ? subtract([{ start, end }], [roundToSeconds(booked)]) : [{ start, end }];
  });
  return unite([...external, ...moved]);
}

/** Calendars do not store milliseconds. */
function roundToSeconds({ start, end }: Interval): Interval {
  return { start: Math.floor(start / 1000) * 1000, end: Math.ceil(end / 1000) * 1000 };
}

/** The calendar event of a booking. */
export interface CalendarEvent extends Interval {
  uid: string;
  title: string;
  description: string | null;
  location: string | null;
  attendee: { name: string; email: string | null; phone: string | null };
  /** When it was booked, in milliseconds since 1970. */
  createdAt: number;
}

/** The location of a written event. */
interface WrittenEvent {
  /** For the calendar; null if it has none. */
  url: string | null;
  /** For people; null if the calendar has no pages. */
  link: string | null;
}

/**
 * Operations on calendars. They throw CalendarFault if the calendar fails, after at most 17
 * seconds.
 */
export interface Calendars {
  /**
   * Returns why a URL must not be requested, as words that follow its name; undefined if it may be.
   */
  findUrlRejection(url: string): Promise<string | undefined>;
  /** Verifies that the credentials can read and write the calendar. */
  verify(connection: Connection): Promise<void>;
  /** Returns the busy intervals of the owner, cut to the requested interval. */
  busyTimes(connection: Connection, within: Interval): Promise<CalendarTimes>;
  /** Writes an event once. An existing event stays unchanged. */
  writeEvent(connection: Connection, event: CalendarEvent): Promise<WrittenEvent>;
  /**
   * Removes an event. Succeeds if it does not exist.
   * @param event with the URL from when it was written, if any
   */
  removeEvent(connection: Connection, event: { uid: string; url: string | null }): Promise<void>;
}

/**
 * Returns the UID of a booking's event. It includes the user, because in a shared calendar another
 * user's booking counts as busy time.
 */
export const buildEventUid = (bookingId: string, userId: string): string => `${bookingId}@${userId}`;

/** Returns the booking id of an event; undefined if it is not an event of this user's bookings. */
export function parseEventUid(uid: string, userId: string): string | undefined {
  const bookingId = uid.slice(0, 36);
  return uid === buildEventUid(bookingId, userId) && isUuid.test(bookingId) ? bookingId : undefined;
}

const isUuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
