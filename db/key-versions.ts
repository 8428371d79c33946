// Whether an API key is still what it was when it was looked up, asked by each request itself.
import { type Beforehand, Entrance } from './beforehand.ts';
import type { Sql } from './connect.ts';
import { asId, type TenantScope } from './tenant.ts';

/** What a key's look-up was made from. */
export interface KeyVersion {
  companyId: string;
  /** As in keyStamp. */
  stamp: string;
}

/** The version of all that the look-ups of a company's keys read: any change of it makes another. null: there is no such company. */
const stampOf = (companyId: string): string =>
  `(select version::text from credential_versions where company_id = ${companyId})`;

/** The same for a look-up: the versions of the companies c. */
export const keyStamp = (sql: Sql) => sql`(select version::text from credential_versions v where v.company_id = c.id)`;

/** A statement without parameters that asks for the stamp of now: it may travel in one message with others. */
export const stampQuestion = ({ companyId }: KeyVersion): string => `select ${stampOf(asId(companyId))} as stamp`;

/**
 * The same with the settings of the tenant before it, as one statement that can stay prepared. A `case` keeps the order.
 * @param credential undefined: nothing is asked
 */
export function entrance({ companyId, testMode }: TenantScope, credential: KeyVersion | undefined) {
  const parameters = [companyId, String(testMode)];
  return credential
    ? { text: enterAndAsk, parameters: [...parameters, credential.companyId] }
    : { text: enter, parameters };
}

const settings = "set_config('app.company_id', $1, true) = $1 and set_config('app.test_mode', $2, true) = $2";
const readOnly = "set_config('transaction_read_only', 'on', true) = 'on'";
const generic = "set_config('plan_cache_mode', 'force_generic_plan', true) = 'force_generic_plan'";
const enter = `select ${settings}`;
const enterAndAsk = asking(settings);

function asking(...conditions: readonly string[]): string {
  return `select case when ${conditions.join(' and ')} then ${stampOf('$3')} end as stamp`;
}

/** What stands in front of each statement of a call that only reads. */
const readings = {
  enter: new Entrance('enter to read', `select ${settings} and ${readOnly}`),
  enterAndAsk: new Entrance('enter to read and ask', asking(settings, readOnly)),
  planned: new Entrance('enter to read planned', `select ${settings} and ${readOnly} and ${generic}`),
  plannedAndAsk: new Entrance('enter to read planned and ask', asking(settings, readOnly, generic)),
} as const;

/**
 * The settings of the tenant, and what the key's stamp is now, in front of a statement that only reads.
 * @param credential undefined: nothing is asked
 * @param plansOnce true: the statement is planned once for each connection, for whatever values
 * @param told gets the stamp of now, where it is asked for
 */
export function readingEntrance(
  { companyId, testMode }: TenantScope,
  credential: KeyVersion | undefined,
  plansOnce: boolean,
  told: (stamp: string | null) => void,
): Beforehand {
  if (!credential) return (plansOnce ? readings.planned : readings.enter).with([companyId, String(testMode)], told);
  const asked = plansOnce ? readings.plannedAndAsk : readings.enterAndAsk;
  return asked.with([companyId, String(testMode), credential.companyId], told);
}

/** True while nothing that a key's look-up read has changed. @param stamp of now */
export function isKeyUnchanged(stamp: string | null | undefined, known: KeyVersion): boolean {
  return typeof stamp === 'string' && stamp === known.stamp;
}
