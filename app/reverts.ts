// What the job of reverts needs: callers, and the rows of changes.
import type { Pool } from '../db/client/pool.ts';
import type { LoadShedder } from '../jobs/load-shedder.ts';
import type { RevertServices } from '../jobs/records/reverts.ts';
import { toAuditRow, toEventRows } from '../runtime/pipeline/change-rows.ts';
import { findJobCaller } from './job-callers.ts';

interface RevertParts {
  platform: Pool;
  loadShedder: LoadShedder;
  onEvents: () => void;
}

export function openReverts({ platform, loadShedder, onEvents }: RevertParts): RevertServices {
  return {
    loadShedder,
    onEvents,
    findCaller(scope, row, by) {
      const { id, module } = row;
      // A plan changes nothing.
      const scopes = row.status === 'running' ? row.scopes : [];
      const work = {
        id,
        name: 'revert',
        modules: [module],
        scopes,
        needed: [...scopes, `${module}:create`],
        isWrite: row.status === 'running',
      };
      return findJobCaller(platform, scope, by, work, new Date());
    },
    toRows(change, caller, now) {
      const context = { caller, now, idempotencyKeyHash: null };
      return { audit: toAuditRow(change, context, new Date()), events: toEventRows(change, context) };
    },
  };
}
