// Previews a change of the caller's subscription. Writes nothing.
import { findPendingOperation } from '../../db/billing/operations.ts';
import { findSeats } from '../../db/people/users.ts';
import type { ChangePreview } from '../../domain/billing/previews.ts';
import type { PreviewedChange } from '../../domain/billing/subscription.ts';
import type { Call } from '../../runtime/handler.ts';
import { readSubscription } from './subscription.ts';
import { changeInProgress, toRejectionError } from './subscription-change.ts';

/** @throws ApiError as the change would, except for a declined card */
export async function previewChange(
  call: Pick<Call, 'db' | 'caller' | 'now' | 'services'>,
  change: PreviewedChange,
): Promise<ChangePreview> {
  const { caller, now, db } = call;
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const [subscription, pending, { used }] = await Promise.all([
    readSubscription(call),
    findPendingOperation(db.sql, scope),
    findSeats(db.sql, caller.companyId),
  ]);
  // A checkout only closes the checkouts before it.
  if (pending && change.action !== 'subscribe') throw changeInProgress();
  const { payments } = call.services;
  const request = { ...scope, change, subscription, usedSeats: used, now };
  const { preview, rejection } = await db.withoutConnection(payments.preview(request));
  if (rejection) throw toRejectionError(rejection);
  return preview;
}
