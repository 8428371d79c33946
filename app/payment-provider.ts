// Selects the payment provider of a workspace.
import type { PaymentProvider } from '../domain/billing/provider.ts';

/**
 * Test mode always uses the test provider. Live mode uses the live provider if there is one, else
 * the test provider too.
 */
export function selectProvider(test: PaymentProvider, live: PaymentProvider | undefined): PaymentProvider {
  const of = ({ testMode }: { testMode: boolean }): PaymentProvider => (testMode ? test : (live ?? test));
  return {
    keepsBooks: (scope) => of(scope).keepsBooks(scope),
    refresh: (scope) => of(scope).refresh(scope),
    refreshCheckout: (checkout, now) => of(checkout).refreshCheckout(checkout, now),
    preview: (request) => of(request).preview(request),
    settle: (order) => of(order).settle(order),
    openCheckout: (checkout) => of(checkout).openCheckout(checkout),
    openPortal: (portal) => of(portal).openPortal(portal),
  };
}
