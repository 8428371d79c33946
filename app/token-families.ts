// Ends a token family: all tokens of one consent.
import { endFamily } from '../db/access/oauth-grants.ts';
import type { Audience } from '../domain/access/oauth-groups.ts';
import type { CredentialStore } from '../runtime/credentials/credential-store.ts';
import type { People } from '../runtime/credentials/people.ts';
import { newRequestId } from '../runtime/http/request-ids.ts';

/**
 * Milliseconds for which ended families are stored: longer than the lifetime of an access token
 * plus clock skew.
 */
const keptForMs = 2 * 3_600_000;

interface EndedFamily {
  userId: string;
  clientId: string;
  audience: Audience;
  grantId: string;
  /** The family's id. */
  id: string;
}

/**
 * Ends a token family. Does nothing if the grant is revoked or the user inactive, since their
 * tokens are already invalid.
 */
export async function endTokenFamily(
  { credentials, people }: { credentials: CredentialStore; people: People },
  { userId, clientId, audience, grantId, id: family }: EndedFamily,
  now: Date,
): Promise<void> {
  const found = await credentials.findGrant(userId, clientId, audience);
  if (found?.grant?.id !== grantId || found.grant.revoked) return;
  const facts = { requestId: newRequestId(), ip: '', userAgent: null };
  await people.actForNobody(facts, found.companyId, now, async ({ db: { sql, record } }) => {
    const since = new Date(now.getTime() - keptForMs);
    if (!(await endFamily(sql, found.companyId, { id: grantId, family }, { now, since }))) return;
    record({
      action: 'oauth_grant.end_tokens',
      object: 'oauth_grants',
      recordId: grantId,
      companyId: found.companyId,
      actor: { kind: 'oauth_client', id: `oauth_${clientId}`, name: found.grant?.clientName ?? null },
      metadata: { client_id: clientId, family },
    });
  });
}
