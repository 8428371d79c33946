// What tools answer: data that a model can hold, or what is to be changed in a call.

import type { ApiError } from '../runtime/errors.ts';
import type { Performed } from '../runtime/in-process.ts';

type Data = Record<string, unknown>;

/** Bytes of a result; four of them are taken for a token. */
export const mostOfResult = 8000 * 4;
/** Bytes that what is told beside the data may take. */
const forHints = 600;

export interface ToolResult {
  content: { type: 'text'; text: string }[];
  structuredContent?: Data;
  isError?: true;
  [further: string]: unknown;
}

interface Failure {
  code: string;
  message: string;
  details?: Record<string, unknown>;
}

/** The data of an answer. */
export const dataOf = ({ body }: Performed): Data => (body as { data: Data }).data;

/**
 * The result of a call that did what it should.
 * @param hint what is told with every result of the tool
 * @param canPage whether the tool takes `limit`
 */
export function succeeded(data: Data, hint: string | undefined, canPage: boolean): ToolResult {
  const whole = told(data, undefined, hint);
  // Made once where it fits, as nearly always: to write it only to count its bytes would be a second time.
  if (Buffer.byteLength(whole.text) <= mostOfResult) return resultOf(whole);
  const fitted = shrink(data, canPage);
  return resultOf(told(fitted.data, fitted.hint, hint));
}

/** What is told, as data and as text. @param cut what was left out, and how to get it */
function told(data: Data, cut: string | undefined, hint: string | undefined) {
  const hints = [
    hint,
    cut,
    data.next_cursor ? 'There is more: call again with cursor = next_cursor.' : undefined,
  ].filter((each) => each !== undefined);
  const structuredContent = {
    ...data,
    truncated: cut !== undefined || data.truncated === true,
    ...(hints.length > 0 ? { hint: hints.join(' ') } : {}),
  };
  return { structuredContent, text: JSON.stringify(structuredContent) };
}

const resultOf = ({ structuredContent, text }: ReturnType<typeof told>): ToolResult => ({
  content: [{ type: 'text', text }],
  structuredContent,
});

/** The result of a call that was refused. */
export function failed({ body }: Performed): ToolResult {
  return refused((body as { error: Failure }).error);
}

/** Tells what is wrong, field by field where that is known. */
export function refused({ code, message, details = {} }: Failure | ApiError): ToolResult {
  const { fields, ...others } = details as { fields?: Data[] };
  const lines = [
    `${code}: ${message}`,
    ...(fields ?? []).map(problemLine),
    ...(Object.keys(others).length > 0 ? [JSON.stringify(others)] : []),
  ];
  const text = lines.join('\n');
  return { content: [{ type: 'text', text: cutText(text, mostOfResult / 4) }], isError: true };
}

function problemLine({ field, code, message, allowed, did_you_mean: meant, hint }: Data): string {
  const further = [
    Array.isArray(allowed) ? `Allowed: ${allowed.join(', ')}.` : undefined,
    meant === undefined ? undefined : `Did you mean ${meant}?`,
    hint,
  ].filter((each) => each !== undefined);
  return [`- ${field === '' ? 'all' : field} (${code}): ${message}.`, ...further].join(' ');
}

/** Shows only some fields of each item of a list, or of the one thing that was read; ids stay. */
export function pick(data: Data, names: readonly string[]): Data {
  const shown = new Set(['id', ...names]);
  const of = (item: unknown): unknown =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).filter(([name]) => shown.has(name)))
      : item;
  const hasList = Object.values(data).some((value) => Array.isArray(value));
  return Object.fromEntries(
    Object.entries(data).map(([name, value]) => {
      if (Array.isArray(value)) return [name, value.map(of)];
      return [name, hasList ? value : of(value)];
    }),
  );
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/** Leaves out what is too much, from the end: first items of the longest list, then parts of long texts and lists wherever they are. */
function shrink(data: Data, canPage: boolean): { data: Data; hint: string } {
  const most = mostOfResult - forHints;
  const lists = Object.entries(data).filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1]));
  const [name, list = []] = lists.sort(([, a], [, b]) => bytesOf(b) - bytesOf(a))[0] ?? [];
  if (name !== undefined && bytesOf({ ...data, [name]: list.slice(0, 1) }) <= most) {
    let kept = list.length;
    let left = bytesOf(data);
    while (left > most) {
      kept -= 1;
      left -= bytesOf(list[kept]) + 1;
    }
    const again = canPage ? `Ask for limit = ${kept}, or for fewer fields.` : 'Ask for less.';
    // What was left out would be skipped by whoever went on from here.
    const page = 'next_cursor' in data ? { next_cursor: null } : {};
    return {
      data: { ...data, [name]: list.slice(0, kept), ...page },
      hint: `Only the first ${kept} of ${list.length} fit. ${again}`,
    };
  }
  for (let longest = 4000; ; longest = Math.floor(longest / 2)) {
    const shortened = shorten(data, longest) as Data;
    if (bytesOf(shortened) <= most)
      return { data: shortened, hint: 'Long texts and lists were cut. Ask for fewer fields.' };
  }
}

/** @param longest characters of a text; of a list or an object so many entries by 40 */
function shorten(value: unknown, longest: number): unknown {
  if (typeof value === 'string') return cutText(value, longest);
  if (value === null || typeof value !== 'object') return value;
  const entries = Math.max(1, Math.floor(longest / 40));
  if (Array.isArray(value)) return value.slice(0, entries).map((each) => shorten(each, longest));
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, entries)
      .map(([name, inner]) => [name, shorten(inner, longest)]),
  );
}

const cutText = (text: string, longest: number): string =>
  text.length <= longest ? text : `${text.slice(0, longest).toWellFormed()}…`;
