// What every change of a booking leaves: an audit row, an event, a mail, an order to a calendar.

import { insertMail } from '../../db/messaging/mails.ts';
import type { BookingRow } from '../../db/scheduling/bookings.ts';
import { placeCalendarOrder } from '../../db/scheduling/calendar-orders.ts';
import { appointmentEvent } from '../../domain/scheduling/bookings.ts';
import { invitationOf } from '../../domain/scheduling/invitation.ts';
import type { Call } from '../../runtime/handler.ts';

export type BookingCall = Call<'createBooking'> | Call<'rescheduleBooking'> | Call<'cancelBooking'>;

/** What is told beside the booking itself. */
export interface Told {
  /** Of a booking that was moved: the one that it takes the place of. */
  before?: BookingRow;
  reason?: string | undefined;
}

/** Notes and tells what became of a booking. Test mode tells nobody outside. */
export async function tellOf(
  call: BookingCall,
  what: 'scheduled' | 'rescheduled' | 'cancelled',
  booking: BookingRow,
  { before, reason }: Told,
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
    ...(caller.testMode ? {} : { event: appointmentEvent(what, booking, more, now) }),
  });
  if (caller.testMode) return;
  await invite(call, what, booking);
  if (before) await orderEvent(call, before, 'remove');
  await orderEvent(call, booking, what === 'cancelled' ? 'remove' : 'write');
}

/** A mail to the attendee, where there is an address. */
async function invite(call: BookingCall, what: 'scheduled' | 'rescheduled' | 'cancelled', booking: BookingRow) {
  const { caller, now } = call;
  const { sql } = call.db;
  const { attendeeEmail: email } = booking;
  if (email === null) return;
  const mail = invitationOf({
    what,
    invitationId: booking.invitationId,
    sequence: booking.invitationSequence,
    title: booking.meetingTitle,
    location: booking.meetingUrl ?? booking.location,
    startAt: booking.startAt,
    endAt: booking.endAt,
    attendee: { name: booking.attendeeName, email },
    timezone: booking.attendeeTimezone ?? booking.timezone,
    userName: booking.userName,
    companyName: caller.companyName,
    changedAt: now,
  });
  await insertMail(sql, { companyId: caller.companyId, ...mail }, now);
}

/** What a calendar outside is to do; committed with the booking, and done by a job. */
async function orderEvent({ caller, now, db: { sql } }: BookingCall, booking: BookingRow, action: 'write' | 'remove') {
  if (booking.provider === 'internal') return;
  await placeCalendarOrder(sql, caller.companyId, booking.id, booking.userId, action, now);
}
