// Loads the Stripe package on demand, so that servers without Stripe do not hold it in memory.
import type Stripe from 'stripe';

/** Timeout of a Stripe request in milliseconds. */
const timeout = 10_000;

/** @param apiBase another base URL of the Stripe API */
export async function openStripe(secretKey: string, apiBase: string | undefined): Promise<Stripe> {
  const { default: Package } = await import('stripe');
  const base = apiBase === undefined ? undefined : new URL(apiBase);
  const place = base && {
    host: base.hostname,
    port: base.port || (base.protocol === 'https:' ? 443 : 80),
    protocol: base.protocol === 'https:' ? ('https' as const) : ('http' as const),
  };
  return new Package(secretKey, { timeout, maxNetworkRetries: 1, telemetry: false, ...place });
}
