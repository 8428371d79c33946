// The types of handlers: input and result, derived from the OpenAPI document.
// A handler that does not match does not compile.
import type { Sql } from '../db/client/pool.ts';
import type { PaymentProvider } from '../domain/billing/provider.ts';
import type { Workspace } from '../domain/objects/workspace.ts';
import type { Ownership } from '../domain/ownership.ts';
import type { Calendars } from '../domain/scheduling/calendars.ts';
import type { operations } from '../generated/api.ts';
import type { Actor, Caller } from './caller.ts';
import type { AccessQuestion, ExplainedAccess } from './credentials/explanation.ts';
import type { Secrets } from './credentials/secrets.ts';
import type { SessionTokens } from './credentials/session-tokens.ts';
import type { SignedTokens } from './credentials/signed-tokens.ts';
import type { ApiError, FieldProblem } from './errors.ts';
import type { FileBody, Files, UploadedFile } from './files/files.ts';
import type { PreparedBody } from './openapi/prepared-body.ts';
import type { OutgoingClient } from './outbound/client.ts';
import type { Cursors } from './paging.ts';

export type { Sql };

export type OperationId = keyof operations;

/**
 * An event for the feed and webhook endpoints. The data contain the object and the record, if there
 * are any.
 */
interface ChangeEvent {
  name: string;
  data: Record<string, unknown>;
  /** For an update: the old and new values. */
  changes?: Record<string, { from: unknown; to: unknown }>;
  /**
   * Set if the change deletes a record or moves it to another owner: the previous ownership.
   * Credentials that could see the record then may still receive this event.
   */
  previousOwnership?: Ownership;
}

/**
 * Something that happened, written with the change itself: an audit row and, if named, events for
 * the outbox.
 */
export interface Change {
  /** e.g. lead.create */
  action: string;
  /** Only if the operation creates the tenant. */
  companyId?: string;
  /** Only if the operation itself authenticates the caller. */
  actor?: Actor;
  object?: string;
  recordId?: string;
  /**
   * When it took effect; by default when the transaction writes its audit rows, after all its
   * locks.
   */
  occurredAt?: Date;
  changes?: Record<string, { from: unknown; to: unknown }>;
  metadata?: Record<string, unknown>;
  event?: ChangeEvent;
  /**
   * Further events of the same change, for subscribers of a specific one, e.g. that a deal moved to
   * another stage.
   */
  furtherEvents?: readonly ChangeEvent[];
}

/** A change without events. */
export type AuditedChange = Omit<Change, 'event' | 'furtherEvents'>;

type Parameters<Id extends OperationId, In extends 'path' | 'query' | 'header'> = operations[Id] extends {
  parameters: { [K in In]: infer P };
}
  ? P
  : operations[Id] extends { parameters: { [K in In]?: infer P } }
    ? NonNullable<P>
    : Record<string, never>;

type Body<Id extends OperationId> = operations[Id] extends { requestBody: { content: { 'application/json': infer B } } }
  ? B
  : operations[Id] extends { requestBody?: { content: { 'application/json': infer B } } }
    ? B | undefined
    : undefined;

type Uploaded<Id extends OperationId> = operations[Id] extends {
  requestBody: { content: { 'multipart/form-data': unknown } };
}
  ? operations[Id] extends { requestBody: { content: { 'application/json': unknown } } }
    ? UploadedFile | undefined
    : UploadedFile
  : undefined;

/**
 * URLs for providers' reports; they contain the company and the mode. null if this server does not
 * work with the provider.
 */
export interface InboundUrls {
  generic: string;
  twilio: string | null;
}

/** What the caller sent, read and validated. */
export interface CallRequest<Id extends OperationId = OperationId> {
  path: Parameters<Id, 'path'>;
  query: Parameters<Id, 'query'>;
  /** The headers that the OpenAPI document declares for the operation, by their names there. */
  headers: Parameters<Id, 'header'>;
  body: Body<Id>;
  /**
   * The file of a multipart/form-data body. It is in the storage, and stays there only if the
   * transaction keeps it. Undefined if the operation also accepts JSON, and got that.
   */
  file: Uploaded<Id>;
  /**
   * Problems of the body. Always [] unless the OpenAPI document declares x-uniform-refusal or
   * x-tenant-fields.
   */
  problems: readonly FieldProblem[];
  /**
   * The same for every attempt of this call, derived from its Idempotency-Key; null without one.
   */
  readonly retryKey: string | null;
  /**
   * Rejects a body for its problems and for those that the tenant's configuration adds; one problem
   * per field.
   * @param documented further problems of the kinds that the OpenAPI document describes
   */
  rejection(found: readonly FieldProblem[], documented?: readonly FieldProblem[]): ApiError;
}

/**
 * The transaction of the call. It is never stale: whichever connection the call holds, the next
 * statement uses it.
 */
export interface CallDatabase {
  /**
   * Runs a statement in the present transaction. You can hold it across all the functions below.
   */
  readonly sql: Sql;
  /** Records a change: its audit row and event are written with the transaction. */
  record(change: Change): void;
  /**
   * Continues without the result of a statement that was sent and that fails only if the database
   * does. If it fails, the transaction is rolled back and the call fails with that error.
   */
  awaitAtCommit(result: Promise<unknown>): void;
  /**
   * Waits for long work that does not need the database, such as hashing a password; the database
   * deadline is paused meanwhile. If nothing was written yet, the connection is released. Later
   * statements run in a new transaction then.
   */
  withoutConnection<T>(work: Promise<T>): Promise<T>;
  /**
   * Commits the writes so far, then waits for work that cannot be undone, without a connection. The
   * Idempotency-Key stays claimed. Later statements run in a new transaction. First write
   * everything that is needed to find out the outcome of the work later.
   */
  commitThenRun<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Runs a part of the work in a transaction that commits immediately and persists even if the call
   * fails: for work that is too long for one transaction. Nothing may have been written before.
   * @param work receives a function that adds a row to the audit log in that transaction
   */
  inSeparateTransaction<T>(work: (sql: Sql, audit: (change: AuditedChange) => void) => Promise<T>): Promise<T>;
  /** Runs after the change is committed, and not at all if it is not. Nothing waits for it. */
  afterCommit(work: () => void): void;
  /**
   * Plans each following statement once per connection, for all values: for long statements that
   * are always executed in the same way and take longer to plan than to execute.
   */
  planOnce(): void;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
}

/** The method of a write. */
export type NestedMethod = 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** An operation that can run inside the transaction of another. */
export interface NestedOperation {
  operationId: string;
  /** The path in the OpenAPI document. */
  template: string;
  /** Values of the parameters of the path. */
  parameters: Record<string, string>;
  /** True if it is a write that can be rolled back. */
  isWrite: boolean;
  isRead: boolean;
  /** The modules of its scopes. */
  modules: string[];
  /** True if its response contains a secret, which must not be stored. */
  hasSecret: boolean;
  /** True if its body can contain a password, which must not be stored. */
  takesPassword: boolean;
  takesIfMatch: boolean;
  /** True if its body can ask for a dry run, with `dry_run`. */
  takesDryRun: boolean;
}

export interface NestedRequest {
  method: string;
  path: string;
  /** Without the question mark. */
  query?: string;
  body?: unknown;
  /** An ETag. */
  ifMatch?: string | undefined;
  /** The problems of the body, if it was checked before. */
  problems?: readonly FieldProblem[] | undefined;
  caller: Caller;
  /** True if the operation can change the configuration that later ones read. */
  reloads?: boolean;
}

/** The response of an operation and what it recorded, or why it failed. */
export type NestedOutcome =
  | {
      status: number;
      data: unknown;
      etag: string | undefined;
      changes: readonly Change[];
      /** Callbacks for after the commit. */
      callbacks: readonly (() => void)[];
      /** Scopes that its handler required in addition to the declared ones. */
      scopes: readonly string[];
    }
  | { error: ApiError };

/** Runs operations inside the transaction of the call. The caller of each is checked as usual. */
export interface NestedOperations {
  /** @param path without a query */
  find(method: string, path: string): NestedOperation | undefined;
  /**
   * Checks that a caller may run an operation, without running it.
   * @param request.scopes further scopes that it needs
   * @throws ApiError as the operation would: 403 with the missing scopes, 404 for an unknown object
   */
  authorize(request: Pick<NestedRequest, 'method' | 'path' | 'caller'> & { scopes: readonly string[] }): void;
  /** Runs an operation in a savepoint, which is rolled back if it fails. */
  run(request: NestedRequest): Promise<NestedOutcome>;
  /** Drops the configuration that operations changed, after their savepoint was rolled back. */
  forget(): void;
}

/** A write of a caller that only proposes changes. */
export interface Proposal {
  /** Describes the operation. */
  title: string;
  method: NestedMethod;
  path: string;
  body: unknown;
  /** The ETag that the request requires. */
  ifMatch: string | undefined;
  /** The problems of the body, which some operations report together with their own. */
  problems: readonly FieldProblem[];
}

/** Keeps writes as change sets. Passed in by app/, because runtime/ knows no tables. */
export interface Proposals {
  /** Tries a write out and keeps it, instead of running its handler. */
  propose(call: Call, proposal: Proposal): Promise<unknown>;
  /** Returns the number of pending proposals of the caller. */
  countPending(call: Call): Promise<number>;
}

/** What the server offers to handlers, bound to the call. */
export interface CallServices {
  /** The tenant's configuration when the call arrived: objects, fields, statuses and so on. */
  loadWorkspace(): Promise<Workspace>;
  /** Other operations, inside the transaction of this call. */
  nested: NestedOperations;
  files: Files;
  cursors: Cursors;
  /** Signs tokens that callers send back, such as slot tokens. */
  signedTokens: SignedTokens;
  sessionTokens: SessionTokens;
  /** Encrypts values that only this server can read. */
  secrets: Pick<Secrets, 'encrypt' | 'decrypt'>;
  /**
   * Calls URLs that tenants configure. Always inside `db.withoutConnection`: no transaction waits
   * for them.
   */
  outbound: OutgoingClient;
  /** The caller's payment provider. Always inside `db.commitThenRun`. */
  payments: PaymentProvider;
  /** External calendars. Always inside `db.withoutConnection`: no transaction waits for them. */
  calendars: Calendars;
  /** Returns the URLs to which providers report inbound messages of a company. */
  inboundUrls(companyId: string, environment: 'live' | 'test'): InboundUrls;
  /** The OpenAPI document, as it is served. */
  openApiDocument: PreparedBody;
  /** Every operation of the OpenAPI document. */
  operations: readonly { id: string; path: string; objects: readonly string[] | undefined }[];
  /**
   * Runs the checks that admit a call of an operation, for a credential of the workspace and without
   * the call.
   * @returns undefined if there is no such credential
   * @throws Error if there is no such operation
   */
  explainAccess(question: AccessQuestion): Promise<ExplainedAccess | undefined>;
  /** True if the server sends mails; without a mail server it only stores them. */
  sendsMail: boolean;
  /**
   * Waits until the feed of the workspace has events after a position, for at most so many
   * milliseconds. Returns earlier if the server stops, the client disconnects or too many calls
   * wait. No connection is held meanwhile.
   * @returns the milliseconds that are left; 0 if the caller should not wait again
   */
  waitForFeed(after: number, milliseconds: number): Promise<number>;
  /**
   * Waits until the database has counted the calls of the workspace that this process admitted. No
   * connection is held meanwhile. Other processes report theirs within a second.
   */
  flushUsage(): Promise<void>;
  /**
   * True while this process counts rate limits locally because the shared counters are unreachable.
   */
  limitsAreLocal: boolean;
  /**
   * Checks that the subscription of the workspace is open, for work that a user starts. The calls of
   * other credentials are checked before.
   * @throws ApiError 402, as for these
   */
  requireSubscription(): Promise<void>;
  /** @throws ApiError 429 if wrong passwords were sent too often for this account */
  rejectGuessing(email: string): void;
  /**
   * Counts a wrong password.
   * @throws ApiError 429 if that was one too many
   */
  countWrongPassword(email: string): Promise<void>;
}

/** Everything that a handler may use. It has no other clock and no environment. */
export interface Call<Id extends OperationId = OperationId> {
  request: CallRequest<Id>;
  caller: Caller;
  /** When the call arrived: in test mode by the clock of test mode, for what the workspace sees. */
  now: Date;
  /** When the call really arrived: for what only the server or others see. */
  arrivedAt: Date;
  /**
   * The time now, by the same clock as `now`. Timestamps of changes use it after the record is locked, since the call may have
   * waited for other changes.
   */
  currentTime(): Date;
  /**
   * Checks a scope that the body or the data require in addition to those of the operation.
   * @throws ApiError 403 if the caller lacks the scope or its module is off
   */
  authorize(scope: string): void;
  db: CallDatabase;
  services: CallServices;
}

type SuccessStatus = 200 | 201 | 202 | 206;
type Answer<B> = B extends { success: true; meta: unknown } ? Omit<B, 'success' | 'meta'> : { body: B | PreparedBody };
type FileOf<R> = R extends { content: { 'application/octet-stream': unknown } } ? { file: FileBody } : never;
type JsonOf<R> = R extends { content: { 'application/json': infer B } } ? B : never;

/** The result of a handler: a success status of the OpenAPI document and its payload. */
export type Result<Id extends OperationId> = {
  [S in SuccessStatus & keyof operations[Id]['responses']]: {
    status: S /** Sent as the header ETag. */;
    etag?: string;
  } & (Answer<JsonOf<operations[Id]['responses'][S]>> | FileOf<operations[Id]['responses'][S]>);
}[SuccessStatus & keyof operations[Id]['responses']];

export type Handler<Id extends OperationId> = (call: Call<Id>) => Promise<Result<Id>>;

/** A handler for every operation, no more and no fewer. */
export type Handlers = { [Id in OperationId]: Handler<Id> };
