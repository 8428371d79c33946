// A process that reads a calendar and prints the outcome. A test pauses it meanwhile.

import { CalendarFault } from '../../domain/scheduling/calendars.ts';
import { Reader } from '../../integrations/caldav/reader.ts';

const events = Array.from({ length: 20 }, (_, index) => [
  'BEGIN:VEVENT',
  `UID:${index}`,
  'DTSTART:20261102T090000Z',
  'DURATION:PT1H',
  'SUMMARY:Team meeting',
  'RRULE:FREQ=DAILY;COUNT=20',
  'END:VEVENT',
]).flat();
const calendar = ['BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//test//EN', ...events, 'END:VCALENDAR', ''].join('\r\n');
const answer = `<multistatus xmlns="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><response><propstat><prop><c:calendar-data><![CDATA[${calendar}]]></c:calendar-data></prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>`;
const within = { start: Date.parse('2026-11-01T00:00Z'), end: Date.parse('2026-12-01T00:00Z') };
const body = Buffer.from(answer);

const reading = new Reader().read({ kind: 'busy', body, within, userId: 'omar', timezone: 'UTC' });
setImmediate(() => process.stdout.write('begun\n'));
const outcome = await reading.then(
  ({ external }) => `${external.length} busy times`,
  (error: unknown) => (error instanceof CalendarFault ? error.kind : String(error)),
);
process.stdout.write(`${outcome}\n`);
process.exit();
