// Changes subscriptions through the payment provider, once each: for calls, pages and jobs.
//
// A change is a billing operation with three phases:
// 1. Record it in a transaction under the lock of the subscription, or find the operation of an
//   earlier attempt.
// 2. Ask the provider while no transaction is open. The provider's idempotency keys derive from the
//   operation's id, and it looks up the outcome before it sends anything again.
// 3. Finish it: one transaction writes the outcome, unless another process has done so.
// An operation whose server crashed stays pending until its lease expires. Then a retry of the call
// or the billing job continues from phase 2.
import { v7 as uuidv7 } from 'uuid';
import { findCheckout } from '../../db/billing/checkout-sessions.ts';
import { openAmount } from '../../db/billing/invoices.ts';
import * as operations from '../../db/billing/operations.ts';
import { isCompanyOpen } from '../../db/billing/purge.ts';
import { openSubscription } from '../../db/billing/subscriptions.ts';
import { type AuditRow, buildSystemAuditRow } from '../../db/client/change-log.ts';
import { computeRetryKey } from '../../db/client/idempotency.ts';
import type { TransactionWork } from '../../db/client/in-transaction.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findSeats } from '../../db/people/users.ts';
import { toLowestId } from '../../domain/access/request-ids.ts';
import { addOns, plans } from '../../domain/billing/catalogue.ts';
import { type ChangeRejection, computeConsequence, findRejection, isAddOn } from '../../domain/billing/changes.ts';
import { findNextStep } from '../../domain/billing/life-cycle.ts';
import type { BillingOperation, OperationResult, PaymentProvider, Settlement } from '../../domain/billing/provider.ts';
import {
  type AskedChange,
  buildShadowSubscription,
  type Change,
  type Subscription,
} from '../../domain/billing/subscription.ts';
import {
  ApiError,
  buildProblem,
  conflict,
  notFound,
  orNotFound,
  stillRunning,
  validationFailed,
} from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

// The phases, shared by all entry points.

/** A recorded operation that this process carries out. */
interface Started {
  operation: BillingOperation;
  requestedBy: operations.AskedBy;
}

/** How an entry point accesses the database and the provider. */
interface Phases {
  /**
   * Runs work in a transaction. `record` writes the audit trail of an operation that this call
   * finished first.
   */
  transaction<Result>(
    work: (
      sql: Sql,
      record: (started: Started, before: Subscription, settlement: Settlement) => Promise<void> | void,
    ) => Promise<Result>,
  ): Promise<Result>;
  /** Asks the provider while no transaction is open. */
  settle(operation: BillingOperation): Promise<OperationResult>;
}

/** Locks the subscription. @returns undefined if the workspace has none */
const lock = (sql: Sql, scope: TenantScope, now: Date): Promise<Subscription | undefined> =>
  openSubscription(sql, scope, (since) => buildShadowSubscription(since, now), now);

/** Returns why the subscription does not allow a change; undefined if it does. */
async function findChangeRejection(
  sql: Sql,
  { companyId }: TenantScope,
  change: Change,
  subscription: Subscription,
  now: Date,
): Promise<ChangeRejection | undefined> {
  const { used } = await findSeats(sql, companyId);
  return findRejection(change, subscription, used, now);
}

/** Phase 1: records a new operation, under the lock of its subscription. */
async function recordOperation(
  sql: Sql,
  scope: TenantScope,
  subscription: Subscription,
  openMinor: number,
  row: operations.NewOperation,
  now: Date,
): Promise<Started> {
  await operations.insertOperation(sql, scope, row, now);
  const { id, change, askedBy: requestedBy } = row;
  return { operation: { ...scope, id, change, subscription, openMinor, askedAt: now, attempt: 1 }, requestedBy };
}

/**
 * Phase 1: leases the operation of an earlier attempt, under the lock of its subscription.
 * @returns undefined if another process carries it out
 */
async function takeUp(
  sql: Sql,
  scope: TenantScope,
  { id, change, base, askedBy: requestedBy, createdAt: askedAt }: operations.OperationRow,
  stored: Subscription,
  now: Date,
): Promise<Started | undefined> {
  const attempt = await operations.takeOperation(sql, scope, id, now);
  if (!attempt) return undefined;
  const openMinor = await openAmount(sql, scope);
  return {
    operation: { ...scope, id, change, subscription: base ?? stored, openMinor, askedAt, attempt },
    requestedBy,
  };
}

/** Phases 2 and 3. @throws Error if the outcome is unknown; a later attempt determines it */
async function carryOut(phases: Phases, started: Started, now: Date): Promise<OperationResult> {
  const { operation } = started;
  const result = await phases.settle(operation);
  const { settlement } = result;
  await phases.transaction(async (sql, record) => {
    const { isFirst, before } = await operations.finishOperation(sql, operation, operation.id, settlement, now);
    if (isFirst && before && settlement) await record(started, before, settlement);
  });
  return result;
}

// Calls: the caller waits for the outcome.

type BillingCall = Pick<Call, 'db' | 'caller' | 'now' | 'arrivedAt' | 'request' | 'services'>;

/** The response to the caller. */
export type ChangeResponse = operations.ChangeResult<AskedChange['action']>;

/** Milliseconds within which a call with the same Idempotency-Key counts as a retry. */
const retryWindowMs = 24 * 3_600_000;

/** How often a change is recomputed because the subscription changed at the provider meanwhile. */
const mostAttempts = 3;

/**
 * Changes the subscription of the caller's mode. The change is computed from the provider's current
 * state, not from the stored one. A retry with the same Idempotency-Key continues the first
 * attempt.
 * @returns the response
 * @throws ApiError 409 if the subscription does not allow the change, 402 if the card is declined
 */
export async function changeSubscription(call: BillingCall, change: AskedChange): Promise<ChangeResponse> {
  const phases = buildPhases(call);
  for (let attempt = 1; attempt <= mostAttempts; attempt += 1) {
    const { started, response } = await begin(call, change);
    if (!started) return response;
    const { declined, isOutdated } = await carryOut(phases, started, call.now);
    if (declined) throw cardDeclined(declined.actionUrl);
    if (!isOutdated) return response;
  }
  // The operation of the last attempt is committed as closed, together with this error.
  throw changeInProgress({ keepsWork: true });
}

/**
 * Uses the call's own transactions. If the outcome is unknown, the operation's lease is released
 * for the next attempt.
 */
function buildPhases(call: BillingCall): Phases {
  const { payments } = call.services;
  return {
    transaction: (work) =>
      work(call.db.sql, ({ operation }, _before, { after }) => recordChange(call, operation, after)),
    async settle(operation) {
      try {
        return await call.db.commitThenRun(() => payments.settle(operation));
      } catch (error) {
        await operations.releaseOperation(call.db.sql, operation, operation.id, call.now);
        throw error;
      }
    },
  };
}

/**
 * Leases the operation of an earlier attempt, or records a new one. Without an operation, the
 * response of the first attempt is returned.
 */
async function begin(
  call: BillingCall,
  change: AskedChange,
): Promise<{ started: Started | undefined; response: ChangeResponse }> {
  const scope = toTenantScope(call);
  const { subscription, known } = await lockWithOperation(call);
  if (known) {
    // The key belongs to the API operation, so the stored response is of the same kind.
    const response = known.result as ChangeResponse;
    if (known.status === 'done') return { started: undefined, response };
    const started = await takeUp(call.db.sql, scope, known, subscription, call.now);
    // The billing job may be carrying it out.
    if (!started) throw stillRunning();
    return { started, response };
  }
  if (await operations.findPendingOperation(call.db.sql, scope)) throw changeInProgress();
  const { payments } = call.services;
  if (!payments.keepsBooks(scope)) return create(call, change, subscription, null);
  await call.db.commitThenRun(() => payments.refresh(scope));
  const refreshed = await lockWithOperation(call);
  // Another call used the key while the provider was asked.
  if (refreshed.known) throw stillRunning();
  if (await operations.findPendingOperation(call.db.sql, scope)) throw changeInProgress();
  return create(call, change, refreshed.subscription, refreshed.subscription);
}

/**
 * Locks the subscription, and finds the operation of an earlier attempt with the same
 * Idempotency-Key.
 */
async function lockWithOperation(
  call: BillingCall,
): Promise<{ subscription: Subscription; known: operations.OperationRow | undefined }> {
  const { now, arrivedAt } = call;
  const { sql } = call.db;
  const { retryKey } = call.request;
  const subscription = orNotFound(await lock(sql, toTenantScope(call), now));
  if (retryKey === null) return { subscription, known: undefined };
  // By ids, which contain the real time: the clock of test mode does not shorten the window.
  const firstId = toLowestId(arrivedAt.getTime() - retryWindowMs);
  return { subscription, known: await operations.findOperationOfKey(sql, toTenantScope(call), retryKey, firstId) };
}

/**
 * Returns true if a call with an Idempotency-Key has started a change, so that the same call repeats
 * or continues it.
 * @param endpoint method and path of the call
 */
export async function isChangeStarted(
  sql: Sql,
  scope: TenantScope,
  endpoint: string,
  key: string,
  now: Date,
): Promise<boolean> {
  const firstId = toLowestId(now.getTime() - retryWindowMs);
  return (await operations.findOperationOfKey(sql, scope, computeRetryKey({ endpoint, key }), firstId)) !== undefined;
}

/**
 * @param base the subscription from which the change is computed; stored if a retry must compare it
 * with the provider's state
 */
async function create(
  call: BillingCall,
  change: AskedChange,
  subscription: Subscription,
  base: Subscription | null,
): Promise<{ started: Started; response: ChangeResponse }> {
  const { caller, now } = call;
  const { sql } = call.db;
  const scope = toTenantScope(call);
  requireRecentProration('prorated_at' in change ? change.prorated_at : undefined, now);
  const rejection = await findChangeRejection(sql, scope, change, subscription, now);
  if (rejection) throw toRejectionError(rejection);
  const openMinor = await openAmount(sql, scope);
  const { applies, effective } = computeConsequence(change, subscription, openMinor, now);
  const response = toResponse(change, applies, effective);
  const { retryKey } = call.request;
  const row = { id: uuidv7(), change, retryKey, askedBy: caller.actor, result: response, base };
  return { started: await recordOperation(sql, scope, subscription, openMinor, row, now), response };
}

/** @throws ApiError 422 if the module cannot be bought */
export function requireAddOn(key: string): void {
  if (isAddOn(key)) return;
  const message = 'module_key must be the key of an add-on module. GET /v1/modules lists them.';
  throw validationFailed(
    [buildProblem('module_key', 'INVALID_OPTION', message, { allowed: Object.keys(addOns) })],
    422,
  );
}

/** @throws ApiError 404 if the key names neither a module nor a plan, which is the base of a subscription */
export function requireModule(key: string): void {
  if (!isAddOn(key) && !Object.hasOwn(plans, key)) throw notFound();
}

/** Milliseconds for which the proration of a preview can be used. */
const prorationWindowMs = 15 * 60_000;
/** Milliseconds by which the clocks of servers may differ. */
const clockSkewMs = 60_000;

/** @throws ApiError 400 if the time is not that of a recent preview */
export function requireRecentProration(proratedAt: string | undefined, now: Date): void {
  if (proratedAt === undefined) return;
  const age = now.getTime() - Date.parse(proratedAt);
  if (age <= prorationWindowMs && age >= -clockSkewMs) return;
  throw toOutdatedError('prorated_at must be the time of a preview of the last 15 minutes. Preview the change again.');
}

const toOutdatedError = (message: string): ApiError =>
  validationFailed([buildProblem('prorated_at', 'OUT_OF_RANGE', message)], 400);

const toTenantScope = ({ caller: { companyId, testMode } }: BillingCall): TenantScope => ({ companyId, testMode });

function toResponse(change: AskedChange, applies: 'immediately' | 'period_end', effective: Date): ChangeResponse {
  return {
    action: change.action,
    applies,
    effective: effective.toISOString(),
    status: change.action === 'add_module' ? 'pending_webhook' : null,
    module_key: 'module_key' in change ? change.module_key : null,
    seats: change.action === 'set_seats' ? change.seats : null,
  };
}

/** Records the changed fields of a subscription in the audit log. */
function recordChange(
  call: BillingCall,
  { change, subscription: before }: BillingOperation,
  after: Subscription,
): void {
  const names = ['packageCode', 'billingCycle', 'seats', 'addOns', 'cancelAtPeriodEnd', 'scheduled'] as const;
  const changes = Object.fromEntries(
    names
      .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
      .map((name) => [
        name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
        { from: before[name], to: after[name] },
      ]),
  );
  call.db.record({ action: `subscription.${change.action}`, object: 'subscription', changes });
}

export const changeInProgress = (options: { keepsWork?: boolean } = {}): ApiError =>
  new ApiError(
    'CONFLICT',
    'Another change to this subscription is in progress. Try again shortly.',
    { reason: 'change_in_progress' },
    options,
  );

/** Converts a rejected change to an error. */
export function toRejectionError({ code, message, reason, more }: ChangeRejection): ApiError {
  if (code === 'CONFLICT') return conflict(reason ?? '', message, more);
  if (code === 'PREVIEW_OUTDATED') return toOutdatedError(message);
  return new ApiError(code, message);
}

const cardDeclined = (actionUrl: string | null): ApiError =>
  new ApiError(
    'CARD_CHARGE_FAILED',
    'The card was declined, and nothing was changed. Add another payment method.',
    actionUrl === null ? undefined : { action_url: actionUrl },
    { keepsWork: true },
  );

// Pages and jobs: no call waits for the outcome.

/** Dependencies of an operation without a call. */
export interface OperationServices {
  /** Runs work in a transaction of the scope, on connections separate from those of requests. */
  transaction<Result>(scope: TenantScope, work: TransactionWork<Result>): Promise<Result>;
  provider: PaymentProvider;
  /** Called once with the outcome of an operation, in its transaction. */
  onFinished?: (
    sql: Sql,
    scope: TenantScope,
    change: Change,
    before: Subscription,
    settlement: Settlement,
    now: Date,
  ) => Promise<void>;
}

export type SubmittedOperation =
  | { kind: 'done'; settlement: Settlement }
  | { kind: 'declined' }
  /** Another operation is not finished. */
  | { kind: 'busy' }
  /**
   * Its checkout is already paid, it is no longer due, its subscription has changed, or the company
   * is being deleted.
   */
  | { kind: 'closed' }
  | { kind: 'refused'; refusal: ChangeRejection };

/**
 * Records an operation and carries it out.
 * @param id the id of the operation
 * @throws Error if the outcome is unknown; a later attempt determines it
 */
export async function submitOperation(
  services: OperationServices,
  scope: TenantScope,
  id: string,
  change: Change,
  now: Date,
): Promise<SubmittedOperation> {
  const begun = await services.transaction<Started | SubmittedOperation>(scope, async (sql) => {
    const subscription = await lock(sql, scope, now);
    if (!subscription || !(await isCompanyOpen(sql, scope.companyId))) return { kind: 'closed' };
    if (await operations.findPendingOperation(sql, scope)) return { kind: 'busy' };
    if (isScheduled(change)) {
      if (!isDue(change, subscription, now)) return { kind: 'closed' };
    } else {
      if ('checkout_session' in change && !(await isCheckoutOpen(sql, scope, change.checkout_session)))
        return { kind: 'closed' };
      const refusal = await findChangeRejection(sql, scope, change, subscription, now);
      if (refusal) return { kind: 'refused', refusal };
    }
    const openMinor = await openAmount(sql, scope);
    const result = operations.buildPendingResult(change.action);
    const row = { id, change, retryKey: null, askedBy: null, result, base: null };
    return recordOperation(sql, scope, subscription, openMinor, row, now);
  });
  if ('kind' in begun) return begun;
  const { settlement, isOutdated } = await carryOut(backgroundPhases(services, scope, now), begun, now);
  if (isOutdated) return { kind: 'closed' };
  return settlement ? { kind: 'done', settlement } : { kind: 'declined' };
}

/**
 * Continues an interrupted operation.
 * @returns false if another process carries it out, or it is finished
 */
export async function resumeOperation(
  services: OperationServices,
  scope: TenantScope,
  id: string,
  now: Date,
): Promise<boolean> {
  const started = await services.transaction(scope, async (sql) => {
    const subscription = await lock(sql, scope, now);
    if (!subscription) return undefined;
    const row = await operations.findPendingOperation(sql, scope);
    return row?.id === id ? takeUp(sql, scope, row, subscription, now) : undefined;
  });
  if (!started) return false;
  await carryOut(backgroundPhases(services, scope, now), started, now);
  return true;
}

function backgroundPhases(
  { transaction, provider, onFinished }: OperationServices,
  scope: TenantScope,
  now: Date,
): Phases {
  return {
    transaction: (work) =>
      transaction(scope, (sql, _emit, audit) =>
        work(sql, async (started, before, settlement) => {
          audit(auditRow(scope, started, settlement, now));
          await onFinished?.(sql, scope, started.operation.change, before, settlement, now);
        }),
      ),
    settle: (operation) => provider.settle(operation),
  };
}

/** Returns true for time-driven changes. */
const isScheduled = ({ action }: Change): boolean => action === 'renew' || action === 'charge_again';

/** Checked under the lock of the subscription, because another server may have been faster. */
function isDue({ action }: Change, subscription: Subscription, now: Date): boolean {
  const next = findNextStep(subscription, now);
  return next?.kind === 'operation' && next.action === action;
}

/**
 * Also checked under the lock, so that a page submitted twice pays once. The page has checked the
 * expiry, which is on the real time.
 */
async function isCheckoutOpen(sql: Sql, scope: TenantScope, id: string): Promise<boolean> {
  const session = await findCheckout(sql, scope, id);
  return session !== undefined && session.completedAt === null;
}

function auditRow(
  scope: TenantScope,
  { operation, requestedBy }: Started,
  { after, isPaid }: Settlement,
  now: Date,
): AuditRow {
  const metadata = { status: after.status, package_code: after.packageCode, paid: isPaid };
  const action = `subscription.${operation.change.action}`;
  const row = buildSystemAuditRow(scope, 'billing', action, { object: 'subscription', metadata }, now);
  if (!requestedBy) return row;
  const { kind, id, name } = requestedBy;
  return { ...row, actorKind: kind, actorId: id, apiKeyId: kind === 'api_key' ? id : null, keyName: name };
}
