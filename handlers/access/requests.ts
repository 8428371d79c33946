// The request log, for those who debug calls of a workspace.
import { findAuditLogsOfRequest, findBlock, findUserNames } from '../../db/access/requests.ts';
import { findDeliveriesOfEvents } from '../../db/automation/webhook-deliveries.ts';
import { findEventsOfRequest } from '../../db/records/feed.ts';
import type { RequestSummary } from '../../domain/access/logged-requests.ts';
import { readBlock, readDetails, toEntryStart, toHighestIdOfBlock } from '../../domain/access/request-blocks.ts';
import { toHighestId, toLowestId, toRequestTime } from '../../domain/access/request-ids.ts';
import { toEventId } from '../../domain/automation/webhook-bodies.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { clampPageLimit } from '../../runtime/paging.ts';
import { searchRequests, toRequestFilter } from '../../services/access/request-search.ts';

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
  const limit = clampPageLimit(call.request.query.limit);
  const list = JSON.stringify([caller.companyId, caller.testMode, 'requests', Object.entries(asked).sort()]);
  const filter = toRequestFilter(call.request.query);
  const start = cursor === undefined ? undefined : String(cursors.decode(cursor, list)[0]);
  const { requests, reached } = await searchRequests(call, filter, start, limit);
  const users = new Set(requests.filter(({ actorKind }) => actorKind === 'user').map(({ actorId }) => actorId));
  const names = users.size === 0 ? noNames : await findUserNames(call.db.sql, caller.companyId, [...users]);
  return {
    status: 200,
    data: {
      requests: requests.map((request) => toRequestResponse(request, caller.testMode, names)),
      next_cursor: reached === undefined ? null : cursors.encode([reached], list),
      has_more: reached !== undefined,
    },
  };
};

export const getRequest: Handler<'getRequest'> = async (call) => {
  const { caller } = call;
  const { sql } = call.db;
  const id = orNotFound(toUuid(call.request.path.id));
  const block = orNotFound(await findBlock(sql, caller, [id, toHighestIdOfBlock(id)], toEntryStart(id)));
  const request = orNotFound(readBlock(block.requests).matching.find((each) => each.id === id));
  const { error, requestBody } = readDetails(block.details, id);
  const names = request.actorKind === 'user' ? await findUserNames(sql, caller.companyId, [request.actorId]) : noNames;
  const began = toRequestTime(id);
  const ended = began + request.durationMs;
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
        ...toRequestResponse(request, caller.testMode, names),
        error: error === null ? null : JSON.parse(error),
        request_body: requestBody,
        audit_logs: auditLogs,
        events: events.map(toEventId),
        deliveries,
      },
    },
  };
};

const noNames: ReadonlyMap<string, string> = new Map();

function toRequestResponse(
  request: RequestSummary,
  testMode: boolean,
  names: ReadonlyMap<string, string>,
): components['schemas']['RequestSummary'] {
  const { actorKind: kind, actorId } = request;
  return {
    id: request.id,
    at: new Date(toRequestTime(request.id)).toISOString(),
    method: request.method,
    path: request.path,
    operation: request.operation,
    status: request.status,
    error_code: request.errorCode,
    duration_ms: request.durationMs,
    actor: { kind, id: actorId, name: kind === 'user' ? (names.get(actorId) ?? null) : request.keyName },
    api_key_id: kind === 'api_key' ? actorId : null,
    ip: request.ip,
    user_agent: request.userAgent,
    idempotent_replay: request.idempotentReplay,
    test_mode: testMode,
  };
}
