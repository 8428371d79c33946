// Idempotency keys: claimed by locks that end with the transaction, so that a crash frees the key, and kept in the write's own transaction.
import { hash } from 'node:crypto';
import type { Sql } from './connect.ts';

/** Hours that an answer is kept. */
export const keptHours = 24;

/** Where keepFailure returns to. */
export const savepoint = 'work';

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

export interface Answer {
  claim: Claim;
  status: number;
  body: string;
}

/**
 * Claims a key, and sets the savepoint that follows it: locks taken after a savepoint would be lost by returning to it.
 * Two locks are taken: a shared one on the key with this body, then the exclusive one on the key. Whoever
 * finds the key taken sees from the holder's other lock whether it runs the same body.
 */
export async function claim(sql: Sql, claimed: Claim): Promise<Verdict> {
  const scope = [claimed.companyId, String(claimed.testMode), claimed.endpoint, claimed.key];
  const keyLock = lockId(scope);
  const bodyLock = lockId([...scope, claimed.requestHash.toString('hex')]);
  // Always a statement of its own: it must see what the lock's last holder committed.
  const find = () =>
    sql<{ request_hash: Buffer; status: number; body: string }[]>`
      select request_hash, status, body
      from idempotency_records
      where company_id = ${claimed.companyId} and test_mode = ${claimed.testMode}
        and endpoint = ${claimed.endpoint} and key = ${claimed.key}
        and created_at > now() - interval '24 hours'`.execute();
  const verdictOn = (record: { request_hash: Buffer; status: number; body: string }): Verdict =>
    record.request_hash.equals(claimed.requestHash)
      ? { kind: 'replay', status: record.status, body: record.body }
      : { kind: 'conflict' };
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const locking = sql<{ locked: boolean }[]>`
      select pg_advisory_xact_lock_shared(${bodyLock}::bigint), pg_try_advisory_xact_lock(${keyLock}::bigint) as locked`;
    const saving = sql.unsafe(`savepoint ${savepoint}`);
    const [[lock], [record]] = await Promise.all([locking.execute(), find(), saving.execute()]);
    if (record) return verdictOn(record);
    if (lock?.locked) return { kind: 'ours' };
    const holding = sql<{ same_body: boolean }[]>`
      select exists (
        select from pg_locks other
        where other.pid = held.pid and other.locktype = 'advisory' and other.granted
          and other.classid = ((${bodyLock}::bigint >> 32) & 4294967295)::oid and other.objid = (${bodyLock}::bigint & 4294967295)::oid
      ) as same_body
      from pg_locks held
      where held.locktype = 'advisory' and held.granted and held.mode = 'ExclusiveLock'
        and held.classid = ((${keyLock}::bigint >> 32) & 4294967295)::oid and held.objid = (${keyLock}::bigint & 4294967295)::oid
      limit 1`;
    // The holder may have come after the one that ran the call, and only be reading its answer; that answer then decides.
    const [[holder], [late]] = await Promise.all([holding.execute(), find()]);
    if (late) return verdictOn(late);
    // No holder any more: it has just finished, so its answer is there to be found.
    if (holder) return { kind: holder.same_body ? 'in_progress' : 'conflict' };
  }
  return { kind: 'in_progress' };
}

/** Keeps an answer. A record older than 24 hours that the sweep has not reached gives way. */
export function save(sql: Sql, answer: Answer, now: Date): Promise<unknown> {
  const { claim: claimed } = answer;
  return sql`
    insert into idempotency_records (company_id, test_mode, endpoint, key, request_hash, status, body, created_at)
    values (${claimed.companyId}, ${claimed.testMode}, ${claimed.endpoint}, ${claimed.key}, ${claimed.requestHash}, ${answer.status}, ${answer.body}, ${now})
    on conflict (company_id, test_mode, endpoint, key) do update
    set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body, created_at = excluded.created_at`.execute();
}

/** Removes answers that are past their time. @returns how many */
export async function sweep(sql: Sql, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptHours * 3_600_000);
  const removed = await sql`
    delete from idempotency_records
    where ctid in (select ctid from idempotency_records where created_at < ${before} limit 5000)`;
  return removed.count;
}

/** 63 bits of a digest: the range of PostgreSQL's advisory locks. */
function lockId(parts: readonly string[]): string {
  return (BigInt(`0x${hash('sha256', parts.join('\n'), 'hex').slice(0, 16)}`) >> 1n).toString();
}
