// The page of a meeting for its attendee: GET shows it and other times, POST cancels or moves it.
import { type Brand, findBrand } from '../../db/access/logos.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import { type BookingRow, findBooking } from '../../db/scheduling/bookings.ts';
import type { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import type { PageRequest, PageResponse, PageRoute } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import type { Performed } from '../../runtime/pipeline/in-process.ts';
import { findAttendeeSlots, type SlotPage } from '../../services/scheduling/attendee-slots.ts';
import { renderBrandedPage } from '../pages/brand.ts';
import { notFound } from './unsubscribe.ts';

/** The rate limit of the page per IP address. Mail providers open links for many people. */
export const meetingPolicy = { meeting: [{ limit: 600, window: 60_000 }] };

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;
const purpose = 'meetings of attendees';
/** Times on one page. */
const slotsOfPage = 60;
const longestReason = 500;

/** A change that the page makes for the attendee. */
interface MeetingChange {
  operationId: 'cancelBooking' | 'rescheduleBooking';
  path: { id: string };
  body: Record<string, string>;
}

export interface MeetingPageParts {
  tenants: Pool;
  tokens: SignedTokens;
  /** Performs the operation in live mode, for the whole company; undefined if its API is not available. */
  change(companyId: string, change: MeetingChange): Promise<Performed | undefined>;
}

/** Returns the path of the page for the attendee of a booking. Test mode sends no emails. */
export function buildMeetingPath(tokens: SignedTokens, companyId: string, bookingId: string): string {
  return `/meeting/${tokens.write(purpose, [companyId, bookingId])}`;
}

/** The request for a booking that exists. */
interface Visit {
  parts: MeetingPageParts;
  companyId: string;
  booking: BookingRow;
  brand: Brand | undefined;
  token: string;
  now: Date;
}

export function createMeetingPage(parts: MeetingPageParts): PageRoute {
  return {
    name: 'meeting',
    path: /^\/meeting\/(?<token>[\w.-]{1,500})$/,
    limit: 'meeting',
    async show({ path, query, form, body, now }) {
      const token = path.token ?? '';
      const [companyId, id] = (parts.tokens.read(purpose, token) ?? []) as [string?, string?];
      const found = companyId && id ? await readBooking(parts, companyId, id) : undefined;
      if (!companyId || !found?.booking) return notFound;
      const visit = { ...found, booking: found.booking, parts, companyId, token, now };
      const { booking } = visit;
      const closed = explainClosed(booking, now);
      if (closed !== null)
        return answer(visit, 'Your meeting', html`<p role="status">${closed}</p>\n${describe(booking)}`);
      // Link scanners send GET requests, which change nothing.
      if (body === undefined) return query.has('move') ? showTimes(visit, query) : showMeeting(visit);
      if (form?.get('action') !== 'cancel') return move(visit, form);
      return form.get('confirmed') === 'yes' ? cancel(visit, form) : askToCancel(visit, form);
    },
  };
}

const readBooking = ({ tenants }: MeetingPageParts, companyId: string, id: string) =>
  inTransaction(tenants, { companyId, testMode: false }, timeoutMs, async (sql) => {
    const caller = { companyId, testMode: false, reach: { kind: 'company' } } as const;
    const [booking, brand] = await Promise.all([findBooking(sql, caller, id), findBrand(sql, companyId)]);
    return { booking, brand };
  });

/** Returns why the meeting can no longer be changed; null if it can. The link ends with the state of the booking. */
function explainClosed({ status, startAt }: BookingRow, now: Date): string | null {
  if (status === 'cancelled') return 'This meeting is cancelled.';
  if (status === 'rescheduled') return 'This meeting was moved. Use the link in the latest email to change it.';
  if (status !== 'confirmed' || startAt <= now) return 'This meeting has begun, and can no longer be changed here.';
  return null;
}

function showMeeting(visit: Visit, problem: Html | null = null): PageResponse {
  const { booking, token } = visit;
  return answer(
    visit,
    'Your meeting',
    html`${problem}${describe(booking)}
<p><a href="/meeting/${token}?move=1">Choose another time</a></p>
<form method="post">
<input type="hidden" name="action" value="cancel">
<p><label for="reason">Reason for cancelling (optional)</label>
<input id="reason" name="reason" maxlength="${longestReason}"></p>
<button class="danger">Cancel the meeting</button>
</form>`,
  );
}

/** A cancelled meeting cannot be restored, so the page asks first. */
function askToCancel(visit: Visit, form: URLSearchParams): PageResponse {
  const { booking, token } = visit;
  return answer(
    visit,
    'Cancel this meeting?',
    html`${describe(booking)}
<p>The time becomes free for others. This cannot be undone.</p>
<form method="post">
<input type="hidden" name="action" value="cancel">
<input type="hidden" name="confirmed" value="yes">
<input type="hidden" name="reason" value="${form.get('reason') ?? ''}">
<button class="danger">Cancel the meeting</button>
</form>
<p><a href="/meeting/${token}">Keep the meeting</a></p>`,
  );
}

async function showTimes(
  visit: Visit,
  query: PageRequest['query'],
  problem: Html | null = null,
): Promise<PageResponse> {
  const { booking, token } = visit;
  const from = Date.parse(query.get('from') ?? '');
  const { slots, next } = await readSlots(visit, Number.isNaN(from) ? 0 : from, slotsOfPage);
  const days = [...Map.groupBy(slots, ({ start }) => formatDate(booking, start))];
  const choices = days.map(
    ([date, times]) => html`<fieldset>
<legend>${date}</legend>
<div class="times">
${nameTimes(
  booking,
  times.map(({ start }) => start),
).map(
  ([start, name]) =>
    html`<label><input type="radio" name="start" value="${new Date(start).toISOString()}" required> ${name}</label>\n`,
)}</div>
</fieldset>
`,
  );
  const form =
    days.length === 0
      ? html`<p>There are no other times at the moment.</p>`
      : html`<form method="post">
<input type="hidden" name="action" value="move">
<p class="note">Times are in ${getZone(booking)}.</p>
${choices}<button>Move the meeting</button>
</form>`;
  return answer(
    visit,
    'Choose another time',
    html`${problem}${describe(booking)}
${form}
${next === null ? null : html`<p><a href="/meeting/${token}?move=1&amp;from=${new Date(next).toISOString()}">Later times</a></p>\n`}<p><a href="/meeting/${token}">Back</a></p>`,
  );
}

function readSlots({ parts, companyId, booking, now }: Visit, from: number, limit: number): Promise<SlotPage> {
  const caller = { companyId, testMode: false };
  return inTransaction(parts.tenants, caller, timeoutMs, (sql) =>
    findAttendeeSlots({ db: { sql }, caller, now }, booking, from, limit),
  );
}

async function cancel(visit: Visit, form: URLSearchParams): Promise<PageResponse> {
  const { parts, companyId, booking } = visit;
  const reason = [...(form.get('reason') ?? '').trim()].slice(0, longestReason).join('');
  const body: MeetingChange['body'] = reason === '' ? {} : { reason };
  const done = await parts.change(companyId, { operationId: 'cancelBooking', path: { id: booking.id }, body });
  if (done?.status !== 200) return failed(visit, done);
  return answer(
    visit,
    'Your meeting is cancelled',
    html`<p role="status">The time is free again. You can close this page.</p>`,
  );
}

async function move(visit: Visit, form: URLSearchParams | undefined): Promise<PageResponse> {
  const { parts, companyId, booking } = visit;
  const start = Date.parse(form?.get('start') ?? '');
  // Only times that are offered: the operation itself would also accept others.
  const [offered] = Number.isNaN(start) ? [] : (await readSlots(visit, start, 1)).slots;
  if (offered?.start !== start) return showTimes(visit, new URLSearchParams(), gone);
  const body = { from: new Date(start).toISOString(), to: new Date(offered.end).toISOString() };
  const done = await parts.change(companyId, { operationId: 'rescheduleBooking', path: { id: booking.id }, body });
  if (done?.status === 409 && readReason(done) === 'slot_conflict')
    return showTimes(visit, new URLSearchParams(), gone);
  if (done?.status !== 200) return failed(visit, done);
  const moved = { ...booking, startAt: new Date(start), endAt: new Date(offered.end) };
  return answer(
    visit,
    'Your meeting is moved',
    html`<p role="status">You will receive an email with the new time. You can close this page.</p>\n${describe(moved)}`,
  );
}

const gone = html`<p role="alert">This time is no longer free. Please choose another one.</p>\n`;

/** The response if another request was faster, or the workspace cannot change bookings at the moment. */
async function failed(visit: Visit, done: Performed | undefined): Promise<PageResponse> {
  const { booking: current } = await readBooking(visit.parts, visit.companyId, visit.booking.id);
  const closed = current ? explainClosed(current, visit.now) : null;
  if (closed !== null)
    return answer(visit, 'Your meeting', html`<p role="status">${closed}</p>\n${describe(visit.booking)}`);
  const text = 'The meeting cannot be changed here at the moment. Please try again later, or answer the email.';
  const status = done && done.status < 500 && done.status !== 429 ? 409 : 503;
  return { ...showMeeting(visit, html`<p role="alert">${text}</p>\n`), status } as PageResponse;
}

const readReason = ({ body }: Performed): unknown =>
  (body as { error?: { details?: { reason?: unknown } } }).error?.details?.reason;

const answer = ({ brand }: Visit, title: string, content: Html): PageResponse =>
  renderBrandedPage(200, title, content, brand);

const describe = (booking: BookingRow): Html =>
  html`<dl class="facts"><dt>What</dt><dd>${isolateText(booking.meetingTitle)}</dd>
<dt>When</dt><dd>${formatDate(booking, booking.startAt.getTime())}, ${formatTime(booking, booking.startAt.getTime())} (${getZone(booking)})</dd>
<dt>With</dt><dd>${isolateText(booking.userName)}</dd></dl>`;

const getZone = ({ attendeeTimezone, timezone }: BookingRow): string => attendeeTimezone ?? timezone;

const formatDate = (booking: BookingRow, time: number): string =>
  new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeZone: getZone(booking) }).format(time);

/** Names the times of a day. Only those of a repeated hour show their offset. */
function nameTimes(booking: BookingRow, starts: readonly number[]): (readonly [start: number, name: string])[] {
  const timeZone = getZone(booking);
  const format = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZone });
  const named = Map.groupBy(starts, (start) => format.format(start));
  return [...named].flatMap(([name, same]) =>
    same.map((start) => [start, same.length > 1 ? formatTime(booking, start) : name] as const),
  );
}

/** Formats a time of day with its offset. */
const formatTime = (booking: BookingRow, time: number): string =>
  new Intl.DateTimeFormat('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    timeZoneName: 'shortOffset',
    timeZone: getZone(booking),
  }).format(time);
