// Reads the subscription of the caller's mode for operations that only show it.
import { findBeginning, findSubscription } from '../../db/billing/subscriptions.ts';
import { buildShadowSubscription, type Subscription } from '../../domain/billing/subscription.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Call, CallDatabase } from '../../runtime/handler.ts';

/** For test keys without changes yet, returns the initial test subscription. */
export async function readSubscription({
  caller,
  now,
  db: { sql },
}: Pick<Call, 'caller' | 'now'> & { db: Pick<CallDatabase, 'sql'> }): Promise<Subscription> {
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const subscription = await findSubscription(sql, scope);
  if (subscription || !caller.testMode) return orNotFound(subscription);
  return buildShadowSubscription(orNotFound(await findBeginning(sql, caller.companyId)), now);
}
