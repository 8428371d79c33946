// Stripe as the payment provider of live workspaces: pages to pay on, and operations carried out.
import type Stripe from 'stripe';
import { takeCheckoutLook } from '../../db/billing/checkout-sessions.ts';
import { findCustomer, findPayer, keepCustomer } from '../../db/billing/provider-customers.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { consequenceOf } from '../../domain/billing/changes.ts';
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
import { change } from './changes.ts';
import { type FollowParts, follow, planLook } from './follow.ts';
import { pricedItems } from './items.ts';
import { findProgress } from './progress.ts';
import { schedule } from './schedules.ts';
import { fetchSubscriptions, liveSubscription } from './state.ts';

export interface StripeParts extends FollowParts {
  /** Where people go who were not sent from anywhere. */
  dashboardUrl: string;
  /** Notes why Stripe could not be asked. */
  warn: (fields: object, text: string) => void;
}

/** Milliseconds after which a transaction is given up. */
const patience = 5000;

export function stripeProvider(parts: StripeParts): PaymentProvider {
  return {
    keepsBooks: () => true,
    refresh: ({ companyId }) => asked(parts, async () => void (await follow(parts, companyId, {}, new Date()))),
    refreshCheckout: ({ companyId, id }, now) => refreshCheckout(parts, companyId, id, now),
    settle: (operation) => asked(parts, () => settle(parts, operation)),
    openCheckout: (checkout) => asked(parts, () => openCheckout(parts, checkout)),
    openPortal: (portal) => asked(parts, () => openPortal(parts, portal)),
  };
}

/** @throws ApiError 503 where Stripe fails, whose own words are for the log alone */
async function asked<Result>({ warn }: StripeParts, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const { type, code, requestId, message } = error as Stripe.errors.StripeError;
    if (typeof type !== 'string' || !type.startsWith('Stripe')) throw error;
    warn({ err: { type, code, message }, stripe_request: requestId }, 'Stripe request failed');
    throw providerFailed();
  }
}

/** Milliseconds that somebody who polls a checkout waits for Stripe. */
const pollPatience = 3000;

async function refreshCheckout(parts: StripeParts, companyId: string, id: string, now: Date): Promise<void> {
  const scope = { companyId, testMode: false };
  if (!(await inTransaction(parts.tenants, scope, patience, (sql) => takeCheckoutLook(sql, scope, id, now)))) return;
  // The caller is answered even if the look fails, and polls again.
  const look = follow(parts, companyId, {}, now).catch((error: Error) =>
    parts.warn({ company: companyId, err: { message: error.message } }, 'failed to read a polled checkout'),
  );
  await new Promise<void>((resolve) => {
    const cancel = startResponsiveTimeout(resolve, pollPatience);
    void look.then(() => {
      cancel();
      resolve();
    });
  });
}

/** The customer that a company is at Stripe, made when it is first needed. */
async function customerOf({ stripe, tenants }: StripeParts, { companyId, id }: NewPage): Promise<string> {
  const scope = { companyId, testMode: false };
  const { customer, company } = await inTransaction(tenants, scope, patience, async (sql) => ({
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
  // Of two that were made at the same time the first is kept, and the other never used.
  return inTransaction(tenants, scope, patience, (sql) => keepCustomer(sql, companyId, made.id, new Date()));
}

async function openCheckout(parts: StripeParts, checkout: NewCheckout): Promise<string> {
  const { stripe, dashboardUrl } = parts;
  const { id, kind, currency, amountMinor, packageCode, billingCycle, seats } = checkout;
  const customer = await customerOf(parts, checkout);
  const scope = { companyId: checkout.companyId, testMode: false };
  await inTransaction(parts.tenants, scope, patience, (sql) => planLook(sql, checkout.companyId, new Date()));
  const metadata = { operation_id: id, ...(seats === null ? {} : { seats: String(seats) }) };
  const shared = {
    customer,
    client_reference_id: id,
    success_url: checkout.successUrl ?? dashboardUrl,
    cancel_url: checkout.cancelUrl ?? dashboardUrl,
    // Stripe takes no more than a day from when it is asked.
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
    return addressOf(session);
  }
  // What was paid a moment ago need not be known here yet.
  if (await findLive(stripe, customer))
    throw conflict('subscription_exists', 'This workspace already has a subscription. Change it instead.');
  for (const other of await openCheckouts(stripe, customer, id)) await close(stripe, other, id);
  const items = {
    packageCode: packageCode ?? '',
    billingCycle: billingCycle ?? 'monthly',
    currency,
    seats,
    addOns: [],
  };
  const priced = await pricedItems(stripe, items, [], id);
  const session = await stripe.checkout.sessions.create(
    {
      ...shared,
      mode: 'subscription',
      line_items: priced.map(({ price, quantity }) => ({ price, quantity })),
      subscription_data: { metadata },
    },
    { idempotencyKey },
  );
  // Of those that were opened at the same moment, each of which saw none before it, whoever looks last sees all.
  const others = await openCheckouts(stripe, customer, id);
  if (others.some((other) => isLater(other, session)) || (await findLive(stripe, customer))) {
    await close(stripe, session, id);
    throw conflict(
      'change_in_progress',
      'Another checkout of this workspace was started at the same time. Continue with that one, or try again.',
    );
  }
  for (const other of others) await close(stripe, other, id);
  return addressOf(session);
}

/** Those of a subscription, but one. */
async function openCheckouts(stripe: Stripe, customer: string, id: string): Promise<Stripe.Checkout.Session[]> {
  const { data } = await stripe.checkout.sessions.list({ customer, status: 'open', limit: 100 });
  return data.filter((session) => session.mode === 'subscription' && session.client_reference_id !== id);
}

/** Only the last checkout of a subscription can be paid, so that nobody subscribes twice. */
async function close(stripe: Stripe, session: Stripe.Checkout.Session, id: string): Promise<void> {
  await stripe.checkout.sessions.expire(session.id, {}, { idempotencyKey: `${id}:close:${session.id}` });
}

const isLater = (one: Stripe.Checkout.Session, other: Stripe.Checkout.Session): boolean =>
  one.created > other.created || (one.created === other.created && one.id > other.id);

function addressOf({ id, url }: { id: string; url: string | null }): string {
  if (!url) throw new Error(`the Stripe page ${id} has no URL`);
  return url;
}

/** What people can do on the page of Stripe, and nothing else: neither cancel, pause nor switch plans. */
const features: Stripe.BillingPortal.ConfigurationCreateParams.Features = {
  payment_method_update: { enabled: true },
  invoice_history: { enabled: true },
  customer_update: { enabled: false },
  subscription_cancel: { enabled: false },
  subscription_update: { enabled: false },
};
/** Raised with the features, so that another configuration is made. */
const configurationVersion = 'headless-crm-1';

async function openPortal(parts: StripeParts, portal: NewPortal): Promise<string> {
  const { stripe, dashboardUrl } = parts;
  const customer = await customerOf(parts, portal);
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
  const customer = await inTransaction(tenants, scope, patience, (sql) => findCustomer(sql, companyId));
  const live = customer === undefined ? undefined : await findLive(stripe, customer);
  if (customer !== undefined && live) return settleAt(parts, operation, customer, live);
  // Without a date for what comes next the subscription is Stripe's. There is none any more: it has ended there.
  if (customer === undefined || !isPaid(subscription) || subscription.dueAt !== null) return settleWithout(operation);
  // A cancellation of an earlier try has taken effect meanwhile.
  if (asked.action === 'cancel' && attempt > 1) return settledAs(parts, operation);
  return { isOutdated: true };
}

/** Nothing of it is at Stripe: a trial, or a subscription from before, which nobody can be charged for. */
function settleWithout({ change: asked, subscription, openMinor, askedAt }: BillingOperation): OperationResult {
  const { charge, paid, refused } = consequenceOf(asked, subscription, openMinor, askedAt);
  if (charge === 0) return { settlement: { ...paid, isPaid: true } };
  return refused ? { settlement: { ...refused, isPaid: false } } : { declined: { actionUrl: null } };
}

/** Changes the subscription at Stripe as far as an earlier try has not, and writes what there is then. */
async function settleAt(
  parts: StripeParts,
  operation: BillingOperation,
  customer: string,
  live: Stripe.Subscription,
): Promise<OperationResult> {
  const { stripe } = parts;
  const { id, subscription, openMinor, askedAt, attempt } = operation;
  const target = consequenceOf(operation.change, subscription, openMinor, askedAt).paid.after;
  const key = `${id}:${attempt}`;
  // What is put back is not the operation's doing: it keeps the mark of the operation before.
  const mark = live.metadata.operation_id ?? '';
  const progress = findProgress(operation, live, target);
  if (progress.kind === 'moved_on') {
    if (progress.restore) await schedule(stripe, live, progress.restore, key, mark);
    return { isOutdated: true };
  }
  if (progress.kind === 'applied') {
    if (progress.target) await schedule(stripe, live, progress.target, key, id);
    return settledAs(parts, operation);
  }
  const outcome = await change(stripe, live, operation, target, key);
  const changed = outcome.kind === 'same' ? live : await findLive(stripe, customer);
  // A change waits only if nothing is scheduled: a schedule would end it.
  if (changed && outcome.kind === 'declined') await schedule(stripe, changed, subscription, key, mark);
  else if (changed && outcome.kind !== 'waiting') await schedule(stripe, changed, target, key, id);
  const settled = await settledAs(parts, operation);
  if (outcome.kind === 'declined') return { declined: { actionUrl: null } };
  if (outcome.kind === 'waiting' && operation.change.action !== 'add_module')
    return { declined: { actionUrl: outcome.actionUrl } };
  return settled;
}

/** Writes what Stripe has now. */
async function settledAs(
  parts: StripeParts,
  { companyId, id, subscription }: BillingOperation,
): Promise<OperationResult> {
  const after = await follow(parts, companyId, { operationId: id }, new Date());
  return { settlement: { after: after ?? subscription, invoice: null, isPaid: true, isWritten: true } };
}

const findLive = async (stripe: Stripe, customer: string): Promise<Stripe.Subscription | undefined> =>
  liveSubscription(await fetchSubscriptions(stripe, customer));
