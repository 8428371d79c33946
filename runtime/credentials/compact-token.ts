// Strictly validates the encoding of signed tokens (JWS compact serialization).
// The JWT library accepts more than one encoding of a valid token.

/** Three non-empty base64url parts. The library would accept spaces, newlines and padding in them. */
const compactForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Returns true if a token has the canonical encoding of its bytes. */
export function isCompact(token: string, maxLength: number): boolean {
  return token.length <= maxLength && compactForm.test(token) && token.split('.').every(isCanonical);
}

/**
 * The last character of a part can carry spare bits, so that several texts decode to the same
 * bytes. Only one of them is accepted.
 */
function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part;
}

/**
 * Returns true for an id in its stored form. Other values must not reach the look-up, which many
 * requests share.
 */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && uuid.test(value);
}

/** Accepted clock skew of issuers, in seconds. */
export const clockSkew = 60;

/** Returns true if a token claims to be issued in the future, which makes it invalid. */
export function isFromFuture({ iat }: { iat?: number }, now: Date): boolean {
  return iat !== undefined && iat > now.getTime() / 1000 + clockSkew;
}

/**
 * Returns the claims of a token without verifying it, to choose the verifier. Empty if they cannot
 * be parsed.
 */
export function parseUnverifiedClaims(token: string): Record<string, unknown> {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    return typeof claims === 'object' && claims !== null ? (claims as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
