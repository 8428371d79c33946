// Imports: their progress, the rows that failed, and how to undo what they wrote.
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import {
  badge,
  changing,
  doneMessage,
  emptyState,
  factList,
  formatNumber,
  formatTime,
  nextPageLink,
  type Tone,
  table,
  tabs,
} from '../pages/components.ts';
import { errorSummary, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type Data, type PersonalRequest, type Show } from '../pages/requests.ts';

type Import = Data<'getImport'>['import'];

const home = '/console/imports';
/** The guide that shows how to send a file. */
const guide = '/docs/guides/bulk-data';
const statuses = { '': 'All', running: 'Running', completed: 'Completed', failed: 'Failed', undone: 'Undone' };
const states: Readonly<Record<Import['status'], readonly [text: string, tone: Tone]>> = {
  awaiting_file: ['Waiting for its file', 'quiet'],
  queued: ['Queued', 'quiet'],
  running: ['Running', 'warning'],
  completed: ['Completed', 'good'],
  failed: ['Failed', 'bad'],
  cancelled: ['Cancelled', 'quiet'],
  undoing: ['Being undone', 'warning'],
  undone: ['Undone', 'quiet'],
};
/** States that end without the person. The page follows them. */
const temporary = new Set<Import['status']>(['queued', 'running', 'undoing']);
const doneMessages = {
  undo: 'The import is being undone. This page shows the progress.',
  cancel: 'The import is cancelled. What it had written stays, and can be undone.',
};

const renderStatus = ({ status }: Import): Html => {
  const [text, tone] = states[status];
  return temporary.has(status) ? html`${changing(text)}` : badge(text, tone);
};

const nameFile = ({ file, object }: Import): Html | string =>
  file.name === null ? `File of ${object}` : isolateText(file.name);

export const showImports: Show = async (parts, request) => {
  const { query, testMode } = request;
  const [status, cursor] = [query.get('status') ?? '', query.get('cursor') ?? ''];
  const { imports, next_cursor: next } = await ask(parts, request, 'listImports', {
    query: { status, cursor, limit: '50' },
  });
  const rows = imports.map((each) => [
    html`<a href="${buildAddress(`${home}/${each.id}`, testMode)}">${nameFile(each)}</a>`,
    html`${each.object}${each.dry_run ? html` ${badge('Dry run')}` : null}`,
    renderStatus(each),
    formatNumber(each.counts.created + each.counts.updated),
    formatNumber(each.counts.failed),
    formatTime(each.created_at),
  ]);
  const body = html`<p>Files are sent over the API or with an SDK: see <a href="${guide}">Bulk data and undo</a>.</p>
${tabs(request, { path: home, parameter: 'status', shown: statuses, current: status })}
${
  rows.length === 0
    ? emptyState('No imports.')
    : table('Imports', ['File', 'Object', 'Status', 'Written', 'Failed', 'Created'], rows)
}
${nextPageLink(buildAddress(home, testMode, { status, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Imports', body);
};

export const showImport: Show = (parts, request) => importPage(parts, request, 200);

/** Failed rows on the page. The file of errors has all of them. */
const shownErrors = 50;

async function importPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const path = { id: request.path.id ?? '' };
  const { import: found } = await ask(parts, request, 'getImport', { path });
  const { errors } =
    found.counts.failed === 0
      ? { errors: [] }
      : await ask(parts, request, 'listImportErrors', { path, query: { limit: `${shownErrors}` } });
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${found.error === null ? null : html`<div role="alert"><p>${found.error.message}</p></div>`}
${renderFacts(found, request)}
${renderErrors(found, errors)}
${decisions(found, request)}
<p><a href="${buildAddress(home, request.testMode)}">Back to imports</a></p>`;
  return consolePage(request, status, html`Import of ${nameFile(found)}`, body);
}

function renderFacts(found: Import, { testMode }: PersonalRequest): Html {
  const { counts, percent } = found;
  const progress =
    temporary.has(found.status) && percent !== null
      ? html`<progress class="progress" max="100" value="${percent}" aria-label="Progress">${percent} %</progress>${percent} %`
      : null;
  return factList({
    Status: renderStatus(found),
    Progress: progress,
    Object: html`<a href="${buildAddress('/console/records', testMode, { object: found.object })}">${found.object}</a>`,
    Mode: found.match_on.length === 0 ? found.mode : `${found.mode}, by ${found.match_on.join(', ')}`,
    'Dry run': found.dry_run ? 'yes: nothing is written' : null,
    Created: formatNumber(counts.created),
    Updated: formatNumber(counts.updated),
    Unchanged: formatNumber(counts.unchanged),
    Failed: formatNumber(counts.failed),
    'Not processed': counts.unprocessed === 0 ? null : formatNumber(counts.unprocessed),
    'Created by': isolateText(found.created_by.name ?? found.created_by.id),
    Started: formatTime(found.started_at),
    Ended: formatTime(found.completed_at),
    'Can be undone until': formatTime(found.undo_until),
  });
}

function renderErrors({ counts, id }: Import, errors: Data<'listImportErrors'>['errors']): Html | null {
  if (errors.length === 0) return null;
  const rows = errors.map(({ line, message, values }) => [
    line,
    message,
    html`<details><summary>Row</summary><pre tabindex="0">${JSON.stringify(values, null, 1)}</pre></details>`,
  ]);
  const more =
    counts.failed > errors.length
      ? html`<p class="note">The first ${errors.length} of ${formatNumber(counts.failed)}.</p>`
      : null;
  return html`<h2>Failed rows</h2>
<p>Get them as a file with <code>GET /v1/imports/${id}/errors.csv</code>, correct it, and import it again.</p>
${table('Failed rows', ['Line', 'Problem', 'Values'], rows)}${more}`;
}

/** The forms that stop the import or take back what it wrote, for people who may import. */
function decisions({ id, status, undo_until: until, counts }: Import, request: PersonalRequest): Html | null {
  if (!request.person.caller.grants.allows('imports:create')) return null;
  if (status === 'queued' || status === 'running')
    return html`<h2>Cancel</h2>
<p>Rows that are already written stay. They can be undone afterwards.</p>
${form(request, `${home}/${id}/cancel`, html`<button class="danger">Cancel the import</button>`)}`;
  if (until === null || Date.parse(until) <= request.now.getTime()) return null;
  const effects = [
    counts.created === 0 ? '' : `${countRecords(counts.created, 'created')} to the trash`,
    counts.updated === 0 ? '' : `${countRecords(counts.updated, 'updated')} back to the former values`,
  ].filter((effect) => effect !== '');
  return html`<h2>Undo</h2>
<p>Puts ${effects.join(', and ')}. Fields that were changed since keep their new values.</p>
${form(request, `${home}/${id}/undo`, html`<button class="danger">Undo the import</button>`)}`;
}

const countRecords = (count: number, what: string): string =>
  `${formatNumber(count)} ${what} ${count === 1 ? 'record' : 'records'}`;

export const decideImport: Show = (parts, request) => {
  const { id = '', action } = request.path;
  return submitOrShowAgain(
    async () => {
      const asked = { path: { id } };
      if (action === 'undo') await ask(parts, request, 'undoImport', { ...asked, body: {} });
      else await ask(parts, request, 'cancelImport', asked);
      return { redirect: buildAddress(`${home}/${id}`, request.testMode, { done: action ?? '' }) };
    },
    (refused) => importPage(parts, request, refused.status, { refused }),
  );
};
