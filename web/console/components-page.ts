// Every component of console pages in both themes, for people who develop the console.
import { ApiError } from '../../runtime/errors.ts';
import { createAsset } from '../../runtime/pages/assets.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { themeClasses } from '../../runtime/pages/theme.ts';
import { changesTable } from '../pages/changes.ts';
import {
  badge,
  changing,
  dayChart,
  doneMessage,
  emptyState,
  factList,
  formatTime,
  nextPageLink,
  table,
  tabs,
} from '../pages/components.ts';
import { checkbox, errorSummary, field, form } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import type { PersonalRequest, Show } from '../pages/requests.ts';

const here = '/console/_components';

/** The style sheet of this page alone. */
export const bothThemes = createAsset(
  '/assets/themes.css',
  'text/css; charset=utf-8',
  `${themeClasses}\n.theme-light, .theme-dark { padding: 1rem; margin-bottom: 2rem; border: 1px solid var(--line) }\n`,
);

/** Only in development, whose address is the only one with http. */
export const showComponents: Show = async ({ baseUrl }, request) => {
  if (!baseUrl().startsWith('http:')) throw new ApiError('NOT_FOUND', 'This page exists only in development.');
  const body = html`<link rel="stylesheet" href="${bothThemes.address}">
<div class="theme-light"><h2>Light theme</h2>${renderAll(request, 'light')}</div>
<div class="theme-dark"><h2>Dark theme</h2>${renderAll(request, 'dark')}</div>`;
  return consolePage(request, 200, 'Components', body);
};

/** @param theme makes ids unique */
function renderAll(request: PersonalRequest, theme: string): Html {
  const problems = [
    { field: `${theme}-email`, code: 'INVALID_FORMAT', message: `${theme}-email must be an email address.` },
  ];
  const refused = new ApiError('VALIDATION_ERROR', 'Invalid.', { fields: problems });
  const days = Array.from({ length: 30 }, (_, index) => ({
    day: `2026-11-${String(index + 1).padStart(2, '0')}`,
    value: (index * 7) % 23,
  }));
  const part = (name: string, shown: Html | null): Html => html`<h3>${name}</h3>${shown}`;
  const time = '2026-11-29T08:30:00.000Z';
  return html`
${part('Messages', html`${doneMessage({ query: new URLSearchParams({ done: 'saved' }) }, { saved: 'The changes are saved.' })}${errorSummary({ refused })}`)}
${part(
  'Badges',
  html`<p>${badge('Completed', 'good')} ${badge('Failed', 'bad')} ${badge('Waiting', 'warning')} ${badge('Cancelled')} ${changing('Running')}</p>`,
)}
${part('Tabs', tabs(request, { path: here, parameter: 'status', shown: { '': 'All', open: 'Open', done: 'Done' }, current: '' }))}
${part(
  'Table and further pages',
  html`${table(
    'People',
    ['Name', 'Role', 'Last seen'],
    [
      [isolateText('Ada Lovelace'), 'Administrator', formatTime(time)],
      [isolateText('عمر'), 'Viewer', formatTime(null, 'never')],
    ],
  )}${nextPageLink(here, 'next')}`,
)}
${part('Empty state', emptyState('No people.'))}
${part('Facts', factList({ Status: badge('Active', 'good'), Created: formatTime(time), Key: html`<code>svc_live_…1a2b</code>` }))}
${part('Changes', changesTable('Changes', { city: { from: 'Rome', to: 'Bonn' }, tags: { from: [], to: ['vip', 'solar'] } }))}
${part(
  'Cards',
  html`<ul class="cards"><li><span class="number">12</span><a href="${here}">Messages</a><p>Waiting for approval.</p></li></ul>`,
)}
${part(
  'Charts',
  html`<div class="charts">${dayChart({ id: `${theme}-calls`, title: 'Calls per day', days, none: '' })}
${dayChart({ id: `${theme}-failures`, title: 'Failed calls per day', days, none: '', tone: 'bad' })}
${dayChart({ id: `${theme}-none`, title: 'New records per day', days: [], none: 'No new records.' })}</div>`,
)}
${part('Progress', html`<progress class="progress" max="100" value="40" aria-label="Progress">40 %</progress>`)}
${part('Secret', html`<p><code class="secret" tabindex="0">svc_test_example</code></p>`)}
${part(
  'Form',
  form(
    request,
    here,
    html`${field(`${theme}-name`, 'Name', {}, { hint: 'As people see it.', value: 'Website' })}
${field(`${theme}-email`, 'Email', { refused }, { type: 'email', value: 'nobody' })}
${field(`${theme}-role`, 'Role', {}, { choices: { admin: 'Administrator', viewer: 'Viewer' } })}
${field(`${theme}-notes`, 'Notes', {}, { long: true })}
${field(`${theme}-file`, 'File', {}, { type: 'file' })}
${checkbox(`${theme}-mail`, 'Send an email', {}, true)}
<button type="button">Save</button> <button type="button" class="quiet">Preview</button> <button type="button" class="danger">Delete</button>`,
  ),
)}`;
}
