// The plan: modules, usage, prices and changes. Card data goes only to the payment provider.
import { formatMoney } from '../../domain/billing/money.ts';
import type { ApiError } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, renderHost } from '../../runtime/pages/html.ts';
import { changing, doneMessage, factList, formatNumber, formatTime, table } from '../pages/components.ts';
import { errorSummary, field, form, parseNumber, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type Data, type PersonalRequest, type Show } from '../pages/requests.ts';

type Subscription = Data<'getSubscription'>['subscription'];
type Plan = Data<'listPlans'>['plans'][number];
type Module = Data<'listModules'>['modules'][number];

export const home = '/console/plan';
const cycles = { monthly: 'Monthly', yearly: 'Yearly' };
const doneMessages = {
  now: 'The subscription was changed.',
  later: 'The change is scheduled. It takes effect at the end of the period.',
  paid: 'Thank you. Your payment is confirmed by the payment provider within seconds, and this page then shows the change.',
  back: 'Nothing was charged.',
};

export const showPlan: Show = (parts, request) => planPage(parts, request, 200);

async function planPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const [{ subscription }, { plans }, { modules }, invoices, { usage }] = await Promise.all([
    ask(parts, request, 'getSubscription'),
    ask(parts, request, 'listPlans'),
    ask(parts, request, 'listModules'),
    ask(parts, request, 'listInvoices'),
    ask(parts, request, 'getUsage'),
  ]);
  const { caller } = request.person;
  const mayChange = caller.grants.allows('billing:configure');
  const isPaid = subscription.current_period !== null && subscription.status !== 'trialing';
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${planFacts(subscription)}
${isPaused(subscription) ? pausedNote : mayChange ? (isPaid ? changeForms(request, subscription, plans, typed) : checkoutForm(request, plans, typed)) : null}
<h2>Modules</h2>
${modulesTable(request, modules, mayChange && isPaid ? (subscription.plan?.package_code ?? '') : null)}
<h2>Usage</h2>
${usageFacts(usage)}
${mayChange ? topUpForm(request, typed) : null}
<h2>Invoices</h2>
${invoicesTable(invoices)}
${mayChange && subscription.payment_method !== null ? portalForm(request) : null}`;
  return consolePage(request, status, 'Plan', body);
}

/**
 * Returns true if the payment provider has paused the subscription. A second one cannot be started.
 */
const isPaused = ({ status, billing_status: billing }: Subscription): boolean =>
  status === 'past_due' && billing === 'NONE';

const pausedNote = html`<p role="status">The subscription is paused, and API keys do not work. Add a card, and ask support to resume the subscription.</p>`;

function planFacts({ plan, seats, payment_method: card, ...rest }: Subscription): Html {
  const price = plan?.price_minor == null ? null : formatMoney(plan.price_minor, plan.currency);
  return factList({
    Plan: plan === null ? 'none' : plan.name,
    Price: price === null || plan === null ? null : `${price}, ${cycles[plan.billing_cycle].toLowerCase()}`,
    Status: rest.status.replaceAll('_', ' '),
    'Trial until': rest.status === 'trialing' ? formatTime(rest.trial_end) : null,
    Period:
      rest.current_period && html`${formatTime(rest.current_period.start)} to ${formatTime(rest.current_period.end)}`,
    'Ends on': formatTime(rest.ends_at),
    Seats: `${seats.used} of ${seats.allowance} in use (${seats.included} included in the plan)`,
    'Scheduled changes':
      rest.scheduled_changes.length === 0 ? null : rest.scheduled_changes.map(describeChange).join('; '),
    Discounts:
      rest.discounts.length === 0
        ? null
        : html`${rest.discounts.map((each, index) => html`${index === 0 ? null : '; '}${describeDiscount(each, plan?.currency ?? '')}`)}`,
    Card: card === null ? 'none' : `${card.brand}, ending in ${card.last4}`,
  });
}

function describeDiscount(
  { name, percent_off: percent, amount_off_minor: amount, ends_at: end }: Subscription['discounts'][number],
  currency: string,
): Html {
  const off = amount === null ? `${percent} %` : formatMoney(amount, currency);
  return html`${name === null ? null : `${name}: `}${off} off${end === null ? null : html` until ${formatTime(end)}`}`;
}

function describeChange({
  action,
  package_code: plan,
  module_key: module,
  seats,
}: Subscription['scheduled_changes'][number]) {
  if (action === 'downgrade') return `downgrade to ${plan}`;
  return action === 'set_seats' ? `${seats} seats` : `remove the module ${module}`;
}

/** Builds a form that leads to the preview of a change. It changes nothing yet. */
function choose({ testMode }: PersonalRequest, what: Record<string, string>, body: Html, look = 'inline'): Html {
  const hidden = Object.entries({ ...(testMode ? { mode: 'test' } : {}), ...what });
  return html`<form method="get" action="${home}/change" class="${look}">
${hidden.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
${body}
</form>`;
}

function changeForms(
  request: PersonalRequest,
  { seats, cancel_at_period_end: isEnding }: Subscription,
  plans: readonly Plan[],
  typed: Typed,
): Html {
  const others = plans.filter(({ is_current, is_available }) => is_available && !is_current);
  const choices = Object.fromEntries(others.map((plan) => [plan.package_code, describePlan(plan)]));
  const end = isEnding
    ? choose(request, { action: 'reactivate' }, html`<button>Keep subscription</button>`, 'line')
    : choose(request, { action: 'cancel' }, html`<button class="danger">Cancel subscription</button>`, 'line');
  return html`<h2>Change subscription</h2>
${choose(
  request,
  {},
  html`${field('package_code', 'New plan', typed, { choices })}<div><button name="action" value="upgrade">Upgrade</button><button class="quiet" name="action" value="downgrade">Downgrade</button></div>`,
)}
${choose(request, { action: 'set_seats' }, html`${field('seats', 'Seats', typed, { type: 'number', value: String(seats.allowance), min: 1, max: 100_000, required: true })}<div><button>Set</button></div>`)}
<p class="note">Upgrades are prorated and charged now. Downgrades take effect at the end of the period. You see the amounts before you confirm.</p>
<h3>${isEnding ? 'Keep the subscription' : 'Cancel the subscription'}</h3>
<p>${isEnding ? 'The subscription is scheduled to end with the period.' : 'The subscription remains active until the end of the paid period.'} ${end}</p>`;
}

const describePlan = ({ name, price_monthly_minor: price, currency, included_seats: seats }: Plan): string =>
  `${name}${price === null ? '' : `, ${formatMoney(price, currency)} per month`}, ${seats} seats`;

function checkoutForm(request: PersonalRequest, plans: readonly Plan[], typed: Typed): Html {
  const choices = Object.fromEntries(
    plans.filter(({ is_available }) => is_available).map((plan) => [plan.package_code, describePlan(plan)]),
  );
  const fields = html`${field('package_code', 'Plan', typed, { choices })}
${field('billing_cycle', 'Billing cycle', typed, { choices: cycles })}
<div><button>Choose</button></div>`;
  return html`<h2>Choose a plan</h2>${choose(request, { action: 'subscribe' }, fields)}`;
}

const topUpForm = (request: PersonalRequest, typed: Typed): Html =>
  form(
    request,
    `${home}/checkout`,
    html`<input type="hidden" name="kind" value="wallet_topup">
${field('amount', 'Amount to add to the wallet', typed, { errorName: 'amount_minor', type: 'number', value: '50', min: 5, max: 10_000, required: true, hint: 'In USD. SMS and calls are paid from the wallet.' })}
<div><button>Pay</button></div>`,
    'inline',
  );

const portalForm = (request: PersonalRequest): Html => html`<h2>Card</h2>
<p>Change the card on a page of the payment provider. If it also asks for an address and tax IDs, later invoices name them.</p>
${form(request, `${home}/portal`, html`<button>Change card</button>`)}`;

const states: Readonly<Record<Module['status'], string>> = {
  active: 'active',
  inactive: 'not included',
  pending_webhook: 'being activated',
  scheduled_removal: 'scheduled for removal',
};

/**
 * @param plan the current plan, whose modules cannot be changed separately; null if nothing can be
 * changed
 */
function modulesTable(request: PersonalRequest, modules: readonly Module[], plan: string | null): Html {
  const rows = modules.map((module) => [
    module.name,
    html`${module.status === 'pending_webhook' ? changing(states[module.status]) : states[module.status]}${module.active_until === null ? null : html`, until ${formatTime(module.active_until)}`}`,
    module.included_in.join(', '),
    `${formatMoney(module.price_monthly_minor, module.currency)} per month`,
    plan === null ? null : module.included_in.includes(plan) ? 'included in the plan' : moduleForm(request, module),
  ]);
  return table('Modules', ['Module', 'Status', 'Included in', 'Price in other plans', 'Change'], rows);
}

function moduleForm(request: PersonalRequest, { module_key: key, name, status }: Module): Html | null {
  const to = status === 'active' ? 'remove' : 'add';
  if (status === 'pending_webhook') return null;
  const label = to === 'add' ? 'Add' : 'Remove';
  const button = html`<button class="quiet" aria-label="${label} ${name}">${label}</button>`;
  return choose(request, { action: `${to}_module`, module_key: key }, button, 'line');
}

function usageFacts({ period, api_calls: calls, wallet, storage, consumables }: Data<'getUsage'>['usage']): Html {
  return factList({
    Month: html`${formatTime(period.start)} to ${formatTime(period.end)}`,
    'API calls':
      calls.limit === null ? formatNumber(calls.used) : `${formatNumber(calls.used)} of ${formatNumber(calls.limit)}`,
    Files: `${megabytes(storage.used_bytes)}${storage.limit_bytes === null ? '' : ` of ${megabytes(storage.limit_bytes)}`}`,
    Wallet: formatMoney(wallet.balance_minor, wallet.currency),
    Spent: formatMoney(consumables.spend_minor, consumables.currency),
  });
}

const megabytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MB`;

function invoicesTable({ invoices, pending }: Data<'listInvoices'>): Html {
  const next =
    pending === null
      ? null
      : html`<p>Next invoice: ${formatMoney(pending.total_minor, pending.currency)}${pending.next_charge_at === null ? null : html` on ${formatTime(pending.next_charge_at)}`}.</p>`;
  const rows = invoices.map(({ number, issued_at, total_minor, currency, status, pdf_url, hosted_url }) => {
    const file = pdf_url ?? hosted_url;
    return [
      file === null ? number : html`<a href="${file}">${number}</a>`,
      formatTime(issued_at),
      formatMoney(total_minor, currency),
      status,
    ];
  });
  return html`${next}${rows.length === 0 ? html`<p>No invoices yet.</p>` : table('Invoices', ['Number', 'Date', 'Amount', 'Status'], rows)}`;
}

/**
 * Creates a checkout and links to its page. The page may be on another host, which forms on this
 * page cannot redirect to.
 */
export const startCheckout: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { testMode } = request;
  const back = (name: string): string => parts.baseUrl() + buildAddress(home, testMode, { done: name });
  const amount = parseNumber(given.get('amount'));
  const what =
    given.get('kind') === 'wallet_topup'
      ? { amount_minor: typeof amount === 'number' ? Math.round(amount * 100) : amount }
      : { package_code: given.get('package_code') ?? '', billing_cycle: given.get('billing_cycle') ?? '' };
  const body = { kind: given.get('kind') ?? '', ...what, success_url: back('paid'), cancel_url: back('back') };
  return submitOrShowAgain(
    async () => {
      const { checkout_session: session } = await ask(parts, request, 'createCheckoutSession', { body });
      return awayPage(request, 'Pay', 'Continue to the checkout of the payment provider.', session.url);
    },
    showAgainWith(parts, request),
  );
};

export const openPortal: Show = (parts, request) => {
  const back = parts.baseUrl() + buildAddress(home, request.testMode);
  // The operation accepts https addresses only.
  const body = back.startsWith('https:') ? { return_url: back } : {};
  return submitOrShowAgain(
    async () => {
      const { url } = await ask(parts, request, 'createPortalSession', { body });
      return awayPage(
        request,
        'Change card',
        'Continue to the portal of the payment provider. The link is valid for five minutes.',
        url,
      );
    },
    showAgainWith(parts, request),
  );
};

function awayPage(request: PersonalRequest, title: string, text: string, url: string): PageResponse {
  const body = html`<p>${text}</p>
<p><a href="${url}">Continue to ${renderHost(url)}</a></p>
<p><a href="${buildAddress(home, request.testMode)}">Back to plan</a></p>`;
  return consolePage(request, 200, title, body);
}

/** Shows the plan again with an error. @param given the submitted fields */
export const showAgainWith =
  (parts: ConsoleParts, request: PersonalRequest, given = request.form) =>
  (refused: ApiError): Promise<PageResponse> =>
    planPage(parts, request, refused.status, { form: given, refused });
