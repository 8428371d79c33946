// Calendars outside of the server: which provider serves whose calendar, and the client for them.
import type { Calendars, Connection } from '../domain/scheduling/calendars.ts';
import { testCalendar } from '../integrations/test-mode/calendar.ts';
import type { Config } from '../runtime/config.ts';
import { lazily } from '../runtime/lazily.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';

type Provider = Omit<Calendars, 'refusalOf'>;

/** What calls calendars. */
export function calendarClient({ calendarAllowPrivate }: Pick<Config, 'calendarAllowPrivate'>): OutgoingClient {
  return new OutgoingClient({ privateAddresses: calendarAllowPrivate ? 'allowed' : 'refused' });
}

/**
 * @param client through which all requests go
 * @param longestWait milliseconds that what a calendar sent may wait to be read
 */
export function openCalendars(client: OutgoingClient, longestWait?: number): Calendars {
  // Loaded with the first: a server without such calendars starts sooner, and is smaller.
  const caldav = lazily(async () =>
    (await import('../integrations/caldav/calendar.ts')).caldavCalendars(client, longestWait),
  );
  const of = ({ provider }: Connection): Provider | Promise<Provider> => {
    if (provider === 'test') return testCalendar;
    return caldav();
  };
  return {
    refusalOf: (url) => client.refusalOf(url, false),
    verify: async (connection) => (await of(connection)).verify(connection),
    busyTimes: async (connection, within) => (await of(connection)).busyTimes(connection, within),
    writeEvent: async (connection, event) => (await of(connection)).writeEvent(connection, event),
    removeEvent: async (connection, event) => (await of(connection)).removeEvent(connection, event),
  };
}
