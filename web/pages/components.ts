// Components of console pages: tables, lists, badges, tabs, charts, empty states and times.
import { type Html, html } from '../../runtime/pages/html.ts';
import { formatInZone, toDay } from '../../runtime/pages/time-zone.ts';
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

const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;
const inWords = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
/** Days up to which a time is shown by its distance. */
const nearDays = 30;

/** Formats a time as “3 hours ago” or “in 2 days”, and one that is more than 30 days away as a day. */
export function formatAge(time: string | Date, now: Date): Html {
  const iso = typeof time === 'string' ? time : time.toISOString();
  const distance = Date.parse(iso) - now.getTime();
  const [unit, ms] = units.find(([, each]) => Math.abs(distance) >= each) ?? ['second', 1000];
  const isNear = Math.abs(distance) <= nearDays * 86_400_000;
  const words = unit === 'second' ? 'just now' : inWords.format(Math.trunc(distance / ms), unit);
  return html`<time datetime="${iso}" title="${formatInZone(iso, 'minute')}">${isNear ? words : toDay(iso)}</time>`;
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

/** The cursors of pages that an address keeps, so that links lead back to them. */
const keptCursors = 5;
/** Stands for the first page, which has no cursor. */
const firstPage = '-';

/**
 * Links to the pages before and after the present page of a list.
 * @param kept parameters of the list besides `cursor`
 * @param next the cursor of the next page; null if there is none
 */
export function pageLinks(
  { testMode, query }: Pick<PersonalRequest, 'testMode' | 'query'>,
  path: string,
  kept: Readonly<Record<string, string>>,
  next: string | null,
): Html | null {
  const cursor = query.get('cursor') ?? '';
  const trail = (query.get('trail') ?? '').split('*').filter((each) => each !== '');
  const link = (text: string, to: string, back: readonly string[]): Html =>
    html`<li><a href="${buildAddress(path, testMode, { ...kept, cursor: to === firstPage ? '' : to, trail: back.join('*') })}">${text}</a></li>`;
  const previous = trail.at(-1);
  const links = [
    cursor !== '' && previous !== firstPage ? link('First page', firstPage, []) : null,
    cursor !== '' && previous !== undefined ? link('Newer', previous, trail.slice(0, -1)) : null,
    next === null ? null : link('Older', next, [...trail, cursor === '' ? firstPage : cursor].slice(-keptCursors)),
  ].filter((each) => each !== null);
  return links.length === 0 ? null : html`<nav class="pages" aria-label="Pages"><ul>${links}</ul></nav>`;
}

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
const chart = { width: 600, height: 120, top: 8 };

/** A bar chart of days. */
interface DayChart {
  /** Unique on the page. */
  id: string;
  title: string;
  /** Oldest first, without gaps. */
  days: readonly { day: string; value: number }[];
  /** Shown instead of a chart without values. */
  none: string;
  /** Values from this one on are shown as "1,000 or more". */
  mostCounted?: number;
  tone?: 'bad';
}

/** Builds a bar chart of days as SVG, with a description and a table of its values. */
export function dayChart({ id, title, days, none, mostCounted, tone }: DayChart): Html {
  const most = Math.max(0, ...days.map(({ value }) => value));
  if (most === 0) return html`<figure class="card"><figcaption>${title}</figcaption>${emptyState(none)}</figure>`;
  const format = (value: number): string =>
    mostCounted !== undefined && value >= mostCounted ? `${formatNumber(mostCounted)} or more` : formatNumber(value);
  const step = chart.width / Math.max(1, days.length);
  const bars = days.map(({ day, value }, index) => {
    // A day with a value is never invisible.
    const height = value === 0 ? 0 : Math.max(2, (value / most) * (chart.height - chart.top));
    return html`<rect x="${round(index * step + 1)}" y="${round(chart.height - height)}" width="${round(step - 2)}" height="${round(height)}"><title>${day}: ${format(value)}</title></rect>`;
  });
  const total = days.reduce((sum, { value }) => sum + value, 0);
  const isCapped = days.some(({ value }) => mostCounted !== undefined && value >= mostCounted);
  const summary = `${days[0]?.day ?? ''} to ${days.at(-1)?.day ?? ''}. Most on a day: ${format(most)}. Total: ${formatNumber(total)}${isCapped ? ' or more' : ''}.`;
  return html`<figure class="card"><figcaption id="${id}-title">${title}</figcaption>
<svg class="${tone === undefined ? 'chart' : `chart ${tone}`}" viewBox="0 0 ${chart.width} ${chart.height}" role="img" aria-labelledby="${id}-title" aria-describedby="${id}-summary" preserveAspectRatio="none">
<title>${title}</title><desc>${summary}</desc>
<line x1="0" y1="${chart.height}" x2="${chart.width}" y2="${chart.height}"/>${bars}
</svg>
<p class="note" id="${id}-summary">${summary}</p>
<details><summary>Values</summary>${table(
    title,
    ['Day', 'Number'],
    days.map(({ day, value }) => [day, format(value)]),
  )}</details>
</figure>`;
}

const round = (value: number): number => Math.round(value * 100) / 100;

/** Formats a whole number with separators: 12,345. */
export const formatNumber = (value: number): string => value.toLocaleString('en-US');

/** Formats a size in bytes: 1.2 MB. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return bytes === 1 ? '1 byte' : `${bytes} bytes`;
  const [size, unit] = bytes < 1_048_576 ? [bytes / 1024, 'KB'] : [bytes / 1_048_576, 'MB'];
  return `${size.toLocaleString('en-US', { maximumFractionDigits: 1 })} ${unit}`;
}

/** Marks a temporary state. With JavaScript, the page reloads until it has changed. */
export const changing = (state: string): Html => html`<span class="changing">${state}</span>`;
