// Whether an API key is still what it was when it was looked up, asked by each request itself.
import type { Sql } from './connect.ts';
import { asId, type TenantScope } from './tenant.ts';

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

/**
 * The same with the settings of the tenant before it, as one statement that can stay prepared. A `case` keeps the order.
 * @param credential undefined: nothing is asked
 */
export function entrance({ companyId, testMode }: TenantScope, credential: KeyVersion | undefined) {
  const parameters = [companyId, String(testMode)];
  return credential
    ? { text: enterAndAsk, parameters: [...parameters, credential.companyId, credential.keyId] }
    : { text: enter, parameters };
}

const enter = "select set_config('app.company_id', $1, true), set_config('app.test_mode', $2, true)";
const enterAndAsk = `select case
  when set_config('app.company_id', $1, true) = $1 and set_config('app.test_mode', $2, true) = $2 then key_stamp($3, $4)
  end as stamp`;

/** True while none of the rows that a key's look-up read has changed. @param rows the answer to stampQuestion */
export function isKeyUnchanged(rows: readonly { stamp?: string }[], { stamp }: KeyVersion): boolean {
  return rows[0]?.stamp === stamp;
}
