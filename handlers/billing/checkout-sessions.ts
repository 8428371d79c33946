// Checkouts: started by an administrator, paid on a page, and polled by clients.
import {
  type CheckoutSession,
  findCheckout,
  insertCheckout,
  saveCheckoutUrl,
} from '../../db/billing/checkout-sessions.ts';
import { findSubscription } from '../../db/billing/subscriptions.ts';
import { readWalletBalance } from '../../db/billing/wallet.ts';
import { findSeats } from '../../db/people/users.ts';
import { billingCurrency } from '../../domain/billing/catalogue.ts';
import { findRejection } from '../../domain/billing/changes.ts';
import { isPaid } from '../../domain/billing/subscription.ts';
import { toStatus } from '../../domain/billing/subscription-view.ts';
import type { components } from '../../generated/api.ts';
import { newSessionId } from '../../runtime/credentials/secrets.ts';
import { buildProblem, type FieldProblem, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readSubscription } from '../../services/billing/subscription.ts';
import { toRejectionError } from '../../services/billing/subscription-change.ts';

type Shown = components['schemas']['CheckoutSession'];

/** Milliseconds for which a checkout can be paid. */
const paymentWindow = 24 * 3_600_000;

/**
 * A placeholder in the return URL. It is replaced here and not by the provider, because no
 * operation of this API accepts the provider's id of the checkout.
 */
const sessionIdPlaceholder = '{CHECKOUT_SESSION_ID}';

const cardToCome = { brand: '', last4: '', exp_month: 1, exp_year: 2000 };

export const createCheckoutSession: Handler<'createCheckoutSession'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  const problems = findProblems(call);
  if (problems.length > 0) throw validationFailed(problems, 400);
  const { package_code: packageCode = null, seats = null, amount_minor: amountMinor = null } = body;
  const billingCycle = body.kind === 'subscribe' ? (body.billing_cycle ?? 'monthly') : null;
  const { payments } = call.services;
  if (body.kind === 'subscribe') {
    // Another checkout may have been paid just before.
    if (payments.keepsBooks(scope)) await call.db.commitThenRun(() => payments.refresh(scope));
    const subscription = await readSubscription(call);
    const { used } = await findSeats(call.db.sql, caller.companyId);
    const wanted = {
      action: 'subscribe' as const,
      package_code: packageCode ?? '',
      billing_cycle: billingCycle ?? 'monthly',
      seats,
      card: cardToCome,
      checkout_session: '',
    };
    const refusal = findRejection(wanted, subscription, used, now);
    if (refusal) throw toRejectionError(refusal);
  }
  const id = newSessionId('cs');
  const session = {
    id,
    kind: body.kind,
    packageCode,
    billingCycle,
    seats,
    amountMinor,
    currency: billingCurrency,
    successUrl: body.success_url?.replaceAll(sessionIdPlaceholder, id) ?? null,
    cancelUrl: body.cancel_url ?? null,
    completedAt: null,
    createdAt: now,
    expiresAt: new Date(now.getTime() + paymentWindow),
  };
  await insertCheckout(call.db.sql, scope, session);
  const url = await call.db.commitThenRun(() => payments.openCheckout({ ...scope, ...session }));
  await saveCheckoutUrl(call.db.sql, scope, id, url);
  call.db.record({
    action: 'checkout.start',
    object: 'checkout_sessions',
    recordId: id,
    metadata: { kind: body.kind, package_code: packageCode, billing_cycle: billingCycle, amount_minor: amountMinor },
  });
  return { status: 201, data: { checkout_session: toCheckoutSessionResponse({ ...session, url }, call) } };
};

function findProblems({ request: { body } }: Call<'createCheckoutSession'>): FieldProblem[] {
  const needed = body.kind === 'subscribe' ? 'package_code' : 'amount_minor';
  const others = body.kind === 'subscribe' ? ['amount_minor'] : ['package_code', 'billing_cycle', 'seats'];
  const sent = body as Record<string, unknown>;
  return [
    ...(sent[needed] === undefined
      ? [buildProblem(needed, 'REQUIRED', `${needed} is required if kind is ${body.kind}`)]
      : []),
    ...others
      .filter((name) => sent[name] !== undefined)
      .map((name) => buildProblem(name, 'CONFLICTING_FIELDS', `${name} is not allowed if kind is ${body.kind}`)),
  ];
}

export const getCheckoutSession: Handler<'getCheckoutSession'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { payments } = call.services;
  if (!/^cs_[0-9A-Za-z]{24}$/.test(path.id)) throw notFound();
  const scope = { companyId: caller.companyId, testMode: caller.testMode };
  let session = orNotFound(await findCheckout(call.db.sql, scope, path.id));
  if (session.completedAt === null && payments.keepsBooks(scope)) {
    await call.db.withoutConnection(payments.refreshCheckout({ ...scope, id: session.id }, now));
    session = orNotFound(await findCheckout(call.db.sql, scope, path.id));
  }
  const { sql } = call.db;
  const data = toCheckoutSessionResponse(session, call);
  if (session.kind === 'wallet_topup') {
    const balance = await readWalletBalance(sql, scope);
    return {
      status: 200,
      data: { checkout_session: { ...data, wallet: { credited: data.status === 'complete', balance_minor: balance } } },
    };
  }
  const subscription = await findSubscription(sql, scope);
  const isActive = subscription !== undefined && isPaid(subscription);
  const activation = {
    active: data.status === 'complete' && isActive,
    subscription_status: toStatus(subscription?.status ?? 'none'),
    active_package_code: isActive ? subscription.packageCode : null,
  };
  return { status: 200, data: { checkout_session: { ...data, activation } } };
};

function toCheckoutSessionResponse(session: CheckoutSession, { caller, now }: Pick<Call, 'caller' | 'now'>): Shown {
  return {
    id: session.id,
    session_id: session.id,
    kind: session.kind,
    // Reported as expired even before a job records it.
    status: session.completedAt ? 'complete' : session.expiresAt <= now ? 'expired' : 'open',
    url: session.url,
    package_code: session.packageCode,
    billing_cycle: session.billingCycle,
    amount_minor: session.amountMinor,
    currency: session.currency,
    expires_at: session.expiresAt.toISOString(),
    created_at: session.createdAt.toISOString(),
    test_mode: caller.testMode,
  };
}
