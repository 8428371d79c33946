// The pages of the test payment provider: the checkout and the portal to change the card.
import { v7 as uuidv7 } from 'uuid';
import { type Brand, findBrand } from '../../db/access/logos.ts';
import { type CheckoutSession, findCheckout } from '../../db/billing/checkout-sessions.ts';
import { listInvoices } from '../../db/billing/invoices.ts';
import { findPortalSession } from '../../db/billing/portal-sessions.ts';
import { openSubscription, savePaymentMethod } from '../../db/billing/subscriptions.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { readTenantTime } from '../../db/client/test-clocks.ts';
import { type CardForm, readCard } from '../../domain/billing/cards.ts';
import { addOns, plans } from '../../domain/billing/catalogue.ts';
import { formatMoney } from '../../domain/billing/money.ts';
import { countExtraSeats } from '../../domain/billing/proration.ts';
import type { PaymentProvider } from '../../domain/billing/provider.ts';
import { buildShadowSubscription, type Change } from '../../domain/billing/subscription.ts';
import type { PageRequest, PageResponse, PageRoute } from '../../runtime/http/page-routes.ts';
import { type Html, html, page } from '../../runtime/pages/html.ts';
import {
  type OperationServices,
  type SubmittedOperation,
  submitOperation,
} from '../../services/billing/subscription-change.ts';
import { renderBrandedPage } from '../pages/brand.ts';

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;

export interface TestPageServices {
  /** A pool of its own, so that these pages do not compete with API requests. */
  tenants: Pool;
  provider: PaymentProvider;
}

const uuid = '[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}';
const pagePath = (name: string, modes: string, prefix: string): RegExp =>
  new RegExp(`^/${name}/(?<mode>${modes})/(?<company>${uuid})/(?<id>${prefix}_[0-9A-Za-z]{24})$`);

/**
 * @param modes the modes for which the test provider takes payments; other modes must not accept
 * test cards
 */
export function createTestPages(services: TestPageServices, modes: 'live|test' | 'test'): PageRoute[] {
  return [
    { name: 'checkout', path: pagePath('checkout', modes, 'cs'), show: (request) => showCheckout(services, request) },
    { name: 'portal', path: pagePath('portal', modes, 'ps'), show: (request) => showPortal(services, request) },
  ];
}

const readScope = ({ path }: PageRequest): TenantScope => ({
  companyId: path.company ?? '',
  testMode: path.mode === 'test',
});

const notFound: PageResponse = {
  status: 404,
  html: page(
    'Not found',
    html`<p>This page does not exist or has expired. Return to the page that you came from and try again.</p>`,
  ),
};

async function showCheckout(services: TestPageServices, request: PageRequest): Promise<PageResponse> {
  const { path, form, now } = request;
  const scope = readScope(request);
  const [session, brand] = await inTransaction(services.tenants, scope, timeoutMs, (sql) =>
    Promise.all([findCheckout(sql, scope, path.id ?? ''), findBrand(sql, scope.companyId)]),
  );
  if (!session) return notFound;
  if (session.completedAt) return completed(session, brand);
  if (session.expiresAt <= now)
    return renderBrandedPage(
      410,
      'This checkout has expired',
      html`<p>Nothing was charged. Start a new checkout.</p>`,
      brand,
    );
  if (!form) return checkoutForm(session, brand, 200, []);
  if (form.get('action') === 'cancel')
    return session.cancelUrl
      ? { redirect: session.cancelUrl }
      : renderBrandedPage(
          200,
          'Cancelled',
          html`<p role="status">Nothing was charged. You can close this page.</p>`,
          brand,
        );
  const { card, problems } = readCard(readCardForm(form), now);
  if (!card) return checkoutForm(session, brand, 400, problems);
  const { tenants, provider } = services;
  // Subscriptions of test mode live at the time of its clock. The page itself and the audit log are
  // on the real time.
  const at = await inTransaction(tenants, scope, timeoutMs, (sql) => readTenantTime(sql, scope));
  const transaction: OperationServices['transaction'] = (of, work) =>
    inTransaction(tenants, of, timeoutMs, (sql, emit, audit) =>
      work(sql, emit, (row) => audit({ ...row, occurredAt: now })),
    );
  const submitted = await submitOperation({ transaction, provider }, scope, uuidv7(), toChange(session, card), at);
  if (submitted.kind === 'done' || submitted.kind === 'closed')
    return session.successUrl ? { redirect: session.successUrl } : completed(session, brand);
  return checkoutForm(session, brand, submitted.kind === 'declined' ? 402 : 409, [whyNot(submitted)]);
}

const readCardForm = (form: URLSearchParams): CardForm => ({
  number: form.get('card_number') ?? '',
  expiry: form.get('expiry') ?? '',
  code: form.get('code') ?? '',
});

function toChange(session: CheckoutSession, card: Extract<Change, { action: 'top_up' }>['card']): Change {
  const paid = { card, checkout_session: session.id };
  if (session.kind === 'wallet_topup') return { action: 'top_up', amount_minor: session.amountMinor ?? 0, ...paid };
  const { packageCode, billingCycle, seats } = session;
  return {
    action: 'subscribe',
    package_code: packageCode ?? '',
    billing_cycle: billingCycle ?? 'monthly',
    seats,
    ...paid,
  };
}

function whyNot(submitted: SubmittedOperation): string {
  if (submitted.kind === 'declined') return 'The card was declined, and nothing was charged. Use another card.';
  if (submitted.kind === 'refused') return submitted.refusal.message;
  return 'Another payment is in progress. Wait a moment, then reload this page.';
}

function completed({ kind }: CheckoutSession, brand: Brand | undefined): PageResponse {
  const what = kind === 'subscribe' ? 'The subscription is active.' : 'The wallet has been topped up.';
  return renderBrandedPage(200, 'Paid', html`<p role="status">${what} You can close this page.</p>`, brand);
}

function renderSummary({ kind, packageCode, billingCycle, seats, amountMinor, currency }: CheckoutSession): Html {
  if (kind === 'wallet_topup')
    return html`<p>Top up the wallet by <strong>${formatMoney(amountMinor ?? 0, currency)}</strong>.</p>`;
  const plan = plans[packageCode ?? ''];
  const cycle = billingCycle ?? 'monthly';
  const extra = countExtraSeats({ packageCode: packageCode ?? '', seats });
  const seatPrice = (plan?.seatPrices?.[currency] ?? 0) * (cycle === 'yearly' ? 10 : 1);
  const total = (plan?.prices?.[cycle][currency] ?? 0) + extra * seatPrice;
  const seatsLine = extra > 0 ? html`, with ${extra} extra seats` : null;
  return html`<p>${plan?.name ?? ''}, ${cycle}${seatsLine}: <strong>${formatMoney(total, currency)}</strong> per ${cycle === 'yearly' ? 'year' : 'month'} until you cancel.</p>`;
}

function listOrigins(...urls: readonly (string | null)[]): string[] {
  return urls.flatMap((url) => (url === null ? [] : [new URL(url).origin]));
}

function alerts(problems: readonly string[]): Html | null {
  if (problems.length === 0) return null;
  return html`<div role="alert">${problems.map((problem) => html`<p>${problem}</p>`)}</div>`;
}

const cardFields = html`<label for="card_number">Card number</label>
<input id="card_number" name="card_number" inputmode="numeric" autocomplete="cc-number" required>
<label for="expiry">Expiry date (MM/YY)</label>
<input id="expiry" name="expiry" inputmode="numeric" autocomplete="cc-exp" placeholder="MM/YY" required>
<label for="code">Security code</label>
<input id="code" name="code" inputmode="numeric" autocomplete="cc-csc" required>
<p class="note">This is the test payment provider. No real card is charged. 4242 4242 4242 4242 is accepted, 4000 0000 0000 0002 is declined.</p>`;

function checkoutForm(
  session: CheckoutSession,
  brand: Brand | undefined,
  status: number,
  problems: readonly string[],
): PageResponse {
  const body = html`${alerts(problems)}
${renderSummary(session)}
<form method="post">
${cardFields}
<button name="action" value="pay">Pay</button>
<button class="quiet" name="action" value="cancel" formnovalidate>Cancel</button>
</form>`;
  return {
    ...renderBrandedPage(status, 'Checkout', body, brand),
    leadsTo: listOrigins(session.successUrl, session.cancelUrl),
  };
}

async function showPortal(services: TestPageServices, request: PageRequest): Promise<PageResponse> {
  const { path, form, now } = request;
  const scope = readScope(request);
  const { card, problems } = form ? readCard(readCardForm(form), now) : { card: undefined, problems: [] };
  const found = await inTransaction(services.tenants, scope, timeoutMs, async (sql) => {
    const session = await findPortalSession(sql, scope, path.id ?? '');
    if (!session || session.expiresAt <= now) return undefined;
    const at = await readTenantTime(sql, scope);
    const subscription = await openSubscription(sql, scope, (since) => buildShadowSubscription(since, at), at);
    if (card) await savePaymentMethod(sql, scope, card, at);
    return {
      session,
      subscription,
      invoices: await listInvoices(sql, scope, 24),
      brand: await findBrand(sql, scope.companyId),
    };
  });
  if (!found) return notFound;
  const { session, subscription, invoices, brand } = found;
  const method = card ?? subscription?.paymentMethod;
  const bought = (subscription?.addOns ?? []).map((key) => addOns[key]?.name ?? key);
  const body = html`${alerts(problems)}
${card ? html`<p role="status">The card was changed.</p>` : null}
<p>${plans[subscription?.packageCode ?? '']?.name ?? ''}${bought.length > 0 ? `, with ${bought.join(', ')}` : ''}.
${method ? `The card on file is ${method.brand}, ending in ${method.last4}.` : 'No card is on file.'}</p>
<form method="post">
<h2>Change card</h2>
${cardFields}
<button>Save</button>
</form>
<h2>Invoices</h2>
${invoices.length === 0 ? html`<p>No invoices yet.</p>` : null}
${
  invoices.length === 0
    ? null
    : html`<table><thead><tr><th scope="col">Number</th><th scope="col">Date</th><th scope="col">Amount</th><th scope="col">Status</th></tr></thead><tbody>
${invoices.map((each) => html`<tr><td>${each.number}</td><td>${each.issuedAt.toISOString().slice(0, 10)}</td><td>${formatMoney(each.totalMinor, each.currency)}</td><td>${each.status}</td></tr>`)}
</tbody></table>`
}
${session.returnUrl ? html`<p><a href="${session.returnUrl}">Back</a></p>` : null}`;
  return renderBrandedPage(problems.length > 0 ? 400 : 200, 'Billing', body, brand);
}
