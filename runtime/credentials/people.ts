// Signed-in users of the console: their sessions in cookies, and their transactions.
import type { KeyObject } from 'node:crypto';
import type { Scope } from '../../db/client/preconditions.ts';
import type { Caller } from '../caller.ts';
import { ApiError } from '../errors.ts';
import type { Call, CallDatabase, Change } from '../handler.ts';
import type { RequestDatabase } from '../pipeline/request-database.ts';
import { toTenantTime } from '../test-time.ts';
import {
  authenticatePerson,
  buildAnonymousCaller,
  type CredentialParts,
  type PersonAtScreen,
  type RequestFacts,
} from './authentication.ts';
import { type ModuleState, requireScope } from './authorization.ts';
import { isSameText, type Secrets, sign } from './secrets.ts';

/** The part of a handler's Call that console actions get. */
export type Acting = Pick<Call, 'caller' | 'now' | 'authorize'> & { db: Pick<CallDatabase, 'sql' | 'record'> };

/** The content of the session cookie, which is encrypted. */
export interface KeptSession {
  token: string;
  refreshToken: string;
  /** When the user entered the password, in milliseconds since 1970. */
  signedInAt: number;
}

/** A signed-in user. */
export interface Person extends PersonAtScreen {
  session: KeptSession;
  /** CSRF token of each form. */
  formToken: string;
}

export interface PeopleParts extends Pick<CredentialParts, 'credentials' | 'sessionTokens'> {
  database: RequestDatabase;
  secrets: Secrets;
  getModuleState: ModuleState;
}

/** Timeout of a transaction in milliseconds. */
const timeoutMs = 1800;

export class People {
  readonly #parts: PeopleParts;
  readonly #formKey: KeyObject;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
    this.#formKey = parts.secrets.deriveKey('forms of screens');
  }

  /** Returns the cookie value for a session. */
  keep(session: KeptSession): string {
    return this.#parts.secrets.encrypt(JSON.stringify(session));
  }

  /** Returns the session of a cookie value; undefined if this server did not create it. */
  read(cookie: string): KeptSession | undefined {
    try {
      return JSON.parse(this.#parts.secrets.decrypt(cookie));
    } catch {
      // From another server, or from before SECRET_KEY changed.
      return undefined;
    }
  }

  /** Returns the user of a session; undefined if its token has expired or the session has ended. */
  async find(session: KeptSession, facts: RequestFacts, now: Date): Promise<Person | undefined> {
    try {
      const person = await authenticatePerson(session.token, facts, this.#parts, now);
      return { ...person, session, formToken: this.#formToken(person.caller.sessionId ?? '') };
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return undefined;
      throw error;
    }
  }

  /** Returns true if a form has the CSRF token of this user. */
  isOwnForm({ formToken }: Person, form: URLSearchParams): boolean {
    return isSameText(form.get('token') ?? '', formToken);
  }

  /**
   * Runs work as a user, in one transaction with its audit rows and events.
   * @param testMode the mode of the transaction
   * @param scopes the scopes that the work needs; they determine the user's visibility
   * @throws ApiError the error of the work; the transaction is rolled back
   */
  async act<Result>(
    { caller: { computeReach, ...person } }: Person,
    testMode: boolean,
    scopes: readonly string[],
    now: Date,
    work: (acting: Acting) => Promise<Result>,
  ): Promise<Result> {
    const caller: Caller = { ...person, testMode, reach: computeReach?.(scopes) ?? person.reach };
    return this.#work({ companyId: caller.companyId, testMode }, caller, now, work);
  }

  /**
   * Runs work for a visitor who is not signed in, in one transaction with its audit rows, which
   * name the company and the actor.
   * @param companyId the company, in live mode; null: any company, under the platform role
   * @throws ApiError the error of the work; the transaction is rolled back
   */
  actForNobody<Result>(
    facts: RequestFacts,
    companyId: string | null,
    now: Date,
    work: (acting: Acting) => Promise<Result>,
  ): Promise<Result> {
    const scope: Scope = companyId === null ? 'platform' : { companyId, testMode: false };
    return this.#work(scope, buildAnonymousCaller(facts), now, work);
  }

  async #work<Result>(
    scope: Scope,
    caller: Caller,
    arrivedAt: Date,
    work: (acting: Acting) => Promise<Result>,
  ): Promise<Result> {
    const now = toTenantTime(arrivedAt, caller);
    const { database, getModuleState } = this.#parts;
    const transaction = await database.open(scope);
    const changes: Change[] = [];
    const began = performance.now();
    try {
      const result = await work({
        caller,
        now,
        authorize: (scope) => requireScope(scope, caller, getModuleState),
        db: {
          get sql() {
            return transaction.sql;
          },
          record: (change) => changes.push(change),
        },
      });
      const left = timeoutMs - (performance.now() - began);
      await database.commit(transaction, changes, { caller, now, idempotencyKeyHash: null }, left);
      return result;
    } catch (error) {
      transaction.abandon();
      throw error;
    }
  }

  #formToken(sessionId: string): string {
    return sign(this.#formKey, sessionId);
  }
}
