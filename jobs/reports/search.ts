// Indexes the texts of written records for search.
import { findDueChanges, putIntoBlocks, type WaitingChanges } from '../../db/reports/search-blocks.ts';
import type { TenantJobContext } from '../runner.ts';

/** Scans the waiting changes, a part of them in each run. */
export class SearchIndexer {
  #position: WaitingChanges | undefined;

  /**
   * Indexes the due texts into blocks.
   * @returns true if the next run continues where this one ended; false when all changes were
   * scanned
   */
  async run({ platform, transaction, batchSize, log, now, signal }: TenantJobContext): Promise<boolean> {
    const { due, end } = await platform.use((sql) => findDueChanges(sql, this.#position, batchSize, now()));
    for (const { object, ...scope } of due) {
      try {
        for (let isMore = true; isMore && !signal.aborted; )
          isMore = await transaction(scope, (sql) => putIntoBlocks(sql, scope, object));
      } catch (error) {
        // A tenant that fails does not delay others.
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
