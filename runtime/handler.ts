// What a handler is: the types of its input and its result, derived from the document.
// A handler that does not fit does not compile.
import type { ISql } from 'postgres';
import type { PaymentProvider } from '../domain/billing/provider.ts';
import type { Workspace } from '../domain/objects/workspace.ts';
import type { Possession } from '../domain/possession.ts';
import type { Calendars } from '../domain/scheduling/calendars.ts';
import type { operations } from '../generated/api.ts';
import type { Actor, Caller } from './caller.ts';
import type { Secrets } from './credentials/secrets.ts';
import type { SessionTokens } from './credentials/session-tokens.ts';
import type { SignedTokens } from './credentials/signed-tokens.ts';
import type { ApiError, FieldProblem } from './errors.ts';
import type { FileBody, Files, UploadedFile } from './files/files.ts';
import type { PreparedBody } from './openapi/prepared-body.ts';
import type { OutgoingClient } from './outbound/client.ts';
import type { Cursors } from './paging.ts';

// biome-ignore lint/complexity/noBannedTypes: the driver's own default for its type parameter.
export type Sql = ISql<{}>;

export type OperationId = keyof operations;

/** What subscribers are told of; the data names the object and the record where there are such. */
interface ChangeEvent {
  name: string;
  data: Record<string, unknown>;
  /** Of an update: from what to what. */
  changes?: Record<string, { from: unknown; to: unknown }>;
  /** Where it takes a record from people, or out of the world: whose it was. They may still hear of it. */
  takenFrom?: Possession;
}

/** Something that happened, written with the change itself: an audit row and, if named, events for the outbox. */
export interface Change {
  /** e.g. lead.create */
  action: string;
  /** Only where the operation makes the tenant itself. */
  companyId?: string;
  /** Only where the operation itself finds out who calls. */
  actor?: Actor;
  object?: string;
  recordId?: string;
  /** When it took effect; by default when the transaction writes its audit rows, after all its locks. */
  occurredAt?: Date;
  changes?: Record<string, { from: unknown; to: unknown }>;
  metadata?: Record<string, unknown>;
  event?: ChangeEvent;
  /** Told beside the event, for those who wait for just this, e.g. that a deal went to another stage. */
  furtherEvents?: readonly ChangeEvent[];
}

/** Something that happened and that nobody is told of. */
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
  ? UploadedFile
  : undefined;

/** Where providers report to, with the company and the mode; null where this server does not work with the provider. */
export interface InboundUrls {
  generic: string;
  twilio: string | null;
}

/** Everything that a handler works with. Nothing else is in its reach: no other clock, no environment. */
export interface Call<Id extends OperationId = OperationId> {
  path: Parameters<Id, 'path'>;
  query: Parameters<Id, 'query'>;
  /** Headers that the document declares for the operation, by their names there. */
  header: Parameters<Id, 'header'>;
  body: Body<Id>;
  /** The file of a multipart/form-data body: in the storage, where it stays only if the transaction keeps it. */
  file: Uploaded<Id>;
  /** Problems of the body; only where the document declares x-uniform-refusal or x-tenant-fields, else always []. */
  problems: readonly FieldProblem[];
  /**
   * The refusal of a body for its problems and those that the tenant's configuration adds; one problem per field.
   * @param documented further problems of the kinds that the document finds
   */
  refusal(found: readonly FieldProblem[], documented?: readonly FieldProblem[]): ApiError;
  sql: Sql;
  /**
   * Has the statements that come planned once for each connection, for whatever values: for long ones that are always carried out in the
   * same way, and take longer to be planned than to be carried out.
   */
  planOnce(): void;
  caller: Caller;
  /** When the call arrived. */
  now: Date;
  /** The time now. Timestamps of changes use it after the record is locked: the call may have waited for other changes. */
  currentTime(): Date;
  /** The tenant's configuration: objects, fields, statuses and the like, as they stood when the call arrived. */
  workspace(): Promise<Workspace>;
  /**
   * For what the body or the data ask for beyond the scopes of the operation.
   * @throws ApiError 403 when the caller lacks the scope, or its module is off
   */
  authorize(scope: string): void;
  /** Notes a change; its audit row and event are written with the transaction. */
  record(change: Change): void;
  /**
   * Goes on without the outcome of a statement that was sent, which is certain but for a failure: the transaction is then undone, and the
   * failure is that of the call.
   */
  expect(outcome: Promise<unknown>): void;
  /**
   * Waits for long work that does not need the database, such as hashing a password; the database's time stands still meanwhile.
   * While nothing was written, the transaction ends here and another begins afterwards: read call.sql anew.
   */
  aside<T>(work: Promise<T>): Promise<T>;
  /**
   * Waits until the feed of the workspace goes beyond a position, or for so long; earlier where the server stops, the client leaves
   * or too many wait. No connection to the database is held meanwhile: read call.sql anew.
   * @returns milliseconds that are left; 0 when there is no use in waiting again
   */
  untilNews(after: number, milliseconds: number): Promise<number>;
  /**
   * Waits until the calls of the workspace that this process has let pass are counted in the database; read call.sql anew.
   * Other processes report theirs within a second.
   */
  settleUsage(): Promise<void>;
  /**
   * Does a part of the work in a transaction of its own, which is committed at once and stays whatever becomes of the call: for what
   * is too long for one. Nothing may have been written before; read call.sql anew.
   * @param work gets a function that notes a row for the audit log in that transaction
   */
  apart<T>(work: (sql: Sql, note: (change: AuditedChange) => void) => Promise<T>): Promise<T>;
  /**
   * Commits what was written so far and waits for work that cannot be undone, holding no connection; the Idempotency-Key stays taken. What
   * comes afterwards is a transaction of its own: read call.sql anew. Whatever is needed to find out later what became of the work is
   * written before.
   */
  outside<T>(work: () => Promise<T>): Promise<T>;
  /** The same for every try of this call, as its Idempotency-Key says; null without one. */
  readonly retryKey: string | null;
  /** Runs once the change is committed, and not at all when it is not; nothing waits for it. */
  afterwards(work: () => void): void;
  files: Files;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
  /** True while this process counts rate limits for itself, because the counters that all share are out of reach. */
  limitsAreLocal: boolean;
  /** True when a mail that is written will be sent; without a mail server it is only kept. */
  mailIsSent: boolean;
  /** @throws ApiError 429 when wrong passwords were sent too often for this account */
  refuseGuessing(email: string): void;
  /**
   * Counts a wrong password.
   * @throws ApiError 429 when that was one too many
   */
  countWrongPassword(email: string): Promise<void>;
  cursors: Cursors;
  /** For what is given out and comes back. */
  signedTokens: SignedTokens;
  /** Encrypts what must be readable again by this server alone. */
  secrets: Pick<Secrets, 'encrypt' | 'decrypt'>;
  /** Calls addresses that tenants name. Always aside: no transaction waits for them. */
  outgoing: OutgoingClient;
  sessionTokens: SessionTokens;
  /** Whoever takes payments for the caller; asked outside. */
  payments: PaymentProvider;
  /** Calendars outside of the server. Always aside: no transaction waits for them. */
  calendars: Calendars;
  /** Where providers report what came in for a company. */
  inboundUrls(companyId: string, environment: 'live' | 'test'): InboundUrls;
  /** The document that the server works by, as it is served. */
  document: PreparedBody;
}

type SuccessStatus = 200 | 201 | 202;
type Answer<B> = B extends { success: true; meta: unknown } ? Omit<B, 'success' | 'meta'> : { body: B | PreparedBody };
type FileOf<R> = R extends { content: { 'application/octet-stream': unknown } } ? { file: FileBody } : never;
type JsonOf<R> = R extends { content: { 'application/json': infer B } } ? B : never;

/** What a handler returns: a declared success status and the payload that the document gives it. */
export type Result<Id extends OperationId> = {
  [S in SuccessStatus & keyof operations[Id]['responses']]: {
    status: S /** Sent as the header ETag. */;
    etag?: string;
  } & (Answer<JsonOf<operations[Id]['responses'][S]>> | FileOf<operations[Id]['responses'][S]>);
}[SuccessStatus & keyof operations[Id]['responses']];

export type Handler<Id extends OperationId> = (call: Call<Id>) => Promise<Result<Id>>;

/** A handler for every operation, no more and no fewer. */
export type Handlers = { [Id in OperationId]: Handler<Id> };
