// Pagination: page limits, and signed cursors that are bound to their query.
import { hash } from 'node:crypto';
import { maxPageSize } from '../domain/service/request-limits.ts';
import type { SignedTokens } from './credentials/signed-tokens.ts';
import { buildProblem, validationFailed } from './errors.ts';

/** The row's value of a sort column, as stored in a cursor. */
export type CursorValue = string | number | boolean | null;

/** One page of a list: its rows, and the cursor of the next page. */
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

/** Returns the limit, clamped to 1 to 100. */
export function clampPageLimit(limit: number | undefined): number {
  if (limit === undefined) throw new Error('the document gives the limit of such a list a default');
  return Math.min(maxPageSize, Math.max(1, limit));
}

/**
 * Returns the requested page of a list that is read from the database page by page.
 * @param boundTo everything that determines the list, besides the caller's tenant, mode and
 * visibility
 * @param read returns up to `limit` rows after the given sort values, or from the start
 * @param getKeys returns the values that the list is sorted by
 * @throws ApiError 400 for a cursor of another list
 */
export async function readPage<Row, const Keys extends readonly CursorValue[]>(
  call: ListCall,
  boundTo: readonly unknown[],
  read: (after: Keys | undefined, limit: number) => Promise<Row[]>,
  getKeys: (row: Row) => Keys,
): Promise<Page<Row>> {
  const { query } = call.request;
  const { cursors } = call.services;
  const limit = clampPageLimit(query.limit);
  const list = listKey(call, boundTo);
  // The cursor is bound to the list, so its values match getKeys in number and type.
  const after =
    query.cursor === undefined ? undefined : (cursors.decode(query.cursor, list) as readonly CursorValue[] as Keys);
  return cutPage(await read(after, limit + 1), limit, (last) => cursors.encode(getKeys(last), list));
}

/**
 * Returns the requested page of a list that is in memory; without a limit, all items after the
 * cursor.
 * @param boundTo everything that determines the list, besides the caller's tenant, mode and
 * visibility
 * @param getId returns the unique id of an item
 * @throws ApiError 400 for a cursor of another list
 */
export function selectPage<Item>(
  call: ListCall,
  boundTo: readonly unknown[],
  items: readonly Item[],
  getId: (item: Item) => string,
): Page<Item> {
  const { query } = call.request;
  const { cursors } = call.services;
  const limit = query.limit === undefined ? items.length : clampPageLimit(query.limit);
  const list = listKey(call, boundTo);
  const [id, place] = query.cursor === undefined ? [] : cursors.decode(query.cursor, list);
  const found = items.findIndex((item) => getId(item) === id);
  // If the last item of the previous page was removed, the items after it have moved up to its
  // index.
  const start = found >= 0 ? found + 1 : Number(place ?? 0);
  return cutPage(items.slice(start, start + limit + 1), limit, (last) =>
    cursors.encode([getId(last), items.indexOf(last)], list),
  );
}

function listKey({ caller }: ListCall, boundTo: readonly unknown[]): string {
  return JSON.stringify([caller.companyId, caller.testMode, caller.reach, ...boundTo]);
}

/** Removes the extra row that shows whether there is a next page. */
function cutPage<Row>(rows: Row[], limit: number, encodeCursor: (last: Row) => string): Page<Row> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const more = rows.length > limit && last !== undefined;
  return { rows: shown, next_cursor: more ? encodeCursor(last) : null, has_more: more };
}

/**
 * Encodes and decodes cursors: the sort values of the last row, with a hash of the query, signed by
 * the server.
 */
export class Cursors {
  readonly #tokens: SignedTokens;

  constructor(tokens: SignedTokens) {
    this.#tokens = tokens;
  }

  /**
   * @param list everything that determines the list: tenant, mode, visibility, object, sort, filter
   */
  encode(values: readonly CursorValue[], list: string): string {
    return this.#tokens.write('cursors', { v: 1, k: values, s: fingerprint(list) });
  }

  /**
   * @throws ApiError 400 if this server did not sign the cursor, or if it belongs to another list
   */
  decode(cursor: string, list: string): CursorValue[] {
    const read = this.#tokens.read('cursors', cursor) as { k: CursorValue[]; s: string } | undefined;
    if (!read)
      throw validationFailed(
        [buildProblem('cursor', 'INVALID_FORMAT', 'cursor must be a next_cursor that this API returned')],
        400,
      );
    if (read.s !== fingerprint(list)) {
      throw validationFailed([buildProblem('cursor', 'INVALID_FORMAT', 'cursor does not belong to this query')], 400);
    }
    return read.k;
  }
}

function fingerprint(list: string): string {
  return hash('sha256', list, 'base64url').slice(0, 16);
}
