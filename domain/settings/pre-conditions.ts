// Pre-conditions of a status: the facts to look up, and the conditions that a record does not meet.

import { type ComparedRecord, matchesCondition } from '../objects/comparisons.ts';
import type { SingleRule, Status } from '../objects/configuration.ts';
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { matchesTree } from '../objects/filter-tree.ts';
import { toCondition, toResponseComparisonValue } from '../objects/kept-conditions.ts';
import { findQueryableField } from '../objects/queryable.ts';
import { resolveRelativeDates } from '../objects/relative-dates.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import { toSentence } from '../service/messages.ts';
import { findEnteredStatus, findStatusItem } from './status-effects.ts';

type FieldRule = Extract<SingleRule, { field: string }>;
type ActivityRule = Extract<SingleRule, { kind: 'activity' }>;

/** Activities to count: of a type or of any type, since a time or ever. */
export interface ActivityCount {
  typeId: string | null;
  since: Date | null;
}

/** The facts that must be looked up in addition to the record. */
export interface NeededFacts {
  activities: readonly ActivityCount[];
  attachments: boolean;
  openTasks: boolean;
}

export interface Facts {
  /** In the order of the needed counts. */
  activities: readonly number[];
  attachments: number;
  openTasks: number;
}

/** The facts of a record that is not stored yet. */
export const noFacts: Facts = { activities: [], attachments: 0, openTasks: 0 };

/** Returns the facts that the rules of a status need; undefined if the record alone is enough. */
export function findNeededFacts(status: Status, workspace: Workspace, now: Date): NeededFacts | undefined {
  const rules = listSingleRules(status);
  const activities = listActivityCounts(rules, workspace, now);
  const attachments = rules.some((rule) => rule.kind === 'attachment');
  const openTasks = rules.some((rule) => rule.kind === 'tasks_completed');
  return activities.length > 0 || attachments || openTasks ? { activities, attachments, openTasks } : undefined;
}

/**
 * Returns all conditions of the status that the record does not meet. A condition that no longer
 * fits the configuration, such as one with a disabled field, is ignored, because no record could
 * meet it.
 */
export function findUnmetPreConditions(
  object: WorkspaceObject,
  status: Status,
  record: ComparedRecord,
  facts: Facts,
  workspace: Workspace,
  now: Date,
): FieldProblem[] {
  const empty = status.preConditionFields.filter(
    (name) =>
      findQueryableField(object, name) &&
      matchesCondition({ field: name, op: 'is_null', isNull: true }, object, record),
  );
  const asked = {
    object,
    record,
    facts,
    workspace,
    now,
    counts: listActivityCounts(listSingleRules(status), workspace, now),
  };
  const failed = status.preConditionRules.flatMap((rule) => {
    const verdicts = ('or' in rule ? rule.or : [rule]).flatMap((each) => evaluateRule(each, asked) ?? []);
    if (verdicts.length === 0 || verdicts.some((verdict) => verdict.holds)) return [];
    const [first, ...others] = verdicts;
    return first ? [{ field: first.field, code: 'RULE_FAILED' as const, message: joinMessages(first, others) }] : [];
  });
  return [
    ...empty.map((name) => buildFieldProblem(name, 'REQUIRED', `is required to enter ${status.name}`)),
    ...failed,
  ];
}

/**
 * Returns the conditions that a new record does not meet. A record that starts in the first status
 * because the caller named none is not checked.
 */
export function findUnmetByNew(
  object: WorkspaceObject,
  record: Pick<ComparedRecord, 'id' | 'values' | 'custom'>,
  { defaulted }: { defaulted: ReadonlySet<string> },
  workspace: Workspace,
  now: Date,
): FieldProblem[] {
  const entered = findEnteredStatus(object.object, undefined, record.values);
  const status = findStatusItem(object.object, entered, workspace);
  if (!status || defaulted.has(object.object === 'leads' ? 'lead_status' : 'stage')) return [];
  const compared = { ...record, createdAt: now, updatedAt: now };
  return findUnmetPreConditions(object, status, compared, noFacts, workspace, now);
}

function listSingleRules(status: Status): SingleRule[] {
  return status.preConditionRules.flatMap((rule) => ('or' in rule ? rule.or : [rule]));
}

/** Returns each count once, even if several rules need it. */
function listActivityCounts(rules: readonly SingleRule[], workspace: Workspace, now: Date): ActivityCount[] {
  const counts = new Map<string, ActivityCount>();
  for (const rule of rules) {
    if (rule.kind !== 'activity') continue;
    const count = toCount(rule, workspace, now);
    if (count) counts.set(toKey(count), count);
  }
  return [...counts.values()];
}

/** @returns undefined if the type no longer exists */
function toCount(rule: ActivityRule, workspace: Workspace, now: Date): ActivityCount | undefined {
  const known = workspace.activityTypes.some((type) => type.id === rule.activity_type);
  if (rule.activity_type !== undefined && !known) return undefined;
  const since = rule.within_days === undefined ? null : new Date(now.getTime() - rule.within_days * 86_400_000);
  return { typeId: rule.activity_type ?? null, since };
}

const toKey = ({ typeId, since }: ActivityCount): string => `${typeId} ${since?.getTime()}`;

interface Asked {
  object: WorkspaceObject;
  record: ComparedRecord;
  facts: Facts;
  workspace: Workspace;
  now: Date;
  counts: readonly ActivityCount[];
}

interface Verdict {
  holds: boolean;
  /** The field in the error. */
  field: string;
  message: string;
}

/** A custom message of the workspace stays unchanged. */
const joinMessages = (first: Verdict, others: readonly Verdict[]): string =>
  others.length === 0
    ? first.message
    : toSentence([first, ...others].map(({ message }) => message.replace(/\.$/, '')).join(', or '));

/** @returns undefined if the rule no longer fits the configuration */
function evaluateRule(rule: SingleRule, asked: Asked): Verdict | undefined {
  const { facts, workspace, now } = asked;
  switch (rule.kind) {
    case 'activity': {
      const count = toCount(rule, workspace, now);
      if (!count) return undefined;
      const found = facts.activities[asked.counts.findIndex((each) => toKey(each) === toKey(count))] ?? 0;
      const type = workspace.activityTypes.find((each) => each.id === count.typeId);
      const what = `${rule.min_count}${type ? ` of the type ${type.name}` : ''}`;
      const when = rule.within_days === undefined ? '' : ` in the last ${rule.within_days} days`;
      const message = `activities must include at least ${what}${when}; there are ${found}.`;
      return { holds: found >= rule.min_count, field: 'activities', message };
    }
    case 'attachment': {
      const message = `attachments must include at least ${rule.min_count}; there are ${facts.attachments}.`;
      return { holds: facts.attachments >= rule.min_count, field: 'attachments', message };
    }
    case 'tasks_completed': {
      const message = `tasks must all be completed or cancelled; ${facts.openTasks} are not.`;
      return { holds: facts.openTasks === 0, field: 'tasks', message };
    }
    default:
      return evaluateFieldRule(rule, asked);
  }
}

function evaluateFieldRule(rule: FieldRule, { object, record, workspace, now }: Asked): Verdict | undefined {
  const kept = { field: rule.field, operator: rule.op, value: rule.value };
  const condition = toCondition(object, kept);
  if (!condition) return undefined;
  const filter = resolveRelativeDates(condition, { now, timezone: workspace.timezone });
  return {
    holds: matchesTree(filter, (each) => matchesCondition(each, object, record)),
    field: rule.field,
    message: rule.message ?? `${rule.field} ${describeDemand(rule.op, toResponseComparisonValue(object, kept))}.`,
  };
}

const demands: Readonly<Record<string, string>> = {
  eq: 'must be',
  neq: 'must not be',
  gt: 'must be greater than',
  gte: 'must be at least',
  lt: 'must be less than',
  lte: 'must be at most',
  contains: 'must contain',
  starts_with: 'must start with',
  ends_with: 'must end with',
  between: 'must be between',
  in: 'must be one of',
  not_in: 'must not be one of',
};

function describeDemand(op: string, value: unknown): string {
  if (op === 'is_null') return value === false ? 'must have a value' : 'must have no value';
  const values = (Array.isArray(value) ? value : [value]).map(toDemandedText);
  return `${demands[op]} ${values.join(op === 'between' ? ' and ' : ', ')}`;
}

/** Returns a value, or the name of a relative date. */
function toDemandedText(value: unknown): string {
  return typeof value === 'object' && value !== null && 'relative' in value ? `${value.relative}` : `${value}`;
}
