// SLA policies of a workspace: the policy that applies to a record, and validation.
import type { Escalation, Reminder, SlaPolicy } from '../objects/configuration.ts';
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { isTimezone } from '../service/zones-and-currencies.ts';
import { countMinutesOfWeek, parseTimeOfDay } from './sla-clock.ts';
import { placeholders } from './sla-messages.ts';

const entityTypes: Readonly<Record<string, SlaPolicy['entityType']>> = {
  leads: 'lead',
  customers: 'customer',
  deals: 'deal',
};

/** Returns the policies' name of an object; undefined if objects of this kind have no policies. */
export function toEntityType(object: string): SlaPolicy['entityType'] | undefined {
  return entityTypes[object];
}

/**
 * Returns the active policy that applies to a record. A policy for its priority comes before one
 * for all priorities; of several, the oldest applies.
 * @param policies the oldest first
 */
export function findApplicablePolicy(
  policies: readonly SlaPolicy[],
  object: string,
  priority: number | null,
): SlaPolicy | undefined {
  const entityType = toEntityType(object);
  const candidates = policies.filter((policy) => policy.isActive && policy.entityType === entityType);
  return (
    candidates.find((policy) => policy.priority !== null && policy.priority === priority) ??
    candidates.find((policy) => policy.priority === null)
  );
}

/** The settings of a policy, before it has an id. */
export interface PolicySettings {
  firstResponseTime: number | null;
  everyResponseTime: number | null;
  resolutionTime: number | null;
  mode: '24/7' | 'business_hours';
  businessHoursStart: string | null;
  businessHoursEnd: string | null;
  businessDays: readonly number[] | null;
  timezone: string;
  reminders: readonly Pick<Reminder, 'type' | 'minutes_before'>[];
  escalations: readonly Pick<Escalation, 'level' | 'message_template'>[];
}

/** Ten years, so that every deadline can be computed in one step. */
const mostWeeks = 520;

/**
 * Checks the settings as a whole. Each value is valid by itself.
 * @param before the changed policy: its reminders may stay as they are
 */
export function findPolicyProblems(policy: PolicySettings, before?: PolicySettings): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const times = [policy.firstResponseTime, policy.everyResponseTime, policy.resolutionTime];
  if (times.every((time) => time === null))
    problems.push(
      buildFieldProblem(
        'first_response_time',
        'REQUIRED',
        'is required unless every_response_time or resolution_time is sent',
      ),
    );
  if (!isTimezone(policy.timezone))
    problems.push(buildFieldProblem('timezone', 'INVALID_FORMAT', 'must be an IANA time zone, e.g. Europe/Berlin'));
  if (policy.mode === 'business_hours') problems.push(...findHoursProblems(policy, times));
  problems.push(...findReminderProblems(policy, before));
  for (const [index, escalation] of policy.escalations.entries()) {
    if (policy.escalations.findIndex((each) => each.level === escalation.level) < index)
      problems.push(
        buildFieldProblem(
          `escalations[${index}].level`,
          'DUPLICATE',
          'must differ from the levels of earlier escalations',
        ),
      );
    problems.push(...findTemplateProblems(`escalations[${index}].message_template`, escalation.message_template));
  }
  return problems;
}

/** The setting with the time of a clock. */
const timeOf = {
  first_response: 'firstResponseTime',
  every_response: 'everyResponseTime',
  resolution: 'resolutionTime',
} as const;

/** A reminder is rejected if the policy does not have its clock, because it would never be sent. */
function findReminderProblems(policy: PolicySettings, before: PolicySettings | undefined): FieldProblem[] {
  const lacks = (settings: PolicySettings, { type }: PolicySettings['reminders'][number]): boolean =>
    settings[timeOf[type]] === null;
  const isKept = (reminder: PolicySettings['reminders'][number]): boolean =>
    before !== undefined &&
    lacks(before, reminder) &&
    before.reminders.some((each) => each.type === reminder.type && each.minutes_before === reminder.minutes_before);
  const allowed = (['first_response', 'every_response', 'resolution'] as const).filter(
    (type) => policy[timeOf[type]] !== null,
  );
  return policy.reminders.flatMap((reminder, index) => {
    if (!lacks(policy, reminder) || isKept(reminder)) return [];
    const rule = `must be a clock of this policy. Set ${reminder.type}_time, or choose another type`;
    return [buildFieldProblem(`reminders[${index}].type`, 'CONFLICTING_FIELDS', rule, { allowed })];
  });
}

function findHoursProblems(policy: PolicySettings, times: readonly (number | null)[]): FieldProblem[] {
  const { businessHoursStart: start, businessHoursEnd: end, businessDays: days } = policy;
  const problems: FieldProblem[] = [];
  const required = (field: string) => buildFieldProblem(field, 'REQUIRED', 'is required if mode is business_hours');
  if (start === null) problems.push(required('business_hours_start'));
  if (end === null) problems.push(required('business_hours_end'));
  if (days === null || days.length === 0) problems.push(required('business_days'));
  if (start === null || end === null || days === null || days.length === 0) return problems;
  if (parseTimeOfDay(start) >= parseTimeOfDay(end))
    return [buildFieldProblem('business_hours_end', 'OUT_OF_RANGE', 'must be after business_hours_start')];
  const most = mostWeeks * countMinutesOfWeek({ start, end, days });
  for (const [index, field] of ['first_response_time', 'every_response_time', 'resolution_time'].entries())
    if ((times[index] ?? 0) > most)
      problems.push(buildFieldProblem(field, 'OUT_OF_RANGE', 'must not exceed ten years of business hours'));
  return problems;
}

function findTemplateProblems(field: string, template: string): FieldProblem[] {
  const unknown = [...template.matchAll(/\{\{(.*?)\}\}/gs)]
    .map(([, name = '']) => name.trim())
    .filter((name) => !placeholders.some((known) => known === name));
  const allowed = placeholders.map((name) => `{{${name}}}`);
  if (unknown.length === 0) return [];
  return [
    buildFieldProblem(field, 'INVALID_FORMAT', `must contain no placeholders other than ${allowed.join(', ')}`, {
      allowed,
    }),
  ];
}
