// Terms of simulated phases and subscriptions. A phase loses what is not sent again.
import { randomBytes } from 'node:crypto';
import { type Form, mergeMetadata, readList, readText, readTexts } from './form.ts';
import { Refused } from './refused.ts';

interface TaxRate {
  id: string;
  object: 'tax_rate';
}

/** Terms of a subscription: the ids of granted discounts. */
export interface SubscriptionTerms {
  application_fee_percent: number | null;
  automatic_tax: { enabled: boolean; liability: null };
  collection_method: string;
  days_until_due: number | null;
  default_tax_rates: TaxRate[];
  description: string | null;
  discounts: string[];
  invoice_settings: { account_tax_ids: null; footer: string | null; issuer: { type: string } };
  on_behalf_of: string | null;
  transfer_data: null;
  trial_end: number | null;
}

export interface PhaseDiscount {
  coupon: string | null;
  discount: string | null;
  promotion_code: string | null;
}

export interface PhaseTerms extends Omit<SubscriptionTerms, 'discounts' | 'days_until_due' | 'invoice_settings'> {
  add_invoice_items: [];
  billing_cycle_anchor: string | null;
  billing_thresholds: null;
  default_payment_method: string | null;
  discounts: PhaseDiscount[];
  invoice_settings: (SubscriptionTerms['invoice_settings'] & { days_until_due: number | null }) | null;
  proration_behavior: string;
}

export interface ItemTerms {
  discounts?: string[] | undefined;
  tax_rates?: TaxRate[] | undefined;
  metadata?: Record<string, string> | undefined;
}

export interface PhaseItemTerms {
  discounts: PhaseDiscount[];
  tax_rates: TaxRate[];
  metadata: Record<string, string>;
}

export const plainTerms = (): SubscriptionTerms => ({
  application_fee_percent: null,
  automatic_tax: { enabled: false, liability: null },
  collection_method: 'charge_automatically',
  days_until_due: null,
  default_tax_rates: [],
  description: null,
  discounts: [],
  invoice_settings: { account_tax_ids: null, footer: null, issuer: { type: 'self' } },
  on_behalf_of: null,
  transfer_data: null,
  trial_end: null,
});

const asPhaseDiscount = (discount: string): PhaseDiscount => ({ coupon: null, discount, promotion_code: null });

/** Returns the terms of a phase that is created from a subscription. */
export function termsFromSubscription(terms: SubscriptionTerms): PhaseTerms {
  const { days_until_due, discounts, invoice_settings } = terms;
  return {
    application_fee_percent: terms.application_fee_percent,
    automatic_tax: terms.automatic_tax,
    collection_method: terms.collection_method,
    default_tax_rates: terms.default_tax_rates,
    description: terms.description,
    on_behalf_of: terms.on_behalf_of,
    transfer_data: terms.transfer_data,
    trial_end: terms.trial_end,
    add_invoice_items: [],
    billing_cycle_anchor: null,
    billing_thresholds: null,
    default_payment_method: null,
    discounts: discounts.map(asPhaseDiscount),
    invoice_settings: { ...invoice_settings, days_until_due },
    proration_behavior: 'create_prorations',
  };
}

export const itemTermsFromSubscription = ({
  discounts = [],
  tax_rates = [],
  metadata = {},
}: ItemTerms): PhaseItemTerms => ({
  discounts: discounts.map(asPhaseDiscount),
  tax_rates,
  metadata,
});

const phaseNames = new Set([
  'application_fee_percent',
  'automatic_tax',
  'billing_cycle_anchor',
  'collection_method',
  'default_tax_rates',
  'description',
  'discounts',
  'invoice_settings',
  'on_behalf_of',
  'proration_behavior',
  'trial_end',
  'duration',
  'end_date',
  'items',
  'metadata',
  'start_date',
]);
const itemNames = new Set(['discounts', 'metadata', 'price', 'quantity', 'tax_rates']);

function refuseOthers(sent: Form, known: ReadonlySet<string>): void {
  for (const name of Object.keys(sent)) if (!known.has(name)) throw new Refused(`Received unknown parameter: ${name}`);
}

/**
 * @param granted discounts of the subscription and its items
 * @param taxRates existing ids
 */
export function readPhaseTerms(sent: Form, granted: ReadonlySet<string>, taxRates: ReadonlySet<string>): PhaseTerms {
  refuseOthers(sent, phaseNames);
  const plain = termsFromSubscription(plainTerms());
  const { automatic_tax: tax, invoice_settings: settings } = sent;
  return {
    ...plain,
    automatic_tax: {
      enabled: typeof tax === 'object' && required(readText(tax.enabled), ['true', 'false']) === 'true',
      liability: null,
    },
    billing_cycle_anchor: readText(sent.billing_cycle_anchor) || null,
    collection_method: readText(sent.collection_method) || plain.collection_method,
    default_tax_rates: readTaxRates(sent.default_tax_rates, taxRates),
    description: readText(sent.description) || null,
    discounts: readDiscounts(sent.discounts, granted),
    invoice_settings:
      typeof settings === 'object'
        ? {
            ...plainTerms().invoice_settings,
            footer: readText(settings.footer) || null,
            days_until_due: Number(readText(settings.days_until_due)) || null,
          }
        : null,
    on_behalf_of: readText(sent.on_behalf_of) || null,
    proration_behavior: readText(sent.proration_behavior) || plain.proration_behavior,
    trial_end: Number(readText(sent.trial_end)) || null,
  };
}

export function readItemTerms(sent: Form, granted: ReadonlySet<string>, taxRates: ReadonlySet<string>): PhaseItemTerms {
  refuseOthers(sent, itemNames);
  return {
    discounts: readDiscounts(sent.discounts, granted),
    tax_rates: readTaxRates(sent.tax_rates, taxRates),
    metadata: mergeMetadata({}, sent.metadata),
  };
}

function readDiscounts(sent: Form[string] | undefined, granted: ReadonlySet<string>): PhaseDiscount[] {
  return readList(sent).map(({ coupon, discount, promotion_code }) => {
    const known = readText(discount);
    if (known !== '' && !granted.has(known)) throw new Refused(`No such discount: ${known}`);
    if ([coupon, discount, promotion_code].filter(Boolean).length !== 1) throw new Refused('a discount has one source');
    return {
      coupon: readText(coupon) || null,
      discount: known || null,
      promotion_code: readText(promotion_code) || null,
    };
  });
}

function readTaxRates(sent: Form[string] | undefined, known: ReadonlySet<string>): TaxRate[] {
  return readTexts(sent).map((id) => {
    if (!known.has(id)) throw new Refused(`No such tax rate: ${id}`);
    return { id, object: 'tax_rate' };
  });
}

function required(value: string, allowed: readonly string[]): string {
  if (!allowed.includes(value)) throw new Refused(`must be one of ${allowed.join(', ')}`);
  return value;
}

/** Returns the discount of a phase. A coupon grants a new one from the start. */
const grant = ({ discount }: PhaseDiscount): string => discount ?? `di_${randomBytes(9).toString('hex')}`;

/** Returns the terms of a subscription that enters a phase. */
export function termsInPhase(terms: PhaseTerms): SubscriptionTerms {
  const { discounts, invoice_settings: settings } = terms;
  const { days_until_due = null, ...kept } = settings ?? {};
  return {
    ...plainTerms(),
    automatic_tax: terms.automatic_tax,
    collection_method: terms.collection_method,
    days_until_due,
    default_tax_rates: terms.default_tax_rates,
    description: terms.description,
    discounts: discounts.map(grant),
    invoice_settings: { ...plainTerms().invoice_settings, ...kept },
    on_behalf_of: terms.on_behalf_of,
    trial_end: terms.trial_end,
  };
}

export const itemTermsInPhase = ({ discounts, tax_rates, metadata }: PhaseItemTerms) => ({
  discounts: discounts.map(grant),
  tax_rates,
  metadata,
});
