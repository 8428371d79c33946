// The way of a request once its operation is known, from authentication to the commit.
import type { IncomingMessage } from 'node:http';
import type { PreconditionResult, Preconditions, Scope } from '../../db/client/preconditions.ts';
import type { Transaction } from '../../db/client/transaction.ts';
import type { Caller } from '../caller.ts';
import type { Authenticated } from '../credentials/authentication.ts';
import { authorize } from '../credentials/authorization.ts';
import { hashesAtOnce } from '../credentials/passwords.ts';
import { sha256 } from '../credentials/secrets.ts';
import { ApiError, type FieldProblem, serviceUnavailable } from '../errors.ts';
import type { FileBody, UploadedFile } from '../files/files.ts';
import { checkMediaType, parseJson, readBytes } from '../http/body.ts';
import { successBody } from '../http/envelope.ts';
import { receiveUpload, type Upload } from '../http/multipart.ts';
import { type Answer, fileHeaders } from '../http/responses.ts';
import type { RateFigures } from '../limits/rate-limits.ts';
import { Semaphore } from '../limits/semaphore.ts';
import { usedInBody } from '../openapi/deprecation.ts';
import type { Operation } from '../openapi/document.ts';
import { PreparedBody } from '../openapi/prepared-body.ts';
import type { Admission, AdmissionParts, RoutedRequest } from './admission.ts';
import { CallState } from './call-state.ts';
import { Deadline, DeadlinePassed } from './deadline.ts';
import type { Failures } from './failures.ts';
import { claimOf, hashOf, isKept, readKey, refuseOthers } from './idempotency.ts';
import type { Trace } from './trace.ts';
import { checkBody, checkParameters, refusal } from './validation.ts';

export interface RunnerParts extends AdmissionParts {
  /** By operationId; typed as Handlers where they are joined. */
  handlers: Readonly<Record<string, (call: never) => Promise<unknown>>>;
}

/** A call that this process makes itself. */
export interface InternalCall {
  by: Pick<Authenticated, 'caller' | 'configVersion'> & Partial<Pick<Authenticated, 'credential'>>;
  /** Values of the path's parameters, decoded. */
  path: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  /** If the operation takes one: the same call with the same key runs once and is answered alike. */
  idempotencyKey?: string;
}

/** What a request brings along, read and checked. */
interface Read {
  parameters: { path: unknown; query: unknown; header: unknown };
  /** Of an idempotent call. */
  key: string | undefined;
  upload: Upload | undefined;
  body: unknown;
  problems: FieldProblem[];
}

/** One request on its way through its transaction. */
interface Attempt extends Preconditions {
  operation: Operation;
  call: CallState;
  deadline: Deadline;
  trace: Trace;
}

/** A precondition does not hold. */
type PreconditionFailure = Exclude<PreconditionResult, 'ok'>;

const noBody: Pick<Read, 'body' | 'problems'> = { body: undefined, problems: [] };

export class OperationRunner {
  readonly #parts: RunnerParts;
  readonly #failures: Failures;
  readonly #admission: Admission;
  /** Calls that hold a connection while they hash a password. */
  readonly #hashing = new Semaphore(hashesAtOnce);
  /** Connections on which a file arrives: it has a pace of its own instead of ten seconds for the whole. */
  readonly #uploading = new WeakSet<object>();

  constructor(parts: RunnerParts, admission: Admission, failures: Failures) {
    this.#parts = parts;
    this.#failures = failures;
    this.#admission = admission;
  }

  /** True while a file arrives on a connection. */
  isUploading(socket: object): boolean {
    return this.#uploading.has(socket);
  }

  /** Of the limit that is closest to refusing the call. */
  figuresOf(trace: Trace): RateFigures {
    trace.figures ??= this.#parts.limits.uncounted(Date.now());
    return trace.figures;
  }

  /** @throws ApiError what refuses the call before its transaction begins */
  async run(arrived: RoutedRequest, trace: Trace): Promise<Answer> {
    const { operation, request } = arrived;
    const isSigned = operation.signed && request.headers['service-signature'] !== undefined;
    const routed = isSigned ? { ...arrived, signedBody: await readBytes(request, () => invite(trace)) } : arrived;
    const now = new Date();
    const deadline = new Deadline();
    const authenticate = () => this.#admission.authenticate(routed, now, deadline, trace);
    // A file is stored before any transaction could tell that its sender's key is not good any more.
    const known =
      routed.operation.upload === undefined
        ? await this.#admission.authenticateFromCache(routed, now, deadline, trace)
        : undefined;
    const admitted = known ?? (await authenticate());
    let read: Read;
    try {
      read = await this.#read(routed, trace);
    } catch (error) {
      // Whose key is not good any more is told that, not what is wrong with the rest.
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
    if (file && leftOut(answer)) this.#parts.files.remove(file);
    return answer;
  }

  /**
   * Runs a call of this process, whose caller is known: no limit counts it, and it is charged to nobody.
   * If its caller comes from a remembered key, nothing is done unless the key is verified, which the trace says.
   */
  async runInternal(operation: Operation, call: InternalCall, trace: Trace): Promise<Answer> {
    const { by, path, query, body, idempotencyKey } = call;
    try {
      if (operation.requirements.length > 0) authorize(operation, by.caller, path, this.#parts.moduleState);
      const parameters = checkParameters(operation, path, new URLSearchParams(query).toString(), {});
      const isKeyed = operation.idempotency !== 'none';
      const key = isKeyed ? readKey(idempotencyKey, operation.idempotency === 'required') : undefined;
      const bytes = Buffer.from(body === undefined ? '' : JSON.stringify(body));
      const read = {
        parameters,
        key,
        upload: undefined,
        ...(operation.takesBody ? checkBytes(operation, bytes) : noBody),
      };
      if (read.problems.length > 0 && key === undefined && !handlerRefuses(operation))
        throw refusal(operation, read.problems, 'body');
      const asked = {
        caller: by.caller,
        configVersion: by.configVersion,
        subscription: undefined,
        credential: by.credential,
      };
      const answer = await this.#perform(
        { operation, path },
        asked,
        read,
        undefined,
        new Date(),
        new Deadline(),
        trace,
      );
      return answer ?? this.#failures.answer(keyChanged(), trace);
    } catch (error) {
      return this.#failures.answer(error, trace);
    }
  }

  /** Runs a request that was authenticated and read. @returns undefined when its key is not what it was, and nothing was done */
  async #perform(
    { operation, path }: Pick<RoutedRequest, 'operation' | 'path'>,
    { caller, configVersion, credential }: Authenticated,
    { parameters, key, upload, body, problems }: Read,
    file: UploadedFile | undefined,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<Answer | undefined> {
    const claim =
      key === undefined ? undefined : claimOf(caller, operation, path, key, upload?.requestHash ?? hashOf(body));
    const call = new CallState(
      this.#parts,
      trace,
      operation,
      caller,
      configVersion,
      { parameters, body, problems, file, claim },
      now,
      deadline,
    );
    if (operation.method === 'GET' && caller.kind === 'anonymous' && !operation.platform)
      return this.#success(operation, await this.#handle(operation, call), caller, now, trace);

    try {
      const attempt = () =>
        deadline.race(() => this.#runInTransaction(operation, call, deadline, { credential, claim }, trace));
      // More would only hold connections while they wait for the processor.
      return await (claim && operation.hashesPassword ? this.#hashing.run(attempt) : attempt());
    } catch (error) {
      const { transaction } = call.db;
      if (error instanceof DeadlinePassed) transaction?.destroy();
      else transaction?.abandon();
      // The call was charged before: whatever fails here is no matter of the quota.
      return this.#failures.answer(error, trace, transaction?.broken);
    }
  }

  /** Reads what the request brings along, now that its caller is authenticated. @throws ApiError for what cannot be read */
  async #read({ operation, path, queryText, request, signedBody }: RoutedRequest, trace: Trace): Promise<Read> {
    const parameters = checkParameters(operation, path, queryText, request.headers);
    const key =
      operation.idempotency === 'none'
        ? undefined
        : readKey(request.headers['idempotency-key'], operation.idempotency === 'required');
    const { folder } = this.#parts.files;
    const upload =
      operation.upload === undefined
        ? undefined
        : await this.#unhurried(request, () => receiveUpload(operation, request, folder, () => invite(trace)));
    const { body, problems } = operation.takesBody
      ? readBody(operation, request, signedBody ?? (await readBytes(request, () => invite(trace))))
      : noBody;
    const inBody = usedInBody(operation.deprecatedUses, body);
    if (inBody.length > 0) trace.deprecated = [...trace.deprecated, ...inBody];
    if (problems.length > 0 && key === undefined && !handlerRefuses(operation))
      throw refusal(operation, problems, 'body');
    return { parameters, key, upload, body, problems };
  }

  /** Receives a file without the time limit of other requests. */
  async #unhurried<T>(request: IncomingMessage, receive: () => Promise<T>): Promise<T> {
    this.#uploading.add(request.socket);
    try {
      return await receive();
    } finally {
      this.#uploading.delete(request.socket);
    }
  }

  /**
   * Runs the handler behind what must hold: the credential as it was found, the Idempotency-Key free. All of it travels with the handler's
   * first statements, so that one round trip decides; where it does not hold, what the handler did is undone.
   * @returns undefined when the credential is not what it was
   */
  async #runInTransaction(
    operation: Operation,
    call: CallState,
    deadline: Deadline,
    { credential, claim }: Preconditions,
    trace: Trace,
  ): Promise<Answer | undefined> {
    const attempt: Attempt = { operation, call, deadline, credential, claim, trace };
    // Hashing a password to find out afterwards that the answer is known costs too much.
    const asksFirst = operation.hashesPassword || operation.actsOutside;
    const outcome = await (asksFirst
      ? this.#ask(attempt)
      : this.#work(attempt, await this.#begin(attempt, { credential, claim, reads: operation.reads })));
    if (outcome !== 'key_taken') return outcome === 'credential_changed' ? undefined : outcome;

    call.db.transaction?.abandon();
    const second = await this.#ask(attempt);
    // Taken once more, between the failure and its keeping: then the other call is still on its way.
    if (second === 'key_taken') refuseOthers({ kind: 'in_progress' });
    return typeof second === 'string' ? undefined : second;
  }

  async #begin({ operation, call, deadline }: Attempt, opening: Preconditions): Promise<Transaction> {
    const transaction = await this.#parts.database.open(scopeOf(operation, call.caller), opening);
    if (deadline.passed) {
      // A connection that comes too late goes straight back.
      transaction.abandon();
      throw new DeadlinePassed();
    }
    call.begin(this.#parts.database, transaction);
    return transaction;
  }

  /** Waits until it is known whether what must hold of a transaction does; it is undone where it does not. */
  async #settle({ call, credential, trace }: Attempt, transaction: Transaction): Promise<PreconditionResult> {
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
   * The slower way: asks first what must hold, and lets the handler work only then. Answers as the call was answered that has the key.
   * @throws ApiError when that call is still running, or was another
   */
  async #ask(attempt: Attempt): Promise<Answer | PreconditionFailure> {
    const { operation, credential, claim } = attempt;
    const transaction = await this.#begin(attempt, { credential });
    const claiming = claim && transaction.claim(claim);
    // It fails, too, where the credential is not what it was.
    claiming?.catch(() => undefined);
    const opened = await this.#settle(attempt, transaction);
    if (opened !== 'ok') return opened;
    const verdict = await claiming;
    if (verdict?.kind === 'replay') {
      transaction.abandon();
      const body = operation.secretAnswer ? this.#parts.secrets.decrypt(verdict.body) : verdict.body;
      return { status: verdict.status, body, headers: { 'idempotent-replay': 'true' } };
    }
    if (verdict) refuseOthers(verdict);
    return this.#work(attempt, transaction);
  }

  /** Lets the handler work, and commits or undoes it. */
  async #work(attempt: Attempt, transaction: Transaction): Promise<Answer | PreconditionFailure> {
    const { operation, call, deadline, trace } = attempt;
    const { caller, now } = call;
    let answer: Answer | undefined;
    let failure: unknown;
    try {
      if (call.request.problems.length > 0 && !handlerRefuses(operation))
        throw refusal(operation, [...call.request.problems], 'body');
      answer = this.#success(operation, await this.#handle(operation, call), caller, now, trace);
    } catch (error) {
      // A statement that failed takes those behind it along.
      failure = error instanceof ApiError ? error : ((await transaction.firstFailure()) ?? error);
      // The caller has an answer, and the transaction was ended under the handler.
      if (deadline.passed) throw new DeadlinePassed();
    }
    // Sent with what the handler has not waited for, and with what must hold: all of it is one message then.
    const committed =
      answer && !operation.reads && !transaction.broken ? this.#commit(attempt, answer, transaction) : undefined;
    committed?.catch(() => undefined);
    const opened = await this.#settle(attempt, transaction);
    if (opened !== 'ok') return opened;
    if (!answer) return this.#fail(attempt, failure, transaction);

    if (committed) await committed;
    else if (transaction.broken) throw serviceUnavailable();
    else if (call.db.changes.length === 0) transaction.endRead();
    else await this.#commit(attempt, answer, transaction);
    for (const work of call.db.callbacks) work();
    return answer;
  }

  #commit({ operation, call, deadline, claim }: Attempt, answer: Answer, transaction: Transaction): Promise<void> {
    const { caller, now } = call;
    const { changes } = call.db;
    const context = { caller, now, idempotencyKeyHash: claim ? sha256(claim.key) : null };
    const kept = claim && { claim, status: answer.status, body: this.#keptBody(operation, answer) };
    return this.#parts.database.commit(transaction, changes, context, deadline.left, kept);
  }

  /** Undoes what the handler did before it failed, and keeps the failure where it is kept. */
  async #fail(
    { operation, call, deadline, claim, trace }: Attempt,
    failure: unknown,
    transaction: Transaction,
  ): Promise<Answer | 'key_taken'> {
    const { caller, now } = call;
    const { changes } = call.db;
    const failed = this.#failures.answer(failure, trace, transaction.broken);
    if (failure instanceof ApiError && failure.keepsWork && !transaction.broken) {
      const context = { caller, now, idempotencyKeyHash: null };
      await this.#parts.database.commit(transaction, changes, context, deadline.left);
    } else if (claim && isKept(failed.status) && !transaction.broken) {
      const kept = { claim, status: failed.status, body: this.#keptBody(operation, failed) };
      if (!(await transaction.storeFailure(kept, new Date(), deadline.left))) return 'key_taken';
    } else transaction.abandon();
    return failed;
  }

  /** What is kept for a replay; in a form that only this server can read, where the answer shows a secret. */
  #keptBody(operation: Operation, answer: Answer): string {
    const body = String(answer.body);
    return operation.secretAnswer ? this.#parts.secrets.encrypt(body) : body;
  }

  #handle(operation: Operation, call: CallState): Promise<unknown> {
    const handler = this.#parts.handlers[operation.id];
    if (!handler) throw new Error(`no handler for ${operation.id}`);
    return handler(call as never);
  }

  #success(operation: Operation, result: unknown, caller: Caller, now: Date, trace: Trace): Answer {
    const given = result as { status: number; data?: unknown; body?: unknown; file?: FileBody; etag?: string };
    if (given.file) return { status: given.status, body: given.file, headers: fileHeaders(given.file) };
    const body =
      operation.answer === 'envelope'
        ? successBody(given, caller.requestId, now.getTime(), caller.testMode, this.figuresOf(trace))
        : given.body instanceof PreparedBody
          ? given.body
          : JSON.stringify(given.body);
    return { status: given.status, body, headers: successHeaders(operation, caller, given.etag) };
  }
}

/** Who asked for it asks again, in the name of who is looked up. */
const keyChanged = () => new ApiError('AUTH_INVALID_KEY', 'This API key has just been changed. Try again.');

/** Tells a client to send its body, if it waits to be told. */
function invite(trace: Trace): void {
  trace.invite?.();
  trace.invite = undefined;
}

function readBody(operation: Operation, request: IncomingMessage, bytes: Buffer): Pick<Read, 'body' | 'problems'> {
  if (bytes.length === 0 && !operation.bodyRequired) return noBody;
  if (bytes.length > 0 || request.headers['content-type'] !== undefined) checkMediaType(request);
  return checkBytes(operation, bytes);
}

function checkBytes(operation: Operation, bytes: Buffer): Pick<Read, 'body' | 'problems'> {
  if (bytes.length === 0 && !operation.bodyRequired) return noBody;
  const { value, problems } = parseJson(bytes, operation.arrayBody);
  const invalid = checkBody(operation, value);
  if (problems.length === 0) return { body: value, problems: invalid };
  const unstorable = new Set(problems.map((each) => each.field));
  return { body: value, problems: [...problems, ...invalid.filter((each) => !unstorable.has(each.field))] };
}

function successHeaders(
  operation: Operation,
  caller: Caller,
  etag: string | undefined,
): Record<string, string> | undefined {
  // What a credential was needed for is for its caller alone.
  const isOwn = operation.credentialWith !== undefined && caller.kind !== 'anonymous';
  const cacheControl = isOwn ? 'private, no-cache' : operation.cacheControl;
  if (cacheControl === undefined && etag === undefined && !operation.readableAnywhere) return undefined;
  return {
    ...(operation.readableAnywhere ? { 'access-control-allow-origin': '*' } : {}),
    ...(cacheControl === undefined ? {} : { 'cache-control': cacheControl }),
    ...(etag === undefined ? {} : { etag }),
  };
}

/** True if the handler receives the body's problems. Otherwise they are rejected before it runs. */
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
