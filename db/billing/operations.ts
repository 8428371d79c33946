// Orders to a payment provider: committed before it is asked, finished once.
import type { Settlement } from '../../domain/billing/provider.ts';
import type { Change, Subscription } from '../../domain/billing/subscription.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { completeCheckout } from './checkout-sessions.ts';
import { insertInvoice, settleOpenInvoices } from './invoices.ts';
import { lockSubscription, saveSubscription } from './subscriptions.ts';
import { addToWallet } from './wallet.ts';

/** Who asked for it; null: nobody but the calendar, or a page. */
export type AskedBy = { kind: string; id: string; name: string | null } | null;

/** What the caller is told of a change. */
export interface ChangeResult<Action = Change['action']> {
  action: Action;
  applies: 'immediately' | 'period_end' | null;
  effective: string | null;
  status: string | null;
  module_key: string | null;
  seats: number | null;
}

export interface OperationRow {
  id: string;
  change: Change;
  askedBy: AskedBy;
  status: 'pending' | 'done' | 'declined';
  result: ChangeResult;
  /** How often it was taken up. */
  attempts: number;
  leasedUntil: Date;
  createdAt: Date;
  /** What the change was computed from; null if that is what is stored. */
  base: Subscription | null;
}

/** The result of an operation that no caller waits for. */
export const pendingResult = (action: Change['action']): ChangeResult => ({
  action,
  applies: null,
  effective: null,
  status: null,
  module_key: null,
  seats: null,
});

/** Milliseconds after which a server that carries an operation out is taken for dead; longer than a provider is waited for. */
const lease = 60_000;

const columns = (sql: Sql) => sql`
  id, change, asked_by, status, result, attempts, leased_until, created_at, base`;

/** The operation that is not finished. There is one at most. */
export async function findPendingOperation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
): Promise<OperationRow | undefined> {
  const [row] = await sql<OperationRow[]>`
    select ${columns(sql)} from billing_operations
    where company_id = ${companyId} and test_mode = ${testMode} and status = 'pending'`;
  return row && withDates(row);
}

/** The last operation of a call that is retried. One that was declined does not count: the retry makes another. */
export async function findOperationOfKey(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  retryKey: string,
  since: Date,
): Promise<OperationRow | undefined> {
  const [row] = await sql<OperationRow[]>`
    select ${columns(sql)} from billing_operations
    where company_id = ${companyId} and test_mode = ${testMode} and retry_key = ${retryKey} and created_at >= ${since}
      and status <> 'declined'
    order by created_at desc, id desc
    limit 1`;
  return row && withDates(row);
}

/** JSON has no dates. */
function withDates(row: OperationRow): OperationRow {
  const { base } = row;
  if (!base) return row;
  const read = (time: Date): Date => new Date(time);
  const readOptional = (time: Date | null): Date | null => (time === null ? null : read(time));
  return {
    ...row,
    base: {
      ...base,
      trialEndsAt: readOptional(base.trialEndsAt),
      periodStart: read(base.periodStart),
      periodEnd: read(base.periodEnd),
      endedAt: readOptional(base.endedAt),
      pastDueSince: readOptional(base.pastDueSince),
      agreementEndsAt: readOptional(base.agreementEndsAt),
      dueAt: readOptional(base.dueAt),
      updatedAt: read(base.updatedAt),
    },
  };
}

export interface NewOperation {
  id: string;
  change: Change;
  retryKey: string | null;
  askedBy: AskedBy;
  result: ChangeResult;
  /** Kept for retries if the provider keeps books of its own. */
  base: Subscription | null;
}

export async function insertOperation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, change, retryKey, askedBy, result, base }: NewOperation,
  now: Date,
): Promise<void> {
  await sql`
    insert into billing_operations (company_id, test_mode, id, change, retry_key, asked_by, result, base, leased_until, created_at)
    values (${companyId}, ${testMode}, ${id}, ${sql.json(change as never)}, ${retryKey}, ${askedBy && sql.json(askedBy)},
      ${sql.json(result as never)}, ${base && sql.json(base as never)}, ${new Date(now.getTime() + lease)}, ${now})`;
}

/** Takes up an operation that was left. @returns the number of the try; undefined if somebody else has it, or it is finished */
export async function takeOperation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<number | undefined> {
  const [taken] = await sql<{ attempts: number }[]>`
    update billing_operations set leased_until = ${new Date(now.getTime() + lease)}, attempts = attempts + 1
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'pending' and leased_until <= ${now}
    returning attempts`;
  return taken?.attempts;
}

/** Ends the lease of an operation, so that it can be taken up at once. */
export async function releaseOperation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  now: Date,
): Promise<void> {
  await sql`
    update billing_operations set leased_until = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'pending'`;
}

/** The outcome of finishing an operation. */
export interface Finished {
  /** False if somebody else was first; nothing was written then. */
  isFirst: boolean;
  before: Subscription | undefined;
}

/** Writes the outcome of an operation, once. @param settlement undefined: it was declined, and nothing changes */
export async function finishOperation(
  sql: Sql,
  scope: TenantScope,
  id: string,
  settlement: Settlement | undefined,
  now: Date,
): Promise<Finished> {
  const { companyId, testMode } = scope;
  const before = await lockSubscription(sql, scope);
  const closed = await sql`
    update billing_operations set status = ${settlement ? 'done' : 'declined'}, finished_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and status = 'pending'`;
  if (closed.count === 0 || !before) return { isFirst: false, before };
  if (!settlement || settlement.isWritten) return { isFirst: true, before };
  // The card on file may have been changed since the operation was made.
  const paymentMethod = settlement.card ?? before.paymentMethod;
  await saveSubscription(sql, scope, { ...settlement.after, paymentMethod }, now);
  if (settlement.walletMinor) await addToWallet(sql, scope, id, settlement.walletMinor, now);
  if (settlement.checkoutSession) await completeCheckout(sql, scope, settlement.checkoutSession, now);
  if (settlement.openInvoice) await settleOpenInvoices(sql, scope, settlement.openInvoice, now);
  if (settlement.invoice) await insertInvoice(sql, scope, id, settlement.invoice, settlement.isPaid, now);
  return { isFirst: true, before };
}
