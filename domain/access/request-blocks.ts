// Blocks of the request log: many requests of one company in one row, because rows are expensive.
import type { LoggedRequest, RequestSummary } from './logged-requests.ts';
import { toHighestId, toRequestTime } from './request-ids.ts';

/** Maximum milliseconds between the first and the last request of a block. */
const maxBlockMs = 2000;
/** Maximum number of requests in a block. */
const maxBlockRequests = 500;
/** Characters of bodies and errors after which a block has no further request. */
const maxDetailLength = 131_072;

/** A row of the table request_log. */
export interface RequestBlock {
  company_id: string;
  test_mode: boolean;
  /** The highest id of a request of the block. */
  id: string;
  /** The lowest id. */
  first_id: string;
  has_failures: boolean;
  /** The terms of all requests. */
  terms: string[];
  /** JSON text: what requests have in common, and each request. */
  requests: string;
  /** JSON text: bodies and errors by the id of the request; null if there are none. */
  details: string | null;
}

/** A filter of the log, which is part of the terms of each matching request. */
export const toTerm = {
  method: (method: string): string => `method:${method}`,
  operation: (operation: string): string => `operation:${operation}`,
  /** @param status a status, or a class such as 4xx */
  status: (status: number | string): string => `status:${status}`,
  errorCode: (code: string): string => `error:${code}`,
  apiKey: (id: string): string => `key:${id}`,
  actor: (id: string): string => `actor:${id}`,
};

/** What the requests of one client with the same result have in common, in a fixed order. */
type Shared = [
  method: string,
  operation: string,
  status: number,
  errorCode: string | null,
  actorKind: LoggedRequest['actorKind'],
  actorId: string,
  keyName: string | null,
  ip: string,
  userAgent: string | null,
  idempotentReplay: boolean,
];

/** A request: its id, path and duration, and the index of what it shares. */
type Entry = [id: string, path: string, durationMs: number, shared: number];

interface StoredRequests {
  shared: Shared[];
  requests: Entry[];
}

/** Bodies and errors by the id of the request. */
type Details = Record<string, Pick<LoggedRequest, 'requestBody' | 'error'>>;

/**
 * Returns the blocks of some requests. A request that took long began earlier than the others, so
 * it gets a block of its own: the times of a block are always close together.
 */
export function toBlocks(requests: readonly LoggedRequest[]): RequestBlock[] {
  const blocks: RequestBlock[] = [];
  const tenants = Map.groupBy(requests, ({ companyId, testMode }) => `${companyId}${testMode}`);
  for (const own of tenants.values()) {
    own.sort((a, b) => (a.id < b.id ? -1 : 1));
    let start = 0;
    let length = 0;
    let highest = '';
    for (const [index, { id, requestBody, error }] of own.entries()) {
      if (id > highest || index - start >= maxBlockRequests || length >= maxDetailLength) {
        if (index > start) blocks.push(toBlock(own.slice(start, index)));
        start = index;
        length = 0;
        highest = toHighestIdOfBlock(id);
      }
      length += (requestBody?.length ?? 0) + (error?.length ?? 0);
    }
    blocks.push(toBlock(own.slice(start)));
  }
  return blocks;
}

/** Returns the highest last id of a block that contains a request. */
export const toHighestIdOfBlock = (id: string): string => toHighestId(toRequestTime(id) + maxBlockMs);

/** @param requests those of one tenant, at least one, in the order of their ids */
function toBlock(requests: readonly LoggedRequest[]): RequestBlock {
  const [first, last] = [requests[0], requests.at(-1)] as [LoggedRequest, LoggedRequest];
  const numbers = new Map<string, number>();
  const terms = new Set<string>();
  const entries: string[] = [];
  const details: Details = {};
  let hasFailures = false;
  let hasDetails = false;
  for (const request of requests) {
    const shared = toShared(request);
    const text = JSON.stringify(shared);
    let number = numbers.get(text);
    if (number === undefined) {
      number = numbers.size;
      numbers.set(text, number);
      for (const term of readTerms(shared)) terms.add(term);
    }
    const { id, path, durationMs, status, requestBody, error } = request;
    entries.push(JSON.stringify([id, path, durationMs, number] satisfies Entry));
    if (status >= 400) hasFailures = true;
    if (requestBody === null && error === null) continue;
    details[id] = { requestBody, error };
    hasDetails = true;
  }
  return {
    company_id: first.companyId,
    test_mode: first.testMode,
    id: last.id,
    first_id: first.id,
    has_failures: hasFailures,
    terms: [...terms],
    requests: `{"shared":[${[...numbers.keys()].join()}],"requests":[${entries.join()}]}`,
    details: hasDetails ? JSON.stringify(details) : null,
  };
}

function toShared(request: LoggedRequest): Shared {
  const { method, operation, status, errorCode, actorKind, actorId, keyName, ip, userAgent, idempotentReplay } =
    request;
  return [method, operation, status, errorCode, actorKind, actorId, keyName, ip, userAgent, idempotentReplay];
}

function readTerms([method, operation, status, errorCode, actorKind, actorId]: Shared): string[] {
  const terms = [
    toTerm.method(method),
    toTerm.operation(operation),
    toTerm.status(status),
    toTerm.status(`${Math.floor(status / 100)}xx`),
    toTerm.actor(actorId),
  ];
  if (errorCode !== null) terms.push(toTerm.errorCode(errorCode));
  if (actorKind === 'api_key') terms.push(toTerm.apiKey(actorId));
  return terms;
}

/** The text with which the entry of a request begins. No other part of a block contains it. */
export const toEntryStart = (id: string): string => `["${id}",`;

/**
 * Returns the requests of a block that have all terms, in no particular order, and how many the
 * block has.
 * @param requests the text of a block
 */
export function readBlock(
  requests: string,
  terms: readonly string[] = [],
): { matching: RequestSummary[]; count: number } {
  const stored = JSON.parse(requests) as StoredRequests;
  const isMatch = stored.shared.map((shared) => {
    const own = readTerms(shared);
    return terms.every((term) => own.includes(term));
  });
  const matching = stored.requests
    .filter(([, , , number]) => isMatch[number])
    .map((entry) => toSummary(entry, stored.shared[entry[3]] as Shared));
  return { matching, count: stored.requests.length };
}

function toSummary([id, path, durationMs]: Entry, shared: Shared): RequestSummary {
  const [method, operation, status, errorCode, actorKind, actorId, keyName, ip, userAgent, idempotentReplay] = shared;
  const caller = { actorKind, actorId, keyName, ip, userAgent };
  return { id, method, path, operation, status, errorCode, durationMs, ...caller, idempotentReplay };
}

/** Returns the body and the error of a request of a block. */
export function readDetails(details: string | null, id: string): Details[string] {
  const stored = details === null ? {} : (JSON.parse(details) as Details);
  return stored[id] ?? { requestBody: null, error: null };
}
