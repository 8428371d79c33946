// SLA clocks whose time has come: breaches, reminders and escalations.

import type { EventRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/job-transactions.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import type { ClockScope } from '../../db/settings/sla-clocks.ts';
import * as due from '../../db/settings/sla-due.ts';
import type { SlaPolicy } from '../../domain/objects/configuration.ts';
import {
  fillTemplate,
  type MessageValues,
  overdueMinutes,
  readableTime,
  reminderText,
} from '../../domain/settings/sla-messages.ts';
import { dueSteps } from '../../domain/settings/sla-tracking.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

export interface SlaPools {
  /** Finds whose clocks are due. */
  platform: Pool;
  /** Everything else, bound to one tenant at a time. */
  tenants: Pool;
}

/** Milliseconds between two rounds. */
const every = 30_000;
/** Clocks that are handled in one transaction. */
const batch = 200;
/** Milliseconds after which a transaction is given up. */
const patience = 5000;

/**
 * Starts the rounds.
 * @returns a function that stops them, once the transaction on its way has ended or a few seconds have passed
 */
export function startSla(pools: SlaPools, log: Log, now: () => Date = () => new Date()): () => Promise<void> {
  const round = async (stop: AbortSignal): Promise<void> => {
    const breaches = await runSlaRound(pools, log, now, stop);
    if (breaches > 0) log.info({ breaches }, 'SLA deadlines have passed');
  };
  return everyRound(every, round, log.child({ job: 'SLA' }));
}

/**
 * Handles everything that is due. Servers may do so at the same time: each takes what no other holds.
 * @returns the number of breaches
 */
export async function runSlaRound(pools: SlaPools, log: Log, now: () => Date, stop?: AbortSignal): Promise<number> {
  // The other companies' clocks do not wait for those of one that fails.
  const report = (companyId: string, error: unknown): void =>
    log.warn({ company: companyId, err: { message: (error as Error).message } }, 'SLA clocks could not be handled');
  for (const policy of await pools.platform.use(due.findRevisedPolicies)) {
    if (stop?.aborted) return 0;
    await followRevision(pools, policy, now()).catch((error) => report(policy.companyId, error));
  }
  const failed = new Set<string>();
  let breaches = 0;
  for (;;) {
    const scopes = await pools.platform.use((sql) => due.findDueScopes(sql, [...failed], now()));
    let handled = 0;
    let isFailed = false;
    for (const scope of scopes) {
      if (stop?.aborted) return breaches;
      try {
        const done = await inTransaction(pools.tenants, scope, patience, (sql, tell) =>
          handleBatch(sql, tell, scope, now()),
        );
        handled += done.handled;
        breaches += done.breaches;
      } catch (error) {
        report(scope.companyId, error);
        failed.add(scope.companyId);
        isFailed = true;
      }
    }
    // What is left is in other hands. Where a company failed, others may have stood behind it.
    if (handled === 0 && !isFailed) return breaches;
  }
}

/** Has the clocks of a changed policy looked at again, in this round. */
async function followRevision({ tenants }: SlaPools, policy: due.RevisedPolicy, now: Date): Promise<void> {
  const { companyId, id } = policy;
  for (const testMode of [false, true]) {
    const scope = { companyId, testMode };
    let last: string | undefined;
    do {
      const after = last;
      last = await inTransaction(tenants, scope, patience, (sql) => due.wakeClocks(sql, scope, id, after, batch, now));
    } while (last !== undefined);
  }
  const scope = { companyId, testMode: false };
  await inTransaction(tenants, scope, patience, (sql) => due.clearRevision(sql, policy, now));
}

/** All of it in one transaction: a clock is noted as handled with everything that was told, or not at all. */
async function handleBatch(sql: Sql, tell: (event: EventRow) => void, scope: ClockScope, now: Date) {
  const rows = await due.takeDueClocks(sql, scope, batch, now);
  const notifications: due.NewNotification[] = [];
  const handled = rows.map((row): due.HandledClock => {
    const { policy } = row;
    if (!policy?.isActive) return { id: row.id, isBreached: false, isClosed: true, nextAt: null };
    const steps = dueSteps(policy, row, now);
    if (steps.breach) tell(breachOf(row, policy, scope, now));
    // People are not told of test data.
    if (!scope.testMode) notifications.push(...notificationsOf(row, policy, steps, now));
    return { id: row.id, isBreached: steps.breach, isClosed: false, nextAt: steps.nextAt };
  });
  await due.insertNotifications(sql, scope.companyId, notifications, now);
  if (handled.length > 0) await due.saveHandledClocks(sql, scope, handled, now);
  return { handled: rows.length, breaches: handled.filter(({ isBreached }) => isBreached).length };
}

function breachOf(row: due.DueClockRow, policy: SlaPolicy, scope: ClockScope, now: Date): EventRow {
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
        overdue_minutes: overdueMinutes(row.dueAt, now),
      },
      level: 0,
    },
  };
}

function notificationsOf(
  row: due.DueClockRow,
  policy: SlaPolicy,
  { reminders, escalations }: Pick<ReturnType<typeof dueSteps>, 'reminders' | 'escalations'>,
  now: Date,
): due.NewNotification[] {
  const values: MessageValues = {
    record_name: row.recordName ?? row.recordId,
    entity_type: policy.entityType,
    policy_name: policy.name,
    deadline: readableTime(row.dueAt, policy.timezone),
    overdue_minutes: String(Math.max(0, overdueMinutes(row.dueAt, now))),
    assigned_to: row.assignedTo ?? 'nobody',
  };
  const { object, recordId } = row;
  const tell = (kind: due.NewNotification['kind'], userIds: readonly string[], text: string) =>
    userIds.map((userId) => ({ userId, kind, text, object, recordId }));
  return [
    ...reminders.flatMap((each) => tell('sla_reminder', each.recipient_user_ids, reminderText(row.kind, values))),
    ...escalations.flatMap((each) =>
      tell('sla_escalation', each.recipient_user_ids, fillTemplate(each.message_template, values)),
    ),
  ];
}
