// Time-driven steps of subscriptions, and billing operations that were interrupted.
import { v7 as uuidv7 } from 'uuid';
import { findAbandonedOperations, findDueSubscriptions } from '../../db/billing/due.ts';
import { findDueCustomers } from '../../db/billing/provider-customers.ts';
import * as purge from '../../db/billing/purge.ts';
import { lockSubscription, saveSubscription } from '../../db/billing/subscriptions.ts';
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import type { DueTime } from '../../db/client/test-clocks.ts';
import { type BillingMail, findNextStep } from '../../domain/billing/life-cycle.ts';
import type { PaymentProvider, Settlement } from '../../domain/billing/provider.ts';
import type { Change, Subscription } from '../../domain/billing/subscription.ts';
import { buildStorageKey } from '../../domain/records/file-names.ts';
import {
  type OperationServices,
  resumeOperation,
  submitOperation,
} from '../../services/billing/subscription-change.ts';
import { mailAdmins } from '../../services/billing/subscription-mails.ts';
import { getDueTime, type TenantJobContext } from '../runner.ts';

export interface BillingServices {
  /** Deletes the data of companies. */
  purges: Pool;
  provider: PaymentProvider;
  /**
   * Refreshes a company from a provider that manages subscriptions itself; absent without such a
   * provider.
   * @returns false if it has to wait
   */
  follow?: ((companyId: string, now: Date) => Promise<boolean>) | undefined;
  /** Deletes a stored file. Succeeds if the file does not exist. */
  removeFile: (key: string) => Promise<void>;
}

type BillingContext = TenantJobContext & BillingServices;

/**
 * Rows and files per statement, and steps per run, so that a large company does not delay others.
 */
const purgeSteps = { rows: 500, steps: 200, files: 100 };

/**
 * Performs everything that is due. Several servers may run it at the same time.
 * @returns the number of steps
 */
export async function runBilling(jobContext: TenantJobContext, services: BillingServices): Promise<number> {
  const context: BillingContext = { ...jobContext, ...services };
  const { platform, transaction, provider, follow, batchSize, log, signal } = context;
  const dueTime = getDueTime(context);
  const { now } = dueTime;
  const operationServices: OperationServices = { transaction, provider, onFinished: mailOutcome };
  const failed = new Set<string>();
  let steps = 0;
  const each = async <Due extends TenantScope>(
    find: (sql: Sql, besides: readonly string[], limit: number, at: DueTime) => Promise<Due[]>,
    work: (due: Due) => Promise<boolean>,
  ): Promise<void> => {
    for (;;) {
      const found = await platform.use((sql) => find(sql, [...failed], batchSize, dueTime));
      const before = steps;
      for (const due of found) {
        if (signal.aborted) return;
        try {
          if (await work(due)) steps += 1;
          else failed.add(due.companyId);
        } catch (error) {
          // A company that fails does not delay others.
          failed.add(due.companyId);
          log.warn(
            { company: due.companyId, err: { message: (error as Error).message } },
            'subscription step failed; will retry',
          );
        }
      }
      // A company that took a step may have another one.
      if (steps === before && found.length < batchSize) return;
    }
  };
  await each(findAbandonedOperations, (left) => resumeOperation(operationServices, left, left.id, now));
  await each(findDueSubscriptions, (scope) => takeStep(context, operationServices, scope, now));
  // The provider's customers and removed companies are live, so no test clock concerns them.
  if (context.clockOf !== undefined) return steps;
  if (follow)
    await each(
      (sql, besides, limit) => findDueCustomers(sql, besides, limit, now),
      ({ companyId }) => follow(companyId, now),
    );
  await each(
    (sql, besides, limit) => purge.findUnswept(sql, besides, limit, now),
    (scope) => sweepCompany(context, scope, now),
  );
  return steps;
}

/** @returns false if there is nothing to do now */
async function takeStep(
  context: BillingContext,
  operationServices: OperationServices,
  due: TenantScope,
  now: Date,
): Promise<boolean> {
  const scope = { companyId: due.companyId, testMode: due.testMode };
  // A paid trial, or a workspace that resubscribed, may not be stored yet.
  if (context.provider.keepsBooks(scope)) await context.provider.refresh(scope);
  const step = await context.transaction(scope, async (sql, _emit, audit) => {
    const before = await lockSubscription(sql, scope);
    const next = before && findNextStep(before, now);
    if (!before || !next) return undefined;
    if (next.kind === 'turn') {
      await saveSubscription(sql, scope, next.after, now);
      if (next.mail) await mailAdmins(sql, scope, next.mail, next.after, now);
      if (before.status !== next.after.status) {
        const changes = { status: { from: before.status, to: next.after.status } };
        audit(buildSystemAuditRow(scope, 'billing', 'subscription.turn', { object: 'subscription', changes }, now));
      }
    }
    // Test data is not deleted separately. It is deleted with the company.
    if (next.kind === 'purge' && scope.testMode) await saveSubscription(sql, scope, { ...before, dueAt: null }, now);
    return next;
  });
  if (!step) return false;
  if (step.kind === 'purge' && !scope.testMode) return purgeCompany(context, scope, now);
  if (step.kind !== 'operation') return true;
  const submitted = await submitOperation(operationServices, scope, uuidv7(), { action: step.action }, now);
  return submitted.kind === 'done';
}

/**
 * Mails the outcome of a payment to the administrators. It runs in the payment's transaction, so it
 * happens once.
 */
async function mailOutcome(
  sql: Sql,
  scope: TenantScope,
  change: Change,
  before: Subscription,
  { after, isPaid }: Settlement,
  now: Date,
): Promise<void> {
  const mail = chooseMail(change, before, after, isPaid);
  if (mail) await mailAdmins(sql, scope, mail, after, now);
}

function chooseMail(change: Change, before: Subscription, after: Subscription, isPaid: boolean): BillingMail | null {
  if (change.action === 'renew') return isPaid ? null : 'payment_failed';
  if (change.action !== 'charge_again') return null;
  if (isPaid) return 'payment_succeeded';
  return before.status !== after.status ? 'subscription_ended' : null;
}

/** Deletes the data of a company, up to the limit of one run. @returns true when nothing is left */
async function purgeCompany(context: BillingContext, scope: TenantScope, now: Date): Promise<boolean> {
  const { companyId } = scope;
  const within = <T>(work: (sql: Sql) => Promise<T>): Promise<T> =>
    inTransaction(context.purges, scope, context.timeoutMs, work);
  const removed: purge.Removed = {
    endedAt: await within((sql) => purge.closeCompany(sql, companyId)),
    rows: 0,
    files: 0,
  };
  for (let step = 0; step < purgeSteps.steps; step += 1) {
    const rows = await within((sql) => purge.purgeSome(sql, companyId, purgeSteps.rows));
    removed.rows += rows;
    const files = rows > 0 ? 0 : await purgeFiles(context, companyId, within);
    removed.files += files;
    if (rows + files > 0) continue;
    await within(async (sql) => {
      await purge.removeCompany(sql, companyId);
      await purge.noteRemoved(sql, companyId, removed, now);
    });
    context.log.info(
      { company: companyId, rows: removed.rows, files: removed.files },
      'removed all data of a workspace',
    );
    return true;
  }
  await within((sql) => purge.noteRemoved(sql, companyId, removed, null));
  return false;
}

/**
 * Deletes rows that were being written while the company was deleted.
 * @returns true when nothing is left
 */
async function sweepCompany({ purges, timeoutMs }: BillingContext, scope: TenantScope, now: Date): Promise<boolean> {
  const sweep = (sql: Sql) => purge.sweepSome(sql, scope.companyId, purgeSteps.rows, now);
  for (let step = 0; step < purgeSteps.steps; step += 1)
    if ((await inTransaction(purges, scope, timeoutMs, sweep)) === 0) return true;
  return false;
}

/** @returns the number of files */
async function purgeFiles(
  { removeFile }: BillingContext,
  companyId: string,
  within: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>,
): Promise<number> {
  const files = await within((sql) => purge.listCompanyFiles(sql, companyId, purgeSteps.files));
  for (const file of files) await removeFile(buildStorageKey(file));
  const ids = files.map(({ id }) => id);
  if (ids.length > 0) await within((sql) => purge.forgetFiles(sql, companyId, ids));
  return files.length;
}
