// Orders that no call waits for: of pages, of the calendar, and those that were left.
import { findCheckout } from '../../db/billing/checkout-sessions.ts';
import { openAmount } from '../../db/billing/invoices.ts';
import * as db from '../../db/billing/orders.ts';
import { isCompanyOpen } from '../../db/billing/purge.ts';
import { openSubscription } from '../../db/billing/subscriptions.ts';
import { type AuditRow, ownAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findSeats } from '../../db/people/users.ts';
import { type Refusal, refusalOf } from '../../domain/billing/changes.ts';
import { nextStep } from '../../domain/billing/life-cycle.ts';
import type { Order, PaymentProvider, Settlement } from '../../domain/billing/provider.ts';
import { type Change, type Subscription, shadowSubscription } from '../../domain/billing/subscription.ts';

export interface OrderParts {
  /** Apart from what requests wait on. */
  tenants: Pool;
  provider: PaymentProvider;
  /** Runs with what became of an order, in its transaction and once. */
  finished?: (
    sql: Sql,
    scope: TenantScope,
    change: Change,
    before: Subscription,
    settlement: Settlement,
    now: Date,
  ) => Promise<void>;
}

export type Placed =
  | { kind: 'done'; settlement: Settlement }
  | { kind: 'declined' }
  /** Another order is not finished. */
  | { kind: 'busy' }
  /** Its checkout was paid already, it is not due any more, its subscription has changed, or the company is being removed. */
  | { kind: 'closed' }
  | { kind: 'refused'; refusal: Refusal };

/** Milliseconds after which a transaction is given up. */
const patience = 5000;

/** Makes an order and carries it out. @param id of the order @throws Error when it is not known what became of it: it is then found later */
export async function placeOrder(
  parts: OrderParts,
  scope: TenantScope,
  id: string,
  change: Change,
  now: Date,
): Promise<Placed> {
  const begun = await inTransaction<Order | Placed>(parts.tenants, scope, patience, async (sql) => {
    const subscription = await openSubscription(sql, scope, (since) => shadowSubscription(since, now), now);
    if (!subscription || !(await isCompanyOpen(sql, scope.companyId))) return { kind: 'closed' };
    if (await db.findPendingOrder(sql, scope)) return { kind: 'busy' };
    if (isOfCalendar(change) && !isDue(change, subscription, now)) return { kind: 'closed' };
    if ('checkout_session' in change && !(await isOpen(sql, scope, change.checkout_session, now)))
      return { kind: 'closed' };
    const { used } = await findSeats(sql, scope.companyId);
    const refusal = isOfCalendar(change) ? undefined : refusalOf(change, subscription, used, now);
    if (refusal) return { kind: 'refused', refusal };
    await db.insertOrder(
      sql,
      scope,
      { id, change, retryKey: null, askedBy: null, result: db.untold(change.action), base: null },
      now,
    );
    return { ...scope, id, change, subscription, openMinor: await openAmount(sql, scope), askedAt: now, attempt: 1 };
  });
  return 'kind' in begun ? begun : carryOut(parts, begun, null, now);
}

/** Asked under the lock of the subscription: a page that is sent twice pays once. */
async function isOpen(sql: Sql, scope: TenantScope, id: string, now: Date): Promise<boolean> {
  const session = await findCheckout(sql, scope, id);
  return session !== undefined && session.completedAt === null && session.expiresAt > now;
}

/** Asked under the lock, too: another server may have been quicker. */
function isDue({ action }: Change, subscription: Subscription, now: Date): boolean {
  const next = nextStep(subscription, now);
  return next?.kind === 'order' && next.action === action;
}

const isOfCalendar = ({ action }: Change): boolean => action === 'renew' || action === 'charge_again';

/** Goes on with an order that was left. @returns false where somebody else is at it, or it is finished */
export async function resumeOrder(parts: OrderParts, scope: TenantScope, id: string, now: Date): Promise<boolean> {
  const left = await inTransaction(parts.tenants, scope, patience, async (sql) => {
    const subscription = await openSubscription(sql, scope, (since) => shadowSubscription(since, now), now);
    const attempt = subscription && (await db.takeOrder(sql, scope, id, now));
    if (!attempt) return undefined;
    const row = await db.findPendingOrder(sql, scope);
    if (row?.id !== id) return undefined;
    const openMinor = await openAmount(sql, scope);
    const { change, base, createdAt: askedAt } = row;
    const order: Order = { ...scope, id, change, subscription: base ?? subscription, openMinor, askedAt, attempt };
    return { order, askedBy: row.askedBy };
  });
  if (!left) return false;
  await carryOut(parts, left.order, left.askedBy, now);
  return true;
}

async function carryOut(parts: OrderParts, order: Order, askedBy: db.AskedBy, now: Date): Promise<Placed> {
  const { settlement, isOutdated } = await parts.provider.settle(order);
  const { companyId, testMode, change } = order;
  const scope = { companyId, testMode };
  await inTransaction(parts.tenants, scope, patience, async (sql, _tell, note) => {
    const { isFirst, before } = await db.finishOrder(sql, scope, order.id, settlement, now);
    if (!isFirst || !before || !settlement) return;
    note(auditRow(scope, change, askedBy, settlement, now));
    await parts.finished?.(sql, scope, change, before, settlement, now);
  });
  if (isOutdated) return { kind: 'closed' };
  return settlement ? { kind: 'done', settlement } : { kind: 'declined' };
}

function auditRow(
  scope: TenantScope,
  change: Change,
  askedBy: db.AskedBy,
  { after, isPaid }: Settlement,
  now: Date,
): AuditRow {
  const metadata = { status: after.status, package_code: after.packageCode, paid: isPaid };
  const row = ownAuditRow(scope, 'billing', `subscription.${change.action}`, { object: 'subscription', metadata }, now);
  if (!askedBy) return row;
  const { kind, id, name } = askedBy;
  return { ...row, actorKind: kind, actorId: id, apiKeyId: kind === 'api_key' ? id : null, keyName: name };
}
