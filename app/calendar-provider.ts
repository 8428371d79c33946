// External calendars: selects the provider of a connection, and creates the HTTP client.
import type { Calendars, Connection } from '../domain/scheduling/calendars.ts';
import { testCalendar } from '../integrations/test-mode/calendar.ts';
import type { Config } from '../runtime/config.ts';
import { makeLazy } from '../runtime/lazily.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';

type Provider = Omit<Calendars, 'findUrlRejection'>;

/** Creates the HTTP client for calendars. */
export function createCalendarClient({ calendarAllowPrivate }: Pick<Config, 'calendarAllowPrivate'>): OutgoingClient {
  return new OutgoingClient({ privateAddresses: calendarAllowPrivate ? 'allowed' : 'refused' });
}

/**
 * @param client sends all requests
 * @param longestWait milliseconds that a calendar's response may wait to be parsed
 */
export function openCalendars(client: OutgoingClient, longestWait?: number): Calendars {
  // Loaded on first use: a server without CalDAV calendars starts sooner and needs less memory.
  const caldav = makeLazy(async () =>
    (await import('../integrations/caldav/calendar.ts')).createCaldavCalendars(client, longestWait),
  );
  const of = ({ provider }: Connection): Provider | Promise<Provider> => {
    if (provider === 'test') return testCalendar;
    return caldav();
  };
  return {
    findUrlRejection: (url) => client.findUrlRejection(url, false),
    verify: async (connection) => (await of(connection)).verify(connection),
    busyTimes: async (connection, within) => (await of(connection)).busyTimes(connection, within),
    writeEvent: async (connection, event) => (await of(connection)).writeEvent(connection, event),
    removeEvent: async (connection, event) => (await of(connection)).removeEvent(connection, event),
  };
}
