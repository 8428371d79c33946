// Gateways, which sign what they report under the secret that a workspace gave them.
import { ApiError } from '../errors.ts';
import { networkOf, type SentCredential } from '../limits/rate-limits.ts';
import { type Authenticated, anonymous, type RequestFacts } from './authentication.ts';
import type { CredentialStore } from './credential-store.ts';
import type { Secrets } from './secrets.ts';
import { judgeSignature } from './service-signature.ts';

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

export interface SignedReport {
  /** The header Service-Signature. */
  signature: string;
  body: Buffer;
  /** Of the address: whose secret it is, and of which mode. */
  query: URLSearchParams;
}

const refusal = (message: string, reason: string): ApiError =>
  new ApiError(
    'AUTH_INVALID_KEY',
    message,
    { reason },
    { headers: { 'www-authenticate': 'Service-Signature error="invalid_token"' } },
  );

/** The refusal of what was not signed at all. */
export function unsigned(): ApiError {
  const message =
    'Sign the body with the secret of the workspace, and send the signature in the Service-Signature header.';
  return new ApiError('MISSING_API_KEY', message, undefined, { headers: { 'www-authenticate': 'Service-Signature' } });
}

/**
 * How failures of a gateway are counted: by the workspace that it names. Anybody can name one, so that good reports speak for it
 * at their own address alone, and only against failures of others.
 */
export function describeReporter({ query }: Pick<SignedReport, 'query'>, ip: string): SentCredential {
  const companyId = query.get('company_id')?.toLowerCase() ?? '';
  const mode = query.get('environment') === 'test' ? 'test' : 'live';
  const prefix = `signature:${uuid.test(companyId) ? companyId : 'none'}:${mode}`;
  return { prefix, identity: `${prefix}:${networkOf(ip)}`, isSecret: false };
}

/**
 * Finds out for which workspace a gateway reports.
 * @throws ApiError 401, the same for a workspace that is not there, one without a secret and a signature that does not fit
 */
export async function authenticateReport(
  { signature, body, query }: SignedReport,
  facts: RequestFacts,
  { credentials, secrets }: { credentials: CredentialStore; secrets: Secrets },
  now: Date,
): Promise<Authenticated> {
  const companyId = query.get('company_id')?.toLowerCase() ?? '';
  const testMode = query.get('environment') === 'test';
  const endpoint = uuid.test(companyId) ? await credentials.findInboundEndpoint(companyId, testMode, now) : undefined;
  const good = (endpoint?.sealedSecrets ?? []).map((sealed) => secrets.decrypt(sealed));
  const verdict = judgeSignature(signature, body, good, now);
  if (!endpoint || verdict === 'wrong')
    throw refusal('The Service-Signature header does not match the body and the URL.', 'invalid_signature');
  if (verdict === 'old')
    throw refusal(
      't of the Service-Signature header differs from the clock of the server by more than five minutes.',
      'signature_expired',
    );
  return {
    caller: {
      ...anonymous(facts),
      kind: 'gateway',
      companyId,
      companyName: endpoint.companyName,
      testMode,
      actor: { kind: 'system', id: 'inbound', name: null },
    },
    configVersion: endpoint.configVersion,
    subscription: undefined,
    credential: undefined,
  };
}
