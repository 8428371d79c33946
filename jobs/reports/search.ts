// Puts texts of records that were written where the search finds them.
import { findDueChanges, putIntoBlocks, type WaitingChanges } from '../../db/reports/search-blocks.ts';
import type { TenantJobContext } from '../runner.ts';

/** Scans the changes that wait, a part of them in each run. */
export class SearchIndexer {
  #position: WaitingChanges | undefined;

  /**
   * Puts what is due into blocks.
   * @returns true if the next run goes on where this one ended; false when all changes were scanned
   */
  async run({ platform, transaction, batchSize, log, now, signal }: TenantJobContext): Promise<boolean> {
    const { due, end } = await platform.use((sql) => findDueChanges(sql, this.#position, batchSize, now()));
    for (const { object, ...scope } of due) {
      try {
        for (let isMore = true; isMore && !signal.aborted; )
          isMore = await transaction(scope, (sql) => putIntoBlocks(sql, scope, object));
      } catch (error) {
        // The other tenants do not wait for it.
        log.warn(
          { company: scope.companyId, err: { message: (error as Error).message } },
          'failed to index texts for search',
        );
      }
    }
    this.#position = end;
    return end !== undefined;
  }
}
