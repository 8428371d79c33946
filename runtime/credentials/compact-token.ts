// The form of signed tokens (JWS compact serialisation), checked strictly.
// The JWT library accepts other spellings of a good token.

/** Three non-empty base64url parts. The library would accept spaces, newlines and padding in them. */
const compactForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** True for a token in the one spelling that its bytes have. */
export function isCompact(token: string, longest: number): boolean {
  return token.length <= longest && compactForm.test(token) && token.split('.').every(isCanonical);
}

/** A part whose last character carries spare bits decodes to the same bytes as another spelling: only one of them is good. */
function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part;
}

/** True for an id as it is stored. Ids are looked up as they are: one that is none must not reach the look-up that many requests share. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && uuid.test(value);
}

/** Seconds by which the clocks of issuers may differ from ours. */
export const clockSkew = 60;

/** True for a token that claims to be issued at a time that has not come: nothing that was signed can. */
export function isFromFuture({ iat }: { iat?: number }, now: Date): boolean {
  return iat !== undefined && iat > now.getTime() / 1000 + clockSkew;
}

/** What a token says, checked by nobody: for choosing who checks it. Empty for what cannot be read. */
export function unverifiedClaims(token: string): Record<string, unknown> {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    return typeof claims === 'object' && claims !== null ? (claims as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
