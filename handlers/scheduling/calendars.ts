// External calendars: connect, read and disconnect.

import { findUser } from '../../db/people/users.ts';
import * as db from '../../db/scheduling/calendars.ts';
import { CalendarFault, openConnection, type SealedConnection } from '../../domain/scheduling/calendars.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, calendarFailed, type FieldProblem, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { openUser } from '../../services/people/own-user.ts';

type Shown = components['schemas']['UserCalendar'];

export const getCalendar: Handler<'getCalendar'> = async (call) => {
  return { status: 200, data: { calendar: await readCalendar(call, await findVisibleUser(call)) } };
};

export const connectCalendar: Handler<'connectCalendar'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const userId = await findVisibleUser(call);
  const problems = [...(await addressProblems(call)), ...findCombinationProblems(call)];
  if (problems.length > 0) throw validationFailed(problems, 400);
  if (body.provider === 'internal') return disconnect(call, userId);
  const { provider, url, username, password } = body;
  const connection: SealedConnection = {
    userId,
    provider,
    username: username ?? null,
    url: url === undefined ? null : url.replace(/\/*$/, '/'),
    sealedPassword: password === undefined ? null : call.services.secrets.encrypt(password),
    timezone: await db.findTimezone(call.db.sql, caller.companyId, userId),
  };
  await verify(call, connection);
  const before = await db.findCalendar(call.db.sql, caller.companyId, userId);
  await db.saveCalendar(call.db.sql, caller.companyId, connection, now);
  recordChange(call, 'connect', userId, before, { ...connection, fault: null, checkedAt: now });
  return { status: 200, data: { calendar: await readCalendar(call, userId) } };
};

export const deleteCalendar: Handler<'deleteCalendar'> = async (call) => disconnect(call, await findVisibleUser(call));

type AnyCall = Call<'getCalendar'> | Call<'connectCalendar'> | Call<'deleteCalendar'>;

/**
 * @throws ApiError 404 if the user does not exist or is not visible; 403 if the caller may not
 * manage it
 */
async function findVisibleUser(call: AnyCall): Promise<string> {
  openUser(call);
  return orNotFound(await findUser(call.db.sql, call.caller, call.request.path.id)).id;
}

async function addressProblems(call: Call<'connectCalendar'>): Promise<FieldProblem[]> {
  const { provider, url } = call.request.body;
  if (provider !== 'caldav' || url === undefined) return [];
  const refusal = await call.db.withoutConnection(call.services.calendars.findUrlRejection(url));
  if (refusal) return [buildProblem('url', 'INVALID_FORMAT', `url ${refusal}`)];
  return /[?#]/.test(url) ? [buildProblem('url', 'INVALID_FORMAT', 'url must not have a query or a fragment')] : [];
}

const ofCaldav = ['url', 'username', 'password'] as const;

function findCombinationProblems({ request: { body } }: Call<'connectCalendar'>): FieldProblem[] {
  const { provider } = body;
  return ofCaldav
    .filter((name) => (provider === 'caldav') === (body[name] === undefined))
    .map((name) =>
      provider === 'caldav'
        ? buildProblem(name, 'REQUIRED', `${name} is required if provider is caldav`)
        : buildProblem(name, 'CONFLICTING_FIELDS', `${name} is not allowed if provider is ${provider}`),
    );
}

/** @throws ApiError 422 if there is no writable calendar; 503 if it does not respond */
async function verify(call: Call<'connectCalendar'>, sealed: SealedConnection): Promise<void> {
  const connection = openConnection(sealed, (text) => call.services.secrets.decrypt(text));
  try {
    await call.db.withoutConnection(call.services.calendars.verify(connection));
  } catch (error) {
    if (!(error instanceof CalendarFault)) throw error;
    if (error.kind === 'refused')
      throw validationFailed(
        [
          buildProblem(
            'password',
            'INVALID_OPTION',
            'The calendar server does not allow this username and password to write events',
          ),
        ],
        422,
      );
    if (error.kind === 'unreadable')
      throw validationFailed(
        [buildProblem('url', 'INVALID_OPTION', 'url must be the address of a calendar for events')],
        422,
      );
    throw calendarFailed();
  }
}

async function disconnect(
  call: Call<'connectCalendar'> | Call<'deleteCalendar'>,
  userId: string,
): Promise<{ status: 200; data: { calendar: Shown } }> {
  const { caller } = call;
  const { sql } = call.db;
  const before = await db.findCalendar(sql, caller.companyId, userId);
  if (await db.removeCalendar(sql, caller.companyId, userId))
    recordChange(call, 'disconnect', userId, before, undefined);
  return { status: 200, data: { calendar: toCalendarResponse(userId, undefined) } };
}

/** Records only the host of the URL, because the URL may grant access without a password. */
function recordChange(
  call: Call<'connectCalendar'> | Call<'deleteCalendar'>,
  what: 'connect' | 'disconnect',
  userId: string,
  before: db.CalendarRow | undefined,
  after: db.CalendarRow | undefined,
): void {
  const named = (row: db.CalendarRow | undefined) => ({
    provider: row?.provider ?? 'internal',
    host: row?.url ? new URL(row.url).host : null,
    username: row?.username ?? null,
  });
  const [from, to] = [named(before), named(after)];
  const names = (['provider', 'host', 'username'] as const).filter((name) => from[name] !== to[name]);
  const changes = Object.fromEntries(names.map((name) => [name, { from: from[name], to: to[name] }]));
  call.db.record({ action: `user.calendar.${what}`, object: 'users', recordId: userId, changes });
}

async function readCalendar({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>, userId: string): Promise<Shown> {
  return toCalendarResponse(userId, await db.findCalendar(sql, caller.companyId, userId));
}

function toCalendarResponse(userId: string, row: db.CalendarRow | undefined): Shown {
  return {
    user_id: userId,
    provider: row?.provider ?? 'internal',
    url: row?.url ?? null,
    username: row?.username ?? null,
    status: row ? (row.fault === null ? 'connected' : 'error') : 'not_connected',
    checked_at: row?.checkedAt.toISOString() ?? null,
  };
}
