// The way of a request, the same for every operation: route, authenticate, authorize, read, validate, replay, run, answer.
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { bodyLimits } from '../domain/request-limits.ts';
import {
  type Authenticated,
  anonymous,
  authenticate,
  type Credential,
  type RequestFacts,
  readCredential,
} from './authentication.ts';
import { authorize } from './authorization.ts';
import type { BearerTokens } from './bearer-tokens.ts';
import { ClientGone, checkMediaType, parseJson, readBytes } from './body.ts';
import { admit, type CallParts, CallState, type Trace } from './call-state.ts';
import { clientAddressReader } from './client-address.ts';
import { Deadline, DeadlinePassed } from './deadline.ts';
import { deprecationHeaders, usedInBody, usedInQuery } from './deprecation.ts';
import type { Operation } from './document.ts';
import { failureBody, oauthFailureBody, successBody } from './envelope.ts';
import { ApiError, conflict, type FieldProblem, serviceUnavailable } from './errors.ts';
import type { Caller } from './handler.ts';
import { claimOf, isKept, readKey, refuseOthers } from './idempotency.ts';
import type { Log, RequestLine } from './log.ts';
import { PreparedBody } from './prepared-body.ts';
import { admitToQuota, QuotaAlarm } from './quota.ts';
import type { RateFigures } from './rate-limits.ts';
import { buildRouter } from './router.ts';
import { sha256 } from './secrets.ts';
import type { IdempotencyClaim, Scope } from './store.ts';
import { checkBody, checkParameters, refusal } from './validation.ts';

/** Milliseconds of no progress, once or twice in a row, after which a client that does not read its answer is cut off. */
const stalledWrite = 7000;
/** Milliseconds that an answered client may go on sending before its connection is closed. */
const lingerTime = 1000;

/** A page that is not part of the API: method GET, no credential, no envelope. */
export interface Page {
  contentType: string;
  body: PreparedBody;
  headers: Record<string, string>;
}

export interface ServerParts extends CallParts {
  /** By operationId; typed as Handlers where they are joined. */
  handlers: Readonly<Record<string, (call: never) => Promise<unknown>>>;
  log: Log;
  noteRequest: (line: RequestLine) => void;
  bearerTokens: BearerTokens;
  /** Requests that are being answered. */
  inFlight: { requests: number };
  trustedProxies: readonly string[];
  /** The public `apikey` that the identity provider's routes ask for, if any. */
  anonKey: string | undefined;
  pages: Readonly<Record<string, Page>>;
}

interface Answer {
  status: number;
  body: string | PreparedBody | undefined;
  headers: Record<string, string> | undefined;
}

type SentAnswer = Omit<Answer, 'body'> & { body: string | Buffer | undefined };

const noBody: { body: unknown; problems: FieldProblem[] } = { body: undefined, problems: [] };

const securityHeaders: readonly string[] = [
  'X-Content-Type-Options',
  'nosniff',
  'X-Frame-Options',
  'DENY',
  'Strict-Transport-Security',
  'max-age=31536000; includeSubDomains',
];

/** Builds the HTTP server; the caller listens and closes. */
export function buildServer(parts: ServerParts): Server {
  const { log, limits } = parts;
  const route = buildRouter(parts.document.operations);
  const addressOf = clientAddressReader(parts.trustedProxies);
  const alarm = new QuotaAlarm(log);
  /** Connections that had an answer before their request had ended: what goes wrong on them afterwards needs no other. */
  const answeredEarly = new WeakSet<object>();

  const server = createServer(
    {
      headersTimeout: 5000,
      requestTimeout: 10_000,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16_384,
      keepAliveTimeout: 65_000,
      optimizeEmptyRequests: true,
      // Asked for below, so that the refusal is one of ours.
      requireHostHeader: false,
    },
    (request, response) => {
      void respond(request, response);
    },
  );
  // An expectation other than 100-continue is ignored; the default is an answer without our headers.
  server.on('checkExpectation', (request, response) => void respond(request, response));
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => {
    if (code === 'ECONNRESET' || !socket.writable || answeredEarly.has(socket)) {
      socket.destroy();
      return;
    }
    const status =
      code === 'HPE_HEADER_OVERFLOW'
        ? '431 Request Header Fields Too Large'
        : code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? '408 Request Timeout'
          : '400 Bad Request';
    const requestId = randomUUID();
    const error = new ApiError('VALIDATION_ERROR', 'The request could not be read as HTTP.');
    const body = failureBody(error, requestId, Date.now());
    const lines = [`HTTP/1.1 ${status}`, `X-Request-Id: ${requestId}`];
    for (let index = 0; index < securityHeaders.length; index += 2)
      lines.push(`${securityHeaders[index]}: ${securityHeaders[index + 1]}`);
    const figures = figureHeaders(limits.uncounted(Date.now()));
    for (let index = 0; index < figures.length; index += 2) lines.push(`${figures[index]}: ${figures[index + 1]}`);
    lines.push('Content-Type: application/json; charset=utf-8', `Content-Length: ${Buffer.byteLength(body)}`);
    log.info({ request_id: requestId, status: Number(status.slice(0, 3)), error: error.code }, 'unreadable request');
    socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
    // An end alone would wait for the client to end too, and a hostile one never does.
    (socket as Socket).destroySoon();
  });
  return server;

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const start = performance.now();
    const trace: Trace = {
      requestId: randomUUID(),
      operation: '',
      caller: undefined,
      error: undefined,
      oauth: false,
      figures: undefined,
      charge: undefined,
      deprecated: [],
    };
    let answer: Answer;
    parts.inFlight.requests += 1;
    try {
      answer = await answerTo(request, trace);
    } catch (error) {
      if (error instanceof ClientGone) {
        log.info({ request_id: trace.requestId, operation: trace.operation }, 'client went away');
        return;
      }
      answer = failure(error, trace, false);
    } finally {
      parts.inFlight.requests -= 1;
    }
    if (trace.charge && isFree(answer)) parts.store.refund(trace.charge);
    const sent = chooseForm(answer, request);
    send(request, response, sent, trace);
    const { requestId, operation, caller, error } = trace;
    const milliseconds = performance.now() - start;
    const { method = '' } = request;
    parts.noteRequest({ requestId, operation, method, status: sent.status, milliseconds, caller, error });
  }

  /** Turns anything thrown into an answer; what a caller may not see is logged and replaced. */
  function failure(thrown: unknown, trace: Trace, broken: boolean): Answer {
    let error: ApiError;
    if (broken || parts.store.isOutage(thrown)) {
      log.warn(
        { request_id: trace.requestId, operation: trace.operation, err: describe(thrown) },
        'the database could not serve a request',
      );
      error = serviceUnavailable();
    } else if (thrown instanceof ApiError) error = thrown;
    else if (parts.store.isRace(thrown)) {
      error = conflict(
        'changed_meanwhile',
        'Something that this call refers to changed while it ran. Read it again and retry.',
      );
    } else {
      log.error(
        { request_id: trace.requestId, operation: trace.operation, err: describe(thrown) },
        'unexpected failure',
      );
      error = new ApiError('INTERNAL_ERROR', 'Something went wrong on our side.');
    }
    trace.error = error.code;
    const body = trace.oauth ? oauthFailureBody(error) : failureBody(error, trace.requestId, Date.now());
    return { status: error.status, body, headers: error.headers };
  }

  /** Throws nothing at once: an answer must wait until the parser has seen the end of the request. */
  function answerTo(request: IncomingMessage, trace: Trace): Answer | Promise<Answer> {
    if (request.headers.host === undefined && request.httpVersion === '1.1')
      return failure(new ApiError('VALIDATION_ERROR', 'Send the header Host.'), trace, false);
    // A proxy may send the whole address: RFC 9112 section 3.2.2.
    const target = request.url ?? '/';
    const url = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '') || '/';
    const mark = url.indexOf('?');
    const pathText = mark === -1 ? url : url.slice(0, mark);
    const method = request.method ?? 'GET';
    const routed = route(method, pathText);
    const page =
      routed.kind === 'not_found' && Object.hasOwn(parts.pages, pathText) ? parts.pages[pathText] : undefined;
    if (page && (method === 'GET' || method === 'HEAD')) {
      trace.operation = pathText;
      return { status: 200, body: page.body, headers: { 'content-type': page.contentType, ...page.headers } };
    }
    const found = page ? { kind: 'method_not_allowed' as const, methods: ['GET', 'HEAD', 'OPTIONS'] } : routed;
    if (found.kind === 'not_found')
      return failure(new ApiError('NOT_FOUND', 'There is no such endpoint.'), trace, false);
    if (found.kind === 'method_not_allowed') {
      const allow = found.methods.join(', ');
      if (method === 'OPTIONS') return { status: 204, body: undefined, headers: { allow } };
      const details = { allowed_methods: found.methods };
      const error = new ApiError('METHOD_NOT_ALLOWED', `This path answers ${allow}.`, details, { headers: { allow } });
      return failure(error, trace, false);
    }
    const { operation } = found;
    trace.operation = operation.id;
    trace.oauth = operation.answer === 'oauth';
    const queryText = mark === -1 ? '' : url.slice(mark + 1);
    trace.deprecated = usedInQuery(operation.deprecatedUses, queryText);
    return run(operation, found.path, queryText, request, trace);
  }

  async function run(
    operation: Operation,
    path: Record<string, string>,
    queryText: string,
    request: IncomingMessage,
    trace: Trace,
  ): Promise<Answer> {
    const now = new Date();
    const deadline = new Deadline();
    const facts = {
      requestId: trace.requestId,
      ip: addressOf(request.socket.remoteAddress ?? '', request.headers['x-forwarded-for'] as string | undefined),
      userAgent: request.headers['user-agent']?.slice(0, 200) ?? null,
    };
    const isPublic = operation.requirements.length === 0;
    if (isPublic) admit(await limits.takePublic(operation, facts.ip, now.getTime()), trace);
    if (operation.answer === 'oauth' && parts.anonKey !== undefined && request.headers.apikey !== parts.anonKey) {
      throw new ApiError(
        'MISSING_API_KEY',
        'Send the public key of this project in the header apikey.',
        { oauth_error: 'invalid_client' },
        { headers: { 'www-authenticate': 'Bearer' } },
      );
    }
    let authenticated: Authenticated;
    if (isPublic)
      authenticated = { caller: anonymous(facts), configVersion: 0, subscription: undefined, quota: undefined };
    else {
      authenticated = await identify(request, facts, now, deadline, trace);
      const { subscription, quota } = authenticated;
      trace.caller = authenticated.caller;
      if (quota?.charged) trace.charge = quota;
      const verdict = limits.takeAuthenticated(operation, authenticated.caller, Date.now());
      // The counters of this process answer at once: then nothing waits.
      admit(verdict instanceof Promise ? await verdict : verdict, trace);
      authorize(operation, authenticated.caller, path);
      if (subscription) admitToQuota(subscription, quota, now);
    }
    const { caller } = authenticated;
    const parameters = checkParameters(operation, path, queryText);
    const key =
      operation.idempotency === 'none'
        ? undefined
        : readKey(request.headers['idempotency-key'], operation.idempotency === 'required');
    const { body, problems } = operation.takesBody ? readBody(operation, request, await readBytes(request)) : noBody;
    const inBody = usedInBody(operation.deprecatedUses, body);
    if (inBody.length > 0) trace.deprecated = [...trace.deprecated, ...inBody];

    const call = new CallState(
      parts,
      trace,
      operation,
      caller,
      authenticated.configVersion,
      parameters,
      body,
      problems,
      now,
      deadline,
    );
    if (operation.method === 'GET' && operation.requirements.length === 0)
      return success(operation, await handlerOf(operation)(call as never), caller, now, trace);
    if (problems.length > 0 && key === undefined && !handlerRefuses(operation))
      throw refusal(operation, problems, 'body');

    const claim = key === undefined ? undefined : claimOf(caller, operation, path, key, body);
    try {
      return await deadline.race(() => runInTransaction(operation, call, deadline, claim, trace));
    } catch (error) {
      const { transaction } = call;
      if (error instanceof DeadlinePassed) transaction?.destroy();
      else transaction?.abandon();
      return failure(error, trace, transaction?.broken ?? false);
    }
  }

  /** Authenticates. An address whose credentials failed too often is refused before anything is looked up for it. */
  async function identify(
    request: IncomingMessage,
    facts: RequestFacts,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<Authenticated> {
    const blocked = limits.refusalOfAddress(facts.ip, now.getTime());
    if (blocked) admit({ ...blocked, allowed: false }, trace);
    let credential: Credential | undefined;
    try {
      const sent = readCredential(request.headers, parts.sessionTokens.issuer);
      credential = sent;
      const found = await deadline.race(() => authenticate(sent, facts, parts, now));
      if (found.subscription) alarm.clear();
      return found;
    } catch (error) {
      // The look-up of keys and grants is the quota's charge too; sessions are not charged.
      if (credential && credential.kind !== 'session' && isUnavailable(error)) throw alarm.raise();
      // An app that one user no longer allows must not lock out its others, who come from the same address.
      const isBad = error instanceof ApiError && (error.status === 401 || error.code === 'IP_NOT_ALLOWED');
      if (isBad) admit(await limits.takeFailed(facts.ip, Date.now()), trace);
      throw error;
    }
  }

  function isUnavailable(error: unknown): boolean {
    return error instanceof DeadlinePassed || parts.store.isOutage(error);
  }

  function figuresOf(trace: Trace): RateFigures {
    trace.figures ??= limits.uncounted(Date.now());
    return trace.figures;
  }

  async function runInTransaction(
    operation: Operation,
    call: CallState,
    deadline: Deadline,
    claim: IdempotencyClaim | undefined,
    trace: Trace,
  ): Promise<Answer> {
    const { caller, now } = call;
    const transaction = await parts.store.open(scopeOf(operation, caller));
    if (deadline.passed) {
      // A connection that comes too late goes straight back.
      transaction.abandon();
      throw new DeadlinePassed();
    }
    call.transaction = transaction;
    if (claim) {
      const verdict = await transaction.claim(claim);
      if (verdict.kind === 'replay') {
        transaction.abandon();
        return { status: verdict.status, body: verdict.body, headers: { 'idempotent-replay': 'true' } };
      }
      refuseOthers(verdict);
    }
    let answer: Answer;
    try {
      if (call.problems.length > 0 && !handlerRefuses(operation)) throw refusal(operation, [...call.problems], 'body');
      answer = success(operation, await handlerOf(operation)(call as never), caller, now, trace);
    } catch (error) {
      const failed = failure(error, trace, transaction.broken);
      if (error instanceof ApiError && error.keepsWork && !transaction.broken) {
        await transaction.commit(call.changes, { caller, now, idempotencyKeyHash: null });
      } else if (claim && isKept(failed.status) && !transaction.broken) {
        await transaction.keepFailure({ claim, status: failed.status, body: String(failed.body) });
      } else transaction.abandon();
      return failed;
    }
    if (transaction.broken) throw serviceUnavailable();
    if (operation.method === 'GET' && call.changes.length === 0) transaction.endRead();
    else {
      const context = { caller, now, idempotencyKeyHash: claim ? sha256(claim.key) : null };
      await transaction.commit(
        call.changes,
        context,
        claim && { claim, status: answer.status, body: String(answer.body) },
      );
    }
    return answer;
  }

  function readBody(
    operation: Operation,
    request: IncomingMessage,
    bytes: Buffer,
  ): { body: unknown; problems: FieldProblem[] } {
    if (bytes.length === 0 && !operation.bodyRequired) return { body: undefined, problems: [] };
    if (bytes.length > 0 || request.headers['content-type'] !== undefined) checkMediaType(request);
    const { value, problems } = parseJson(bytes, operation.arrayBody);
    const invalid = checkBody(operation, value);
    if (problems.length === 0) return { body: value, problems: invalid };
    const unstorable = new Set(problems.map((each) => each.field));
    return { body: value, problems: [...problems, ...invalid.filter((each) => !unstorable.has(each.field))] };
  }

  function handlerOf(operation: Operation): (call: never) => Promise<unknown> {
    const handler = parts.handlers[operation.id];
    if (!handler) throw new Error(`no handler for ${operation.id}`);
    return handler;
  }

  function success(operation: Operation, result: unknown, caller: Caller, now: Date, trace: Trace): Answer {
    const given = result as { status: number; data?: unknown; body?: unknown };
    const body =
      operation.answer === 'envelope'
        ? successBody(given, caller.requestId, now.getTime(), caller.testMode, figuresOf(trace))
        : given.body instanceof PreparedBody
          ? given.body
          : JSON.stringify(given.body);
    return {
      status: given.status,
      body,
      headers: operation.cacheControl === undefined ? undefined : { 'cache-control': operation.cacheControl },
    };
  }

  function send(request: IncomingMessage, response: ServerResponse, answer: SentAnswer, trace: Trace): void {
    if (response.destroyed) return;
    const headers = ['X-Request-Id', trace.requestId, ...figureHeaders(figuresOf(trace)), ...securityHeaders];
    if (trace.deprecated.length > 0) headers.push(...deprecationHeaders(trace.deprecated));
    let encoding: BufferEncoding = 'utf8';
    if (answer.body !== undefined) {
      if (!answer.headers?.['content-type']) headers.push('Content-Type', 'application/json; charset=utf-8');
      const length = Buffer.byteLength(answer.body);
      headers.push('Content-Length', String(length));
      // Text of as many bytes as characters is plain ASCII, which is sent faster when it is said so.
      if (length === answer.body.length) encoding = 'latin1';
    }
    if (answer.headers)
      for (const name of Object.keys(answer.headers)) headers.push(name, answer.headers[name] as string);
    const body = request.method === 'HEAD' ? undefined : answer.body;
    // What is left of a body of a known, allowed size is read and thrown away; more than that is not worth the connection.
    if (!request.complete) answeredEarly.add(request.socket);
    const rest = request.complete ? 0 : Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY);
    // A server that stops asks its clients to go to another.
    const leave = rest > bodyLimits.bytes || !server.listening;
    if (leave) headers.push('Connection', 'close');
    response.writeHead(answer.status, headers);
    if (rest > bodyLimits.bytes) endLater(request, response, body);
    else response.end(body, encoding);
    // What the system has not taken waits for the client to read; a client that reads on is given all the time it needs.
    if (response.writableLength > 0) request.socket.setTimeout(stalledWrite);
  }
}

function figureHeaders({ limit, remaining, reset }: RateFigures): string[] {
  return [
    'X-RateLimit-Limit',
    String(limit),
    'X-RateLimit-Remaining',
    String(remaining),
    'X-RateLimit-Reset',
    String(reset),
  ];
}

/** True for calls that the quota does not count: refused by a limit, failed on our side, or answered from what was kept. */
function isFree({ status, headers }: Answer): boolean {
  return status === 429 || status >= 500 || headers?.['idempotent-replay'] !== undefined;
}

/** True where the handler is told of the body's problems instead of being spared them. */
function handlerRefuses(operation: Operation): boolean {
  return operation.uniformRefusal || operation.tenantFields;
}

function scopeOf(operation: Operation, caller: Caller): Scope {
  if (operation.platform) return 'platform';
  return caller.companyId === '' ? 'nobody' : { companyId: caller.companyId, testMode: caller.testMode };
}

/** A prepared body is sent in the form that fits the request. */
function chooseForm(answer: Answer, request: IncomingMessage): SentAnswer {
  if (!(answer.body instanceof PreparedBody)) return answer as SentAnswer;
  const prepared = answer.body.answerTo(request.headers);
  return { ...prepared, headers: { ...answer.headers, ...prepared.headers } };
}

/** Sends an answer and reads on for a little: a connection closed under a client that is still sending would lose the answer. */
function endLater(request: IncomingMessage, response: ServerResponse, body: string | Buffer | undefined): void {
  response.flushHeaders();
  if (body !== undefined) response.write(body);
  const timer = setTimeout(() => response.end(), lingerTime);
  response.on('close', () => clearTimeout(timer));
  request.on('end', () => response.end()).resume();
}

function describe(thrown: unknown): { message: string; code?: string; stack?: string } {
  if (!(thrown instanceof Error)) return { message: String(thrown) };
  const { code } = thrown as { code?: string };
  return { message: thrown.message, ...(code ? { code } : {}), ...(thrown.stack ? { stack: thrown.stack } : {}) };
}
