// The portal: the page on which a person changes the stored card.
import { insertPortalSession } from '../../db/billing/portal-sessions.ts';
import { newSessionId } from '../../runtime/credentials/secrets.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readSubscription } from '../../services/billing/subscription.ts';

/** Milliseconds for which the page can be opened and used. */
const openFor = 5 * 60_000;

export const createPortalSession: Handler<'createPortalSession'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const { payments } = call.services;
  let { paymentMethod } = await readSubscription(call);
  if (paymentMethod === null && payments.keepsBooks(scope)) {
    await call.db.commitThenRun(() => payments.refresh(scope));
    ({ paymentMethod } = await readSubscription(call));
  }
  if (paymentMethod === null)
    throw new ApiError('NO_BILLING_CUSTOMER', 'This workspace has no billing customer yet. Start a checkout first.');
  const id = newSessionId('ps');
  const expiresAt = new Date(now.getTime() + openFor);
  const returnUrl = body?.return_url ?? null;
  await insertPortalSession(call.db.sql, scope, { id, returnUrl, createdAt: now, expiresAt });
  const url = await call.db.commitThenRun(() => payments.openPortal({ ...scope, id, returnUrl }));
  // The id grants access to the page, so it does not go into the audit log.
  call.db.record({ action: 'portal.open', object: 'portal_sessions' });
  return { status: 200, data: { url, expires_at: expiresAt.toISOString() } };
};
