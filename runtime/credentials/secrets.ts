// Keys derived from the server's one secret, and the random secrets that callers receive.
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

/** Derives keys for separate purposes from one secret, so that none of them tells anything of another. */
export class Secrets {
  readonly #master: Buffer;
  readonly #encryption: Buffer;

  /** @param secretKey 64 hexadecimal characters */
  constructor(secretKey: string) {
    this.#master = Buffer.from(secretKey, 'hex');
    this.#encryption = this.derive('encryption at rest');
  }

  /** 32 bytes for one purpose. */
  derive(purpose: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#master, '', purpose, 32));
  }

  /** The same as a key to sign with. */
  deriveKey(purpose: string): KeyObject {
    return createSecretKey(this.derive(purpose));
  }

  /** Encrypts a text that must be readable again, with AES-256-GCM. */
  encrypt(text: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.#encryption, nonce, { authTagLength: 16 });
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64');
  }

  /** @throws Error when the text was encrypted under another secret */
  decrypt(sealed: string): string {
    const bytes = Buffer.from(sealed, 'base64');
    const decipher = createDecipheriv('aes-256-gcm', this.#encryption, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAuthTag(bytes.subarray(12, 28));
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8');
  }
}

/**
 * A keyed digest that only this server can make.
 * @param key of deriveKey: of plain bytes one is made for each digest, at five times the cost
 */
export function sign(key: KeyObject, text: string): string {
  return createHmac('sha256', key).update(text).digest().subarray(0, 16).toString('base64url');
}

/** Compares without telling by its duration where two texts differ. */
export function sameText(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}

/** SHA-256, as keys and tokens are stored. */
export function sha256(text: string | Buffer): Buffer {
  // In one call and through text: several times as fast as a Hash object, or a digest in a buffer of its own.
  return Buffer.from(hash('sha256', text, 'hex'), 'hex');
}

const keyPattern = /^(svc|legacy)_(live|test)_[0-9a-f]{32}$/;

/** True when a text can be an API key at all; nothing is looked up for others. */
export function isKeyShaped(text: string): boolean {
  return keyPattern.test(text);
}

/** True for what calls itself a key of the test mode, whether it is one or not. */
export function isTestKey(text: unknown): boolean {
  return typeof text === 'string' && /^(svc|legacy)_test_/.test(text);
}

/** A new API key of the current kind. */
export function newApiKey(environment: 'live' | 'test'): { key: string; prefix: string; last4: string; hash: Buffer } {
  const prefix = `svc_${environment}_`;
  const key = prefix + randomBytes(16).toString('hex');
  return { key, prefix, last4: key.slice(-4), hash: sha256(key) };
}

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The id of a page that whoever knows it may use: a prefix, and 24 letters and digits that nobody can guess. */
export function newSessionId(prefix: string): string {
  return `${prefix}_${Array.from({ length: 24 }, () => letters[randomInt(letters.length)]).join('')}`;
}

/** A new refresh token: the id of the company, so that it is known where to look for it, and 32 random bytes. */
export function newRefreshToken(companyId: string): { token: string; hash: Buffer } {
  const company = Buffer.from(companyId.replaceAll('-', ''), 'hex');
  const token = Buffer.concat([company, randomBytes(32)]).toString('base64url');
  return { token, hash: sha256(token) };
}

/** The company that a refresh token names; undefined for what can be none. Whether it is a good one, its hash decides. */
export function companyOfRefreshToken(token: string): string | undefined {
  if (!/^[\w-]{64}$/.test(token)) return undefined;
  const digits = Buffer.from(token, 'base64url').toString('hex');
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5');
}
