// Texts of records that were written are put where the search finds them.

import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool } from '../../db/client/pool.ts';
import { findDueChanges, putIntoBlocks, type WaitingChanges } from '../../db/reports/search-blocks.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

export interface SearchPools {
  /** Finds where changes wait. */
  platform: Pool;
  /** Everything else, bound to one tenant at a time. */
  tenants: Pool;
}

/** Milliseconds between two rounds; a search looks itself at what waits. */
const every = 1000;
/** Milliseconds after which a transaction is given up. */
const patience = 5000;

/**
 * Starts the rounds.
 * @returns a function that stops them, once the transaction on its way has ended or a few seconds have passed
 */
export function startSearch(pools: SearchPools, log: Log): () => Promise<void> {
  let end: WaitingChanges | undefined;
  const round = async (stop: AbortSignal): Promise<void> => {
    end = await runSearchRound(pools, log, end, new Date(), stop);
  };
  return everyRound(every, round, log.child({ job: 'search' }));
}

/**
 * Puts what is due into blocks, of as many objects as a round looks at.
 * @param after where the round before ended @returns where this one ended; undefined: it has seen all
 */
export async function runSearchRound(
  pools: SearchPools,
  log: Log,
  after: WaitingChanges | undefined,
  now: Date,
  stop?: AbortSignal,
): Promise<WaitingChanges | undefined> {
  const { due, end } = await pools.platform.use((sql) => findDueChanges(sql, after, now));
  for (const { object, ...scope } of due) {
    try {
      for (let isMore = true; isMore && !stop?.aborted; )
        isMore = await inTransaction(pools.tenants, scope, patience, (sql) => putIntoBlocks(sql, scope, object));
    } catch (error) {
      // Those of other companies do not wait for it.
      log.warn(
        { company: scope.companyId, err: { message: (error as Error).message } },
        'texts could not be made searchable',
      );
    }
  }
  return end;
}
