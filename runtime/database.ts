// What the runtime asks of the database, as types; app/ joins the functions of db/ to it.
import type { Audience } from '../domain/access/oauth-groups.ts';
import type { Modules } from '../domain/billing/plans.ts';
import type { Workspace } from '../domain/objects/workspace.ts';
import type { Caller, Reach } from './caller.ts';
import type { AuditedChange, Change, Sql } from './handler.ts';

/** Whose rows a transaction sees: a tenant's in one mode, everybody's for the platform's own look-ups, or nobody's. */
export type Scope = { companyId: string; testMode: boolean } | 'platform' | 'nobody';

/** Which call an Idempotency-Key belongs to. */
export interface IdempotencyClaim {
  companyId: string;
  testMode: boolean;
  /** Method and path with its ids, so that one key cannot hit two records. */
  endpoint: string;
  key: string;
  requestHash: Buffer;
}

export type ClaimVerdict =
  | { kind: 'ours' }
  | { kind: 'in_progress' }
  | { kind: 'conflict' }
  | { kind: 'replay'; status: number; body: string };

/** One transaction on one connection. It begins with its first statement, in the same round trip. */
export interface Transaction {
  readonly sql: Sql;
  /**
   * Tells whether what must hold of the transaction does; nothing that was read where it does not may be used. Statements that were sent
   * behind the claim of a key that is taken have failed.
   */
  opened(): Promise<'ok' | 'credential_changed' | 'key_taken'>;
  /** Claims an Idempotency-Key for as long as the transaction lasts, or tells what became of it. */
  claim(claim: IdempotencyClaim): Promise<ClaimVerdict>;
  /** Goes on without the outcome of a statement that was sent: where it failed, nothing is committed, and the commit fails with that. */
  expect(outcome: Promise<unknown>): void;
  /** Tells why the first expected statement that failed did; undefined where none has. */
  firstFailure(): Promise<unknown>;
  /** Has the statements that come planned once for each connection, for whatever values. */
  planOnce(): void;
  /** Waits for work that does not need the database; while nothing was written or locked, the connection serves others. */
  aside<T>(work: Promise<T>): Promise<T>;
  /**
   * Commits what was written and gives the connection back, for work that others do; a claimed Idempotency-Key stays held.
   * @param left milliseconds until the request's deadline
   */
  suspend(left: number): Promise<void>;
  /** Takes a connection again: what comes now is a transaction of its own. */
  resume(): Promise<void>;
  /**
   * Writes audit rows, events and the idempotent answer with the change, and commits; one round trip. It may be sent before it is known whether
   * what must hold does: nothing is committed where it does not.
   * @param left milliseconds until the request's deadline, after which the database refuses to commit
   */
  commit(changes: readonly Change[], by: ChangeContext, left: number, answer?: KeptAnswer): Promise<void>;
  /**
   * Undoes the work, keeps the failure as the answer for this Idempotency-Key, and commits in the same way.
   * @returns false when another call with the key came in between
   */
  keepFailure(answer: KeptAnswer, left: number): Promise<boolean>;
  /** Ends a transaction that only read; nothing waits for it. */
  endRead(): void;
  /** Undoes everything, and is done when the database has: for whoever tries anew at once. */
  undo(): Promise<void>;
  /** Undoes everything; nothing waits for it. */
  abandon(): void;
  /** Closes the connection: for a transaction that ran out of time. */
  destroy(): void;
  /** True when the connection failed under the transaction, whatever the statements said. */
  readonly broken: boolean;
}

export interface KeptAnswer {
  claim: IdempotencyClaim;
  status: number;
  body: string;
}

/** What audit rows and events say about the call. */
export interface ChangeContext {
  caller: Caller;
  now: Date;
  idempotencyKeyHash: Buffer | null;
}

/** What the subscription of a company opens. */
export interface Subscription {
  access: 'open' | 'no_subscription' | 'subscription_ended';
  modules: Modules;
  /** Of all credentials of the workspace together. */
  callsPerMinute: number;
  /** null: no such ceiling. */
  callsPerDay: number | null;
}

/** The month of a company that a call was charged to. */
export interface Charge {
  companyId: string;
  monthStart: Date;
}

/** What became of charging one call. */
export interface Quota extends Charge {
  /** False: the calls of the month are used up. */
  charged: boolean;
  /** null: unlimited. */
  limit: number | null;
  monthEnd: Date;
}

/** Calls of a month. */
export interface QuotaFigures {
  used: number;
  /** null: unlimited. */
  limit: number | null;
}

/** What the credential look-up tells about an API key, whether it is still good or not. */
export interface KeyRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  subscription: Subscription;
  keyId: string;
  keyName: string;
  testMode: boolean;
  scopes: string[];
  ipAllowlist: string[];
  reachKind: 'company' | 'branch' | 'team';
  reachId: string | null;
  expiresAt: Date | null;
  revokedAt: Date | null;
  perMinute: number;
  perHour: number;
  /** Changes with whatever the record was made from. */
  stamp: string;
}

/** What must hold of a transaction; asked with its first statement, in the same round trip. */
export interface Opening {
  /** The API key that the caller was told by, as it was found. */
  credential?: { companyId: string; stamp: string } | undefined;
  /** The Idempotency-Key that must be free; it is claimed until the transaction ends. */
  claim?: IdempotencyClaim | undefined;
  /** What the handler sends only reads, which the database makes sure of: one thing, by short statements, or more. */
  reads?: 'one' | 'many' | undefined;
}

/** What the signature of a report is checked with. */
interface InboundDoor {
  companyName: string;
  configVersion: number;
  /** Sealed; those that are good now. */
  sealedSecrets: string[];
}

/** What the session look-up tells about a signed-in person. */
export interface SessionRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  subscription: Subscription;
  sessionId: string;
  userId: string;
  fullName: string;
  /** True while the password is one that was made for the user. */
  mustChangePassword: boolean;
  roles: string[];
  /** What the user may do at screens, and whose records that reaches with all of the scopes. */
  permits: { allows(scope: string): boolean; reachOf(scopes: readonly string[]): Reach };
}

/** What a user allowed an app to do. */
export interface Grant {
  id: string;
  clientName: string;
  revoked: boolean;
  /** What came of one consent and has ended, by its id: access tokens of it open nothing any more. */
  endedFamilies: ReadonlySet<string>;
  /**
   * What a token may do in the end, and whose records it reaches with the scopes that an operation needs.
   * @param asked scopes of the token
   */
  permits(asked: readonly string[]): { scopes: string[]; reachOf: (scopes: readonly string[]) => Reach };
}

/** What the look-up tells about an active user and what they allowed an app to do. */
export interface GrantRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  subscription: Subscription;
  userId: string;
  clientId: string;
  /** null when the user never allowed the app anything. */
  grant: Grant | null;
}

/** What is known of a company without any credential. */
export interface CompanyRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  subscription: Subscription;
}

export interface Database {
  open(scope: Scope, opening?: Opening): Promise<Transaction>;
  /** A key by its hash. Requests that wait share one statement. */
  findKey(hash: Buffer): Promise<KeyRecord | undefined>;
  /** The same as it was found last, for a transaction that asks whether it still is; undefined where that is not known. */
  rememberedKey(hash: Buffer, now: Date): KeyRecord | undefined;
  /** Notes a call with a good key; nothing waits for it. */
  countUse(companyId: string, keyId: string, ip: string): void;
  /** Charges a call to the month of a company; at once where calls were charged ahead. undefined where nothing was ever subscribed to. */
  charge(companyId: string, now: Date): Quota | Promise<Quota | undefined>;
  /** Runs work in a tenant's transaction of its own, in the time that a statement may take, with what it notes for the audit log. */
  apart<T>(by: ChangeContext, work: (sql: Sql, note: (change: AuditedChange) => void) => Promise<T>): Promise<T>;
  /** The calls of a company's month, or of the last one that was paid for; undefined where nothing was ever subscribed to. */
  findQuota(companyId: string): Promise<QuotaFigures | undefined>;
  /** Writes down the calls of a company that this process has let pass and not yet reported. Other processes do so within a second. */
  settleUsage(companyId: string): Promise<void>;
  /** Gives a call back that costs nothing after all; nothing waits for it. */
  refund(charge: Charge): void;
  /** Sessions that are not revoked, of active users. */
  findSession(companyId: string, sessionId: string): Promise<SessionRecord | undefined>;
  /** Active users, each with what they allowed an app to do with tokens of an audience. */
  findGrant(userId: string, clientId: string, audience: Audience): Promise<GrantRecord | undefined>;
  /** An active company; undefined where there is none. */
  findCompany(companyId: string): Promise<CompanyRecord | undefined>;
  /** What reports for an active company are signed with; undefined: there is no such company, or it has no secret. */
  findInboundDoor(companyId: string, testMode: boolean, now: Date): Promise<InboundDoor | undefined>;
  /** The tenant's configuration at that version. */
  workspace(companyId: string, version: number): Promise<Workspace>;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
  /** True when an error means that the database could not do its work now, whatever the statement was. */
  isOutage(error: unknown): boolean;
  /** True for those of them that say that a statement ran for as long as it may. */
  isOverdue(error: unknown): boolean;
  /** True when an error means that something referred to went away, or came, while the call ran. */
  isRace(error: unknown): boolean;
}
