// Stripe as the payment provider of live workspaces: checkout pages and billing operations.
import type Stripe from 'stripe';
import { takeCheckoutLook } from '../../db/billing/checkout-sessions.ts';
import { findCustomer, findPayer, keepCustomer } from '../../db/billing/provider-customers.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { computeConsequence } from '../../domain/billing/changes.ts';
import type {
  BillingOperation,
  NewCheckout,
  NewPage,
  NewPortal,
  OperationResult,
  PaymentProvider,
} from '../../domain/billing/provider.ts';
import { isPaid } from '../../domain/billing/subscription.ts';
import { conflict, providerFailed } from '../../runtime/errors.ts';
import { startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';
import { applyChange } from './changes.ts';
import { type FollowParts, follow, planLook } from './follow.ts';
import { resolveItemPrices } from './items.ts';
import { previewChange } from './previews.ts';
import { findProgress } from './progress.ts';
import { writeSchedule } from './schedules.ts';
import { fetchSubscriptions, selectLiveSubscription } from './state.ts';
import { hasAutomaticTax, taxCollection } from './taxes.ts';

export interface StripeParts extends FollowParts {
  /** The redirect target of pages that were opened without one. */
  dashboardUrl: string;
  /** Logs why a Stripe request failed. */
  warn: (fields: object, text: string) => void;
}

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;

export function createStripeProvider(parts: StripeParts): PaymentProvider {
  return {
    keepsBooks: () => true,
    refresh: ({ companyId }) =>
      withStripeErrors(parts, async () => void (await follow(parts, companyId, {}, new Date()))),
    refreshCheckout: ({ companyId, id }, now) => refreshCheckout(parts, companyId, id, now),
    preview: (request) => withStripeErrors(parts, () => previewChange(parts, request)),
    settle: (operation) => withStripeErrors(parts, () => settle(parts, operation)),
    openCheckout: (checkout) => withStripeErrors(parts, () => openCheckout(parts, checkout)),
    openPortal: (portal) => withStripeErrors(parts, () => openPortal(parts, portal)),
  };
}

/** @throws ApiError 503 if Stripe fails; Stripe's own message is only logged */
async function withStripeErrors<Result>({ warn }: StripeParts, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const { type, code, requestId, message } = error as Stripe.errors.StripeError;
    if (typeof type !== 'string' || !type.startsWith('Stripe')) throw error;
    warn({ err: { type, code, message }, stripe_request: requestId }, 'Stripe request failed');
    throw providerFailed();
  }
}

/** Milliseconds that a client polling a checkout waits for Stripe. */
const pollTimeoutMs = 3000;

async function refreshCheckout(parts: StripeParts, companyId: string, id: string, now: Date): Promise<void> {
  const scope = { companyId, testMode: false };
  if (!(await inTransaction(parts.tenants, scope, timeoutMs, (sql) => takeCheckoutLook(sql, scope, id, now)))) return;
  // The caller gets a response even if the fetch fails, and polls again.
  const look = follow(parts, companyId, {}, now).catch((error: Error) =>
    parts.warn({ company: companyId, err: { message: error.message } }, 'failed to read a polled checkout'),
  );
  await new Promise<void>((resolve) => {
    const cancel = startResponsiveTimeout(resolve, pollTimeoutMs);
    void look.then(() => {
      cancel();
      resolve();
    });
  });
}

/** Returns the Stripe customer of a company, and creates it on first use. */
async function findOrCreateCustomer({ stripe, tenants }: StripeParts, { companyId, id }: NewPage): Promise<string> {
  const scope = { companyId, testMode: false };
  const { customer, company } = await inTransaction(tenants, scope, timeoutMs, async (sql) => ({
    customer: await findCustomer(sql, companyId),
    company: await findPayer(sql, companyId),
  }));
  if (customer !== undefined) return customer;
  const made = await stripe.customers.create(
    {
      ...(company ? { name: company.name, email: company.email } : {}),
      metadata: { company_id: companyId, operation_id: id },
    },
    { idempotencyKey: `${id}:customer` },
  );
  // If two were created at the same time, the first is kept and the other is never used.
  return inTransaction(tenants, scope, timeoutMs, (sql) => keepCustomer(sql, companyId, made.id, new Date()));
}

async function openCheckout(parts: StripeParts, checkout: NewCheckout): Promise<string> {
  const { stripe, dashboardUrl } = parts;
  const { id, kind, currency, amountMinor, packageCode, billingCycle, seats } = checkout;
  const customer = await findOrCreateCustomer(parts, checkout);
  const scope = { companyId: checkout.companyId, testMode: false };
  await inTransaction(parts.tenants, scope, timeoutMs, (sql) => planLook(sql, checkout.companyId, new Date()));
  const metadata = { operation_id: id, ...(seats === null ? {} : { seats: String(seats) }) };
  const shared = {
    customer,
    client_reference_id: id,
    success_url: checkout.successUrl ?? dashboardUrl,
    cancel_url: checkout.cancelUrl ?? dashboardUrl,
    // Stripe accepts at most one day from the time of the request.
    expires_at: Math.floor(checkout.expiresAt.getTime() / 1000) - 60,
    metadata,
  };
  const idempotencyKey = `${id}:checkout`;
  if (kind === 'wallet_topup') {
    const product_data = { name: 'Wallet top-up' };
    const price_data = { currency: currency.toLowerCase(), unit_amount: amountMinor ?? 0, product_data };
    const topUp = { kind: 'wallet_topup', operation_id: id };
    const session = await stripe.checkout.sessions.create(
      {
        ...shared,
        mode: 'payment',
        line_items: [{ price_data, quantity: 1 }],
        payment_intent_data: { metadata: topUp },
        invoice_creation: { enabled: true, invoice_data: { metadata: topUp } },
      },
      { idempotencyKey },
    );
    return requireUrl(session);
  }
  // A subscription that was just paid may not be stored yet.
  if (await findLive(stripe, customer))
    throw conflict('subscription_exists', 'This workspace already has a subscription. Change it instead.');
  for (const other of await openCheckouts(stripe, customer, id)) await closeCheckout(stripe, other, id);
  const items = {
    packageCode: packageCode ?? '',
    billingCycle: billingCycle ?? 'monthly',
    currency,
    seats,
    addOns: [],
  };
  const priced = await resolveItemPrices(stripe, items, [], id);
  const session = await stripe.checkout.sessions.create(
    {
      ...shared,
      ...((await hasAutomaticTax(stripe)) ? taxCollection : {}),
      mode: 'subscription',
      line_items: priced.map(({ price, quantity }) => ({ price, quantity })),
      subscription_data: { metadata },
    },
    { idempotencyKey },
  );
  // Concurrent checkouts may not see each other at creation. The one that lists last sees all of
  // them.
  const others = await openCheckouts(stripe, customer, id);
  if (others.some((other) => isLater(other, session)) || (await findLive(stripe, customer))) {
    await closeCheckout(stripe, session, id);
    throw conflict(
      'change_in_progress',
      'Another checkout of this workspace was started at the same time. Continue with that one, or try again.',
    );
  }
  for (const other of others) await closeCheckout(stripe, other, id);
  return requireUrl(session);
}

/** Lists open subscription checkouts except the given one. */
async function openCheckouts(stripe: Stripe, customer: string, id: string): Promise<Stripe.Checkout.Session[]> {
  const { data } = await stripe.checkout.sessions.list({ customer, status: 'open', limit: 100 });
  return data.filter((session) => session.mode === 'subscription' && session.client_reference_id !== id);
}

/** Only the newest subscription checkout can be paid, so a workspace cannot subscribe twice. */
async function closeCheckout(stripe: Stripe, session: Stripe.Checkout.Session, id: string): Promise<void> {
  await stripe.checkout.sessions.expire(session.id, {}, { idempotencyKey: `${id}:close:${session.id}` });
}

const isLater = (one: Stripe.Checkout.Session, other: Stripe.Checkout.Session): boolean =>
  one.created > other.created || (one.created === other.created && one.id > other.id);

function requireUrl({ id, url }: { id: string; url: string | null }): string {
  if (!url) throw new Error(`the Stripe page ${id} has no URL`);
  return url;
}

/**
 * Features of the Stripe portal. People cannot cancel, pause or switch plans there. Taxes depend on
 * the address and the tax ids.
 */
const features: Stripe.BillingPortal.ConfigurationCreateParams.Features = {
  payment_method_update: { enabled: true },
  invoice_history: { enabled: true },
  customer_update: { enabled: true, allowed_updates: ['name', 'address', 'tax_id'] },
  subscription_cancel: { enabled: false },
  subscription_update: { enabled: false },
};
/** Increase it with every change of the features, so that a new configuration is created. */
const configurationVersion = 'headless-crm-2';

async function openPortal(parts: StripeParts, portal: NewPortal): Promise<string> {
  const { stripe, dashboardUrl } = parts;
  const customer = await findOrCreateCustomer(parts, portal);
  const known = await stripe.billingPortal.configurations.list({ active: true, limit: 100 });
  const configuration =
    known.data.find(({ metadata }) => metadata?.version === configurationVersion) ??
    (await stripe.billingPortal.configurations.create(
      { features, metadata: { version: configurationVersion } },
      { idempotencyKey: `${portal.id}:configuration` },
    ));
  const session = await stripe.billingPortal.sessions.create(
    { customer, configuration: configuration.id, return_url: portal.returnUrl ?? dashboardUrl },
    { idempotencyKey: `${portal.id}:portal` },
  );
  return session.url;
}

async function settle(parts: StripeParts, operation: BillingOperation): Promise<OperationResult> {
  const { stripe, tenants } = parts;
  const { companyId, subscription, attempt, change: asked } = operation;
  const scope = { companyId, testMode: false };
  const customer = await inTransaction(tenants, scope, timeoutMs, (sql) => findCustomer(sql, companyId));
  const live = customer === undefined ? undefined : await findLive(stripe, customer);
  if (customer !== undefined && live) return settleAtStripe(parts, operation, customer, live);
  // A subscription without a due date is managed by Stripe. There is none at Stripe, so it has
  // ended.
  if (customer === undefined || !isPaid(subscription) || subscription.dueAt !== null) return settleLocally(operation);
  // The cancellation of an earlier attempt has taken effect meanwhile.
  if (asked.action === 'cancel' && attempt > 1) return mirrorSettlement(parts, operation);
  return { isOutdated: true };
}

/**
 * Settles an operation without a Stripe subscription: a trial, or an older subscription that cannot
 * be charged.
 */
function settleLocally({ change: asked, subscription, openMinor, askedAt }: BillingOperation): OperationResult {
  const { charge, paid, refused } = computeConsequence(asked, subscription, openMinor, askedAt);
  if (charge === 0) return { settlement: { ...paid, isPaid: true } };
  return refused ? { settlement: { ...refused, isPaid: false } } : { declined: { actionUrl: null } };
}

/** Completes the change at Stripe from where an earlier attempt stopped, and stores the result. */
async function settleAtStripe(
  parts: StripeParts,
  operation: BillingOperation,
  customer: string,
  live: Stripe.Subscription,
): Promise<OperationResult> {
  const { stripe } = parts;
  const { id, subscription, openMinor, askedAt, attempt } = operation;
  const target = computeConsequence(operation.change, subscription, openMinor, askedAt).paid.after;
  const key = `${id}:${attempt}`;
  // Restoring the schedule is not part of the operation, so the mark of the previous operation
  // stays.
  const mark = live.metadata.operation_id ?? '';
  const progress = findProgress(operation, live, target);
  if (progress.kind === 'moved_on') {
    if (progress.restore) await writeSchedule(stripe, live, progress.restore, key, mark);
    return { isOutdated: true };
  }
  if (progress.kind === 'applied') {
    if (progress.target) await writeSchedule(stripe, live, progress.target, key, id);
    return mirrorSettlement(parts, operation);
  }
  const outcome = await applyChange(stripe, live, operation, target, key);
  const changed = outcome.kind === 'same' ? live : await findLive(stripe, customer);
  // A change can only wait if nothing is scheduled, because a schedule would end it.
  if (changed && outcome.kind === 'declined') await writeSchedule(stripe, changed, subscription, key, mark);
  else if (changed && outcome.kind !== 'waiting') await writeSchedule(stripe, changed, target, key, id);
  const settled = await mirrorSettlement(parts, operation);
  if (outcome.kind === 'declined') return { declined: { actionUrl: null } };
  if (outcome.kind === 'waiting' && operation.change.action !== 'add_module')
    return { declined: { actionUrl: outcome.actionUrl } };
  return settled;
}

/** Stores the current state at Stripe. */
async function mirrorSettlement(
  parts: StripeParts,
  { companyId, id, subscription }: BillingOperation,
): Promise<OperationResult> {
  const after = await follow(parts, companyId, { operationId: id }, new Date());
  return { settlement: { after: after ?? subscription, invoice: null, isPaid: true, isWritten: true } };
}

const findLive = async (stripe: Stripe, customer: string): Promise<Stripe.Subscription | undefined> =>
  selectLiveSubscription(await fetchSubscriptions(stripe, customer));
