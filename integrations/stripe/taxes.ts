// Taxes that Stripe computes, if its account is set up for them.
import type Stripe from 'stripe';

/**
 * Returns true if the Stripe account can compute taxes. A restricted key that may not read the
 * settings counts as an account without taxes.
 */
export async function hasAutomaticTax(stripe: Stripe): Promise<boolean> {
  try {
    return (await stripe.tax.settings.retrieve()).status === 'active';
  } catch (error) {
    const { type } = error as Stripe.errors.StripeError;
    if (type === 'StripePermissionError' || type === 'StripeInvalidRequestError') return false;
    throw error;
  }
}

/**
 * Parameters of a checkout whose subscription is taxed. The person enters an address and tax ids,
 * which Stripe stores with the customer.
 */
export const taxCollection = {
  automatic_tax: { enabled: true },
  tax_id_collection: { enabled: true },
  customer_update: { address: 'auto', name: 'auto' },
} satisfies Partial<Stripe.Checkout.SessionCreateParams>;
