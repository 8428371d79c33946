// Looks up credentials, and caches API keys and the companies of keys and users.
import { LRUCache } from 'lru-cache';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { ApiKey, WriteMode } from '../../domain/access/api-keys.ts';
import type { Audience } from '../../domain/access/oauth-groups.ts';
import type { Modules } from '../../domain/billing/plans.ts';
import type { Reach, SubscriptionAccess } from '../caller.ts';
import { singleFlight } from '../limits/single-flight.ts';
import { type Use, UseCounts } from '../limits/use-counts.ts';

/** The access that a company's subscription gives. */
export interface Subscription {
  access: SubscriptionAccess;
  modules: Modules;
  /** For all credentials of the workspace together. */
  callsPerMinute: number;
  /** null: no such limit. */
  callsPerDay: number | null;
}

/** An active company. */
export interface CompanyRecord {
  companyId: string;
  companyName: string;
  configVersion: number;
  subscription: Subscription;
}

/** Of a company with its test mode. */
interface WithTestClock {
  /** Seconds by which the clock of test mode is ahead. */
  clockAheadSeconds: number;
}

/** An API key with what its company's subscription opens. */
export interface KeyRecord extends ApiKey, CompanyRecord, WithTestClock {
  /** When the subscription changes without a write; null: never. */
  trialEndsAt: Date | null;
  /** True if a change set of the key waits. */
  hasProposals: boolean;
}

/** A session of a signed-in person. */
export interface SessionRecord extends CompanyRecord, WithTestClock {
  sessionId: string;
  userId: string;
  fullName: string;
  /** IANA name of the workspace's time zone. */
  timezone: string;
  /** The logo of the workspace; null without one. */
  logo: { hash: string; width: number; height: number } | null;
  /** True while the user has a generated password. */
  mustChangePassword: boolean;
  roles: string[];
  /** The user's permissions in the console, and the visibility that the roles give for scopes. */
  permits: { allows(scope: string): boolean; computeReach(scopes: readonly string[]): Reach };
}

/** A user, whether signed in or not. */
export interface PersonRecord extends Omit<SessionRecord, 'sessionId'> {
  isActive: boolean;
}

/** What a user allowed an app to do. */
export interface Grant {
  id: string;
  clientName: string;
  writeMode: WriteMode;
  revoked: boolean;
  /** Token families that have ended, by their ids: access tokens of them are no longer valid. */
  endedFamilies: ReadonlySet<string>;
  /**
   * Returns the effective scopes of a token, and the visibility that it has for the scopes of an
   * operation.
   * @param asked the scopes of the token
   */
  permits(asked: readonly string[]): { scopes: string[]; computeReach: (scopes: readonly string[]) => Reach };
}

/** An active user and what they allowed an app to do. */
export interface GrantRecord extends CompanyRecord {
  userId: string;
  clientId: string;
  /** True if a change set of the app and the user waits. */
  hasProposals: boolean;
  /** null if the user never allowed the app anything. */
  grant: Grant | null;
}

/** The secrets that verify the signature of an inbound report. */
export interface InboundEndpoint extends WithTestClock {
  companyName: string;
  configVersion: number;
  /** The secrets that are valid now, encrypted. */
  sealedSecrets: string[];
}

export interface AskedGrant {
  userId: string;
  clientId: string;
  audience: Audience;
}

/**
 * The statements of the look-ups, which app/ passes in: runtime/ knows neither the tables nor the
 * meaning of plans and roles. Each sends its statement synchronously.
 */
export interface CredentialQueries {
  /** The companies of keys, by the hashes of the keys in hexadecimal. */
  findKeyPlaces(sql: Sql, hashes: readonly string[]): Promise<Map<string, string>>;
  /** The companies of users, by the ids of the users. */
  findUserPlaces(sql: Sql, userIds: readonly string[]): Promise<Map<string, string>>;
  /** Keys by their hashes. */
  findKeys(sql: Sql, companyId: string, hashes: readonly string[], now: Date): Promise<Map<string, KeyRecord>>;
  /** Sessions that have not ended, by their ids. */
  findSessions(sql: Sql, companyId: string, ids: readonly string[], now: Date): Promise<Map<string, SessionRecord>>;
  /** Results in the order of `asked`; undefined for a user who is not active. */
  findGrants(
    sql: Sql,
    companyId: string,
    asked: readonly AskedGrant[],
    now: Date,
  ): Promise<(GrantRecord | undefined)[]>;
  findCompany(sql: Sql, companyId: string, now: Date): Promise<CompanyRecord | undefined>;
  /** A key by its id. */
  findKeyById(sql: Sql, companyId: string, id: string, now: Date): Promise<KeyRecord | undefined>;
  /** A user, active or not. */
  findPerson(sql: Sql, companyId: string, userId: string, now: Date): Promise<PersonRecord | undefined>;
  findInboundEndpoint(sql: Sql, companyId: string, testMode: boolean, now: Date): Promise<InboundEndpoint | undefined>;
  /** Adds to the use of keys of a company. */
  countUse(sql: Sql, companyId: string, uses: readonly Use[], now: Date): Promise<void>;
}

type InCompany<Question> = Question & { companyId: string };

interface RememberedKey {
  record: KeyRecord;
  /** When the record changes without a write; null: never. */
  changesAt: Date | null;
}

/** Maximum number of cached API keys. */
const maxCachedKeys = 10_000;
/** Maximum number of keys and users whose company is cached. */
const maxCachedCompanies = 50_000;

/**
 * Limits the entries of a cache. With the option `max` the library would allocate room for all of
 * them immediately.
 */
const atMost = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 });

/** Look-ups that wait at the same time share one statement per company. */
export class CredentialStore {
  readonly #pool: Pool;
  readonly #queries: CredentialQueries;
  readonly #onKeyChanged: (companyId: string) => void;
  readonly #remembered = new LRUCache<string, RememberedKey>(atMost(maxCachedKeys));
  readonly #companyOfKey: (hash: string) => Promise<string | undefined>;
  readonly #companyOfUser: (userId: string) => Promise<string | undefined>;
  readonly #askKey: (question: InCompany<{ hash: string }>) => Promise<KeyRecord | undefined>;
  readonly #askSession: (question: InCompany<{ sessionId: string }>) => Promise<SessionRecord | undefined>;
  readonly #askGrant: (question: InCompany<AskedGrant>) => Promise<GrantRecord | undefined>;
  readonly #uses: UseCounts;

  /**
   * @param onKeyChanged called with the company of a key that changed, or whose subscription did
   */
  constructor(pool: Pool, queries: CredentialQueries, onKeyChanged: (companyId: string) => void) {
    this.#pool = pool;
    this.#queries = queries;
    this.#onKeyChanged = onKeyChanged;
    this.#companyOfKey = rememberCompanies((hashes) => pool.use((sql) => queries.findKeyPlaces(sql, hashes)));
    this.#companyOfUser = rememberCompanies((userIds) => pool.use((sql) => queries.findUserPlaces(sql, userIds)));
    this.#askKey = singleFlight(
      byCompany(pool, (sql, companyId, questions) => this.#findKeys(sql, companyId, questions)),
      2,
    );
    this.#askSession = singleFlight(
      byCompany(pool, (sql, companyId, questions) => this.#findSessions(sql, companyId, questions)),
      1,
    );
    this.#askGrant = singleFlight(
      byCompany(pool, (sql, companyId, questions) => this.#findGrants(sql, companyId, questions)),
      1,
    );
    this.#uses = new UseCounts((companyId, uses) =>
      pool.use((sql) => queries.countUse(sql, companyId, uses, new Date())),
    );
  }

  /** Finds a key by its hash, in a statement that starts after the call. */
  async findKey(hash: Buffer): Promise<KeyRecord | undefined> {
    const id = hash.toString('hex');
    const companyId = await this.#companyOfKey(id);
    return companyId === undefined ? undefined : this.#askKey({ companyId, hash: id });
  }

  /**
   * Returns the cached record of a key, which the transaction must verify; undefined if it is not
   * cached.
   */
  rememberedKey(hash: Buffer, now: Date): KeyRecord | undefined {
    const kept = this.#remembered.get(hash.toString('hex'));
    return kept && (kept.changesAt === null || now < kept.changesAt) ? kept.record : undefined;
  }

  /** Finds a session that has not ended, of an active user. */
  findSession(companyId: string, sessionId: string): Promise<SessionRecord | undefined> {
    return this.#askSession({ companyId, sessionId });
  }

  /** Finds an active user, with what they allowed an app to do with tokens of an audience. */
  async findGrant(userId: string, clientId: string, audience: Audience): Promise<GrantRecord | undefined> {
    const companyId = await this.#companyOfUser(userId);
    return companyId === undefined ? undefined : this.#askGrant({ companyId, userId, clientId, audience });
  }

  findCompany(companyId: string): Promise<CompanyRecord | undefined> {
    return this.#pool.use((sql) => this.#queries.findCompany(sql, companyId, new Date()));
  }

  /** Finds a key of a company by its id, valid or not. */
  findKeyById(companyId: string, id: string): Promise<KeyRecord | undefined> {
    return this.#pool.use((sql) => this.#queries.findKeyById(sql, companyId, id, new Date()));
  }

  /** Finds a user of a company, active or not. */
  findPerson(companyId: string, userId: string): Promise<PersonRecord | undefined> {
    return this.#pool.use((sql) => this.#queries.findPerson(sql, companyId, userId, new Date()));
  }

  /**
   * Returns the secrets of an active company for inbound reports; undefined if there is no such
   * company, or it has no secret.
   */
  findInboundEndpoint(companyId: string, testMode: boolean, now: Date): Promise<InboundEndpoint | undefined> {
    return this.#pool.use((sql) => this.#queries.findInboundEndpoint(sql, companyId, testMode, now));
  }

  /** Counts a call with a valid key. Nothing waits for it. */
  countUse(companyId: string, keyId: string, ip: string): void {
    this.#uses.add(companyId, keyId, ip, { calls: 1 });
  }

  /** Counts that a counted call was answered with an error. Nothing waits for it. */
  countFailure(companyId: string, keyId: string, ip: string): void {
    this.#uses.add(companyId, keyId, ip, { failures: 1 });
  }

  /** Writes the counted uses now instead of within a second. */
  flushUses(): Promise<void> {
    return this.#uses.flush();
  }

  async #findKeys(sql: Sql, companyId: string, questions: readonly { hash: string }[]) {
    const now = new Date();
    const hashes = [...new Set(questions.map(({ hash }) => hash))];
    const records = await this.#queries.findKeys(sql, companyId, hashes, now);
    for (const hash of hashes) this.#remember(hash, records.get(hash), now);
    return ({ hash }: { hash: string }) => records.get(hash);
  }

  #remember(hash: string, record: KeyRecord | undefined, now: Date): void {
    if (!record) {
      this.#remembered.delete(hash);
      return;
    }
    const before = this.#remembered.get(hash);
    if (before && before.record.stamp !== record.stamp) this.#onKeyChanged(record.companyId);
    const changesAt = record.trialEndsAt && record.trialEndsAt > now ? record.trialEndsAt : null;
    this.#remembered.set(hash, { record, changesAt });
  }

  async #findSessions(sql: Sql, companyId: string, questions: readonly { sessionId: string }[]) {
    const ids = [...new Set(questions.map(({ sessionId }) => sessionId))];
    const records = await this.#queries.findSessions(sql, companyId, ids, new Date());
    return ({ sessionId }: { sessionId: string }) => records.get(sessionId);
  }

  async #findGrants(sql: Sql, companyId: string, questions: readonly AskedGrant[]) {
    const rows = await this.#queries.findGrants(sql, companyId, questions, new Date());
    const records = new Map(rows.map((row, index) => [questions[index], row]));
    return (question: AskedGrant) => records.get(question);
  }
}

/**
 * Returns a function that finds the company of a key or a user. The result is cached, since it
 * never changes; the state of the key or the user is looked up each time. Misses are not cached,
 * because the key or user may be created later.
 */
function rememberCompanies(
  lookUp: (ids: readonly string[]) => Promise<Map<string, string>>,
): (id: string) => Promise<string | undefined> {
  const kept = new LRUCache<string, string>(atMost(maxCachedCompanies));
  const ask = singleFlight<string, string>((ids) => {
    const found = lookUp([...new Set(ids)]);
    return ids.map(async (id) => (await found).get(id));
  }, 1);
  return async (id) => {
    const known = kept.get(id);
    if (known !== undefined) return known;
    const found = await ask(id);
    if (found !== undefined) kept.set(id, found);
    return found;
  };
}

/**
 * Returns a look-up that runs one statement per company, all of them in one round trip. If one
 * fails, only the look-ups of its company fail.
 * @param lookUp sends its statement synchronously, and returns a function that answers each
 * question
 */
function byCompany<Question, Answer>(
  pool: Pool,
  lookUp: (
    sql: Sql,
    companyId: string,
    questions: readonly InCompany<Question>[],
  ) => Promise<(question: InCompany<Question>) => Answer | undefined>,
): (questions: readonly InCompany<Question>[]) => readonly Promise<Answer | undefined>[] {
  return (questions) => {
    const asked = pool.use(async (sql) => {
      const companies = [...Map.groupBy(questions, ({ companyId }) => companyId)];
      const answers = new Map(companies.map(([companyId, own]) => [companyId, lookUp(sql, companyId, own)]));
      await Promise.allSettled(answers.values());
      return answers;
    });
    return questions.map(async (question) => (await (await asked).get(question.companyId))?.(question));
  };
}
