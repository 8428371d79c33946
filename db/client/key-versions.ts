// Whether an API key is still what it was when it was looked up, asked by each request itself.

import { afterLocks, type Claim, noneStored } from './idempotency.ts';
import { hasCode, type Sql } from './pool.ts';
import { on, type Planning, type Preamble, PreparedPreamble } from './preambles.ts';
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

/** True for the failure of a begin statement whose credential has changed. */
export function isChanged(error: unknown): boolean {
  return hasCode(error, changed);
}

/**
 * Returns the statement behind begin: the settings of the tenant, the preconditions and the time. It can stay prepared. If a precondition
 * does not hold, it fails, and so does what was sent behind it: isChanged and isTaken say which. A `case` keeps the order, and so do the columns.
 * @param credential undefined: none is compared
 * @param claim whose locks are held; undefined: there is none
 */
export function beginStatement(
  { companyId, testMode }: TenantScope,
  credential: KeyVersion | undefined,
  claim: Claim | undefined,
): { text: string; parameters: string[] } {
  const parameters = [companyId, String(testMode)];
  if (credential) parameters.push(credential.companyId, credential.stamp);
  if (claim) parameters.push(claim.endpoint, claim.key);
  return { text: beginStatements[credential ? 'comparing' : 'plain'][claim ? 'claiming' : 'free'], parameters };
}

const settings = "set_config('app.company_id', $1, true) = $1 and set_config('app.test_mode', $2, true) = $2";

function selectStamp(conditions: string): string {
  return `select case when ${conditions} then ${stampOf('$3')} end as stamp`;
}

const time = 'clock_timestamp() as clock';
const claiming = `${settings} and ${afterLocks}`;
const unchanged = (conditions: string): string => `case when ${conditions} then
  case when ${stampOf('$3')} = $4 then 'same' else refuse('the credential is not what it was', '${changed}') end end`;
const beginStatements = {
  plain: {
    free: `select ${settings}, ${time}`,
    claiming: `select ${claiming}, ${noneStored('$1::uuid', '$2::boolean', '$3', '$4')}, ${time}`,
  },
  comparing: {
    free: `select ${unchanged(settings)}, ${time}`,
    claiming: `select ${unchanged(claiming)}, ${noneStored('$1::uuid', '$2::boolean', '$5', '$6')}, ${time}`,
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

/** The preambles of a read session by planning: without and with the version of the key. */
const readPreambles = new Map(
  Object.entries(ways).map(([planning, more]) => {
    const conditions = [settings, on('transaction_read_only', 'on'), ...more].join(' and ');
    const name = `enter to read, ${planning}`;
    return [
      planning as Planning,
      {
        plain: new PreparedPreamble(name, `select ${conditions}`),
        withStamp: new PreparedPreamble(`${name}, and ask`, selectStamp(conditions)),
      },
    ];
  }),
);

/**
 * Returns the preamble of a statement that only reads: the settings of the tenant, and the present version of the key.
 * @param credential undefined: its version is not selected
 * @param onStamp runs with each answer, with the version if it was selected
 */
export function readPreamble(
  { companyId, testMode }: TenantScope,
  credential: KeyVersion | undefined,
  planning: Planning,
  onStamp: (stamp: string | null) => void,
): Preamble {
  const { plain, withStamp } = readPreambles.get(planning) as Record<'plain' | 'withStamp', PreparedPreamble>;
  const parameters = [companyId, String(testMode)];
  return credential ? withStamp.bind([...parameters, credential.companyId], onStamp) : plain.bind(parameters, onStamp);
}

/** True while nothing that a key's look-up read has changed. @param stamp of now */
export function isKeyUnchanged(stamp: string | null | undefined, known: KeyVersion): boolean {
  return typeof stamp === 'string' && stamp === known.stamp;
}
