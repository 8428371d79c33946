// The effects of every booking change: audit row, event, mail, and order to an external calendar.

import { insertMails } from '../../db/messaging/mails.ts';
import type { BookingRow } from '../../db/scheduling/bookings.ts';
import { enqueueCalendarWrite } from '../../db/scheduling/calendar-orders.ts';
import { buildAppointmentEvent } from '../../domain/scheduling/bookings.ts';
import { buildInvitation } from '../../domain/scheduling/invitation.ts';
import type { Call } from '../../runtime/handler.ts';
import { updateFollowup } from './booking-followups.ts';

export type BookingCall = Call<'createBooking'> | Call<'rescheduleBooking'> | Call<'cancelBooking'>;

/** Additional data of the event. */
export interface RecordedBookingChange {
  /** The booking that a rescheduled one replaces. */
  before?: BookingRow;
  reason?: string | undefined;
}

/** Records a booking change. Test mode notifies nobody outside of the workspace. */
export async function recordBookingChange(
  call: BookingCall,
  what: 'scheduled' | 'rescheduled' | 'cancelled',
  booking: BookingRow,
  { before, reason }: RecordedBookingChange,
): Promise<void> {
  const { caller, now } = call;
  const verbs = { scheduled: 'create', rescheduled: 'reschedule', cancelled: 'cancel' } as const;
  const more = {
    ...(before ? { previous_scheduled_at: before.startAt.toISOString() } : {}),
    ...(reason === undefined ? {} : { reason }),
  };
  call.db.record({
    action: `booking.${verbs[what]}`,
    object: 'bookings',
    recordId: booking.id,
    metadata: { user_id: booking.userId, start_at: booking.startAt.toISOString(), ...more },
    ...(caller.testMode ? {} : { event: buildAppointmentEvent(what, booking, more, now) }),
  });
  await updateFollowup(call, booking);
  if (caller.testMode) return;
  await invite(call, what, booking);
  if (before) await orderEvent(call, before, 'remove');
  await orderEvent(call, booking, what === 'cancelled' ? 'remove' : 'write');
}

/** Mails the attendee, if there is an address, and the guests. */
async function invite(call: BookingCall, what: 'scheduled' | 'rescheduled' | 'cancelled', booking: BookingRow) {
  const { caller, now } = call;
  const { attendeeEmail: email } = booking;
  const recipients = [
    ...(email === null ? [] : [{ name: booking.attendeeName, email }]),
    ...booking.guests.map((guest) => ({ name: '', email: guest })),
  ];
  const mails = recipients.map((attendee) => ({
    companyId: caller.companyId,
    ...buildInvitation({
      what,
      invitationId: booking.invitationId,
      sequence: booking.invitationSequence,
      title: booking.meetingTitle,
      location: booking.meetingUrl ?? booking.location,
      startAt: booking.startAt,
      endAt: booking.endAt,
      attendee,
      timezone: booking.attendeeTimezone ?? booking.timezone,
      userName: booking.userName,
      companyName: caller.companyName,
      changedAt: now,
      // Guests cannot change the meeting.
      bookingId: attendee.email === email && what !== 'cancelled' ? booking.id : null,
    }),
  }));
  // One statement, because the lead, the booking and the user are locked.
  await insertMails(call.db.sql, mails, now);
}

/**
 * Orders a change in an external calendar. The order is committed with the booking, and a job
 * carries it out.
 */
async function orderEvent({ caller, now, db: { sql } }: BookingCall, booking: BookingRow, action: 'write' | 'remove') {
  if (booking.provider === 'internal') return;
  await enqueueCalendarWrite(sql, caller.companyId, booking.id, booking.userId, action, now);
}
