// The state of one call, which handlers see as Call, and what is noted of it on the way.
import type { Workspace } from '../domain/workspace.ts';
import { requireScope } from './authorization.ts';
import { Deadline } from './deadline.ts';
import type { DeprecatedUse } from './deprecation.ts';
import type { Document, Operation } from './document.ts';
import type { ApiError, FieldProblem } from './errors.ts';
import type { Files, UploadedFile } from './files.ts';
import type { Call, Caller, Change, Sql } from './handler.ts';
import type { Cursors } from './paging.ts';
import type { PreparedBody } from './prepared-body.ts';
import { type RateFigures, type RateLimits, refuse, type Verdict } from './rate-limits.ts';
import type { SessionTokens } from './session-tokens.ts';
import type { Charge, Store, Transaction } from './store.ts';
import { joinedRefusal } from './validation.ts';

/** Parts of the server that calls reach. */
export interface CallParts {
  document: Document;
  store: Store;
  cursors: Cursors;
  sessionTokens: SessionTokens;
  limits: RateLimits;
  /** True when there is a mail server. */
  mailIsSent: boolean;
  files: Files;
}

/** What is noted of a request for its answer's headers and its log line. */
export interface Trace {
  requestId: string;
  operation: string;
  caller: Caller | undefined;
  error: string | undefined;
  /** Failures are told as RFC 6749 says. */
  oauth: boolean;
  /** Of the limit that is closest to refusing; undefined as long as nothing was counted. */
  figures: RateFigures | undefined;
  /** What the call was charged to, if it was. */
  charge: Charge | undefined;
  /** Deprecated forms that the request uses; its answer says so, whatever it is. */
  deprecated: readonly DeprecatedUse[];
}

/** @throws ApiError 429 when the verdict refuses */
export function admit(verdict: Verdict, trace: Trace): void {
  trace.figures = verdict;
  if (!verdict.allowed) throw refuse(verdict, Date.now());
}

/** The state of one call; handlers see it as Call. */
export class CallState implements Omit<Call, 'path' | 'query' | 'header' | 'body' | 'file'> {
  readonly path: unknown;
  readonly query: unknown;
  readonly header: unknown;
  readonly body: unknown;
  readonly problems: readonly FieldProblem[];
  readonly caller: Caller;
  readonly now: Date;
  readonly cursors: Cursors;
  readonly sessionTokens: SessionTokens;
  readonly document: PreparedBody;
  readonly mailIsSent: boolean;
  readonly files: Files;
  readonly file: UploadedFile | undefined;
  /** What is to run once the transaction is committed. */
  readonly later: (() => void)[] = [];
  readonly changes: Change[] = [];
  transaction: Transaction | undefined;
  readonly #store: Store;
  readonly #operation: Operation;
  readonly #configVersion: number;
  readonly #deadline: Deadline;
  readonly #limits: RateLimits;
  readonly #trace: Trace;

  constructor(
    parts: CallParts,
    trace: Trace,
    operation: Operation,
    caller: Caller,
    configVersion: number,
    parameters: { path: unknown; query: unknown; header: unknown },
    body: unknown,
    problems: FieldProblem[],
    now: Date,
    deadline: Deadline,
    file: UploadedFile | undefined,
  ) {
    this.files = parts.files;
    this.file = file;
    this.#store = parts.store;
    this.#limits = parts.limits;
    this.#trace = trace;
    this.#operation = operation;
    this.#deadline = deadline;
    this.#configVersion = configVersion;
    this.cursors = parts.cursors;
    this.sessionTokens = parts.sessionTokens;
    this.document = parts.document.body;
    this.mailIsSent = parts.mailIsSent;
    this.caller = caller;
    this.path = parameters.path;
    this.query = parameters.query;
    this.header = parameters.header;
    this.body = body;
    this.problems = problems;
    this.now = now;
  }

  get sql(): Sql {
    if (!this.transaction) throw new Error('a public read has no transaction');
    return this.transaction.sql;
  }

  refusal(found: readonly FieldProblem[], documented: readonly FieldProblem[] = []): ApiError {
    return joinedRefusal(this.#operation, [...documented, ...this.problems], found);
  }

  workspace(): Promise<Workspace> {
    return this.#store.workspace(this.caller.companyId, this.#configVersion);
  }

  authorize(scope: string): void {
    requireScope(scope, this.caller);
  }

  record(change: Change): void {
    this.changes.push(change);
  }

  afterwards(work: () => void): void {
    this.later.push(work);
  }

  aside<T>(work: Promise<T>): Promise<T> {
    const paused = this.#deadline.pause(work);
    return this.transaction ? this.transaction.aside(paused) : paused;
  }

  ping(): Promise<void> {
    return new Deadline().race(() => this.#store.ping());
  }

  get limitsAreOpen(): boolean {
    return this.#limits.isOpen;
  }

  refuseGuessing(email: string): void {
    const blocked = this.#limits.refusalOfAccount(email, Date.now());
    if (blocked) admit({ ...blocked, allowed: false }, this.#trace);
  }

  async countWrongPassword(email: string): Promise<void> {
    const verdict = await this.#limits.takeWrongPassword(email, Date.now());
    if (!verdict.allowed) admit(verdict, this.#trace);
  }
}
