// The state of one call, which handlers see as Call.

import { type Claim, computeRetryKey } from '../../db/client/idempotency.ts';
import type { Transaction } from '../../db/client/transaction.ts';
import type { Caller } from '../caller.ts';
import { type ModuleState, requireScope } from '../credentials/authorization.ts';
import type { ApiError, FieldProblem } from '../errors.ts';
import type { UploadedFile } from '../files/files.ts';
import type { Call, CallRequest, Proposal } from '../handler.ts';
import type { Operation } from '../openapi/document.ts';
import { toTenantTime } from '../test-time.ts';
import { BoundDatabase, type CallContext, NestedDatabase } from './call-database.ts';
import { BoundServices, type CallParts, type ServicesOfCall } from './call-services.ts';
import type { Deadline } from './deadline.ts';
import type { RequestDatabase } from './request-database.ts';
import type { Trace } from './trace.ts';
import { toJoinedError } from './validation.ts';

/** The input of a request after parsing and validation. */
export interface CheckedRequest {
  parameters: { path: unknown; query: unknown; header: unknown };
  body: unknown;
  problems: readonly FieldProblem[];
  file: UploadedFile | undefined;
  claim: Claim | undefined;
}

class BoundRequest implements Omit<CallRequest, 'path' | 'query' | 'headers' | 'body' | 'file'> {
  readonly path: unknown;
  readonly query: unknown;
  readonly headers: unknown;
  readonly body: unknown;
  readonly file: UploadedFile | undefined;
  readonly problems: readonly FieldProblem[];
  readonly #operation: Operation;
  readonly #claim: Claim | undefined;

  constructor(operation: Operation, { parameters, body, problems, file, claim }: CheckedRequest) {
    this.path = parameters.path;
    this.query = parameters.query;
    this.headers = parameters.header;
    this.body = body;
    this.file = file;
    this.problems = problems;
    this.#operation = operation;
    this.#claim = claim;
  }

  /** Computed on demand: few calls need it. */
  get retryKey(): string | null {
    return this.#claim ? computeRetryKey(this.#claim) : null;
  }

  rejection(found: readonly FieldProblem[], documented: readonly FieldProblem[] = []): ApiError {
    return toJoinedError(this.#operation, [...documented, ...this.problems], found);
  }
}

/** The state of one call; handlers see it as Call. */
export class CallState implements Omit<Call, 'request'> {
  readonly request: BoundRequest;
  readonly caller: Caller;
  readonly arrivedAt: Date;
  readonly now: Date;
  readonly services: BoundServices;
  /** The database of the current attempt. */
  db: BoundDatabase;
  /** The proposal to keep instead of running the handler; undefined if the call takes effect. */
  proposal: Proposal | undefined;
  /** The scopes that its handler required. */
  readonly required = new Set<string>();
  readonly #boundTo: CallContext;
  readonly #getModuleState: ModuleState;
  readonly #database: RequestDatabase;

  constructor(
    parts: CallParts,
    trace: Trace,
    operation: Operation,
    caller: Caller,
    configVersion: number,
    request: CheckedRequest,
    arrivedAt: Date,
    deadline: Deadline,
    own: ServicesOfCall,
  ) {
    this.#database = parts.database;
    this.request = new BoundRequest(operation, request);
    this.caller = caller;
    this.arrivedAt = arrivedAt;
    this.now = operation.usesRealTime ? arrivedAt : toTenantTime(arrivedAt, caller);
    this.#getModuleState = parts.getModuleState;
    this.#boundTo = { operation, caller, arrivedAt, now: this.now, configVersion, deadline, trace, isVerified: false };
    this.db = new BoundDatabase(parts.database, undefined, this.#boundTo);
    this.services = new BoundServices(parts, this.#boundTo, (work) => this.db.withoutConnection(work), own);
  }

  /** True after the preconditions of its transaction were verified. */
  get isVerified(): boolean {
    return this.#boundTo.isVerified;
  }

  markVerified(): void {
    this.#boundTo.isVerified = true;
  }

  /**
   * Starts an attempt with a new database: drops the changes of the previous attempt. Code that
   * still holds the old database has no effect.
   */
  begin(database: RequestDatabase, transaction: Transaction): void {
    this.db = new BoundDatabase(database, transaction, this.#boundTo);
  }

  /** Runs in the transaction of another call. */
  join(outer: BoundDatabase): void {
    this.db = new NestedDatabase(this.#database, outer, this.#boundTo);
  }

  currentTime(): Date {
    return this.#boundTo.operation.usesRealTime ? new Date() : toTenantTime(new Date(), this.caller);
  }

  authorize(scope: string): void {
    requireScope(scope, this.caller, this.#getModuleState);
    this.required.add(scope);
  }
}
