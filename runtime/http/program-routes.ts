// Routes for programs beside the document: callers authenticate as on REST and call operations.
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
import { type Performed, performIn } from '../pipeline/in-process.ts';
import type { InternalCall, OperationRunner } from '../pipeline/operation-runner.ts';
import type { Trace } from '../pipeline/trace.ts';
import { ClientGone, readBytes } from './body.ts';
import type { Answer } from './responses.ts';

/** A call of an operation in the name of whoever sent the request. */
export type EntranceCall = Omit<InternalCall, 'by'> & { operationId: string };

/** A request whose sender is known. */
export interface EntranceRequest {
  method: string;
  headers: IncomingHttpHeaders;
  /** What was sent, byte for byte. */
  body: Buffer;
  caller: Caller;
  /** Why the caller may not call an operation under a path; undefined: it may. */
  refusalOf(operationId: string, path: Record<string, string>): ApiError | undefined;
  /** Counts a request that called no operation; once, and not at all where one was admitted. @throws ApiError 429 */
  count(): Promise<void>;
  /**
   * Counts and charges one call of an operation, and authorizes it.
   * @throws ApiError as on REST
   */
  admit(operationId: string, path: Record<string, string>): Promise<void>;
  /** Performs an operation, and gives back what was charged for it where calls are free. What it refuses, and what fails, is an answer. */
  perform(order: EntranceCall): Promise<Performed>;
}

/** What a library made of a request. */
export interface EntranceAnswer {
  status: number;
  headers: Record<string, string>;
  /** A stream is sent as it comes. */
  body: string | Buffer | globalThis.ReadableStream;
}

/** One route. */
export interface Entrance {
  /** What the log and the limits call it. */
  name: string;
  /** Those that it answers, beside OPTIONS. */
  methods: readonly string[];
  /** What access tokens must be meant for. */
  audience(): string;
  /** @throws ApiError for a request that is refused whoever sends it */
  check(headers: IncomingHttpHeaders): void;
  answer(request: EntranceRequest): Promise<EntranceAnswer>;
  /** True for what is likely to call an operation: it may be answered twice, the first time in the name of who its key was last. */
  performs(body: Buffer): boolean;
  /** How a failure is told on this route. */
  tell(error: ApiError, requestId: string): EntranceAnswer;
}

export interface EntranceParts {
  document: Document;
  moduleState: ModuleState;
  entrances: Readonly<Record<string, Entrance>>;
}

type Answering = (request: IncomingMessage, trace: Trace) => Promise<Answer>;

/** Makes a function that finds who answers on a path; undefined where a path is no entrance. */
export function answerEntrances(
  { document, moduleState, entrances }: EntranceParts,
  admission: Admission,
  runner: OperationRunner,
  failures: Failures,
) {
  const operations = new Map(document.operations.map((operation) => [operation.id, operation]));
  const operationOf = (id: string): Operation => {
    const operation = operations.get(id);
    if (!operation) throw new Error(`there is no operation ${id}`);
    return operation;
  };
  const perform = performIn(document, runner);

  return (method: string, pathText: string): Answering | undefined => {
    const entrance = Object.hasOwn(entrances, pathText) ? entrances[pathText] : undefined;
    return entrance && ((request, trace) => answer(entrance, method, request, trace));
  };

  async function answer(entrance: Entrance, method: string, request: IncomingMessage, trace: Trace): Promise<Answer> {
    trace.operation = entrance.name;
    if (method === 'OPTIONS')
      return { status: 204, body: undefined, headers: { allow: allowedBy(entrance).join(', ') } };
    try {
      if (!entrance.methods.includes(method)) throw notAllowed(entrance);
      entrance.check(request.headers);
      return sendable(await enter(entrance, request, trace));
    } catch (error) {
      if (error instanceof ClientGone) throw error;
      const failed = failures.errorOf(error, trace);
      return sendable(entrance.tell(failed, trace.requestId));
    }
  }

  /** Asks who calls only where the operation that is called cannot ask on its way. */
  async function enter(entrance: Entrance, request: IncomingMessage, trace: Trace): Promise<EntranceAnswer> {
    const deadline = new Deadline();
    const authenticate = () =>
      admission.authenticateGuest({ request, audience: entrance.audience() }, new Date(), deadline, trace);
    const known = admission.remember(request, new Date(), trace);
    const authenticated = known ? undefined : await authenticate();
    const body = await readBytes(request, () => {
      trace.invite?.();
      trace.invite = undefined;
    });
    if (known && entrance.performs(body)) {
      const visit = visitOf(entrance, known, request, body, deadline, trace);
      // What goes wrong in the name of who may be somebody else by now is told to nobody: it is done again, and goes wrong again.
      const answered = await entrance.answer(visit.request).catch(() => undefined);
      if (answered && visit.isSettled()) return answered;
      admission.resetAttempt(trace);
    }
    const by = authenticated ?? (await authenticate());
    return entrance.answer(visitOf(entrance, by, request, body, deadline, trace).request);
  }

  /** What an entrance sees of a request, in the name of somebody; and whether its answer may be told. */
  function visitOf(
    entrance: Entrance,
    by: Authenticated,
    { method = '', headers }: IncomingMessage,
    body: Buffer,
    deadline: Deadline,
    trace: Trace,
  ) {
    let counted = false;
    let isConfirmed = false;
    const settled: boolean[] = [];
    const request: EntranceRequest = {
      method,
      headers,
      caller: by.caller,
      body,
      refusalOf: (operationId, path) => refusalOf(operationOf(operationId), by, path),
      count: async () => {
        if (!counted) await admission.count(entrance.name, by, trace);
        counted = true;
      },
      admit: (operationId, path) => {
        counted = true;
        return admission.admitTo(operationOf(operationId), path, by, new Date(), deadline, trace);
      },
      perform: async (order) => {
        const performed = await perform({ ...order, by: isConfirmed ? { ...by, credential: undefined } : by });
        // The operations of one request count as one use of its key.
        isConfirmed ||= performed.confirmed;
        // A database that cannot be asked by the operation cannot be asked who calls either.
        settled.push(performed.confirmed || performed.status === 503);
        if (performed.free && performed.confirmed) admission.takeBack(trace);
        return performed;
      },
    };
    return { request, isSettled: () => settled.length > 0 && !settled.includes(false) };
  }

  function refusalOf(operation: Operation, { caller }: Authenticated, path: Record<string, string>) {
    try {
      // What the look notes of the reach is not the caller's.
      authorize(operation, { ...caller }, path, moduleState);
      return undefined;
    } catch (error) {
      if (error instanceof ApiError) return error;
      throw error;
    }
  }
}

function sendable({ status, headers, body }: EntranceAnswer): Answer {
  const isWhole = typeof body === 'string' || Buffer.isBuffer(body);
  return { status, headers, body: isWhole ? body : Readable.fromWeb(body as ReadableStream) };
}

const allowedBy = ({ methods }: Entrance): string[] => [...methods, 'OPTIONS'];

function notAllowed(entrance: Entrance): ApiError {
  const methods = allowedBy(entrance);
  const allow = methods.join(', ');
  const details = { allowed_methods: methods };
  return new ApiError('METHOD_NOT_ALLOWED', `Only ${allow} is allowed for this path.`, details, { headers: { allow } });
}
