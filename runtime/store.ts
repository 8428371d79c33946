// What the runtime asks of the database, as types. main.ts joins the functions of db/ to it, so that the runtime knows no table.
import type { Workspace } from '../domain/workspace.ts';
import type { Caller, Change, Sql } from './handler.ts';

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
  /** Claims an Idempotency-Key for as long as the transaction lasts, and sets the point that keepFailure returns to. */
  claim(claim: IdempotencyClaim): Promise<ClaimVerdict>;
  /** Waits for work that does not need the database; while nothing was written or locked, the connection serves others. */
  aside<T>(work: Promise<T>): Promise<T>;
  /**
   * Writes audit rows, events and the idempotent answer with the change, and commits; one round trip.
   * @param left milliseconds until the request's deadline, after which the database refuses to commit
   */
  commit(changes: readonly Change[], by: ChangeContext, left: number, answer?: KeptAnswer): Promise<void>;
  /** Undoes the work, keeps the failure as the answer for this Idempotency-Key, and commits in the same way. */
  keepFailure(answer: KeptAnswer, left: number): Promise<void>;
  /** Ends a transaction that only read; nothing waits for it. */
  endRead(): void;
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

/** What the credential look-up tells about an API key, whether it is still good or not. */
export interface KeyRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  packageCode: string | null;
  /** Calls per minute of the workspace, where an agreement says so. */
  agreedPerMinute: number | null;
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
}

/** What the session look-up tells about a signed-in person. */
export interface SessionRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  packageCode: string | null;
  /** Calls per minute of the workspace, where an agreement says so. */
  agreedPerMinute: number | null;
  sessionId: string;
  userId: string;
  fullName: string;
  roles: string[];
}

export interface Store {
  open(scope: Scope): Promise<Transaction>;
  /** Keys by their hash; counts the use of those that are good, in the same statement. Requests that wait share one statement. */
  findKey(hash: Buffer, ip: string): Promise<KeyRecord | undefined>;
  /** Sessions that are not revoked, of active users. */
  findSession(sessionId: string): Promise<SessionRecord | undefined>;
  /** The tenant's configuration at that version. */
  workspace(companyId: string, version: number): Promise<Workspace>;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
  /** True when an error means that the database could not do its work now, whatever the statement was. */
  isOutage(error: unknown): boolean;
  /** True when an error means that something referred to went away, or came, while the call ran. */
  isRace(error: unknown): boolean;
}
