// The request log, for those who debug calls of a workspace.
import {
  type BlockFilter,
  findAuditLogsOfRequest,
  findBlock,
  findBlocks,
  findUserNames,
} from '../../db/access/requests.ts';
import { findDeliveriesOfEvents } from '../../db/automation/webhook-deliveries.ts';
import { findEventsOfRequest } from '../../db/records/feed.ts';
import type { RequestSummary } from '../../domain/access/logged-requests.ts';
import {
  readBlock,
  readDetails,
  toEntryStart,
  toHighestIdOfBlock,
  toTerm,
} from '../../domain/access/request-blocks.ts';
import { toHighestId, toLowestId, toRequestTime } from '../../domain/access/request-ids.ts';
import { toEventId } from '../../domain/automation/webhook-bodies.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { clampPageLimit } from '../../runtime/paging.ts';

/** The blocks of the log that one statement scans for rare requests. */
const scanLimit = 2000;
/** The blocks that the first statements of a call read. One block can have all requests of a page. */
const blockLimits = [5, 20];
/** The blocks that each further statement reads. */
const maxBlocks = 40;
/** A call ends after so many statements, or requests that it has read. */
const maxScans = 10;
const maxRead = 50_000;
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
  const filter = toFilter(call);
  const start = cursor === undefined ? undefined : String(cursors.decode(cursor, list)[0]);
  const { requests, reached } = await search(call, filter, start, limit);
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

/** Filters of the list. Both ids are inclusive. */
interface RequestFilter {
  terms: string[];
  /** True if only failed requests can match, which have an index. */
  failuresOnly: boolean;
  /** The beginning of the path. */
  path: string;
  lowestId: string;
  highestId: string;
}

/** @throws ApiError 400 if the window ends before it begins */
function toFilter({ request: { query } }: Call<'listRequests'>): RequestFilter {
  const { method, operation, status, error_code, api_key_id, actor_id, path = '', from, to } = query;
  if (from !== undefined && to !== undefined && new Date(from) > new Date(to))
    throw validationFailed([buildProblem('to', 'OUT_OF_RANGE', 'to must not be before from')], 400);
  const terms: string[] = [];
  if (method !== undefined) terms.push(toTerm.method(method));
  if (operation !== undefined) terms.push(toTerm.operation(operation));
  if (status !== undefined) terms.push(toTerm.status(status));
  if (error_code !== undefined) terms.push(toTerm.errorCode(error_code));
  if (api_key_id !== undefined) terms.push(toTerm.apiKey(api_key_id));
  if (actor_id !== undefined) terms.push(toTerm.actor(actor_id));
  return {
    terms,
    failuresOnly: error_code !== undefined || /^[45]/.test(status ?? ''),
    path,
    lowestId: from === undefined ? firstId : toLowestId(Date.parse(from)),
    highestId: to === undefined ? lastId : toHighestId(Date.parse(to)),
  };
}

const firstId = toLowestId(0);
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/**
 * Reads blocks until a page is full, the log ends, or the call has read enough.
 * @param start the last request of the previous page
 * @returns requests, the newest first, and the id from which the next page continues, exclusive
 */
async function search(
  { caller, db: { sql } }: Call<'listRequests'>,
  { path, ...filter }: RequestFilter,
  start: string | undefined,
  limit: number,
): Promise<{ requests: RequestSummary[]; reached: string | undefined }> {
  const isPlain = filter.terms.length === 0;
  const highestFirstId = start !== undefined && start < filter.highestId ? start : filter.highestId;
  const bounds: BlockFilter = { ...filter, highestFirstId, highestId: toHighestIdOfBlock(highestFirstId) };
  const isWanted = ({ id, path: own }: RequestSummary): boolean =>
    id >= filter.lowestId && id <= highestFirstId && id !== start && own.startsWith(path);
  const matching: RequestSummary[] = [];
  let before: string | undefined;
  let read = 0;
  for (let scan = 0; ; scan += 1) {
    const blockLimit = blockLimits[scan] ?? maxBlocks;
    const part = await findBlocks(sql, caller, bounds, before, blockLimit, isPlain ? blockLimit : scanLimit);
    for (const block of part.blocks) {
      const own = readBlock(block.requests, filter.terms);
      matching.push(...own.matching.filter(isWanted));
      read += own.count;
    }
    matching.sort((a, b) => (a.id < b.id ? 1 : -1));
    const { reached } = part;
    // Blocks overlap, so further blocks may have requests that are newer than the oldest ones here.
    const complete = reached === undefined ? matching : matching.filter(({ id }) => id >= reached);
    if (complete.length > limit) return { requests: complete.slice(0, limit), reached: complete[limit - 1]?.id };
    if (reached === undefined) return { requests: complete, reached };
    const isEnough = scan + 1 >= maxScans || read >= maxRead;
    if (isEnough && (start === undefined || reached < start)) return { requests: complete, reached };
    before = reached;
  }
}

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
