// SLA clocks of records: the ones that a write starts, ends and restarts, and due steps.
import {
  type ClockKind,
  clockKinds,
  type Escalation,
  type Reminder,
  type SlaPolicy,
} from '../objects/configuration.ts';
import type { StoredValue } from '../objects/field-values.ts';
import type { Workspace } from '../objects/workspace.ts';
import { computeDeadline } from './sla-clock.ts';
import { findApplicablePolicy, toEntityType } from './sla-policies.ts';
import { isSettled } from './status-effects.ts';

type RecordState = { id: string; values: Readonly<Record<string, StoredValue>> };

/** A clock to start. */
export interface NewClock {
  policyId: string;
  object: string;
  recordId: string;
  kind: ClockKind;
  startedAt: Date;
  dueAt: Date;
  nextAt: Date | null;
}

/** Returns the clocks that start with new records. */
export function findClocksOfNew(
  object: string,
  records: readonly RecordState[],
  workspace: Workspace,
  now: Date,
): NewClock[] {
  if (workspace.slaPolicies.length === 0) return [];
  // Records of one call start together, so their deadlines are computed once for each policy.
  const plans = new Map<SlaPolicy, NewClock[]>();
  return records.flatMap((record) => {
    const policy = findPolicy(object, record, workspace);
    if (!policy || isSettled(object, record.values, workspace)) return [];
    const plan = plans.get(policy) ?? listKinds(policy).map((kind) => buildClock(policy, object, '', kind, now));
    plans.set(policy, plan);
    return plan.map((clock) => ({ ...clock, recordId: record.id }));
  });
}

function findPolicy(object: string, { values }: RecordState, workspace: Workspace): SlaPolicy | undefined {
  return findApplicablePolicy(workspace.slaPolicies, object, (values.priority ?? null) as number | null);
}

/** Customers have no status that would end a resolution clock. */
function listKinds(policy: SlaPolicy): ClockKind[] {
  return clockKinds.filter(
    (kind) => policy.times[kind] !== null && !(kind === 'resolution' && policy.entityType === 'customer'),
  );
}

function buildClock(policy: SlaPolicy, object: string, recordId: string, kind: ClockKind, startedAt: Date): NewClock {
  const dueAt = computeDeadline(startedAt, policy.times[kind] as number, policy.hours);
  const nextAt = findNextTime(policy, { kind, dueAt, isBreached: false }, startedAt);
  return { policyId: policy.id, object, recordId, kind, startedAt, dueAt, nextAt };
}

/** A clock that a contact has satisfied. */
export interface AnsweredClock {
  policyId: string;
  object: string;
  recordId: string;
  kind: ClockKind;
  /** The last contact, from which the next response is due. */
  answeredAt: Date;
}

/** Contacts with records, which satisfy response clocks. */
export interface Responses {
  contacts: { object: string; recordId: string; at: string }[];
  /** Returns the clocks that restart with the contact that satisfied them. */
  restarted(answered: readonly AnsweredClock[]): NewClock[];
}

/** An activity that was logged or changed. */
export interface LoggedActivity {
  entityType: string;
  entityId: string;
  activityTypeId: string;
  previousTypeId: string;
  /** null if the time was not changed. */
  contactedAt: string | null;
  performedAt: string | null;
}

/**
 * Returns the responses among logged or changed activities. An internal note is not a response to a
 * customer. The system type Note, which cannot be renamed, satisfies no clock until the activity
 * gets another type.
 */
export function findResponses(logged: readonly LoggedActivity[], workspace: Workspace): Responses {
  const contacts: Responses['contacts'] = [];
  if (workspace.slaPolicies.length > 0) {
    const noteTypeId = workspace.activityTypes.find(({ isSystem, name }) => isSystem && name === 'Note')?.id;
    for (const { entityType, entityId, activityTypeId, previousTypeId, contactedAt, performedAt } of logged) {
      if (activityTypeId === noteTypeId) continue;
      const at = previousTypeId === noteTypeId ? performedAt : contactedAt;
      if (at !== null) contacts.push({ object: `${entityType}s`, recordId: entityId, at });
    }
  }
  return { contacts, restarted: (answered) => listRestartedClocks(answered, workspace) };
}

function listRestartedClocks(answered: readonly AnsweredClock[], workspace: Workspace): NewClock[] {
  return answered.flatMap(({ kind, policyId, object, recordId, answeredAt }) => {
    const policy = workspace.slaPolicies.find((each) => each.id === policyId);
    if (kind !== 'every_response' || !policy?.isActive || policy.times.every_response === null) return [];
    return [buildClock(policy, object, recordId, 'every_response', answeredAt)];
  });
}

/** The effect of a record's change on its clocks. */
export interface ClockChange {
  object: string;
  recordId: string;
  /** Clocks of this policy continue. All others are ended. */
  keptPolicyId: string | null;
  /** True if the awaited work is done. A deadline that passed before is still reported. */
  isResolved: boolean;
  /** Returns the clocks to start after the others were ended. */
  startedAfter(ended: readonly { kind: ClockKind; startedAt: Date }[]): NewClock[];
}

/**
 * Returns the change of clocks: none for a record that reaches a final status, new ones for a
 * record that is reopened, and those of another policy if the priority changes it.
 */
export function computeClockChange(
  object: string,
  before: RecordState,
  after: RecordState,
  workspace: Workspace,
  now: Date,
): ClockChange | undefined {
  if (workspace.slaPolicies.length === 0 || toEntityType(object) === undefined) return undefined;
  const [wasSettled, settled] = [before, after].map((each) => isSettled(object, each.values, workspace));
  const base = { object, recordId: after.id, keptPolicyId: null, isResolved: false };
  if (settled) return wasSettled ? undefined : { ...base, isResolved: true, startedAfter: () => [] };

  const policy = findPolicy(object, after, workspace);
  // A record with an earlier contact needs no first response.
  const isNeeded = (kind: ClockKind) => kind !== 'first_response' || (after.values.last_contacted_at ?? null) === null;
  const startKind = (kind: ClockKind, at: Date) => (policy ? buildClock(policy, object, after.id, kind, at) : []);
  const kinds = policy ? listKinds(policy) : [];
  if (wasSettled)
    return { ...base, startedAfter: () => kinds.filter(isNeeded).flatMap((kind) => startKind(kind, now)) };
  if (policy?.id === findPolicy(object, before, workspace)?.id) return undefined;
  return {
    ...base,
    keptPolicyId: policy?.id ?? null,
    startedAfter: (ended) =>
      kinds.flatMap((kind) => {
        const replaced = ended.find((clock) => clock.kind === kind);
        if (replaced) return startKind(kind, replaced.startedAt);
        return isNeeded(kind) ? startKind(kind, now) : [];
      }),
  };
}

/** Ends the clocks of a deleted record. */
export function endClocks(object: string, recordId: string, workspace: Workspace): ClockChange | undefined {
  if (workspace.slaPolicies.length === 0 || toEntityType(object) === undefined) return undefined;
  return { object, recordId, keptPolicyId: null, isResolved: false, startedAfter: () => [] };
}

/** Returns the kinds of clocks of a merged record that can continue on the record that stays. */
export function findContinuingKinds(object: string, { values }: RecordState, workspace: Workspace): ClockKind[] {
  if (workspace.slaPolicies.length === 0 || toEntityType(object) === undefined) return [];
  if (isSettled(object, values, workspace)) return [];
  const isContacted = (values.last_contacted_at ?? null) !== null;
  return clockKinds.filter((kind) => kind !== 'first_response' || !isContacted);
}

/** A clock with due steps. */
export interface DueClock {
  kind: ClockKind;
  dueAt: Date;
  /** Steps up to this time are done. */
  handledAt: Date;
  breachedAt: Date | null;
  satisfiedAt: Date | null;
  endedAt: Date | null;
}

export interface DueSteps {
  /** True once for each clock. */
  breach: boolean;
  reminders: Reminder[];
  escalations: Escalation[];
  nextAt: Date | null;
}

/**
 * Returns the steps that are due. A clock that was satisfied after its deadline is a breach, no
 * matter how soon after. A reminder that comes after the deadline is omitted, because it would only
 * repeat the breach.
 */
export function findDueSteps(policy: SlaPolicy, clock: DueClock, now: Date): DueSteps {
  const { kind, dueAt, handledAt } = clock;
  const stoppedAt = clock.satisfiedAt ?? clock.endedAt;
  const breach = clock.breachedAt === null && dueAt <= now && (stoppedAt === null || stoppedAt > dueAt);
  const isBreached = breach || clock.breachedAt !== null;
  const isDue = (at: Date) => at > handledAt && at <= now && (stoppedAt === null || at <= stoppedAt);
  return {
    breach,
    reminders: isBreached
      ? []
      : policy.reminders.filter((each) => each.type === kind && isDue(findReminderTime(each, dueAt))),
    escalations: isBreached
      ? policy.escalations.filter((each) => each.type === kind && isDue(findEscalationTime(each, dueAt)))
      : [],
    nextAt: stoppedAt === null ? findNextTime(policy, { kind, dueAt, isBreached }, now) : null,
  };
}

/**
 * Returns the next time after another at which a step is due. The deadline counts even if it has
 * passed.
 */
function findNextTime(
  policy: SlaPolicy,
  { kind, dueAt, isBreached }: { kind: ClockKind; dueAt: Date; isBreached: boolean },
  after: Date,
): Date | null {
  const moments = isBreached
    ? policy.escalations.filter((each) => each.type === kind).map((each) => findEscalationTime(each, dueAt))
    : policy.reminders.filter((each) => each.type === kind).map((each) => findReminderTime(each, dueAt));
  const coming = moments.filter((moment) => moment > after);
  if (!isBreached) coming.push(dueAt);
  return coming.reduce<Date | null>((first, moment) => (first === null || moment < first ? moment : first), null);
}

const minute = 60_000;

const findReminderTime = (reminder: Reminder, dueAt: Date) =>
  new Date(dueAt.getTime() - reminder.minutes_before * minute);
const findEscalationTime = (escalation: Escalation, dueAt: Date) =>
  new Date(dueAt.getTime() + escalation.minutes_after * minute);
