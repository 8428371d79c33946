// Previews of changes of the subscription: validated like the change itself, and nothing is made.
import type { PendingBill } from '../../domain/billing/bills.ts';
import type { PreviewedChange } from '../../domain/billing/subscription.ts';
import { buildProblem, type FieldProblem, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { requireAddOn, requireModule, requireRecentProration } from '../../services/billing/subscription-change.ts';
import { previewChange } from '../../services/billing/subscription-preview.ts';

type Body = Call<'previewSubscriptionChange'>['request']['body'];

/** Fields of each action, as in the body of the change. */
const fieldsOfAction: Readonly<Record<Body['action'], { required: string[]; optional: string[] }>> = {
  subscribe: { required: ['package_code'], optional: ['billing_cycle', 'seats'] },
  upgrade: { required: ['package_code'], optional: ['billing_cycle', 'prorated_at'] },
  downgrade: { required: ['package_code'], optional: [] },
  set_seats: { required: ['seats'], optional: ['prorated_at'] },
  add_module: { required: ['module_key'], optional: ['prorated_at'] },
  remove_module: { required: ['module_key'], optional: [] },
  cancel: { required: [], optional: [] },
  reactivate: { required: [], optional: [] },
};

export const previewSubscriptionChange: Handler<'previewSubscriptionChange'> = async (call) => {
  const { now } = call;
  const { body } = call.request;
  const problems = findProblems(body);
  if (problems.length > 0)
    throw validationFailed(problems, problems.some(({ code }) => code === 'UNKNOWN_FIELD') ? 422 : 400);
  // To the second, which is the precision of payment providers.
  const proratedAt = body.prorated_at ?? new Date(Math.floor(now.getTime() / 1000) * 1000).toISOString();
  requireRecentProration(body.prorated_at, now);
  const change = toChange(body, proratedAt);
  const preview = await previewChange(call, change);
  const { invoice, current, next, warnings } = preview;
  const isProrated = 'prorated_at' in change && preview.applies === 'immediately';
  return {
    status: 200,
    data: {
      preview: {
        action: body.action,
        applies: preview.applies,
        effective: preview.effective.toISOString(),
        prorated_at: isProrated ? proratedAt : null,
        currency: preview.currency,
        amount_due_now_minor: invoice?.totalMinor ?? 0,
        tax_due_now_minor: invoice?.taxMinor ?? 0,
        lines: invoice?.lines ?? [],
        current_invoice_minor: current?.total_minor ?? 0,
        ...toNextInvoice(next),
        is_estimate: preview.isEstimate,
        warnings,
      },
    },
  };
};

const toNextInvoice = (next: PendingBill | null) => ({
  next_invoice_minor: next?.total_minor ?? 0,
  next_tax_minor: next?.tax_minor ?? 0,
  next_charge_at: next?.next_charge_at ?? null,
  next_lines: next?.lines ?? [],
});

function findProblems(body: Body): FieldProblem[] {
  const { required, optional } = fieldsOfAction[body.action];
  const allowed = ['action', ...required, ...optional];
  return [
    ...required
      .filter((name) => !Object.hasOwn(body, name))
      .map((name) => buildProblem(name, 'REQUIRED', `${name} is required if action is ${body.action}`)),
    ...Object.keys(body)
      .filter((name) => !allowed.includes(name))
      .map((name) =>
        buildProblem(name, 'UNKNOWN_FIELD', `${name} is not a field of the action ${body.action}`, { allowed }),
      ),
  ];
}

/** The card that a person enters at a checkout. It does not affect amounts. */
const cardToCome = { brand: '', last4: '', exp_month: 1, exp_year: 2000 };

/** @throws ApiError as the change would for an unknown module */
function toChange(body: Body, prorated_at: string): PreviewedChange {
  const { action, package_code = '', module_key = '', billing_cycle, seats } = body;
  switch (action) {
    case 'subscribe':
      return {
        action,
        package_code,
        billing_cycle: billing_cycle ?? 'monthly',
        seats: seats ?? null,
        card: cardToCome,
        checkout_session: '',
      };
    case 'upgrade':
      return { action, package_code, billing_cycle: billing_cycle ?? null, prorated_at };
    case 'downgrade':
      return { action, package_code };
    case 'set_seats':
      return { action, seats: seats ?? 1, prorated_at };
    case 'add_module':
      requireAddOn(module_key);
      return { action, module_key, prorated_at };
    case 'remove_module':
      requireModule(module_key);
      return { action, module_key };
    default:
      return { action };
  }
}
