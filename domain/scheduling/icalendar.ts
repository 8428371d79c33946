// Formats meetings as iCalendar (RFC 5545), for calendars and for invitations by mail.
import ICAL from 'ical.js';
import type { Interval } from '../service/intervals.ts';

/** A person with an email address. */
interface Party {
  name: string;
  email: string;
}

export interface MeetingText extends Interval {
  uid: string;
  title: string;
  description: string | null;
  location: string | null;
  /** Milliseconds since 1970. */
  createdAt: number;
}

/** The additional properties of an invitation (RFC 5546). */
export interface InvitationText {
  method: 'REQUEST' | 'CANCEL';
  /** Increases with each change. */
  sequence: number;
  organizer: Party;
  attendee: Party;
}

/** @returns iCalendar text with CRLF line ends */
export function formatCalendar(meeting: MeetingText, invitation?: InvitationText): string {
  const calendar = new ICAL.Component('vcalendar');
  calendar.addPropertyWithValue('version', '2.0');
  calendar.addPropertyWithValue('prodid', '-//headless-crm//bookings//EN');
  if (invitation) calendar.addPropertyWithValue('method', invitation.method);
  const event = new ICAL.Component('vevent');
  event.addPropertyWithValue('uid', cleanText(meeting.uid));
  event.addPropertyWithValue('dtstamp', toUtc(meeting.createdAt));
  event.addPropertyWithValue('dtstart', toUtc(meeting.start));
  event.addPropertyWithValue('dtend', toUtc(meeting.end));
  event.addPropertyWithValue('summary', cleanText(meeting.title));
  if (meeting.description !== null) event.addPropertyWithValue('description', cleanText(meeting.description));
  if (meeting.location !== null) event.addPropertyWithValue('location', cleanText(meeting.location));
  if (invitation) addParties(event, invitation);
  calendar.addSubcomponent(event);
  return `${calendar.toString()}\r\n`;
}

function addParties(event: ICAL.Component, { method, sequence, organizer, attendee }: InvitationText): void {
  event.addPropertyWithValue('sequence', sequence);
  event.addPropertyWithValue('status', method === 'CANCEL' ? 'CANCELLED' : 'CONFIRMED');
  event.addPropertyWithValue('organizer', toMailto(organizer)).setParameter('cn', cleanText(organizer.name));
  const invited = event.addPropertyWithValue('attendee', toMailto(attendee));
  invited.setParameter('cn', cleanText(attendee.name));
  invited.setParameter('partstat', 'NEEDS-ACTION');
  // Replies would go to the sender of mails, which no one reads.
  invited.setParameter('rsvp', 'FALSE');
}

const toMailto = ({ email }: Party): string => `mailto:${email.replace(/[^\x21-\x7e]/g, '')}`;

const toUtc = (moment: number): ICAL.Time => ICAL.Time.fromJSDate(new Date(moment), true);

/** Normalizes line ends to the one that is escaped, and removes other control characters. */
function cleanText(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are removed.
  return text.replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, '\n').replace(/[\0-\x08\x0e-\x1f\x7f-\x9f]/g, '');
}
