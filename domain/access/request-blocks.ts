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

/** Values that requests of one client with the same result share, in a fixed order. */
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

/** The requests of a workspace and mode that wait to be written. */
export interface WaitingTenant {
  companyId: string;
  testMode: boolean;
  /** The shared values, each with its number. */
  shared: Map<string, number>;
  /** The latest of them: the next request usually shares the same. */
  last: { shared: Shared; number: number } | undefined;
  details: Details;
}

/** A request that is taken from the queue. */
export interface Taken {
  id: string;
  /** The entry without its last element. */
  text: string;
  shared: number;
}

/** Returns the number of what a request shares with others of its tenant. */
export function findShared(tenant: WaitingTenant, request: LoggedRequest): number {
  if (tenant.last && sharesAll(tenant.last.shared, request)) return tenant.last.number;
  const shared = toShared(request);
  const text = JSON.stringify(shared);
  const number = tenant.shared.get(text) ?? tenant.shared.size;
  tenant.shared.set(text, number);
  tenant.last = { shared, number };
  return number;
}

/** Returns the blocks of the requests of one tenant. */
export function toBlocks(tenant: WaitingTenant, requests: Taken[]): RequestBlock[] {
  requests.sort((a, b) => (a.id < b.id ? -1 : 1));
  const shared = [...tenant.shared.keys()];
  const blocks: RequestBlock[] = [];
  let start = 0;
  let length = 0;
  let highest = '';
  for (const [index, { id }] of requests.entries()) {
    if (id > highest || index - start >= maxBlockRequests || length >= maxDetailLength) {
      if (index > start) blocks.push(toBlock(tenant, shared, requests.slice(start, index)));
      start = index;
      length = 0;
      highest = toHighestIdOfBlock(id);
    }
    const details = tenant.details[id];
    if (details) length += (details.requestBody?.length ?? 0) + (details.error?.length ?? 0);
  }
  blocks.push(toBlock(tenant, shared, requests.slice(start)));
  return blocks;
}

/** Returns the highest last id of a block that contains a request. */
export const toHighestIdOfBlock = (id: string): string => toHighestId(toRequestTime(id) + maxBlockMs);

/** @param requests at least one, in the order of their ids */
function toBlock(tenant: WaitingTenant, shared: readonly string[], requests: readonly Taken[]): RequestBlock {
  const [first, last] = [requests[0], requests.at(-1)] as [Taken, Taken];
  // Numbers in the block by numbers in the tenant.
  const numbers = new Map<number, number>();
  const entries: string[] = [];
  const details: Details = {};
  for (const { id, text, shared: number } of requests) {
    let own = numbers.get(number);
    if (own === undefined) {
      own = numbers.size;
      numbers.set(number, own);
    }
    entries.push(`${text},${own}]`);
    const ownDetails = tenant.details[id];
    if (ownDetails) details[id] = ownDetails;
  }
  const texts = [...numbers.keys()].map((number) => shared[number] as string);
  const values = texts.map((text) => JSON.parse(text) as Shared);
  return {
    company_id: tenant.companyId,
    test_mode: tenant.testMode,
    id: last.id,
    first_id: first.id,
    has_failures: values.some(([, , status]) => status >= 400),
    terms: [...new Set(values.flatMap(readTerms))],
    requests: `{"shared":[${texts.join()}],"requests":[${entries.join()}]}`,
    details: Object.keys(details).length > 0 ? JSON.stringify(details) : null,
  };
}

function toShared(request: LoggedRequest): Shared {
  const { method, operation, status, errorCode, actorKind, actorId, keyName, ip, userAgent, idempotentReplay } =
    request;
  return [method, operation, status, errorCode, actorKind, actorId, keyName, ip, userAgent, idempotentReplay];
}

function sharesAll(shared: Shared, request: LoggedRequest): boolean {
  return (
    shared[0] === request.method &&
    shared[1] === request.operation &&
    shared[2] === request.status &&
    shared[3] === request.errorCode &&
    shared[4] === request.actorKind &&
    shared[5] === request.actorId &&
    shared[6] === request.keyName &&
    shared[7] === request.ip &&
    shared[8] === request.userAgent &&
    shared[9] === request.idempotentReplay
  );
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

/**
 * Returns the text with which the entry of a request begins. No other part of a block contains it.
 */
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
