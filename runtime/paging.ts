// Pages: the limit, and cursors that cannot be forged or carried over to another query.
import { createHash } from 'node:crypto';
import { maxPageSize } from '../domain/request-limits.ts';
import { problem, validationFailed } from './errors.ts';
import { type Secrets, sameText, sign } from './secrets.ts';

/** A value of a cursor's key: what the row had in a sort column. */
export type CursorValue = string | number | boolean | null;

/** 1 to 100; a value outside is moved to the nearest bound. */
export function pageLimit(limit: number | undefined, fallback = 25): number {
  return Math.min(maxPageSize, Math.max(1, limit ?? fallback));
}

/**
 * Cuts the extra row that tells whether there is a next page.
 * @param rows up to limit + 1 rows
 * @param cursorOf the cursor of a row
 */
export function page<Row>(
  rows: Row[],
  limit: number,
  cursorOf: (last: Row) => string,
): { rows: Row[]; next_cursor: string | null; has_more: boolean } {
  const more = rows.length > limit;
  const shown = more ? rows.slice(0, limit) : rows;
  const last = shown[shown.length - 1];
  return { rows: shown, next_cursor: more && last !== undefined ? cursorOf(last) : null, has_more: more };
}

/** Makes and reads cursors: the sort values of the last row, bound to the query by a hash and to the server by a signature. */
export class Cursors {
  readonly #key: Buffer;

  constructor(secrets: Secrets) {
    this.#key = secrets.derive('cursors');
  }

  /** @param query everything that the page depends on: tenant, mode, reach, object, sort, filter */
  encode(values: readonly CursorValue[], query: string): string {
    const payload = Buffer.from(JSON.stringify({ v: 1, k: values, s: fingerprint(query) })).toString('base64url');
    return `${payload}.${sign(this.#key, payload)}`;
  }

  /** @throws ApiError 400 when the cursor is not one of ours or belongs to another query */
  decode(cursor: string, query: string, length: number): CursorValue[] {
    const [payload = '', signature = '', ...rest] = cursor.split('.');
    if (rest.length > 0 || !sameText(signature, sign(this.#key, payload))) {
      throw validationFailed([problem('cursor', 'INVALID_FORMAT', 'cursor is not one that this API gave out')], 400);
    }
    const { k, s } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { k: CursorValue[]; s: string };
    if (s !== fingerprint(query) || k.length !== length) {
      throw validationFailed([problem('cursor', 'INVALID_FORMAT', 'cursor does not belong to this query')], 400);
    }
    return k;
  }
}

function fingerprint(query: string): string {
  return createHash('sha256').update(query).digest('base64url').slice(0, 16);
}
