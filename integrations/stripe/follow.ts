// Follows a customer of Stripe: what is fetched in one look is written in one transaction.
import { isDeepStrictEqual } from 'node:util';
import type Stripe from 'stripe';
import { completeCheckout, findNewestOpenCheckout } from '../../db/billing/checkout-sessions.ts';
import { mirrorInvoice } from '../../db/billing/invoices.ts';
import { findPendingOperation } from '../../db/billing/operations.ts';
import { saveProviderBill } from '../../db/billing/provider-bills.ts';
import { askForLook, beginLook, endLook, type Look, saveDuplicates } from '../../db/billing/provider-customers.ts';
import { lockSubscription, saveSubscription } from '../../db/billing/subscriptions.ts';
import { addToWallet } from '../../db/billing/wallet.ts';
import { ownAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import { mailOfTurn } from '../../domain/billing/life-cycle.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import { mailAdmins } from '../../services/billing/subscription-mails.ts';
import { type Projection, projectionOf, type WalletPayment } from './projection.ts';
import { type CustomerState, fetchState } from './state.ts';
import { takeBackCredit } from './wallet.ts';

/** Milliseconds after which a transaction is given up. */
const patience = 5000;
/** Milliseconds after which a preview that failed is asked for again. */
const previewAgain = 300_000;

/** How long a checkout is young, and how often its customer is looked at then and later, in milliseconds. */
const checkoutLooks = { young: 1_800_000, whileYoung: 60_000, later: 600_000 };

export interface FollowParts {
  tenants: Pool;
  stripe: Stripe;
  /** Raises an alert for operators. */
  alert: (kind: string, message: string, details: Record<string, unknown>) => void;
}

export interface FollowOptions {
  /** The operation that the look is part of. A look without one writes nothing while an operation is being carried out. */
  operationId?: string;
  /** Looks only if the customer is due. */
  ifDue?: boolean;
}

/**
 * Fetches the customer of a company, and writes what there is.
 * @returns the subscription as it is now; undefined if there was nothing to look at, or an operation is being carried out
 * @throws Error if Stripe does not answer
 */
export async function follow(
  parts: FollowParts,
  companyId: string,
  { operationId, ifDue = false }: FollowOptions,
  now: Date,
): Promise<Subscription | undefined> {
  const { tenants, stripe } = parts;
  const scope = { companyId, testMode: false };
  const dueBy = ifDue ? now : null;
  const look = await inTransaction(tenants, scope, patience, (sql) => beginLook(sql, companyId, dueBy, now));
  if (!look) return undefined;
  const state = await fetchState(stripe, look.customerId);
  return inTransaction(tenants, scope, patience, async (sql, tell, note) => {
    const before = await lockSubscription(sql, scope);
    if (!before) return undefined;
    // The process that carries an operation out relies on the state at its creation, and asks Stripe itself.
    const pending = await findPendingOperation(sql, scope);
    if (pending && pending.id !== operationId) return undefined;
    const { after, isTurned, payments } = await writeLook(sql, parts, companyId, look, state, before, now);
    await takeBackCredit(sql, scope, after.currency, payments, now, tell, note);
    if (isTurned) {
      const changes = { status: { from: before.status, to: after.status } };
      note(ownAuditRow(scope, 'billing', 'subscription.turn', { object: 'subscription', changes }, now));
    }
    return after;
  });
}

/** Under the lock of the subscription. What a later look has written stays. */
async function writeLook(
  sql: Sql,
  { alert }: FollowParts,
  companyId: string,
  look: Look,
  state: CustomerState,
  before: Subscription,
  now: Date,
): Promise<{ after: Subscription; isTurned: boolean; payments: readonly WalletPayment[] }> {
  if (!(await endLook(sql, companyId, look, now))) return { after: before, isTurned: false, payments: [] };
  const projection = projectionOf(state, before);
  await write(sql, companyId, projection, before, now);
  if (state.preview.isTransient) await askForLook(sql, companyId, new Date(now.getTime() + previewAgain));
  await planLook(sql, companyId, now);
  const fresh = await saveDuplicates(sql, companyId, projection.duplicates);
  // Before the commit: an alert that is raised twice is better than none.
  if (fresh.length > 0)
    alert(
      'duplicate_subscription',
      'a customer has a second live subscription that is charged; cancel or refund it at the provider',
      { company: companyId, customer: look.customerId, subscriptions: fresh.map(({ provider_id }) => provider_id) },
    );
  const { after, payments } = projection;
  const mail = mailOfTurn(before.status, after.status);
  if (mail) await mailAdmins(sql, { companyId, testMode: false }, mail, after, now);
  return { after, isTurned: before.status !== after.status, payments };
}

async function write(
  sql: Sql,
  companyId: string,
  { after, invoices, payments, bill, completed }: Projection,
  before: Subscription,
  now: Date,
): Promise<void> {
  const scope = { companyId, testMode: false };
  // Sent together, in this order.
  await Promise.all([
    // Whatever is remembered of a subscription is made anew when it is written.
    isDeepStrictEqual(before, after) ? undefined : saveSubscription(sql, scope, after, now),
    ...invoices.map((invoice) => mirrorInvoice(sql, scope, invoice)),
    ...payments.map(({ id, amountMinor }) => addToWallet(sql, scope, id, amountMinor, now)),
    bill && saveProviderBill(sql, companyId, bill, now),
    ...completed.map((id) => completeCheckout(sql, scope, id, now)),
  ]);
}

/**
 * Has the customer looked at soon while a checkout may be paid: its event may be lost, and nobody need be waiting for it.
 */
export async function planLook(sql: Sql, companyId: string, now: Date): Promise<void> {
  const begun = await findNewestOpenCheckout(sql, { companyId, testMode: false }, now);
  if (!begun) return;
  const { young, whileYoung, later } = checkoutLooks;
  const wait = now.getTime() - begun.getTime() < young ? whileYoung : later;
  await askForLook(sql, companyId, new Date(now.getTime() + wait));
}
