// SLA clocks of records: which ones a write starts, ends and restarts, and what has to happen when.
import {
  type ClockKind,
  clockKinds,
  type Escalation,
  type Reminder,
  type SlaPolicy,
} from '../objects/configuration.ts';
import type { StoredValue } from '../objects/field-values.ts';
import type { Workspace } from '../objects/workspace.ts';
import { deadline } from './sla-clock.ts';
import { applicablePolicy, entityTypeOf } from './sla-policies.ts';
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

/** The clocks that new records start with. */
export function clocksOfNew(
  object: string,
  records: readonly RecordState[],
  workspace: Workspace,
  now: Date,
): NewClock[] {
  if (workspace.slaPolicies.length === 0) return [];
  // Records of one call start together: their deadlines are reckoned once for each policy.
  const plans = new Map<SlaPolicy, NewClock[]>();
  return records.flatMap((record) => {
    const policy = policyOf(object, record, workspace);
    if (!policy || isSettled(object, record.values, workspace)) return [];
    const plan = plans.get(policy) ?? kindsOf(policy).map((kind) => newClock(policy, object, '', kind, now));
    plans.set(policy, plan);
    return plan.map((clock) => ({ ...clock, recordId: record.id }));
  });
}

function policyOf(object: string, { values }: RecordState, workspace: Workspace): SlaPolicy | undefined {
  return applicablePolicy(workspace.slaPolicies, object, (values.priority ?? null) as number | null);
}

/** Customers have no status that would end a resolution. */
function kindsOf(policy: SlaPolicy): ClockKind[] {
  return clockKinds.filter(
    (kind) => policy.times[kind] !== null && !(kind === 'resolution' && policy.entityType === 'customer'),
  );
}

function newClock(policy: SlaPolicy, object: string, recordId: string, kind: ClockKind, startedAt: Date): NewClock {
  const dueAt = deadline(startedAt, policy.times[kind] as number, policy.hours);
  const nextAt = nextMoment(policy, { kind, dueAt, isBreached: false }, startedAt);
  return { policyId: policy.id, object, recordId, kind, startedAt, dueAt, nextAt };
}

/** A clock that a contact has satisfied. */
export interface AnsweredClock {
  policyId: string;
  object: string;
  recordId: string;
  kind: ClockKind;
  /** The last contact: the next response is waited for from here. */
  answeredAt: Date;
}

/** Contacts with records, which is what response clocks wait for. */
export interface Responses {
  contacts: { object: string; recordId: string; at: string }[];
  /** The clocks that begin anew with the contact that satisfied them. */
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
 * Responses among activities that were logged or changed. An internal note is no response to a customer, so the type Note that
 * every workspace starts with, and that keeps its name, satisfies no clock until it becomes another type.
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
  return { contacts, restarted: (answered) => restartedClocks(answered, workspace) };
}

function restartedClocks(answered: readonly AnsweredClock[], workspace: Workspace): NewClock[] {
  return answered.flatMap(({ kind, policyId, object, recordId, answeredAt }) => {
    const policy = workspace.slaPolicies.find((each) => each.id === policyId);
    if (kind !== 'every_response' || !policy?.isActive || policy.times.every_response === null) return [];
    return [newClock(policy, object, recordId, 'every_response', answeredAt)];
  });
}

/** What a change of a record does to its clocks. */
export interface ClockChange {
  object: string;
  recordId: string;
  /** Clocks of this policy go on; all others that run are ended. */
  keptPolicyId: string | null;
  /** True when what was waited for is done: a deadline that passed before is still told. */
  isResolved: boolean;
  /** The clocks to start, after those that were ended. */
  startedAfter(ended: readonly { kind: ClockKind; startedAt: Date }[]): NewClock[];
}

/** A record that comes to its end has no clocks, one that is opened again starts anew, and another priority may mean another policy. */
export function clockChange(
  object: string,
  before: RecordState,
  after: RecordState,
  workspace: Workspace,
  now: Date,
): ClockChange | undefined {
  if (workspace.slaPolicies.length === 0 || entityTypeOf(object) === undefined) return undefined;
  const [wasSettled, settled] = [before, after].map((each) => isSettled(object, each.values, workspace));
  const base = { object, recordId: after.id, keptPolicyId: null, isResolved: false };
  if (settled) return wasSettled ? undefined : { ...base, isResolved: true, startedAfter: () => [] };

  const policy = policyOf(object, after, workspace);
  // Who was spoken to already waits for no first response.
  const isNeeded = (kind: ClockKind) => kind !== 'first_response' || (after.values.last_contacted_at ?? null) === null;
  const startKind = (kind: ClockKind, at: Date) => (policy ? newClock(policy, object, after.id, kind, at) : []);
  const kinds = policy ? kindsOf(policy) : [];
  if (wasSettled)
    return { ...base, startedAfter: () => kinds.filter(isNeeded).flatMap((kind) => startKind(kind, now)) };
  if (policy?.id === policyOf(object, before, workspace)?.id) return undefined;
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

/** A deleted record has no clocks. */
export function clocksEndedWith(object: string, recordId: string, workspace: Workspace): ClockChange | undefined {
  if (workspace.slaPolicies.length === 0 || entityTypeOf(object) === undefined) return undefined;
  return { object, recordId, keptPolicyId: null, isResolved: false, startedAfter: () => [] };
}

/** A clock whose time has come. */
export interface DueClock {
  kind: ClockKind;
  dueAt: Date;
  /** Steps up to here are done. */
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
 * What has to happen by now. A clock that was satisfied after its deadline is a breach, however soon after; a reminder that comes
 * after the deadline would only repeat it.
 */
export function dueSteps(policy: SlaPolicy, clock: DueClock, now: Date): DueSteps {
  const { kind, dueAt, handledAt } = clock;
  const stoppedAt = clock.satisfiedAt ?? clock.endedAt;
  const breach = clock.breachedAt === null && dueAt <= now && (stoppedAt === null || stoppedAt > dueAt);
  const isBreached = breach || clock.breachedAt !== null;
  const isDue = (at: Date) => at > handledAt && at <= now && (stoppedAt === null || at <= stoppedAt);
  return {
    breach,
    reminders: isBreached ? [] : policy.reminders.filter((each) => each.type === kind && isDue(remindAt(each, dueAt))),
    escalations: isBreached
      ? policy.escalations.filter((each) => each.type === kind && isDue(escalateAt(each, dueAt)))
      : [],
    nextAt: stoppedAt === null ? nextMoment(policy, { kind, dueAt, isBreached }, now) : null,
  };
}

/** The first moment after another at which something has to happen; the deadline itself also when it has passed. */
function nextMoment(
  policy: SlaPolicy,
  { kind, dueAt, isBreached }: { kind: ClockKind; dueAt: Date; isBreached: boolean },
  after: Date,
): Date | null {
  const moments = isBreached
    ? policy.escalations.filter((each) => each.type === kind).map((each) => escalateAt(each, dueAt))
    : policy.reminders.filter((each) => each.type === kind).map((each) => remindAt(each, dueAt));
  const coming = moments.filter((moment) => moment > after);
  if (!isBreached) coming.push(dueAt);
  return coming.reduce<Date | null>((first, moment) => (first === null || moment < first ? moment : first), null);
}

const minute = 60_000;

const remindAt = (reminder: Reminder, dueAt: Date) => new Date(dueAt.getTime() - reminder.minutes_before * minute);
const escalateAt = (escalation: Escalation, dueAt: Date) =>
  new Date(dueAt.getTime() + escalation.minutes_after * minute);
