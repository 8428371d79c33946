// The client: each operation is a method that authenticates, retries safely and throws CrmError.
import createFetchClient from 'openapi-fetch';
import { CrmError, ProposedError, toError } from './errors.ts';
import { createExports, type Exports } from './exports.ts';
import { descriptions, type Operations } from './generated/operations.ts';
import { createImports, type Imports } from './imports.ts';
import { sleep, withRetries } from './retries.ts';
import type { CallOptions, Description, Schemas } from './shapes.ts';

/** A secret, or a function that returns it before each attempt, so that it can be renewed. */
export type Credential = string | (() => string | Promise<string>);

export interface ClientOptions extends Pick<CallOptions, 'timeout' | 'retries' | 'headers' | 'onResponse'> {
  /** The address of the API, without /v1. */
  baseUrl: string;
  /** An API key, `svc_live_…` or `svc_test_…`. */
  apiKey?: Credential;
  /**
   * An OAuth access token, or the session token of a signed-in person. Ignored if an API key is
   * set.
   */
  token?: Credential;
  /** Milliseconds. A failure with a longer Retry-After is thrown immediately. */
  longestWait?: number;
  /** Replaces the global `fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface Client extends Operations {
  readonly exports: Exports;
  readonly imports: Imports;
}

/** A call without its types. */
interface Call extends CallOptions {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  idempotencyKey?: string;
  dryRun?: true;
  /** Overrides the client's value. */
  longestWait?: number;
}

/** openapi-fetch without the types of a document. The types of the methods are already checked. */
type Send = (
  method: string,
  path: string,
  options: object,
) => Promise<{ data?: unknown; error?: unknown; response: Response }>;

type Page = Record<string, unknown> & { next_cursor?: string | null; has_more?: boolean };

const defaultRetries = 3;
const defaultLongestWait = 60_000;

/** Creates a client. Public operations need no credential. */
export function createClient(options: ClientOptions): Client {
  const connection = connect(options);
  const methods = Object.entries(descriptions).map(([id, description]) => [id, methodFor(description, connection)]);
  // The generated types and descriptions come from the same document.
  const operations = Object.fromEntries(methods) as unknown as Operations;
  const fetchFile = options.fetch ?? ((request: Request) => fetch(request));
  const { retries = defaultRetries, longestWait = defaultLongestWait } = options;
  const policy = { retries, longestWait };
  return {
    ...operations,
    exports: createExports(operations, fetchFile, policy),
    imports: createImports(operations, policy),
  };
}

type Connection = (description: Description, call: Call) => Promise<unknown>;

function methodFor(description: Description, connection: Connection) {
  const { items } = description;
  const single = (call: Call = {}): Promise<unknown> => connection(description, call);
  if (items === undefined) return single;
  if (description.isEndless)
    return Object.assign(single, { follow: (call: Call = {}) => follow(connection, description, call) });
  async function* pages(call: Call = {}): AsyncGenerator<Page, void, undefined> {
    let cursor: string | null | undefined;
    do {
      const page = (await single(cursor ? { ...call, query: { ...call.query, cursor } } : call)) as Page;
      yield page;
      cursor = page.next_cursor;
    } while (cursor);
  }
  async function* all(call: Call = {}): AsyncGenerator<unknown, void, undefined> {
    for await (const page of pages({ ...call, query: { limit: 100, ...call.query } }))
      yield* page[items ?? ''] as unknown[];
  }
  return Object.assign(single, { pages, all });
}

/** Seconds that the server is asked to hold a feed request. */
const feedWaitSeconds = 30;
/** Milliseconds after that wait until the request times out. */
const feedTimeoutSlackMs = 15_000;
/** Milliseconds before the next request if the server responded immediately without news. */
const emptyFeedPauseMs = 1000;

async function* follow(
  connection: Connection,
  description: Description,
  call: Call,
): AsyncGenerator<Page, void, undefined> {
  const wait = Number(call.query?.wait ?? feedWaitSeconds);
  const patient = {
    timeout: wait * 1000 + feedTimeoutSlackMs,
    retries: Number.POSITIVE_INFINITY,
    ...call,
    longestWait: Infinity,
  };
  let cursor = call.query?.cursor as string | undefined;
  for (;;) {
    const asked = Date.now();
    // The first request returns immediately, so that the caller can store where the feed starts.
    const isBegun = cursor !== undefined && cursor !== 'now';
    const query = { ...call.query, wait: isBegun ? wait : 0, ...(cursor === undefined ? {} : { cursor }) };
    const page = (await connection(description, { ...patient, query })) as Page & { next_cursor: string };
    const isNew = page.next_cursor !== cursor;
    cursor = page.next_cursor;
    if (isNew) yield page;
    else if (Date.now() - asked < emptyFeedPauseMs) await sleep(emptyFeedPauseMs, call.signal);
  }
}

function connect(options: ClientOptions): Connection {
  const send = createFetchClient({
    baseUrl: new URL(options.baseUrl).href,
    ...(options.fetch ? { fetch: options.fetch } : {}),
    // The API never redirects, and an API key must not be sent to another host.
    redirect: 'manual',
    bodySerializer: (body) => body,
  }).request as unknown as Send;

  return async (description, call) => {
    const path = fillPath(description.path, call.path);
    const key = description.takesKey ? (call.idempotencyKey ?? crypto.randomUUID()) : undefined;
    const isDryRun = call.dryRun === true;
    if (isDryRun && !description.runsDry) throw new TypeError(`${description.path} does not support dryRun`);
    const { body, type } = await encode(call.body);
    const headers = {
      ...options.headers,
      ...call.headers,
      ...(type === undefined ? {} : { 'content-type': type }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(isDryRun ? { 'dry-run': 'true' } : {}),
    };
    const attempt = async (): Promise<unknown> => {
      const credentials = await credentialHeaders(options);
      const timeout = AbortSignal.timeout(call.timeout ?? options.timeout ?? 30_000);
      const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout;
      const answer = await send(description.method, path, {
        params: { query: call.query },
        body,
        parseAs: description.isFile ? 'blob' : 'json',
        headers: { ...headers, ...credentials },
        signal,
      }).catch((error: unknown) => {
        if (call.signal?.aborted) throw call.signal.reason;
        throw toConnectionError(error, timeout.aborted);
      });
      (call.onResponse ?? options.onResponse)?.(answer.response);
      if (!answer.response.ok) throw toError(answer.response, answer.error);
      if (description.runsDry && !isDryRun) throwIfProposed(unwrap(answer.data));
      return isDryRun ? toDryRun(answer.data) : unwrap(answer.data);
    };
    return withRetries(attempt, {
      retries: call.retries ?? options.retries ?? defaultRetries,
      longestWait: call.longestWait ?? options.longestWait ?? defaultLongestWait,
      repeatable: description.method === 'GET' || key !== undefined || isDryRun,
      signal: call.signal,
    });
  };
}

/**
 * Encodes the body once for all attempts, because the same key requires the same body, including
 * the boundary of a form.
 */
async function encode(body: unknown): Promise<{ body?: string | ArrayBuffer; type?: string | undefined }> {
  if (body === undefined) return {};
  if (body instanceof Blob) return { body: await body.arrayBuffer(), type: body.type || 'application/octet-stream' };
  if (!(body instanceof FormData || body instanceof URLSearchParams))
    return { body: JSON.stringify(body), type: 'application/json' };
  const form = new Response(body);
  return { type: form.headers.get('content-type') ?? undefined, body: await form.arrayBuffer() };
}

/** Returns the data of the envelope, or the whole body of an operation without one. */
function unwrap(body: unknown): unknown {
  const isEnvelope = typeof body === 'object' && body !== null && 'success' in body && 'data' in body;
  return isEnvelope ? body.data : body;
}

/** @throws ProposedError if a write became a change set, because its result does not exist yet */
function throwIfProposed(data: unknown): void {
  const { change_set: changeSet, already_pending: alreadyPending } = (data ?? {}) as Partial<Schemas['ProposalData']>;
  if (changeSet) throw new ProposedError(changeSet, alreadyPending === true);
}

/** Returns the data and the effects of a dry run. */
function toDryRun(body: unknown): unknown {
  const { data, meta } = body as { data: unknown; meta: { would: unknown } };
  return { data, would: meta.would };
}

async function credentialHeaders({ apiKey, token }: ClientOptions): Promise<Record<string, string>> {
  const read = (credential: Credential) => (typeof credential === 'function' ? credential() : credential);
  if (apiKey !== undefined) return { 'x-api-key': await read(apiKey) };
  if (token !== undefined) return { authorization: `Bearer ${await read(token)}` };
  return {};
}

function toConnectionError(cause: unknown, timedOut: boolean): CrmError {
  if (timedOut) return new CrmError('TIMED_OUT', 'The request timed out.', { cause });
  if (cause instanceof SyntaxError) return new CrmError('UNREADABLE_ANSWER', 'The response is not JSON.', { cause });
  return new CrmError('CONNECTION_FAILED', 'The connection failed before a response arrived.', { cause });
}

/** Fills the parameters into a path. @throws TypeError for a value that would change the path */
function fillPath(template: string, values: Record<string, unknown> = {}): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(values[name] ?? '');
    if (['', '.', '..'].includes(value)) throw new TypeError(`path.${name} must not be "${value}"`);
    return encodeURIComponent(value);
  });
}
