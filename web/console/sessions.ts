// The sessions of the signed-in person: where they are signed in, and how to end a session.
import { endUserSession, endUserSessions, listUserSessions } from '../../db/access/sessions.ts';
import { notFound } from '../../runtime/errors.ts';
import { html, isolateText } from '../../runtime/pages/html.ts';
import { doneMessage, formatTime, table } from '../pages/components.ts';
import { form } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { act, buildAddress, type Show, toLiveMode } from '../pages/requests.ts';

const doneMessages = { ended: 'The session was ended.', others: 'All other sessions were ended.' };

export const showSessions: Show = async (parts, request) => {
  const { companyId, userId, sessionId } = requireSessionIds(request.person.caller);
  const sessions = await act(parts, toLiveMode(request), [], ({ now, db: { sql } }) =>
    listUserSessions(sql, companyId, userId, now),
  );
  const rows = sessions.map(({ id, createdAt, ip, userAgent }) => [
    formatTime(createdAt),
    ip ?? 'unknown',
    userAgent === null ? 'unknown' : isolateText(userAgent),
    id === sessionId
      ? 'This session'
      : form(request, `/console/sessions/${id}/end`, html`<button class="quiet">End</button>`, 'line'),
  ]);
  const others = form(
    request,
    '/console/sessions/end-others',
    html`<button class="danger">End all other sessions</button>`,
  );
  const body = html`${doneMessage(request, doneMessages)}
<p>If you do not recognize a session, end it and change your <a href="/console/password">password</a>.</p>
${table('Your sessions', ['Signed in', 'IP address', 'Browser', 'Action'], rows)}
${sessions.length > 1 ? others : null}`;
  return consolePage(request, 200, 'Sessions', body);
};

export const endOneSession: Show = async (parts, request) => {
  const { companyId, userId } = requireSessionIds(request.person.caller);
  const { id = '' } = request.path;
  await act(parts, toLiveMode(request), [], async ({ now, db: { sql, record } }) => {
    if (!(await endUserSession(sql, companyId, userId, id, now))) throw notFound();
    record({ action: 'session.end', object: 'sessions', recordId: id });
  });
  return { redirect: buildAddress('/console/sessions', request.testMode, { done: 'ended' }) };
};

export const endOtherSessions: Show = async (parts, request) => {
  const { companyId, userId, sessionId } = requireSessionIds(request.person.caller);
  await act(parts, toLiveMode(request), [], async ({ now, db: { sql, record } }) => {
    await endUserSessions(sql, companyId, userId, now, sessionId);
    record({ action: 'session.end_others', object: 'users', recordId: userId });
  });
  return { redirect: buildAddress('/console/sessions', request.testMode, { done: 'others' }) };
};

function requireSessionIds({
  companyId,
  userId,
  sessionId,
}: {
  companyId: string;
  userId: string | null;
  sessionId: string | null;
}) {
  if (userId === null || sessionId === null) throw new Error('a console request has a session');
  return { companyId, userId, sessionId };
}
