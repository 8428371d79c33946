// Tells of API keys that are about to expire, once for each key and time.
import { type ExpiringKey, findExpiringKeys, noteExpiryTold } from '../../db/access/expiring-keys.ts';
import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool } from '../../db/client/pool.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

export interface ExpiringKeysPools {
  /** Finds the keys. */
  platform: Pool;
  /** Everything else, bound to one tenant at a time. */
  tenants: Pool;
}

/** Milliseconds between two rounds. */
const every = 60_000;
/** Milliseconds before it expires that a key is told of. */
const notice = 7 * 86_400_000;
/** Keys that are found at once. */
const batch = 100;
/** Milliseconds after which a transaction is given up. */
const patience = 3000;

/** Starts the rounds. @returns a function that stops them, once the transaction on its way has ended or a few seconds have passed */
export function startExpiringKeys(pools: ExpiringKeysPools, log: Log): () => Promise<void> {
  const round = async (stop: AbortSignal): Promise<void> => {
    const told = await tellExpiringKeys(pools, log, new Date(), stop);
    if (told > 0) log.info({ keys: told }, 'told of API keys that expire soon');
  };
  return everyRound(every, round, log.child({ job: 'expiring keys' }));
}

/** Tells of all that are due. Servers may do so at the same time. @returns of how many */
export async function tellExpiringKeys(
  { platform, tenants }: ExpiringKeysPools,
  log: Log,
  now: Date,
  stop?: AbortSignal,
): Promise<number> {
  const until = new Date(now.getTime() + notice);
  const failed = new Set<string>();
  let told = 0;
  for (;;) {
    const keys = await platform.use((sql) => findExpiringKeys(sql, now, until, [...failed], batch));
    for (const key of keys) {
      if (stop?.aborted) return told;
      try {
        if (await tell(tenants, key, now)) told += 1;
      } catch (error) {
        // The keys of other companies do not wait for those of one that fails.
        failed.add(key.companyId);
        log.warn({ company: key.companyId, err: { message: (error as Error).message } }, 'a key could not be told of');
      }
    }
    if (keys.length < batch) return told;
  }
}

function tell(tenants: Pool, key: ExpiringKey, now: Date): Promise<boolean> {
  const { companyId, testMode, id, name, expiresAt } = key;
  return inTransaction(tenants, { companyId, testMode }, patience, async (sql, note) => {
    if (!(await noteExpiryTold(sql, key))) return false;
    note({
      companyId,
      testMode,
      event: 'api_key.expiring',
      occurredAt: now,
      actor: { kind: 'system', id: 'api_key', name: null },
      requestId: null,
      data: { api_key_id: id, name, expires_at: expiresAt.toISOString(), occurred_at: now.toISOString() },
    });
    return true;
  });
}
