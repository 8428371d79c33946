// Billing operations: committed before the payment provider is called, finished exactly once.
import type { Settlement } from '../../domain/billing/provider.ts';
import type { Change, Subscription } from '../../domain/billing/subscription.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { completeCheckout } from './checkout-sessions.ts';
import { insertInvoice, settleOpenInvoices } from './invoices.ts';
import { lockSubscription, saveSubscription } from './subscriptions.ts';
import { addToWallet } from './wallet.ts';

/** The actor who requested the operation; null for scheduled changes and pages. */
export type AskedBy = { kind: string; id: string; name: string | null } | null;

/** The change, as the response shows it. */
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
  /** How many times a server has started it. */
  attempts: number;
  leasedUntil: Date;
  createdAt: Date;
  /** The subscription from which the change was computed; null if that is the stored one. */
  base: Subscription | null;
}

/** Returns the result of an operation that no caller waits for. */
export const buildPendingResult = (action: Change['action']): ChangeResult => ({
  action,
  applies: null,
  effective: null,
  status: null,
  module_key: null,
  seats: null,
});

/**
 * Milliseconds after which a server that carries out an operation counts as dead. Longer than the
 * timeout for the provider.
 */
const lease = 60_000;

const columns = (sql: Sql) => sql`
  id, change, asked_by, status, result, attempts, leased_until, created_at, base`;

/** Returns the unfinished operation. There is at most one. */
export async function findPendingOperation(
  sql: Sql,
  { companyId, testMode }: TenantScope,
): Promise<OperationRow | undefined> {
  const [row] = await sql<OperationRow[]>`
    select ${columns(sql)} from billing_operations
    where company_id = ${companyId} and test_mode = ${testMode} and status = 'pending'`;
  return row && withDates(row);
}

/**
 * Returns the last operation of a call that is retried. One that was declined does not count: the
 * retry creates a new one.
 * @param firstId the lowest id of an operation of the same call. Ids contain their time
 */
export async function findOperationOfKey(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  retryKey: string,
  firstId: string,
): Promise<OperationRow | undefined> {
  const [row] = await sql<OperationRow[]>`
    select ${columns(sql)} from billing_operations
    where company_id = ${companyId} and test_mode = ${testMode} and retry_key = ${retryKey} and id >= ${firstId}
      and status <> 'declined'
    order by id desc
    limit 1`;
  return row && withDates(row);
}

/** Restores dates, which JSON has as text. */
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
  /** Stored for retries if the provider keeps its own invoices and subscriptions. */
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

/**
 * Takes over an unfinished operation.
 * @returns the number of the attempt; undefined if another server has it, or if it is finished
 */
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

/** Ends the lease of an operation, so that it can be taken over immediately. */
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

/** The outcome of finishOperation. */
export interface Finished {
  /** False if another server finished it first. Then nothing was written. */
  isFirst: boolean;
  before: Subscription | undefined;
}

/**
 * Stores the outcome of an operation, once.
 * @param settlement undefined: it was declined, and nothing changes
 */
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
  // The stored card may have been changed since the operation was created.
  const paymentMethod = settlement.card ?? before.paymentMethod;
  await saveSubscription(sql, scope, { ...settlement.after, paymentMethod }, now);
  if (settlement.walletMinor) await addToWallet(sql, scope, id, settlement.walletMinor, now);
  if (settlement.checkoutSession) await completeCheckout(sql, scope, settlement.checkoutSession, now);
  if (settlement.openInvoice) await settleOpenInvoices(sql, scope, settlement.openInvoice, now);
  if (settlement.invoice) await insertInvoice(sql, scope, id, settlement.invoice, settlement.isPaid, now);
  return { isFirst: true, before };
}
