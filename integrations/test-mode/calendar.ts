// The calendar of test mode: always free, and stores nothing.
import type { Calendars } from '../../domain/scheduling/calendars.ts';

export const testCalendar: Omit<Calendars, 'findUrlRejection'> = {
  async verify() {},
  async busyTimes() {
    return { external: [], own: [] };
  },
  async writeEvent() {
    return { url: null, link: null };
  },
  async removeEvent() {},
};
