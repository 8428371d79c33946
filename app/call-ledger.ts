// The months of companies in the database, for what a process charges ahead.
import { randomUUID } from 'node:crypto';
import { chargeCalls, renewBlock, returnBlock, saveBlock, sweepBlocksOf } from '../db/access/quota.ts';
import { inTransaction } from '../db/client/job-transactions.ts';
import type { Pool } from '../db/client/pool.ts';
import { callsPerMonth, extraCalls } from '../domain/billing/plans.ts';
import type { CallLedger } from '../runtime/limits/quota-leases.ts';

/**
 * Of one process, which is the holder of its blocks.
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
        const block = { companyId, holder, monthStart: found.monthStart, calls: found.ahead };
        return { ...found, ahead: await saveBlock(sql, block, now) };
      }),
    renew: (companyId, left) => pool.use((sql) => renewBlock(sql, companyId, holder, left, new Date())),
    giveBack: (companyId, left) => pool.use((sql) => returnBlock(sql, companyId, holder, left)),
    collect: (companyId) => pool.use((sql) => sweepBlocksOf(sql, companyId, new Date())),
  };
}
