// Session tokens: short-lived ES256 JWTs for users, and the public keys to verify them.
import {
  type CryptoKey,
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  jwtVerify,
  SignJWT,
} from 'jose';
import { clockSkew, isCompact, isFromFuture, isId } from './compact-token.ts';

/** Lifetime of a session token in seconds. */
export const sessionTokenSeconds = 3600;

/** Audience of session tokens, which distinguishes them from access tokens of the same issuer. */
export const sessionAudience = 'authenticated';

/** The session that a token belongs to. */
export interface SessionSubject {
  companyId: string;
  userId: string;
  sessionId: string;
}

export type TokenVerdict =
  | ({ kind: 'valid'; expiresAt: Date } & SessionSubject)
  | { kind: 'expired' }
  | { kind: 'invalid' };

/** Issues session tokens with the first key, and verifies those of all configured keys. */
export class SessionTokens {
  readonly issuer: string;
  readonly #privateKey: CryptoKey;
  readonly #publicKeys: ReturnType<typeof createLocalJWKSet>;
  readonly #keyId: string;
  /** The public keys as JWKS. */
  readonly jwks: { keys: JWK[] };

  private constructor(issuer: string, privateKey: CryptoKey, keyId: string, publicJwks: JWK[]) {
    this.issuer = issuer;
    this.#privateKey = privateKey;
    this.#keyId = keyId;
    this.jwks = { keys: publicJwks };
    this.#publicKeys = createLocalJWKSet(this.jwks);
  }

  /** @param privateJwks from newSigningKey; the first one signs */
  static async fromKeys(issuer: string, privateJwks: readonly [JWK, ...JWK[]]): Promise<SessionTokens> {
    const publicJwks = privateJwks.map(({ d: _private, ...shown }) => ({ ...shown, alg: 'ES256', use: 'sig' }));
    const privateKey = (await importJWK(privateJwks[0], 'ES256')) as CryptoKey;
    return new SessionTokens(issuer, privateKey, privateJwks[0].kid ?? '', publicJwks);
  }

  /** @param now the time of issue */
  issue({ companyId, userId, sessionId }: SessionSubject, now: Date): Promise<string> {
    const seconds = Math.floor(now.getTime() / 1000);
    return new SignJWT({ company_id: companyId, session_id: sessionId, role: 'authenticated' })
      .setProtectedHeader({ alg: 'ES256', typ: 'JWT', kid: this.#keyId })
      .setIssuer(this.issuer)
      .setSubject(userId)
      .setAudience(sessionAudience)
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + sessionTokenSeconds)
      .sign(this.#privateKey);
  }

  /** Verifies encoding, signature, issuer, audience and times (60 s of clock skew). */
  async verify(token: string, now: Date): Promise<TokenVerdict> {
    if (!isCompact(token, 4096)) return { kind: 'invalid' };
    try {
      const { payload } = await jwtVerify(token, this.#publicKeys, {
        algorithms: ['ES256'],
        typ: 'JWT',
        issuer: this.issuer,
        audience: sessionAudience,
        clockTolerance: clockSkew,
        currentDate: now,
        requiredClaims: ['exp', 'sub', 'company_id', 'session_id'],
      });
      const { sub, company_id: companyId, session_id: sessionId, exp } = payload;
      if (!isId(sub) || !isId(companyId) || !isId(sessionId) || isFromFuture(payload, now)) return { kind: 'invalid' };
      return { kind: 'valid', companyId, userId: sub, sessionId, expiresAt: new Date((exp ?? 0) * 1000) };
    } catch (error) {
      return { kind: (error as { code?: string }).code === 'ERR_JWT_EXPIRED' ? 'expired' : 'invalid' };
    }
  }
}

/** Generates the signing key of a new installation. */
export async function newSigningKey(keyId: string): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: keyId };
}
