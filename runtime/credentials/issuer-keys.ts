// The public keys that access tokens are checked with: our own, or fetched from another issuer.
import { type CryptoKey, createLocalJWKSet, errors, type JSONWebKeySet, type JWSHeaderParameters } from 'jose';
import { startResponsiveTimeout } from '../responsive-timeout.ts';
import type { Log } from '../telemetry/log.ts';

/** Finds the key that a token names. */
export interface TokenKeys {
  /**
   * @returns undefined when the issuer has no such key
   * @throws IssuerUnavailable when only the issuer could tell
   */
  keyFor(header: JWSHeaderParameters, now: Date): Promise<CryptoKey | undefined>;
}

/** The issuer does not answer, and what is known of its keys is not enough: the token may be good. */
export class IssuerUnavailable extends Error {}

type KeySet = ReturnType<typeof createLocalJWKSet>;

/** Milliseconds that keys are used without asking for newer ones. */
const freshFor = 10 * 60_000;
/** Milliseconds between two fetches that unknown key ids cause: whoever makes such ids up must not make us call the issuer. */
const betweenSearches = 60_000;
/** Milliseconds after a fetch that failed. */
const betweenRetries = 1000;
/** Milliseconds that a fetch may take; less than a request has in all. */
const fetchTimeout = 1000;
/** Bytes of a key set, at most. */
const largestKeySet = 256 * 1024;

/** The keys of this server, which need no call. */
export function ownKeys(jwks: JSONWebKeySet): TokenKeys {
  const keys = createLocalJWKSet(jwks);
  return { keyFor: (header) => pick(keys, header) };
}

/** The keys of another issuer. Fetches that are needed at the same time are one. */
export class IssuerKeys implements TokenKeys {
  readonly #uri: string;
  readonly #log: Log;
  #keys: KeySet | undefined;
  #loadedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;
  #searchedAt = Number.NEGATIVE_INFINITY;
  #loading: Promise<void> | undefined;
  #isDown = false;

  constructor(uri: string, log: Log) {
    this.#uri = uri;
    this.#log = log;
  }

  async keyFor(header: JWSHeaderParameters, now: Date): Promise<CryptoKey | undefined> {
    const time = now.getTime();
    if (time - this.#loadedAt >= freshFor) {
      const loading = this.#loading ?? (time - this.#triedAt >= betweenRetries ? this.#load(time) : undefined);
      // During an outage the keys that are known go on working, and nobody waits.
      if (!this.#isDown || !this.#keys) await loading;
    }
    const known = this.#keys && (await pick(this.#keys, header));
    if (known) return known;
    if (this.#loading) await this.#loading;
    else if (this.#keys && this.#loadedAt < time && time - this.#searchedAt >= betweenSearches) {
      this.#searchedAt = time;
      await this.#load(time);
    }
    const found = this.#keys && (await pick(this.#keys, header));
    if (!found && (this.#isDown || !this.#keys)) throw new IssuerUnavailable();
    return found;
  }

  /** Never fails: what is known stays when nothing newer can be had. */
  #load(time: number): Promise<void> {
    this.#triedAt = time;
    this.#loading = fetchKeys(this.#uri)
      .then(
        (keys) => {
          if (this.#isDown) this.#log.info({ uri: this.#uri }, 'OAuth issuer keys are available again');
          this.#isDown = false;
          this.#keys = keys;
          this.#loadedAt = time;
        },
        (error: Error) => {
          const { message, cause } = error;
          const reason = cause instanceof Error ? cause.message : message;
          if (!this.#isDown) this.#log.warn({ uri: this.#uri, reason }, 'failed to fetch OAuth issuer keys');
          this.#isDown = true;
        },
      )
      .finally(() => {
        this.#loading = undefined;
      });
    return this.#loading;
  }
}

/** The one key that fits; a token that names none is good only where there is no choice. */
async function pick(keys: KeySet, header: JWSHeaderParameters): Promise<CryptoKey | undefined> {
  try {
    return await keys(header);
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return undefined;
    throw error;
  }
}

async function fetchKeys(uri: string): Promise<KeySet> {
  const overdue = new AbortController();
  const cancel = startResponsiveTimeout(
    () => overdue.abort(new Error('timed out waiting for a response')),
    fetchTimeout,
  );
  try {
    const response = await fetch(uri, {
      headers: { accept: 'application/jwk-set+json, application/json' },
      redirect: 'error',
      signal: overdue.signal,
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`the response status was ${response.status}`);
    }
    return createLocalJWKSet(JSON.parse(await textOf(response)));
  } finally {
    cancel();
  }
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > largestKeySet) throw new Error(`the response exceeds ${largestKeySet} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
