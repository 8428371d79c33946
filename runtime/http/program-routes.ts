// Routes for programs outside the OpenAPI document. Callers authenticate as on REST.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { Caller } from '../caller.ts';
import type { Authenticated } from '../credentials/authentication.ts';
import { authorize, type ModuleState } from '../credentials/authorization.ts';
import { ApiError } from '../errors.ts';
import type { Document, Operation } from '../openapi/document.ts';
import type { Admission } from '../pipeline/admission.ts';
import { Deadline } from '../pipeline/deadline.ts';
import type { Failures } from '../pipeline/failures.ts';
import { createPerform, type Performed } from '../pipeline/in-process.ts';
import type { InternalCall, OperationRunner } from '../pipeline/operation-runner.ts';
import { asksForFault, makeFault } from '../pipeline/test-faults.ts';
import type { Trace } from '../pipeline/trace.ts';
import { ClientGone, readBytes } from './body.ts';
import type { Answer } from './responses.ts';

/** A call of an operation on behalf of the authenticated caller. */
export type ProgramCall = Omit<InternalCall, 'by'> & { operationId: string };

/** An authenticated request. */
export interface ProgramRequest {
  method: string;
  headers: IncomingHttpHeaders;
  /** The raw bytes. */
  body: Buffer;
  caller: Caller;
  /** Returns why the caller may not call an operation under a path, or undefined if it may. */
  findAccessError(operationId: string, path: Record<string, string>): ApiError | undefined;
  /**
   * Counts a request that called no operation: once, and not at all if a call was admitted.
   * @throws ApiError 429
   */
  count(): Promise<void>;
  /**
   * Counts and charges one call of an operation, and authorizes it.
   * @throws ApiError as on REST
   */
  admit(operationId: string, path: Record<string, string>): Promise<void>;
  /**
   * Performs an operation. Refunds its quota if the call turns out to be free. Returns errors as
   * results; it does not throw them.
   */
  perform(order: ProgramCall): Promise<Performed>;
}

/** The response that a library built. */
export interface ProgramResponse {
  status: number;
  headers: Record<string, string>;
  /** A stream is sent in chunks as it produces them. */
  body: string | Buffer | globalThis.ReadableStream;
}

export interface ProgramRoute {
  /** Name in logs and rate limits. */
  name: string;
  /** Accepted methods, besides OPTIONS. */
  methods: readonly string[];
  /** Returns the audience that access tokens must have. */
  audience(): string;
  /** @throws ApiError if the request is invalid for every caller */
  check(headers: IncomingHttpHeaders): void;
  answer(request: ProgramRequest): Promise<ProgramResponse>;
  /**
   * Returns true if the body probably calls an operation. Then `answer` may run twice, first with
   * the cached credential.
   */
  performs(body: Buffer): boolean;
  /** Formats an error as a response of this route. */
  toErrorResponse(error: ApiError, requestId: string): ProgramResponse;
}

export interface ProgramRouteParts {
  document: Document;
  getModuleState: ModuleState;
  programRoutes: Readonly<Record<string, ProgramRoute>>;
}

type Answering = (request: IncomingMessage, trace: Trace) => Promise<Answer>;

/**
 * Returns a function that finds the handler of a path, or undefined if the path is not a program route.
 */
export function routeProgramRequests(
  { document, getModuleState, programRoutes }: ProgramRouteParts,
  admission: Admission,
  runner: OperationRunner,
  failures: Failures,
) {
  const operations = new Map(document.operations.map((operation) => [operation.id, operation]));
  const requireOperation = (id: string): Operation => {
    const operation = operations.get(id);
    if (!operation) throw new Error(`there is no operation ${id}`);
    return operation;
  };
  const perform = createPerform(document, runner);

  return (method: string, pathText: string): Answering | undefined => {
    const route = Object.hasOwn(programRoutes, pathText) ? programRoutes[pathText] : undefined;
    return route && ((request, trace) => answer(route, method, request, trace));
  };

  async function answer(route: ProgramRoute, method: string, request: IncomingMessage, trace: Trace): Promise<Answer> {
    trace.operation = route.name;
    if (method === 'OPTIONS')
      return { status: 204, body: undefined, headers: { allow: allowedMethods(route).join(', ') } };
    try {
      if (!route.methods.includes(method)) throw notAllowed(route);
      route.check(request.headers);
      return sendable(await performFor(route, request, trace));
    } catch (error) {
      if (error instanceof ClientGone) throw error;
      const failed = failures.traceError(error, trace);
      return sendable(route.toErrorResponse(failed, trace.requestId));
    }
  }

  /**
   * Authenticates by the cached credential if the body calls an operation: the operation verifies
   * it in its own transaction, which saves a query. Otherwise looks the credential up.
   */
  async function performFor(route: ProgramRoute, request: IncomingMessage, trace: Trace): Promise<ProgramResponse> {
    const deadline = new Deadline();
    const authenticate = () =>
      admission.authenticateGuest({ request, audience: route.audience() }, new Date(), deadline, trace);
    const isFaulty = asksForFault(request);
    const known = isFaulty ? undefined : admission.remember(request, new Date(), trace);
    const authenticated = known ? undefined : await authenticate();
    if (isFaulty && authenticated) makeFault(request, authenticated.caller, runner.readFigures(trace), trace);
    const body = await readBytes(request, () => {
      trace.invite?.();
      trace.invite = undefined;
    });
    if (known && route.performs(body)) {
      const visit = openVisit(route, known, request, body, deadline, trace);
      // An error under a cached credential may be wrong, since the credential may have changed. It
      // is dropped, and the request runs again after a look-up.
      const answered = await route.answer(visit.request).catch(() => undefined);
      if (answered && visit.isSettled()) return answered;
      admission.resetAttempt(trace);
    }
    const by = authenticated ?? (await authenticate());
    return route.answer(openVisit(route, by, request, body, deadline, trace).request);
  }

  /**
   * Builds the request that a program route sees for a caller. `isSettled` returns true if every
   * operation confirmed the credential.
   */
  function openVisit(
    route: ProgramRoute,
    by: Authenticated,
    { method = '', headers }: IncomingMessage,
    body: Buffer,
    deadline: Deadline,
    trace: Trace,
  ) {
    let counted = false;
    let isConfirmed = false;
    const settled: boolean[] = [];
    const request: ProgramRequest = {
      method,
      headers,
      caller: by.caller,
      body,
      findAccessError: (operationId, path) => findAccessError(requireOperation(operationId), by, path),
      count: async () => {
        if (!counted) await admission.count(route.name, by, trace);
        counted = true;
      },
      admit: (operationId, path) => {
        counted = true;
        return admission.admitTo(requireOperation(operationId), path, by, new Date(), deadline, trace);
      },
      perform: async (order) => {
        const performed = await perform({ ...order, by: isConfirmed ? { ...by, credential: undefined } : by });
        // All operations of one request count as one use of its key.
        isConfirmed ||= performed.confirmed;
        // If the operation could not reach the database, a look-up of the credential could not
        // either.
        settled.push(performed.confirmed || performed.status === 503);
        if (performed.free && performed.confirmed) admission.takeBack(trace);
        return performed;
      },
    };
    return { request, isSettled: () => settled.length > 0 && !settled.includes(false) };
  }

  function findAccessError(operation: Operation, { caller }: Authenticated, path: Record<string, string>) {
    try {
      // A copy, because authorize() changes the caller's visibility.
      authorize(operation, { ...caller }, path, getModuleState);
      return undefined;
    } catch (error) {
      if (error instanceof ApiError) return error;
      throw error;
    }
  }
}

function sendable({ status, headers, body }: ProgramResponse): Answer {
  const isWhole = typeof body === 'string' || Buffer.isBuffer(body);
  return { status, headers, body: isWhole ? body : Readable.fromWeb(body as ReadableStream) };
}

const allowedMethods = ({ methods }: ProgramRoute): string[] => [...methods, 'OPTIONS'];

function notAllowed(route: ProgramRoute): ApiError {
  const methods = allowedMethods(route);
  const allow = methods.join(', ');
  const details = { allowed_methods: methods };
  return new ApiError('METHOD_NOT_ALLOWED', `Only ${allow} is allowed for this path.`, details, { headers: { allow } });
}
