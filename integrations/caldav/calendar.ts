// Calendars on CalDAV servers.
import {
  type CalendarEvent,
  CalendarFault,
  type Calendars,
  type Connection,
} from '../../domain/scheduling/calendars.ts';
import { formatCalendar } from '../../domain/scheduling/icalendar.ts';
import type { OutgoingClient } from '../../runtime/outbound/client.ts';
import { Reader } from './reader.ts';
import { buildEventsBody, type CaldavConnection, propertiesBody, send } from './requests.ts';

const xmlType = { 'content-type': 'application/xml; charset=utf-8' };

/**
 * @param client sends all requests
 * @param longestWait maximum milliseconds for reading a response, including the wait for the reader
 */
export function createCaldavCalendars(
  client: OutgoingClient,
  longestWait?: number,
): Omit<Calendars, 'findUrlRejection'> {
  const reader = new Reader(longestWait);
  return {
    async verify(connection) {
      const own = caldav(connection);
      const headers = { ...xmlType, depth: '0' };
      const request = { method: 'PROPFIND', url: own.url, headers, body: propertiesBody, good: [207] } as const;
      const { body } = await send(client, own, request);
      const { isCalendar, takesEvents, mayWrite } = await reader.read({ kind: 'properties', body });
      if (!isCalendar || !takesEvents) throw new CalendarFault('unreadable', 'not a calendar for events');
      if (!mayWrite) throw new CalendarFault('refused', 'events cannot be written');
    },
    async busyTimes(connection, within) {
      const own = caldav(connection);
      const headers = { ...xmlType, depth: '1' };
      const request = { method: 'REPORT', url: own.url, headers, body: buildEventsBody(within), good: [207] } as const;
      const { body } = await send(client, own, request);
      const { userId, timezone } = own;
      return reader.read({ kind: 'busy', body, within, userId, timezone });
    },
    async writeEvent(connection, event) {
      const own = caldav(connection);
      const url = eventUrl(own, event.uid);
      await send(client, own, {
        method: 'PUT',
        url,
        body: formatCalendar({ ...event, description: describeEvent(event) }),
        // `If-None-Match: *` and status 412 make retries safe: 412 means that an earlier attempt
        // wrote the event.
        headers: { 'content-type': 'text/calendar; charset=utf-8', 'if-none-match': '*' },
        good: [200, 201, 204, 412],
      });
      return { url, link: null };
    },
    async removeEvent(connection, { uid, url }) {
      const own = caldav(connection);
      // The stored URL is only used in the current calendar. Otherwise these credentials would be
      // sent to a calendar that was connected before.
      const address = url?.startsWith(own.url) ? url : eventUrl(own, uid);
      await send(client, own, { method: 'DELETE', url: address, good: [200, 202, 204, 404, 410] });
    },
  };
}

/**
 * Puts the attendee into the description, because servers send their own mails to listed attendees.
 */
function describeEvent({ attendee: { name, email, phone }, description }: CalendarEvent): string {
  const who = [name, email, phone].filter((each) => each !== null).join(', ');
  return description === null ? who : `${who}\n\n${description}`;
}

function caldav(connection: Connection): CaldavConnection {
  if (connection.provider !== 'caldav') throw new Error('not a calendar of a CalDAV server');
  return connection;
}

const eventUrl = ({ url }: CaldavConnection, uid: string): string => `${url}${encodeURIComponent(uid)}.ics`;
