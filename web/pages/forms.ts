// What pages of the console are made of: forms with what is wrong in them, tables, lists, times.
import { ApiError, type FieldProblem } from '../../runtime/errors.ts';
import type { ScreenAnswer } from '../../runtime/http/page-routes.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import type { PersonalRequest } from './requests.ts';

/** What was typed into a form, and why it was refused; nothing of either where a page is shown for the first time. */
export interface Typed {
  form?: URLSearchParams | undefined;
  refused?: ApiError | undefined;
}

interface FieldOptions {
  /** Shown until something else is typed. */
  value?: string | undefined;
  hint?: string;
  type?: 'text' | 'number' | 'date' | 'email' | 'password' | 'url';
  /** What can be chosen, by its value. */
  choices?: Readonly<Record<string, string>>;
  /** Several lines. */
  long?: true;
  required?: true;
  autocomplete?: string;
  maxlength?: number;
  minlength?: number;
  min?: number;
  max?: number;
  /** Where several forms of a page have a field of this name. */
  id?: string;
}

/** A form that is sent to this server: what every one carries, then its own fields and buttons. */
export function form(
  { person, testMode }: Pick<PersonalRequest, 'person' | 'testMode'>,
  action: string,
  body: Html,
  look: 'tall' | 'inline' | 'line' = 'tall',
): Html {
  return html`<form method="post" action="${action}" class="${look}">
<input type="hidden" name="token" value="${person.formToken}">
<input type="hidden" name="mode" value="${testMode ? 'test' : 'live'}">
${body}
</form>`;
}

/** A field with its label, what is to be known of it, and what is wrong with it. */
export function field(name: string, label: string, { form: typed, refused }: Typed, options: FieldOptions = {}): Html {
  const { hint, id = name, choices, long, type = 'text' } = options;
  const value = type === 'password' ? '' : (typed?.get(name) ?? options.value ?? '');
  const wrong = problemsOf(refused).filter((problem) => nameOf(problem) === name);
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
      : html`<input ${shared}${attributes({ type, value, min: options.min, max: options.max })}>`;
  return html`<div>
<label for="${id}">${label}</label>
${hint === undefined ? null : html`<p class="note" id="${id}-hint">${hint}</p>`}
${input}
${wrong.length === 0 ? null : html`<p class="problem" id="${id}-problem">${wrong.map(({ message }) => message).join(' ')}</p>`}
</div>`;
}

/** A state that will be another one shortly: the page looks again for it where JavaScript runs. */
export const changing = (state: string): Html => html`<span class="changing">${state}</span>`;

/** A box to tick. */
export function tick(name: string, label: string, { form: typed }: Typed, isTicked = false): Html {
  const checked = typed ? typed.has(name) : isTicked;
  return html`<p><label for="${name}"><input type="checkbox" id="${name}" name="${name}" value="yes"${attributes({ checked: checked ? '' : undefined })}>${label}</label></p>`;
}

/** Those that have a value; an empty one stands for itself. */
const attributes = (given: Record<string, string | number | undefined>): Html[] =>
  Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [html` ${name}="${value}"`]));

/** Why a form was refused: above it, with the way to each field. */
export function refusal({ refused }: Typed): Html | null {
  if (!refused) return null;
  const problems = problemsOf(refused);
  if (problems.length === 0) return html`<div role="alert"><p>${refused.message}</p></div>`;
  return html`<div role="alert"><p>Please correct the following:</p>
<ul>${problems.map((problem) => html`<li><a href="#${nameOf(problem)}">${problem.message}</a></li>`)}</ul></div>`;
}

/** Of a list the list, not its item. */
const nameOf = ({ field: path }: FieldProblem): string => path.split(/[.[]/)[0] ?? path;

function problemsOf(refused: ApiError | undefined): FieldProblem[] {
  return (refused?.details?.fields as FieldProblem[] | undefined) ?? [];
}

/**
 * Does what a form asks, or shows its page again with what is wrong and what was typed.
 * @throws ApiError what no other input would change: a permission that lacks, something that is not there
 */
export async function orAgain(
  work: () => Promise<ScreenAnswer>,
  again: (refused: ApiError) => Promise<ScreenAnswer>,
): Promise<ScreenAnswer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 403 || error.status === 404) throw error;
    return again(error);
  }
}

/** What a form holds in several lines, or with commas between. */
export const linesOf = (text: string | null): string[] =>
  (text ?? '')
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter((line) => line !== '');

/** A number as it was typed, or the text where it is none: the operation says what is wrong. */
export const numberOf = (text: string | null): number | string | undefined => {
  if (text === null || text.trim() === '') return undefined;
  return Number.isNaN(Number(text)) ? text : Number(text);
};

type Cell = Html | string | number | null;

/** A table; on a small screen each row is a card. @param caption what it lists, for those who do not see the heading above */
export function table(caption: string, columns: readonly string[], rows: readonly (readonly Cell[])[]): Html {
  return html`<table aria-label="${caption}">
<thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
<tbody>
${rows.map((row) => html`<tr>${row.map((cell, index) => html`<td data-label="${columns[index] ?? ''}">${cell}</td>`)}</tr>`)}
</tbody>
</table>`;
}

/** Names and what they stand for; what is null is left out. */
export const facts = (given: Readonly<Record<string, Cell>>): Html =>
  html`<dl class="facts">${Object.entries(given).flatMap(([name, value]) =>
    value === null ? [] : [html`<dt>${name}</dt><dd>${value}</dd>`],
  )}</dl>`;

/** A time to the minute. @param none what stands for no time */
export function moment(time: string | Date | null, none: string | null = null): Html | string | null {
  if (time === null) return none;
  const iso = typeof time === 'string' ? time : time.toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`;
}

/** What was done, said once. @param told by the name of what was done */
export function done({ query }: Pick<PersonalRequest, 'query'>, told: Readonly<Record<string, string>>): Html | null {
  const name = query.get('done') ?? '';
  return Object.hasOwn(told, name) ? html`<p role="status">${told[name] ?? ''}</p>` : null;
}

/** The way to what comes after a page. @param cursor null: nothing does */
export const further = (href: string, cursor: string | null, text = 'Older'): Html | null =>
  cursor === null ? null : html`<p><a href="${href}">${text}</a></p>`;
