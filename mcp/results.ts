// Builds tool results: data that fits the context of a model, or an error that says what to change.

import type { Performed } from '../runtime/pipeline/in-process.ts';
import { cutText, type Data, findLongestList, shrink } from './shrink.ts';
import { fitsWithoutCounting, loadTokenCounter, maxResultTokens } from './tokens.ts';
import type { Tool } from './tools.ts';
import type { ToolWording } from './wording.ts';

export interface ToolResult {
  content: { type: 'text'; text: string }[];
  structuredContent?: Data;
  isError?: true;
  [further: string]: unknown;
}

export interface Failure {
  code: string;
  message: string;
  details?: Record<string, unknown> | undefined;
}

/** Returns the data of a response. */
export const getData = ({ body }: Performed): Data => (body as { data: Data }).data;

/**
 * Builds the result of a successful call and shrinks it to the token limit.
 * @param cut what was already left out of the data, and how to get it
 */
export async function toResult(data: Data, tool: Tool, cut?: string): Promise<ToolResult> {
  const whole = compose(data, cut, tool.hint);
  if (fitsWithoutCounting(whole.text, maxResultTokens)) return toToolResult(whole);
  const count = await loadTokenCounter();
  const fits = (text: string): boolean => count(text, maxResultTokens) <= maxResultTokens;
  if (fits(whole.text)) return toToolResult(whole);
  const shrunk = shrink(data, tool, (each) => fits(compose(each.data, joinHints(cut, each.hint), tool.hint).text));
  return toToolResult(compose(shrunk.data, joinHints(cut, shrunk.hint), tool.hint));
}

const joinHints = (...texts: (string | undefined)[]): string => texts.filter((each) => each !== undefined).join(' ');

/** Tokens reserved for what a shortened page contains besides its items: the cursor and hints. */
const forCursorAndHints = 400;

/**
 * Returns how many items of a page fit in a result, at least one. undefined: all fit, or the page
 * cannot be shortened.
 */
export async function findShorterPage(data: Data, tool: Tool): Promise<number | undefined> {
  const { text } = compose(data, undefined, tool.hint);
  const [name, items] = findLongestList(data) ?? [];
  if (name === undefined || items === undefined || items.length === 1) return undefined;
  if (fitsWithoutCounting(text, maxResultTokens)) return undefined;
  const count = await loadTokenCounter();
  if (count(text, maxResultTokens) <= maxResultTokens) return undefined;
  const around = compose({ ...data, [name]: [] }, undefined, tool.hint).text;
  let left = maxResultTokens - forCursorAndHints - count(around, maxResultTokens);
  let kept = 0;
  for (const item of items) {
    left -= count(JSON.stringify(item), maxResultTokens) + 1;
    if (left < 0) break;
    kept += 1;
  }
  return Math.max(1, Math.min(kept, items.length - 1));
}

/**
 * Builds the content of a result as data and as text.
 * @param cut what was left out, and how to get it
 */
function compose(data: Data, cut: string | undefined, hint: string | undefined) {
  const hints = [
    hint,
    cut,
    data.next_cursor ? 'There are more items. Call again with cursor = next_cursor.' : undefined,
  ].filter((each) => each !== undefined);
  const structuredContent = {
    ...data,
    truncated: cut !== undefined || data.truncated === true,
    ...(hints.length > 0 ? { hint: hints.join(' ') } : {}),
  };
  return { structuredContent, text: JSON.stringify(structuredContent) };
}

const toToolResult = ({ structuredContent, text }: ReturnType<typeof compose>): ToolResult => ({
  content: [{ type: 'text', text }],
  structuredContent,
});

/** Returns the error of a failed response. */
export const getFailure = ({ body }: Performed): Failure => (body as { error: Failure }).error;

/** Builds an error result that lists the field problems, worded for tools. */
export async function toErrorResult(
  { code, message, details = {} }: Failure,
  wording: ToolWording,
): Promise<ToolResult> {
  const { fields, ...others } = details as { fields?: Data[] };
  const lines = [
    `${code}: ${message}`,
    ...(fields ?? []).map(problemLine),
    ...(Object.keys(others).length > 0 ? [JSON.stringify(others)] : []),
  ];
  const text = await cutToTokens(wording(lines.join('\n')));
  return { content: [{ type: 'text', text }], isError: true };
}

async function cutToTokens(text: string): Promise<string> {
  if (fitsWithoutCounting(text, maxResultTokens)) return text;
  const count = await loadTokenCounter();
  let cut = text;
  for (let longest = text.length; count(cut, maxResultTokens) > maxResultTokens; longest = Math.floor(longest * 0.8))
    cut = cutText(text, longest);
  return cut;
}

function problemLine({ field, code, message, allowed, did_you_mean: meant, hint }: Data): string {
  const further = [
    Array.isArray(allowed) ? `Allowed: ${allowed.join(', ')}.` : undefined,
    meant === undefined ? undefined : `Did you mean ${meant}?`,
    hint,
  ].filter((each) => each !== undefined);
  return [`- ${field === '' ? 'all' : field} (${code}): ${message}`, ...further].join(' ');
}

/** Keeps only the named fields and the id of each item of a list, or of a single item. */
export function pickFields(data: Data, names: readonly string[]): Data {
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
