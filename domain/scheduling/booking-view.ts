// Converts bookings to API responses.
import type { components } from '../../generated/api.ts';
import type { StoredBooking } from './bookings.ts';

export function toBookingResponse(
  row: StoredBooking & { userName: string },
  createdBy: components['schemas']['Actor'],
  testMode: boolean,
): components['schemas']['Booking'] {
  return {
    id: row.id,
    status: row.status,
    user_id: row.userId,
    user_name: row.userName,
    pool_id: row.poolId,
    policy_id: row.policyId,
    start_at: row.startAt.toISOString(),
    end_at: row.endAt.toISOString(),
    timezone: row.timezone,
    attendee: {
      name: row.attendeeName,
      email: row.attendeeEmail,
      phone: row.attendeePhone,
      timezone: row.attendeeTimezone,
      locale: row.attendeeLocale,
    },
    guests: row.guests,
    answers: row.answers.map(({ question, answer }) => ({ question, answer })),
    metadata: row.metadata,
    meeting_title: row.meetingTitle,
    meeting_description: row.meetingDescription,
    location_kind: row.locationKind,
    location: row.location,
    meeting_url: row.meetingUrl,
    calendar_event_link: row.calendarEventLink,
    provider: row.provider,
    object: row.object,
    record_id: row.recordId,
    rescheduled_from: row.rescheduledFrom,
    rescheduled_to: row.rescheduledTo,
    cancelled_at: row.cancelledAt?.toISOString() ?? null,
    cancellation_reason: row.cancellationReason,
    created_by: createdBy,
    test_mode: testMode,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
