// Runs an operation: authentication, validation, the handler in its transaction, and the commit.
import type { IncomingMessage } from 'node:http';
import {
  isConfigurationChanged,
  type PreconditionResult,
  type Preconditions,
  type Scope,
} from '../../db/client/preconditions.ts';
import type { Transaction } from '../../db/client/transaction.ts';
import type { Caller } from '../caller.ts';
import type { Authenticated } from '../credentials/authentication.ts';
import { authorize } from '../credentials/authorization.ts';
import { maxParallelHashes } from '../credentials/passwords.ts';
import { sha256 } from '../credentials/secrets.ts';
import { ApiError, buildProblem, type FieldProblem, serviceUnavailable, validationFailed } from '../errors.ts';
import type { FileBody, UploadedFile } from '../files/files.ts';
import type { NestedMethod, Proposals } from '../handler.ts';
import { checkMediaType, parseJson, readBytes } from '../http/body.ts';
import { buildSuccessBody } from '../http/envelope.ts';
import { isForm, receiveUpload, type Upload } from '../http/multipart.ts';
import { type Answer, buildFileHeaders } from '../http/responses.ts';
import type { RateFigures } from '../limits/rate-limits.ts';
import { Semaphore } from '../limits/semaphore.ts';
import { findUsedInBody } from '../openapi/deprecation.ts';
import type { Operation } from '../openapi/document.ts';
import { PreparedBody } from '../openapi/prepared-body.ts';
import type { Router } from '../openapi/router.ts';
import type { Admission, AdmissionParts, RoutedRequest } from './admission.ts';
import { CallState } from './call-state.ts';
import { Deadline, DeadlinePassed } from './deadline.ts';
import { checkDryRun, listEffects } from './dry-run.ts';
import type { Failures } from './failures.ts';
import { hashBody, isStored, readKey, rejectConflicts, toClaim } from './idempotency.ts';
import { NestedCalls } from './nested-calls.ts';
import { asksForFault, makeFault } from './test-faults.ts';
import type { Trace } from './trace.ts';
import { checkBody, checkParameters, toValidationError } from './validation.ts';

export interface RunnerParts extends AdmissionParts {
  /** By operationId. Typed as Handlers in handlers/. */
  handlers: Readonly<Record<string, (call: never) => Promise<unknown>>>;
  proposals: Proposals;
}

/** An in-process call of an operation. */
export interface InternalCall {
  by: Pick<Authenticated, 'caller' | 'configVersion'> & Partial<Pick<Authenticated, 'credential'>>;
  /** Decoded values of the path's parameters. */
  path: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  /**
   * For operations that accept one: a repeated call with the same key runs once and gets the same
   * response.
   */
  idempotencyKey?: string;
  /** The received file, for operations that take one. Its path is free again afterwards. */
  upload?: Upload;
}

/** The input of a request, parsed and validated. */
interface Read {
  parameters: { path: unknown; query: unknown; header: unknown };
  /** The Idempotency-Key. */
  key: string | undefined;
  upload: Upload | undefined;
  body: unknown;
  problems: FieldProblem[];
}

/** A request and the preconditions of its transaction. */
interface Attempt extends Preconditions {
  operation: Operation;
  call: CallState;
  deadline: Deadline;
  trace: Trace;
}

/** The precondition that failed. */
type PreconditionFailure = Exclude<PreconditionResult, 'ok'>;

const noBody: Pick<Read, 'body' | 'problems'> = { body: undefined, problems: [] };

export class OperationRunner {
  readonly #parts: RunnerParts;
  readonly #failures: Failures;
  readonly #admission: Admission;
  readonly #nested: NestedCalls;
  /** Limits the calls that hold a connection while they hash a password. */
  readonly #hashing = new Semaphore(maxParallelHashes);
  /**
   * Connections that receive a file. Uploads have a minimum speed instead of the timeout of ten
   * seconds.
   */
  readonly #uploading = new WeakSet<object>();

  constructor(parts: RunnerParts, admission: Admission, failures: Failures, route: Router) {
    this.#parts = parts;
    this.#failures = failures;
    this.#admission = admission;
    this.#nested = new NestedCalls(parts, failures, route);
  }

  /** Returns true while a connection receives a file. */
  isUploading(socket: object): boolean {
    return this.#uploading.has(socket);
  }

  /** Returns the figures of the rate limit that the caller is closest to hitting. */
  readFigures(trace: Trace): RateFigures {
    trace.figures ??= this.#parts.limits.uncounted(Date.now());
    return trace.figures;
  }

  /** @throws ApiError if the call is rejected before its transaction begins */
  async run(arrived: RoutedRequest, trace: Trace): Promise<Answer> {
    const { operation, request } = arrived;
    const isSigned = operation.signed && request.headers['service-signature'] !== undefined;
    const routed = isSigned ? { ...arrived, signedBody: await readBytes(request, () => invite(trace)) } : arrived;
    const now = new Date();
    const deadline = new Deadline();
    const authenticate = () => this.#admission.authenticate(routed, now, deadline, trace);
    const isFaulty = asksForFault(request);
    // Not for uploads and faults: they take effect before a transaction could verify a cached key.
    const known =
      sendsFile(routed) || isFaulty
        ? undefined
        : await this.#admission.authenticateFromCache(routed, now, deadline, trace);
    const admitted = known ?? (await authenticate());
    if (isFaulty) makeFault(request, admitted.caller, this.readFigures(trace), trace);
    let read: Read;
    try {
      read = await this.#read(routed, trace);
      chooseMode(operation, admitted.caller, read.parameters.query, trace);
    } catch (error) {
      // If the cached key is no longer valid, the caller gets that error instead.
      if (known && error instanceof ApiError) await authenticate();
      throw error;
    }
    const { upload } = read;
    const file = upload && (await this.#parts.files.store(admitted.caller, upload));
    const perform = (by: Authenticated) => this.#perform(routed, by, read, file, now, deadline, trace);
    const answer =
      (await perform(admitted)) ??
      (await perform(await authenticate())) ??
      this.#failures.answer(serviceUnavailable(), trace);
    if (file && isFileUnused(answer)) this.#parts.files.remove(file);
    return answer;
  }

  /**
   * Runs an in-process call, whose caller is known. It is neither counted nor charged. If the
   * caller comes from a cached key, the call takes effect only if the transaction confirms the key;
   * trace.confirmed says so.
   */
  async runInternal(operation: Operation, call: InternalCall, trace: Trace): Promise<Answer> {
    const { by, path, query, body, idempotencyKey, upload } = call;
    try {
      if (operation.requirements.length > 0) authorize(operation, by.caller, path, this.#parts.getModuleState);
      const parameters = checkParameters(operation, path, new URLSearchParams(query).toString(), {});
      chooseMode(operation, by.caller, parameters.query, trace);
      const isKeyed = operation.idempotency !== 'none';
      const key = isKeyed ? readKey(idempotencyKey, operation.idempotency === 'required') : undefined;
      const bytes = Buffer.from(body === undefined ? '' : JSON.stringify(body));
      const read = {
        parameters,
        key,
        upload,
        ...(operation.takesBody ? checkBytes(operation, bytes) : noBody),
      };
      if (read.problems.length > 0 && key === undefined && !handlerReceivesProblems(operation))
        throw toValidationError(operation, read.problems, 'body');
      const asked = {
        caller: by.caller,
        configVersion: by.configVersion,
        subscription: undefined,
        credential: by.credential,
      };
      const file = upload && (await this.#parts.files.store(by.caller, upload));
      const answer = await this.#perform({ operation, path }, asked, read, file, new Date(), new Deadline(), trace);
      if (file && answer && isFileUnused(answer)) this.#parts.files.remove(file);
      return answer ?? this.#failures.answer(by.credential ? keyChanged() : serviceUnavailable(), trace);
    } catch (error) {
      return this.#failures.answer(error, trace);
    }
  }

  /**
   * Runs a request that was authenticated and read.
   * @returns undefined if its cached key or the configuration that validated it has changed; then
   * nothing was done
   */
  async #perform(
    { operation, path }: Pick<RoutedRequest, 'operation' | 'path'>,
    { caller, configVersion, credential }: Authenticated,
    { parameters, key, upload, body, problems }: Read,
    file: UploadedFile | undefined,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<Answer | undefined> {
    // The flag of the body is a dry run like that of the header.
    if (operation.dryRun && asksInBody(operation, body)) trace.dryRun = true;
    const claim =
      key === undefined ? undefined : toClaim(caller, operation, path, key, upload?.requestHash ?? hashBody(body));
    const nested = () => this.#nested.bind({ caller, configVersion, now, deadline, trace, db: () => call.db });
    const call: CallState = new CallState(
      this.#parts,
      trace,
      operation,
      caller,
      configVersion,
      { parameters, body, problems, file, claim },
      now,
      deadline,
      { nested },
    );
    if (caller.mustPropose && operation.dryRun && !trace.dryRun)
      call.proposal = {
        title: operation.summary,
        method: operation.method as NestedMethod,
        path: fillPath(operation.path, path),
        body,
        ifMatch: (parameters.header as Record<string, string> | undefined)?.['If-Match'],
        problems,
      };
    if (operation.method === 'GET' && caller.kind === 'anonymous' && !operation.platform)
      return this.#success(operation, await this.#handle(operation, call), call, trace);

    // A dry run leaves the key as it is: it neither claims it nor replays a stored response.
    const preconditions = { credential, claim: trace.dryRun ? undefined : claim };
    try {
      const attempt = () =>
        deadline.race(() => this.#runInTransaction(operation, call, deadline, preconditions, trace));
      // More parallel calls would only hold connections while they wait for the processor.
      return await (claim && operation.hashesPassword ? this.#hashing.run(attempt) : attempt());
    } catch (error) {
      const { transaction } = call.db;
      if (error instanceof DeadlinePassed) transaction?.destroy();
      else transaction?.abandon();
      if (isConfigurationChanged(error)) {
        trace.confirmed = false;
        return undefined;
      }
      // The call is already charged, so this failure does not concern the quota.
      return this.#failures.answer(error, trace, transaction?.broken);
    }
  }

  /**
   * Parses and validates parameters, Idempotency-Key and body.
   * @throws ApiError if the request is invalid
   */
  async #read(routed: RoutedRequest, trace: Trace): Promise<Read> {
    const { operation, path, queryText, request } = routed;
    checkDryRun(operation, request);
    const parameters = checkParameters(operation, path, queryText, request.headers);
    const key =
      operation.idempotency === 'none'
        ? undefined
        : readKey(request.headers['idempotency-key'], operation.idempotency === 'required');
    const rejectProblems = (problems: FieldProblem[]): void => {
      if (problems.length > 0 && key === undefined && !handlerReceivesProblems(operation))
        throw toValidationError(operation, problems, 'body');
    };
    const { upload, body, problems } = sendsFile(routed)
      ? await this.#receiveFile(routed, trace, rejectProblems)
      : {
          upload: undefined,
          ...(operation.takesBody ? await readJsonBody(routed, trace) : noBody),
        };
    const inBody = findUsedInBody(operation.deprecatedUses, body);
    if (inBody.length > 0) trace.deprecated = [...trace.deprecated, ...inBody];
    rejectProblems(problems);
    return { parameters, key, upload, body, problems };
  }

  /**
   * Receives a file, and the JSON body that comes with it.
   * @param rejectProblems rejects a body before its file arrives
   */
  async #receiveFile(
    { operation, request }: RoutedRequest,
    trace: Trace,
    rejectProblems: (problems: FieldProblem[]) => void,
  ): Promise<Pick<Read, 'upload' | 'body' | 'problems'>> {
    let read = noBody;
    const takeJson = (bytes: Buffer): void => {
      read = checkBytes(operation, bytes, operation.uploadJson);
      rejectProblems(read.problems);
    };
    const { folder } = this.#parts.files;
    const upload = await this.withoutRequestTimeout(request, () =>
      receiveUpload(operation, request, folder, () => invite(trace), takeJson),
    );
    return { upload, ...read };
  }

  /** Receives a file without the request timeout. */
  async withoutRequestTimeout<T>(request: IncomingMessage, receive: () => Promise<T>): Promise<T> {
    this.#uploading.add(request.socket);
    try {
      return await receive();
    } finally {
      this.#uploading.delete(request.socket);
    }
  }

  /**
   * Runs the handler under its preconditions: the credential is unchanged, the Idempotency-Key is
   * free. They are sent with the handler's first statements and verified in the same round trip. If
   * one fails, the transaction is rolled back.
   * @returns undefined if the credential has changed
   */
  async #runInTransaction(
    operation: Operation,
    call: CallState,
    deadline: Deadline,
    { credential, claim }: Preconditions,
    trace: Trace,
  ): Promise<Answer | undefined> {
    const attempt: Attempt = { operation, call, deadline, credential, claim, trace };
    // Hashing a password is too expensive if the response turns out to be stored, and effects
    // outside the transaction cannot be rolled back.
    const asksFirst = operation.hashesPassword || operation.actsOutside;
    const outcome = await (asksFirst
      ? this.#verifyFirst(attempt)
      : this.#runHandler(attempt, await this.#begin(attempt, { credential, claim, reads: findReads(attempt) })));
    if (outcome !== 'key_taken') return outcome === 'credential_changed' ? undefined : outcome;

    call.db.transaction?.abandon();
    const second = await this.#verifyFirst(attempt);
    // Another call took the key before the failure of this one was stored. It is still running.
    if (second === 'key_taken') rejectConflicts({ kind: 'in_progress' });
    return typeof second === 'string' ? undefined : second;
  }

  async #begin({ operation, call, deadline }: Attempt, opening: Preconditions): Promise<Transaction> {
    const transaction = await this.#parts.database.open(toScope(operation, call.caller), opening);
    if (deadline.passed) {
      // The connection came too late and is released.
      transaction.abandon();
      throw new DeadlinePassed();
    }
    call.begin(this.#parts.database, transaction);
    return transaction;
  }

  /** Waits for the result of the preconditions, and rolls back if one failed. */
  async #verifyPreconditions(
    { call, credential, trace }: Attempt,
    transaction: Transaction,
  ): Promise<PreconditionResult> {
    const opened = await transaction.verifyPreconditions();
    if (opened === 'credential_changed') await transaction.undo();
    else if (opened === 'key_taken') transaction.abandon();
    else if (!call.isVerified) {
      call.markVerified();
      if (credential) this.#admission.confirm(call.caller);
      trace.confirmed = credential !== undefined;
    }
    return opened;
  }

  /**
   * Verifies the preconditions before the handler runs, which takes one more round trip. Replays
   * the stored response if the Idempotency-Key has one.
   * @throws ApiError if the call with that key is still running or had another body
   */
  async #verifyFirst(attempt: Attempt): Promise<Answer | PreconditionFailure> {
    const { operation, credential, claim } = attempt;
    const transaction = await this.#begin(attempt, { credential });
    const claiming = claim && transaction.claim(claim);
    // It also rejects if the credential has changed.
    claiming?.catch(() => undefined);
    const opened = await this.#verifyPreconditions(attempt, transaction);
    if (opened !== 'ok') return opened;
    const verdict = await claiming;
    if (verdict?.kind === 'replay') {
      transaction.abandon();
      const body = operation.secretAnswer ? this.#parts.secrets.decrypt(verdict.body) : verdict.body;
      return { status: verdict.status, body, headers: { 'idempotent-replay': 'true' } };
    }
    if (verdict) rejectConflicts(verdict);
    return this.#runHandler(attempt, transaction);
  }

  /** Runs the handler, and commits or rolls back. */
  async #runHandler(attempt: Attempt, transaction: Transaction): Promise<Answer | PreconditionFailure> {
    const { operation, call, deadline, trace } = attempt;
    let answer: Answer | undefined;
    let failure: unknown;
    try {
      if (call.request.problems.length > 0 && !handlerReceivesProblems(operation))
        throw toValidationError(operation, [...call.request.problems], 'body');
      const result = await this.#handle(operation, call);
      const pending = countsProposals(attempt) ? await this.#parts.proposals.countPending(call as never) : 0;
      answer = this.#success(operation, result, call, trace, pending);
    } catch (error) {
      // A failed statement makes later ones fail too, so the first failure is reported.
      failure = error instanceof ApiError ? error : ((await transaction.firstFailure()) ?? error);
      // The caller already got a response, and the transaction was ended under the handler.
      if (deadline.passed) throw new DeadlinePassed();
    }
    // The commit is sent together with unawaited statements and preconditions, in one message.
    const committed =
      answer && !operation.reads && !transaction.broken ? this.#finish(attempt, answer, transaction) : undefined;
    committed?.catch(() => undefined);
    const opened = await this.#verifyPreconditions(attempt, transaction);
    if (opened !== 'ok') return opened;
    if (isConfigurationChanged(failure)) throw failure;
    if (!answer) return this.#fail(attempt, failure, transaction);

    if (committed) await committed;
    else if (transaction.broken) throw serviceUnavailable();
    else if (call.db.changes.length === 0) transaction.endRead();
    else await this.#commit(attempt, answer, transaction);
    if (!trace.dryRun) for (const work of call.db.callbacks) work();
    return answer;
  }

  /** Commits a write, or rolls it back after the same checks if it is a dry run. */
  #finish(attempt: Attempt, answer: Answer, transaction: Transaction): Promise<void> {
    return attempt.trace.dryRun
      ? transaction.checkAndRollBack(attempt.deadline.left)
      : this.#commit(attempt, answer, transaction);
  }

  #commit({ operation, call, deadline, claim }: Attempt, answer: Answer, transaction: Transaction): Promise<void> {
    const { caller, now } = call;
    const { changes } = call.db;
    const context = { caller, now, idempotencyKeyHash: claim ? sha256(claim.key) : null };
    const kept = claim && { claim, status: answer.status, body: this.#storedBody(operation, answer) };
    return this.#parts.database.commit(transaction, changes, context, deadline.left, kept);
  }

  /** Rolls back the handler's writes, and stores the failure if a retry must get it again. */
  async #fail(
    { operation, call, deadline, claim, trace }: Attempt,
    failure: unknown,
    transaction: Transaction,
  ): Promise<Answer | 'key_taken'> {
    const { caller, now } = call;
    const { changes } = call.db;
    const failed = this.#failures.answer(failure, trace, transaction.broken);
    if (trace.dryRun) transaction.abandon();
    else if (failure instanceof ApiError && failure.keepsWork && !transaction.broken) {
      const context = { caller, now, idempotencyKeyHash: null };
      await this.#parts.database.commit(transaction, changes, context, deadline.left);
    } else if (claim && isStored(failed.status) && !transaction.broken) {
      const kept = { claim, status: failed.status, body: this.#storedBody(operation, failed) };
      if (!(await transaction.storeFailure(kept, new Date(), deadline.left))) return 'key_taken';
    } else transaction.abandon();
    return failed;
  }

  /** Returns the body to store for replays; encrypted if it contains a secret. */
  #storedBody(operation: Operation, answer: Answer): string {
    const body = String(answer.body);
    return operation.secretAnswer ? this.#parts.secrets.encrypt(body) : body;
  }

  #handle(operation: Operation, call: CallState): Promise<unknown> {
    if (call.proposal) return this.#parts.proposals.propose(call as never, call.proposal);
    const handler = this.#parts.handlers[operation.id];
    if (!handler) throw new Error(`no handler for ${operation.id}`);
    return handler(call as never);
  }

  #success(
    operation: Operation,
    result: unknown,
    { caller, arrivedAt, db }: CallState,
    trace: Trace,
    pending = 0,
  ): Answer {
    const would = trace.dryRun ? listEffects(db.changes) : undefined;
    const given = result as { status: number; data?: unknown; body?: unknown; file?: FileBody; etag?: string };
    if (given.file) return { status: given.status, body: given.file, headers: buildFileHeaders(given.file) };
    const body =
      operation.answer === 'envelope'
        ? buildSuccessBody(
            given,
            caller.requestId,
            arrivedAt.getTime(),
            caller.testMode,
            this.readFigures(trace),
            would,
            pending,
          )
        : given.body instanceof PreparedBody
          ? given.body
          : JSON.stringify(given.body);
    return { status: given.status, body, headers: successHeaders(operation, caller, given.etag) };
  }
}

/**
 * Puts the call of a session token in the mode that its query names: it has none of its own.
 * @throws ApiError 400 for another credential, if it names the other mode
 */
function chooseMode({ modeWith = '' }: Operation, caller: Caller, query: unknown, trace: Trace): void {
  const mode = (query as Record<string, unknown> | undefined)?.[modeWith];
  if (mode === undefined) return;
  const isTest = mode === 'test';
  if (caller.kind === 'session') caller.testMode = isTest;
  else if (isTest !== caller.testMode) throw validationFailed([toModeProblem(modeWith, caller)], 400);
  trace.testMode = caller.testMode;
}

function toModeProblem(field: string, { testMode }: Caller): FieldProblem {
  const own = testMode ? 'test' : 'live';
  const message = `${field} must be ${own}, the mode of this credential. Leave it out, or send a credential of the other mode.`;
  return buildProblem(field, 'INVALID_OPTION', message, { allowed: [own] });
}

/** Returns true if the answer says how many proposals of the caller wait. If it has none, nothing is counted. */
const countsProposals = ({ operation, call }: Pick<Attempt, 'operation' | 'call'>): boolean =>
  call.caller.hasProposals === true || operation.proposes || call.proposal !== undefined;

/** Returns how a call reads. The proposals of a caller are counted in a further statement. */
const findReads = (attempt: Attempt): Operation['reads'] =>
  attempt.operation.reads && countsProposals(attempt) ? 'many' : attempt.operation.reads;

/** Fills in the parameters of a path. */
const fillPath = (template: string, values: Record<string, string>): string =>
  template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? '').replaceAll('%3A', ':'));

/** The route that used the cached key looks it up and calls again. */
const keyChanged = () => new ApiError('AUTH_INVALID_KEY', 'This API key has just been changed. Try again.');

/** Returns true if the body is a file, or a form with one. */
function sendsFile({ operation, request }: RoutedRequest): boolean {
  if (operation.upload === undefined) return false;
  return !operation.takesBody || isForm(request);
}

/** Asks a client that sent `Expect: 100-continue` for its body. */
function invite(trace: Trace): void {
  trace.invite?.();
  trace.invite = undefined;
}

/** Reads and validates a JSON body. The request log can show bodies of writes without secrets. */
async function readJsonBody(
  { operation, request, signedBody }: RoutedRequest,
  trace: Trace,
): Promise<Pick<Read, 'body' | 'problems'>> {
  const bytes = signedBody ?? (await readBytes(request, () => invite(trace)));
  if (!operation.reads && !operation.hasSecretBody) trace.body = bytes;
  return readBody(operation, request, bytes);
}

function readBody(operation: Operation, request: IncomingMessage, bytes: Buffer): Pick<Read, 'body' | 'problems'> {
  if (bytes.length === 0 && !operation.bodyRequired) return noBody;
  if (bytes.length > 0 || request.headers['content-type'] !== undefined)
    checkMediaType(request, operation.upload === undefined ? '' : ', or as multipart/form-data');
  return checkBytes(operation, bytes);
}

/** @param path of the body in a form; by default, it is the whole body */
function checkBytes(operation: Operation, bytes: Buffer, path = ''): Pick<Read, 'body' | 'problems'> {
  if (bytes.length === 0 && !operation.bodyRequired) return noBody;
  const { value, problems } = parseJson(bytes, operation, path);
  const invalid = checkBody(operation, value, path);
  if (problems.length === 0) return { body: value, problems: invalid };
  const unstorable = new Set(problems.map((each) => each.field));
  return { body: value, problems: [...problems, ...invalid.filter((each) => !unstorable.has(each.field))] };
}

function successHeaders(
  operation: Operation,
  caller: Caller,
  etag: string | undefined,
): Record<string, string> | undefined {
  // A response that required a credential must not be shared.
  const isOwn = operation.credentialWith !== undefined && caller.kind !== 'anonymous';
  const cacheControl = isOwn ? 'private, no-cache' : operation.cacheControl;
  if (cacheControl === undefined && etag === undefined && !operation.readableAnywhere) return undefined;
  return {
    ...(operation.readableAnywhere ? { 'access-control-allow-origin': '*' } : {}),
    ...(cacheControl === undefined ? {} : { 'cache-control': cacheControl }),
    ...(etag === undefined ? {} : { etag }),
  };
}

/** Returns true if the body of an operation that declares `dry_run` sets it. */
const asksInBody = ({ takesDryRun }: Operation, body: unknown): boolean =>
  takesDryRun && (body as { dry_run?: unknown } | null | undefined)?.dry_run === true;

/**
 * Returns true if the handler receives the body's problems. Otherwise they are rejected before it
 * runs.
 */
function handlerReceivesProblems(operation: Operation): boolean {
  return operation.uniformRefusal || operation.tenantFields;
}

function toScope(operation: Operation, caller: Caller): Scope {
  if (operation.platform) return 'platform';
  return caller.companyId === '' ? 'nobody' : { companyId: caller.companyId, testMode: caller.testMode };
}

/** Returns true if the call certainly did not record its file. In doubt, the sweep decides. */
function isFileUnused({ status, headers }: Answer): boolean {
  return (status >= 400 && status < 500) || headers?.['idempotent-replay'] !== undefined;
}
