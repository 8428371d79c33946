// What a booking is made of, and how it is shown and told.
import type { LocationKind } from './policies.ts';

/** A meeting as it is asked for. */
export interface Meeting {
  title: string;
  description: string | null;
  locationKind: LocationKind;
  location: string | null;
}

/** Where a video call is joined: its location, where that is an address of the web. */
export function meetingUrl({ locationKind, location }: Meeting): string | null {
  if (locationKind !== 'video' || location === null || !URL.canParse(location)) return null;
  const { protocol } = new URL(location);
  return protocol === 'https:' || protocol === 'http:' ? location : null;
}

export const bookingStatuses = ['confirmed', 'cancelled', 'rescheduled', 'completed', 'no_show'] as const;

type BookingStatus = (typeof bookingStatuses)[number];
export type BookingProvider = 'google' | 'microsoft' | 'caldav' | 'internal' | 'test';

/** A booking as it is stored. */
export interface StoredBooking {
  id: string;
  status: BookingStatus;
  user_id: string;
  pool_id: string | null;
  policy_id: string;
  start_at: Date;
  end_at: Date;
  timezone: string;
  attendee_name: string;
  attendee_email: string | null;
  attendee_phone: string | null;
  attendee_timezone: string | null;
  attendee_locale: string | null;
  meeting_title: string;
  meeting_description: string | null;
  location_kind: LocationKind;
  location: string | null;
  meeting_url: string | null;
  provider: BookingProvider;
  calendar_event_link: string | null;
  object: string | null;
  record_id: string | null;
  rescheduled_from: string | null;
  rescheduled_to: string | null;
  cancelled_at: Date | null;
  cancellation_reason: string | null;
  invitation_id: string;
  invitation_sequence: number;
  created_at: Date;
  updated_at: Date;
}

/** What subscribers are told of a booking. */
export function appointmentEvent(
  name: 'scheduled' | 'rescheduled' | 'cancelled',
  booking: {
    id: string;
    object: string | null;
    record_id: string | null;
    start_at: Date;
    end_at: Date;
    user_id: string;
  },
  more: Record<string, unknown>,
  now: Date,
): { name: string; data: Record<string, unknown> } {
  const { id, object, record_id, start_at, end_at, user_id } = booking;
  return {
    name: `appointment.${name}`,
    data: {
      ...(record_id === null ? {} : { object, record_id }),
      appointment_id: id,
      scheduled_at: start_at.toISOString(),
      end_at: end_at.toISOString(),
      user_id,
      ...more,
      occurred_at: now.toISOString(),
    },
  };
}
