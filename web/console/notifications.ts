// Notifications of the signed-in person: a list, and forms that mark them as read.
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { badge, doneMessage, emptyState, formatTime, nextPageLink, table, tabs } from '../pages/components.ts';
import { form } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type Data, type PersonalRequest, type Show, toLiveMode } from '../pages/requests.ts';

type Notification = Data<'listNotifications'>['notifications'][number];

const home = '/console/notifications';
const choices = { unread: 'Unread', all: 'All' };
const doneMessages = { read: 'Marked as read.' };

/** Live mode only: nothing in test mode notifies people. */
export const showNotifications: Show = async (parts, request) => {
  const { query } = request;
  const [show, cursor] = [query.get('show') ?? 'unread', query.get('cursor') ?? ''];
  const {
    notifications,
    unread_count: unread,
    next_cursor: next,
  } = await ask(parts, toLiveMode(request), 'listNotifications', {
    query: { unread: show === 'all' ? '' : 'true', cursor, limit: '50' },
  });
  const rows = notifications.map((each) => [
    linkSubject(each),
    formatTime(each.created_at),
    each.read_at === null
      ? form(
          request,
          `${home}/read`,
          html`<input type="hidden" name="id" value="${each.id}"><button class="quiet">Mark as read</button>`,
          'line',
        )
      : badge('Read', 'quiet'),
  ]);
  const body = html`${doneMessage(request, doneMessages)}
${tabs(request, { path: home, parameter: 'show', shown: choices, current: show })}
${rows.length === 0 ? emptyState('No notifications.') : table('Notifications', ['Notification', 'Time', 'Action'], rows)}
${unread === 0 ? null : form(request, `${home}/read`, html`<button>Mark all as read</button>`)}
${nextPageLink(buildAddress(home, request.testMode, { show, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Notifications', body);
};

/** Links to the page of what the notification is about, if the console has one. */
function linkSubject({ kind, title, subject_id: subject }: Notification): Html {
  const pages: Partial<Record<Notification['kind'], string>> = {
    import_finished: '/console/imports',
    webhook_failing: '/console/webhooks',
    key_expiring: '/console/api-keys',
  };
  const page = pages[kind];
  const text = isolateText(title);
  return page === undefined || subject === null ? text : html`<a href="${page}/${subject}">${text}</a>`;
}

export const readNotifications: Show = async (parts, request: PersonalRequest) => {
  const id = (request.form as URLSearchParams).get('id');
  await ask(parts, toLiveMode(request), 'markNotifications', { body: id === null ? { all: true } : { ids: [id] } });
  return { redirect: buildAddress(home, request.testMode, { done: 'read' }) };
};
