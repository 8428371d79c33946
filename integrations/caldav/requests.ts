// CalDAV requests (RFC 4791) through the guarded HTTP client, and the meaning of their failures.
import { CalendarFault, type Connection } from '../../domain/scheduling/calendars.ts';
import type { Interval } from '../../domain/service/intervals.ts';
import {
  type OutgoingAnswer,
  type OutgoingClient,
  OutgoingError,
  type OutgoingRequest,
} from '../../runtime/outbound/client.ts';

export type CaldavConnection = Extract<Connection, { provider: 'caldav' }>;

/** Milliseconds for a whole request. The response must be parsed afterwards. */
const timeoutMs = 7000;
/** Milliseconds by which a timer may fire early. */
const timerSlack = 20;
/** Maximum response size. The events of a year need far less. */
const maxBytes = 4 * 1024 * 1024;

interface CaldavRequest extends Pick<OutgoingRequest, 'method' | 'url'> {
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** Statuses that count as success. */
  good: readonly number[];
}

/** @throws CalendarFault if there is no complete response, or its status is not in `good` */
export async function send(
  client: OutgoingClient,
  { username, password }: CaldavConnection,
  { method, url, headers, body, good }: CaldavRequest,
): Promise<OutgoingAnswer> {
  const start = performance.now();
  const answer = await client
    .send({
      method,
      url,
      testMode: false,
      mostBytes: maxBytes,
      within: timeoutMs,
      ...(body === undefined ? {} : { body }),
      headers: {
        authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
        'user-agent': 'Service-Calendars/1.0',
        ...headers,
      },
    })
    .catch((error: unknown) => {
      if (error instanceof OutgoingError)
        throw new CalendarFault(error.fault === 'timeout' ? 'timeout' : 'unreachable', error.fault);
      throw error;
    });
  if (!good.includes(answer.status)) throw toFault(answer.status);
  if (answer.isWhole) return answer;
  const isLate = performance.now() - start >= timeoutMs - timerSlack;
  throw new CalendarFault(isLate ? 'timeout' : 'unreadable', 'the response is too long or incomplete');
}

/** Redirects are not followed, because the credentials are only for the configured address. */
function toFault(status: number): CalendarFault {
  const message = `status ${status}`;
  if (status === 401 || status === 403) return new CalendarFault('refused', message);
  if (status === 408) return new CalendarFault('timeout', message);
  if (status === 429 || status >= 500) return new CalendarFault('unreachable', message);
  return new CalendarFault('unreadable', message);
}

const xml = (root: string, content: string): string =>
  `<?xml version="1.0" encoding="utf-8"?><${root} xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav">${content}</${root}>`;

/** Requests the type and the permissions of a collection. */
export const propertiesBody = xml(
  'd:propfind',
  '<d:prop><d:resourcetype/><d:current-user-privilege-set/><c:supported-calendar-component-set/></d:prop>',
);

const day = 86_400_000;

/**
 * Requests the events of an interval and a day around it, because servers place whole days in zones
 * of their own choice.
 */
export function buildEventsBody({ start, end }: Interval): string {
  const range = `<c:time-range start="${formatTimestamp(start - day)}" end="${formatTimestamp(end + day)}"/>`;
  const events = `<c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT">${range}</c:comp-filter></c:comp-filter>`;
  return xml('c:calendar-query', `<d:prop><c:calendar-data/></d:prop><c:filter>${events}</c:filter>`);
}

/** Formats a timestamp for iCalendar. */
const formatTimestamp = (moment: number): string =>
  `${new Date(moment).toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
