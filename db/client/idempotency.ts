// Idempotency keys: claimed by locks that end with the transaction, kept with what it writes.
import { hash } from 'node:crypto';
import { hasCode, type Sql } from './pool.ts';
import { on, type Preamble, PreparedPreamble } from './preambles.ts';
import { removeByCompany } from './sweeping.ts';

/** Hours that an answer is kept. */
export const keptHours = 24;

export interface Claim {
  companyId: string;
  testMode: boolean;
  endpoint: string;
  key: string;
  requestHash: Buffer;
}

export type Verdict =
  | { kind: 'ours' }
  | { kind: 'in_progress' }
  | { kind: 'conflict' }
  | { kind: 'replay'; status: number; body: string };

export interface StoredResponse {
  claim: Claim;
  status: number;
  body: string;
}

/** Raised for a key that is not free. */
const taken = 'CK001';

/** True for the failure of a claim whose key is not free. */
export function isTaken(error: unknown): boolean {
  return hasCode(error, taken);
}

const refusal = `refuse('the key is taken', '${taken}')`;

/**
 * The locks of a claim, as by claimNow. What is sent next, behind `afterLocks`, is planned without reading whole tables: a plan that is kept
 * from when no answer was kept would read all that are kept later.
 */
const locking = new PreparedPreamble(
  'lock a key',
  `select case when ${on('enable_seqscan', 'off')} and pg_try_advisory_xact_lock_shared($1::bigint)
     and pg_try_advisory_xact_lock($2::bigint) then 'held' else ${refusal} end`,
);

/** Takes the locks of a claim; fails where the key is not free. */
export function lock(claim: Claim): Preamble {
  const { keyLock, bodyLock } = locksOf(claim);
  return locking.bind([bodyLock, keyLock]);
}

/** Takes back what the locks said of plans; a condition that is true. */
export const afterLocks = on('enable_seqscan', 'on');

/**
 * Nothing is kept of a key whose locks are held; fails otherwise, whatever it is. Part of a statement behind that which took the locks: it must
 * see what their last holder committed.
 */
export const noneStored = (companyId: string, testMode: string, endpoint: string, key: string): string =>
  `(select ${refusal} from idempotency_records where company_id = ${companyId} and test_mode = ${testMode} and endpoint = ${endpoint} and key = ${key})`;

/**
 * Claims a key until the transaction ends, without a word about whoever has it; sent at once. What is sent behind it in the same
 * transaction does nothing where the key is taken, since the transaction has failed by then.
 * @returns false when the key is taken: it runs now, or has an answer, or was used with another body
 */
export async function claimNow(sql: Sql, claimed: Claim): Promise<boolean> {
  const { companyId, testMode, endpoint, key } = claimed;
  const { keyLock, bodyLock } = locksOf(claimed);
  try {
    await sql`select claim_key(${companyId}, ${testMode}, ${endpoint}, ${key}, ${keyLock}::bigint, ${bodyLock}::bigint)`.execute();
    return true;
  } catch (error) {
    if (isTaken(error)) return false;
    throw error;
  }
}

/**
 * Claims a key, or finds out what became of it. Two locks are taken, as by claimNow: a shared one on the key with this body, then the
 * exclusive one on the key. Whoever finds the key taken sees from the holder's other lock whether it runs the same body. They are taken
 * by way of the company's row, as all locks on what is not stored.
 */
export async function claim(sql: Sql, claimed: Claim): Promise<Verdict> {
  const { keyLock, bodyLock } = locksOf(claimed);
  // Always a statement of its own: it must see what the lock's last holder committed.
  const find = () =>
    sql<{ requestHash: Buffer; status: number; body: string }[]>`
      select request_hash, status, body
      from idempotency_records
      where company_id = ${claimed.companyId} and test_mode = ${claimed.testMode}
        and endpoint = ${claimed.endpoint} and key = ${claimed.key}
        and created_at > now() - interval '24 hours' and (leased_until is null or leased_until > now())`.execute();
  const verdictOn = (record: { requestHash: Buffer; status: number; body: string }): Verdict =>
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
    if (record) return verdictOn(record);
    if (!lock) throw new Error('an Idempotency-Key is claimed in a company that does not exist');
    if (lock.locked) return { kind: 'ours' };
    const holding = sql<{ hasBody: boolean | null }[]>`
      select holder_has_body(${keyLock}::bigint, ${bodyLock}::bigint) as has_body
      from companies where id = ${claimed.companyId}`;
    // The holder may have come after the one that ran the call, and only be reading its answer; that answer then decides.
    const [[holder], [late]] = await Promise.all([holding.execute(), find()]);
    if (late) return verdictOn(late);
    // No holder any more: it has just finished, so its answer is there to be found.
    if (!holder || holder.hasBody === null) continue;
    if (holder.hasBody) return { kind: 'in_progress' };
    // A holder that ends gives its locks back one after the other: only who is seen twice without this body has another.
    otherBodies += 1;
    if (otherBodies === 2) return { kind: 'conflict' };
  }
  return { kind: 'in_progress' };
}

/** In place of a status, while a call holds its key and no connection. */
const running = 0;
/** Seconds after which a call that holds its key so is thought to be dead. */
const heldSeconds = 60;

/** Holds a claimed key beyond the end of the transaction, for a call that goes on without one. */
export async function hold(sql: Sql, { companyId, testMode, endpoint, key, requestHash }: Claim): Promise<void> {
  await sql`
    insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at, leased_until)
    values (${companyId}, ${testMode}, ${endpoint}, ${key}, ${requestHash}, ${running}, '', now(), now() + ${heldSeconds} * interval '1 second')
    on conflict (company_id, test_mode, endpoint, key) do update
    set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body, created_at = excluded.created_at,
      leased_until = excluded.leased_until`.execute();
}

/** Extends the lease of a key that is held, for a call that suspends its transaction again. */
export async function renewHold(sql: Sql, { companyId, testMode, endpoint, key, requestHash }: Claim): Promise<void> {
  await sql`
    update idempotency_records set leased_until = now() + ${heldSeconds} * interval '1 second'
    where company_id = ${companyId} and test_mode = ${testMode} and endpoint = ${endpoint} and key = ${key}
      and status = ${running} and request_hash = ${requestHash}`.execute();
}

/** Gives back a key that was held, where its call has no answer that is kept; sent at once. */
export async function letGo(sql: Sql, { companyId, testMode, endpoint, key }: Claim): Promise<void> {
  await sql`
    delete from idempotency_records
    where company_id = ${companyId} and test_mode = ${testMode} and endpoint = ${endpoint} and key = ${key} and status = ${running}`.execute();
}

/**
 * Keeps an answer. A record older than 24 hours that the sweep has not reached gives way.
 * @param isFirst nothing is kept of the key, as its holder knows: to find that out once more costs a third of the statement
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

/** Removes answers that are past their time. @returns how many, at most the limit */
export async function sweep(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptHours * 3_600_000);
  const due = await sql<{ companyId: string; testMode: boolean; endpoint: string; key: string }[]>`
    select company_id, test_mode, endpoint, key
    from idempotency_records where created_at < ${before} order by created_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    // The age again: a key that was used anew has a new answer.
    const removed = await sql`
      delete from idempotency_records r
      using jsonb_to_recordset(${sql.json(rows as never)}) as due ("testMode" boolean, endpoint text, key text)
      where r.company_id = ${companyId} and r.test_mode = due."testMode" and r.endpoint = due.endpoint and r.key = due.key
        and r.created_at < ${before}`;
    return removed.count;
  });
}

function locksOf({ companyId, testMode, endpoint, key, requestHash }: Claim): { keyLock: string; bodyLock: string } {
  const scope = [companyId, String(testMode), endpoint, key];
  return { keyLock: lockId(scope), bodyLock: lockId([...scope, requestHash.toString('hex')]) };
}

/** 63 bits of a digest: the range of PostgreSQL's advisory locks. The same in all versions, which may run side by side. */
function lockId(parts: readonly string[]): string {
  return (BigInt(`0x${hash('sha256', parts.join('\n'), 'hex').slice(0, 16)}`) >> 1n).toString();
}
