// Admits requests: rate limits, authentication, quota and authorization.
import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import { isOutage } from '../../db/client/pool.ts';
import {
  type Authenticated,
  authenticate,
  authenticateFromCache,
  buildAnonymousCaller,
  describeCredential,
  RejectedKey,
  type RequestFacts,
  readCredential,
  sessionTokenNotAccepted,
} from '../credentials/authentication.ts';
import { authorize } from '../credentials/authorization.ts';
import type { BearerTokens } from '../credentials/bearer-tokens.ts';
import { authenticateReport, describeReporter, type SignedReport, unsigned } from '../credentials/signed-reports.ts';
import { ApiError } from '../errors.ts';
import { createClientAddressReader } from '../http/client-address.ts';
import { admitToQuota, QuotaAlarm } from '../limits/quota.ts';
import { type LimitDecision, noteIntervalMs, type SentCredential } from '../limits/rate-limits.ts';
import type { Operation } from '../openapi/document.ts';
import type { Log } from '../telemetry/log.ts';
import type { CallParts } from './call-services.ts';
import { type Deadline, DeadlinePassed } from './deadline.ts';
import { admit, type Trace } from './trace.ts';

export interface AdmissionParts extends CallParts {
  log: Log;
  bearerTokens: BearerTokens;
  trustedProxies: readonly string[];
  /** The public `apikey` that the identity provider's routes require, if any. */
  anonKey: string | undefined;
}

/** A request on a route outside the OpenAPI document, which authenticates as on REST. */
export interface GuestRequest {
  request: IncomingMessage;
  /** The audience that access tokens must have. */
  audience: string;
}

/** A request that was routed to an operation. */
export interface RoutedRequest {
  operation: Operation;
  path: Record<string, string>;
  queryText: string;
  request: IncomingMessage;
  /** The body, if the request is authenticated by its signature. */
  signedBody?: Buffer | undefined;
}

/** Returns true if the call needs no credential. */
const isPublicCall = ({ operation, queryText }: RoutedRequest): boolean =>
  operation.requirements.length === 0 ||
  (operation.credentialWith !== undefined && new URLSearchParams(queryText).get(operation.credentialWith) !== 'true');

/** Returns a gateway's signed report; undefined for a request with another credential. */
function reportIn(routed: RoutedRequest | GuestRequest): SignedReport | undefined {
  if ('audience' in routed || !routed.signedBody) return undefined;
  const signature = routed.request.headers['service-signature'];
  if (typeof signature !== 'string') return undefined;
  return { signature, body: routed.signedBody, query: new URLSearchParams(routed.queryText) };
}

/** Maximum number of credentials whose last note is cached. Others are noted at each look-up. */
const maxNoted = 20_000;

export class Admission {
  readonly #parts: AdmissionParts;
  readonly #getClientAddress: ReturnType<typeof createClientAddressReader>;
  readonly #alarm: QuotaAlarm;
  /** When each valid credential was last noted, by the id of its actor or by its identity. */
  readonly #noted = new LRUCache<string, number>({ max: maxNoted });
  /**
   * True while the quota cannot be charged. Then a successful look-up of a credential does not end
   * the alert.
   */
  #isQuotaDown = false;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
    this.#getClientAddress = createClientAddressReader(parts.trustedProxies);
    this.#alarm = new QuotaAlarm(parts.log);
  }

  /**
   * Admits a request by its cached key, without a query. Its transaction must verify the key.
   * @returns undefined if the key is not cached, or if the request would be rejected: only a
   * look-up may reject it
   */
  async authenticateFromCache(
    routed: RoutedRequest,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<Authenticated | undefined> {
    if (isPublicCall(routed)) return undefined;
    const known = this.remember(routed.request, now, trace);
    if (!known) return undefined;
    try {
      await this.#admit(routed, known, now, deadline, trace);
      return known;
    } catch (error) {
      if (error instanceof ApiError && error.status !== 503) return undefined;
      throw error;
    }
  }

  /**
   * Returns the caller of a cached key. Nothing is counted or charged, and a transaction must
   * verify the key.
   */
  remember(request: IncomingMessage, now: Date, trace: Trace): Authenticated | undefined {
    const { sessionTokens } = this.#parts;
    const { 'x-api-key': key } = request.headers;
    if (typeof key !== 'string') return undefined;
    const facts = this.#readFacts(request, trace);
    // No look-up follows, so failures of other credentials at its address do not matter.
    const found = authenticateFromCache(readCredential(request.headers, sessionTokens.issuer), facts, this.#parts, now);
    if (found) this.#noteGood(found.caller.actor.id, () => describeCredential(request.headers), now);
    return found;
  }

  /**
   * @param id identifies the credential. `describe`, which hashes it, runs only if it must be noted
   */
  #noteGood(id: string, describe: () => SentCredential, now: Date): void {
    if (now.getTime() - (this.#noted.get(id) ?? 0) < noteIntervalMs) return;
    this.#noted.set(id, now.getTime());
    this.#parts.limits.noteGood(describe());
  }

  /**
   * Authenticates, counts, charges and authorizes a request.
   * @throws ApiError if it is rejected
   */
  async authenticate(routed: RoutedRequest, now: Date, deadline: Deadline, trace: Trace): Promise<Authenticated> {
    const { limits, anonKey, credentials } = this.#parts;
    const { operation, request } = routed;
    const facts = this.#readFacts(request, trace);
    const isPublic = isPublicCall(routed);
    // Public calls have no mode.
    if (isPublic) trace.testMode = false;
    if (isPublic) admit(await limits.takePublic(operation, facts.ip, now.getTime()), trace);
    if (operation.answer === 'oauth' && anonKey !== undefined && request.headers.apikey !== anonKey) {
      throw new ApiError(
        'MISSING_API_KEY',
        'Send the public key of this project in the apikey header.',
        { oauth_error: 'invalid_client' },
        { headers: { 'www-authenticate': 'Bearer' } },
      );
    }
    if (isPublic)
      return { caller: buildAnonymousCaller(facts), configVersion: 0, subscription: undefined, credential: undefined };
    const authenticated = await this.#identify(routed, facts, now, deadline, trace).catch((error: unknown) => {
      this.#refund(trace);
      throw error;
    });
    const { kind, companyId, actor, ip } = authenticated.caller;
    if (kind === 'api_key') credentials.countUse(companyId, actor.id, ip);
    await this.#admit(routed, authenticated, now, deadline, trace);
    return authenticated;
  }

  /**
   * Authenticates a request on a route outside the OpenAPI document. Nothing is counted or charged
   * yet.
   * @throws ApiError 401 for every credential that is not valid there, including session tokens;
   * 403 as on REST; 429
   */
  async authenticateGuest(guest: GuestRequest, now: Date, deadline: Deadline, trace: Trace): Promise<Authenticated> {
    const { request, audience } = guest;
    const facts = this.#readFacts(request, trace);
    const found = await this.#identify({ request, audience }, facts, now, deadline, trace);
    const { kind, companyId, actor, ip } = found.caller;
    if (kind === 'api_key') this.#parts.credentials.countUse(companyId, actor.id, ip);
    trace.caller = found.caller;
    trace.testMode = found.caller.testMode;
    return found;
  }

  /**
   * Counts a request that calls no operation, under the name of its route.
   * @throws ApiError 429
   */
  async count(route: string, { caller }: Authenticated, trace: Trace): Promise<void> {
    const verdict = this.#countOnce({ id: route, keyLimit: undefined, workspaceLimit: undefined }, caller, trace);
    if (verdict) await verdict;
  }

  /**
   * Counts, charges and authorizes a call of an operation by a caller from authenticateGuest.
   * @throws ApiError as on REST
   */
  admitTo(
    operation: Operation,
    path: Record<string, string>,
    by: Authenticated,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<void> {
    return this.#admit({ operation, path }, by, now, deadline, trace);
  }

  /** Refunds the charge of a call. */
  takeBack(trace: Trace): void {
    this.#refund(trace);
  }

  /** Refunds the charge of a request before it is authenticated again. */
  resetAttempt(trace: Trace): void {
    this.#refund(trace);
    trace.quota = undefined;
  }

  /** Records that a transaction confirmed a cached key. */
  confirm({ companyId, actor, ip }: Authenticated['caller']): void {
    if (!this.#isQuotaDown) this.#alarm.clear();
    this.#parts.credentials.countUse(companyId, actor.id, ip);
  }

  #isUnavailable(error: unknown): boolean {
    return error instanceof DeadlinePassed || isOutage(error);
  }

  /**
   * Counts, charges and authorizes a call of an authenticated caller. A repeated call for the same
   * request counts and charges once.
   */
  async #admit(
    { operation, path }: Pick<RoutedRequest, 'operation' | 'path'>,
    { caller, subscription }: Authenticated,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<void> {
    const { quota: ledger, getModuleState } = this.#parts;
    trace.caller = caller;
    trace.testMode = caller.testMode;
    const counted = this.#countOnce(operation, caller, trace);
    // Local counters respond synchronously; then nothing waits.
    if (counted) await counted;
    const isCharged = subscription?.access === 'open' && !caller.testMode;
    if (isCharged) trace.quota ??= await this.#charge(caller.companyId, now, deadline);
    else this.#refund(trace);
    if (isCharged && trace.quota?.charged) trace.charge = trace.quota;
    authorize(operation, caller, path, getModuleState);
    const lastPeriod = () => deadline.race(() => ledger.findFigures(caller.companyId));
    await admitToQuota(operation, subscription, isCharged ? trace.quota : undefined, lastPeriod, now);
  }

  /**
   * Counts a request once, although it may be admitted twice, first from the cache.
   * @throws ApiError 429, or returns a promise that rejects with it
   */
  #countOnce(
    operation: Pick<Operation, 'id' | 'keyLimit' | 'workspaceLimit'>,
    caller: Authenticated['caller'],
    trace: Trace,
  ): Promise<void> | undefined {
    if (trace.countedBy !== undefined && isDeepStrictEqual(trace.countedBy, caller.limits)) return undefined;
    const note = (verdict: LimitDecision): void => {
      admit(verdict, trace);
      trace.countedBy = caller.limits;
    };
    const verdict = this.#parts.limits.takeAuthenticated(operation, caller, Date.now());
    if (verdict instanceof Promise) return verdict.then(note);
    note(verdict);
    return undefined;
  }

  async #charge(companyId: string, now: Date, deadline: Deadline): Promise<Trace['quota']> {
    const charged = this.#parts.quota.charge(companyId, now);
    if (!(charged instanceof Promise)) return charged;
    try {
      // A charge may succeed after its caller's deadline. It then still ends the alert.
      const noted = charged.then((quota) => {
        this.#isQuotaDown = false;
        this.#alarm.clear();
        return quota;
      });
      return await deadline.race(() => noted);
    } catch (error) {
      if (!this.#isUnavailable(error)) throw error;
      this.#isQuotaDown = true;
      throw this.#alarm.raise();
    }
  }

  /** Refunds the charge of a call whose admission did not hold. */
  #refund(trace: Trace): void {
    if (trace.charge) this.#parts.quota.refund(trace.charge);
    trace.charge = undefined;
  }

  #readFacts({ headers, socket }: IncomingMessage, { requestId }: Trace): RequestFacts {
    return {
      requestId,
      ip: this.#getClientAddress(socket.remoteAddress ?? '', headers['x-forwarded-for'] as string | undefined),
      userAgent: headers['user-agent']?.slice(0, 200) ?? null,
    };
  }

  /** Authenticates. Rejects a credential that failed too often before anything is looked up. */
  async #identify(
    routed: RoutedRequest | GuestRequest,
    facts: RequestFacts,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<Authenticated> {
    const { limits } = this.#parts;
    const report = reportIn(routed);
    const described = report ? describeReporter(report, facts.ip) : describeCredential(routed.request.headers);
    const blocked = await limits.refusalOfCredential(facts.ip, described, now.getTime());
    if (blocked) admit({ ...blocked, allowed: false }, trace);
    try {
      const found = await this.#lookUp(routed, report, facts, now, deadline);
      const { identity } = described;
      if (identity !== undefined) this.#noteGood(identity, () => described, now);
      return found;
    } catch (error) {
      if (error instanceof RejectedKey) trace.rejectedCaller = error.caller;
      // 403 for an app does not count as a failure: an app that one user revoked must not lock out
      // its other users, who come from the same address.
      const isWrong = error instanceof ApiError && error.status === 401;
      // After IP_NOT_ALLOWED the credential stays valid at other addresses.
      if (isWrong && described.isSecret) {
        this.#noted.delete(described.identity ?? '');
        limits.forgetGood(described);
      }
      if (isWrong || (error instanceof ApiError && error.code === 'IP_NOT_ALLOWED'))
        admit(await limits.takeFailed(facts.ip, described, Date.now()), trace);
      throw error;
    }
  }

  /** Looks up the credential. */
  async #lookUp(
    routed: RoutedRequest | GuestRequest,
    report: SignedReport | undefined,
    facts: RequestFacts,
    now: Date,
    deadline: Deadline,
  ): Promise<Authenticated> {
    const { sessionTokens } = this.#parts;
    const { request } = routed;
    const isGuest = 'audience' in routed;
    if (report) return await deadline.race(() => authenticateReport(report, facts, this.#parts, now));
    const { 'x-api-key': key, authorization } = request.headers;
    if (!isGuest && routed.operation.signed && key === undefined && authorization === undefined) throw unsigned();
    const sent = readCredential(request.headers, sessionTokens.issuer);
    if (isGuest && sent.kind === 'session') throw sessionTokenNotAccepted();
    try {
      const parts = isGuest ? { ...this.#parts, audience: routed.audience } : this.#parts;
      const found = await deadline.race(() => authenticate(sent, facts, parts, now));
      if (found.subscription && !this.#isQuotaDown) this.#alarm.clear();
      return found;
    } catch (error) {
      // Sessions are not charged, so their failures are not failures of the quota.
      if (sent.kind !== 'session' && this.#isUnavailable(error)) throw this.#alarm.raise();
      throw error;
    }
  }
}
