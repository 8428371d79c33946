// The subscription of the caller's mode, as operations that only show it read it.
import { findBeginning, findSubscription } from '../../db/billing/subscriptions.ts';
import { type Subscription, shadowSubscription } from '../../domain/billing/subscription.ts';
import { found } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** Test keys that changed nothing yet are shown what they begin with. */
export async function readSubscription({
  caller,
  now,
  db: { sql },
}: Pick<Call, 'db' | 'caller' | 'now'>): Promise<Subscription> {
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const subscription = await findSubscription(sql, scope);
  if (subscription || !caller.testMode) return found(subscription);
  return shadowSubscription(found(await findBeginning(sql, caller.companyId)), now);
}
