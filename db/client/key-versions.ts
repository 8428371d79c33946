// Checks in each request that a cached API key has not changed since it was looked up.

import { type Claim, selectNoneStored, seqScansEnabled } from './idempotency.ts';
import { hasCode, type Sql } from './pool.ts';
import { buildSettingCondition, type Planning, type Preamble, PreparedPreamble } from './preambles.ts';
import { type TenantScope, toIdLiteral } from './tenant.ts';

/** The version of the credentials from which a key was looked up. */
export interface KeyVersion {
  companyId: string;
  /** As selected by selectKeyStamp. */
  stamp: string;
}

/**
 * Returns an SQL expression for the version of a company's credentials. Every change that affects
 * the lookup of its keys raises it. null: the company does not exist.
 */
const selectVersion = (companyId: string): string =>
  `(select version::text from credential_versions where company_id = ${companyId})`;

/** Does the same for a lookup: the versions of the companies c. */
export const selectKeyStamp = (sql: Sql) =>
  sql`(select version::text from credential_versions v where v.company_id = c.id)`;

/**
 * Returns a statement without parameters that selects the current stamp. It can be sent in one
 * message with others.
 */
export const buildStampQuery = ({ companyId }: KeyVersion): string =>
  `select ${selectVersion(toIdLiteral(companyId))} as stamp`;

/** SQLSTATE of a credential that has changed. */
const changed = 'CK002';

/** Returns true if a begin statement failed because its credential has changed. */
export function isChanged(error: unknown): boolean {
  return hasCode(error, changed);
}

/**
 * Returns the statement behind begin: the tenant's settings, the preconditions and the time. It can
 * stay prepared. If a precondition does not hold, the statement fails, and so do those behind it;
 * isChanged and isTaken say why. The `case` and the order of the columns fix the order of
 * evaluation.
 * @param credential undefined: none is compared
 * @param claim the claim whose locks are held; undefined: there is none
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
  return `select case when ${conditions} then ${selectVersion('$3')} end as stamp`;
}

const time = 'clock_timestamp() as clock';
const claiming = `${settings} and ${seqScansEnabled}`;
const unchanged = (conditions: string): string => `case when ${conditions} then
  case when ${selectVersion('$3')} = $4 then 'same' else refuse('the credential is not what it was', '${changed}') end end`;
const beginStatements = {
  plain: {
    free: `select ${settings}, ${time}`,
    claiming: `select ${claiming}, ${selectNoneStored('$1::uuid', '$2::boolean', '$3', '$4')}, ${time}`,
  },
  comparing: {
    free: `select ${unchanged(settings)}, ${time}`,
    claiming: `select ${unchanged(claiming)}, ${selectNoneStored('$1::uuid', '$2::boolean', '$5', '$6')}, ${time}`,
  },
};

const once = buildSettingCondition('plan_cache_mode', 'force_generic_plan');
const planningSettings: Readonly<Record<Planning, readonly string[]>> = {
  auto: [],
  once: [once],
  // Without sorting, only an index can provide the order.
  'in order': [once, buildSettingCondition('enable_sort', 'off')],
  custom: [buildSettingCondition('plan_cache_mode', 'force_custom_plan')],
};

/** The preambles of a read session by planning: without and with the version of the key. */
const readPreambles = new Map(
  Object.entries(planningSettings).map(([planning, more]) => {
    const conditions = [settings, buildSettingCondition('transaction_read_only', 'on'), ...more].join(' and ');
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
 * Returns the preamble of a statement that only reads: the tenant's settings, and the current
 * version of the key.
 * @param credential undefined: its version is not selected
 * @param onStamp runs with each response, with the version if it was selected
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

/**
 * Returns true if nothing that the key's lookup read has changed.
 * @param stamp the current version
 */
export function isKeyUnchanged(stamp: string | null | undefined, known: KeyVersion): boolean {
  return typeof stamp === 'string' && stamp === known.stamp;
}
