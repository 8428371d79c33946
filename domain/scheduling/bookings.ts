// Bookings: their stored form, their events and their responses.
import type { LocationKind } from './policies.ts';

/** The requested meeting. */
export interface Meeting {
  title: string;
  description: string | null;
  locationKind: LocationKind;
  location: string | null;
}

/** Returns the URL of a video call: its location, if that is a web address. */
export function getMeetingUrl({ locationKind, location }: Meeting): string | null {
  if (locationKind !== 'video' || location === null || !URL.canParse(location)) return null;
  const { protocol } = new URL(location);
  return protocol === 'https:' || protocol === 'http:' ? location : null;
}

export const bookingStatuses = ['confirmed', 'cancelled', 'rescheduled', 'completed', 'no_show'] as const;

type BookingStatus = (typeof bookingStatuses)[number];
export type BookingProvider = 'google' | 'microsoft' | 'caldav' | 'internal' | 'test';

/** The attendee's answer to a question. */
interface BookingAnswer {
  question: string;
  answer: string;
}

/** A stored booking. */
export interface StoredBooking {
  id: string;
  status: BookingStatus;
  userId: string;
  poolId: string | null;
  policyId: string;
  startAt: Date;
  endAt: Date;
  timezone: string;
  attendeeName: string;
  attendeeEmail: string | null;
  attendeePhone: string | null;
  attendeeTimezone: string | null;
  attendeeLocale: string | null;
  /** Email addresses of others who are invited, in lower case. */
  guests: string[];
  answers: readonly BookingAnswer[];
  metadata: Readonly<Record<string, string>>;
  meetingTitle: string;
  meetingDescription: string | null;
  locationKind: LocationKind;
  location: string | null;
  meetingUrl: string | null;
  provider: BookingProvider;
  calendarEventLink: string | null;
  object: string | null;
  recordId: string | null;
  rescheduledFrom: string | null;
  rescheduledTo: string | null;
  cancelledAt: Date | null;
  cancellationReason: string | null;
  invitationId: string;
  invitationSequence: number;
  createdAt: Date;
  updatedAt: Date;
}

/** Returns the URL of a video call from a policy's template. */
export const fillMeetingUrl = (template: string, bookingId: string): string =>
  template.replaceAll('{booking_id}', bookingId);

/** Returns the guests in lower case, once each, without the attendee. */
export function listGuests(guests: readonly string[], attendeeEmail: string | null): string[] {
  const addresses = new Set(guests.map((email) => email.toLowerCase()));
  return [...addresses].filter((email) => email !== attendeeEmail);
}

/** Builds the event of a booking change. */
export function buildAppointmentEvent(
  name: 'scheduled' | 'rescheduled' | 'cancelled',
  booking: Pick<StoredBooking, 'id' | 'object' | 'recordId' | 'startAt' | 'endAt' | 'userId'>,
  more: Record<string, unknown>,
  now: Date,
): { name: string; data: Record<string, unknown> } {
  const { id, object, recordId, startAt, endAt, userId } = booking;
  return {
    name: `appointment.${name}`,
    data: {
      ...(recordId === null ? {} : { object, record_id: recordId }),
      appointment_id: id,
      scheduled_at: startAt.toISOString(),
      end_at: endAt.toISOString(),
      user_id: userId,
      ...more,
      occurred_at: now.toISOString(),
    },
  };
}
