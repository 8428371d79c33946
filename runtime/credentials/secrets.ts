// Derives keys from the server's secret, and generates the random secrets of callers.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
  randomInt,
  timingSafeEqual,
} from 'node:crypto';

/** Derives independent keys for separate purposes from one secret. */
export class Secrets {
  readonly #master: Buffer;
  readonly #encryption: Buffer;

  /** @param secretKey 64 hexadecimal characters */
  constructor(secretKey: string) {
    this.#master = Buffer.from(secretKey, 'hex');
    this.#encryption = this.derive('encryption at rest');
  }

  /** Returns 32 bytes for a purpose. */
  derive(purpose: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#master, '', purpose, 32));
  }

  /** Returns the derived bytes as a signing key. */
  deriveKey(purpose: string): KeyObject {
    return createSecretKey(this.derive(purpose));
  }

  /** Encrypts a text with AES-256-GCM. */
  encrypt(text: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.#encryption, nonce, { authTagLength: 16 });
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64');
  }

  /** @throws Error if the text was encrypted with another secret */
  decrypt(sealed: string): string {
    const bytes = Buffer.from(sealed, 'base64');
    const decipher = createDecipheriv('aes-256-gcm', this.#encryption, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAuthTag(bytes.subarray(12, 28));
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8');
  }
}

/**
 * Returns an HMAC of the text, truncated to 16 bytes.
 * @param key from deriveKey. With plain bytes, Node would create a key object for each digest, at
 * five times the cost
 */
export function sign(key: KeyObject, text: string): string {
  return createHmac('sha256', key).update(text).digest().subarray(0, 16).toString('base64url');
}

/** Compares two texts in constant time. */
export function isSameText(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Returns the SHA-256 under which keys and tokens are stored. */
export function sha256(text: string | Buffer): Buffer {
  // One call with a hex result is several times as fast as a Hash object or a result in a buffer.
  return Buffer.from(hash('sha256', text, 'hex'), 'hex');
}

const keyPattern = /^(svc|legacy)_(live|test)_[0-9a-f]{32}$/;

/** Returns true if a text has the form of an API key. Other texts are not looked up. */
export function isKeyShaped(text: string): boolean {
  return keyPattern.test(text);
}

/** Returns true for the prefix of a test key, valid or not. */
export function isTestKey(text: unknown): boolean {
  return typeof text === 'string' && /^(svc|legacy)_test_/.test(text);
}

/** Returns a new API key in the current format. */
export function newApiKey(environment: 'live' | 'test'): { key: string; prefix: string; last4: string; hash: Buffer } {
  const prefix = `svc_${environment}_`;
  const key = prefix + randomBytes(16).toString('hex');
  return { key, prefix, last4: key.slice(-4), hash: sha256(key) };
}

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Returns a new id that grants access to a page: a prefix and 24 random letters and digits. */
export function newSessionId(prefix: string): string {
  return `${prefix}_${Array.from({ length: 24 }, () => letters[randomInt(letters.length)]).join('')}`;
}

/**
 * Returns a new refresh token: the id of the company, which tells where to look it up, and 32
 * random bytes.
 */
export function newRefreshToken(companyId: string): { token: string; hash: Buffer } {
  const company = Buffer.from(companyId.replaceAll('-', ''), 'hex');
  const token = Buffer.concat([company, randomBytes(32)]).toString('base64url');
  return { token, hash: sha256(token) };
}

/**
 * Returns the company in a refresh token; undefined if the format is wrong. The token must still be
 * verified by its hash.
 */
export function readRefreshTokenCompany(token: string): string | undefined {
  if (!/^[\w-]{64}$/.test(token)) return undefined;
  const digits = Buffer.from(token, 'base64url').toString('hex');
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5');
}
