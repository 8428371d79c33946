// New imports: the upload, the choice of a field for each column, the preview, and the start.
import { findImportParts } from '../../db/records/imports.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { layoutBytes, readFileStart } from '../../domain/records/import-layout.ts';
import { type ImportOptions, mapTargets } from '../../domain/records/import-mapping.ts';
import {
  buildPreview,
  type FileSample,
  findMappingProblems,
  getFieldLabel,
  listExamples,
  type MappingProblems,
  readSample,
} from '../../domain/records/import-preview.ts';
import { suggestFields } from '../../domain/records/import-suggestions.ts';
import { findMatchProblems } from '../../domain/records/match.ts';
import { importLimits } from '../../domain/service/request-limits.ts';
import { ApiError, validationFailed } from '../../runtime/errors.ts';
import type { PageFile, PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { changeImportOptions, createFromDryRun, type ImportChoices } from '../../services/records/import-setup.ts';
import { showValue } from '../pages/changes.ts';
import { doneMessage, factList, formatBytes, formatTime, table } from '../pages/components.ts';
import { checkbox, errorSummary, field, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import {
  act,
  ask,
  buildAddress,
  type ConsoleParts,
  type Data,
  type PersonalRequest,
  type Show,
} from '../pages/requests.ts';

type Import = Data<'getImport'>['import'];

const home = '/console/imports';

/** The file of the form. */
export const importUpload = { field: 'file', bytes: importLimits.partBytes, scope: 'imports:create' };

export const showNewImport: Show = (parts, request) => uploadPage(parts, request, 200);

/** @throws ApiError 403 if the person may not import */
const requireScope = (parts: ConsoleParts, request: PersonalRequest): Promise<void> =>
  act(parts, request, ['imports:create'], async ({ authorize }) => authorize('imports:create'));

async function uploadPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  await requireScope(parts, request);
  const { grants } = request.person.caller;
  const { objects } = await parts.loadWorkspace(request.person);
  const choices = Object.fromEntries(
    [...objects.values()]
      .filter(({ object }) => grants.allows(`${object}:create`) || grants.allows(`${object}:edit`))
      .map(({ object, plural }) => [object, plural]),
  );
  const most = `${importUpload.bytes / 1_048_576} MB`;
  const fields = html`${field('object', 'What the rows are', typed, { choices, value: request.query.get('object') ?? '' })}
${field('file', 'File', typed, {
  type: 'file',
  required: true,
  accept: '.csv,.tsv,.txt,.ndjson,.jsonl',
  hint: `CSV with column names in its first line, or NDJSON. At most ${most}.`,
})}
<button>Upload</button>`;
  const body = html`${errorSummary(typed)}
<p>Nothing is written yet. In the next step, you choose a field for each column.</p>
${form(request, buildAddress(`${home}/new`, request.testMode), fields, 'upload')}
<p class="note">Larger files are sent over the API: see <a href="/docs/guides/bulk-data">Bulk data and undo</a>.</p>
<p><a href="${buildAddress(home, request.testMode)}">Back to imports</a></p>`;
  return consolePage(request, status, 'Import a file', body);
}

export const uploadImport: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  return submitOrShowAgain(
    async () => {
      const { file, refused } = request;
      if (refused || !file) throw refused ?? validationFailed([missingFile], 400);
      const format = await readFormat(file);
      const body = { object: given.get('object') ?? '', format };
      const { import: made } = await ask(parts, request, 'createImport', { body });
      const path = { id: made.id };
      await ask(parts, request, 'uploadImportPart', { path, query: { number: '1' }, upload: file });
      return { redirect: buildAddress(`${home}/${made.id}`, request.testMode) };
    },
    (refused) => uploadPage(parts, request, refused.status, { form: given, refused }),
  );
};

const missingFile = { field: 'file', code: 'REQUIRED', message: 'Choose a file.' } as const;

/** @throws ApiError 422 if the file cannot be imported in any way */
async function readFormat(file: PageFile): Promise<ImportOptions['format']> {
  const format = /\.(ndjson|jsonl)$/i.test(file.name) ? 'ndjson' : 'csv';
  const start = readFileStart({ format, encoding: 'auto', delimiter: 'auto' }, await file.readHead(layoutBytes));
  if ('problems' in start) throw validationFailed(start.problems, 422);
  const [first] = readSample(start).rows;
  if (format === 'ndjson' && first?.flaw !== undefined)
    throw validationFailed(
      [{ field: 'file', code: 'INVALID_FORMAT', message: `file is not NDJSON. ${first.flaw}` }],
      422,
    );
  return format;
}

/** Everything that the page of an import before its start shows. */
interface Setup {
  found: Import;
  workspace: Workspace;
  object: WorkspaceObject;
  options: ImportOptions;
  sample: FileSample;
  /** The fields of the columns. */
  fields: (string | null)[];
}

/** Returns the setup of an import whose file was uploaded; or why its file cannot be read. */
async function readSetup(
  parts: ConsoleParts,
  request: PersonalRequest,
  found: Import,
): Promise<Setup | { problem: string }> {
  const { person, testMode } = request;
  const { companyId } = person.caller;
  const workspace = await parts.loadWorkspace(person);
  const object = workspace.objects.get(found.object);
  if (!object) return { problem: `The object ${found.object} does not exist anymore.` };
  const stored = await act(parts, request, ['imports:view'], ({ caller, db: { sql } }) =>
    findImportParts(sql, caller, found.id),
  );
  const places = stored.map(({ fileId }) => ({ companyId, testMode, id: fileId }));
  const options = toOptions(found);
  const start = readFileStart(options, await parts.files.readHead(places, layoutBytes));
  if ('problems' in start) return { problem: start.problems[0]?.message ?? '' };
  const sample = readSample(start);
  const chosen = Object.hasOwn(found.mapping, sample.columns[0] ?? '');
  const fields = chosen
    ? sample.columns.map((column) => found.mapping[column] ?? null)
    : suggestFields(sample.columns, object);
  return { found, workspace, object, options, sample, fields };
}

const toOptions = (found: Import): ImportOptions => ({
  format: found.format,
  mode: found.mode,
  matchOn: found.match_on,
  mapping: found.mapping,
  defaults: found.defaults,
  tags: found.tags,
  checkDuplicates: found.check_duplicates,
  encoding: found.encoding,
  delimiter: found.delimiter,
  maxErrors: found.max_errors,
});

const doneMessages = {
  preview: 'The preview shows your choices.',
  change: 'Choose other fields, and run it again. The file is the same.',
};

const modes: Readonly<Record<ImportOptions['mode'], string>> = {
  create: 'Create a record for each row',
  upsert: 'Update the records that exist, and create the others',
  update: 'Update the records that exist. Other rows fail',
};

/** Shows an import whose file was uploaded, before its start. */
export async function renderSetup(
  parts: ConsoleParts,
  request: PersonalRequest,
  found: Import,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { testMode } = request;
  const title = html`Import of ${isolateText(found.file.name ?? found.object)}`;
  const setup = await readSetup(parts, request, found);
  const discard = form(request, `${home}/${found.id}/cancel`, html`<button class="danger">Discard the file</button>`);
  const back = html`<p><a href="${buildAddress(home, testMode)}">Back to imports</a></p>`;
  if ('problem' in setup)
    return consolePage(request, status, title, html`<p role="alert">${setup.problem}</p>${discard}${back}`);
  const { object, options, workspace, sample } = setup;
  const fields = typed.form ? readFields(typed.form, sample.columns) : setup.fields;
  const shown = typed.form ? { ...options, ...readChoices(typed.form, sample.columns) } : options;
  const problems = findMappingProblems(sample.columns, fields, object, shown);
  const targets = [...new Set(mapTargets(object, ['id']).values())];
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${factList({
  Object: object.plural,
  Size: formatBytes(found.file.bytes),
  Uploaded: formatTime(found.created_at),
})}
${form(
  request,
  `${home}/${found.id}/setup`,
  html`<h2>Columns</h2>
<p>Choose a field for each column. Columns without one are left out.</p>
${problems.all.map((problem) => html`<p class="problem">${problem}</p>`)}
${renderColumns(sample, fields, problems, targets, object)}
<h2>Records</h2>
${field('how', 'How rows become records', typed, { choices: modes, value: shown.mode })}
${field('match', 'Field that identifies a record', typed, {
  choices: listMatchChoices(targets, object),
  value: shown.matchOn[0] ?? '',
  hint: 'Only for updates: the record with the same value is updated.',
})}
${checkbox('check_duplicates', 'Reject new records that are probable duplicates', typed, shown.checkDuplicates)}
<button name="action" value="dry-run">Start a dry run</button>
<button name="action" value="preview" class="quiet">Update the preview</button>
<button name="action" value="import" class="quiet">Import without a dry run</button>
<p class="note">A dry run checks all rows and writes nothing. Its result says how many records would be created and updated, and why rows would fail.</p>`,
  'wide',
)}
${renderPreview(setup, fields, shown, workspace, request.now)}
<h2>Discard</h2>
<p>Nothing was written. The file is deleted.</p>
${discard}${back}`;
  return consolePage(request, status, title, body);
}

const listMatchChoices = (targets: readonly string[], object: WorkspaceObject): Record<string, string> => ({
  '': 'None',
  ...Object.fromEntries(
    targets
      .filter((name) => findMatchProblems(object, [name]).length === 0)
      .map((name) => [name, getFieldLabel(name, object)]),
  ),
});

function renderColumns(
  sample: FileSample,
  fields: readonly (string | null)[],
  problems: MappingProblems,
  targets: readonly string[],
  object: WorkspaceObject,
): Html {
  const examples = listExamples(sample);
  const options = targets.map((name) => [name, getFieldLabel(name, object)] as const);
  const rows = sample.columns.map((column, index) => {
    const problem = problems.columns.get(index);
    const id = `column-${index}`;
    const described = problem === undefined ? null : html` aria-invalid="true" aria-describedby="${id}-problem"`;
    return [
      html`<label for="${id}">${column === '' ? 'Column without a name' : isolateText(column)}</label>`,
      html`${(examples[index] ?? []).map((each) => html`<div class="sample">${isolateText(shorten(each))}</div>`)}`,
      html`<select id="${id}" name="${id}"${described}><option value="">Leave out</option>${options.map(
        ([name, label]) => html`<option value="${name}"${name === fields[index] ? selected : null}>${label}</option>`,
      )}</select>${problem === undefined ? null : html`<p class="problem" id="${id}-problem">${problem}</p>`}`,
    ];
  });
  return table('Columns', ['Column', 'First values', 'Field'], rows);
}

const selected = html` selected`;
/** Characters of a value that are shown. */
const shownLength = 60;
const shorten = (text: string): string => (text.length > shownLength ? `${text.slice(0, shownLength)}…` : text);

function renderPreview(
  { sample, object }: Setup,
  fields: readonly (string | null)[],
  options: ImportOptions,
  workspace: Workspace,
  now: Date,
): Html {
  const chosen = [...new Set(fields.filter((name) => name !== null))];
  const mapping = toMapping(sample.columns, fields);
  const rows = buildPreview(sample, fields, { ...options, mapping }, workspace, object, now);
  const hasProblems = rows.some(({ problems }) => problems.length > 0);
  const cells = rows.map(({ line, values, problems }) => [
    line,
    ...chosen.map((name) => (values[name] === undefined ? null : showValue(shortenValue(values[name])))),
    ...(hasProblems ? [problems.length === 0 ? null : html`<span class="problem">${problems.join(' ')}</span>`] : []),
  ]);
  const columns = ['Line', ...chosen.map((name) => getFieldLabel(name, object)), ...(hasProblems ? ['Problem'] : [])];
  return html`<h2 id="preview">Preview</h2>
<p>The first ${rows.length === 1 ? 'row' : `${rows.length} rows`}, as they would be stored.${hasProblems ? ' Rows with a problem would fail.' : ''}</p>
<div class="scroll" role="region" aria-labelledby="preview" tabindex="0">${table('Preview', columns, cells)}</div>`;
}

const shortenValue = (value: unknown): unknown => (typeof value === 'string' ? shorten(value) : value);

/** Returns the fields of a submitted form; null: left out. */
const readFields = (given: URLSearchParams, columns: readonly string[]): (string | null)[] =>
  columns.map((_, index) => given.get(`column-${index}`) || null);

const toMapping = (columns: readonly string[], fields: readonly (string | null)[]): Record<string, string | null> =>
  Object.fromEntries(columns.map((column, index) => [column, fields[index] ?? null]));

function readChoices(given: URLSearchParams, columns: readonly string[]): ImportChoices {
  const how = given.get('how') ?? '';
  const match = given.get('match') ?? '';
  const mode = Object.hasOwn(modes, how) ? (how as ImportOptions['mode']) : 'create';
  return {
    mode,
    matchOn: match === '' || mode === 'create' ? [] : [match],
    mapping: toMapping(columns, readFields(given, columns)),
    checkDuplicates: given.has('check_duplicates'),
  };
}

/** Saves the choices, and starts the import or its dry run. */
export const changeSetup: Show = async (parts, request) => {
  const given = request.form as URLSearchParams;
  const path = { id: request.path.id ?? '' };
  const action = given.get('action') ?? 'preview';
  const here = (done = ''): PageResponse => ({
    redirect: buildAddress(`${home}/${path.id}`, request.testMode, { done }) + (done === '' ? '' : '#preview'),
  });
  await requireScope(parts, request);
  const { import: found } = await ask(parts, request, 'getImport', { path });
  // A second click, for instance.
  if (found.status !== 'awaiting_file') return here();
  const setup = await readSetup(parts, request, found);
  if ('problem' in setup) return here();
  const { sample, object, workspace } = setup;
  const choices = readChoices(given, sample.columns);
  return submitOrShowAgain(
    async () => {
      if (action !== 'preview') requireMapping(sample, readFields(given, sample.columns), object, choices);
      const isDryRun = action !== 'import';
      await asSetup(parts, request, (call) => changeImportOptions(call, path.id, choices, isDryRun, workspace));
      if (action === 'preview') return here('preview');
      await ask(parts, request, 'startImport', { path });
      return here();
    },
    async (refused) =>
      refused.details?.reason === 'import_started'
        ? here()
        : renderSetup(parts, request, found, refused.status, { form: given, refused: toPageError(refused, sample) }),
  );
};

/** @throws ApiError 422 if rows could not be imported with the mapping */
function requireMapping(
  { columns }: FileSample,
  fields: readonly (string | null)[],
  object: WorkspaceObject,
  choices: ImportChoices,
): void {
  const problems = findMappingProblems(columns, fields, object, choices);
  const named = [...problems.columns].map(([index, message]) => ({
    field: `column-${index}`,
    code: 'CONFLICTING_FIELDS' as const,
    message: `${columns[index]}: ${message}`,
  }));
  const all = problems.all.map((message) => ({ field: 'column-0', code: 'REQUIRED' as const, message }));
  if (named.length + all.length > 0) throw validationFailed([...named, ...all], 422);
}

/** Names the fields of the form instead of the options of the operation. */
function toPageError(refused: ApiError, { columns }: FileSample): ApiError {
  const fields = (refused.details?.fields as { field: string; message: string }[] | undefined)?.map((each) => {
    if (each.field.startsWith('match_on')) return { ...each, field: 'match', message: labelMatch(each.message) };
    const index = columns.findIndex((column) => each.field === `mapping.${column}`);
    return index < 0 ? each : { ...each, field: `column-${index}` };
  });
  if (!fields) return refused;
  return new ApiError(refused.code, refused.message, { ...refused.details, fields }, { status: refused.status });
}

const labelMatch = (message: string): string =>
  message.replace(/^match_on(\[\d+\])? /, 'The field that identifies a record ');

/** Runs a step of the setup with the visibility of the person's roles. */
const asSetup = <Result>(
  parts: ConsoleParts,
  request: PersonalRequest,
  work: (call: Parameters<typeof createFromDryRun>[0]) => Promise<Result>,
): Promise<Result> => {
  const { computeReach } = request.person.caller;
  return act(parts, request, ['imports:create'], (acting) =>
    work({ ...acting, caller: { ...acting.caller, ...(computeReach ? { computeReach } : {}) } }),
  );
};

/** Imports the file of a dry run, or lets the person change the choices first. */
export const startFromDryRun: Show = async (parts, request) => {
  const { id = '' } = request.path;
  const isStart = request.form?.get('action') === 'start';
  const next = await asSetup(parts, request, (call) => createFromDryRun(call, id, !isStart));
  const path = { id: next };
  const to = (done: string): PageResponse => ({
    redirect: buildAddress(`${home}/${next}`, request.testMode, { done }),
  });
  if (!isStart) return to('change');
  return submitOrShowAgain(
    async () => {
      await ask(parts, request, 'startImport', { path });
      return to('');
    },
    async (refused) => {
      const { import: found } = await ask(parts, request, 'getImport', { path });
      return renderSetup(parts, request, found, refused.status, { refused });
    },
  );
};
