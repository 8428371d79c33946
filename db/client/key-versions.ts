// Whether an API key is still what it was when it was looked up, asked by each request itself.

import { afterLocks, type Claim, noneKept } from './idempotency.ts';
import { hasCode, type Sql } from './pool.ts';
import { type Beforehand, Entrance, on, type Planning } from './preambles.ts';
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

/** Raised for a credential that is not what it was. */
const changed = 'CK002';

/** True for the failure of an entrance whose credential is not what it was. */
export function isChanged(error: unknown): boolean {
  return hasCode(error, changed);
}

/**
 * The settings of the tenant, what must hold, and the time, as one statement that can stay prepared. It fails where something does not hold,
 * and whatever was sent behind it with it: isChanged and isTaken say which. A `case` keeps the order, and so do the columns.
 * @param credential undefined: nothing is asked
 * @param claim of which the locks are held; undefined: there is none
 */
export function entrance(
  { companyId, testMode }: TenantScope,
  credential: KeyVersion | undefined,
  claim: Claim | undefined,
): { text: string; parameters: string[] } {
  const parameters = [companyId, String(testMode)];
  if (credential) parameters.push(credential.companyId, credential.stamp);
  if (claim) parameters.push(claim.endpoint, claim.key);
  return { text: entrances[credential ? 'asking' : 'silent'][claim ? 'claiming' : 'free'], parameters };
}

const settings = "set_config('app.company_id', $1, true) = $1 and set_config('app.test_mode', $2, true) = $2";

function asking(conditions: string): string {
  return `select case when ${conditions} then ${stampOf('$3')} end as stamp`;
}

const time = 'clock_timestamp() as clock';
const claiming = `${settings} and ${afterLocks}`;
const unchanged = (conditions: string): string => `case when ${conditions} then
  case when ${stampOf('$3')} = $4 then 'same' else refuse('the credential is not what it was', '${changed}') end end`;
const entrances = {
  silent: {
    free: `select ${settings}, ${time}`,
    claiming: `select ${claiming}, ${noneKept('$1::uuid', '$2::boolean', '$3', '$4')}, ${time}`,
  },
  asking: {
    free: `select ${unchanged(settings)}, ${time}`,
    claiming: `select ${unchanged(claiming)}, ${noneKept('$1::uuid', '$2::boolean', '$5', '$6')}, ${time}`,
  },
};

const once = on('plan_cache_mode', 'force_generic_plan');
const ways: Readonly<Record<Planning, readonly string[]>> = {
  auto: [],
  once: [once],
  // Nothing else has an order without sorting.
  'in order': [once, on('enable_sort', 'off')],
  anew: [on('plan_cache_mode', 'force_custom_plan')],
};

/** What stands in front of each statement of a call that only reads, by how it is planned: without and with the question about the key. */
const readings = new Map(
  Object.entries(ways).map(([planning, more]) => {
    const conditions = [settings, on('transaction_read_only', 'on'), ...more].join(' and ');
    const name = `enter to read, ${planning}`;
    return [
      planning as Planning,
      { enter: new Entrance(name, `select ${conditions}`), ask: new Entrance(`${name}, and ask`, asking(conditions)) },
    ];
  }),
);

/**
 * The settings of the tenant, and what the key's stamp is now, in front of a statement that only reads.
 * @param credential undefined: nothing is asked
 * @param told gets the stamp of now, where it is asked for
 */
export function readingEntrance(
  { companyId, testMode }: TenantScope,
  credential: KeyVersion | undefined,
  planning: Planning,
  told: (stamp: string | null) => void,
): Beforehand {
  const { enter, ask } = readings.get(planning) as { enter: Entrance; ask: Entrance };
  const parameters = [companyId, String(testMode)];
  return credential ? ask.with([...parameters, credential.companyId], told) : enter.with(parameters, told);
}

/** True while nothing that a key's look-up read has changed. @param stamp of now */
export function isKeyUnchanged(stamp: string | null | undefined, known: KeyVersion): boolean {
  return typeof stamp === 'string' && stamp === known.stamp;
}
