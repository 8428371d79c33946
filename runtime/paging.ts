// Pages: the limit, and cursors that cannot be forged or carried over to another query.
import { hash } from 'node:crypto';
import { maxPageSize } from '../domain/service/request-limits.ts';
import type { SignedTokens } from './credentials/signed-tokens.ts';
import { problem, validationFailed } from './errors.ts';

/** A value of a cursor's key: what the row had in a sort column. */
export type CursorValue = string | number | boolean | null;

/** What a list answers: its rows, and where the next page starts. */
export interface Page<Row> {
  rows: Row[];
  next_cursor: string | null;
  has_more: boolean;
}

/** A call of an operation that takes limit and cursor. */
interface ListCall {
  request: { query: { cursor?: string; limit?: number } };
  caller: { companyId: string; testMode: boolean; reach: object };
  services: { cursors: Cursors };
}

/** 1 to 100; a value outside is moved to the nearest bound. */
export function pageLimit(limit: number | undefined): number {
  if (limit === undefined) throw new Error('the document gives the limit of such a list a default');
  return Math.min(maxPageSize, Math.max(1, limit));
}

/**
 * The page that a call asks for, of a list that is read page by page.
 * @param boundTo everything that the list depends on beside the caller's tenant, mode and reach
 * @param read reads so many rows, those after the keys of a row where these are given
 * @param keysOf what puts a row in its place: the values that the list is sorted by
 * @throws ApiError 400 for a cursor of another list
 */
export async function pageOf<Row, const Keys extends readonly CursorValue[]>(
  call: ListCall,
  boundTo: readonly unknown[],
  read: (after: Keys | undefined, limit: number) => Promise<Row[]>,
  keysOf: (row: Row) => Keys,
): Promise<Page<Row>> {
  const { query } = call.request;
  const { cursors } = call.services;
  const limit = pageLimit(query.limit);
  const list = listOf(call, boundTo);
  // Bound to the list, so that its keys are as many and of the types that keysOf gives.
  const after =
    query.cursor === undefined ? undefined : (cursors.decode(query.cursor, list) as readonly CursorValue[] as Keys);
  return cut(await read(after, limit + 1), limit, (last) => cursors.encode(keysOf(last), list));
}

/**
 * The page that a call asks for, of a list that is at hand as a whole; without a limit all that follows.
 * @param boundTo everything that the list depends on beside the caller's tenant, mode and reach
 * @param idOf what tells an item from the others
 * @throws ApiError 400 for a cursor of another list
 */
export function pageOfWhole<Item>(
  call: ListCall,
  boundTo: readonly unknown[],
  items: readonly Item[],
  idOf: (item: Item) => string,
): Page<Item> {
  const { query } = call.request;
  const { cursors } = call.services;
  const limit = query.limit === undefined ? items.length : pageLimit(query.limit);
  const list = listOf(call, boundTo);
  const [id, place] = query.cursor === undefined ? [] : cursors.decode(query.cursor, list);
  const found = items.findIndex((item) => idOf(item) === id);
  // Where the last item of the page before is gone, its followers have moved up to its place.
  const start = found >= 0 ? found + 1 : Number(place ?? 0);
  return cut(items.slice(start, start + limit + 1), limit, (last) =>
    cursors.encode([idOf(last), items.indexOf(last)], list),
  );
}

function listOf({ caller }: ListCall, boundTo: readonly unknown[]): string {
  return JSON.stringify([caller.companyId, caller.testMode, caller.reach, ...boundTo]);
}

/** Cuts the extra row that tells whether there is a next page. */
function cut<Row>(rows: Row[], limit: number, cursorOf: (last: Row) => string): Page<Row> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const more = rows.length > limit && last !== undefined;
  return { rows: shown, next_cursor: more ? cursorOf(last) : null, has_more: more };
}

/** Makes and reads cursors: the sort values of the last row, bound to the query by a hash and to the server by a signature. */
export class Cursors {
  readonly #tokens: SignedTokens;

  constructor(tokens: SignedTokens) {
    this.#tokens = tokens;
  }

  /** @param list everything that the list depends on: tenant, mode, reach, object, sort, filter */
  encode(values: readonly CursorValue[], list: string): string {
    return this.#tokens.write('cursors', { v: 1, k: values, s: fingerprint(list) });
  }

  /** @throws ApiError 400 when the cursor is not one of ours or belongs to another list */
  decode(cursor: string, list: string): CursorValue[] {
    const read = this.#tokens.read('cursors', cursor) as { k: CursorValue[]; s: string } | undefined;
    if (!read)
      throw validationFailed(
        [problem('cursor', 'INVALID_FORMAT', 'cursor must be a next_cursor that this API returned')],
        400,
      );
    if (read.s !== fingerprint(list)) {
      throw validationFailed([problem('cursor', 'INVALID_FORMAT', 'cursor does not belong to this query')], 400);
    }
    return read.k;
  }
}

function fingerprint(list: string): string {
  return hash('sha256', list, 'base64url').slice(0, 16);
}
