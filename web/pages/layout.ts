// The frame of every console page: menu, signed-in person and mode.
import type { Caller } from '../../runtime/caller.ts';
import type { PageAnswer } from '../../runtime/http/page-routes.ts';
import { type Frame, type Html, html, isolateText, page } from '../../runtime/pages/html.ts';
import { colors } from '../../runtime/pages/theme.ts';
import { buildAddress, buildHomeAddress, type PersonalRequest } from './requests.ts';
import { script } from './script.ts';

/** An entry of the menu and the overview. */
export interface Place {
  path: string;
  name: string;
  /** The description on the overview. */
  about: string;
  /** Scopes of which the person needs at least one. Absent: no scope is needed. */
  scopes?: readonly string[];
  role?: string;
  /** An additional path prefix of pages that belong to this entry. */
  further?: string;
  /** True if live and test mode show different content. */
  hasModes?: true;
}

const overview = '/console';

const places: readonly Place[] = [
  { path: overview, name: 'Overview', about: '', hasModes: true },
  {
    path: '/console/messages',
    name: 'Messages',
    hasModes: true,
    scopes: ['inbox:create'],
    further: '/console/campaigns/',
    about: 'Approve or reject messages before they are sent.',
  },
  {
    path: '/console/change-sets',
    name: 'Change sets',
    hasModes: true,
    scopes: ['change_sets:view'],
    about: 'Approve or reject changes that API keys and apps propose.',
  },
  {
    path: '/console/api-keys',
    name: 'API keys',
    role: 'Company_Admin',
    about: 'Create, rotate and revoke API keys.',
  },
  {
    path: '/console/apps',
    name: 'Apps',
    role: 'Company_Admin',
    about: 'See which apps and agents have access, and revoke it.',
  },
  {
    path: '/console/webhooks',
    name: 'Webhooks',
    hasModes: true,
    scopes: ['webhooks:view', 'settings:view'],
    about: 'Manage webhook endpoints, and inspect and replay their deliveries.',
  },
  {
    path: '/console/plan',
    name: 'Plan',
    hasModes: true,
    scopes: ['billing:view'],
    about: 'See and change the plan, seats and modules. See usage and invoices.',
  },
  {
    path: '/console/audit-log',
    name: 'Audit log',
    hasModes: true,
    scopes: ['settings:view'],
    about: 'See who did what and when, or everything that one request did.',
  },
  { path: '/console/sessions', name: 'Sessions', about: 'See where you are signed in, and end sessions.' },
  { path: '/console/password', name: 'Password', about: 'Change your password.' },
];

/** Returns the entries that the caller can open. */
export const listPlaces = ({ grants, scopes: roles }: Caller): Place[] =>
  places.filter(
    ({ scopes, role }) =>
      (scopes === undefined || scopes.some((scope) => grants.allows(scope))) &&
      (role === undefined || roles.includes(role)),
  );

/** Builds a page with the menu, the signed-in person, the mode and the sign-out button. */
export function consolePage(
  request: Pick<PersonalRequest, 'person' | 'testMode' | 'address'>,
  status: number,
  title: string | Html,
  body: Html,
): PageAnswer {
  return { status, html: page(title, body, buildFrame(request)), script };
}

function buildFrame({ person, testMode, address }: Pick<PersonalRequest, 'person' | 'testMode' | 'address'>): Frame {
  const { caller, formToken } = person;
  const asked = (address.split('?')[0] ?? '').replace(/\/$/, '');
  const open = caller.mustChangePassword ? [] : listPlaces(caller);
  const here = open.find(({ path, further = `${path}/` }) =>
    // Every path starts with that of the overview.
    path === overview ? asked === overview : `${asked}/`.startsWith(`${path}/`) || asked.startsWith(further),
  );
  const link = (path: string, isTest: boolean): string =>
    path === overview ? buildHomeAddress(isTest) : buildAddress(path, isTest);
  const item = ({ path, name }: Place): Html => {
    const current = path === asked ? 'page' : path === here?.path ? 'true' : 'false';
    return html`<li><a href="${link(path, testMode)}" aria-current="${current}">${name}</a></li>`;
  };
  const other = here?.hasModes
    ? html` <a href="${link(here.path, !testMode)}">Switch to ${testMode ? 'live' : 'test'} mode</a>`
    : null;
  const before = html`<a class="skip" href="#content">Skip to content</a>
<header>
<p class="brand"><a href="${buildHomeAddress(testMode)}">CRM console</a></p>
<p class="who">${isolateText(caller.actor.name ?? '')}, ${isolateText(caller.companyName)}</p>
<p class="mode"><strong class="${testMode ? 'test' : 'live'}">${testMode ? 'Test' : 'Live'} mode</strong>${other}</p>
<form method="post" action="/console/sign-out">
<input type="hidden" name="token" value="${formToken}">
<button class="quiet">Sign out</button>
</form>
</header>
${open.length === 0 ? null : html`<nav aria-label="Console"><ul>${open.map(item)}</ul></nav>`}`;
  return { before, style, script };
}

const { text, link, ground, line, quiet, warning } = colors;

const style = `
body { max-width: none; margin: 0; padding: 0 }
.skip { position: absolute; left: -100vw }
.skip:focus { left: 1rem; top: .5rem; background: #fff; padding: .5rem 1rem; z-index: 1 }
header { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1.5rem; padding: .5rem 1rem; border-bottom: 1px solid ${line} }
header p { margin: 0 }
header form { margin: 0 }
header button { margin: 0; padding: .25rem .75rem; min-height: 2rem }
.brand a { color: ${text}; font-weight: 650; text-decoration: none; display: inline-block; padding: .25rem 0 }
.who { color: ${quiet}; margin-left: auto }
.mode strong { padding: .1rem .5rem; border-radius: .25rem; border: 1px solid ${line} }
.mode .test { background: #fef3c7; color: #78350f; border-color: #b45309 }
nav { background: ${ground}; border-bottom: 1px solid ${line}; padding: .5rem }
nav ul { list-style: none; display: flex; flex-wrap: wrap; margin: 0; padding: 0 }
nav a { display: block; padding: .35rem .6rem; border-radius: .25rem; color: ${text}; text-decoration: none }
nav a:hover { text-decoration: underline }
nav [aria-current=page], nav [aria-current=true] { background: #dbeafe; color: ${link}; font-weight: 600 }
main { max-width: 60rem; padding: 1.5rem 1rem 4rem }
main:focus { outline: none }
form.inline { display: flex; flex-wrap: wrap; align-items: end; gap: 0 1rem; margin-bottom: 1rem; max-width: 44rem }
form.inline > div { flex: 1 1 12rem }
form.filter { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: 0 1rem; max-width: 44rem }
form.filter button { justify-self: start; align-self: end }
form.line { display: inline-block }
form.line button { margin: 0 .5rem .5rem 0; padding: .25rem .75rem; min-height: 2rem }
main > form:not(.inline):not(.line), main > section > form:not(.inline):not(.line) { max-width: 36rem }
.secret { user-select: all; display: block; padding: .75rem; background: ${ground}; border: 1px solid ${line}; border-radius: .25rem; font-size: 1rem }
.facts { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .25rem 1.5rem }
.facts dd { margin: 0; min-width: 0 }
.cards { list-style: none; padding: 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(16rem, 100%), 1fr)); gap: 1rem }
.cards li { border: 1px solid ${line}; border-radius: .5rem; padding: 1rem }
.cards a { font-weight: 600 }
.cards p { margin: .25rem 0 0 }
@media (min-width: 45.01rem) { td time, td summary, td .id, td > code { white-space: nowrap } }
article { border: 1px solid ${line}; border-radius: .5rem; padding: 1rem; margin: 0 0 1rem; max-width: 40rem }
summary { cursor: pointer; padding: .25rem 0 }
.tabs { list-style: none; display: flex; flex-wrap: wrap; gap: 0 .25rem; margin: 0 0 1rem; padding: 0; border-bottom: 1px solid ${line} }
.tabs a { display: block; padding: .35rem .75rem; text-decoration: none; border-bottom: 3px solid transparent }
.tabs a:hover { text-decoration: underline }
.tabs [aria-current] { color: ${text}; font-weight: 600; border-color: ${link} }
.waiting { border-left: 4px solid ${warning}; padding: .5rem 1rem; background: ${ground} }
article.change { max-width: none }
.change h3 { margin: 0 0 .5rem }
.change h3, .facts dd { overflow-wrap: anywhere }
.change td { overflow-wrap: anywhere }
.change ul { margin: 0; padding-left: 1.25rem }
.change ul ul { list-style: none; padding: 0 }
.change table { table-layout: fixed; margin-bottom: .5rem }
.text { white-space: pre-wrap }
.none { color: ${quiet}; font-style: italic }
@media (min-width: 60rem) {
  body { display: grid; grid-template: auto 1fr / 14rem 1fr; min-height: 100vh }
  header { grid-column: 1 / 3; padding: .5rem 1.5rem }
  nav { border-bottom: 0; border-right: 1px solid ${line}; padding: 1rem .75rem }
  nav ul { flex-direction: column }
  main { padding: 1.5rem 2rem 4rem; min-width: 0; grid-column: 2 }
}
@media (max-width: 45rem) {
  .facts { display: block }
  .facts dd { margin-bottom: .5rem }
  table, tbody, tr, td { display: block }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  tr { border: 1px solid ${line}; border-radius: .5rem; padding: .5rem .75rem; margin-bottom: .75rem }
  td { border: 0; padding: .15rem 0 }
  td[data-label]::before { content: attr(data-label) ": "; font-weight: 600 }
  td:empty { display: none }
  .change tr { border: 0; border-top: 1px solid ${line}; border-radius: 0; padding: .35rem 0; margin: 0 }
}`;
