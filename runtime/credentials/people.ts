// People at screens of this server: who they are by their cookie, and what they do at once.
import type { KeyObject } from 'node:crypto';
import type { Scope } from '../../db/client/preconditions.ts';
import type { Caller } from '../caller.ts';
import { ApiError } from '../errors.ts';
import type { Call, CallDatabase, Change } from '../handler.ts';
import type { RequestDatabase } from '../pipeline/request-database.ts';
import {
  anonymous,
  authenticatePerson,
  type CredentialParts,
  type PersonAtScreen,
  type RequestFacts,
} from './authentication.ts';
import { type ModuleState, requireScope } from './authorization.ts';
import { type Secrets, sameText, sign } from './secrets.ts';

/** What a person does at a screen: as a handler does it, with the same statements behind it. */
export type Acting = Pick<Call, 'caller' | 'now' | 'authorize'> & { db: Pick<CallDatabase, 'sql' | 'record'> };

/** What a cookie keeps, encrypted. */
export interface KeptSession {
  token: string;
  refreshToken: string;
  /** When the password was given, in milliseconds since 1970. */
  signedInAt: number;
}

/** Somebody who is signed in. */
export interface Person extends PersonAtScreen {
  session: KeptSession;
  /** What each form carries, so that no page of others can send it. */
  formToken: string;
}

export interface PeopleParts extends Pick<CredentialParts, 'credentials' | 'sessionTokens'> {
  database: RequestDatabase;
  secrets: Secrets;
  moduleState: ModuleState;
}

/** Milliseconds that a transaction may take. */
const patience = 1800;

export class People {
  readonly #parts: PeopleParts;
  readonly #formKey: KeyObject;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
    this.#formKey = parts.secrets.deriveKey('forms of screens');
  }

  /** The text of a cookie that keeps a session. */
  keep(session: KeptSession): string {
    return this.#parts.secrets.encrypt(JSON.stringify(session));
  }

  /** What a cookie keeps; undefined for a text that this server did not make. */
  read(cookie: string): KeptSession | undefined {
    try {
      return JSON.parse(this.#parts.secrets.decrypt(cookie));
    } catch {
      // Somebody else's, or of another SECRET_KEY.
      return undefined;
    }
  }

  /** Whose session it is; undefined where its token has expired or the session has ended. */
  async find(session: KeptSession, facts: RequestFacts, now: Date): Promise<Person | undefined> {
    try {
      const person = await authenticatePerson(session.token, facts, this.#parts, now);
      return { ...person, session, formToken: this.#formToken(person.caller.sessionId ?? '') };
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return undefined;
      throw error;
    }
  }

  /** True where a form was made for this person. */
  isOwnForm({ formToken }: Person, form: URLSearchParams): boolean {
    return sameText(form.get('token') ?? '', formToken);
  }

  /**
   * Does something in the name of a person, in one transaction with its audit rows and events.
   * @param testMode in which mode
   * @param scopes what it needs: how far the person reaches follows from them
   * @throws ApiError what the work throws; nothing is done then
   */
  async act<Result>(
    { caller: { reachOf, ...person } }: Person,
    testMode: boolean,
    scopes: readonly string[],
    now: Date,
    work: (acting: Acting) => Promise<Result>,
  ): Promise<Result> {
    const caller: Caller = { ...person, testMode, reach: reachOf?.(scopes) ?? person.reach };
    return this.#work({ companyId: caller.companyId, testMode }, caller, now, work);
  }

  /**
   * Does something for somebody who is not signed in, in one transaction with its audit rows, which name the company and who acts.
   * @param companyId in live mode of a company; null: of whichever there are, under the platform role
   * @throws ApiError what the work throws; nothing is done then
   */
  actForNobody<Result>(
    facts: RequestFacts,
    companyId: string | null,
    now: Date,
    work: (acting: Acting) => Promise<Result>,
  ): Promise<Result> {
    const scope: Scope = companyId === null ? 'platform' : { companyId, testMode: false };
    return this.#work(scope, anonymous(facts), now, work);
  }

  async #work<Result>(
    scope: Scope,
    caller: Caller,
    now: Date,
    work: (acting: Acting) => Promise<Result>,
  ): Promise<Result> {
    const { database, moduleState } = this.#parts;
    const transaction = await database.open(scope);
    const changes: Change[] = [];
    const began = performance.now();
    try {
      const result = await work({
        caller,
        now,
        authorize: (scope) => requireScope(scope, caller, moduleState),
        db: {
          get sql() {
            return transaction.sql;
          },
          record: (change) => changes.push(change),
        },
      });
      const left = patience - (performance.now() - began);
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
