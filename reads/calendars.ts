// Calendars outside, asked right before something is booked.
import type { Interval } from '../domain/scheduling/intervals.ts';
import type { Call } from '../runtime/handler.ts';

/** @returns true where the user is busy then by a calendar outside; false where there is none. */
export async function askCalendar(_call: Pick<Call, 'caller'>, _userId: string, _within: Interval): Promise<boolean> {
  return false;
}
