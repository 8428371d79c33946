// Creates the payment providers from settings and pools.
import type Stripe from 'stripe';
import type { Pool } from '../db/client/pool.ts';
import type { PaymentProvider } from '../domain/billing/provider.ts';
import type { FollowParts } from '../integrations/stripe/follow.ts';
import { openStripe } from '../integrations/stripe/open.ts';
import { createStripeProvider } from '../integrations/stripe/provider.ts';
import { createTestProvider } from '../integrations/test-mode/payments.ts';
import type { Config } from '../runtime/config.ts';
import { type Log, raiseAlert } from '../runtime/telemetry/log.ts';
import { selectProvider } from './payment-provider.ts';

export interface Payments {
  provider: PaymentProvider;
  /** undefined: all payments use the test provider. */
  stripe: Stripe | undefined;
  /** The parts needed to read a customer from Stripe. */
  followParts: FollowParts | undefined;
}

/**
 * @param tenants a pool that requests do not wait for
 * @param baseUrl returns the base URL of the test provider's pages
 */
export async function openPayments(
  { stripe: settings, dashboardUrl }: Pick<Config, 'stripe' | 'dashboardUrl'>,
  tenants: Pool,
  baseUrl: () => string,
  log: Log,
): Promise<Payments> {
  const stripe = settings && (await openStripe(settings.secretKey, settings.apiBase));
  const warn = (fields: object, text: string): void => log.warn(fields, text);
  const alert: FollowParts['alert'] = (kind, message, details) => raiseAlert(log, kind, message, details);
  const followParts = stripe && { stripe, tenants, alert };
  const live = followParts && createStripeProvider({ ...followParts, dashboardUrl, warn });
  return { provider: selectProvider(createTestProvider(tenants, baseUrl), live), stripe, followParts };
}
