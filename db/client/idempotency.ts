// Idempotency keys: claimed by transaction locks, stored together with the writes.
import { hash } from 'node:crypto';
import { hasCode, type Sql } from './pool.ts';
import { buildSettingCondition, type Preamble, PreparedPreamble } from './preambles.ts';
import { removeByCompany } from './sweeping.ts';

/** Hours for which a response is stored. */
export const keptHours = 24;

export interface Claim {
  companyId: string;
  testMode: boolean;
  endpoint: string;
  key: string;
  requestHash: Buffer;
}

export type ClaimResult =
  | { kind: 'ours' }
  | { kind: 'in_progress' }
  | { kind: 'conflict' }
  | { kind: 'replay'; status: number; body: string };

/** Returns the value by which work outside of the transaction recognizes a repeated call. */
export const computeRetryKey = ({ endpoint, key }: Pick<Claim, 'endpoint' | 'key'>): string =>
  hash('sha256', `${endpoint}\n${key}`, 'hex');

export interface StoredResponse {
  claim: Claim;
  status: number;
  body: string;
}

/** SQLSTATE of a claim whose key is not free. */
const taken = 'CK001';

/** Returns true if a claim failed because its key is not free. */
export function isTaken(error: unknown): boolean {
  return hasCode(error, taken);
}

const rejection = `refuse('the key is taken', '${taken}')`;

/**
 * Takes the locks of a claim, as claimNow does. Sequential scans are disabled until `seqScansEnabled`: a
 * plan that was cached while the table was empty would later read the whole table.
 */
const locking = new PreparedPreamble(
  'lock a key',
  `select case when ${buildSettingCondition('enable_seqscan', 'off')} and pg_try_advisory_xact_lock_shared($1::bigint)
     and pg_try_advisory_xact_lock($2::bigint) then 'held' else ${rejection} end`,
);

/** Returns the preamble that takes the locks of a claim. It fails if the key is not free. */
export function lock(claim: Claim): Preamble {
  const { keyLock, bodyLock } = computeLockIds(claim);
  return locking.bind([bodyLock, keyLock]);
}

/** A condition that is always true and enables sequential scans again. */
export const seqScansEnabled = buildSettingCondition('enable_seqscan', 'on');

/**
 * Returns an SQL expression that fails if anything is stored for a key whose locks are held. It
 * belongs in a statement after the one that took the locks, because it must see what their last
 * holder committed.
 */
export const selectNoneStored = (companyId: string, testMode: string, endpoint: string, key: string): string =>
  `(select ${rejection} from idempotency_records where company_id = ${companyId} and test_mode = ${testMode} and endpoint = ${endpoint} and key = ${key})`;

/**
 * Claims a key until the transaction ends, without finding out who holds it. Sends its statement
 * immediately. If the key is taken, the transaction fails, so later statements of it have no
 * effect.
 * @returns false if the key is taken: its call is running, has a response, or had another body
 */
export async function claimNow(sql: Sql, claimed: Claim): Promise<boolean> {
  const { companyId, testMode, endpoint, key } = claimed;
  const { keyLock, bodyLock } = computeLockIds(claimed);
  try {
    await sql`select claim_key(${companyId}, ${testMode}, ${endpoint}, ${key}, ${keyLock}::bigint, ${bodyLock}::bigint)`.execute();
    return true;
  } catch (error) {
    if (isTaken(error)) return false;
    throw error;
  }
}

/**
 * Claims a key, or returns the state of the call that has it. It takes two locks, as claimNow does:
 * a shared one on the key with this body, then the exclusive one on the key. If the key is taken,
 * the holder's other lock shows whether it runs the same body. The statements read the company's
 * row, like all locks on values that are not stored, so that they run where that row is.
 */
export async function claim(sql: Sql, claimed: Claim): Promise<ClaimResult> {
  const { keyLock, bodyLock } = computeLockIds(claimed);
  // Always a separate statement: it must see what the lock's last holder committed.
  const find = () =>
    sql<{ requestHash: Buffer; status: number; body: string }[]>`
      select request_hash, status, body
      from idempotency_records
      where company_id = ${claimed.companyId} and test_mode = ${claimed.testMode}
        and endpoint = ${claimed.endpoint} and key = ${claimed.key}
        and created_at > now() - interval '24 hours' and (leased_until is null or leased_until > now())`.execute();
  const toVerdict = (record: { requestHash: Buffer; status: number; body: string }): ClaimResult =>
    !record.requestHash.equals(claimed.requestHash)
      ? { kind: 'conflict' }
      : record.status === running
        ? { kind: 'in_progress' }
        : { kind: 'replay', status: record.status, body: record.body };
  let otherBodies = 0;
  for (let attempt = 0; attempt < 4; attempt += 1) {
    const locking = sql<{ locked: boolean }[]>`
      select pg_advisory_xact_lock_shared(${bodyLock}::bigint), pg_try_advisory_xact_lock(${keyLock}::bigint) as locked
      from companies where id = ${claimed.companyId}`;
    const [[lock], [record]] = await Promise.all([locking.execute(), find()]);
    if (record) return toVerdict(record);
    if (!lock) throw new Error('an Idempotency-Key is claimed in a company that does not exist');
    if (lock.locked) return { kind: 'ours' };
    const holding = sql<{ hasBody: boolean | null }[]>`
      select holder_has_body(${keyLock}::bigint, ${bodyLock}::bigint) as has_body
      from companies where id = ${claimed.companyId}`;
    // The holder may have come after the call that ran, and may only be reading its response. That
    // response then decides.
    const [[holder], [late]] = await Promise.all([holding.execute(), find()]);
    if (late) return toVerdict(late);
    // The holder has just finished, so its response can be read now.
    if (!holder || holder.hasBody === null) continue;
    if (holder.hasBody) return { kind: 'in_progress' };
    // A holder that ends releases its locks one after the other, so only a second look proves that
    // it has another body.
    otherBodies += 1;
    if (otherBodies === 2) return { kind: 'conflict' };
  }
  return { kind: 'in_progress' };
}

/** Stored instead of a status while a call holds its key without a connection. */
const running = 0;
/** Seconds after which a call that holds its key in this way counts as dead. */
const leaseSeconds = 60;

/** Holds a claimed key beyond the end of the transaction, for a call that continues without one. */
export async function hold(sql: Sql, { companyId, testMode, endpoint, key, requestHash }: Claim): Promise<void> {
  await sql`
    insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at, leased_until)
    values (${companyId}, ${testMode}, ${endpoint}, ${key}, ${requestHash}, ${running}, '', now(), now() + ${leaseSeconds} * interval '1 second')
    on conflict (company_id, test_mode, endpoint, key) do update
    set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body, created_at = excluded.created_at,
      leased_until = excluded.leased_until`.execute();
}

/** Extends the lease of a key that is held, for a call that suspends its transaction again. */
export async function renewHold(sql: Sql, { companyId, testMode, endpoint, key, requestHash }: Claim): Promise<void> {
  await sql`
    update idempotency_records set leased_until = now() + ${leaseSeconds} * interval '1 second'
    where company_id = ${companyId} and test_mode = ${testMode} and endpoint = ${endpoint} and key = ${key}
      and status = ${running} and request_hash = ${requestHash}`.execute();
}

/** Releases a held key if no response is stored for its call. Sends its statement immediately. */
export async function releaseHold(sql: Sql, { companyId, testMode, endpoint, key }: Claim): Promise<void> {
  await sql`
    delete from idempotency_records
    where company_id = ${companyId} and test_mode = ${testMode} and endpoint = ${endpoint} and key = ${key} and status = ${running}`.execute();
}

/**
 * Stores a response. It replaces a record older than 24 hours that was not removed yet.
 * @param isFirst the caller knows that nothing is stored for the key; checking again would cost a
 * third of the statement
 */
export function save(sql: Sql, { claim, status, body }: StoredResponse, now: Date, isFirst: boolean): Promise<unknown> {
  const { companyId, testMode, endpoint, key, requestHash } = claim;
  const insert = sql`
    insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
    values (${companyId}, ${testMode}, ${endpoint}, ${key}, ${requestHash}, ${status}, ${body}, ${now})`;
  if (isFirst) return insert.execute();
  return sql`
    ${insert}
    on conflict (company_id, test_mode, endpoint, key) do update
    set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body, created_at = excluded.created_at,
      leased_until = null`.execute();
}

/**
 * Removes expired responses.
 * @returns how many, at most the limit
 */
export async function sweep(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptHours * 3_600_000);
  const due = await sql<{ companyId: string; testMode: boolean; endpoint: string; key: string }[]>`
    select company_id, test_mode, endpoint, key
    from idempotency_records where created_at < ${before} order by created_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    // Checks the age again: if the key was used again, it has a new response.
    const removed = await sql`
      delete from idempotency_records r
      using jsonb_to_recordset(${sql.json(rows as never)}) as due ("testMode" boolean, endpoint text, key text)
      where r.company_id = ${companyId} and r.test_mode = due."testMode" and r.endpoint = due.endpoint and r.key = due.key
        and r.created_at < ${before}`;
    return removed.count;
  });
}

function computeLockIds({ companyId, testMode, endpoint, key, requestHash }: Claim): {
  keyLock: string;
  bodyLock: string;
} {
  const scope = [companyId, String(testMode), endpoint, key];
  return { keyLock: lockId(scope), bodyLock: lockId([...scope, requestHash.toString('hex')]) };
}

/**
 * Returns 63 bits of a digest, which fit PostgreSQL's advisory locks. All versions must compute the
 * same, because they may run side by side.
 */
function lockId(parts: readonly string[]): string {
  return (BigInt(`0x${hash('sha256', parts.join('\n'), 'hex').slice(0, 16)}`) >> 1n).toString();
}
