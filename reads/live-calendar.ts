// A user's calendar outside, asked right now.
import { findConnection } from '../db/scheduling/calendars.ts';
import { CalendarFault, openConnection } from '../domain/scheduling/calendars.ts';
import type { Interval } from '../domain/scheduling/intervals.ts';
import { calendarFailed } from '../runtime/errors.ts';
import type { Call } from '../runtime/handler.ts';

/**
 * When a user is taken by what stands in their calendar outside; nothing where there is none. It is asked aside: read call.sql anew. The
 * operation declares x-acts-outside.
 * @throws ApiError 503 provider_error where the calendar cannot be asked
 */
export async function askCalendar(call: Call, userId: string, within: Interval): Promise<Interval[]> {
  const sealed = await findConnection(call.sql, call.caller.companyId, userId);
  if (!sealed) return [];
  const connection = openConnection(sealed, (text) => call.secrets.decrypt(text));
  try {
    return await call.aside(call.calendars.busyTimes(connection, within));
  } catch (error) {
    if (error instanceof CalendarFault) throw calendarFailed();
    throw error;
  }
}
