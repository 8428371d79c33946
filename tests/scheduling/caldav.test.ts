// Calendars on a real CalDAV server: asked and told.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openCalendars } from '../../calendars/chosen-calendars.ts';
import { type CalendarEvent, eventUid } from '../../domain/scheduling/calendars.ts';
import { OutgoingClient } from '../../runtime/outgoing/client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { TestRadicale } from '../support/radicale.ts';

const calendars = openCalendars(new OutgoingClient({ privateAddresses: 'allowed' }));
const user = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d12';
const other = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d13';
const booking = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9c04';
const at = (text: string): number => Date.parse(text);
const november = { start: at('2026-11-01T00:00:00Z'), end: at('2026-12-01T00:00:00Z') };

const meeting = (of = user): CalendarEvent => ({
  uid: eventUid(booking, of),
  start: at('2026-11-10T09:00:00Z'),
  end: at('2026-11-10T09:30:00Z'),
  title: 'First call; with\r\nBEGIN:VEVENT, and more',
  description: 'About prices',
  location: 'https://meet.example.com/sara',
  attendee: { name: 'Sara Ali', email: 'sara@example.com', phone: null },
  createdAt: at('2026-11-01T00:00:00Z'),
});

const object = (...lines: string[]): string =>
  ['BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//test//EN', ...lines, 'END:VCALENDAR', ''].join('\r\n');
const event = (uid: string, ...lines: string[]): string =>
  object('BEGIN:VEVENT', `UID:${uid}`, 'DTSTAMP:20261101T000000Z', ...lines, 'END:VEVENT');

describe.skipIf(!findProgram('radicale'))(`a CalDAV server${skipNote('radicale')}`, () => {
  let radicale: TestRadicale;
  beforeAll(async () => {
    radicale = await TestRadicale.start();
  });
  afterAll(() => radicale?.stop());

  test('tells when its owner is taken, without what we wrote ourselves', async () => {
    const calendar = await radicale.newCalendar('busy');
    const connection = calendar.connection(user, 'Europe/Berlin');
    await calendars.verify(connection);
    expect(await calendars.busyTimes(connection, november)).toEqual([]);
    await calendar.put(
      'a.ics',
      event('a', 'DTSTART:20261102T090000Z', 'DTEND:20261102T100000Z', 'SUMMARY:<&> "x"\\nzwei'),
    );
    await calendar.put('b.ics', event('b', 'DTSTART;VALUE=DATE:20261105', 'SUMMARY:Day off'));
    await calendar.put(
      'c.ics',
      event(
        'c',
        'DTSTART;TZID=Europe/Berlin:20201001T120000',
        'DURATION:PT1H',
        'RRULE:FREQ=WEEKLY;UNTIL=20261113T000000Z',
      ),
    );
    await calendar.put('d.ics', event('d', 'DTSTART:20261103T090000Z', 'DTEND:20261103T100000Z', 'TRANSP:TRANSPARENT'));
    await calendar.put('e.ics', event('e', 'DTSTART:20261103T090000Z', 'DTEND:20261103T100000Z', 'STATUS:CANCELLED'));
    await calendars.writeEvent(connection, meeting());
    const taken = await calendars.busyTimes(connection, november);
    expect(taken.map(({ start, end }) => [new Date(start).toISOString(), new Date(end).toISOString()])).toEqual([
      ['2026-11-02T09:00:00.000Z', '2026-11-02T10:00:00.000Z'],
      ['2026-11-04T23:00:00.000Z', '2026-11-05T23:00:00.000Z'],
      ['2026-11-12T11:00:00.000Z', '2026-11-12T12:00:00.000Z'],
    ]);
    // Somebody else's booking in a calendar that two share is taken time.
    expect(await calendars.busyTimes(calendar.connection(other, 'Europe/Berlin'), november)).toHaveLength(4);
  });
});
