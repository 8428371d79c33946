// Signed tokens that contain their data, each for one purpose.
import type { KeyObject } from 'node:crypto';
import { isSameText, type Secrets, sign } from './secrets.ts';

export class SignedTokens {
  readonly #secrets: Secrets;
  readonly #keys = new Map<string, KeyObject>();

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  /** @param value a JSON value */
  write(purpose: string, value: unknown): string {
    const payload = Buffer.from(JSON.stringify(value)).toString('base64url');
    return `${payload}.${sign(this.#getKey(purpose), payload)}`;
  }

  /** @returns undefined if this server did not write the token for this purpose */
  read(purpose: string, token: string): unknown {
    const [payload = '', signature = '', ...rest] = token.split('.');
    if (rest.length > 0 || !isSameText(signature, sign(this.#getKey(purpose), payload))) return undefined;
    return JSON.parse(Buffer.from(payload, 'base64url').toString());
  }

  #getKey(purpose: string): KeyObject {
    const known = this.#keys.get(purpose);
    if (known) return known;
    const key = this.#secrets.deriveKey(purpose);
    this.#keys.set(purpose, key);
    return key;
  }
}
