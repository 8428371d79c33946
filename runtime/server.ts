// The way of a request, the same for every operation: route, authenticate, authorize, read, validate, replay, run, answer.
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Answer, fileHeaders, refuseUnreadable, sendAnswer } from './answers.ts';
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
import { usedInBody, usedInQuery } from './deprecation.ts';
import type { Operation } from './document.ts';
import { failureBody, oauthFailureBody, successBody } from './envelope.ts';
import { ApiError, conflict, type FieldProblem, queryTimeout, serviceUnavailable } from './errors.ts';
import type { FileBody } from './files.ts';
import type { Caller } from './handler.ts';
import { claimOf, hashOf, isKept, readKey, refuseOthers } from './idempotency.ts';
import type { Log, RequestLine } from './log.ts';
import { receiveUpload } from './multipart.ts';
import { hashesAtOnce } from './passwords.ts';
import { PreparedBody } from './prepared-body.ts';
import { admitToQuota, QuotaAlarm } from './quota.ts';
import type { RateFigures } from './rate-limits.ts';
import { buildRouter } from './router.ts';
import { type Secrets, sha256 } from './secrets.ts';
import type { IdempotencyClaim, Scope } from './store.ts';
import { Turns } from './turns.ts';
import { checkBody, checkParameters, refusal } from './validation.ts';

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
  secrets: Secrets;
  trustedProxies: readonly string[];
  /** The public `apikey` that the identity provider's routes ask for, if any. */
  anonKey: string | undefined;
  pages: Readonly<Record<string, Page>>;
}

const noBody: { body: unknown; problems: FieldProblem[] } = { body: undefined, problems: [] };

/** Builds the HTTP server; the caller listens and closes. */
export function buildServer(parts: ServerParts): Server {
  const { log, limits } = parts;
  const route = buildRouter(parts.document.operations);
  const addressOf = clientAddressReader(parts.trustedProxies);
  const alarm = new QuotaAlarm(log);
  /** Calls that hold a connection while they hash a password. */
  const hashing = new Turns(hashesAtOnce);
  /** Connections on which a file arrives: it has a pace of its own instead of ten seconds for the whole. */
  const uploading = new WeakSet<object>();

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
    if (code === 'ERR_HTTP_REQUEST_TIMEOUT' && uploading.has(socket)) return;
    const refused = refuseUnreadable(socket as Socket, code, limits.uncounted(Date.now()));
    if (refused)
      log.info({ request_id: refused.requestId, status: refused.status, error: refused.error }, 'unreadable request');
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
    const status = sendAnswer(request, response, answer, {
      requestId: trace.requestId,
      figures: figuresOf(trace),
      deprecated: trace.deprecated,
      // A server that stops asks its clients to go to another.
      leave: !server.listening,
    });
    const { requestId, operation, caller, error } = trace;
    const milliseconds = performance.now() - start;
    const { method = '' } = request;
    parts.noteRequest({ requestId, operation, method, status, milliseconds, caller, error });
  }

  /** Turns anything thrown into an answer; what a caller may not see is logged and replaced. */
  function failure(thrown: unknown, trace: Trace, broken: boolean): Answer {
    let error: ApiError;
    if (broken || parts.store.isOutage(thrown)) {
      log.warn(
        { request_id: trace.requestId, operation: trace.operation, err: describe(thrown) },
        'the database could not serve a request',
      );
      error = parts.store.isOverdue(thrown) ? queryTimeout() : serviceUnavailable();
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
    const parameters = checkParameters(operation, path, queryText, request.headers);
    const key =
      operation.idempotency === 'none'
        ? undefined
        : readKey(request.headers['idempotency-key'], operation.idempotency === 'required');
    const upload =
      operation.upload === undefined
        ? undefined
        : await unhurried(request, () => receiveUpload(operation, request, parts.files.folder));
    const { body, problems } = operation.takesBody ? readBody(operation, request, await readBytes(request)) : noBody;
    const inBody = usedInBody(operation.deprecatedUses, body);
    if (inBody.length > 0) trace.deprecated = [...trace.deprecated, ...inBody];

    const file = upload && (await parts.files.store(caller, upload));
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
      file,
    );
    if (operation.method === 'GET' && operation.requirements.length === 0 && !operation.platform)
      return success(operation, await handlerOf(operation)(call as never), caller, now, trace);
    if (problems.length > 0 && key === undefined && !handlerRefuses(operation))
      throw refusal(operation, problems, 'body');

    const claim =
      key === undefined ? undefined : claimOf(caller, operation, path, key, upload?.requestHash ?? hashOf(body));
    try {
      const attempt = () => deadline.race(() => runInTransaction(operation, call, deadline, claim, trace));
      // More would only hold connections while they wait for the processor.
      const answer = await (claim && operation.hashesPassword ? hashing.take(attempt) : attempt());
      if (file && leftOut(answer)) parts.files.remove(file);
      return answer;
    } catch (error) {
      const { transaction } = call;
      if (error instanceof DeadlinePassed) transaction?.destroy();
      else transaction?.abandon();
      return failure(error, trace, transaction?.broken ?? false);
    }
  }

  /** Receives a file without the time limit of other requests. */
  async function unhurried<T>(request: IncomingMessage, receive: () => Promise<T>): Promise<T> {
    uploading.add(request.socket);
    try {
      return await receive();
    } finally {
      uploading.delete(request.socket);
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
        const body = operation.secretAnswer ? parts.secrets.decrypt(verdict.body) : verdict.body;
        return { status: verdict.status, body, headers: { 'idempotent-replay': 'true' } };
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
        await transaction.commit(call.changes, { caller, now, idempotencyKeyHash: null }, deadline.left);
      } else if (claim && isKept(failed.status) && !transaction.broken) {
        await transaction.keepFailure(
          { claim, status: failed.status, body: keptBody(operation, failed) },
          deadline.left,
        );
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
        deadline.left,
        claim && { claim, status: answer.status, body: keptBody(operation, answer) },
      );
    }
    for (const work of call.later) work();
    return answer;
  }

  /** What is kept for a replay; in a form that only this server can read, where the answer shows a secret. */
  function keptBody(operation: Operation, answer: Answer): string {
    const body = String(answer.body);
    return operation.secretAnswer ? parts.secrets.encrypt(body) : body;
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
    const given = result as { status: number; data?: unknown; body?: unknown; file?: FileBody; etag?: string };
    if (given.file) return { status: given.status, body: given.file, headers: fileHeaders(given.file) };
    const body =
      operation.answer === 'envelope'
        ? successBody(given, caller.requestId, now.getTime(), caller.testMode, figuresOf(trace))
        : given.body instanceof PreparedBody
          ? given.body
          : JSON.stringify(given.body);
    return { status: given.status, body, headers: successHeaders(operation, given.etag) };
  }
}

function successHeaders({ cacheControl }: Operation, etag: string | undefined): Record<string, string> | undefined {
  if (cacheControl === undefined && etag === undefined) return undefined;
  return {
    ...(cacheControl === undefined ? {} : { 'cache-control': cacheControl }),
    ...(etag === undefined ? {} : { etag }),
  };
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

/** True for an answer after which certainly nothing refers to the call's file; where that is not certain, the sweep finds out. */
function leftOut({ status, headers }: Answer): boolean {
  return (status >= 400 && status < 500) || headers?.['idempotent-replay'] !== undefined;
}

function describe(thrown: unknown): { message: string; code?: string; stack?: string } {
  if (!(thrown instanceof Error)) return { message: String(thrown) };
  const { code } = thrown as { code?: string };
  return { message: thrown.message, ...(code ? { code } : {}), ...(thrown.stack ? { stack: thrown.stack } : {}) };
}
