// Due SLA clocks: breaches, reminders and escalations.
import type { EventRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import { insertNotifications, type NewNotification } from '../../db/records/notifications.ts';
import type { ClockScope } from '../../db/settings/sla-clocks.ts';
import * as due from '../../db/settings/sla-due.ts';
import type { SlaPolicy } from '../../domain/objects/configuration.ts';
import {
  buildReminderText,
  countOverdueMinutes,
  fillTemplate,
  formatReadableTime,
  type MessageValues,
} from '../../domain/settings/sla-messages.ts';
import { findDueSteps } from '../../domain/settings/sla-tracking.ts';
import { getDueTime, type TenantJobContext } from '../runner.ts';

/**
 * Handles everything that is due. Several servers may run it at the same time: each takes what no
 * other has locked.
 * @returns the number of breaches
 */
export async function handleSlaClocks(context: TenantJobContext): Promise<number> {
  const breaches = await handleDueClocks(context);
  if (breaches > 0) context.log.info({ breaches }, 'missed SLA deadlines');
  return breaches;
}

async function handleDueClocks(context: TenantJobContext): Promise<number> {
  const { platform, transaction, batchSize, log, now, signal } = context;
  // A tenant that fails does not delay the clocks of others.
  const report = (companyId: string, error: unknown): void =>
    log.warn({ company: companyId, err: { message: (error as Error).message } }, 'failed to process SLA clocks');
  // Policies are shared by both modes, so a run of one test clock leaves them to the others.
  const revised = context.clockOf === undefined ? await platform.use(due.findRevisedPolicies) : [];
  for (const policy of revised) {
    if (signal.aborted) return 0;
    await followRevision(context, policy).catch((error) => report(policy.companyId, error));
  }
  const failed = new Set<string>();
  let breaches = 0;
  for (;;) {
    const scopes = await platform.use((sql) => due.findDueScopes(sql, [...failed], getDueTime(context)));
    let handled = 0;
    let isFailed = false;
    for (const scope of scopes) {
      if (signal.aborted) return breaches;
      try {
        const done = await transaction(scope, (sql, emit) => handleBatch(sql, emit, scope, batchSize, now()));
        handled += done.handled;
        breaches += done.breaches;
      } catch (error) {
        report(scope.companyId, error);
        failed.add(scope.companyId);
        isFailed = true;
      }
    }
    // The remaining clocks are locked by others. After a failure, further tenants may be waiting
    // behind the failed one.
    if (handled === 0 && !isFailed) return breaches;
  }
}

/** Makes the clocks of a changed policy due again in this run. */
async function followRevision(
  { transaction, batchSize, now: clock }: TenantJobContext,
  policy: due.RevisedPolicy,
): Promise<void> {
  const { companyId, id } = policy;
  const now = clock();
  for (const testMode of [false, true]) {
    const scope = { companyId, testMode };
    let last: string | undefined;
    do {
      const after = last;
      last = await transaction(scope, (sql) => due.wakeClocks(sql, scope, id, after, batchSize, now));
    } while (last !== undefined);
  }
  await transaction({ companyId, testMode: false }, (sql) => due.clearRevision(sql, policy, now));
}

/**
 * Runs in one transaction: a clock is marked as handled together with all its events and
 * notifications.
 */
async function handleBatch(
  sql: Sql,
  emit: (event: EventRow) => void,
  scope: ClockScope,
  batchSize: number,
  now: Date,
): Promise<{ handled: number; breaches: number }> {
  const rows = await due.takeDueClocks(sql, scope, batchSize, now);
  const notifications: NewNotification[] = [];
  const handled = rows.map((row): due.HandledClock => {
    const { policy } = row;
    if (!policy?.isActive) return { id: row.id, isBreached: false, isClosed: true, nextAt: null };
    const steps = findDueSteps(policy, row, now);
    if (steps.breach) emit(buildBreachEvent(row, policy, scope, now));
    // Test data causes no notifications to people.
    if (!scope.testMode) notifications.push(...buildNotifications(row, policy, steps, now));
    return { id: row.id, isBreached: steps.breach, isClosed: false, nextAt: steps.nextAt };
  });
  await insertNotifications(sql, scope.companyId, notifications, now);
  if (handled.length > 0) await due.saveHandledClocks(sql, scope, handled, now);
  return { handled: rows.length, breaches: handled.filter(({ isBreached }) => isBreached).length };
}

function buildBreachEvent(row: due.DueClockRow, policy: SlaPolicy, scope: ClockScope, now: Date): EventRow {
  return {
    ...scope,
    event: 'sla.breached',
    occurredAt: now,
    actor: { kind: 'system', id: 'sla', name: null },
    requestId: null,
    data: {
      object: row.object,
      record_id: row.recordId,
      occurred_at: now.toISOString(),
      sla: {
        policy_id: policy.id,
        policy_name: policy.name,
        type: row.kind,
        deadline: row.dueAt.toISOString(),
        overdue_minutes: countOverdueMinutes(row.dueAt, now),
      },
      level: 0,
    },
  };
}

function buildNotifications(
  row: due.DueClockRow,
  policy: SlaPolicy,
  { reminders, escalations }: Pick<ReturnType<typeof findDueSteps>, 'reminders' | 'escalations'>,
  now: Date,
): NewNotification[] {
  const values: MessageValues = {
    record_name: row.recordName ?? row.recordId,
    entity_type: policy.entityType,
    policy_name: policy.name,
    deadline: formatReadableTime(row.dueAt, policy.timezone),
    overdue_minutes: String(Math.max(0, countOverdueMinutes(row.dueAt, now))),
    assigned_to: row.assignedTo ?? 'nobody',
  };
  const { object, recordId } = row;
  // The owner of the record, too, who has to act.
  const owner = row.assignedToId === null ? [] : [row.assignedToId];
  const notify = (kind: NewNotification['kind'], userIds: readonly string[], title: string) =>
    [...new Set([...userIds, ...owner])].map((userId) => ({ userId, kind, title, object, recordId }));
  return [
    ...reminders.flatMap((each) =>
      notify('sla_reminder', each.recipient_user_ids, buildReminderText(row.kind, values)),
    ),
    ...escalations.flatMap((each) =>
      notify('sla_escalation', each.recipient_user_ids, fillTemplate(each.message_template, values)),
    ),
  ];
}
