// The audit log, for administrators of a workspace.
import {
  type AuditFilter,
  type AuditLogRow,
  type AuditPlace,
  listAuditLogs as listStored,
} from '../../db/access/audit-logs.ts';
import { intersectWindows, toRequestWindow } from '../../domain/access/audit-search.ts';
import { toAuditLog } from '../../domain/access/audit-view.ts';
import { buildProblem, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { clampPageLimit } from '../../runtime/paging.ts';

/** The rows that one statement scans for rare ones, and the number of such statements per call. */
const scanSize = 5000;
const maxScans = 10;

export const listAuditLogs: Handler<'listAuditLogs'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { cursors } = call.services;
  const { actor_id, action, object, record_id, request_id, from, to } = query;
  const asked = [actor_id, action, object, record_id, request_id, from, to];
  const filter = toFilter(call);
  const limit = clampPageLimit(query.limit);
  const list = JSON.stringify([caller.companyId, caller.testMode, 'audit-logs', asked]);
  const start = query.cursor === undefined ? undefined : (cursors.decode(query.cursor, list) as unknown as AuditPlace);
  const { rows, reached } = await search(call, filter, start, limit);
  const more = reached !== undefined;
  return {
    status: 200,
    data: {
      audit_logs: rows.map(toAuditLog),
      next_cursor: more ? cursors.encode([...reached], list) : null,
      has_more: more,
    },
  };
};

/** @throws ApiError 400 if the window ends before it begins */
function toFilter({ request: { query } }: Call<'listAuditLogs'>): AuditFilter {
  const [from, to] = [query.from, query.to].map((time) => (time === undefined ? undefined : new Date(time)));
  if (from && to && from > to)
    throw validationFailed([buildProblem('to', 'OUT_OF_RANGE', 'to must not be before from')], 400);
  const window =
    query.request_id === undefined ? { from, to } : intersectWindows({ from, to }, toRequestWindow(query.request_id));
  return {
    actorId: query.actor_id,
    action: query.action,
    object: query.object,
    recordId: query.record_id,
    requestId: query.request_id,
    ...window,
  };
}

/** Scans the log until a page is full, the log ends, or the call has scanned enough. */
async function search(
  { caller, db: { sql } }: Call<'listAuditLogs'>,
  filter: AuditFilter,
  start: AuditPlace | undefined,
  limit: number,
): Promise<{ rows: AuditLogRow[]; reached: AuditPlace | undefined }> {
  const { actorId, action, object, requestId } = filter;
  const isPlain = [actorId, action, object, requestId].every((asked) => asked === undefined);
  const rows: AuditLogRow[] = [];
  let place = start;
  for (let round = 0; round < maxScans; round += 1) {
    // One more than the page has, to find out if there is another page.
    const wanted = limit + 1 - rows.length;
    const found = await listStored(sql, caller, filter, place, wanted, isPlain ? wanted : scanSize);
    rows.push(...found.rows);
    if (rows.length > limit) {
      const last = rows[limit - 1] as AuditLogRow;
      return { rows: rows.slice(0, limit), reached: [last.occurredAt.toISOString(), last.id] };
    }
    place = found.reached;
    if (place === undefined) break;
  }
  return { rows, reached: place };
}
