// The subscription of the workspace: read and change.
import { findProviderBill } from '../../db/billing/provider-bills.ts';
import { findDuplicates } from '../../db/billing/provider-customers.ts';
import { findAgreedLimits } from '../../db/billing/subscriptions.ts';
import { findSeats } from '../../db/people/users.ts';
import type { ProviderBill } from '../../domain/billing/bills.ts';
import { toSubscriptionResponse } from '../../domain/billing/subscription-view.ts';
import { findWarnings } from '../../domain/billing/warnings.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readSubscription } from '../../services/billing/subscription.ts';
import {
  type ChangeResponse,
  changeSubscription,
  requireAddOn,
  requireModule,
} from '../../services/billing/subscription-change.ts';

export const getSubscription: Handler<'getSubscription'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const subscription = await readSubscription(call);
  const [{ used }, agreed, bill, duplicates] = await Promise.all([
    findSeats(sql, caller.companyId),
    findAgreedLimits(sql, { companyId: caller.companyId, testMode: caller.testMode }),
    readBill(call),
    caller.testMode ? [] : findDuplicates(sql, caller.companyId),
  ]);
  const shown = toSubscriptionResponse(subscription, agreed, used, caller.testMode, now, bill);
  return {
    status: 200,
    data: { subscription: { ...shown, duplicate_subscriptions: duplicates } },
  };
};

export const upgradeSubscription: Handler<'upgradeSubscription'> = async (call) => {
  const { package_code, billing_cycle = null, ...prorated } = call.request.body;
  const change = { action: 'upgrade' as const, package_code, billing_cycle, ...prorated };
  return toChangeResult(call, await changeSubscription(call, change));
};

export const downgradeSubscription: Handler<'downgradeSubscription'> = async (call) => {
  const { package_code } = call.request.body;
  return toChangeResult(call, await changeSubscription(call, { action: 'downgrade', package_code }));
};

export const updateSubscriptionSeats: Handler<'updateSubscriptionSeats'> = async (call) => {
  return toChangeResult(call, await changeSubscription(call, { action: 'set_seats', ...call.request.body }));
};

export const createSubscriptionModule: Handler<'createSubscriptionModule'> = async (call) => {
  const { body } = call.request;
  requireAddOn(body.module_key);
  return toChangeResult(call, await changeSubscription(call, { action: 'add_module', ...body }));
};

export const deleteSubscriptionModule: Handler<'deleteSubscriptionModule'> = async (call) => {
  const { module_key } = call.request.path;
  requireModule(module_key);
  return toChangeResult(call, await changeSubscription(call, { action: 'remove_module', module_key }));
};

export const cancelSubscription: Handler<'cancelSubscription'> = async (call) =>
  toChangeResult(call, await changeSubscription(call, { action: 'cancel' }));

export const reactivateSubscription: Handler<'reactivateSubscription'> = async (call) =>
  toChangeResult(call, await changeSubscription(call, { action: 'reactivate' }));

async function toChangeResult(call: Pick<Call, 'db' | 'caller' | 'now'>, change: ChangeResponse) {
  const [subscription, bill] = await Promise.all([readSubscription(call), readBill(call)]);
  return { status: 200 as const, data: { ...change, warnings: findWarnings(subscription, bill) } };
}

/** In test mode, the test provider bills, which does not manage subscriptions itself. */
async function readBill({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>): Promise<ProviderBill | undefined> {
  return caller.testMode ? undefined : findProviderBill(sql, caller.companyId);
}
