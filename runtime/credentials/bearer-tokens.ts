// Verifies OAuth access tokens of the trusted issuer: the user and the app.
// Authorization is decided elsewhere.
import { type JWTHeaderParameters, type JWTPayload, jwtVerify } from 'jose';
import { clockSkew, isCompact, isFromFuture, isId, parseUnverifiedClaims } from './compact-token.ts';
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
  /** The issuer is unreachable, so the token cannot be verified. */
  | { kind: 'unavailable' };

/** Claim of our own tokens: the grant that the token belongs to. */
export const grantClaim = 'grant_id';
/**
 * Claim of our own tokens: the consent within the grant. All tokens of one consent end together.
 */
export const familyClaim = 'family_id';

/** Maximum characters of a token. Other issuers create longer tokens than this server. */
const maxTokenLength = 8192;
/**
 * The syntax of client ids in RFC 6749. Other values must not reach the look-up, which many
 * requests share.
 */
const clientIdForm = /^[\x20-\x7e]{1,255}$/;

export interface IssuerSettings {
  issuer: string;
  /** undefined: the audience of a token is not checked. */
  audience: string | undefined;
  /** The audience of tokens for agents, which are valid at that URL only. */
  agentAudience: string;
  keys: TokenKeys;
  /** True if this server is the issuer. Then the same keys sign session tokens. */
  isOwn: boolean;
}

export class BearerTokens {
  readonly #settings: IssuerSettings;

  constructor(settings: IssuerSettings) {
    this.#settings = settings;
  }

  /**
   * Verifies encoding, issuer, signature, type, audience and times (60 s of clock skew).
   * @param own the audience that a route requires; by default that of the settings
   */
  async verify(token: string, now: Date, own?: string): Promise<BearerVerdict> {
    const { issuer, agentAudience, keys } = this.#settings;
    const audience = own ?? this.#settings.audience;
    // The issuer is checked before the signature, so that foreign tokens do not trigger a fetch of
    // keys.
    if (!isCompact(token, maxTokenLength) || parseUnverifiedClaims(token).iss !== issuer) return { kind: 'invalid' };
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
      // Tokens for agents are valid at the agents' URL only.
      if (own === undefined && [payload.aud].flat().includes(agentAudience)) return { kind: 'invalid' };
      return this.#isAccessToken(protectedHeader, payload)
        ? toVerdict(payload, this.#settings.isOwn)
        : { kind: 'invalid' };
    } catch (error) {
      if (error instanceof IssuerUnavailable) return { kind: 'unavailable' };
      return { kind: (error as { code?: string }).code === 'ERR_JWT_EXPIRED' ? 'expired' : 'invalid' };
    }
  }

  /**
   * Returns true for access tokens. Issuers sign session, ID and logout tokens with the same keys.
   */
  #isAccessToken({ typ }: JWTHeaderParameters, payload: JWTPayload): boolean {
    const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ;
    const audiences = [payload.aud].flat();
    if (this.#settings.isOwn)
      return type === 'at+jwt' && payload.session_id === undefined && !audiences.includes(sessionAudience);
    if (type === 'at+jwt') return true;
    // Not all issuers follow RFC 9068. An ID token has the app as its audience.
    return (type === undefined || type === 'jwt') && !audiences.includes(readClientId(payload) as string);
  }
}

function readClientId({ client_id, azp, sub }: JWTPayload): unknown {
  return client_id ?? azp ?? sub;
}

function toVerdict(payload: JWTPayload, isOwn: boolean): BearerVerdict {
  const clientId = readClientId(payload);
  const expiresAt = new Date((payload.exp ?? 0) * 1000);
  if (!isId(payload.sub) || typeof clientId !== 'string' || !clientIdForm.test(clientId)) return { kind: 'invalid' };
  if (Number.isNaN(expiresAt.getTime())) return { kind: 'invalid' };
  const scopes = typeof payload.scope === 'string' ? payload.scope.split(' ') : [];
  // Other issuers may use these claims with another meaning.
  const grantId = isOwn ? (payload[grantClaim] as string | undefined) : undefined;
  const familyId = isOwn ? (payload[familyClaim] as string | undefined) : undefined;
  return { kind: 'valid', userId: payload.sub, clientId, grantId, familyId, scopes, expiresAt };
}

/** Returns true for a token that claims to be a session token. It is verified later. */
export function looksLikeSessionToken(token: string, sessionIssuer: string): boolean {
  const { iss, aud, session_id: sessionId, client_id: clientId } = parseUnverifiedClaims(token);
  return iss === sessionIssuer && clientId === undefined && (sessionId !== undefined || aud === sessionAudience);
}
