// Calendars on a real CalDAV server: reading and writing.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openCalendars } from '../../app/calendar-provider.ts';
import {
  buildEventUid,
  type CalendarEvent,
  CalendarFault,
  type CalendarFaultKind,
  type Connection,
} from '../../domain/scheduling/calendars.ts';
import { OutgoingClient } from '../../runtime/outbound/client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { TestRadicale } from '../support/radicale.ts';
import { answering, type Behaviour, Receiver } from '../support/receivers.ts';

/** Enough time for a busy machine, because processor time is what is tested. */
const longestWait = 100_000;
const calendars = openCalendars(new OutgoingClient({ privateAddresses: 'allowed' }), longestWait);
const user = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d12';
const other = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9d13';
const booking = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9c04';
const at = (text: string): number => Date.parse(text);
const november = { start: at('2026-11-01T00:00:00Z'), end: at('2026-12-01T00:00:00Z') };

const meeting = (of = user): CalendarEvent => ({
  uid: buildEventUid(booking, of),
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

  test('reads busy intervals and our own events', async () => {
    const calendar = await radicale.newCalendar('busy');
    const connection = calendar.connection(user, 'Europe/Berlin');
    await calendars.verify(connection);
    expect(await calendars.busyTimes(connection, november)).toEqual({ external: [], own: [] });
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
    const { external, own } = await calendars.busyTimes(connection, november);
    expect(external.map(({ start, end }) => [new Date(start).toISOString(), new Date(end).toISOString()])).toEqual([
      ['2026-11-02T09:00:00.000Z', '2026-11-02T10:00:00.000Z'],
      ['2026-11-04T23:00:00.000Z', '2026-11-05T23:00:00.000Z'],
      ['2026-11-12T11:00:00.000Z', '2026-11-12T12:00:00.000Z'],
    ]);
    const { start, end } = meeting();
    expect(own).toEqual([{ bookingId: booking, start, end }]);
    // In a shared calendar, another user's booking counts as busy time.
    const shared = await calendars.busyTimes(calendar.connection(other, 'Europe/Berlin'), november);
    expect([shared.external.length, shared.own]).toEqual([4, []]);
  });
});

describe('a misbehaving server', () => {
  let receiver: Receiver;
  const connection = (url = receiver.url): Connection => ({
    provider: 'caldav',
    userId: user,
    username: 'omar',
    password: 'secret',
    timezone: 'Europe/Berlin',
    url: `${url}/`,
  });
  beforeAll(async () => {
    receiver = await Receiver.start();
  });
  afterAll(() => receiver?.stop());

  const catchFault = async (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'none',
      (error: unknown) => {
        expect(error).toBeInstanceOf(CalendarFault);
        return (error as CalendarFault).kind;
      },
    );
  const asked = async (behave: Behaviour): Promise<string> => {
    receiver.behave = behave;
    return catchFault(calendars.busyTimes(connection(), november));
  };

  const meaning: Readonly<Record<Exclude<CalendarFaultKind, 'overloaded'>, readonly number[]>> = {
    refused: [401, 403],
    unreadable: [200, 204, 302, 400, 404, 405, 410, 412],
    timeout: [408],
    unreachable: [429, 500, 502, 503, 507],
  };
  test.each(Object.entries(meaning))('reports a calendar as %s for the statuses %j', async (fault, statuses) => {
    for (const status of statuses) expect(await asked(answering(status))).toBe(fault);
  });

  test('does not follow redirects, and keeps credentials', async () => {
    const target = await Receiver.start();
    expect(await asked(answering(307, { location: target.url }))).toBe('unreadable');
    expect(target.requests).toEqual([]);
    await target.stop();
  });

  test('reports a server that is down or has a private address as unreachable', async () => {
    const gone = await Receiver.start();
    await gone.stop();
    expect(await catchFault(calendars.busyTimes(connection(gone.url), november))).toBe('unreachable');
    const guarded = openCalendars(new OutgoingClient({ privateAddresses: 'refused' }));
    for (const url of [receiver.url, 'https://127.0.0.1/calendar', 'https://[::1]/calendar', 'https://localhost/c']) {
      const before = receiver.requests.length;
      expect(await catchFault(guarded.busyTimes(connection(url), november))).toBe('unreachable');
      expect(await catchFault(guarded.verify(connection(url)))).toBe('unreachable');
      expect(receiver.requests.length).toBe(before);
      expect(await guarded.findUrlRejection(url)).toBeTypeOf('string');
    }
  });

  test('gives up on a server that is slow or never ends its response', async () => {
    const slow = await Receiver.start(() => undefined);
    const dripping = await Receiver.start((_, response) => {
      response.writeHead(207);
      const drip = setInterval(() => response.write(' '), 100);
      response.on('close', () => clearInterval(drip));
    });
    const faults = [slow, dripping].map(({ url }) => catchFault(calendars.busyTimes(connection(url), november)));
    expect(await Promise.all(faults)).toEqual(['timeout', 'timeout']);
    await Promise.all([slow.stop(), dripping.stop()]);
  });

  const answer = (...objects: string[]): string =>
    `<?xml version="1.0"?><multistatus xmlns="DAV:" xmlns:CAL="urn:ietf:params:xml:ns:caldav">${objects
      .map((text) => {
        const data = `<CAL:calendar-data><![CDATA[${text}]]></CAL:calendar-data>`;
        return `<response><href>/a.ics</href><propstat><prop>${data}</prop><status>HTTP/1.1 200 OK</status></propstat></response>`;
      })
      .join('')}</multistatus>`;
  const saying =
    (text: string | Buffer, headers: Record<string, string> = {}): Behaviour =>
    (_, response) =>
      void response.writeHead(207, headers).end(text);
  const one = event('x', 'DTSTART:20261102T090000Z', 'DTEND:20261102T100000Z');
  const repeating = (rule: string): string => event('x', 'DTSTART:20261102T090000Z', 'DURATION:PT1S', `RRULE:${rule}`);

  test('reads responses with unusual XML', async () => {
    receiver.behave = saying(answer(one));
    expect((await calendars.busyTimes(connection(), november)).external).toHaveLength(1);
    receiver.behave = saying(answer());
    expect(await calendars.busyTimes(connection(), november)).toEqual({ external: [], own: [] });
    expect(receiver.requests.at(-1)?.headers).toMatchObject({
      authorization: `Basic ${Buffer.from('omar:secret').toString('base64')}`,
      depth: '1',
    });
  });

  const lies: [string, Behaviour][] = [
    ['a page', saying('<html><body>Sign in</body></html>')],
    ['nothing', saying('')],
    ['half of it', saying(answer(one).slice(0, -30))],
    ['less than it promises', saying(answer(one), { 'content-length': '100000' })],
    ['no text', saying(Buffer.from([0xff, 0xfe, 0x00, 0x80]))],
    ['no calendar', saying(answer('hello'))],
    ['half a calendar', saying(answer(one.slice(0, 60)))],
    ['an invalid date', saying(answer(event('x', 'DTSTART:nonsense', 'DTEND:20261102T100000Z')))],
    ['that it left something out', saying(answer(one).replace('200 OK', '507 Insufficient Storage'))],
    ['something else than events', saying(answer(one).replaceAll('calendar-data', 'address-data'))],
    ['five megabytes', saying(answer(event('x', `DESCRIPTION:${'x'.repeat(5_000_000)}`)))],
    ['a million elements', saying(`<multistatus>${'<a/>'.repeat(900_000)}</multistatus>`)],
    ['elements within elements', saying(`${'<a>'.repeat(500_000)}${'</a>'.repeat(500_000)}`)],
    ['a meeting each second', saying(answer(repeating('FREQ=SECONDLY')))],
    ['a thousand meetings each minute', saying(answer(...Array(30).fill(repeating('FREQ=MINUTELY'))))],
    ['a zone that never ends', saying(answer(endlessZone()))],
  ];
  test.each(lies)('reports a response with %s as unreadable', { timeout: 3 * longestWait }, async (_, behave) => {
    expect(await asked(behave)).toBe('unreadable');
    // The next caller is not delayed.
    expect(await asked(saying(answer(one)))).toBe('none');
  });

  test('reads recurrences that would be endless without expanding them', async () => {
    const grown = 'bcdefghi'.replace(/./g, (name) => {
      const before = String.fromCharCode(name.charCodeAt(0) - 1);
      return `<!ENTITY ${name} "${`&${before};`.repeat(10)}">`;
    });
    expect(await asked(saying(`<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">${grown}]><multistatus>&i;</multistatus>`))).toBe(
      'none',
    );
    // A date that never exists.
    receiver.behave = saying(answer(repeating('FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30')));
    expect((await calendars.busyTimes(connection(), november)).external).toHaveLength(1);
  });

  function endlessZone(): string {
    const zone = ['BEGIN:VTIMEZONE', 'TZID:Nowhere', 'BEGIN:STANDARD', 'DTSTART:19000101T000000', 'TZOFFSETFROM:+0100'];
    return object(
      ...zone,
      'TZOFFSETTO:+0200',
      'RRULE:FREQ=SECONDLY',
      'END:STANDARD',
      'END:VTIMEZONE',
      'BEGIN:VEVENT',
      'UID:x',
      'DTSTART;TZID=Nowhere:20261102T090000',
      'DURATION:PT1H',
      'END:VEVENT',
    );
  }
});
