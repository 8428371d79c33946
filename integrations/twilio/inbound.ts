// Where Twilio tells of what came in: texts, calls and faxes of the numbers of a workspace.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findActiveNumber } from '../../db/messaging/phone-numbers.ts';
import { readReport } from '../../domain/messaging/reports.ts';
import { readTwilio, type TwilioReport } from '../../domain/messaging/twilio-reports.ts';
import { ApiError, found, notFound, validationFailed } from '../../runtime/errors.ts';
import type { Screen, ScreenRequest } from '../../runtime/http/page-routes.ts';
import { noteReport, receiveReport } from '../../services/messaging/received-reports.ts';

export interface TwilioParts {
  /** Of the account that this server is connected to; it signs what Twilio sends. */
  authToken: string;
  baseUrl: () => string;
  tenants: Pool;
  /** Runs when events were committed. */
  told: () => void;
}

/** The policy of the addresses that Twilio calls from, by its name: a busy hour of many workspaces, and no flood. */
export const twilioPolicy = { twilio: [{ limit: 3000, window: 60_000 }] };

/** Milliseconds after which a transaction is given up. */
const patience = 5000;
const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** For Twilio: do nothing. */
const nothingToDo = '<?xml version="1.0" encoding="UTF-8"?><Response/>';

/**
 * The signature of a request: HMAC-SHA1, in base64, of its address and of all fields of its form, sorted by name, each followed by its value.
 * @param url as it was given to Twilio, query included
 */
export function twilioSignature(authToken: string, url: string, form: ReadonlyMap<string, string>): string {
  const fields = [...form].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => name + value);
  return createHmac('sha1', authToken)
    .update(url + fields.join(''))
    .digest('base64');
}

export function twilioDoor(parts: TwilioParts): Screen {
  return {
    name: 'twilio',
    path: /^\/v1\/inbound\/twilio$/,
    limit: 'twilio',
    // The signature covers what was sent; what no field can hold is taken out afterwards.
    unchecked: true,
    show: async (request) => {
      if (!request.form) throw notFound();
      const form = new Map(request.form);
      refuseUnsigned(parts, request, form);
      const scope = scopeOf(request.address);
      const report = readTwilio(form);
      if (report) await store(parts, scope, report, request.now);
      return { xml: nothingToDo };
    },
  };
}

/** @throws ApiError 401 for what Twilio did not sign */
function refuseUnsigned(
  { authToken, baseUrl }: TwilioParts,
  { headers, address }: ScreenRequest,
  form: ReadonlyMap<string, string>,
): void {
  const expected = Buffer.from(twilioSignature(authToken, baseUrl() + address, form));
  const sent = Buffer.from(String(headers['x-twilio-signature'] ?? ''));
  if (sent.length === expected.length && timingSafeEqual(sent, expected)) return;
  throw new ApiError('AUTH_INVALID_KEY', 'The X-Twilio-Signature header does not match the form and the URL.', {
    reason: 'invalid_signature',
  });
}

/** @throws ApiError 404 for an address that is none of those that the settings show */
function scopeOf(address: string): TenantScope {
  const query = new URLSearchParams(address.split('?')[1] ?? '');
  const [companyId, environment] = [query.get('company_id')?.toLowerCase() ?? '', query.get('environment') ?? 'live'];
  if (!uuid.test(companyId) || !['live', 'test'].includes(environment)) throw notFound();
  return { companyId, testMode: environment === 'test' };
}

/** @throws ApiError 404 where the number is none of the workspace's */
async function store(
  { tenants, told }: TwilioParts,
  scope: TenantScope,
  { body, ownNumber }: TwilioReport,
  now: Date,
): Promise<void> {
  // Twilio's numbers have their country.
  const read = readReport(body, null, now);
  if ('problems' in read) throw validationFailed(read.problems, 400);
  await inTransaction(tenants, scope, patience, async (sql, tell, note) => {
    found(await findActiveNumber(sql, scope, ownNumber));
    const { changes } = await receiveReport(sql, scope, 'twilio', read.report, now);
    noteReport(scope, changes, now, tell, note);
  });
  told();
}
