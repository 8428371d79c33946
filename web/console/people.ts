// People of the workspace: invite them, change their role, and take their access away.
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import {
  badge,
  doneMessage,
  emptyState,
  factList,
  formatTime,
  nextPageLink,
  table,
  tabs,
} from '../pages/components.ts';
import { checkbox, errorSummary, field, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import {
  ask,
  buildAddress,
  type ConsoleParts,
  type Data,
  type PersonalRequest,
  type Show,
  toLiveMode,
} from '../pages/requests.ts';
import { formKey, makeOnce, showOnce } from '../pages/shown-once.ts';
import { readPlaces, toPlace } from './organization.ts';

type User = Data<'getUser'>['user'];

const home = '/console/people';
const statuses = { active: 'Active', inactive: 'Inactive' };
const doneMessages = {
  role: 'The role is changed. It applies from the next request of this person.',
  inactive: 'This person can no longer sign in. Their sessions are ended, and their seat is free.',
  active: 'This person can sign in again.',
  place: 'The person is moved. Who sees which records changes with the next request.',
};

const mayChange = ({ person }: PersonalRequest): boolean => person.caller.grants.allows('users:configure');

export const showPeople: Show = async (parts, request) => {
  const { query, testMode } = request;
  const [status, q, cursor] = [
    query.get('status') ?? 'active',
    query.get('q')?.trim() ?? '',
    query.get('cursor') ?? '',
  ];
  const { users, next_cursor: next } = await ask(parts, toLiveMode(request), 'listUsers', {
    query: { status, q, cursor, limit: '50' },
  });
  const rows = users.map((user) => [
    html`<a href="${buildAddress(`${home}/${user.id}`, testMode)}">${isolateText(user.full_name)}</a>`,
    isolateText(user.email),
    nameRoles(user),
    formatTime(user.last_sign_in_at, 'never'),
  ]);
  const body = html`${doneMessage(request, doneMessages)}
${mayChange(request) ? html`<p><a class="button" href="${buildAddress(`${home}/new`, testMode)}">Invite a person</a></p>` : null}
${tabs(request, { path: home, parameter: 'status', shown: statuses, current: status })}
<form method="get" action="${home}" class="inline">
${testMode ? html`<input type="hidden" name="mode" value="test">` : null}
<input type="hidden" name="status" value="${status}">
${field('q', 'Name or email address', { form: query })}
<button class="quiet">Search</button>
</form>
${rows.length === 0 ? emptyState('No matching people.') : table('People', ['Name', 'Email', 'Role', 'Last sign-in'], rows)}
${nextPageLink(buildAddress(home, testMode, { status, q, cursor: next ?? '' }), next, 'More')}`;
  return consolePage(request, 200, 'People', body);
};

/** Roles are stored with underscores: Sales_Rep. */
const formatRole = (name: string): string => name.replaceAll('_', ' ');
const nameRoles = ({ roles }: User): string =>
  roles.length === 0 ? 'no role' : roles.map(({ name }) => formatRole(name)).join(', ');

/** Returns the roles that can be given, by name. Empty if the person may not see the roles. */
async function readRoles(parts: ConsoleParts, request: PersonalRequest): Promise<Record<string, string>> {
  if (!request.person.caller.grants.allows('access_control:view')) return {};
  const { roles } = await ask(parts, toLiveMode(request), 'listRoles');
  const given = roles.filter((role) => role.is_system && role.has_permissions && role.name !== 'Super_Admin');
  return Object.fromEntries(given.map(({ name }) => [name, formatRole(name)]));
}

/** @param value the current role. No role is selected at first if this one cannot be given. */
function roleField(roles: Record<string, string>, typed: Typed, value: string, hint = ''): Html {
  const more = hint === '' ? {} : { hint };
  if (Object.keys(roles).length === 0)
    return field('role', 'Role', typed, { value, required: true, hint: hint || 'For example Sales_Rep.' });
  const choices = Object.hasOwn(roles, value) ? roles : { '': 'Choose a role', ...roles };
  return field('role', 'Role', typed, {
    choices,
    value: Object.hasOwn(roles, value) ? value : '',
    required: true,
    ...more,
  });
}

export const newPerson: Show = (parts, request) => newPersonPage(parts, request, 200);

async function newPersonPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const roles = await readRoles(parts, request);
  const mail = parts.mailIsSent
    ? checkbox('send_welcome', 'Send an email that says that they were invited', typed, true)
    : null;
  const fields = html`${formKey()}
${field('full_name', 'Name', typed, { required: true, maxlength: 200 })}
${field('email', 'Email', typed, { type: 'email', required: true, hint: 'They sign in with it. It cannot be changed later.' })}
${roleField(roles, typed, 'Sales_Rep')}
${mail}
<p class="note">You get a password for them, which they change when they first sign in. An active person takes one seat.</p>
<button>Invite</button>`;
  return consolePage(
    request,
    status,
    'Invite a person',
    html`${errorSummary(typed)}${form(request, `${home}/new`, fields)}`,
  );
}

export const invitePerson: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const body = {
    full_name: given.get('full_name') ?? '',
    email: given.get('email') ?? '',
    role: given.get('role') ?? '',
    send_welcome: given.has('send_welcome'),
  };
  return submitOrShowAgain(
    () =>
      makeOnce(parts, request, secrets, async () => {
        const data = await ask(parts, toLiveMode(request), 'createUser', { body });
        return { id: data.user.id, secret: data.temp_password ?? '' };
      }),
    (refused) => newPersonPage(parts, request, refused.status, { form: given, refused }),
  );
};

const secrets = `${home}/password`;

/** The only page that shows the password of a new person. */
export const showNewPersonPassword = showOnce(async (parts, request, { id, secret }) => {
  const { user } = await ask(parts, toLiveMode(request), 'getUser', { path: { id } });
  const body = html`<p role="status">${isolateText(user.full_name)} can sign in now. Give them this password. It is shown only once, and they choose their own when they first sign in.</p>
<p><code class="secret" tabindex="0">${secret}</code></p>
${factList({ Email: isolateText(user.email), Role: nameRoles(user), 'Sign in at': html`<code>/console</code>` })}
<p><a href="${buildAddress(home, request.testMode)}">Back to people</a></p>`;
  return consolePage(request, 200, 'Person invited', body);
}, passwordGone);

function passwordGone(request: PersonalRequest, id: string | null): PageResponse {
  const where =
    id === null
      ? html`See the <a href="${buildAddress(home, request.testMode)}">list of people</a> for those who were invited.`
      : html`If they do not have it, they can use <a href="/console/forgotten-password">Forgotten password</a>.`;
  const body = html`<p role="alert">A password is shown only once, right after it is created. ${where}</p>`;
  return consolePage(request, 410, 'The password is no longer shown', body);
}

export const showPerson: Show = (parts, request) => personPage(parts, request, 200);

async function personPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { id = '' } = request.path;
  const { user } = await ask(parts, toLiveMode(request), 'getUser', { path: { id } });
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${factList({
  Email: isolateText(user.email),
  Status: badge(statuses[user.status], user.status === 'active' ? 'good' : 'quiet'),
  Role: nameRoles(user),
  Branch: user.branch === null ? null : isolateText(user.branch.name),
  Team: user.team === null ? null : isolateText(user.team.name),
  'Last sign-in': formatTime(user.last_sign_in_at, 'never'),
  Invited: formatTime(user.created_at),
})}
${mayChange(request) ? await changeForms(parts, request, user, typed) : null}
<p><a href="${buildAddress('/console/audit-log', request.testMode, { actor_id: user.id })}">Audit log of this person</a></p>
<p><a href="${buildAddress(home, request.testMode)}">Back to people</a></p>`;
  return consolePage(request, status, isolateText(user.full_name), body);
}

async function changeForms(parts: ConsoleParts, request: PersonalRequest, user: User, typed: Typed): Promise<Html> {
  const change = `${home}/${user.id}`;
  const several = user.roles.length > 1 ? 'The chosen role replaces all roles of this person.' : '';
  const role = html`<h2>Role</h2>
${form(request, change, html`${roleField(await readRoles(parts, request), typed, user.roles[0]?.name ?? '', several)}<button>Save</button>`)}`;
  const access =
    user.status === 'active'
      ? html`<h2>Access</h2>
<p>Without access, this person cannot sign in. Their sessions end immediately, and their seat becomes free. Records stay assigned to them. You can restore the access.</p>
${form(request, change, html`<input type="hidden" name="status" value="inactive"><button class="danger">Remove access</button>`)}`
      : html`<h2>Access</h2>
<p>This person cannot sign in. With access, they take a seat again.</p>
${form(request, change, html`<input type="hidden" name="status" value="active"><button>Restore access</button>`)}`;
  return html`${role}${await placeForm(parts, request, user, typed)}${access}`;
}

async function placeForm(parts: ConsoleParts, request: PersonalRequest, user: User, typed: Typed): Promise<Html> {
  const places = await readPlaces(parts, request);
  const current = user.team ? `team ${user.team.id}` : user.branch ? `branch ${user.branch.id}` : '';
  const choices = Object.hasOwn(places, current) ? places : { '': 'Choose a branch or team', ...places };
  return html`<h2>Branch and team</h2>
${form(
  request,
  `${home}/${user.id}`,
  html`${field('place', 'Branch or team', typed, { choices, value: current, required: true })}<button>Move</button>`,
)}`;
}

export const changePerson: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '' } = request.path;
  const [status, place] = [given.get('status'), given.get('place')];
  return submitOrShowAgain(
    async () => {
      const change = place === null ? { role: given.get('role') ?? '' } : toPlace(place);
      const body = status === null ? change : { status };
      await ask(parts, toLiveMode(request), 'updateUser', { path: { id }, body });
      return {
        redirect: buildAddress(`${home}/${id}`, request.testMode, {
          done: status ?? (place === null ? 'role' : 'place'),
        }),
      };
    },
    (refused) => personPage(parts, request, refused.status, { form: given, refused }),
  );
};
