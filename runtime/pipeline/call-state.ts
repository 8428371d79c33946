// The state of one call, which handlers see as Call, and what is noted of it on the way.
import type { PaymentProvider } from '../../domain/billing/provider.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import type { Calendars } from '../../domain/scheduling/calendars.ts';
import type { Caller } from '../caller.ts';
import { type ModuleState, requireScope } from '../credentials/authorization.ts';
import { type Secrets, sha256 } from '../credentials/secrets.ts';
import type { SessionTokens } from '../credentials/session-tokens.ts';
import type { SignedTokens } from '../credentials/signed-tokens.ts';
import type { Charge, Database, IdempotencyClaim, Quota, Transaction } from '../database.ts';
import type { ApiError, FieldProblem } from '../errors.ts';
import type { Files, UploadedFile } from '../files/files.ts';
import type { AuditedChange, Call, Change, InboundUrls, Sql } from '../handler.ts';
import { type RateFigures, type RateLimits, refuse, type Verdict } from '../limits/rate-limits.ts';
import type { DeprecatedUse } from '../openapi/deprecation.ts';
import type { Document, Operation } from '../openapi/document.ts';
import type { PreparedBody } from '../openapi/prepared-body.ts';
import type { OutgoingClient } from '../outbound/client.ts';
import type { Cursors } from '../paging.ts';
import { Deadline } from './deadline.ts';
import type { Connection, News } from './feed-notifier.ts';
import { joinedRefusal } from './validation.ts';

/** Parts of the server that calls reach. */
export interface CallParts {
  document: Document;
  database: Database;
  cursors: Cursors;
  signedTokens: SignedTokens;
  sessionTokens: SessionTokens;
  limits: RateLimits;
  moduleState: ModuleState;
  news: News;
  /** True when there is a mail server. */
  mailIsSent: boolean;
  files: Files;
  secrets: Secrets;
  outgoing: OutgoingClient;
  payments: PaymentProvider;
  calendars: Calendars;
  inboundUrls(companyId: string, environment: 'live' | 'test'): InboundUrls;
}

/** What is noted of a request for its answer's headers and its log line. */
export interface Trace {
  requestId: string;
  operation: string;
  caller: Caller | undefined;
  /** True when a test key was sent, good or not. */
  testMode: boolean;
  error: string | undefined;
  /** Failures are told as RFC 6749 says. */
  oauth: boolean;
  /** Of the limit that is closest to refusing; undefined as long as nothing was counted. */
  figures: RateFigures | undefined;
  /** What became of charging the call; undefined as long as that was not tried. */
  quota: Quota | undefined;
  /** What the call was charged to, if it was. */
  charge: Charge | undefined;
  /** By which limits the call was counted; undefined as long as it was not. */
  countedBy: Caller['limits'] | undefined;
  /** True once the database said that a caller who was let in by memory still is who he was. */
  confirmed: boolean;
  /** Deprecated forms that the request uses; its answer says so, whatever it is. */
  deprecated: readonly DeprecatedUse[];
  /** True to end the connection after the answer. */
  leave: boolean;
  /** Tells a client that waits for it to send the body; undefined where nobody waits, or when it was told. */
  invite: (() => void) | undefined;
  /** Closes when the client leaves. */
  connection: Connection;
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
  readonly signedTokens: SignedTokens;
  readonly sessionTokens: SessionTokens;
  readonly document: PreparedBody;
  readonly inboundUrls: CallParts['inboundUrls'];
  readonly mailIsSent: boolean;
  readonly files: Files;
  readonly file: UploadedFile | undefined;
  readonly secrets: Secrets;
  /** What is to run once the transaction is committed. */
  readonly later: (() => void)[] = [];
  readonly changes: Change[] = [];
  transaction: Transaction | undefined;
  /** True once nothing is left open of what its transaction asked of its opening. */
  isCertain = false;
  readonly #database: Database;
  readonly #operation: Operation;
  readonly #configVersion: number;
  readonly #deadline: Deadline;
  readonly #limits: RateLimits;
  readonly #moduleState: ModuleState;
  readonly #news: News;
  readonly #outgoing: OutgoingClient;
  readonly #payments: PaymentProvider;
  readonly #calendars: Calendars;
  readonly #claim: IdempotencyClaim | undefined;
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
    claim: IdempotencyClaim | undefined,
  ) {
    this.#claim = claim;
    this.#payments = parts.payments;
    this.#calendars = parts.calendars;
    this.files = parts.files;
    this.file = file;
    this.secrets = parts.secrets;
    this.#outgoing = parts.outgoing;
    this.#database = parts.database;
    this.#limits = parts.limits;
    this.#moduleState = parts.moduleState;
    this.#news = parts.news;
    this.#trace = trace;
    this.#operation = operation;
    this.#deadline = deadline;
    this.#configVersion = configVersion;
    this.cursors = parts.cursors;
    this.signedTokens = parts.signedTokens;
    this.sessionTokens = parts.sessionTokens;
    this.document = parts.document.body;
    this.inboundUrls = parts.inboundUrls;
    this.mailIsSent = parts.mailIsSent;
    this.caller = caller;
    this.path = parameters.path;
    this.query = parameters.query;
    this.header = parameters.header;
    this.body = body;
    this.problems = problems;
    this.now = now;
  }

  /** Made where it is asked for: few calls do. */
  get retryKey(): string | null {
    return this.#claim ? sha256(`${this.#claim.endpoint}\n${this.#claim.key}`).toString('hex') : null;
  }

  /** Forgets what was done: it is undone, and done again. */
  reset(): void {
    this.changes.length = 0;
    this.later.length = 0;
  }

  get sql(): Sql {
    if (!this.transaction) throw new Error('a public read has no transaction');
    return this.transaction.sql;
  }

  planOnce(): void {
    this.transaction?.planOnce();
  }

  currentTime(): Date {
    return new Date();
  }

  refusal(found: readonly FieldProblem[], documented: readonly FieldProblem[] = []): ApiError {
    return joinedRefusal(this.#operation, [...documented, ...this.problems], found);
  }

  workspace(): Promise<Workspace> {
    return this.#database.workspace(this.caller.companyId, this.#configVersion);
  }

  authorize(scope: string): void {
    requireScope(scope, this.caller, this.#moduleState);
  }

  record(change: Change): void {
    this.changes.push(change);
  }

  expect(outcome: Promise<unknown>): void {
    this.transaction?.expect(outcome);
  }

  afterwards(work: () => void): void {
    this.later.push(work);
  }

  aside<T>(work: Promise<T>): Promise<T> {
    const paused = this.#deadline.pause(work);
    return this.transaction ? this.transaction.aside(paused) : paused;
  }

  untilNews(after: number, milliseconds: number): Promise<number> {
    return this.aside(this.#news.wait(this.caller, after, milliseconds, this.#trace.connection));
  }

  settleUsage(): Promise<void> {
    return this.aside(this.#database.settleUsage(this.caller.companyId));
  }

  get outgoing(): OutgoingClient {
    this.#requireCertainty();
    return this.#outgoing;
  }

  get payments(): PaymentProvider {
    this.#requireCertainty();
    return this.#payments;
  }

  get calendars(): Calendars {
    this.#requireCertainty();
    return this.#calendars;
  }

  async outside<T>(work: () => Promise<T>): Promise<T> {
    this.#requireCertainty();
    if (this.changes.length > 0) throw new Error('what is to be noted of a change is noted with its outcome');
    const transaction = this.transaction as Transaction;
    await transaction.suspend(this.#deadline.left);
    try {
      return await this.#deadline.pause(work());
    } finally {
      await transaction.resume();
    }
  }

  /** What cannot be undone is done only where it is known that the call may be carried out, and was not before. */
  #requireCertainty(): void {
    if (!this.isCertain)
      throw new Error(`${this.#operation.id} acts outside of its transaction: declare x-acts-outside`);
  }

  ping(): Promise<void> {
    return new Deadline().race(() => this.#database.ping());
  }

  get limitsAreLocal(): boolean {
    return this.#limits.isLocal;
  }

  refuseGuessing(email: string): void {
    const blocked = this.#limits.refusalOfAccount(email, Date.now());
    if (blocked) admit({ ...blocked, allowed: false }, this.#trace);
  }

  apart<T>(work: (sql: Sql, note: (change: AuditedChange) => void) => Promise<T>): Promise<T> {
    this.#requireCertainty();
    const by = { caller: this.caller, now: this.now, idempotencyKeyHash: null };
    return this.aside(this.#database.apart(by, work));
  }

  async countWrongPassword(email: string): Promise<void> {
    const verdict = await this.#limits.takeWrongPassword(email, Date.now());
    if (!verdict.allowed) admit(verdict, this.#trace);
  }
}
