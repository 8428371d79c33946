// Adjustments of the sum of lines in the Stripe simulation: a customer's coupon and tax rate.

export interface Terms {
  coupon?: {
    name: string | null;
    percent_off: number;
    /** The plan whose items it reduces; all items without it. */
    appliesTo?: string;
  };
  /** Unix seconds at which the coupon ends, or null for never. */
  couponEnds?: number | null;
  tax?: { percentage: number; inclusive: boolean };
}

export interface Adjusted {
  total: number;
  total_taxes: { amount: number; tax_behavior: 'exclusive' | 'inclusive' }[];
  total_discount_amounts: { amount: number; discount: string }[];
  discounts: Discount[];
}

export type Discount = ReturnType<typeof buildDiscount>;

/** The discount that the coupon grants. */
export const grantedDiscount = 'di_standin';

const withoutPlan = ({ name, percent_off }: NonNullable<Terms['coupon']>) => ({ name, percent_off });

const buildDiscount = (coupon: NonNullable<Terms['coupon']>, end: number | null) => ({
  id: grantedDiscount,
  object: 'discount' as const,
  end,
  source: {
    type: 'coupon' as const,
    coupon: { id: 'co_standin', object: 'coupon' as const, amount_off: null, ...withoutPlan(coupon) },
  },
});

export const buildDiscounts = ({ coupon, couponEnds }: Terms): Discount[] =>
  coupon ? [buildDiscount(coupon, couponEnds ?? null)] : [];

/** Applies the coupon, then the tax, as Stripe does. */
export function adjust(lines: readonly { amount: number; description: string | null }[], terms: Terms): Adjusted {
  const { coupon, tax } = terms;
  const subtotal = lines.reduce((total, { amount }) => total + amount, 0);
  const plan = coupon?.appliesTo?.replace(/^./, (letter) => letter.toUpperCase()) ?? '';
  const reduced = lines.filter(({ description }) => description?.includes(plan));
  const base = reduced.reduce((total, { amount }) => total + amount, 0);
  const off = coupon ? Math.round((Math.max(0, base) * coupon.percent_off) / 100) : 0;
  const net = subtotal - off;
  const share = tax ? tax.percentage / 100 : 0;
  const taxed = tax?.inclusive ? Math.round(net - net / (1 + share)) : Math.round(net * share);
  const discounts = buildDiscounts(terms);
  return {
    total: net + (tax?.inclusive ? 0 : taxed),
    total_taxes: tax ? [{ amount: taxed, tax_behavior: tax.inclusive ? 'inclusive' : 'exclusive' }] : [],
    total_discount_amounts: discounts.map(({ id }) => ({ amount: off, discount: id })),
    discounts,
  };
}
