// Forms of console pages, with an error at each invalid field.
import { ApiError, type FieldProblem } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { nameField, nameFields } from './field-labels.ts';
import { buildAddress, type PersonalRequest } from './requests.ts';

/**
 * The submitted form and the error that rejected it. Both are absent when a page is first shown.
 */
export interface Typed {
  form?: URLSearchParams | undefined;
  refused?: ApiError | undefined;
}

interface FieldOptions {
  /** The initial value. */
  value?: string | undefined;
  hint?: string;
  type?: 'text' | 'number' | 'date' | 'email' | 'password' | 'url' | 'file';
  /** Of files: the extensions that are offered. */
  accept?: string;
  /** Options by value. */
  choices?: Readonly<Record<string, string>>;
  /** True for a field with several lines. */
  long?: true;
  required?: true;
  autocomplete?: string;
  maxlength?: number;
  minlength?: number;
  min?: number;
  max?: number;
  /** Needed if several forms of a page have a field with this name. */
  id?: string;
  /** The name of the value in errors of the operation, if it differs from that of the field. */
  errorName?: string;
}

/**
 * Builds a form with the hidden fields that every form carries, followed by its own fields and
 * buttons.
 * @param look upload: a form with a file, on a route with `upload`
 * @param id needed if controls outside of the form belong to it
 */
export function form(
  { person, testMode }: Pick<PersonalRequest, 'person' | 'testMode'>,
  action: string,
  body: Html,
  look: 'tall' | 'wide' | 'inline' | 'line' | 'upload' = 'tall',
  id?: string,
): Html {
  const sendsFile = look === 'upload' ? html` enctype="multipart/form-data"` : null;
  return html`<form method="post" action="${action}" class="${look}"${sendsFile}${attributes({ id })}>
<input type="hidden" name="token" value="${person.formToken}">
<input type="hidden" name="mode" value="${testMode ? 'test' : 'live'}">
${body}
</form>`;
}

/**
 * The first button of a form whose buttons decide differently. Enter in a field presses the first
 * button, and this one does nothing.
 */
export const noDefaultButton: Html = html`<button disabled hidden></button>`;

/** Builds a field with its label, hint and errors. */
export function field(name: string, label: string, { form: typed, refused }: Typed, options: FieldOptions = {}): Html {
  const { hint, id = name, choices, long, type = 'text', errorName = name } = options;
  const value = type === 'password' ? '' : (typed?.get(name) ?? options.value ?? '');
  const wrong = listProblems(refused).filter((problem) => getFieldName(problem) === errorName);
  const described = [...(hint === undefined ? [] : [`${id}-hint`]), ...(wrong.length === 0 ? [] : [`${id}-problem`])];
  const shared = html`id="${id}" name="${name}"${attributes({
    'aria-describedby': described.length > 0 ? described.join(' ') : undefined,
    'aria-invalid': wrong.length > 0 ? 'true' : undefined,
    required: options.required ? '' : undefined,
    maxlength: options.maxlength,
    minlength: options.minlength,
    autocomplete: options.autocomplete ?? 'off',
  })}`;
  const input = choices
    ? html`<select ${shared}>${Object.entries(choices).map(
        ([each, text]) =>
          html`<option value="${each}"${attributes({ selected: each === value ? '' : undefined })}>${text}</option>`,
      )}</select>`
    : long
      ? html`<textarea ${shared} spellcheck="false">${value}</textarea>`
      : html`<input ${shared}${attributes({ type, value: type === 'file' ? undefined : value, accept: options.accept, min: options.min, max: options.max })}>`;
  return html`<div>
<label for="${id}"${attributes({ 'data-error-name': errorName === id ? undefined : errorName })}>${label}</label>
${hint === undefined ? null : html`<p class="note" id="${id}-hint">${hint}</p>`}
${input}
${wrong.length === 0 ? null : html`<p class="problem" id="${id}-problem">${wrong.map((problem) => html`${describeProblem(problem)} `)}</p>`}
</div>`;
}

/** Builds a checkbox. */
export function checkbox(name: string, label: string, { form: typed }: Typed, isTicked = false): Html {
  const checked = typed ? typed.has(name) : isTicked;
  return html`<p><label for="${name}"><input type="checkbox" id="${name}" name="${name}" value="yes"${attributes({ checked: checked ? '' : undefined })}>${label}</label></p>`;
}

/** Renders the attributes that are not undefined. An empty string renders an empty attribute. */
const attributes = (given: Record<string, string | number | undefined>): Html[] =>
  Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [html` ${name}="${value}"`]));

/**
 * Builds the error summary above a form, with a link to each invalid field. `fillLabels` replaces
 * the names of the fields by their labels when the page is complete.
 */
export function errorSummary({ refused }: Typed): Html | null {
  if (!refused) return null;
  const problems = listProblems(refused);
  if (problems.length === 0) return html`<div role="alert"><p>${nameFields(refused.message)}</p></div>`;
  return html`<div role="alert"><p>Please correct the following:</p>
<ul>${problems.map((problem) => html`<li><a data-to-field="${getFieldName(problem)}">${describeProblem(problem)}</a></li>`)}</ul></div>`;
}

/** Describes an error on a page without the form, in the words of the form. */
export function describeError(refused: ApiError): Html {
  const problems = listProblems(refused);
  if (problems.length === 0) return nameFields(refused.message);
  return html`${problems.map((problem) => html`${describeProblem(problem)} `)}`;
}

/** Returns the field of a form for a path such as `tags[0]`. */
const getFieldName = ({ field: path }: FieldProblem): string => path.split(/[.[]/)[0] ?? path;

/** Returns the message of a problem, with names of fields that the page replaces by labels. */
function describeProblem({ field: path, message: full }: FieldProblem): Html {
  // A form has the fields that apply, so the person does not choose the condition.
  const message = full.replace(/ if \w+ is \w+(?=\.$)/, '');
  return message.startsWith(`${path} `)
    ? html`${nameField(path)}${nameFields(message.slice(path.length))}`
    : nameFields(message);
}

function listProblems(refused: ApiError | undefined): FieldProblem[] {
  return (refused?.details?.fields as FieldProblem[] | undefined) ?? [];
}

/** The filters of a list: query parameters with their fields. */
export interface Filters {
  /** The path of the list. */
  path: string;
  names: readonly string[];
  fields: Html;
  /** Parameters that the form keeps. */
  kept?: Readonly<Record<string, string>>;
}

/** Returns the trimmed values of filters in an address; '' for those that it does not have. */
export const readFilters = (query: URLSearchParams, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, query.get(name)?.trim() ?? '']));

/** Builds the form of the filters of a list. It is open if a filter is in use. */
export function filterForm({ testMode, query }: PersonalRequest, { path, names, fields, kept = {} }: Filters): Html {
  const isNarrowed = Object.values(readFilters(query, names)).some((value) => value !== '');
  return html`<details${attributes({ open: isNarrowed ? '' : undefined })}><summary>Filter</summary>
<form method="get" action="${path}" class="filter">
${testMode ? html`<input type="hidden" name="mode" value="test">` : null}
${Object.entries(kept).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
${fields}
<button>Show</button>
</form>
<p><a href="${buildAddress(path, testMode, kept)}">Clear</a></p></details>`;
}

/**
 * Performs the action of a form, or shows the page again with the errors and the submitted values.
 * @throws ApiError 403 or 404, which no other input would change
 */
export async function submitOrShowAgain(
  work: () => Promise<PageResponse>,
  again: (refused: ApiError) => Promise<PageResponse>,
): Promise<PageResponse> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 403 || error.status === 404) throw error;
    return again(error);
  }
}

/** Splits a text by lines and commas. */
export const splitLines = (text: string | null): string[] =>
  (text ?? '')
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter((line) => line !== '');

/** Parses a number. Other text is returned unchanged, so that the operation reports the error. */
export const parseNumber = (text: string | null): number | string | undefined => {
  if (text === null || text.trim() === '') return undefined;
  return Number.isNaN(Number(text)) ? text : Number(text);
};
