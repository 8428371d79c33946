// Who calls, and whether they may: limits, credential, scopes, quota.
import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import { isOutage } from '../../db/client/pool.ts';
import {
  type Authenticated,
  anonymous,
  authenticate,
  authenticateFromCache,
  describeCredential,
  type RequestFacts,
  readCredential,
  sessionTokenNotAccepted,
} from '../credentials/authentication.ts';
import { authorize } from '../credentials/authorization.ts';
import type { BearerTokens } from '../credentials/bearer-tokens.ts';
import { authenticateReport, describeReporter, type SignedReport, unsigned } from '../credentials/signed-reports.ts';
import { ApiError } from '../errors.ts';
import { clientAddressReader } from '../http/client-address.ts';
import { admitToQuota, QuotaAlarm } from '../limits/quota.ts';
import { noteGoodEvery, type SentCredential, type Verdict } from '../limits/rate-limits.ts';
import type { Operation } from '../openapi/document.ts';
import type { Log } from '../telemetry/log.ts';
import type { CallParts } from './call-services.ts';
import { type Deadline, DeadlinePassed } from './deadline.ts';
import { admit, type Trace } from './trace.ts';

export interface AdmissionParts extends CallParts {
  log: Log;
  bearerTokens: BearerTokens;
  trustedProxies: readonly string[];
  /** The public `apikey` that the identity provider's routes ask for, if any. */
  anonKey: string | undefined;
}

/** A request on a route that is no part of the document, whose caller authenticates as on REST. */
export interface GuestRequest {
  request: IncomingMessage;
  /** What access tokens must be meant for. */
  audience: string;
}

/** A request whose operation is known. */
export interface RoutedRequest {
  operation: Operation;
  path: Record<string, string>;
  queryText: string;
  request: IncomingMessage;
  /** The body, where a signature of it tells who sent it. */
  signedBody?: Buffer | undefined;
}

/** True for a call that needs no credential. */
const isPublicCall = ({ operation, queryText }: RoutedRequest): boolean =>
  operation.requirements.length === 0 ||
  (operation.credentialWith !== undefined && new URLSearchParams(queryText).get(operation.credentialWith) !== 'true');

/** What a gateway has signed; undefined for a request that is sent with a credential. */
function reportIn(routed: RoutedRequest | GuestRequest): SignedReport | undefined {
  if ('audience' in routed || !routed.signedBody) return undefined;
  const signature = routed.request.headers['service-signature'];
  if (typeof signature !== 'string') return undefined;
  return { signature, body: routed.signedBody, query: new URLSearchParams(routed.queryText) };
}

/** Credentials whose last note is known; others are noted with each call that looks them up. */
const mostNoted = 20_000;

export class Admission {
  readonly #parts: AdmissionParts;
  readonly #addressOf: ReturnType<typeof clientAddressReader>;
  readonly #alarm: QuotaAlarm;
  /** When the good credentials of whom were last noted. */
  readonly #noted = new LRUCache<string, number>({ max: mostNoted });
  /** True while the quota itself cannot be charged: that credentials are found says nothing then. */
  #isQuotaDown = false;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
    this.#addressOf = clientAddressReader(parts.trustedProxies);
    this.#alarm = new QuotaAlarm(parts.log);
  }

  /**
   * Admits a request by its remembered key, without asking the database: its transaction must verify the key.
   * @returns undefined if too little is known, or if the request would be rejected: only a look-up of its own may reject it
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

  /** Returns the caller by the remembered key; nothing is counted or charged, and a transaction must verify the key. */
  remember(request: IncomingMessage, now: Date, trace: Trace): Authenticated | undefined {
    const { sessionTokens } = this.#parts;
    const { 'x-api-key': key } = request.headers;
    if (typeof key !== 'string') return undefined;
    const facts = this.#factsOf(request, trace);
    // Nothing is looked up for it, and so it is not asked whether others behind its address failed.
    const found = authenticateFromCache(readCredential(request.headers, sessionTokens.issuer), facts, this.#parts, now);
    if (found) this.#noteGood(found.caller.actor.id, () => describeCredential(request.headers), now);
    return found;
  }

  /** @param id whose credential it is: the credential itself is digested only if it is to be noted */
  #noteGood(id: string, describe: () => SentCredential, now: Date): void {
    if (now.getTime() - (this.#noted.get(id) ?? 0) < noteGoodEvery) return;
    this.#noted.set(id, now.getTime());
    this.#parts.limits.noteGood(describe());
  }

  /** Authenticates, counts and charges a request. @throws ApiError if it is rejected */
  async authenticate(routed: RoutedRequest, now: Date, deadline: Deadline, trace: Trace): Promise<Authenticated> {
    const { limits, anonKey, credentials } = this.#parts;
    const { operation, request } = routed;
    const facts = this.#factsOf(request, trace);
    const isPublic = isPublicCall(routed);
    // What anybody may call has no mode.
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
    if (isPublic) return { caller: anonymous(facts), configVersion: 0, subscription: undefined, credential: undefined };
    const authenticated = await this.#identify(routed, facts, now, deadline, trace).catch((error: unknown) => {
      this.#takeBack(trace);
      throw error;
    });
    const { kind, companyId, actor, ip } = authenticated.caller;
    if (kind === 'api_key') credentials.countUse(companyId, actor.id, ip);
    await this.#admit(routed, authenticated, now, deadline, trace);
    return authenticated;
  }

  /**
   * Authenticates a request on a route outside the OpenAPI document; nothing is counted or charged yet.
   * @throws ApiError 401 for every credential that is not good there, session tokens among them; 403 as on REST; 429
   */
  async authenticateGuest(guest: GuestRequest, now: Date, deadline: Deadline, trace: Trace): Promise<Authenticated> {
    const { request, audience } = guest;
    const facts = this.#factsOf(request, trace);
    const found = await this.#identify({ request, audience }, facts, now, deadline, trace);
    const { kind, companyId, actor, ip } = found.caller;
    if (kind === 'api_key') this.#parts.credentials.countUse(companyId, actor.id, ip);
    trace.caller = found.caller;
    trace.testMode = found.caller.testMode;
    return found;
  }

  /** Counts a request that calls no operation, under the name of its route. @throws ApiError 429 */
  async count(route: string, { caller }: Authenticated, trace: Trace): Promise<void> {
    const verdict = this.#countOnce({ id: route, keyLimit: undefined }, caller, trace);
    if (verdict) await verdict;
  }

  /** Counts, charges and authorizes a call of an operation by a caller that authenticateGuest returned. @throws ApiError as on REST */
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

  /** Gives back what a call was charged. */
  takeBack(trace: Trace): void {
    this.#takeBack(trace);
  }

  /** Gives back what a request was charged, before it is authenticated again. */
  resetAttempt(trace: Trace): void {
    this.#takeBack(trace);
    trace.quota = undefined;
  }

  /** Notes that what was known of a key held. */
  confirm({ companyId, actor, ip }: Authenticated['caller']): void {
    if (!this.#isQuotaDown) this.#alarm.clear();
    this.#parts.credentials.countUse(companyId, actor.id, ip);
  }

  #isUnavailable(error: unknown): boolean {
    return error instanceof DeadlinePassed || isOutage(error);
  }

  /** Counts, charges and authorizes a call of somebody who is known; once, should it be asked again. */
  async #admit(
    { operation, path }: Pick<RoutedRequest, 'operation' | 'path'>,
    { caller, subscription }: Authenticated,
    now: Date,
    deadline: Deadline,
    trace: Trace,
  ): Promise<void> {
    const { quota: ledger, moduleState } = this.#parts;
    trace.caller = caller;
    trace.testMode = caller.testMode;
    const counted = this.#countOnce(operation, caller, trace);
    // The counters of this process answer at once: then nothing waits.
    if (counted) await counted;
    const isCharged = subscription?.access === 'open' && !caller.testMode;
    if (isCharged) trace.quota ??= await this.#charge(caller.companyId, now, deadline);
    else this.#takeBack(trace);
    if (isCharged && trace.quota?.charged) trace.charge = trace.quota;
    authorize(operation, caller, path, moduleState);
    if (subscription && !(operation.unpaid && subscription.access !== 'open')) {
      const lastPeriod = () => deadline.race(() => ledger.findFigures(caller.companyId));
      await admitToQuota(subscription, isCharged ? trace.quota : undefined, lastPeriod, now);
    }
  }

  /** Counts a request, unless it was: it may be let in twice, first by memory. @throws ApiError 429, or a promise of it */
  #countOnce(
    operation: Pick<Operation, 'id' | 'keyLimit'>,
    caller: Authenticated['caller'],
    trace: Trace,
  ): Promise<void> | undefined {
    if (trace.countedBy !== undefined && isDeepStrictEqual(trace.countedBy, caller.limits)) return undefined;
    const note = (verdict: Verdict): void => {
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
      // It may be charged again only after those who asked were told that it could not be.
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

  /** Gives back what a call was charged that was let in by what no longer held. */
  #takeBack(trace: Trace): void {
    if (trace.charge) this.#parts.quota.refund(trace.charge);
    trace.charge = undefined;
  }

  #factsOf({ headers, socket }: IncomingMessage, { requestId }: Trace): RequestFacts {
    return {
      requestId,
      ip: this.#addressOf(socket.remoteAddress ?? '', headers['x-forwarded-for'] as string | undefined),
      userAgent: headers['user-agent']?.slice(0, 200) ?? null,
    };
  }

  /** Authenticates. A credential that failed too often is refused before anything is looked up for it. */
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
      const found = await this.#look(routed, report, facts, now, deadline);
      const { identity } = described;
      if (identity !== undefined) this.#noteGood(identity, () => described, now);
      return found;
    } catch (error) {
      // An app that one user no longer allows must not lock out its others, who come from the same address.
      const isWrong = error instanceof ApiError && error.status === 401;
      // What is good elsewhere stays good there.
      if (isWrong && described.isSecret) {
        this.#noted.delete(described.identity ?? '');
        limits.forgetGood(described);
      }
      if (isWrong || (error instanceof ApiError && error.code === 'IP_NOT_ALLOWED'))
        admit(await limits.takeFailed(facts.ip, described, Date.now()), trace);
      throw error;
    }
  }

  /** Looks up who calls. */
  async #look(
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
      // Sessions are not charged.
      if (sent.kind !== 'session' && this.#isUnavailable(error)) throw this.#alarm.raise();
      throw error;
    }
  }
}
