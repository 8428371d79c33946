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

/** What every look-up of a credential tells about the subscription that pays for its calls; all null without one. */
export interface SubscriptionRecord {
  packageCode: string | null;
  subscriptionStatus: string | null;
  trialEndsAt: Date | null;
  /** Calls of the workspace, where an agreement says something other than the package. */
  agreedPerMinute: number | null;
  agreedPerDay: number | null;
  agreedPerMonth: number | null;
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

/** What the credential look-up tells about an API key, whether it is still good or not. */
export interface KeyRecord extends SubscriptionRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  /** undefined: not charged, because the key is not good or a test key, or because nothing is subscribed to. */
  quota: Quota | undefined;
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
export interface SessionRecord extends SubscriptionRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  sessionId: string;
  userId: string;
  fullName: string;
  roles: string[];
}

/** What the look-up tells about an active user and what they allowed an app to do. */
export interface GrantRecord extends SubscriptionRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  disabledModules: string[];
  /** undefined: not charged, because the user allows the app nothing, or because nothing is subscribed to. */
  quota: Quota | undefined;
  userId: string;
  branchId: string | null;
  teamId: string | null;
  roles: string[];
  /** Rows of the custom profile that is assigned to the user; null without one. */
  profile: { module: string; actions: string[] }[] | null;
  clientId: string;
  /** null when the user never allowed the app anything. */
  grant: { clientName: string; groups: string[]; extraScopes: string[]; revoked: boolean } | null;
}

export interface Store {
  open(scope: Scope): Promise<Transaction>;
  /** Keys by their hash; counts and charges the use of those that are good, in the same statement. Requests that wait share one statement. */
  findKey(hash: Buffer, ip: string): Promise<KeyRecord | undefined>;
  /** Gives a call back that costs nothing after all; nothing waits for it. */
  refund(charge: Charge): void;
  /** Sessions that are not revoked, of active users. */
  findSession(sessionId: string): Promise<SessionRecord | undefined>;
  /** Active users, each with what they allowed an app to do; charges the call, in the same statement. */
  findGrant(userId: string, clientId: string): Promise<GrantRecord | undefined>;
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
