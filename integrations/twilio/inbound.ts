// Receives texts, calls and faxes of a workspace's numbers from Twilio.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findActiveNumber } from '../../db/messaging/phone-numbers.ts';
import { readReport } from '../../domain/messaging/reports.ts';
import { readTwilioRequest, type TwilioReport } from '../../domain/messaging/twilio-reports.ts';
import { ApiError, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { PageRequest, PageRoute } from '../../runtime/http/page-routes.ts';
import { noteReport, receiveReport } from '../../services/messaging/received-reports.ts';

export interface TwilioParts {
  /** The auth token of the connected Twilio account, which signs the requests. */
  authToken: string;
  baseUrl: () => string;
  tenants: Pool;
  /** Called when events were committed. */
  onEvents: () => void;
}

/** The rate limit per IP address: enough for a busy hour of many workspaces. */
export const twilioPolicy = { twilio: [{ limit: 3000, window: 60_000 }] };

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;
const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** TwiML that does nothing. */
const emptyResponse = '<?xml version="1.0" encoding="UTF-8"?><Response/>';

/**
 * Computes a request's signature: base64 of the HMAC-SHA1 of the URL and all form fields, sorted by
 * name, each followed by its value.
 * @param url as configured at Twilio, including the query
 */
export function computeTwilioSignature(authToken: string, url: string, form: ReadonlyMap<string, string>): string {
  const fields = [...form].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => name + value);
  return createHmac('sha1', authToken)
    .update(url + fields.join(''))
    .digest('base64');
}

export function createTwilioInboundWebhook(parts: TwilioParts): PageRoute {
  return {
    name: 'twilio',
    path: /^\/v1\/inbound\/twilio$/,
    limit: 'twilio',
    // The signature covers the raw fields. Characters that cannot be stored are removed afterwards.
    unchecked: true,
    show: async (request) => {
      if (!request.form) throw notFound();
      const form = new Map(request.form);
      assertSigned(parts, request, form);
      const scope = readScope(request.address);
      const report = readTwilioRequest(form);
      if (report) await store(parts, scope, report, request.now);
      return { xml: emptyResponse };
    },
  };
}

/** @throws ApiError 401 if the signature is not from Twilio */
function assertSigned(
  { authToken, baseUrl }: TwilioParts,
  { headers, address }: PageRequest,
  form: ReadonlyMap<string, string>,
): void {
  const expected = Buffer.from(computeTwilioSignature(authToken, baseUrl() + address, form));
  const sent = Buffer.from(String(headers['x-twilio-signature'] ?? ''));
  if (sent.length === expected.length && timingSafeEqual(sent, expected)) return;
  throw new ApiError('AUTH_INVALID_KEY', 'The X-Twilio-Signature header does not match the form and the URL.', {
    reason: 'invalid_signature',
  });
}

/** @throws ApiError 404 if the query does not name a workspace and an environment */
function readScope(address: string): TenantScope {
  const query = new URLSearchParams(address.split('?')[1] ?? '');
  const [companyId, environment] = [query.get('company_id')?.toLowerCase() ?? '', query.get('environment') ?? 'live'];
  if (!uuid.test(companyId) || !['live', 'test'].includes(environment)) throw notFound();
  return { companyId, testMode: environment === 'test' };
}

/** @throws ApiError 404 if the number does not belong to the workspace */
async function store(
  { tenants, onEvents }: TwilioParts,
  scope: TenantScope,
  { body, ownNumber }: TwilioReport,
  now: Date,
): Promise<void> {
  // Twilio's numbers include the country code.
  const read = readReport(body, null, now);
  if ('problems' in read) throw validationFailed(read.problems, 400);
  await inTransaction(tenants, scope, timeoutMs, async (sql, emit, note) => {
    orNotFound(await findActiveNumber(sql, scope, ownNumber));
    const { changes } = await receiveReport(sql, scope, 'twilio', read.report, now);
    noteReport(scope, changes, now, emit, note);
  });
  onEvents();
}
