// Rate limits: which layers count a request, what each allows, and what answers report of it.
import { isIPv6 } from 'node:net';
import { LRUCache } from 'lru-cache';
import { reportsPerMinute } from '../../domain/service/request-limits.ts';
import type { Caller } from '../caller.ts';
import { type ApiError, rateLimited } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';

/** So many calls within any stretch of time of that length, in milliseconds. */
export interface Allowance {
  limit: number;
  window: number;
}

/** An allowance of somebody for something; the key says whose and for what. */
export interface Layer extends Allowance {
  key: string;
}

/** The layer that is closest to refusing. */
export interface RateFigures {
  limit: number;
  remaining: number;
  /** When the next call becomes free again, or when a refused one would pass; milliseconds since 1970. */
  reset: number;
}

export interface Verdict extends RateFigures {
  allowed: boolean;
}

/** Counts calls. A call counts in all of its layers or, when one of them refuses, in none. */
export interface Counters {
  /**
   * A promise only where the counters are elsewhere. It never fails.
   * @param layers at least one
   * @param now milliseconds since 1970
   */
  take(layers: readonly Layer[], now: number): Verdict | Promise<Verdict>;
  /** True while this process counts for itself, because the counters that all processes share do not answer. */
  readonly isLocal: boolean;
  /** Remembers a name, for all processes that share these counters. */
  remember(name: string, milliseconds: number): void;
  /** Whether a name is remembered. It never fails. */
  remembers(name: string): boolean | Promise<boolean>;
  forget(name: string): void;
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** Calls of one address with one bad credential, or with none, on operations that need one. */
const failedAuthentication: Allowance = { limit: 30, window: minute };
/** The same of one address with all bad credentials together. */
const failedOfAddress: Allowance = { limit: 10 * failedAuthentication.limit, window: minute };
/** Milliseconds between two notes that a credential is good: not each of its calls needs one. */
export const noteGoodEvery = 5 * minute;
/** For how long after a note a good credential is let through, whatever others behind its address do. */
const goodFor = hour + noteGoodEvery;
/** Wrong passwords for one address of an e-mail account. */
const failedSignIns: Allowance = { limit: 5, window: 15 * minute };
/** Mails with a link to a new password for one address of an e-mail account. */
const resetMails: Allowance = { limit: 3, window: hour };
/** Reports of what came in for a workspace, in each mode. */
const reports: Allowance = { limit: reportsPerMinute, window: minute };
/** What a signed-in person may call, per endpoint; keys say themselves what they may. */
const perPersonAndMinute = 60;

/** What `x-public-limit` may name: the allowances of each client address on public operations. */
export function publicPolicies(onboardingPerHour: number): Readonly<Record<string, readonly Allowance[]>> {
  return {
    health: [{ limit: 120, window: minute }],
    availability: [{ limit: 60, window: minute }],
    download: [{ limit: 120, window: minute }],
    document: [{ limit: 60, window: minute }],
    onboarding: [
      { limit: onboardingPerHour, window: hour },
      { limit: 4 * onboardingPerHour, window: day },
    ],
    'sign-in': [{ limit: 10, window: minute }],
    screen: [{ limit: 60, window: minute }],
  };
}

/** Addresses and accounts that are refused without a look, at most; of others the counters are asked. */
const rememberedBlocks = 10_000;

/** Decides over requests. */
export class RateLimits {
  readonly #counters: Counters;
  readonly #policies: Readonly<Record<string, readonly Allowance[]>>;
  /** Who failed too often, until when; kept here so that nobody else needs to be asked before a credential is looked up. */
  readonly #blocked = new LRUCache<string, RateFigures>({ max: rememberedBlocks });

  constructor(counters: Counters, policies: Readonly<Record<string, readonly Allowance[]>>) {
    this.#counters = counters;
    this.#policies = policies;
  }

  /** True while this process counts for itself. */
  get isLocal(): boolean {
    return this.#counters.isLocal;
  }

  /** Counts a call of a public operation. */
  takePublic(operation: Pick<Operation, 'id' | 'publicLimit'>, ip: string, now: number): Verdict | Promise<Verdict> {
    const address = networkOf(ip);
    const policy = this.#policies[operation.publicLimit ?? ''] ?? [failedAuthentication];
    return this.#counters.take(
      policy.map(({ limit, window }) => ({ key: `ip:${address}:${operation.id}:${window}`, limit, window })),
      now,
    );
  }

  /** Counts a call of somebody who is known. */
  takeAuthenticated(
    operation: Pick<Operation, 'id' | 'keyLimit'>,
    caller: Caller,
    now: number,
  ): Verdict | Promise<Verdict> {
    const { limits, actor } = caller;
    // Of its own: what customers send must not use up what the workspace may call.
    if (caller.kind === 'gateway')
      return this.#counters.take([{ key: `reports:${caller.companyId}:${caller.testMode}`, ...reports }], now);
    const layers: Layer[] = [{ key: `tenant:${caller.companyId}`, limit: limits.tenantPerMinute, window: minute }];
    if (limits.tenantPerDay !== null)
      layers.push({ key: `tenant-day:${caller.companyId}`, limit: limits.tenantPerDay, window: day });
    if (caller.kind === 'session') {
      layers.push({ key: `user:${actor.id}:${operation.id}`, limit: perPersonAndMinute, window: minute });
    } else {
      const perMinute = Math.min(limits.perMinute, operation.keyLimit ?? limits.perMinute);
      // An app acts for many people, each of whom has calls of their own.
      const credential = caller.kind === 'oauth_client' ? `oauth:${caller.userId}:${actor.id}` : `key:${actor.id}`;
      layers.push({ key: `${credential}:${operation.id}`, limit: perMinute, window: minute });
      layers.push({ key: credential, limit: limits.perHour, window: hour });
    }
    return this.#counters.take(layers, now);
  }

  /**
   * The refusal of a credential that failed too often, or of one whose address did with others: nothing is looked up for it.
   * A credential that was good within the last hour is not refused.
   */
  async refusalOfCredential(ip: string, sent: SentCredential, now: number): Promise<RateFigures | undefined> {
    const [own, all] = failureLayers(ip, sent);
    const refusal = this.#refusal(own.key, now);
    if (refusal && !sent.isSecret) return refusal;
    const found = refusal ?? this.#refusal(all.key, now);
    if (!found || sent.identity === undefined) return found;
    return (await this.#counters.remembers(goodName(sent.identity))) ? undefined : found;
  }

  /** Counts a call without a good credential. */
  async takeFailed(ip: string, sent: SentCredential, now: number): Promise<Verdict> {
    const layers = failureLayers(ip, sent);
    const verdict = await this.#counters.take(layers, now);
    const full = verdict.remaining === 0 && layers.find(({ limit }) => limit === verdict.limit);
    if (full) this.#blocked.set(full.key, verdict);
    return verdict;
  }

  /** Notes that a credential was good. */
  noteGood({ identity }: SentCredential): void {
    if (identity !== undefined) this.#counters.remember(goodName(identity), goodFor);
  }

  /** Notes that a credential is not good any more. */
  forgetGood({ identity }: SentCredential): void {
    if (identity !== undefined) this.#counters.forget(goodName(identity));
  }

  /** The refusal of an account for which wrong passwords were sent too often. */
  refusalOfAccount(email: string, now: number): RateFigures | undefined {
    return this.#refusal(`account:${email}`, now);
  }

  /** Counts a wrong password. */
  takeWrongPassword(email: string, now: number): Verdict | Promise<Verdict> {
    return this.#takeFailure({ key: `account:${email}`, ...failedSignIns }, now);
  }

  /** Counts a mail with a link to a new password. */
  takeResetMail(email: string, now: number): Verdict | Promise<Verdict> {
    return this.#counters.take([{ key: `reset:${email}`, ...resetMails }], now);
  }

  /** The figures of answers that nothing was counted for: what the address may do without a credential. */
  uncounted(now: number): RateFigures {
    return { limit: failedAuthentication.limit, remaining: failedAuthentication.limit, reset: now + minute };
  }

  #refusal(key: string, now: number): RateFigures | undefined {
    const blocked = this.#blocked.get(key);
    if (blocked === undefined || blocked.reset > now) return blocked;
    this.#blocked.delete(key);
    return undefined;
  }

  #takeFailure(layer: Layer, now: number): Verdict | Promise<Verdict> {
    const verdict = this.#counters.take([layer], now);
    const note = (found: Verdict): Verdict => {
      if (found.remaining === 0) this.#blocked.set(layer.key, found);
      return found;
    };
    return verdict instanceof Promise ? verdict.then(note) : note(verdict);
  }
}

/** What a request was sent with, as far as failures are counted by it. */
export interface SentCredential {
  /** Groups credentials that are counted together: the beginning of a key, who is said to sign, or that there is none. */
  prefix: string;
  /** Tells this credential from every other one; undefined: there is none. */
  identity: string | undefined;
  /** Whether nobody can have the same identity who does not have the credential. */
  isSecret: boolean;
}

const goodName = (identity: string): string => `good:${identity}`;

function failureLayers(ip: string, { prefix }: SentCredential): [Layer, Layer] {
  const address = `failed:${networkOf(ip)}`;
  return [
    { key: `${address}:${prefix}`, ...failedAuthentication },
    { key: address, ...failedOfAddress },
  ];
}

/** @throws ApiError 429 when a verdict refuses; which layer it was is not told */
export function refuse(figures: RateFigures, now: number): ApiError {
  const { limit, reset } = figures;
  return rateLimited({ limit, remaining: 0, reset, retry_after: secondsUntil(figures, now) });
}

/** Whole seconds after which somebody who is refused may call again. */
export function secondsUntil({ reset }: Pick<RateFigures, 'reset'>, now: number): number {
  return Math.max(1, Math.ceil((reset - now) / 1000));
}

/**
 * The verdict over all layers: the one with the fewest calls left speaks, and of several the one that is free again last, so that
 * waiting for it suffices.
 * @param used calls within each window, this one included when it is allowed
 * @param waits milliseconds until each layer's next call becomes free
 */
export function judge(
  allowed: boolean,
  layers: readonly Layer[],
  used: readonly number[],
  waits: readonly number[],
  now: number,
): Verdict {
  let limit = 0;
  let remaining = Number.POSITIVE_INFINITY;
  let wait = 0;
  for (let index = 0; index < layers.length; index += 1) {
    const layer = layers[index] as Layer;
    const left = Math.max(0, layer.limit - (used[index] as number));
    const until = waits[index] as number;
    if (left < remaining || (left === remaining && until > wait)) {
      limit = layer.limit;
      remaining = left;
      wait = until;
    }
  }
  return { allowed, limit, remaining, reset: now + wait };
}

/** Whom an address stands for: one customer of a network owns a whole /64 of IPv6. */
export function networkOf(ip: string): string {
  if (!isIPv6(ip)) return ip;
  const [front = '', back] = ip.split('::');
  const groups = front === '' ? [] : front.split(':');
  if (back !== undefined) {
    const rest = back === '' ? [] : back.split(':');
    while (groups.length + rest.length < 8) groups.push('0');
    groups.push(...rest);
  }
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':');
}
