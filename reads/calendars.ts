// Calendars outside, asked right before something is booked.
import { findConnection } from '../db/scheduling/calendars.ts';
import { CalendarFault, openConnection } from '../domain/scheduling/calendars.ts';
import type { Interval } from '../domain/service/intervals.ts';
import { calendarFailed } from '../runtime/errors.ts';
import type { Call } from '../runtime/handler.ts';

/**
 * Asks the calendar of a user, before anything is written: no connection waits for it, so read call.sql anew. In test mode all are free.
 * @returns true where the user is taken then by what stands in a calendar outside; false, too, where there is none
 * @throws ApiError 503 provider_error where it cannot be asked
 */
export async function askCalendar(
  call: Pick<Call, 'caller' | 'sql' | 'secrets' | 'calendars' | 'outside'>,
  userId: string,
  within: Interval,
): Promise<boolean> {
  if (call.caller.testMode) return false;
  const sealed = await findConnection(call.sql, call.caller.companyId, userId);
  if (!sealed) return false;
  const connection = openConnection(sealed, (text) => call.secrets.decrypt(text));
  try {
    return (await call.outside(() => call.calendars.busyTimes(connection, within))).length > 0;
  } catch (error) {
    if (error instanceof CalendarFault) throw calendarFailed();
    throw error;
  }
}
