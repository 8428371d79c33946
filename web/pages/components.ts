// Components of console pages: tables, lists, badges, tabs, charts, empty states and times.
import { type Html, html } from '../../runtime/pages/html.ts';
import { formatInZone } from '../../runtime/pages/time-zone.ts';
import { buildAddress, type PersonalRequest } from './requests.ts';

type Cell = Html | string | number | null;

/**
 * Builds a table. On a small screen each row is a card.
 * @param caption the label for screen readers
 */
export function table(caption: string, columns: readonly string[], rows: readonly (readonly Cell[])[]): Html {
  return html`<table aria-label="${caption}">
<thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
<tbody>
${rows.map((row) => html`<tr>${row.map((cell, index) => html`<td data-label="${columns[index] ?? ''}">${cell}</td>`)}</tr>`)}
</tbody>
</table>`;
}

/** Builds a list of names and values. Omits null values. */
export const factList = (given: Readonly<Record<string, Cell>>): Html =>
  html`<dl class="facts">${Object.entries(given).flatMap(([name, value]) =>
    value === null ? [] : [html`<dt>${name}</dt><dd>${value}</dd>`],
  )}</dl>`;

/** Formats a time to the minute, in the workspace's time zone. @param none the text for no time */
export function formatTime(time: string | Date | null, none: string | null = null): Html | string | null {
  if (time === null) return none;
  const iso = typeof time === 'string' ? time : time.toISOString();
  return html`<time datetime="${iso}">${formatInZone(iso, 'minute')}</time>`;
}

/** Formats a time to the second, in the workspace's time zone. */
export const formatSecond = (iso: string): Html => html`<time datetime="${iso}">${formatInZone(iso, 'second')}</time>`;

/** Formats a day as “Sunday, 29 November 2026”. @param day YYYY-MM-DD */
export const formatDay = (day: string): string =>
  new Date(`${day}T00:00:00Z`).toLocaleDateString('en-GB', {
    weekday: 'long',
    day: 'numeric',
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  });

/** Shows the message of a completed action. @param messages messages by action */
export function doneMessage(
  { query }: Pick<PersonalRequest, 'query'>,
  messages: Readonly<Record<string, string>>,
): Html | null {
  const name = query.get('done') ?? '';
  return Object.hasOwn(messages, name) ? html`<p role="status">${messages[name] ?? ''}</p>` : null;
}

/** Links to the next page of a list. @param cursor null if there is none */
export const nextPageLink = (href: string, cursor: string | null, text = 'Older'): Html | null =>
  cursor === null ? null : html`<p><a href="${href}">${text}</a></p>`;

/** The meaning of a state, which its color shows besides its text. */
export type Tone = 'good' | 'bad' | 'warning' | 'quiet';

/** Builds the label of a state. */
export const badge = (text: string, tone: Tone = 'quiet'): Html => html`<span class="badge ${tone}">${text}</span>`;

/** The parts of a list. */
interface Tabs {
  path: string;
  parameter: string;
  /** Texts by the value of the query parameter; '' is the whole list. */
  shown: Readonly<Record<string, string>>;
  current: string;
  /** Other parameters, which all parts keep. */
  kept?: Readonly<Record<string, string>>;
}

/** Builds links to the parts of a list. */
export function tabs(
  { testMode }: Pick<PersonalRequest, 'testMode'>,
  { path, parameter, shown, current, kept = {} }: Tabs,
): Html {
  const items = Object.entries(shown).map(
    ([value, text]) =>
      html`<li><a href="${buildAddress(path, testMode, { ...kept, [parameter]: value })}"${value === current ? currentPage : null}>${text}</a></li>`,
  );
  return html`<nav class="tabs" aria-label="Parts of the list"><ul>${items}</ul></nav>`;
}
const currentPage = html` aria-current="page"`;

/** Says that a list is empty. */
export const emptyState = (text: string): Html => html`<div class="empty"><p>${text}</p></div>`;

/** Size of a chart in its own units. The width follows the page. */
const chart = { width: 600, height: 120, label: 14 };

/**
 * Builds a bar chart of days with a table of its values for screen readers.
 * @param days oldest first, without gaps
 */
export function dayChart(title: string, days: readonly { day: string; value: number }[]): Html {
  const most = Math.max(1, ...days.map(({ value }) => value));
  const step = chart.width / Math.max(1, days.length);
  const floor = chart.height - chart.label;
  const bars = days.map(({ day, value }, index) => {
    // A day with a value is never invisible.
    const height = value === 0 ? 0 : Math.max(2, (value / most) * (floor - chart.label));
    return html`<rect x="${round(index * step + 1)}" y="${round(floor - height)}" width="${round(step - 2)}" height="${round(height)}"><title>${day}: ${formatNumber(value)}</title></rect>`;
  });
  return html`<figure class="card"><figcaption>${title}</figcaption>
<svg class="chart" viewBox="0 0 ${chart.width} ${chart.height}" aria-hidden="true" preserveAspectRatio="none">
<line x1="0" y1="${floor}" x2="${chart.width}" y2="${floor}"/>${bars}
</svg>
<p class="note">${days[0]?.day ?? ''} to ${days.at(-1)?.day ?? ''}. Most on a day: ${formatNumber(Math.max(0, ...days.map(({ value }) => value)))}. Total: ${formatNumber(days.reduce((sum, { value }) => sum + value, 0))}.</p>
<details><summary>Values</summary>${table(
    title,
    ['Day', 'Number'],
    days.map(({ day, value }) => [day, formatNumber(value)]),
  )}</details>
</figure>`;
}

const round = (value: number): number => Math.round(value * 100) / 100;

/** Formats a whole number with separators: 12,345. */
export const formatNumber = (value: number): string => value.toLocaleString('en-US');

/** Marks a temporary state. With JavaScript, the page reloads until it has changed. */
export const changing = (state: string): Html => html`<span class="changing">${state}</span>`;
