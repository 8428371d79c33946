// Values of fields, and changed fields with their values before and after.
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { formatTime, table } from './components.ts';

/** Builds a table of changed fields. @param show renders a value of a field */
export const changesTable = (
  caption: string,
  changes: Readonly<Record<string, { from?: unknown; to?: unknown }>>,
  show: (value: unknown, name: string) => Html = showValue,
): Html =>
  table(
    caption,
    ['Field', 'Before', 'After'],
    Object.entries(changes).map(([name, { from, to }]) => [toLabel(name), show(from, name), show(to, name)]),
  );

/** A JSON object. */
export type Thing = Record<string, unknown>;

export const isThing = (value: unknown): value is Thing =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the values inside of nested objects, by the names on the way to them. Lists stay whole. */
export function listLeaves(data: Record<string, unknown>, path: readonly string[] = []): Map<string, unknown> {
  return new Map(
    Object.entries(data).flatMap(([name, value]) =>
      isThing(value) && Object.keys(value).length > 0
        ? [...listLeaves(value, [...path, name])]
        : [[[...path, name].join(separator), value] as const],
    ),
  );
}

/** No name of a field contains it. */
export const separator = '\n';

export const isEmpty = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === '' ||
  (typeof value === 'object' && Object.keys(value).length === 0);

/** Returns the label of a field: `lead_status` is "Lead status", nested ones have that of the outer one. */
export const toLabel = (path: string): string =>
  path
    .split(separator)
    .map((name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' '))
    .join(' › ');

export function showValue(value: unknown): Html {
  if (isEmpty(value)) return html`<span class="none">empty</span>`;
  if (typeof value === 'boolean') return html`${value ? 'yes' : 'no'}`;
  if (typeof value === 'string')
    return isTime.test(value) ? html`${formatTime(value)}` : html`<span class="text">${isolateText(value)}</span>`;
  if (Array.isArray(value)) return html`<ul>${value.map((each) => html`<li>${showValue(each)}</li>`)}</ul>`;
  if (!isThing(value)) return html`${String(value)}`;
  return html`<ul>${[...listLeaves(value)]
    .filter(([, each]) => !isEmpty(each))
    .map(([path, each]) => html`<li>${toLabel(path)}: ${showValue(each)}</li>`)}</ul>`;
}

const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z$/;
