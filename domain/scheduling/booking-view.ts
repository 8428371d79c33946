// A booking as the API shows it.
import type { components } from '../../generated/api.ts';
import type { StoredBooking } from './bookings.ts';

export function toBookingResponse(
  row: StoredBooking & { user_name: string },
  createdBy: components['schemas']['Actor'],
  testMode: boolean,
): components['schemas']['Booking'] {
  return {
    id: row.id,
    status: row.status,
    user_id: row.user_id,
    user_name: row.user_name,
    pool_id: row.pool_id,
    policy_id: row.policy_id,
    start_at: row.start_at.toISOString(),
    end_at: row.end_at.toISOString(),
    timezone: row.timezone,
    attendee: {
      name: row.attendee_name,
      email: row.attendee_email,
      phone: row.attendee_phone,
      timezone: row.attendee_timezone,
      locale: row.attendee_locale,
    },
    meeting_title: row.meeting_title,
    meeting_description: row.meeting_description,
    location_kind: row.location_kind,
    location: row.location,
    meeting_url: row.meeting_url,
    calendar_event_link: row.calendar_event_link,
    provider: row.provider,
    object: row.object,
    record_id: row.record_id,
    rescheduled_from: row.rescheduled_from,
    rescheduled_to: row.rescheduled_to,
    cancelled_at: row.cancelled_at?.toISOString() ?? null,
    cancellation_reason: row.cancellation_reason,
    created_by: createdBy,
    test_mode: testMode,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
