// The usage of the workspace within its limits.
import { findQuota } from '../../db/billing/quota.ts';
import { countCallsByDay, countCallsByKey, sumStoredBytes } from '../../db/billing/usage.ts';
import { readWalletBalance } from '../../db/billing/wallet.ts';
import { findSeats } from '../../db/people/users.ts';
import { callsPerMonth, computeSeatAllowance, extraCalls } from '../../domain/billing/plans.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readSubscription } from '../../services/billing/subscription.ts';

export const getUsage: Handler<'getUsage'> = async (call) => {
  const { caller, now } = call;
  const { query } = call.request;
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const subscription = await readSubscription(call);
  await call.services.flushUsage();
  const { sql } = call.db;
  const [counted, seats, balance, bytes] = await Promise.all([
    findQuota(sql, caller.companyId, { callsPerMonth, extraCalls }, now),
    findSeats(sql, caller.companyId),
    readWalletBalance(sql, scope),
    sumStoredBytes(sql, scope),
  ]);
  const quota = orNotFound(counted);
  // Calls in test mode are not counted.
  const used = caller.testMode ? 0 : quota.used;
  const { limit } = quota;
  const groups = query.group_by && (await listGroups(call, query.group_by, quota.monthStart));
  return {
    status: 200,
    data: {
      usage: {
        period: { start: quota.monthStart.toISOString(), end: quota.monthEnd.toISOString() },
        api_calls: { used, limit, remaining: limit === null ? null : Math.max(0, limit - used) },
        wallet: { balance_minor: balance, currency: subscription.currency, auto_top_up: false },
        consumables: { spend_minor: 0, currency: subscription.currency, items: [] },
        seats: { used: seats.used, allowance: computeSeatAllowance(subscription.packageCode, subscription.seats) },
        storage: { used_bytes: bytes, limit_bytes: null },
        test_mode: caller.testMode,
        ...(groups ? { groups } : {}),
      },
    },
  };
};

async function listGroups({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>, by: 'key' | 'day', monthStart: Date) {
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const since = monthStart.toISOString().slice(0, 10);
  if (by === 'day')
    return (await countCallsByDay(sql, scope, since)).map(({ day, calls }) => ({ key: day, name: null, calls }));
  return (await countCallsByKey(sql, scope, since)).map(({ keyId, name, calls }) => ({ key: keyId, name, calls }));
}
