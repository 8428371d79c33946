// OAuth access tokens of the one issuer that is trusted: for whom they stand, through which app.
// What they may do is decided elsewhere.
import { type JWTHeaderParameters, type JWTPayload, jwtVerify } from 'jose';
import { clockSkew, isCompact, isFromFuture, isId, unverifiedClaims } from './compact-token.ts';
import { IssuerUnavailable, type TokenKeys } from './issuer-keys.ts';
import { sessionAudience } from './session-tokens.ts';

export type BearerVerdict =
  | {
      kind: 'valid';
      userId: string;
      clientId: string;
      grantId: string | undefined;
      familyId: string | undefined;
      scopes: string[];
      expiresAt: Date;
    }
  | { kind: 'expired' }
  | { kind: 'invalid' }
  /** The issuer does not answer, and the token may be good. */
  | { kind: 'unavailable' };

/** The claim of our own tokens that says which consent they came of. */
export const grantClaim = 'grant_id';
/** The claim that says which of the consents to that grant: what came of one ends together. */
export const familyClaim = 'family_id';

/** Characters of a token; other issuers put more into theirs than we do. */
const longest = 8192;
/** What RFC 6749 allows in a client id; anything else must not reach the look-up that many requests share. */
const clientIdForm = /^[\x20-\x7e]{1,255}$/;

export interface IssuerSettings {
  issuer: string;
  /** undefined: whom a token is meant for is not asked. */
  audience: string | undefined;
  /** Of tokens for agents, which open that one address and nothing else. */
  agentAudience: string;
  keys: TokenKeys;
  /** True when this server is the issuer, which signs session tokens with the same keys. */
  isOwn: boolean;
}

/** Checks access tokens. */
export class BearerTokens {
  readonly #settings: IssuerSettings;

  constructor(settings: IssuerSettings) {
    this.#settings = settings;
  }

  /**
   * Checks spelling, issuer, signature, type, audience and times (60 s of clock skew).
   * @param own what the token must be meant for, at an address that has an audience of its own; unless given, what the settings say
   */
  async verify(token: string, now: Date, own?: string): Promise<BearerVerdict> {
    const { issuer, agentAudience, keys } = this.#settings;
    const audience = own ?? this.#settings.audience;
    // Looked at before the signature, so that tokens of others do not make us fetch keys.
    if (!isCompact(token, longest) || unverifiedClaims(token).iss !== issuer) return { kind: 'invalid' };
    try {
      const { payload, protectedHeader } = await jwtVerify(
        token,
        async (header) => {
          const key =
            header.kid === undefined || typeof header.kid === 'string' ? await keys.keyFor(header, now) : undefined;
          if (!key) throw new Error('there is no such key');
          return key;
        },
        {
          algorithms: ['ES256', 'RS256'],
          issuer,
          ...(audience === undefined ? {} : { audience }),
          clockTolerance: clockSkew,
          currentDate: now,
          requiredClaims: ['exp', 'sub'],
        },
      );
      if (isFromFuture(payload, now)) return { kind: 'invalid' };
      // An agent's token opens the address for agents alone.
      if (own === undefined && [payload.aud].flat().includes(agentAudience)) return { kind: 'invalid' };
      return this.#isAccessToken(protectedHeader, payload) ? read(payload, this.#settings.isOwn) : { kind: 'invalid' };
    } catch (error) {
      if (error instanceof IssuerUnavailable) return { kind: 'unavailable' };
      return { kind: (error as { code?: string }).code === 'ERR_JWT_EXPIRED' ? 'expired' : 'invalid' };
    }
  }

  /** Issuers sign other things with the same keys: sessions, ID tokens, logout tokens. */
  #isAccessToken({ typ }: JWTHeaderParameters, payload: JWTPayload): boolean {
    const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ;
    const audiences = [payload.aud].flat();
    if (this.#settings.isOwn)
      return type === 'at+jwt' && payload.session_id === undefined && !audiences.includes(sessionAudience);
    if (type === 'at+jwt') return true;
    // Not all issuers follow RFC 9068; an ID token is told by the app that it is meant for.
    return (type === undefined || type === 'jwt') && !audiences.includes(clientIdOf(payload) as string);
  }
}

function clientIdOf({ client_id, azp, sub }: JWTPayload): unknown {
  return client_id ?? azp ?? sub;
}

function read(payload: JWTPayload, isOwn: boolean): BearerVerdict {
  const clientId = clientIdOf(payload);
  const expiresAt = new Date((payload.exp ?? 0) * 1000);
  if (!isId(payload.sub) || typeof clientId !== 'string' || !clientIdForm.test(clientId)) return { kind: 'invalid' };
  if (Number.isNaN(expiresAt.getTime())) return { kind: 'invalid' };
  const scopes = typeof payload.scope === 'string' ? payload.scope.split(' ') : [];
  // What another issuer says by that name is its own.
  const grantId = isOwn ? (payload[grantClaim] as string | undefined) : undefined;
  const familyId = isOwn ? (payload[familyClaim] as string | undefined) : undefined;
  return { kind: 'valid', userId: payload.sub, clientId, grantId, familyId, scopes, expiresAt };
}

/** True for a token that says it is a session's; whether it is, its own check decides. */
export function claimsSession(token: string, sessionIssuer: string): boolean {
  const { iss, aud, session_id: sessionId, client_id: clientId } = unverifiedClaims(token);
  return iss === sessionIssuer && clientId === undefined && (sessionId !== undefined || aud === sessionAudience);
}
