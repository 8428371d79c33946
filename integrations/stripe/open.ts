// Loads the package of Stripe, which only those who pay through it need to hold in memory.
import type Stripe from 'stripe';

/** Milliseconds for one request to Stripe. */
const timeout = 10_000;

/** @param apiBase another host that speaks for Stripe */
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
