// Statuses of leads and stages of deals: order, outcomes and pre-conditions.
import type { SingleRule } from '../objects/configuration.ts';
import { buildFieldProblem, type FieldProblem, toUuid } from '../objects/field-values.ts';
import { checkComparison, toResponseComparisonValue } from '../objects/kept-conditions.ts';
import { findByName, type Workspace, type WorkspaceObject } from '../objects/workspace.ts';
import { getDefaultPipeline } from './pipelines.ts';

/** A parsed rule. The OpenAPI document rejects nested alternatives. */
export type KeptRule = SingleRule | { or: KeptRule[] };

const outcomes = {
  leads: ['open', 'converted', 'disqualified'],
  deals: ['open', 'won', 'lost'],
} as const;

/** Returns a problem if statuses of the object cannot have this outcome. */
export function findOutcomeProblem(object: 'leads' | 'deals', given: unknown): FieldProblem | undefined {
  const allowed: readonly string[] = outcomes[object];
  const known = Object.values(outcomes).some((each: readonly unknown[]) => each.includes(given));
  // The OpenAPI document rejects unknown outcomes.
  if (!known || allowed.includes(given as string)) return undefined;
  return buildFieldProblem('outcome', 'INVALID_OPTION', `must be one of ${allowed.join(', ')} for ${object}`, {
    allowed,
  });
}

/**
 * Returns the pipeline of a new status: null for leads, the default one for a stage that names none.
 * @param given the pipeline's id in the body
 */
export function readPipelineId(
  object: 'leads' | 'deals',
  given: unknown,
  workspace: Workspace,
): { pipelineId: string | null; problem?: FieldProblem } {
  const isGiven = given !== undefined && given !== null;
  if (object === 'leads') {
    if (!isGiven) return { pipelineId: null };
    const rule = 'is not allowed for leads, whose statuses belong to no pipeline';
    return { pipelineId: null, problem: buildFieldProblem('pipeline_id', 'CONFLICTING_FIELDS', rule) };
  }
  const { id: defaultId } = getDefaultPipeline(workspace);
  // The OpenAPI document rejects a value that is not an id.
  const wanted = isGiven && typeof given === 'string' ? toUuid(given) : defaultId;
  if (wanted === undefined || workspace.pipelines.some(({ id }) => id === wanted))
    return { pipelineId: wanted ?? defaultId };
  return {
    pipelineId: defaultId,
    problem: buildFieldProblem('pipeline_id', 'NOT_FOUND', 'must be the id of a pipeline'),
  };
}

/** Returns problems with names of fields that records must have values in to enter the status. */
export function findPreConditionFieldProblems(object: WorkspaceObject, given: unknown): FieldProblem[] {
  if (!Array.isArray(given)) return [];
  return given.flatMap((name: unknown, index) => {
    if (typeof name !== 'string' || object.fields.has(name)) return [];
    const allowed = [...object.fields.keys()];
    const path = `pre_condition_fields[${index}]`;
    return [buildFieldProblem(path, 'UNKNOWN_FIELD', `must be the name of a field of ${object.object}`, { allowed })];
  });
}

export interface CheckedRules {
  rules: KeptRule[];
  /** Problems that depend on the workspace's configuration. */
  problems: FieldProblem[];
  /** Missing parts that a rule of this kind needs. */
  missing: FieldProblem[];
}

/** Checks rules that the OpenAPI document has validated. Rules that it rejects are ignored here. */
export function checkRules(object: WorkspaceObject, workspace: Workspace, given: unknown): CheckedRules {
  const checked: CheckedRules = { rules: [], problems: [], missing: [] };
  const list: readonly unknown[] = Array.isArray(given) ? given : [];
  const reading = { object, workspace, checked };
  checked.rules = list.flatMap((rule, index) => readRule(reading, rule, `pre_condition_rules[${index}]`) ?? []);
  return checked;
}

interface Reading {
  object: WorkspaceObject;
  workspace: Workspace;
  checked: CheckedRules;
}

type Given = Record<string, unknown>;

/** The parts of a rule by its kind; true: required. */
const partsOf: Readonly<Record<string, Readonly<Record<string, boolean>>>> = {
  field: { field: true, op: true, value: false, message: false },
  activity: { activity_type: false, min_count: true, within_days: false },
  attachment: { min_count: true },
  tasks_completed: {},
};

function readRule(reading: Reading, given: unknown, path: string): KeptRule | undefined {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined;
  const rule = given as Given;
  const { problems, missing } = reading.checked;
  if (rule.or !== undefined) {
    for (const name of Object.keys(rule).filter((each) => each !== 'or'))
      problems.push(buildFieldProblem(`${path}.${name}`, 'UNKNOWN_FIELD', 'is not allowed together with or'));
    if (!Array.isArray(rule.or)) return undefined;
    return { or: rule.or.flatMap((each, index) => readRule(reading, each, `${path}.or[${index}]`) ?? []) };
  }
  const kind = rule.kind ?? 'field';
  const parts = typeof kind === 'string' ? partsOf[kind] : undefined;
  if (!parts) return undefined;
  const known = Object.values(partsOf).flatMap((each) => Object.keys(each));
  for (const name of Object.keys(rule)) {
    if (known.includes(name) && !(name in parts))
      problems.push(buildFieldProblem(`${path}.${name}`, 'UNKNOWN_FIELD', `is not allowed if kind is ${kind}`));
  }
  const absent = Object.keys(parts).filter((name) => parts[name] && rule[name] === undefined);
  missing.push(...absent.map((name) => buildFieldProblem(`${path}.${name}`, 'REQUIRED', 'is required')));
  return absent.length > 0 ? undefined : readSingleRule(reading, kind as string, rule, path);
}

function readSingleRule(reading: Reading, kind: string, rule: Given, path: string): KeptRule | undefined {
  const { object, workspace, checked } = reading;
  switch (kind) {
    case 'field': {
      const given = { field: rule.field, operator: rule.op, value: rule.value };
      const kept = checkComparison(object, given, { path, operator: 'op' }, checked.problems);
      if (!kept) return undefined;
      const { field, operator: op, value } = kept;
      return { kind, field, op, value, ...(rule.message === undefined ? {} : { message: rule.message as string }) };
    }
    case 'activity': {
      const type =
        typeof rule.activity_type === 'string' ? findByName(workspace.activityTypes, rule.activity_type) : undefined;
      if (typeof rule.activity_type === 'string' && !type) {
        const allowed = workspace.activityTypes.map((each) => each.name);
        const message = 'must be the name of an activity type';
        checked.problems.push(buildFieldProblem(`${path}.activity_type`, 'INVALID_OPTION', message, { allowed }));
      }
      return {
        kind,
        ...(type ? { activity_type: type.id } : {}),
        min_count: rule.min_count as number,
        ...(rule.within_days === undefined ? {} : { within_days: rule.within_days as number }),
      };
    }
    case 'attachment':
      return { kind, min_count: rule.min_count as number };
    default:
      return { kind: 'tasks_completed' };
  }
}

/** Converts a rule to the API's format. */
export function toRuleResponse<Rule extends KeptRule>(object: WorkspaceObject, workspace: Workspace, rule: Rule): Rule {
  if ('or' in rule) return { ...rule, or: rule.or.map((each) => toRuleResponse(object, workspace, each)) };
  if (rule.kind === 'field') {
    const { field, op: operator, value } = rule;
    return { ...rule, value: toResponseComparisonValue(object, { field, operator, value }) };
  }
  if (rule.kind === 'activity' && rule.activity_type !== undefined) {
    const type = workspace.activityTypes.find((each) => each.id === rule.activity_type);
    return { ...rule, activity_type: type?.name ?? rule.activity_type };
  }
  return rule;
}
