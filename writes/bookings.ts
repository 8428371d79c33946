// What every change of a booking leaves: an audit row, an event, a mail to the attendee, an order to a calendar outside.
import type { BookingRow } from '../db/scheduling/bookings.ts';
import { appointmentEvent } from '../domain/scheduling/bookings.ts';
import type { Call } from '../runtime/handler.ts';

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
    ...(before ? { previous_scheduled_at: before.start_at.toISOString() } : {}),
    ...(reason === undefined ? {} : { reason }),
  };
  call.record({
    action: `booking.${verbs[what]}`,
    object: 'bookings',
    recordId: booking.id,
    metadata: { user_id: booking.user_id, start_at: booking.start_at.toISOString(), ...more },
    ...(caller.testMode ? {} : { event: appointmentEvent(what, booking, more, now) }),
  });
}
