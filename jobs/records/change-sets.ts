// Expires change sets that got no decision in time.
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import { expireChangeSet, findExpiredChangeSets } from '../../db/records/change-sets.ts';
import { getDueTime, type TenantJobContext } from '../runner.ts';

/** Expires all due sets in batches. A decision that comes first wins, because both lock the set. */
export async function expireChangeSets(context: TenantJobContext): Promise<void> {
  const { platform, batchSize, now, signal } = context;
  for (let last = batchSize; last === batchSize && !signal.aborted; ) {
    const due = await platform.use((sql) => findExpiredChangeSets(sql, batchSize, getDueTime(context)));
    for (const { companyId, testMode, id } of due) {
      const scope = { companyId, testMode };
      await context.transaction(scope, async (sql, emit, audit) => {
        const at = now();
        const row = await expireChangeSet(sql, { ...scope, id }, at);
        if (!row) return;
        const metadata = { change_set_id: id };
        audit(buildSystemAuditRow(scope, 'change-sets', 'change_set.expire', { metadata }, at));
        emit({
          ...scope,
          event: 'change_set.expired',
          occurredAt: at,
          actor: { kind: 'system', id: 'change-sets', name: null },
          requestId: null,
          data: {
            change_set_id: id,
            title: row.title,
            operation_count: row.operationCount,
            occurred_at: at.toISOString(),
          },
        });
      });
    }
    last = due.length;
  }
}
