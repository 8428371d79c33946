// Takes back wallet credit after refunds and lost disputes.
import { type Reversal, readWalletBalance, reversePayments } from '../../db/billing/wallet.ts';
import { type AuditRow, buildSystemAuditRow, type EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import type { WalletPayment } from './projection.ts';

/**
 * Takes back the credit of refunded or disputed payments once, with an event and an audit row for
 * each. The balance may become negative. If a refund fails later, its credit returns.
 */
export async function takeBackCredit(
  sql: Sql,
  scope: TenantScope,
  currency: string,
  payments: readonly WalletPayment[],
  now: Date,
  emit: (event: EventRow) => void,
  note: (audit: AuditRow) => void,
): Promise<void> {
  const wanted = payments.flatMap(({ id, refundedMinor, disputedMinor }): Reversal[] => [
    { paymentId: id, reason: 'refund', amountMinor: refundedMinor },
    { paymentId: id, reason: 'dispute', amountMinor: disputedMinor },
  ]);
  if (wanted.length === 0) return;
  const changed = await reversePayments(sql, scope, wanted, now);
  if (changed.length === 0) return;
  const total = changed.reduce((sum, { amountMinor }) => sum + amountMinor, 0);
  let balance = (await readWalletBalance(sql, scope)) - total;
  for (const { paymentId, reason, amountMinor } of changed) {
    balance += amountMinor;
    const data = { reason, amount_minor: amountMinor, balance_minor: balance, currency };
    emit({
      ...scope,
      event: 'wallet.adjusted',
      occurredAt: now,
      actor: { kind: 'system', id: 'billing', name: null },
      requestId: null,
      data: { ...data, occurred_at: now.toISOString() },
    });
    const metadata = { ...data, payment: paymentId };
    note(buildSystemAuditRow(scope, 'billing', 'wallet.adjust', { object: 'wallet', metadata }, now));
  }
}
