// The test payment provider: for test keys, and if no other is configured. Settles immediately.
import { chargeOnce } from '../../db/billing/test-charges.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import { computeConsequence } from '../../domain/billing/changes.ts';
import { computePreview } from '../../domain/billing/previews.ts';
import type { BillingOperation, NewPage, OperationResult, PaymentProvider } from '../../domain/billing/provider.ts';

/** Cards that end in these digits are declined. */
const declinedCard = '0002';
/** Transaction timeout in milliseconds. */
const timeoutMs = 8000;

/**
 * @param pool separate from the pool of requests
 * @param baseUrl the address of this provider's pages
 */
export function createTestProvider(pool: Pool, baseUrl: () => string): PaymentProvider {
  const buildAddress = (page: string, { companyId, testMode, id }: NewPage): string =>
    `${baseUrl()}/${page}/${testMode ? 'test' : 'live'}/${companyId}/${id}`;
  return {
    keepsBooks: () => false,
    refresh: async () => undefined,
    refreshCheckout: async () => undefined,
    preview: async (request) => computePreview(request),
    settle: (operation) => settle(pool, operation),
    openCheckout: async (checkout) => buildAddress('checkout', checkout),
    openPortal: async (portal) => buildAddress('portal', portal),
  };
}

async function settle(pool: Pool, operation: BillingOperation): Promise<OperationResult> {
  const { change, subscription, openMinor, askedAt } = operation;
  const { charge, paid, refused } = computeConsequence(change, subscription, openMinor, askedAt);
  if (charge === 0 || (await isCharged(pool, operation, charge))) return { settlement: { ...paid, isPaid: true } };
  return refused ? { settlement: { ...refused, isPaid: false } } : { declined: { actionUrl: null } };
}

function isCharged(pool: Pool, operation: BillingOperation, amountMinor: number): Promise<boolean> {
  const { companyId, testMode, id: operationId, change, subscription, askedAt } = operation;
  const card = 'card' in change ? change.card : subscription.paymentMethod;
  const charge = {
    companyId,
    testMode,
    operationId,
    amountMinor,
    currency: subscription.currency,
    last4: card?.last4 ?? '',
    isDeclined: card === null || card.last4 === declinedCard,
  };
  return inTransaction(pool, { companyId, testMode }, timeoutMs, (sql) => chargeOnce(sql, charge, askedAt));
}
