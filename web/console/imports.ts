// Imports: the list, the progress and result of one, its failed rows, and how to undo it.
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
import { askToConfirm, type Question } from '../pages/confirmation.ts';
import { errorSummary, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import {
  ask,
  buildAddress,
  type ConsoleParts,
  type Data,
  download,
  type PersonalRequest,
  type Show,
} from '../pages/requests.ts';
import { renderSetup } from './import-setup.ts';

type Import = Data<'getImport'>['import'];

const home = '/console/imports';
const statuses = {
  '': 'All',
  awaiting_file: 'Not started',
  running: 'Running',
  completed: 'Completed',
  failed: 'Failed',
  undone: 'Undone',
};
const states: Readonly<Record<Import['status'], readonly [text: string, tone: Tone]>> = {
  awaiting_file: ['Not started', 'quiet'],
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
/** States in which an import can be cancelled. */
const open = new Set<Import['status']>(['awaiting_file', 'queued', 'running']);

/** Returns the messages about the last form. What a cancelled import has written decides about its own. */
function listDoneMessages({ status, dry_run: isDryRun, counts }: Import): Record<string, string> {
  const undo = 'The import is being undone. This page shows the progress.';
  if (status !== 'cancelled') return { undo };
  const what = isDryRun ? 'The dry run is cancelled.' : 'The import is cancelled.';
  const hasWritten = !isDryRun && counts.created + counts.updated > 0;
  const cancel = `${what} ${hasWritten ? 'What it had written stays, and can be undone.' : 'Nothing was written.'}`;
  return { undo, cancel, discard: 'Discarded. Nothing was written, and no file is kept.' };
}

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
  const start = mayImport(request)
    ? html`<p><a class="button" href="${buildAddress(`${home}/new`, testMode)}">Import a file</a></p>`
    : null;
  const body = html`${start}
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
  if (found.status === 'awaiting_file' && found.file.bytes > 0 && mayImport(request))
    return renderSetup(parts, request, found, status, typed);
  const { errors } =
    found.counts.failed === 0
      ? { errors: [] }
      : await ask(parts, request, 'listImportErrors', { path, query: { limit: `${shownErrors}` } });
  const body = html`${doneMessage(request, listDoneMessages(found))}${errorSummary(typed)}
${found.error === null ? null : html`<div role="alert"><p>${found.error.message}</p></div>`}
${renderFacts(found, request)}
${nextStep(found, request)}
${renderErrors(found, errors, request)}
${decisions(found, request)}
<p><a href="${buildAddress(home, request.testMode)}">Back to imports</a></p>`;
  const title = html`${found.dry_run ? 'Dry run' : 'Import'} of ${nameFile(found)}`;
  return consolePage(request, status, title, body);
}

function renderFacts(found: Import, { testMode }: PersonalRequest): Html {
  const { counts, percent } = found;
  const isTrial = found.dry_run;
  const progress =
    temporary.has(found.status) && percent !== null
      ? html`<progress class="progress" max="100" value="${percent}" aria-label="Progress">${percent} %</progress>${percent} %. This page follows it. Without JavaScript, <a href="${buildAddress(`${home}/${found.id}`, testMode)}">load it again</a>.`
      : null;
  return factList({
    Status: renderStatus(found),
    Progress: progress,
    Object: html`<a href="${buildAddress('/console/records', testMode, { object: found.object })}">${found.object}</a>`,
    Mode: found.match_on.length === 0 ? found.mode : `${found.mode}, by ${found.match_on.join(', ')}`,
    'Dry run': isTrial ? 'yes: nothing is written' : null,
    [isTrial ? 'Would create' : 'Created']: formatNumber(counts.created),
    [isTrial ? 'Would update' : 'Updated']: formatNumber(counts.updated),
    [isTrial ? 'Would stay unchanged' : 'Unchanged']: formatNumber(counts.unchanged),
    [isTrial ? 'Would fail' : 'Failed']: formatNumber(counts.failed),
    'Not processed': counts.unprocessed === 0 ? null : formatNumber(counts.unprocessed),
    'Created by': isolateText(found.created_by.name ?? found.created_by.id),
    Started: formatTime(found.started_at),
    Ended: formatTime(found.completed_at),
    'Can be undone until': formatTime(found.undo_until),
  });
}

/** The forms that continue after a dry run: the import itself, or other choices. */
function nextStep({ id, dry_run: isDryRun, status, counts, file }: Import, request: PersonalRequest): Html | null {
  if (!isDryRun || !mayImport(request) || !['completed', 'failed', 'cancelled'].includes(status)) return null;
  // The file has moved to the import that followed, or has expired.
  if (file.bytes === 0)
    return html`<p class="note">The file of this dry run was used by an import, or has expired.</p>`;
  const written = counts.created + counts.updated;
  const start =
    status === 'completed' && written > 0
      ? html`<button name="action" value="start">Start the import</button>
`
      : null;
  return html`<h2>Next step</h2>
<p>${counts.failed === 0 ? 'All rows can be imported.' : 'Rows that failed here also fail in the import. You get them as a file.'}</p>
${form(request, `${home}/${id}/repeat`, html`${start}<button name="action" value="change" class="quiet">Change the fields</button>`)}`;
}

function renderErrors(
  { counts, id, status }: Import,
  errors: Data<'listImportErrors'>['errors'],
  { testMode }: PersonalRequest,
): Html | null {
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
${
  temporary.has(status)
    ? null
    : html`<p><a href="${buildAddress(`${home}/${id}/errors.csv`, testMode)}" download>Download the failed rows as CSV</a>, correct them, and import the file again.</p>`
}
${table('Failed rows', ['Line', 'Problem', 'Values'], rows)}${more}`;
}

/** The forms that stop the import or take back what it wrote, for people who may import. */
function decisions(found: Import, request: PersonalRequest): Html | null {
  const { id, status } = found;
  if (!mayImport(request)) return null;
  if (status === 'awaiting_file')
    return html`<h2>Discard</h2>
<p>This import waits for its file, which is sent over the API. Nothing was written.</p>
${form(request, `${home}/${id}/cancel`, html`<button class="danger">Discard the import</button>`)}`;
  if (status === 'queued' || status === 'running')
    return html`<h2>Cancel</h2>
<p>Rows that are already written stay. They can be undone afterwards.</p>
${form(request, `${home}/${id}/cancel`, html`<button class="danger">Cancel the import</button>`)}`;
  if (!isUndoable(found, request)) return null;
  return html`<h2>Undo</h2>
<p>${describeUndo(found)}</p>
<p><a href="${buildAddress(`${home}/${id}/undo`, request.testMode)}">Undo the import</a></p>`;
}

const isUndoable = ({ undo_until: until }: Import, { now }: PersonalRequest): boolean =>
  until !== null && Date.parse(until) > now.getTime();

function describeUndo({ counts }: Import): string {
  const effects = [
    counts.created === 0 ? '' : `${countRecords(counts.created, 'created')} to the trash`,
    counts.updated === 0 ? '' : `${countRecords(counts.updated, 'updated')} back to the former values`,
  ].filter((effect) => effect !== '');
  return `Puts ${effects.join(', and ')}. Fields that were changed since keep their new values.`;
}

const mayImport = ({ person }: PersonalRequest): boolean => person.caller.grants.allows('imports:create');

/** Asks before an import is undone. */
export const showUndo: Show = async (parts, request) => {
  const path = { id: request.path.id ?? '' };
  const { import: found } = await ask(parts, request, 'getImport', { path });
  const here = buildAddress(`${home}/${path.id}`, request.testMode);
  if (!isUndoable(found, request) || !mayImport(request)) return { redirect: here };
  const body = html`<p>${describeUndo(found)}</p>
<p>Deleted records can be restored from the trash for 30 days.</p>
${form(request, `${home}/${path.id}/undo`, html`<button class="danger">Undo the import</button>`)}
<p><a href="${here}">Keep the import</a></p>`;
  return consolePage(request, 200, html`Undo the import of ${nameFile(found)}?`, body);
};

export const downloadErrors: Show = (parts, request) =>
  download(parts, request, 'getImportErrorFile', { path: { id: request.path.id ?? '' } });

const countRecords = (count: number, what: string): string =>
  `${formatNumber(count)} ${what} ${count === 1 ? 'record' : 'records'}`;

/** Undoes an import, after its own page has asked. */
export const undoImport: Show = (parts, request) => {
  const path = { id: request.path.id ?? '' };
  return submitOrShowAgain(
    async () => {
      await ask(parts, request, 'undoImport', { path, body: {} });
      return { redirect: buildAddress(`${home}/${path.id}`, request.testMode, { done: 'undo' }) };
    },
    (refused) => importPage(parts, request, refused.status, { refused }),
  );
};

/** Cancels an import, or discards one that has not started, after the person has confirmed that. */
export const cancelImport: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const path = { id: request.path.id ?? '' };
  return submitOrShowAgain(
    async () => {
      const { import: found } = await ask(parts, request, 'getImport', { path });
      const what = found.status === 'awaiting_file' ? 'discard' : 'cancel';
      // An import that has started since the question is not just a file.
      const isAnswered = given.get('confirmed') === 'yes' && given.get('what') === what;
      if (!isAnswered && open.has(found.status) && mayImport(request))
        return askToConfirm(request, buildCancelQuestion(found), new URLSearchParams({ what }));
      await ask(parts, request, 'cancelImport', { path });
      return { redirect: buildAddress(`${home}/${path.id}`, request.testMode, { done: what }) };
    },
    (refused) => importPage(parts, request, refused.status, { refused }),
  );
};

function buildCancelQuestion({ id, status, file, dry_run: isDryRun }: Import): Question {
  const back = (): string => `${home}/${id}`;
  if (status !== 'awaiting_file') {
    const what = isDryRun ? 'dry run' : 'import';
    const effect = isDryRun
      ? 'A dry run writes nothing.'
      : 'Rows that are already written stay, and can be undone afterwards. The other rows are not imported.';
    return {
      title: `Cancel this ${what}?`,
      text: `${effect} It cannot be continued.`,
      button: `Cancel the ${what}`,
      back,
    };
  }
  return file.bytes > 0
    ? {
        title: 'Discard this file?',
        text: 'The file is deleted, and your choices for its columns with it. Nothing was written. This cannot be undone: to import the file, upload it again.',
        button: 'Discard the file',
        back,
      }
    : {
        title: 'Discard this import?',
        text: 'It waits for its file, and then accepts none. Nothing was written. This cannot be undone.',
        button: 'Discard the import',
        back,
      };
}
