// Whether an API key is still what it was when it was looked up, asked by each request itself.
import type { Sql } from './connect.ts';
import { asId } from './tenant.ts';

/** What a key's look-up was made from. */
export interface KeyVersion {
  companyId: string;
  keyId: string;
  /** As in keyStamp. */
  stamp: string;
}

/**
 * The versions of the rows that a key's look-up reads, as one text: any change of them makes another. From api_keys k, companies c and
 * subscriptions s; as the function key_stamp of the database makes it.
 */
export const keyStamp = (sql: Sql) => sql`concat_ws(' ', k.xmin, c.xmin, s.xmin)`;

/** A statement without parameters that asks for a key's stamp of now: it may travel in one message with others. */
export const stampQuestion = ({ companyId, keyId }: KeyVersion): string =>
  `select key_stamp(${asId(companyId)}, ${asId(keyId)}) as stamp`;

/** True while none of the rows that a key's look-up read has changed. @param rows the answer to stampQuestion */
export function isKeyUnchanged(rows: readonly { stamp?: string }[], { stamp }: KeyVersion): boolean {
  return rows[0]?.stamp === stamp;
}
