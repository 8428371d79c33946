// What becomes of subscriptions as time passes, and orders to payment providers that were left.
import { v7 as uuidv7 } from 'uuid';
import { findDueSubscriptions, findLeftOrders } from '../../db/billing/due.ts';
import { findDueCustomers } from '../../db/billing/provider-customers.ts';
import * as purge from '../../db/billing/purge.ts';
import { lockSubscription, saveSubscription } from '../../db/billing/subscriptions.ts';
import { ownAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { type BillingMail, nextStep } from '../../domain/billing/life-cycle.ts';
import type { PaymentProvider, Settlement } from '../../domain/billing/provider.ts';
import type { Change, Subscription } from '../../domain/billing/subscription.ts';
import { storageKey } from '../../domain/records/file-names.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { type OrderParts, placeOrder, resumeOrder } from '../../services/billing/orders.ts';
import { tellAdmins } from '../../services/billing/subscription-mails.ts';
import { everyRound } from '../runner.ts';

export interface BillingParts {
  /** Finds whose turn it is. */
  platform: Pool;
  /** Everything else, bound to one tenant at a time. */
  tenants: Pool;
  /** Removes what is a company's. */
  purges: Pool;
  provider: PaymentProvider;
  /** Looks at the customer of a company at a provider with books of its own; undefined: there is no such provider. @returns false where it has to wait */
  follow?: ((companyId: string, now: Date) => Promise<boolean>) | undefined;
  /** Removes a file from the storage; one that is not there is removed already. */
  removeFile: (key: string) => Promise<void>;
  log: Log;
}

/** Milliseconds between two rounds. */
const every = 5000;
/** Subscriptions and orders that are found at once. */
const batch = 100;
/** Milliseconds after which a transaction is given up. */
const patience = 5000;
/** Rows that are removed at once, and steps of a removal in one round: the others do not wait for a large company. */
const purgeSteps = { rows: 500, steps: 200, files: 100 };

/** Starts the rounds. @returns a function that stops them, once the step on its way has ended or a few seconds have passed */
export function startBilling(parts: BillingParts): () => Promise<void> {
  const log = parts.log.child({ job: 'billing' });
  return everyRound(every, async (stop) => void (await runBilling({ ...parts, log }, new Date(), stop)), log);
}

/** Does all that is due by a moment. Servers may do so at the same time. @returns how many steps that were */
export async function runBilling(parts: BillingParts, now: Date, stop?: AbortSignal): Promise<number> {
  const orders: OrderParts = { tenants: parts.tenants, provider: parts.provider, finished: tellOfOrder };
  const failed = new Set<string>();
  let steps = 0;
  const each = async <Due extends TenantScope>(
    find: (sql: Sql, besides: readonly string[], limit: number, at: Date) => Promise<Due[]>,
    work: (due: Due) => Promise<boolean>,
  ): Promise<void> => {
    for (;;) {
      const found = await parts.platform.use((sql) => find(sql, [...failed], batch, now));
      const before = steps;
      for (const due of found) {
        if (stop?.aborted) return;
        try {
          if (await work(due)) steps += 1;
          else failed.add(due.companyId);
        } catch (error) {
          // The others do not wait for one that fails.
          failed.add(due.companyId);
          parts.log.warn(
            { company: due.companyId, err: { message: (error as Error).message } },
            'a step of a subscription failed; the next round tries again',
          );
        }
      }
      // What took a step may have another to take.
      if (steps === before && found.length < batch) return;
    }
  };
  await each(findLeftOrders, (order) => resumeOrder(orders, order, order.id, now));
  const { follow } = parts;
  if (follow) await each(findDueCustomers, ({ companyId }) => follow(companyId, now));
  await each(findDueSubscriptions, (scope) => takeStep(parts, orders, scope, now));
  await each(purge.findUnswept, (scope) => sweepCompany(parts, scope, now));
  return steps;
}

/** @returns false where there is nothing to do for now */
async function takeStep(parts: BillingParts, orders: OrderParts, due: TenantScope, now: Date): Promise<boolean> {
  const scope = { companyId: due.companyId, testMode: due.testMode };
  // A trial that was paid for, or a workspace that came back, may not have been heard of yet.
  if (parts.provider.keepsBooks(scope)) await parts.provider.refresh(scope);
  const step = await inTransaction(parts.tenants, scope, patience, async (sql, _tell, note) => {
    const before = await lockSubscription(sql, scope);
    const next = before && nextStep(before, now);
    if (!before || !next) return undefined;
    if (next.kind === 'turn') {
      await saveSubscription(sql, scope, next.after, now);
      if (next.mail) await tellAdmins(sql, scope, next.mail, next.after, now);
      if (before.status !== next.after.status) {
        const changes = { status: { from: before.status, to: next.after.status } };
        note(ownAuditRow(scope, 'billing', 'subscription.turn', { object: 'subscription', changes }, now));
      }
    }
    // Of test data nothing is removed: it goes with the company.
    if (next.kind === 'purge' && scope.testMode) await saveSubscription(sql, scope, { ...before, dueAt: null }, now);
    return next;
  });
  if (!step) return false;
  if (step.kind === 'purge' && !scope.testMode) return purgeCompany(parts, scope, now);
  if (step.kind !== 'order') return true;
  const placed = await placeOrder(orders, scope, uuidv7(), { action: step.action }, now);
  return placed.kind === 'done';
}

/** Tells the administrators what became of a payment; with it, and so once. */
async function tellOfOrder(
  sql: Sql,
  scope: TenantScope,
  change: Change,
  before: Subscription,
  { after, isPaid }: Settlement,
  now: Date,
): Promise<void> {
  const mail = mailOf(change, before, after, isPaid);
  if (mail) await tellAdmins(sql, scope, mail, after, now);
}

function mailOf(change: Change, before: Subscription, after: Subscription, isPaid: boolean): BillingMail | null {
  if (change.action === 'renew') return isPaid ? null : 'payment_failed';
  if (change.action !== 'charge_again') return null;
  if (isPaid) return 'payment_succeeded';
  return before.status !== after.status ? 'subscription_ended' : null;
}

/** Removes everything of a company, as far as one round goes. @returns true when nothing is left */
async function purgeCompany(parts: BillingParts, scope: TenantScope, now: Date): Promise<boolean> {
  const { companyId } = scope;
  const within = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => inTransaction(parts.purges, scope, patience, work);
  const removed: purge.Removed = {
    endedAt: await within((sql) => purge.closeCompany(sql, companyId)),
    rows: 0,
    files: 0,
  };
  for (let step = 0; step < purgeSteps.steps; step += 1) {
    const rows = await within((sql) => purge.purgeSome(sql, companyId, purgeSteps.rows));
    removed.rows += rows;
    const files = rows > 0 ? 0 : await purgeFiles(parts, companyId, within);
    removed.files += files;
    if (rows + files > 0) continue;
    await within(async (sql) => {
      await purge.removeCompany(sql, companyId);
      await purge.noteRemoved(sql, companyId, removed, now);
    });
    parts.log.info(
      { company: companyId, rows: removed.rows, files: removed.files },
      'everything of a company was removed',
    );
    return true;
  }
  await within((sql) => purge.noteRemoved(sql, companyId, removed, null));
  return false;
}

/** Removes what was being written to a company while it was removed. @returns true when nothing is left */
async function sweepCompany({ purges }: BillingParts, scope: TenantScope, now: Date): Promise<boolean> {
  const sweep = (sql: Sql) => purge.sweepSome(sql, scope.companyId, purgeSteps.rows, now);
  for (let step = 0; step < purgeSteps.steps; step += 1)
    if ((await inTransaction(purges, scope, patience, sweep)) === 0) return true;
  return false;
}

/** @returns how many */
async function purgeFiles(
  { removeFile }: BillingParts,
  companyId: string,
  within: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>,
): Promise<number> {
  const files = await within((sql) => purge.findFilesOf(sql, companyId, purgeSteps.files));
  for (const file of files) await removeFile(storageKey(file));
  const ids = files.map(({ id }) => id);
  if (ids.length > 0) await within((sql) => purge.forgetFiles(sql, companyId, ids));
  return files.length;
}
