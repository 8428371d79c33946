// The months of companies in the database, for what a process charges ahead.
import { randomUUID } from 'node:crypto';
import { chargeCalls, renewLease, returnLease, saveLease, sweepLeasesOf } from '../db/billing/quota.ts';
import { inTransaction } from '../db/client/job-transactions.ts';
import type { Pool } from '../db/client/pool.ts';
import { callsPerMonth, extraCalls } from '../domain/billing/plans.ts';
import type { CallLedger } from '../runtime/limits/quota-leases.ts';

/**
 * Of one process, which is the holder of its leases.
 * @param patience milliseconds after which a charge is given up
 */
export function ledgerOf(pool: Pool, patience: number): CallLedger {
  const holder = randomUUID();
  return {
    charge: (companyId, calls, ahead) =>
      inTransaction(pool, 'platform', patience, async (sql) => {
        const now = new Date();
        const found = await chargeCalls(sql, companyId, holder, calls, ahead, { callsPerMonth, extraCalls }, now);
        if (!found?.ahead) return found;
        const lease = { companyId, holder, monthStart: found.monthStart, calls: found.ahead };
        return { ...found, ahead: await saveLease(sql, lease, now) };
      }),
    renew: (companyId, left) => pool.use((sql) => renewLease(sql, companyId, holder, left, new Date())),
    giveBack: (companyId, left) => pool.use((sql) => returnLease(sql, companyId, holder, left)),
    collect: (companyId) => pool.use((sql) => sweepLeasesOf(sql, companyId, new Date())),
  };
}
