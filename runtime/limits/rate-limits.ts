// Rate limits: the layers that count a request, their limits, and the figures for response headers.
import { isIPv6 } from 'node:net';
import { LRUCache } from 'lru-cache';
import { reportsPerMinute } from '../../domain/service/request-limits.ts';
import type { Caller } from '../caller.ts';
import { type ApiError, rateLimited } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';

/** A number of calls in a sliding window of so many milliseconds. */
export interface Allowance {
  limit: number;
  window: number;
}

/** A limit for one subject. The key identifies the subject and the operation. */
export interface Layer extends Allowance {
  key: string;
}

/** The figures of the limit that the caller is closest to hitting. */
export interface RateFigures {
  limit: number;
  remaining: number;
  /**
   * When the next call becomes available, or when a rejected one would pass; milliseconds since
   * 1970.
   */
  reset: number;
}

export interface LimitDecision extends RateFigures {
  allowed: boolean;
}

/** Counts calls. A call counts in all of its layers, or in none if one of them rejects it. */
export interface Counters {
  /**
   * Counts a call. Returns a promise only if the counters are remote. It never rejects.
   * @param layers at least one
   * @param now milliseconds since 1970
   */
  take(layers: readonly Layer[], now: number): LimitDecision | Promise<LimitDecision>;
  /** True while this process counts locally because the shared counters are unavailable. */
  readonly isLocal: boolean;
  /** Remembers a name for all processes that share these counters. */
  remember(name: string, milliseconds: number): void;
  /** Returns true if a name is remembered. It never rejects. */
  remembers(name: string): boolean | Promise<boolean>;
  forget(name: string): void;
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/**
 * Calls of one address with one invalid credential, or without one, on operations that need one.
 */
const failedAuthentication: Allowance = { limit: 30, window: minute };
/** Calls of one address with all invalid credentials together. */
const failuresPerAddress: Allowance = { limit: 10 * failedAuthentication.limit, window: minute };
/** Milliseconds between two notes that a credential is valid. Not every call needs one. */
export const noteIntervalMs = 5 * minute;
/**
 * Milliseconds after a note for which a valid credential is admitted even if others fail at its
 * address.
 */
const validForMs = hour + noteIntervalMs;
/** Wrong passwords for one account. */
const failedSignIns: Allowance = { limit: 5, window: 15 * minute };
/** Password reset mails for one account. */
const resetMails: Allowance = { limit: 3, window: hour };
/** Inbound reports of a workspace, in each mode. */
const reports: Allowance = { limit: reportsPerMinute, window: minute };
/** Calls of a signed-in user per operation and minute. API keys have their own limits. */
const callsPerUserAndMinute = 60;

/**
 * Returns the policies that `x-public-limit` can name: limits per client address on public
 * operations.
 */
export function buildPublicPolicies(onboardingPerHour: number): Readonly<Record<string, readonly Allowance[]>> {
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

/**
 * Maximum number of blocked addresses and accounts that are rejected from memory. For others the
 * counters are asked.
 */
const maxBlocks = 10_000;

export class RateLimits {
  readonly #counters: Counters;
  readonly #policies: Readonly<Record<string, readonly Allowance[]>>;
  /**
   * Blocked addresses and accounts and the end of the block. Local, so that the check before a
   * credential look-up needs no round trip.
   */
  readonly #blocked = new LRUCache<string, RateFigures>({ max: maxBlocks });

  constructor(counters: Counters, policies: Readonly<Record<string, readonly Allowance[]>>) {
    this.#counters = counters;
    this.#policies = policies;
  }

  /** True while this process counts locally. */
  get isLocal(): boolean {
    return this.#counters.isLocal;
  }

  /** Counts a call of a public operation. */
  takePublic(
    operation: Pick<Operation, 'id' | 'publicLimit'>,
    ip: string,
    now: number,
  ): LimitDecision | Promise<LimitDecision> {
    const address = toNetwork(ip);
    const policy = this.#policies[operation.publicLimit ?? ''] ?? [failedAuthentication];
    return this.#counters.take(
      policy.map(({ limit, window }) => ({ key: `ip:${address}:${operation.id}:${window}`, limit, window })),
      now,
    );
  }

  /** Counts a call of an authenticated caller. */
  takeAuthenticated(
    operation: Pick<Operation, 'id' | 'keyLimit' | 'workspaceLimit'>,
    caller: Caller,
    now: number,
  ): LimitDecision | Promise<LimitDecision> {
    const { limits, actor } = caller;
    // A separate limit: messages from customers must not use up the workspace's calls.
    if (caller.kind === 'gateway')
      return this.#counters.take([{ key: `reports:${caller.companyId}:${caller.testMode}`, ...reports }], now);
    const layers: Layer[] = [{ key: `tenant:${caller.companyId}`, limit: limits.tenantPerMinute, window: minute }];
    if (limits.tenantPerDay !== null)
      layers.push({ key: `tenant-day:${caller.companyId}`, limit: limits.tenantPerDay, window: day });
    // Test mode asks no payment provider.
    if (operation.workspaceLimit !== undefined && !caller.testMode)
      layers.push({
        key: `tenant:${caller.companyId}:${operation.id}`,
        limit: operation.workspaceLimit,
        window: minute,
      });
    if (caller.kind === 'session') {
      layers.push({ key: `user:${actor.id}:${operation.id}`, limit: callsPerUserAndMinute, window: minute });
    } else {
      const perMinute = Math.min(limits.perMinute, operation.keyLimit ?? limits.perMinute);
      // An app acts for many users, and each has a separate limit.
      const credential = caller.kind === 'oauth_client' ? `oauth:${caller.userId}:${actor.id}` : `key:${actor.id}`;
      layers.push({ key: `${credential}:${operation.id}`, limit: perMinute, window: minute });
      layers.push({ key: credential, limit: limits.perHour, window: hour });
    }
    return this.#counters.take(layers, now);
  }

  /**
   * Returns the figures to reject a credential that failed too often, or whose address did with
   * other credentials. Then nothing is looked up. A credential that was valid within the last hour
   * passes; if it is not a secret, only the block of the address is lifted.
   */
  async refusalOfCredential(ip: string, sent: SentCredential, now: number): Promise<RateFigures | undefined> {
    const [own, all] = failureLayers(ip, sent);
    const refusal = this.#refusal(own.key, now);
    if (refusal && !sent.isSecret) return refusal;
    const found = refusal ?? this.#refusal(all.key, now);
    if (!found || sent.identity === undefined) return found;
    return (await this.#counters.remembers(credentialKey(sent.identity))) ? undefined : found;
  }

  /** Counts a call without a valid credential. */
  async takeFailed(ip: string, sent: SentCredential, now: number): Promise<LimitDecision> {
    const layers = failureLayers(ip, sent);
    const verdict = await this.#counters.take(layers, now);
    const full = verdict.remaining === 0 && layers.find(({ limit }) => limit === verdict.limit);
    if (full) this.#blocked.set(full.key, verdict);
    return verdict;
  }

  /** Remembers that a credential is valid. */
  noteGood({ identity }: SentCredential): void {
    if (identity !== undefined) this.#counters.remember(credentialKey(identity), validForMs);
  }

  /** Forgets that a credential was valid. */
  forgetGood({ identity }: SentCredential): void {
    if (identity !== undefined) this.#counters.forget(credentialKey(identity));
  }

  /** Returns the figures to reject a sign-in after too many wrong passwords for the account. */
  refusalOfAccount(email: string, now: number): RateFigures | undefined {
    return this.#refusal(`account:${email}`, now);
  }

  /** Counts a wrong password. */
  takeWrongPassword(email: string, now: number): LimitDecision | Promise<LimitDecision> {
    return this.#takeFailure({ key: `account:${email}`, ...failedSignIns }, now);
  }

  /** Counts a password reset mail. */
  takeResetMail(email: string, now: number): LimitDecision | Promise<LimitDecision> {
    return this.#counters.take([{ key: `reset:${email}`, ...resetMails }], now);
  }

  /**
   * Returns the figures of responses for which nothing was counted: the limit of the address
   * without a credential.
   */
  uncounted(now: number): RateFigures {
    return { limit: failedAuthentication.limit, remaining: failedAuthentication.limit, reset: now + minute };
  }

  #refusal(key: string, now: number): RateFigures | undefined {
    const blocked = this.#blocked.get(key);
    if (blocked === undefined || blocked.reset > now) return blocked;
    this.#blocked.delete(key);
    return undefined;
  }

  #takeFailure(layer: Layer, now: number): LimitDecision | Promise<LimitDecision> {
    const verdict = this.#counters.take([layer], now);
    const note = (found: LimitDecision): LimitDecision => {
      if (found.remaining === 0) this.#blocked.set(layer.key, found);
      return found;
    };
    return verdict instanceof Promise ? verdict.then(note) : note(verdict);
  }
}

/** The identity of a credential for counting failures. */
export interface SentCredential {
  /**
   * Groups credentials whose failures are counted together: the start of a key, the claimed signer,
   * or `none`.
   */
  prefix: string;
  /** Identifies this credential uniquely; undefined if there is none. */
  identity: string | undefined;
  /** True if only a client that has the credential can have the same identity. */
  isSecret: boolean;
}

const credentialKey = (identity: string): string => `good:${identity}`;

function failureLayers(ip: string, { prefix }: SentCredential): [Layer, Layer] {
  const address = `failed:${toNetwork(ip)}`;
  return [
    { key: `${address}:${prefix}`, ...failedAuthentication },
    { key: address, ...failuresPerAddress },
  ];
}

/** Returns the error 429 for a rejected call. It does not say which layer rejected it. */
export function toRateLimitError(figures: RateFigures, now: number): ApiError {
  const { limit, reset } = figures;
  return rateLimited({ limit, remaining: 0, reset, retry_after: countSecondsUntil(figures, now) });
}

/** Returns the whole seconds after which a rejected caller may call again. */
export function countSecondsUntil({ reset }: Pick<RateFigures, 'reset'>, now: number): number {
  return Math.max(1, Math.ceil((reset - now) / 1000));
}

/**
 * Returns the verdict of all layers. The figures are those of the layer with the fewest calls left.
 * Among equals it is the one that recovers last, so that waiting for it suffices.
 * @param used calls within each window, including this one if it is allowed
 * @param waits milliseconds until each layer's next call becomes available
 */
export function judgeLimits(
  allowed: boolean,
  layers: readonly Layer[],
  used: readonly number[],
  waits: readonly number[],
  now: number,
): LimitDecision {
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

/**
 * Returns the network that an address stands for: IPv4 addresses as they are, IPv6 as the /64 of
 * one customer.
 */
export function toNetwork(ip: string): string {
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
