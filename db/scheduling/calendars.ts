// Calendars outside of the server.
import type { Interval } from '../../domain/scheduling/intervals.ts';
import type { Sql } from '../connect.ts';

export interface CalendarState {
  provider: 'caldav' | 'test';
  fault: string | null;
  checkedAt: Date;
  busy: Interval[];
}

export async function findCalendars(
  _sql: Sql,
  _companyId: string,
  _userIds: readonly string[],
  _within: Interval,
): Promise<Map<string, CalendarState>> {
  return new Map();
}
