// Workforces: their steps, the validation of steps, and the API calls that perform them.
import { findRecipient } from '../messaging/campaigns.ts';
import { type DraftChannel, longestText } from '../messaging/drafts.ts';
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { type Filter, readOwnFilter } from '../objects/filter.ts';
import { fillPlaceholders, findPlaceholderProblems } from '../objects/placeholders.ts';
import { type Clock, resolveRelativeDates } from '../objects/relative-dates.ts';
import { findClosest } from '../objects/suggestions.ts';
import { findByName, type Workspace, type WorkspaceObject } from '../objects/workspace.ts';
import type { CheckedRecord, StoredRecord } from '../records/draft.ts';
import { checkTask } from '../records/tasks.ts';
import { checkRecord } from '../records/values.ts';

export type SubjectType = 'lead' | 'deal' | 'customer' | 'account';
export type WorkforceStatus = 'active' | 'paused' | 'draft';
export type RunStatus = 'queued' | 'running' | 'waiting' | 'completed' | 'stopped' | 'failed' | 'cancelled';

/** A condition of the filter grammar, as sent by the client. */
export type KeptCondition = Readonly<Record<string, unknown>>;

export type Step =
  | { kind: 'wait'; minutes: number }
  | { kind: 'create_task'; title: string; task_type?: string; due_in_minutes?: number; assigned_to?: string }
  | { kind: 'add_note'; content: string }
  | { kind: 'set_field'; field: string; value: string | number | boolean | null }
  | { kind: 'add_tag'; tag: string }
  | { kind: 'draft_message'; channel: DraftChannel; subject?: string; body: string; from?: string }
  | { kind: 'stop_when'; condition: KeptCondition };

type StepKind = Step['kind'];

/** A step as the OpenAPI document describes it: one shape for all kinds. */
export type GivenStep = { kind: StepKind } & Readonly<Record<string, unknown>>;

/** The content of a workforce. */
export interface Plan {
  subjectTypes: readonly SubjectType[];
  steps: readonly Step[];
  stopWhen: KeptCondition | null;
}

/** The fields of each kind of step, besides `kind`. */
const fieldsOf: Readonly<Record<StepKind, { required: readonly string[]; optional: readonly string[] }>> = {
  wait: { required: ['minutes'], optional: [] },
  create_task: { required: ['title'], optional: ['task_type', 'due_in_minutes', 'assigned_to'] },
  add_note: { required: ['content'], optional: [] },
  set_field: { required: ['field', 'value'], optional: [] },
  add_tag: { required: ['tag'], optional: [] },
  draft_message: { required: ['channel', 'body'], optional: ['subject', 'from'] },
  stop_when: { required: ['condition'], optional: [] },
};

/** Minutes until a task without due_in_minutes is due: a day. */
const defaultDueMinutes = 1440;
/** Maximum characters of texts after their placeholders are filled. */
const maxLengths = { title: 200, content: 10_000, subject: 200, body: 20_000 } as const;

export const toObjectName = (type: SubjectType): 'leads' | 'deals' | 'customers' | 'accounts' => `${type}s`;

/**
 * Returns the scopes that a step needs on an object. The author of the step must have them, and it
 * runs with only these.
 */
export function findStepScopes(step: Step, object: string): string[] {
  const view = `${object}:view`;
  switch (step.kind) {
    case 'wait':
    case 'stop_when':
      return [view];
    case 'create_task':
      return [view, 'tasks:create'];
    case 'add_note':
    case 'set_field':
    case 'add_tag':
      return [view, `${object}:edit`];
    case 'draft_message':
      return [view, 'inbox:create'];
  }
}

/** Returns the missing and unknown fields of each step. */
export function findShapeProblems(steps: readonly GivenStep[]): FieldProblem[] {
  return steps.flatMap((step, index) => {
    const { required, optional } = fieldsOf[step.kind];
    const allowed = [...required, ...optional];
    const missing = required.filter((name) => !Object.hasOwn(step, name));
    const foreign = Object.keys(step).filter((name) => name !== 'kind' && !allowed.includes(name));
    return [
      ...missing.map((name) =>
        buildFieldProblem(`steps[${index}].${name}`, 'REQUIRED', `is required if kind is ${step.kind}`),
      ),
      ...foreign.map((name) =>
        buildFieldProblem(`steps[${index}].${name}`, 'UNKNOWN_FIELD', `is not allowed if kind is ${step.kind}`, {
          allowed,
        }),
      ),
    ];
  });
}

/** The fields of a step, checked for a record of an object. References are not resolved yet. */
export interface CheckedStep {
  checked: CheckedRecord;
  /** Returns the path of a field for error messages. */
  at: (field: string) => string;
}

/**
 * Validates the plan against the objects of its records.
 * @returns problems, and references that must be resolved to find further ones
 */
export function checkPlan(
  { subjectTypes, steps, stopWhen }: Plan,
  workspace: Workspace,
  now: Date,
): { problems: FieldProblem[]; toResolve: CheckedStep[] } {
  const problems: FieldProblem[] = [];
  const toResolve: CheckedStep[] = [];
  for (const type of subjectTypes) {
    const object = workspace.objects.get(toObjectName(type));
    if (!object) {
      problems.push(
        buildFieldProblem(
          'subject_types',
          'INVALID_OPTION',
          `must not include ${type}, because its object is disabled`,
        ),
      );
      continue;
    }
    if (stopWhen) problems.push(...findConditionProblems(stopWhen, object, 'stop_when'));
    for (const [index, step] of steps.entries()) {
      const at = (name: string): string => `steps[${index}].${name}`;
      problems.push(...findTextProblems(step, object, at));
      if (step.kind === 'stop_when') problems.push(...findConditionProblems(step.condition, object, at('condition')));
      if (step.kind === 'draft_message') problems.push(...findMessageProblems(step, type, at));
      if (step.kind === 'add_tag') problems.push(...tagProblems(step.tag, object, workspace, at('tag')));
      if (step.kind === 'set_field') toResolve.push(checkSetting(step, object, workspace, now, at));
      if (step.kind === 'create_task') {
        const { title, task_type, assigned_to } = step;
        const body = { title, scheduled_at: now.toISOString(), ...omitUndefined({ task_type, assigned_to }) };
        toResolve.push({ checked: checkTask(body, { object: object.object, id: '' }, workspace, now), at });
      }
    }
  }
  return { problems, toResolve };
}

/** Removes duplicates, because several objects may reject the same field. */
export function dropRepeatedProblems(problems: readonly FieldProblem[]): FieldProblem[] {
  return [...new Map(problems.map((each) => [`${each.field} ${each.code} ${each.message}`, each])).values()];
}

function findConditionProblems(condition: KeptCondition, object: WorkspaceObject, field: string): FieldProblem[] {
  return readOwnFilter(condition, object).problems.map((each) => ({ ...each, field }));
}

function findTextProblems(step: Step, object: WorkspaceObject, at: (name: string) => string): FieldProblem[] {
  return (['title', 'content', 'subject', 'body'] as const).flatMap((name) => {
    const text = (step as Partial<Record<typeof name, string>>)[name];
    return text === undefined ? [] : findPlaceholderProblems(at(name), text, object);
  });
}

function findMessageProblems(
  { channel, subject, body }: Extract<Step, { kind: 'draft_message' }>,
  type: SubjectType,
  at: (name: string) => string,
): FieldProblem[] {
  const problems: FieldProblem[] = [];
  if (type === 'deal')
    problems.push(
      buildFieldProblem(
        at('kind'),
        'CONFLICTING_FIELDS',
        'is not allowed for deals, because they have no email address or phone number',
      ),
    );
  if (channel === 'email' && subject === undefined)
    problems.push(buildFieldProblem(at('subject'), 'REQUIRED', 'is required for emails'));
  if (channel !== 'email' && subject !== undefined)
    problems.push(buildFieldProblem(at('subject'), 'CONFLICTING_FIELDS', `is not allowed for ${channel}`));
  if (channel === 'sms' && [...body].length > longestText)
    problems.push(buildFieldProblem(at('body'), 'TOO_LONG', `must have at most ${longestText} characters for sms`));
  return problems;
}

/** A tag may be renamed or deleted later. The step then fails. */
function tagProblems(tag: string, { object }: WorkspaceObject, workspace: Workspace, field: string): FieldProblem[] {
  const known = workspace.tags.filter((each) => each.object === object);
  if (findByName(known, tag)) return [];
  const allowed = known.map(({ name }) => name);
  const rule = `must be the name of a tag of ${object}`;
  return [buildFieldProblem(field, 'INVALID_OPTION', rule, { allowed, meant: findClosest(tag, allowed) })];
}

function checkSetting(
  { field: name, value }: Extract<Step, { kind: 'set_field' }>,
  object: WorkspaceObject,
  workspace: Workspace,
  now: Date,
  at: (name: string) => string,
): CheckedStep {
  const field = object.fields.get(name);
  // The other fields of the record are unknown until the step runs.
  const others = Object.fromEntries(object.oneOf.map((each) => [each, 'something']));
  const checked = checkRecord(object, { [name]: value }, 'update', workspace, now, others);
  if (field && !field.readOnly && !field.immutable) return { checked, at: () => at('value') };
  const allowed = [...object.fields.values()]
    .filter((each) => !each.readOnly && !each.immutable)
    .map((each) => each.name);
  const meant = findClosest(name, allowed);
  const rule = `must be the name of a field of ${object.object} that can be changed`;
  checked.problems = [buildFieldProblem(name, 'INVALID_OPTION', rule, { allowed, ...(meant ? { meant } : {}) })];
  return { checked, at: () => at('field') };
}

/** Returns the filter of a condition now; undefined if it no longer fits the fields. */
export function buildConditionFilter(
  condition: KeptCondition,
  object: WorkspaceObject,
  clock: Clock,
): Filter | undefined {
  const { filter, problems } = readOwnFilter(condition, object);
  return problems.length > 0 || !filter ? undefined : resolveRelativeDates(filter, clock);
}

/** The API call of a step. */
export interface StepCall {
  operationId: 'createRecordTask' | 'createNote' | 'createRecordTag' | 'updateRecord' | 'createMessageDraft';
  path: Record<string, string>;
  body: Record<string, unknown>;
}

/** Returns the ID of the record that a call is about. */
export function findCallRecord({ path, body }: StepCall): string {
  return String(path.id ?? body.record_id);
}

/** Returns the call of a step for the current record, or why there is nothing to do. */
export function buildStepCall(
  step: Exclude<Step, { kind: 'wait' | 'stop_when' }>,
  object: WorkspaceObject,
  record: StoredRecord,
  now: Date,
): StepCall | { skipped: string } {
  const path = { object: object.object, id: record.id };
  const values = { ...record.values, ...record.custom };
  const fill = (text: string, most: number): string => truncate(fillPlaceholders(text, object, values), most);
  const blank = (name: string) => ({ skipped: `${name} is empty for this record` });
  switch (step.kind) {
    case 'create_task': {
      const title = fill(step.title, maxLengths.title).trim();
      if (title === '') return blank('title');
      const due = new Date(now.getTime() + (step.due_in_minutes ?? defaultDueMinutes) * 60_000);
      const { task_type, assigned_to } = step;
      const body = { title, scheduled_at: due.toISOString(), ...omitUndefined({ task_type, assigned_to }) };
      return { operationId: 'createRecordTask', path, body };
    }
    case 'add_note': {
      const content = fill(step.content, maxLengths.content);
      return content.trim() === '' ? blank('content') : { operationId: 'createNote', path, body: { content } };
    }
    case 'set_field':
      return { operationId: 'updateRecord', path, body: { [step.field]: step.value } };
    case 'add_tag':
      return { operationId: 'createRecordTag', path, body: { name: step.tag } };
    case 'draft_message': {
      const { channel, from } = step;
      const to = object.object === 'deals' ? undefined : findRecipient(object.object as 'leads', channel, values);
      if (to === undefined)
        return { skipped: `the record has no ${channel === 'email' ? 'email address' : 'phone number'}` };
      const body = fill(step.body, channel === 'sms' ? longestText : maxLengths.body);
      if (body.trim() === '') return blank('body');
      // The subject stays one line, regardless of the record's values.
      const subject =
        step.subject && fill(step.subject.replace(/\s+/g, ' '), maxLengths.subject).replace(/\s+/g, ' ').trim();
      if (subject === '') return blank('subject');
      const about = { object: object.object, record_id: record.id };
      return {
        operationId: 'createMessageDraft',
        path: {},
        body: { channel, to, ...omitUndefined({ subject, from }), body, ...about },
      };
    }
  }
}

/** Removes undefined values. */
function omitUndefined(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Returns the start of a text without splitting characters. */
const truncate = (text: string, most: number): string =>
  text.length <= most ? text : [...text].slice(0, most).join('');

/** The item that a step created. */
export interface CreatedItem {
  object: 'tasks' | 'notes' | 'message_drafts';
  id: string;
}

/** Returns the item that a step's call created. @param answer the data of the response */
export function findCreatedItem({ operationId }: StepCall, answer: unknown): CreatedItem | undefined {
  const { task, note, draft } = answer as Record<'task' | 'note' | 'draft', { id: string } | undefined>;
  if (operationId === 'createRecordTask' && task) return { object: 'tasks', id: task.id };
  if (operationId === 'createNote' && note) return { object: 'notes', id: note.id };
  if (operationId === 'createMessageDraft' && draft) return { object: 'message_drafts', id: draft.id };
  return undefined;
}
