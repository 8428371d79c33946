// Mirrors the state of a Stripe customer: one fetch, written in one transaction.
import { isDeepStrictEqual } from 'node:util';
import type Stripe from 'stripe';
import { completeCheckout, findNewestOpenCheckout } from '../../db/billing/checkout-sessions.ts';
import { mirrorInvoice } from '../../db/billing/invoices.ts';
import { findPendingOperation } from '../../db/billing/operations.ts';
import { saveProviderBill } from '../../db/billing/provider-bills.ts';
import {
  askForLook,
  beginProviderLookup,
  endLook,
  type ProviderLookup,
  saveDuplicates,
} from '../../db/billing/provider-customers.ts';
import { lockSubscription, saveSubscription } from '../../db/billing/subscriptions.ts';
import { addToWallet } from '../../db/billing/wallet.ts';
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import { selectMail } from '../../domain/billing/life-cycle.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import { mailAdmins } from '../../services/billing/subscription-mails.ts';
import { buildProjection, type Projection, type WalletPayment } from './projection.ts';
import { type CustomerState, fetchState } from './state.ts';
import { takeBackCredit } from './wallet.ts';

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;
/** Milliseconds after which a failed preview is fetched again. */
const previewRetryMs = 300_000;

/**
 * Polling of customers with an open checkout, in milliseconds: how long it counts as young, and the
 * intervals then and later.
 */
const checkoutPolling = { young: 1_800_000, whileYoung: 60_000, later: 600_000 };

export interface FollowParts {
  tenants: Pool;
  stripe: Stripe;
  /** Raises an alert for operators. */
  alert: (kind: string, message: string, details: Record<string, unknown>) => void;
}

export interface FollowOptions {
  /**
   * The billing operation that needs the fetch. Without it, nothing is written while an operation
   * is pending.
   */
  operationId?: string;
  /** Fetches only if the customer is due. */
  ifDue?: boolean;
}

/**
 * Fetches the customer of a company and stores the state.
 * @returns the current subscription; undefined if there was nothing to fetch, or an operation is
 * pending
 * @throws Error if Stripe does not respond
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
  const look = await inTransaction(tenants, scope, timeoutMs, (sql) => beginProviderLookup(sql, companyId, dueBy, now));
  if (!look) return undefined;
  const state = await fetchState(stripe, look.customerId);
  return inTransaction(tenants, scope, timeoutMs, async (sql, emit, note) => {
    const before = await lockSubscription(sql, scope);
    if (!before) return undefined;
    // The process that carries out an operation relies on the stored state from its creation, and
    // fetches the state itself.
    const pending = await findPendingOperation(sql, scope);
    if (pending && pending.id !== operationId) return undefined;
    const { after, isTurned, payments } = await writeLook(sql, parts, companyId, look, state, before, now);
    await takeBackCredit(sql, scope, after.currency, payments, now, emit, note);
    if (isTurned) {
      const changes = { status: { from: before.status, to: after.status } };
      note(buildSystemAuditRow(scope, 'billing', 'subscription.turn', { object: 'subscription', changes }, now));
    }
    return after;
  });
}

/** Runs under the lock of the subscription. A newer fetch is not overwritten. */
async function writeLook(
  sql: Sql,
  { alert }: FollowParts,
  companyId: string,
  look: ProviderLookup,
  state: CustomerState,
  before: Subscription,
  now: Date,
): Promise<{ after: Subscription; isTurned: boolean; payments: readonly WalletPayment[] }> {
  if (!(await endLook(sql, companyId, look, now))) return { after: before, isTurned: false, payments: [] };
  const projection = buildProjection(state, before);
  await write(sql, companyId, projection, before, now);
  if (state.preview.isTransient) await askForLook(sql, companyId, new Date(now.getTime() + previewRetryMs));
  await planLook(sql, companyId, now);
  const fresh = await saveDuplicates(sql, companyId, projection.duplicates);
  // Raised before the commit: a repeated alert is better than a lost one.
  if (fresh.length > 0)
    alert(
      'duplicate_subscription',
      'a customer has a second live subscription that is charged; cancel or refund it at the provider',
      { company: companyId, customer: look.customerId, subscriptions: fresh.map(({ provider_id }) => provider_id) },
    );
  const { after, payments } = projection;
  const mail = selectMail(before.status, after.status);
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
    // A write invalidates all caches of the subscription, so an unchanged one is not written.
    isDeepStrictEqual(before, after) ? undefined : saveSubscription(sql, scope, after, now),
    ...invoices.map((invoice) => mirrorInvoice(sql, scope, invoice)),
    ...payments.map(({ id, amountMinor }) => addToWallet(sql, scope, id, amountMinor, now)),
    bill && saveProviderBill(sql, companyId, bill, now),
    ...completed.map((id) => completeCheckout(sql, scope, id, now)),
  ]);
}

/**
 * Schedules the next fetch of a customer with an open checkout, because its event may get lost and
 * no client may be polling.
 */
export async function planLook(sql: Sql, companyId: string, now: Date): Promise<void> {
  const begun = await findNewestOpenCheckout(sql, { companyId, testMode: false }, now);
  if (!begun) return;
  const { young, whileYoung, later } = checkoutPolling;
  const wait = now.getTime() - begun.getTime() < young ? whileYoung : later;
  await askForLook(sql, companyId, new Date(now.getTime() + wait));
}
