// Changes of the plan: a page with their amounts, and the change that the person confirms there.
import { formatMoney } from '../../domain/billing/money.ts';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { ApiError, notFound } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { newRequestId } from '../../runtime/http/request-ids.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { isChangeStarted } from '../../services/billing/subscription-change.ts';
import { factList, formatTime, table } from '../pages/components.ts';
import { form, parseNumber, submitOrShowAgain } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import {
  act,
  ask,
  buildAddress,
  type ConsoleParts,
  type Data,
  type PersonalRequest,
  type Show,
} from '../pages/requests.ts';
import { home, showAgainWith } from './plan.ts';

type Preview = Data<'previewSubscriptionChange'>['preview'];
type Line = Preview['lines'][number];

/** A change as its forms carry it. */
interface Chosen {
  action: Preview['action'];
  /** The other fields of the change. */
  fields: Record<string, unknown>;
}

/** Fields of each action, by which the forms and the API name them. */
const fieldsOfAction: Readonly<Record<Preview['action'], readonly string[]>> = {
  subscribe: ['package_code', 'billing_cycle'],
  upgrade: ['package_code'],
  downgrade: ['package_code'],
  set_seats: ['seats'],
  add_module: ['module_key'],
  remove_module: ['module_key'],
  cancel: [],
  reactivate: [],
};

/** @throws ApiError 404 if the form has no such action */
function readChosen(given: URLSearchParams): Chosen {
  const action = given.get('action') ?? '';
  if (!Object.hasOwn(fieldsOfAction, action)) throw notFound();
  const known = action as Chosen['action'];
  const entries = fieldsOfAction[known].map((name) => {
    const text = given.get(name) ?? '';
    return [name, name === 'seats' ? parseNumber(text) : text] as const;
  });
  return { action: known, fields: Object.fromEntries(entries) };
}

/** Previews a change. @param proratedAt of the preview that the person saw, if there is one */
async function preview(
  parts: ConsoleParts,
  request: PersonalRequest,
  { action, fields }: Chosen,
  proratedAt = '',
): Promise<Preview> {
  const prorated = proratedAt === '' ? {} : { prorated_at: proratedAt };
  const body = { action, ...fields, ...prorated };
  return (await ask(parts, request, 'previewSubscriptionChange', { body })).preview;
}

/** Returns a value that is the same for previews with the same amounts, lines and warnings. */
function digestPreview({ effective: _effective, ...shown }: Preview): string {
  return sha256(JSON.stringify(shown)).toString('base64url');
}

export const showConfirmation: Show = (parts, request) =>
  submitOrShowAgain(
    async () => {
      const chosen = readChosen(request.query);
      return confirmationPage(parts, request, 200, chosen, await preview(parts, request, chosen));
    },
    showAgainWith(parts, request, request.query),
  );

const changedNote = html`<div role="alert"><p>The amounts have changed since you saw them. Nothing was changed or charged. Check them again.</p></div>`;

const cancelNote = html`<p>Until then, nothing changes. Afterwards, API keys stop working, and the data is kept for 90 days. You can keep the subscription until it ends, or choose a plan again later.</p>`;

async function confirmationPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  chosen: Chosen,
  shown: Preview,
): Promise<PageResponse> {
  const mayChange = request.person.caller.grants.allows('billing:configure');
  const title = await describe(parts, request, chosen);
  const body = html`${status === 409 ? changedNote : null}
${shown.warnings.map(({ message }) => html`<p class="caution">${message}</p>`)}
${previewFacts(shown)}
${chosen.action === 'cancel' ? cancelNote : null}
${shown.is_estimate ? html`<p class="note">The payment provider computes the exact amounts when it charges them, for example because taxes depend on your address.</p>` : null}
${linesTable('Due now', shown.lines, shown.tax_due_now_minor, shown)}
${linesTable('Next invoice', shown.next_lines, shown.next_tax_minor, shown)}
${mayChange ? confirmForm(request, chosen, shown) : null}
<p><a href="${buildAddress(home, request.testMode)}">Back to plan</a></p>`;
  return consolePage(request, status, title, body);
}

async function describe(parts: ConsoleParts, request: PersonalRequest, { action, fields }: Chosen): Promise<string> {
  const { package_code: code, module_key: key, seats, billing_cycle: cycle } = fields;
  switch (action) {
    case 'subscribe':
    case 'upgrade':
    case 'downgrade': {
      const { plans } = await ask(parts, request, 'listPlans');
      const name = plans.find((plan) => plan.package_code === code)?.name ?? String(code);
      if (action === 'subscribe') return `Choose ${name}, ${cycle === 'yearly' ? 'yearly' : 'monthly'}`;
      return action === 'upgrade' ? `Upgrade to ${name}` : `Downgrade to ${name}`;
    }
    case 'add_module':
    case 'remove_module': {
      const { modules } = await ask(parts, request, 'listModules');
      const name = modules.find((module) => module.module_key === key)?.name ?? String(key);
      return action === 'add_module' ? `Add ${name}` : `Remove ${name}`;
    }
    case 'set_seats':
      return `Set ${seats} seats`;
    case 'cancel':
      return 'Cancel the subscription';
    case 'reactivate':
      return 'Keep the subscription';
  }
}

function previewFacts(shown: Preview): Html {
  const { applies, effective, currency, amount_due_now_minor: due, next_charge_at: nextAt } = shown;
  const money = (minor: number): string => formatMoney(minor, currency);
  const { current_invoice_minor: current, next_invoice_minor: next } = shown;
  return factList({
    'Takes effect': applies === 'immediately' ? 'immediately' : html`on ${formatTime(effective)}`,
    'Due now': money(due),
    'Next invoice':
      nextAt === null
        ? 'none'
        : html`${money(next)} on ${formatTime(nextAt)}${current === next || current === 0 ? null : html`, instead of ${money(current)}`}`,
  });
}

/** Builds the lines of an invoice with their sum. Nothing for no lines. */
function linesTable(title: string, lines: readonly Line[], tax: number, { currency }: Preview): Html | null {
  if (lines.length === 0) return null;
  const money = (minor: number): string => formatMoney(minor, currency);
  const total = lines.reduce((sum, { amount_minor: minor }) => sum + minor, tax);
  const rows = [
    ...lines.map((line) => [line.description, String(line.quantity), money(line.amount_minor)]),
    ...(tax === 0 ? [] : [['Tax', '', money(tax)]]),
    [html`<strong>Total</strong>`, '', html`<strong>${money(total)}</strong>`],
  ];
  return html`<h2>${title}</h2>${table(title, ['Description', 'Quantity', 'Amount'], rows)}`;
}

const hiddenInputs = (values: Readonly<Record<string, unknown>>): Html[] =>
  Object.entries(values).map(([name, value]) => html`<input type="hidden" name="${name}" value="${String(value)}">`);

/**
 * Builds the form that makes the change. Its key makes a repeated submission safe: the change
 * happens once.
 */
function confirmForm(request: PersonalRequest, { action, fields }: Chosen, shown: Preview): Html {
  const due = formatMoney(shown.amount_due_now_minor, shown.currency);
  if (action === 'subscribe') {
    const values = hiddenInputs({ kind: 'subscribe', ...fields });
    return form(request, `${home}/checkout`, html`${values}<div><button>Continue to payment</button></div>`);
  }
  const values = hiddenInputs({
    action,
    ...fields,
    prorated_at: shown.prorated_at ?? '',
    seen: digestPreview(shown),
    once: newRequestId(),
  });
  const label = shown.amount_due_now_minor > 0 ? `Confirm and pay ${due}` : 'Confirm';
  const button = action === 'cancel' ? html`<button class="danger">${label}</button>` : html`<button>${label}</button>`;
  return form(request, `${home}/change`, html`${values}<div>${button}</div>`);
}

/**
 * Makes the change if it is still the one that the person saw, and shows it again otherwise. A
 * repeated submission returns the outcome of the first.
 */
export const changePlan: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const chosen = readChosen(given);
  return submitOrShowAgain(
    async () => {
      try {
        const changed = await findChangedPreview(parts, request, chosen, given);
        if (changed) return await confirmationPage(parts, request, 409, chosen, changed);
      } catch (error) {
        if (error instanceof ApiError && (error.status >= 500 || error.status === 429))
          return retryPage(request, given, 'The amounts could not be checked, so nothing was changed or charged.');
        throw error;
      }
      try {
        const { applies } = await makeChange(parts, request, chosen, given);
        const name = applies === 'period_end' ? 'later' : 'now';
        return { redirect: buildAddress(home, request.testMode, { done: name }) };
      } catch (error) {
        if (error instanceof ApiError && error.status === 503)
          return retryPage(request, given, 'The payment provider has not answered, so the outcome is not known yet.');
        throw error;
      }
    },
    showAgainWith(parts, request),
  );
};

/**
 * Returns the preview if it differs from the one that the person saw. It does not matter to a
 * repeated submission, which changes nothing again.
 * @throws ApiError if the change cannot be previewed, so that its amounts are not known
 */
async function findChangedPreview(
  parts: ConsoleParts,
  request: PersonalRequest,
  chosen: Chosen,
  given: URLSearchParams,
): Promise<Preview | undefined> {
  let failure: unknown;
  try {
    const shown = await preview(parts, request, chosen, given.get('prorated_at') ?? '');
    if (digestPreview(shown) === given.get('seen')) return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    // The amounts that the person saw are too old to be charged.
    const isOutdated = JSON.stringify(error.details?.fields ?? []).includes('"prorated_at"');
    if (!isOutdated) failure = error;
  }
  const once = given.get('once') ?? '';
  const isRepeated = await act(parts, request, ['billing:configure'], ({ caller, db: { sql } }) =>
    isChangeStarted(sql, { ...caller, testMode: request.testMode }, findEndpoint(chosen), once, request.now),
  );
  if (isRepeated) return undefined;
  if (failure) throw failure;
  return preview(parts, request, chosen);
}

const operations = {
  upgrade: { id: 'upgradeSubscription', endpoint: 'POST /v1/subscription/upgrade' },
  downgrade: { id: 'downgradeSubscription', endpoint: 'POST /v1/subscription/downgrade' },
  set_seats: { id: 'updateSubscriptionSeats', endpoint: 'POST /v1/subscription/seats' },
  add_module: { id: 'createSubscriptionModule', endpoint: 'POST /v1/subscription/modules' },
  remove_module: { id: 'deleteSubscriptionModule', endpoint: 'DELETE /v1/subscription/modules/' },
  cancel: { id: 'cancelSubscription', endpoint: 'POST /v1/subscription/cancel' },
  reactivate: { id: 'reactivateSubscription', endpoint: 'POST /v1/subscription/reactivate' },
} as const;

/** @throws ApiError 404 for a first plan, which has a checkout */
function findOperation({ action }: Chosen): (typeof operations)[keyof typeof operations] {
  if (action === 'subscribe') throw notFound();
  return operations[action];
}

function findEndpoint(chosen: Chosen): string {
  const { endpoint } = findOperation(chosen);
  return chosen.action === 'remove_module' ? `${endpoint}${chosen.fields.module_key}` : endpoint;
}

function makeChange(parts: ConsoleParts, request: PersonalRequest, chosen: Chosen, given: URLSearchParams) {
  const { id } = findOperation(chosen);
  const { action, fields } = chosen;
  const once = { idempotencyKey: given.get('once') ?? '' };
  if (action === 'cancel' || action === 'reactivate') return ask(parts, request, id, once);
  if (action === 'remove_module')
    return ask(parts, request, id, { ...once, path: { module_key: String(fields.module_key) } });
  const proratedAt = given.get('prorated_at') ?? '';
  return ask(parts, request, id, {
    ...once,
    body: { ...fields, ...(proratedAt === '' ? {} : { prorated_at: proratedAt }) },
  });
}

/** Offers the same submission again, which finds out the outcome or makes the change once. */
function retryPage(request: PersonalRequest, given: URLSearchParams, why: string): PageResponse {
  const sent = [...given].filter(([name]) => name !== 'token' && name !== 'mode');
  const body = html`<p role="alert">${why} Try again: nothing is charged twice.</p>
${form(request, `${home}/change`, html`${hiddenInputs(Object.fromEntries(sent))}<div><button>Try again</button></div>`)}
<p><a href="${buildAddress(home, request.testMode)}">Back to plan</a></p>`;
  return consolePage(request, 503, 'Change the plan', body);
}
