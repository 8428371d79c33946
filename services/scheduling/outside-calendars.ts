// External calendars, read right before a booking is made.
import { findBookingTimes } from '../../db/scheduling/bookings.ts';
import { findConnection } from '../../db/scheduling/calendars.ts';
import { CalendarFault, computeBlockedTimes, openConnection } from '../../domain/scheduling/calendars.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import { calendarFailed } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

export type AskingCall = Pick<Call, 'caller' | 'db' | 'services'>;

/**
 * Returns true if an external calendar blocks the user at this time; false if the user has none.
 * Call it before any write, because it releases the connection while it waits. In test mode every
 * user is free.
 * @param except a booking that is being moved; its own event does not block
 * @throws ApiError 503 provider_error if the calendar cannot be read
 */
export async function askCalendar(
  call: AskingCall,
  userId: string,
  within: Interval,
  except?: string,
): Promise<boolean> {
  const blocked = await readCalendar(call, userId, within, except);
  if (blocked instanceof CalendarFault) throw calendarFailed();
  return blocked.length > 0;
}

/**
 * Intervals that block users, read from calendars in this call, by user; null: the calendar cannot
 * be read.
 */
export type LiveTimes = ReadonlyMap<string, readonly Interval[] | null>;

/**
 * Reads a user's calendar from a time on, as far as alternatives are searched. Same rules as
 * askCalendar, except that an unreadable calendar is not an error.
 */
export async function readAhead(
  call: AskingCall,
  userId: string,
  within: Interval,
  except?: string,
): Promise<readonly Interval[] | null> {
  const blocked = await readCalendar(call, userId, within, except);
  return blocked instanceof CalendarFault ? null : blocked;
}

async function readCalendar(
  call: AskingCall,
  userId: string,
  within: Interval,
  except: string | undefined,
): Promise<Interval[] | CalendarFault> {
  const { companyId, testMode } = call.caller;
  if (testMode) return [];
  const sealed = await findConnection(call.db.sql, companyId, userId);
  if (!sealed) return [];
  const connection = openConnection(sealed, (text) => call.services.secrets.decrypt(text));
  try {
    const { external, own } = await call.db.commitThenRun(() => call.services.calendars.busyTimes(connection, within));
    const others = own.filter(({ bookingId }) => bookingId !== except);
    if (others.length === 0) return external;
    const ids = others.map(({ bookingId }) => bookingId);
    return computeBlockedTimes({ external, own: others }, await findBookingTimes(call.db.sql, companyId, ids));
  } catch (error) {
    if (error instanceof CalendarFault) return error;
    throw error;
  }
}
