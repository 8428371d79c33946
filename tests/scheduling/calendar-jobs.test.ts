// Jobs that read and write external calendars, and invitations, under a fake clock.
import ICAL from 'ical.js';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { insertMail } from '../../db/messaging/mails.ts';
import { enqueueCalendarWrite, findDueOrders, finishOrder, takeOrder } from '../../db/scheduling/calendar-orders.ts';
import {
  findCalendars,
  findDueCalendars,
  findUnreadCalendars,
  noteLook,
  saveCalendar,
  takeCalendar,
} from '../../db/scheduling/calendars.ts';
import { buildInvitation } from '../../domain/scheduling/invitation.ts';
import { createSmtpMails } from '../../integrations/smtp/service-mails.ts';
import { openMailTransport } from '../../integrations/smtp/transport.ts';
import type { RunningJobs } from '../../jobs/runner.ts';
import { lookAtCalendars, runCalendarOrders } from '../../jobs/scheduling/calendars.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { cancelOrderedBooking, newOrderedBooking, newOwner, openCalendarServer } from '../support/calendar-jobs.ts';
import type { Json } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { startNamedJobs } from '../support/job-runs.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { type TestCalendar, TestRadicale } from '../support/radicale.ts';
import { answering, Receiver } from '../support/receivers.ts';
import { startSmtp, type TestSmtp } from '../support/smtp.ts';
import { database, newTenant, rowDatabase, type Tenant, useDatabase } from '../support/tenants.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const nowhere = { url: 'http://127.0.0.1:9/', username: 'omar', password: 'x' };

let url: string;
let server: ReturnType<typeof openCalendarServer>;
let tenant: Tenant;

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  server = openCalendarServer(url);
  tenant = await newTenant();
});
afterAll(async () => {
  await server?.close();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

const later = (milliseconds: number, from = new Date()): Date => new Date(from.getTime() + milliseconds);
const readOrder = async (id: string): Promise<Json> =>
  (await database()`select * from calendar_orders where booking_id = ${id}`)[0];
const readCalendar = async (userId: string): Promise<Json> =>
  (await database()`select * from user_calendars where user_id = ${userId}`)[0];

describe('an order', () => {
  test('retries a failed order with growing pauses, and abandons it after a week', async () => {
    const began = new Date();
    const userId = await newOwner(tenant, nowhere);
    const id = await newOrderedBooking(tenant, userId, began);
    const waits: number[] = [];
    for (let now = began; ; ) {
      await runCalendarOrders(server.context({ now: () => now }), server.services);
      const { due_at: next } = await readOrder(id);
      if (!next) {
        expect(now.getTime() - began.getTime()).toBeGreaterThanOrEqual(7 * day);
        break;
      }
      waits.push((next.getTime() - now.getTime()) / minute);
      now = next;
    }
    expect(waits.slice(0, 11)).toEqual([1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 360]);
    expect(await readOrder(id)).toMatchObject({ action: 'write', event_url: null, attempts: waits.length + 1 });
  });

  test('delays the removal of an event until its pending write is known', async () => {
    const userId = await newOwner(tenant, nowhere);
    const now = new Date();
    const id = await newOrderedBooking(tenant, userId, now);
    const { companyId } = tenant;
    const taken = await takeOrder(rowDatabase(), companyId, id, minute, now);
    expect(taken).toMatchObject({ action: 'write', attempts: 1 });
    expect(await takeOrder(rowDatabase(), companyId, id, minute, now)).toBeUndefined();
    await cancelOrderedBooking(tenant, userId, id, now);
    expect((await readOrder(id)).due_at).toEqual(later(minute, now));
    if (taken) await finishOrder(rowDatabase(), companyId, taken, `${nowhere.url}a.ics`, now);
    expect(await readOrder(id)).toMatchObject({ action: 'remove', due_at: now, event_url: `${nowhere.url}a.ics` });
    // A late result of a server whose lease expired is ignored.
    const again = await takeOrder(rowDatabase(), companyId, id, minute, now);
    if (taken) await finishOrder(rowDatabase(), companyId, { ...taken, action: 'remove' }, null, now);
    expect(await readOrder(id)).toMatchObject({ action: 'remove', attempts: 2, due_at: later(minute, now) });
    if (again) await finishOrder(rowDatabase(), companyId, again, null, now);
    expect(await readOrder(id)).toMatchObject({ due_at: null, event_url: null });
  });

  test('completes orders of users without an external calendar immediately', async () => {
    const userId = await newOwner(tenant, nowhere);
    const id = await newOrderedBooking(tenant, userId);
    await database()`update user_calendars set provider = 'test' where user_id = ${userId}`;
    await runCalendarOrders(server.context(), server.services);
    expect(await readOrder(id)).toMatchObject({ due_at: null, attempts: 1, event_url: null });
    await database()`delete from user_calendars where user_id = ${userId}`;
    await enqueueCalendarWrite(rowDatabase(), tenant.companyId, id, userId, 'remove', new Date());
    await runCalendarOrders(server.context(), server.services);
    expect(await readOrder(id)).toMatchObject({ due_at: null, attempts: 2 });
  });

  test('delays only orders of the same company while a calendar is slow', async () => {
    const now = later(-hour);
    const others = await newTenant();
    const userId = await newOwner(tenant, nowhere);
    const ids = await Promise.all(Array.from({ length: 6 }, () => newOrderedBooking(tenant, userId, now)));
    const other = await newOrderedBooking(others, await newOwner(others, nowhere), later(1, now));
    const due = await server.pools.platform.use((sql) => findDueOrders(sql, 4, 5, later(2, now)));
    expect(due.filter(({ id }) => ids.includes(id))).toHaveLength(4);
    expect(due.at(-1)).toMatchObject({ companyId: others.companyId, id: other });
    await database()`update calendar_orders set due_at = null where due_at is not null`;
  });
});

describe('a calendar', () => {
  /** Returns the user's calendar after a read. */
  const afterLook = async (userId: string, now: Date): Promise<Json> => {
    await lookAtCalendars(server.context({ now: () => now }), server.services);
    return readCalendar(userId);
  };

  test('reads an unreadable calendar again after a minute, and one with rejected credentials after an hour', async () => {
    const receiver = await Receiver.start();
    const own = await newTenant();
    const userId = await newOwner(own, { ...nowhere, url: `${receiver.url}/` });
    const pauses: Record<string, number> = {};
    let now = later(minute);
    for (const status of [200, 403, 503]) {
      receiver.behave = answering(status);
      const { fault, due_at: due } = await afterLook(userId, now);
      pauses[fault] = (due.getTime() - now.getTime()) / minute;
      now = due;
    }
    expect(pauses).toEqual({ unreadable: 1, refused: 60, unreachable: 5 });
    await receiver.stop();
    await database()`delete from user_calendars where user_id = ${userId}`;
  });

  test('keeps a new calendar unread until the first successful read', async () => {
    const receiver = await Receiver.start(answering(503));
    const own = await newTenant();
    const connection = { ...nowhere, url: `${receiver.url}/` };
    const userId = await newOwner(own, connection);
    const unread = async (now: Date): Promise<string[]> =>
      (await server.pools.platform.use((sql) => findUnreadCalendars(sql, 4, 100, now))).map(({ id }) => id);
    const now = later(minute);
    expect(await unread(now)).toContain(userId);
    await afterLook(userId, now);
    expect([await unread(now), await unread(later(5 * minute, now))].map((ids) => ids.includes(userId))).toEqual([
      false,
      true,
    ]);
    receiver.behave = (_, response) => void response.writeHead(207).end('<multistatus xmlns="DAV:"/>');
    expect(await afterLook(userId, later(5 * minute, now))).toMatchObject({
      fault: null,
      looked_until: expect.any(Date),
    });
    expect(await unread(later(day, now))).not.toContain(userId);
    // A replacement is unread again.
    const again = { userId, provider: 'caldav' as const, ...connection, sealedPassword: null };
    await saveCalendar(rowDatabase(), own.companyId, again, now);
    expect(await unread(now)).toContain(userId);
    await receiver.stop();
    await database()`delete from user_calendars where user_id = ${userId}`;
  });
});

describe.skipIf(!findProgram('radicale'))(`with a CalDAV server${skipNote('radicale')}`, () => {
  let radicale: TestRadicale;
  let calendar: TestCalendar;
  beforeAll(async () => {
    radicale = await TestRadicale.start();
    calendar = await radicale.newCalendar('work');
  });
  afterAll(() => radicale?.stop());

  const event = (uid: string, start: Date): string => {
    const at = `${start.toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
    const lines = [`UID:${uid}`, `DTSTAMP:${at}`, `DTSTART:${at}`, 'DURATION:PT1H'];
    return [
      'BEGIN:VCALENDAR',
      'VERSION:2.0',
      'PRODID:x',
      'BEGIN:VEVENT',
      ...lines,
      'END:VEVENT',
      'END:VCALENDAR',
      '',
    ].join('\r\n');
  };

  test('reads a calendar as far as slots can be booked, and again after five minutes', async () => {
    const now = later(minute);
    const own = await newTenant();
    const userId = await newOwner(own, calendar);
    await newOwner(own, { ...calendar, password: 'wrong' });
    const starts = [later(day, now), later(60 * day, now), later(62 * day, now)].map((at) =>
      later(-at.getMilliseconds(), at),
    );
    for (const [index, start] of starts.entries()) await calendar.put(`${index}.ics`, event(String(index), start));
    await lookAtCalendars(server.context({ now: () => now }), server.services);
    const row = await readCalendar(userId);
    expect(row).toMatchObject({
      fault: null,
      checked_at: now,
      due_at: later(5 * minute, now),
      looked_until: later(61 * day, now),
    });
    const within = { start: now.getTime(), end: later(90 * day, now).getTime() };
    const found = await findCalendars(rowDatabase(), own.companyId, [userId], within);
    const hours = starts.slice(0, 2).map((start) => ({ start: start.getTime(), end: start.getTime() + hour }));
    const state = { provider: 'caldav', fault: null, checkedAt: now, readUntil: later(61 * day, now), busy: hours };
    expect(found.get(userId)).toEqual(state);
    // Cut to the requested interval.
    const [first] = hours;
    const part = { start: (first?.start ?? 0) + minute, end: (first?.start ?? 0) + 2 * minute };
    expect((await findCalendars(rowDatabase(), own.companyId, [userId], part)).get(userId)?.busy).toEqual([part]);
    // A failed read keeps the last known intervals.
    await database()`update user_calendars set url = ${nowhere.url} where user_id = ${userId}`;
    const next = later(5 * minute, now);
    await lookAtCalendars(server.context({ now: () => next }), server.services);
    const after = (await findCalendars(rowDatabase(), own.companyId, [userId], within)).get(userId);
    expect(after).toMatchObject({ fault: 'unreachable', checkedAt: next, busy: hours });
    const [refused] = await database()`select * from user_calendars where fault = 'refused'`;
    expect(refused?.due_at).toEqual(later(hour, now));
  });

  test('discards a read that started before the calendar was replaced', async () => {
    const userId = await newOwner(tenant, calendar);
    const now = later(minute);
    const taken = await takeCalendar(rowDatabase(), tenant.companyId, userId, minute, now);
    expect(await takeCalendar(rowDatabase(), tenant.companyId, userId, minute, now)).toBeUndefined();
    await database()`update user_calendars set due_at = ${now} where user_id = ${userId}`;
    if (taken) await noteLook(rowDatabase(), tenant.companyId, taken, { fault: 'refused' }, later(hour, now), now);
    expect(await readCalendar(userId)).toMatchObject({ fault: null, due_at: now });
    await database()`delete from user_calendars`;
    expect(await server.pools.platform.use((sql) => findDueCalendars(sql, 4, 10, later(day)))).toEqual([]);
  });

  test('writes an event once across servers, and removes it when it is cancelled', async () => {
    const userId = await newOwner(tenant, await radicale.newCalendar('many'));
    const ids = await Promise.all([1, 2, 3].map(() => newOrderedBooking(tenant, userId)));
    const many = [server, openCalendarServer(url), openCalendarServer(url)];
    const now = later(minute);
    await Promise.all(many.map(({ context, services }) => runCalendarOrders(context({ now: () => now }), services)));
    const orders = await Promise.all(ids.map(readOrder));
    expect(orders.map(({ attempts, due_at }) => [attempts, due_at])).toEqual(ids.map(() => [1, null]));
    // A repeated write leaves the event unchanged.
    await enqueueCalendarWrite(rowDatabase(), tenant.companyId, ids[0] ?? '', userId, 'write', now);
    await runCalendarOrders(server.context({ now: () => now }), server.services);
    expect(await readOrder(ids[0] ?? '')).toMatchObject({ due_at: null, attempts: 2, event_url: orders[0].event_url });
    for (const id of ids) await cancelOrderedBooking(tenant, userId, id, now);
    // One of the events is already deleted.
    const { username, password } = calendar;
    const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    expect((await fetch(orders[1].event_url, { method: 'DELETE', headers: { authorization } })).status).toBe(200);
    await Promise.all(many.map(({ context, services }) => runCalendarOrders(context({ now: () => now }), services)));
    expect((await Promise.all(ids.map(readOrder))).map(({ action, due_at }) => [action, due_at])).toEqual(
      ids.map(() => ['remove', null]),
    );
    expect((await fetch(orders[0].event_url, { headers: { authorization } })).status).toBe(404);
    await Promise.all(many.slice(1).map(({ close }) => close()));
  });

  test('does not write an event that was cancelled before', async () => {
    const own = await radicale.newCalendar('cancelled');
    const userId = await newOwner(tenant, own);
    const id = await newOrderedBooking(tenant, userId);
    await database()`update bookings set status = 'rescheduled' where id = ${id}`;
    await runCalendarOrders(server.context({ now: () => later(minute) }), server.services);
    expect([await own.events(), (await readOrder(id)).action]).toEqual([[], 'remove']);
  });
});

describe('an invitation', () => {
  let smtp: TestSmtp;
  let jobs: RunningJobs | undefined;
  let transport: Awaited<ReturnType<typeof openMailTransport>> | undefined;
  beforeAll(async () => {
    smtp = await startSmtp();
    const secrets = new Secrets(inject('secretKey'));
    const from = 'crm@example.com';
    const mailServer = { host: '127.0.0.1', port: smtp.port, secure: false, user: undefined, password: undefined };
    transport = await openMailTransport({ ...mailServer, verify: true });
    const mails = {
      transport: createSmtpMails(transport, from),
      from,
      dashboardUrl: 'https://app.example',
      decrypt: (sealed: string) => secrets.decrypt(sealed),
      buildMeetingLink: (companyId: string, bookingId: string) =>
        `https://crm.example/meeting/${companyId}-${bookingId}`,
    };
    jobs = startNamedJobs(['mails'], server.pools, { mails });
  });
  afterAll(async () => {
    await jobs?.stop();
    transport?.close();
    await smtp?.stop();
  });

  const facts = {
    invitationId: '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9c04',
    location: 'https://meet.example.com/sara?a=1,2;3',
    startAt: new Date('2026-11-23T06:00Z'),
    endAt: new Date('2026-11-23T06:30Z'),
    timezone: 'Asia/Dubai',
    attendee: { name: 'Sara Ali', email: 'sara@example.org' },
    userName: 'Omar Nasser',
    companyName: 'Blue Lake',
    title: 'First call',
    changedAt: new Date('2026-11-20T06:00Z'),
    bookingId: null,
  };
  async function received(
    invitation: ReturnType<typeof buildInvitation>,
  ): Promise<{ raw: string; parts: string[]; calendar: ICAL.Component }> {
    const before = smtp.received.length;
    await insertMail(rowDatabase(), { companyId: tenant.companyId, ...invitation }, new Date());
    const mail = await vi.waitFor(() => {
      expect(smtp.received).toHaveLength(before + 1);
      return smtp.received.at(-1) ?? { raw: '', recipients: [] };
    });
    expect(mail.recipients).toEqual([invitation.recipient]);
    const { raw } = mail;
    const parts = raw.split(/^--[^\r\n]+\r?\n/m).slice(1);
    const file = parts.find((part) => /^Content-Type: text\/calendar/im.test(part)) ?? '';
    return { raw, parts, calendar: new ICAL.Component(ICAL.parse(decoded(file))) };
  }
  /** Decodes the body of a part. */
  function decoded(part: string): string {
    const [head = '', ...body] = part.split(/\r?\n\r?\n/);
    const text = body.join('\r\n\r\n');
    if (/base64/i.test(head)) return Buffer.from(text, 'base64').toString();
    if (!/quoted-printable/i.test(head)) return text;
    const bytes = text
      .replace(/=\r?\n/g, '')
      .replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
    return Buffer.from(bytes, 'latin1').toString();
  }

  test.each([
    ['scheduled', 0, 'REQUEST', 'CONFIRMED', 'Meeting with Omar Nasser', 'is booked'],
    ['rescheduled', 1, 'REQUEST', 'CONFIRMED', 'Meeting with Omar Nasser rescheduled', 'was rescheduled'],
    ['cancelled', 2, 'CANCEL', 'CANCELLED', 'Meeting with Omar Nasser cancelled', 'was cancelled'],
  ] as const)(
    'sends an invitation that people and calendars understand for a %s booking',
    async (what, sequence, method, status, subject, words) => {
      const { raw, parts, calendar } = await received(buildInvitation({ ...facts, what, sequence }));
      expect(raw).toMatch(new RegExp(`^Subject: ${subject}\r?$`, 'm'));
      expect(raw).toMatch(new RegExp(`^Content-Type: text/calendar;.*method=${method}`, 'im'));
      const text = decoded(parts.find((part) => /^Content-Type: text\/plain/im.test(part)) ?? '');
      expect(text).toContain(words);
      expect(text).toContain('When: Monday, 23 November 2026, 10:00 to 10:30 (Asia/Dubai)');
      expect(text).toContain(`Where: ${facts.location}`);
      expect(calendar.getFirstPropertyValue('method')).toBe(method);
      const event = calendar.getFirstSubcomponent('vevent');
      const value = (name: string): unknown => event?.getFirstPropertyValue(name);
      expect([value('uid'), value('sequence'), value('status'), value('summary'), value('location')]).toEqual([
        facts.invitationId,
        sequence,
        status,
        'First call',
        facts.location,
      ]);
      expect([String(value('dtstart')), String(value('dtend'))]).toEqual([
        '2026-11-23T06:00:00Z',
        '2026-11-23T06:30:00Z',
      ]);
      expect([value('organizer'), value('attendee')]).toEqual(['mailto:crm@example.com', 'mailto:sara@example.org']);
      expect(event?.getFirstProperty('organizer')?.getParameter('cn')).toBe('Omar Nasser');
    },
  );

  test.each([
    ['the link of the attendee', '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9c04', true],
    ['no link for guests', null, false],
  ])('contains %s to cancel or move the meeting', async (_, bookingId, isLinked) => {
    const { parts } = await received(buildInvitation({ ...facts, what: 'scheduled', sequence: 0, bookingId }));
    const text = decoded(parts.find((part) => /^Content-Type: text\/plain/im.test(part)) ?? '');
    expect(text.includes(`https://crm.example/meeting/${tenant.companyId}-${bookingId}`)).toBe(isLinked);
    const [stored] =
      await database()`select data from mails where company_id = ${tenant.companyId} order by id desc limit 1`;
    expect(JSON.stringify(stored)).not.toContain('/meeting/');
  });

  test('removes links and text that users put into names', async () => {
    const hostile = 'x\r\nATTENDEE:mailto:eve@evil.example\nEND:VEVENT\rBEGIN:VEVENT\u2028"; https://evil.example';
    const invitation = buildInvitation({
      ...facts,
      what: 'scheduled',
      sequence: 0,
      title: hostile,
      userName: hostile,
      companyName: hostile,
      attendee: { name: hostile, email: facts.attendee.email },
      location: `Room 1\r\nBcc: eve@evil.example\r${hostile}`,
    });
    const { raw, parts, calendar } = await received(invitation);
    expect(raw.split(/\r?\n\r?\n/)[0]).not.toMatch(/evil\.example/);
    expect(raw).not.toMatch(/^(Bcc|ATTENDEE:)/m);
    expect(calendar.getAllSubcomponents('vevent')).toHaveLength(1);
    const event = calendar.getFirstSubcomponent('vevent');
    expect(event?.getAllProperties('attendee')).toHaveLength(1);
    expect(String(event?.getFirstPropertyValue('summary'))).not.toMatch(/evil\.example|[\r\n]/);
    const text = decoded(parts.find((part) => /^Content-Type: text\/plain/im.test(part)) ?? '');
    // The location is shown unchanged, on one line.
    const lines = text.split(/\r?\n/).filter((line) => /https?:\/\//.test(line));
    expect(lines).toEqual([expect.stringMatching(/^Where: Room 1 /)]);
  });
});
