// The HTTP server: routes requests, sends responses and logs one line for each.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { LoggedRequest } from '../../domain/access/logged-requests.ts';
import { isTestKey } from '../credentials/secrets.ts';
import { ApiError } from '../errors.ts';
import { findUsedInQuery } from '../openapi/deprecation.ts';
import type { PreparedBody } from '../openapi/prepared-body.ts';
import { buildRouter, type Route, type Router } from '../openapi/router.ts';
import { Admission } from '../pipeline/admission.ts';
import { asksForDryRun, dryRunHeader, unsupportedDryRun } from '../pipeline/dry-run.ts';
import { Failures } from '../pipeline/failures.ts';
import { createPerform, type Perform } from '../pipeline/in-process.ts';
import { OperationRunner, type RunnerParts } from '../pipeline/operation-runner.ts';
import { waitForEnd } from '../pipeline/test-faults.ts';
import { createTrace, type Trace } from '../pipeline/trace.ts';
import type { RequestLine } from '../telemetry/log.ts';
import { ClientGone } from './body.ts';
import { type Connection, Connections, type Load } from './connections.ts';
import { toLoggedRequest } from './logged-request.ts';
import { http } from './node-http.ts';
import { type PageRoute, routePageRequests } from './page-routes.ts';
import { type ProgramRoute, routeProgramRequests } from './program-routes.ts';
import { checkHead, maxHeadSize } from './request-head.ts';
import { newRequestId } from './request-ids.ts';
import { type Answer, discardBody, isFree, refuseConnection, sendAnswer } from './responses.ts';

/** A page that is not part of the API: method GET, no credential, no envelope. */
export interface Page {
  contentType: string;
  body: PreparedBody;
  headers: Record<string, string>;
}

export interface ServerParts extends RunnerParts {
  noteRequest: (line: RequestLine) => void;
  /** Records a request of a known workspace; undefined if the request log is off. */
  recordRequest: ((request: LoggedRequest) => void) | undefined;
  load: Load;
  pages: Readonly<Record<string, Page>>;
  /** Dynamic pages for people. */
  screens: readonly PageRoute[];
  /** Routes for programs outside the OpenAPI document, by path. */
  programRoutes: Readonly<Record<string, ProgramRoute>>;
}

const settings = {
  headersTimeout: 5000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 1000,
  maxHeaderSize: maxHeadSize,
  keepAliveTimeout: 65_000,
  optimizeEmptyRequests: true,
  // checkHead requires it, so that the error has our format.
  requireHostHeader: false,
};

/**
 * Builds the HTTP server, which the caller starts and closes, `perform`, which runs the same
 * operations without HTTP, and the router that finds them.
 */
export function buildServer(parts: ServerParts): { server: Server; perform: Perform; route: Router } {
  const { log, limits } = parts;
  const failures = new Failures(log);
  const admission = new Admission(parts);
  const route = buildRouter(parts.document.operations);
  const runner = new OperationRunner(parts, admission, failures, route);
  const answerTo = buildAnswering(parts, admission, runner, failures, route);
  /** Requests whose clients sent `Expect: 100-continue`. */
  const waitsForInvitation = new WeakSet<IncomingMessage>();
  const connections = new Connections(
    (request, response, connection) => void respond(request, response, connection),
    parts.load,
  );
  const server = http.createServer(settings, (request, response) => connections.take(request, response));
  // Ignores any other expectation; by default Node would answer 417 without our headers.
  server.on('checkExpectation', (request, response) => connections.take(request, response));
  server.on('checkContinue', (request, response) => {
    waitsForInvitation.add(request);
    connections.take(request, response);
  });
  server.on('connect', (request) => connections.takeConnect(request));
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => {
    if (code === 'ERR_HTTP_REQUEST_TIMEOUT' && runner.isUploading(socket)) return;
    connections.refuse(socket as Socket, code, (error) => {
      const requestId = refuseConnection(socket as Socket, error, limits.uncounted(Date.now()));
      log.info({ request_id: requestId, status: error.status, error: error.code }, 'malformed request');
    });
  });
  return { server, perform: createPerform(parts.document, runner), route };

  async function respond(request: IncomingMessage, response: ServerResponse, connection: Connection): Promise<void> {
    const start = performance.now();
    const trace = newTrace(request, waitsForInvitation.has(request) ? () => response.writeContinue() : undefined);
    let answer: Answer;
    parts.load.requests += 1;
    try {
      answer = await answerTo(request, trace);
    } catch (error) {
      if (error instanceof ClientGone) {
        log.info({ request_id: trace.requestId, operation: trace.operation }, 'client disconnected');
        return;
      }
      answer = failures.answer(error, trace);
    } finally {
      parts.load.requests -= 1;
    }
    if (trace.charge && isFree(answer)) parts.quota.refund(trace.charge);
    if (trace.faultyEnd) await waitForEnd(trace.faultyEnd, request);
    let { status } = answer;
    if (trace.faultyEnd?.isAnswered === false) {
      discardBody(answer);
      request.socket.destroy();
    } else {
      const about = {
        requestId: trace.requestId,
        figures: runner.readFigures(trace),
        deprecated: trace.deprecated,
        // A stopping server sends its clients to another one. A client that was not asked for its
        // body may or may not send it.
        leave:
          !server.listening || trace.leave || connection.isLast || (trace.invite !== undefined && !request.complete),
      };
      status = sendAnswer(request, response, answer, about, () => connections.end(connection));
      connections.watch(request, response);
    }
    const { requestId, operation, caller, error } = trace;
    const milliseconds = performance.now() - start;
    const { method = '' } = request;
    parts.noteRequest({ requestId, operation, method, status, milliseconds, caller, error });
    if (status >= 400 && caller?.kind === 'api_key')
      parts.credentials.countFailure(caller.companyId, caller.actor.id, caller.ip);
    if (!parts.recordRequest) return;
    const logged = toLoggedRequest(
      method,
      splitTarget(request.url ?? '').pathText,
      trace,
      status,
      answer,
      milliseconds,
    );
    if (logged) parts.recordRequest(logged);
  }
}

/**
 * @param invite asks the client to send the body; undefined if the client does not wait for that
 */
function newTrace(request: IncomingMessage, invite: (() => void) | undefined): Trace {
  return createTrace({
    requestId: newRequestId(),
    operation: '',
    caller: undefined,
    testMode: isTestKey(request.headers['x-api-key']),
    dryRun: request.headers[dryRunHeader] === 'true',
    oauth: false,
    invite,
    connection: request.socket,
  });
}

type Answering = (request: IncomingMessage, trace: Trace) => Answer | Promise<Answer>;

/** Returns a function that routes a request to an operation or a page and answers it. */
function buildAnswering(
  parts: ServerParts,
  admission: Admission,
  runner: OperationRunner,
  failures: Failures,
  route: Router,
): Answering {
  const { pages } = parts;
  const screenAt = routePageRequests(parts, (request, receive) => runner.withoutRequestTimeout(request, receive));
  const findProgramRoute = routeProgramRequests(parts, admission, runner, failures);

  // Throws synchronously only for an invalid head: a response must wait until the parser has seen
  // the end of the request.
  return (request, trace) => {
    trace.leave = true;
    checkHead(request);
    trace.leave = false;
    const { pathText, queryText } = splitTarget(request.url ?? '/');
    const { method = 'GET' } = request;
    const routed = route(method, pathText);
    const page = routed.kind === 'not_found' && Object.hasOwn(pages, pathText) ? pages[pathText] : undefined;
    if (page && (method === 'GET' || method === 'HEAD')) {
      trace.operation = pathText;
      return { status: 200, body: page.body, headers: { 'content-type': page.contentType, ...page.headers } };
    }
    const programRoute = routed.kind === 'not_found' ? findProgramRoute(method, pathText) : undefined;
    if (programRoute)
      return asksForDryRun(request) ? failures.answer(unsupportedDryRun(), trace) : programRoute(request, trace);
    const screen =
      routed.kind === 'not_found' ? screenAt(method, pathText, request, () => trace.invite?.()) : undefined;
    if (screen) {
      trace.operation = screen.name;
      if (asksForDryRun(request)) return failures.answer(unsupportedDryRun(), trace);
      return screen.answer();
    }
    if (pathText === '/' && routed.kind === 'not_found' && (method === 'GET' || method === 'HEAD')) {
      trace.operation = pathText;
      if (acceptsJson(request.headers.accept ?? ''))
        return failures.answer(new ApiError('NOT_FOUND', 'There is no such endpoint. See /docs.'), trace);
      // 302 instead of 301, because the target of / may change.
      return { status: 302, body: undefined, headers: { location: '/docs', vary: 'accept' } };
    }
    const found: Route = page ? { kind: 'method_not_allowed', methods: ['GET', 'HEAD', 'OPTIONS'] } : routed;
    if (found.kind === 'not_found')
      return failures.answer(new ApiError('NOT_FOUND', 'There is no such endpoint.'), trace);
    if (found.kind === 'method_not_allowed') {
      const allow = found.methods.join(', ');
      if (method === 'OPTIONS') return { status: 204, body: undefined, headers: { allow } };
      const details = { allowed_methods: found.methods };
      const error = new ApiError('METHOD_NOT_ALLOWED', `Only ${allow} is allowed for this path.`, details, {
        headers: { allow },
      });
      return failures.answer(error, trace);
    }
    const { operation, path } = found;
    trace.operation = operation.id;
    trace.oauth = operation.answer === 'oauth';
    trace.deprecated = findUsedInQuery(operation.deprecatedUses, queryText);
    return runner.run({ operation, path, queryText, request }, trace);
  };
}

/**
 * Returns true for programs that expect JSON. Browsers name HTML, and curl accepts everything
 * without naming a type.
 */
const acceptsJson = (accept: string): boolean => accept.includes('application/json') && !accept.includes('text/html');

/** Splits path and query. A proxy may send an absolute URL: RFC 9112 section 3.2.2. */
function splitTarget(target: string): { pathText: string; queryText: string } {
  const url = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*/i, '') || '/';
  const mark = url.indexOf('?');
  return mark === -1
    ? { pathText: url, queryText: '' }
    : { pathText: url.slice(0, mark), queryText: url.slice(mark + 1) };
}
