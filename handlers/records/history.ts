// The history of a record: its rows of the audit log.
import { type AuditPlace, listAuditLogs } from '../../db/access/audit-logs.ts';
import { toAuditLog } from '../../domain/access/audit-view.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readRecordPage } from '../../services/records/open-record.ts';

export const listRecordHistory: Handler<'listRecordHistory'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const filter = { object: path.object, recordId: path.id };
  const { rows, ...rest } = await readRecordPage(
    call,
    'history',
    async (after: AuditPlace | undefined, limit) =>
      (await listAuditLogs(sql, caller, filter, after, limit, limit)).rows,
    (row): AuditPlace => [row.occurredAt.toISOString(), row.id],
  );
  return { status: 200, data: { history: rows.map(toAuditLog), ...rest } };
};
