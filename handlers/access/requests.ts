// The request log, for those who debug calls of a workspace.
import {
  findAuditLogsOfRequest,
  findRequest,
  listRequests as listStored,
  type RequestFilter,
  type RequestRow,
} from '../../db/access/requests.ts';
import { findDeliveriesOfEvents } from '../../db/automation/webhook-deliveries.ts';
import { findEventsOfRequest } from '../../db/records/feed.ts';
import { toHighestId, toLowestId, toRequestTime } from '../../domain/access/request-ids.ts';
import { eventName } from '../../domain/automation/webhook-bodies.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound, problem, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { pageLimit } from '../../runtime/paging.ts';

/** The rows that one statement scans for rare ones, and the number of such statements per call. */
const scanSize = 5000;
const maxScans = 10;
/** Maximum number of ids of each kind that a request lists. */
const maxEffects = 100;
/** Milliseconds by which clocks of servers and the database may differ. */
const clockToleranceMs = 10_000;
/** Milliseconds after a request in which its deliveries are looked for, and how many are scanned. */
const deliveryWindowMs = 5 * 60_000;
const deliveryScan = 10_000;

export const listRequests: Handler<'listRequests'> = async (call) => {
  const { caller } = call;
  const { cursor, limit: _, ...asked } = call.request.query;
  const { cursors } = call.services;
  const limit = pageLimit(call.request.query.limit);
  const list = JSON.stringify([caller.companyId, caller.testMode, 'requests', Object.entries(asked).sort()]);
  const filter = toFilter(call);
  const start = cursor === undefined ? undefined : String(cursors.decode(cursor, list)[0]);
  const { rows, reached } = await search(call, filter, start, limit);
  return {
    status: 200,
    data: {
      requests: rows.map(toRequestResponse),
      next_cursor: reached === undefined ? null : cursors.encode([reached], list),
      has_more: reached !== undefined,
    },
  };
};

export const getRequest: Handler<'getRequest'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const row = orNotFound(await findRequest(sql, caller, call.request.path.id));
  const { id } = row;
  const began = toRequestTime(id);
  const ended = began + Number(row.durationMs);
  const window = { from: new Date(began - clockToleranceMs), to: new Date(ended + clockToleranceMs) };
  const [auditLogs, events] = await Promise.all([
    findAuditLogsOfRequest(sql, caller, id, window, maxEffects),
    findEventsOfRequest(sql, caller, id, maxEffects),
  ]);
  const between = [toLowestId(began - clockToleranceMs), toHighestId(Math.ceil(ended) + deliveryWindowMs)] as const;
  const deliveries =
    events.length === 0 ? [] : await findDeliveriesOfEvents(sql, caller, events, between, deliveryScan, maxEffects);
  return {
    status: 200,
    data: {
      request: {
        ...toRequestResponse(row),
        error: row.error === null ? null : JSON.parse(row.error),
        request_body: row.requestBody,
        audit_logs: auditLogs,
        events: events.map(eventName),
        deliveries,
      },
    },
  };
};

/** @throws ApiError 400 if the window ends before it begins */
function toFilter({ request: { query } }: Call<'listRequests'>): RequestFilter {
  const { method, operation, status, error_code, api_key_id, actor_id, path, from, to } = query;
  if (from !== undefined && to !== undefined && new Date(from) > new Date(to))
    throw validationFailed([problem('to', 'OUT_OF_RANGE', 'to must not be before from')], 400);
  return {
    method,
    operation,
    status: status === undefined ? undefined : toStatusRange(status),
    errorCode: error_code,
    apiKeyId: api_key_id,
    actorId: actor_id,
    path,
    lowestId: from === undefined ? undefined : toLowestId(Date.parse(from)),
    highestId: to === undefined ? undefined : toHighestId(Date.parse(to)),
  };
}

/** @param status a status, or a class such as 4xx */
function toStatusRange(status: string): { from: number; to: number } {
  return { from: Number(status.replace('xx', '00')), to: Number(status.replace('xx', '99')) };
}

/** Scans the log until a page is full, the log ends, or the call has scanned enough. */
async function search(
  { caller, db: { sql } }: Call<'listRequests'>,
  filter: RequestFilter,
  start: string | undefined,
  limit: number,
): Promise<{ rows: RequestRow[]; reached: string | undefined }> {
  const { lowestId: _, highestId: __, ...others } = filter;
  const isPlain = Object.values(others).every((value) => value === undefined);
  const rows: RequestRow[] = [];
  let place = start;
  for (let round = 0; round < maxScans; round += 1) {
    // One more than the page has, to find out if there is another page.
    const wanted = limit + 1 - rows.length;
    const found = await listStored(sql, caller, filter, place, wanted, isPlain ? wanted : scanSize);
    rows.push(...found.rows);
    if (rows.length > limit) return { rows: rows.slice(0, limit), reached: rows[limit - 1]?.id };
    place = found.reached;
    if (place === undefined) break;
  }
  return { rows, reached: place };
}

function toRequestResponse(row: RequestRow): components['schemas']['RequestSummary'] {
  const { actor } = row;
  return {
    id: row.id,
    at: new Date(toRequestTime(row.id)).toISOString(),
    method: row.method,
    path: row.path,
    operation: row.operation,
    status: row.status,
    error_code: row.errorCode,
    duration_ms: Number(row.durationMs),
    actor,
    api_key_id: actor.kind === 'api_key' ? actor.id : null,
    ip: row.ip,
    user_agent: row.userAgent,
    idempotent_replay: row.idempotentReplay,
    test_mode: row.testMode,
  };
}
