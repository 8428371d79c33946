// Calendars outside of the server: what they are asked and told, whichever provider they are of.
import type { Interval } from '../service/intervals.ts';

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
  if (url === null || username === null || sealedPassword === null) throw new Error('the connection is not complete');
  return { provider, userId, url, username, password: decrypt(sealedPassword), timezone };
}

/**
 * Why a calendar could not be asked or told. unreachable: no answer, or one that says "later". refused: it does not take the credentials,
 * or does not let them do this. unreadable: it answers, but not as a calendar does. timeout: it took too long.
 */
export type CalendarFaultKind = 'unreachable' | 'refused' | 'unreadable' | 'timeout';

export class CalendarFault extends Error {
  readonly kind: CalendarFaultKind;

  /** @param message for the log: it names no secret, and nothing of what is in the calendar */
  constructor(kind: CalendarFaultKind, message: string) {
    super(message);
    this.kind = kind;
  }
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
export interface WrittenEvent {
  /** For the calendar; null where it keeps none. */
  url: string | null;
  /** For people; null where the calendar has no pages for them. */
  link: string | null;
}

/** What every calendar does for us. Where one cannot be asked or told it throws CalendarFault, after ten seconds at the latest. */
export interface Calendars {
  /** What speaks against calling an address, in words that follow its name; undefined where nothing does. */
  refusalOf(url: string): Promise<string | undefined>;
  /** Asks whether there is a calendar that these credentials may read and write. */
  verify(connection: Connection): Promise<void>;
  /** When its owner is taken: in order, without overlaps, cut to the time that is asked about. What we wrote ourselves does not count. */
  busyTimes(connection: Connection, within: Interval): Promise<Interval[]>;
  /** Writes an event once: one that is there already stays as it is. */
  writeEvent(connection: Connection, event: CalendarEvent): Promise<WrittenEvent>;
  /** Removes an event; one that is not there is removed already. @param event with the url that was told when it was written, if one was */
  removeEvent(connection: Connection, event: { uid: string; url: string | null }): Promise<void>;
}

/** The UID of a booking's event. It names the user as well: another user's booking in a calendar that two share is taken time. */
export const eventUid = (bookingId: string, userId: string): string => `${bookingId}@${userId}`;

/** True for what we wrote into the calendar of a user: those times are known already. */
export const isOwnEvent = (uid: string, userId: string): boolean => uid.endsWith(`@${userId}`);
