// Shrinks data that is too large for a model. Drops the least important parts first.
import type { Tool } from './tools.ts';

export type Data = Record<string, unknown>;

/** Shrunk data, with a hint that says what was left out and how to request it. */
export interface Shrunk {
  data: Data;
  hint: string;
}

/**
 * Returns the largest version of the data that fits.
 * @param fits returns true if the data with the hint is small enough
 */
export function shrink(data: Data, tool: Tool, fits: (shrunk: Shrunk) => boolean): Shrunk {
  const again = suggestNarrowing(tool);
  const attempts: (() => Shrunk | undefined)[] = [
    () => (tool.effect === 'reads' ? undefined : keepIds(data)),
    () => shortenInnerLists(data, again, fits),
    () => dropItems(data, again, fits),
    () => shortenTexts(data, again, fits),
  ];
  for (const attempt of attempts) {
    const shrunk = attempt();
    if (shrunk && fits(shrunk)) return shrunk;
  }
  for (let longest = 2000; ; longest = Math.floor(longest / 2)) {
    const shrunk = { data: cutEverything(data, longest), hint: `Long texts and lists were cut. ${again}` };
    if (fits(shrunk)) return shrunk;
  }
}

/** Returns the list with the most JSON text at the top level of the data. */
export function findLongestList(data: Data): [name: string, items: readonly unknown[]] | undefined {
  const measureSize = (value: unknown): number => JSON.stringify(value).length;
  return Object.entries(data)
    .filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1]) && entry[1].length > 0)
    .sort(([, a], [, b]) => measureSize(b) - measureSize(a))[0];
}

const narrowing = ['fields', 'filter', 'objects', 'from', 'to', 'limit'];

/** Names the arguments that reduce the result of a tool. */
function suggestNarrowing({ takes, effect }: Tool): string {
  if (effect !== 'reads') return 'Everything was written.';
  const names = narrowing.filter((name) => takes.includes(name));
  return names.length === 0 ? 'This tool cannot return more of it.' : `Narrow the call with ${names.join(' or ')}.`;
}

/** Keeps only the ids of written items. The caller already knows the other values. */
function keepIds(data: Data): Shrunk | undefined {
  const [name, items] = findLongestList(data) ?? [];
  if (name === undefined || items === undefined || !items.every((item) => isObject(item) && 'id' in item))
    return undefined;
  const ids = items.map((item) => ({ id: (item as Data).id }));
  return { data: { ...data, [name]: ids }, hint: `Everything was written; of ${name} only the ids are shown.` };
}

/**
 * Cuts lists inside items, such as the hits of a search group or the options of a field. Every item
 * stays. If one entry of each list is still too much, the entries lose their nested objects, such
 * as the record of a hit.
 */
function shortenInnerLists(data: Data, again: string, fits: (shrunk: Shrunk) => boolean): Shrunk | undefined {
  const longest = longestInnerList(data, false);
  if (longest === 0) return undefined;
  const cut = (whole: Data, entries: number): Shrunk => ({
    data: capInnerLists(whole, false, entries) as Data,
    hint: `Lists inside of items were cut to ${entries} entries each. ${again}`,
  });
  const entries = findLargest(longest, (most) => fits(cut(data, most)));
  if (entries > 0) return cut(data, entries);
  const bare = dropInnerObjects(data, 0) as Data;
  const bareEntries = findLargest(longest, (most) => fits(cut(bare, most)));
  return bareEntries > 0 ? cut(bare, bareEntries) : shortenTexts(cut(bare, 1).data, again, fits);
}

/** Drops items from the end of the longest list. */
function dropItems(data: Data, again: string, fits: (shrunk: Shrunk) => boolean): Shrunk | undefined {
  const [name, items] = findLongestList(data) ?? [];
  if (name === undefined || items === undefined) return undefined;
  const keep = (count: number): Shrunk => ({
    data: { ...data, [name]: items.slice(0, count) },
    hint: `Only the first ${count} of ${items.length} fit. ${again}`,
  });
  const count = findLargest(items.length - 1, (most) => fits(keep(most)));
  return count > 0 ? keep(count) : undefined;
}

/**
 * Shorter texts would be unrecognizable. Ids and times have at most 36 characters, so they stay
 * whole.
 */
const shortestText = 40;

function shortenTexts(data: Data, again: string, fits: (shrunk: Shrunk) => boolean): Shrunk | undefined {
  for (let longest = 4000; longest >= shortestText; longest = Math.floor(longest / 2)) {
    const shrunk = { data: cutTexts(data, longest), hint: `Long texts were cut. ${again}` };
    if (fits(shrunk)) return shrunk;
  }
  return undefined;
}

/**
 * Finds the largest number from 1 to `most` for which a monotonic condition holds, by binary
 * search. 0: none.
 */
function findLargest(most: number, holds: (count: number) => boolean): number {
  let [low, high] = [0, most];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

const isObject = (value: unknown): value is Data =>
  value !== null && typeof value === 'object' && !Array.isArray(value);

/** Returns the length of the longest list inside an item of another list. */
function longestInnerList(value: unknown, isInside: boolean): number {
  if (Array.isArray(value))
    return Math.max(isInside ? value.length : 0, ...value.map((each) => longestInnerList(each, true)));
  if (!isObject(value)) return 0;
  return Math.max(0, ...Object.values(value).map((each) => longestInnerList(each, isInside)));
}

function capInnerLists(value: unknown, isInside: boolean, entries: number): unknown {
  if (Array.isArray(value)) {
    const kept = isInside ? value.slice(0, entries) : value;
    return kept.map((each) => capInnerLists(each, true, entries));
  }
  if (!isObject(value)) return value;
  return mapValues(value, (inner) => capInnerLists(inner, isInside, entries));
}

/** @param depth how many lists contain the value */
function dropInnerObjects(value: unknown, depth: number): unknown {
  if (Array.isArray(value)) return value.map((each) => dropInnerObjects(each, depth + 1));
  if (!isObject(value)) return value;
  const kept = depth < 2 ? value : Object.fromEntries(Object.entries(value).filter(([, inner]) => !isObject(inner)));
  return mapValues(kept, (inner) => dropInnerObjects(inner, depth));
}

/** Cuts long texts. The cursor stays whole, because a cut cursor is invalid. */
function cutTexts(data: Data, longest: number): Data {
  const cut = (value: unknown): unknown => {
    if (typeof value === 'string') return cutText(value, longest);
    if (Array.isArray(value)) return value.map(cut);
    return isObject(value) ? mapValues(value, cut) : value;
  };
  return keepCursor(data, mapValues(data, cut));
}

/** @param longest characters of a text; lists and objects keep `longest / 40` entries */
function cutEverything(data: Data, longest: number): Data {
  const entries = Math.max(1, Math.floor(longest / 40));
  const cut = (value: unknown): unknown => {
    if (typeof value === 'string') return cutText(value, longest);
    if (Array.isArray(value)) return value.slice(0, entries).map(cut);
    if (!isObject(value)) return value;
    return mapValues(Object.fromEntries(Object.entries(value).slice(0, entries)), cut);
  };
  return keepCursor(data, mapValues(data, cut));
}

const keepCursor = (whole: Data, cut: Data): Data =>
  typeof whole.next_cursor === 'string' ? { ...cut, next_cursor: whole.next_cursor } : cut;

const mapValues = (value: Data, map: (inner: unknown) => unknown): Data =>
  Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, map(inner)]));

export const cutText = (text: string, longest: number): string =>
  text.length <= longest ? text : `${text.slice(0, longest).toWellFormed()}…`;
