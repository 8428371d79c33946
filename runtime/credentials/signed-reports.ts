// Authenticates gateways, which sign their reports with the secret of a workspace.
import { ApiError } from '../errors.ts';
import { type SentCredential, toNetwork } from '../limits/rate-limits.ts';
import { type Authenticated, buildAnonymousCaller, type RequestFacts } from './authentication.ts';
import type { CredentialStore } from './credential-store.ts';
import type { Secrets } from './secrets.ts';
import { judgeSignature } from './service-signature.ts';

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

export interface SignedReport {
  /** The header Service-Signature. */
  signature: string;
  body: Buffer;
  /** Query of the URL: the company and the mode. */
  query: URLSearchParams;
}

const refusal = (message: string, reason: string): ApiError =>
  new ApiError(
    'AUTH_INVALID_KEY',
    message,
    { reason },
    { headers: { 'www-authenticate': 'Service-Signature error="invalid_token"' } },
  );

/** Returns the error for an unsigned request. */
export function unsigned(): ApiError {
  const message =
    'Sign the body with the secret of the workspace, and send the signature in the Service-Signature header.';
  return new ApiError('MISSING_API_KEY', message, undefined, { headers: { 'www-authenticate': 'Service-Signature' } });
}

/**
 * Returns the identity under which failures of a gateway are counted: the workspace in the URL. Any
 * client can name a workspace, so valid reports exempt only their own address, and only from
 * failures of other credentials.
 */
export function describeReporter({ query }: Pick<SignedReport, 'query'>, ip: string): SentCredential {
  const companyId = query.get('company_id')?.toLowerCase() ?? '';
  const mode = query.get('environment') === 'test' ? 'test' : 'live';
  const prefix = `signature:${uuid.test(companyId) ? companyId : 'none'}:${mode}`;
  return { prefix, identity: `${prefix}:${toNetwork(ip)}`, isSecret: false };
}

/**
 * Authenticates a gateway's report and returns its workspace.
 * @throws ApiError 401, the same for an unknown workspace, one without a secret and a wrong
 * signature
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
      ...buildAnonymousCaller(facts),
      kind: 'gateway',
      companyId,
      companyName: endpoint.companyName,
      testMode,
      clockAheadSeconds: endpoint.clockAheadSeconds,
      actor: { kind: 'system', id: 'inbound', name: null },
    },
    configVersion: endpoint.configVersion,
    subscription: undefined,
    credential: undefined,
  };
}
