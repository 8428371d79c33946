// The frame of every console page: menu, signed-in person and mode.
import type { Caller } from '../../runtime/caller.ts';
import type { PageAnswer } from '../../runtime/http/page-routes.ts';
import { type Frame, type Html, html, isolateText, page } from '../../runtime/pages/html.ts';
import { getTimeZone } from '../../runtime/pages/time-zone.ts';
import { logoImage, toBrand } from './brand.ts';
import { fillLabels } from './field-labels.ts';
import { buildAddress, buildHomeAddress, type PersonalRequest } from './requests.ts';
import { consoleScript } from './script.ts';
import { consoleStyle } from './style.ts';

/** Groups of the menu, in their order. The first has no heading. */
const groups = ['', 'Review', 'Developers', 'Workspace', 'Your account'] as const;

/** An entry of the menu. */
export interface Place {
  path: string;
  name: string;
  group: (typeof groups)[number];
  /** Scopes of which the person needs at least one. Absent: no scope is needed. */
  scopes?: readonly string[];
  role?: string;
  /** True if the page has content only for people who see the whole workspace with these scopes. */
  isOfWholeWorkspace?: true;
  /** An additional path prefix of pages that belong to this entry. */
  further?: string;
  /** True if live and test mode show different content. */
  hasModes?: true;
}

const home = '/console';

/** The scopes of the built-in objects. Custom objects are on the same page. */
export const viewScopes = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities'].map(
  (module) => `${module}:view`,
);

const places: readonly Place[] = [
  { path: home, name: 'Home', group: '', hasModes: true },
  { path: '/console/records', name: 'Records', group: '', hasModes: true, scopes: viewScopes },
  {
    path: '/console/messages',
    name: 'Messages',
    group: 'Review',
    hasModes: true,
    scopes: ['inbox:create'],
    further: '/console/campaigns/',
  },
  {
    path: '/console/change-sets',
    name: 'Change sets',
    group: 'Review',
    hasModes: true,
    scopes: ['change_sets:view'],
    isOfWholeWorkspace: true,
  },
  { path: '/console/imports', name: 'Imports', group: 'Review', hasModes: true, scopes: ['imports:view'] },
  {
    path: '/console/api-keys',
    name: 'API keys',
    group: 'Developers',
    role: 'Company_Admin',
  },
  {
    path: '/console/apps',
    name: 'Apps',
    group: 'Developers',
    role: 'Company_Admin',
  },
  {
    path: '/console/webhooks',
    name: 'Webhooks',
    group: 'Developers',
    hasModes: true,
    scopes: ['webhooks:view', 'settings:view'],
  },
  {
    path: '/console/requests',
    name: 'Requests',
    group: 'Developers',
    hasModes: true,
    scopes: ['settings:view'],
  },
  { path: '/console/workspace', name: 'Name and logo', group: 'Workspace', scopes: ['settings:view'] },
  { path: '/console/people', name: 'People', group: 'Workspace', scopes: ['users:view'] },
  { path: '/console/organization', name: 'Organization', group: 'Workspace', scopes: ['users:view'] },
  {
    path: '/console/plan',
    name: 'Plan',
    group: 'Workspace',
    hasModes: true,
    scopes: ['billing:view'],
  },
  {
    path: '/console/audit-log',
    name: 'Audit log',
    group: 'Workspace',
    hasModes: true,
    scopes: ['settings:view'],
  },
  { path: '/console/notifications', name: 'Notifications', group: 'Your account' },
  { path: '/console/sessions', name: 'Sessions', group: 'Your account' },
  { path: '/console/password', name: 'Password', group: 'Your account' },
];

/** Returns the entries that the caller can open. */
export const listPlaces = (caller: Caller): Place[] =>
  places.filter(
    ({ scopes, role, isOfWholeWorkspace }) =>
      (scopes === undefined || scopes.some((scope) => caller.grants.allows(scope))) &&
      (role === undefined || caller.scopes.includes(role)) &&
      (!isOfWholeWorkspace || canSeeWholeWorkspace(caller, scopes)),
  );

/** Returns true if a person sees all records for scopes, not only those of a branch, a team or their own. */
export const canSeeWholeWorkspace = ({ computeReach, reach }: Caller, scopes: readonly string[] = []): boolean =>
  (computeReach?.(scopes) ?? reach).kind === 'company';

/** Builds a page with the menu, the signed-in person, the mode and the sign-out button. */
export function consolePage(
  request: Pick<PersonalRequest, 'person' | 'testMode' | 'address'>,
  status: number,
  title: string | Html,
  body: Html,
): PageAnswer {
  const zone = body.text.includes('<time ') ? html`<p class="note">Times are in ${getTimeZone()}.</p>` : null;
  return {
    status,
    html: page(title, html`${fillLabels(body)}${zone}`, buildFrame(request)),
    hasScripts: true,
    ...(request.person.logo ? { hasImages: true as const } : {}),
  };
}

function buildFrame({ person, testMode, address }: Pick<PersonalRequest, 'person' | 'testMode' | 'address'>): Frame {
  const { caller, formToken } = person;
  const asked = (address.split('?')[0] ?? '').replace(/\/$/, '');
  const open = caller.mustChangePassword ? [] : listPlaces(caller);
  const here = open.find(({ path, further = `${path}/` }) =>
    // Every path starts with that of Home.
    path === home ? asked === home : `${asked}/`.startsWith(`${path}/`) || asked.startsWith(further),
  );
  const link = (path: string, isTest: boolean): string =>
    path === home ? buildHomeAddress(isTest) : buildAddress(path, isTest);
  const item = ({ path, name }: Place): Html => {
    const current = path === asked ? 'page' : path === here?.path ? 'true' : 'false';
    return html`<li><a href="${link(path, testMode)}" aria-current="${current}">${name}</a></li>`;
  };
  const section = (group: Place['group']): Html | null => {
    const listed = open.filter((place) => place.group === group);
    if (listed.length === 0) return null;
    return html`${group === '' ? null : html`<h2>${group}</h2>`}<ul>${listed.map(item)}</ul>`;
  };
  const other = here?.hasModes
    ? html` <a href="${link(here.path, !testMode)}">Switch to ${testMode ? 'live' : 'test'} mode</a>`
    : null;
  const before = html`<a class="skip" href="#content">Skip to content</a>
<header>
<p class="brand"><a href="${buildHomeAddress(testMode)}">${logoImage(toBrand(person))}CRM console</a></p>
<p class="who">${isolateText(caller.actor.name ?? '')}, ${isolateText(caller.companyName)}</p>
<p class="mode"><strong class="badge ${testMode ? 'warning' : 'good'}">${testMode ? 'Test' : 'Live'} mode</strong>${other}</p>
<form method="post" action="/console/sign-out">
<input type="hidden" name="token" value="${formToken}">
<button class="quiet">Sign out</button>
</form>
</header>
${open.length === 0 ? null : html`<nav class="menu" aria-label="Console">${groups.map(section)}</nav>`}`;
  return { before, assets: { style: consoleStyle.address, script: consoleScript.address } };
}
