// The page by which an attendee cancels or moves a meeting.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { buildMeetingPath } from '../../web/recipients/meetings.ts';
import { accessibilityProblems } from '../support/accessibility.ts';
import { openBrowser } from '../support/browser.ts';
import { anyAddress, call, expectStatus, type Json } from '../support/client.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { attendee, book, halfHour, meeting, newPolicy } from '../support/scheduling.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newTenant();
});

const tokens = new SignedTokens(new Secrets(inject('secretKey')));
const linkTo = ({ id }: Json, { companyId } = tenant): string =>
  inject('baseUrl') + buildMeetingPath(tokens, companyId, id);
const get = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/bookings/${id}`, { key: tenant.key })).body.data.booking;

async function visit(link: string, form?: Record<string, string>): Promise<{ status: number; text: string }> {
  const answer = await fetch(link, {
    method: form ? 'POST' : 'GET',
    headers: { 'x-forwarded-for': anyAddress() },
    ...(form ? { body: new URLSearchParams(form) } : {}),
  });
  return { status: answer.status, text: await answer.text() };
}

const offers = (text: string): string[] =>
  [...text.matchAll(/name="start" value="([^"]+)"/g)].map(([, at]) => at ?? '');

/** Counts radio buttons whose label is not on their line. */
const misplaced = `[...document.querySelectorAll('input[type=radio]')].filter((each) => {
  const [button, label] = [each, each.labels[0]].map((part) => part.getBoundingClientRect());
  return Math.abs(button.top + button.height / 2 - label.top - label.height / 2) > 8;
}).length`;

/** The form that cancels a meeting, with the answer to its question. */
const cancelled = { action: 'cancel', confirmed: 'yes' };

/** Books a meeting of a new user. */
async function newMeeting(more: object = {}): Promise<Json> {
  const { id } = await newUser(tenant);
  const { id: policy_id } = await newPolicy(tenant);
  return book(tenant.key, [id], { policy_id, attendee: { ...attendee, timezone: 'Asia/Dubai' }, ...more });
}

describe('the page of a meeting', () => {
  test('shows the meeting and its times for GET requests, and changes nothing', async () => {
    const booking = await newMeeting();
    const link = linkTo(booking);
    for (const method of ['GET', 'HEAD']) expect((await fetch(link, { method })).status).toBe(200);
    const { text } = await visit(link);
    expect(text).toContain('Cancel the meeting');
    expect(text).toContain('Asia/Dubai');
    const times = offers((await visit(`${link}?move=1`)).text);
    expect(times).toHaveLength(60);
    expect(times).not.toContain(booking.start_at);
    const later = offers((await visit(`${link}?move=1&from=${times[59]}`)).text);
    expect(later[0]).toBe(times[59]);
    expect(await get(booking.id)).toEqual(booking);
  });

  test('asks before it cancels a meeting, and keeps the reason', async () => {
    const booking = await newMeeting();
    const link = linkTo(booking);
    expect((await visit(link)).text).toContain('<button class="danger">Cancel the meeting</button>');
    const { status, text } = await visit(link, { action: 'cancel', reason: 'I am "ill"' });
    expect([status, text.includes('Cancel this meeting?'), text.includes('value="I am &quot;ill&quot;"')]).toEqual([
      200,
      true,
      true,
    ]);
    expect(text).toContain('name="confirmed" value="yes"');
    expect(await get(booking.id)).toEqual(booking);
  });

  test('names the time zone once, and the offset only of hours that repeat', async () => {
    const attended = { ...attendee, timezone: 'Europe/Berlin' };
    const booking = await newMeeting({ attendee: attended });
    const { text } = await visit(`${linkTo(booking)}?move=1`);
    expect(text).toContain('Times are in Europe/Berlin.');
    const labels = [...text.matchAll(/required> ([^<]*)<\/label>/g)].map(([, label = '']) => label);
    expect(labels).toHaveLength(60);
    expect(labels.filter((label) => !/^\d\d:\d\d$/.test(label) && !/^02:\d\d GMT/.test(label))).toEqual([]);
  });

  test('cancels a meeting once, with a reason, and then only says so', async () => {
    const booking = await newMeeting();
    const link = linkTo(booking);
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => visit(link, { ...cancelled, reason: ' I am <b>ill</b> ' })),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(await get(booking.id)).toMatchObject({ status: 'cancelled', cancellation_reason: 'I am <b>ill</b>' });
    const after = await visit(link, { action: 'move', start: halfHour(8).toISOString() });
    expect(after.text).toContain('This meeting is cancelled.');
    const audit = await database()`
      select actor_kind, actor_id from audit_logs where record_id = ${booking.id} and action = 'booking.cancel'`;
    expect(audit).toEqual([{ actor_kind: 'system', actor_id: 'attendee' }]);
  });

  test('moves a meeting to an offered time, and its link ends with that', async () => {
    const booking = await newMeeting();
    const link = linkTo(booking);
    const [, start = ''] = offers((await visit(`${link}?move=1`)).text);
    const moved = await visit(link, { action: 'move', start });
    expect(moved.text).toContain('Your meeting is moved');
    const { status, rescheduled_to: next } = await get(booking.id);
    expect(status).toBe('rescheduled');
    expect(await get(next)).toMatchObject({ start_at: start, status: 'confirmed', user_id: booking.user_id });
    const old = await visit(link, { ...cancelled });
    expect(old.text).toContain('This meeting was moved.');
    expect(await get(next)).toMatchObject({ status: 'confirmed' });
    expect((await visit(linkTo({ id: next }))).text).toContain('Cancel the meeting');
  });

  test('refuses a time that is not offered, and one that has been taken', async () => {
    const weekly = [0, 1, 2, 3, 4, 5, 6].map((weekday) => ({ weekday, start: '09:00', end: '12:00' }));
    const { id } = await newUser(tenant);
    const { id: policy_id } = await newPolicy(tenant, { working_hours: weekly });
    const booking = await book(tenant.key, [id], { policy_id });
    const link = linkTo(booking);
    const times = offers((await visit(`${link}?move=1`)).text);
    const night = `${times[10]?.slice(0, 10)}T02:00:00.000Z`;
    const [taken = ''] = times;
    const to = new Date(Date.parse(taken) + 1_800_000).toISOString();
    await book(tenant.key, [id], { policy_id, from: taken, to });
    for (const start of [night, taken, booking.start_at, 'soon', '']) {
      const { text } = await visit(link, { action: 'move', start });
      expect(text).toContain('This time is no longer free.');
    }
    expect(await get(booking.id)).toEqual(booking);
  });

  test('never books a user twice if attendees and the API compete for the same times', async () => {
    const { id } = await newUser(tenant);
    const { id: policy_id } = await newPolicy(tenant);
    const booked: Json[] = [];
    for (let count = 0; count < 4; count += 1) booked.push(await book(tenant.key, [id], { policy_id }));
    const times = offers((await visit(`${linkTo(booked[0])}?move=1`)).text).slice(0, 2);
    const answers = await Promise.all(
      booked.flatMap((booking) => [
        ...times.map((start) => visit(linkTo(booking), { action: 'move', start })),
        ...times.map((from) =>
          call('POST', '/v1/bookings', {
            key: tenant.key,
            idempotencyKey: true,
            body: {
              member_ids: [id],
              policy_id,
              from,
              to: new Date(Date.parse(from) + 1_800_000).toISOString(),
              attendee,
              meeting,
            },
          }),
        ),
      ]),
    );
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    const held = await database()`select start_at from bookings where user_id = ${id} and status = 'confirmed'`;
    const starts = held.map(({ start_at }) => start_at.getTime());
    expect(new Set(starts).size).toBe(starts.length);
    expect(starts).toEqual(expect.arrayContaining(times.map((time) => Date.parse(time))));
  });

  test('is closed from the start of the meeting on, and to links of others', async () => {
    const booking = await newMeeting();
    const link = linkTo(booking);
    await database()`update bookings set start_at = now() - interval '1 second' where id = ${booking.id}`;
    expect((await visit(link, { ...cancelled })).text).toContain('This meeting has begun');
    expect((await get(booking.id)).status).toBe('confirmed');
    const foreign = await newTenant();
    const unsubscribe = tokens.write('unsubscribe', [tenant.companyId, booking.id]);
    for (const wrong of [
      linkTo(booking, foreign),
      `${link}x`,
      `${inject('baseUrl')}/meeting/${unsubscribe}`,
      linkTo({ id: randomUUID() }),
    ])
      expect((await visit(wrong)).status).toBe(404);
  });

  test('offers no times of an inactive user, and still cancels', async () => {
    const booking = await newMeeting();
    await database()`update users set status = 'inactive' where id = ${booking.user_id}`;
    expect((await visit(`${linkTo(booking)}?move=1`)).text).toContain('There are no other times');
    expect((await visit(linkTo(booking), { ...cancelled })).text).toContain('Your meeting is cancelled');
  });

  test.skipIf(!findProgram('chromium'))(
    `is accessible, on small screens, by keyboard, without JavaScript${skipNote('chromium')}`,
    async () => {
      const link = linkTo(await newMeeting({ meeting: { title: 'A call with a rather long title '.repeat(5) } }));
      const browser = await openBrowser();
      const viewport = { width: 320, height: 640 };
      try {
        const page = await browser.newPage({ viewport });
        for (const address of [link, `${link}?move=1`]) {
          await page.goto(address);
          expect(await accessibilityProblems(page)).toEqual([]);
          expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(viewport.width);
          // Each radio button is on the line of its time.
          expect(await page.evaluate(misplaced)).toBe(0);
        }
        const plain = await browser.newPage({ viewport, javaScriptEnabled: false });
        await plain.goto(link);
        await plain.getByRole('link', { name: 'Choose another time' }).press('Enter');
        await plain.getByRole('radio').first().press('Space');
        await plain.getByRole('button', { name: 'Move the meeting' }).press('Enter');
        await plain.getByRole('heading', { name: 'Your meeting is moved' }).waitFor();
      } finally {
        await browser.close();
      }
    },
  );
});
