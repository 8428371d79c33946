// Public keys to verify access tokens: our own, or fetched from another issuer.
import { type CryptoKey, createLocalJWKSet, errors, type JSONWebKeySet, type JWSHeaderParameters } from 'jose';
import { startResponsiveTimeout } from '../responsive-timeout.ts';
import type { Log } from '../telemetry/log.ts';

export interface TokenKeys {
  /**
   * Finds the key that a token names.
   * @returns undefined if the issuer has no such key
   * @throws IssuerUnavailable if the issuer cannot be reached and the key is not cached
   */
  keyFor(header: JWSHeaderParameters, now: Date): Promise<CryptoKey | undefined>;
}

/**
 * Thrown if the issuer is unreachable and its cached keys do not suffice. The token may be valid.
 */
export class IssuerUnavailable extends Error {}

type KeySet = ReturnType<typeof createLocalJWKSet>;

/** Milliseconds for which fetched keys are fresh. */
const freshMs = 10 * 60_000;
/**
 * Minimum milliseconds between fetches for unknown key ids, so that clients that invent ids cannot
 * make the server call the issuer.
 */
const searchIntervalMs = 60_000;
/** Minimum milliseconds between retries after a failed fetch. */
const retryIntervalMs = 1000;
/** Timeout of a fetch in milliseconds; shorter than that of a request. */
const fetchTimeoutMs = 1000;
/** Maximum bytes of a key set. */
const maxKeySetBytes = 256 * 1024;

/** Returns the keys of this server, which need no fetch. */
export function createOwnKeys(jwks: JSONWebKeySet): TokenKeys {
  const keys = createLocalJWKSet(jwks);
  return { keyFor: (header) => findKey(keys, header) };
}

/** The keys of another issuer. Concurrent fetches are combined into one. */
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
    if (time - this.#loadedAt >= freshMs) {
      const loading = this.#loading ?? (time - this.#triedAt >= retryIntervalMs ? this.#load(time) : undefined);
      // During an outage the cached keys stay in use, and no request waits.
      if (!this.#isDown || !this.#keys) await loading;
    }
    const known = this.#keys && (await findKey(this.#keys, header));
    if (known) return known;
    if (this.#loading) await this.#loading;
    else if (this.#keys && this.#loadedAt < time && time - this.#searchedAt >= searchIntervalMs) {
      this.#searchedAt = time;
      await this.#load(time);
    }
    const found = this.#keys && (await findKey(this.#keys, header));
    if (!found && (this.#isDown || !this.#keys)) throw new IssuerUnavailable();
    return found;
  }

  /** Never rejects. If the fetch fails, the cached keys stay in use. */
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

/** Returns the matching key. A token without a key id matches only if there is exactly one key. */
async function findKey(keys: KeySet, header: JWSHeaderParameters): Promise<CryptoKey | undefined> {
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
    fetchTimeoutMs,
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
    return createLocalJWKSet(JSON.parse(await readText(response)));
  } finally {
    cancel();
  }
}

async function readText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > maxKeySetBytes) throw new Error(`the response exceeds ${maxKeySetBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
