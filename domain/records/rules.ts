// Rules of single built-in objects that involve more than one field.

import { buildFieldProblem, type StoredValue, toUuid } from '../objects/field-values.ts';
import type { Workspace } from '../objects/workspace.ts';
import { isCurrency } from '../service/zones-and-currencies.ts';
import { listStages } from '../settings/pipelines.ts';
import { findEnteredStatus, findProbability, findStatusItem } from '../settings/status-effects.ts';
import type { CheckedRecord, Draft } from './draft.ts';
import { isEntityType } from './entity-types.ts';

const rules: Readonly<Record<string, (draft: Draft) => void>> = {
  deals: checkDeal,
  tasks: checkTaskTarget,
  activities: checkActivity,
};

/** Applies the rules of the draft's object. Adds problems and references to it. */
export function checkRules(draft: Draft): void {
  rules[draft.object.object]?.(draft);
}

function checkDeal(draft: Draft): void {
  checkCurrency(draft);
  checkPipelineChange(draft);
  checkProbability(draft, draft.stored, draft.workspace);
}

/**
 * Adds a problem if a deal enters a stage with the outcome won or lost, and another probability is
 * sent. Such a stage determines the probability.
 * @param before the values of the deal; without a stage for a new one
 */
export function checkProbability(
  { values, problems }: Pick<CheckedRecord, 'values' | 'problems'>,
  before: Readonly<Record<string, StoredValue>>,
  workspace: Workspace,
): void {
  const { outcome, name } = findStatusItem('deals', findEnteredStatus('deals', before, values), workspace) ?? {};
  const wanted = findProbability(outcome);
  const sent = values.probability ?? null;
  if (wanted === undefined || sent === null || sent === wanted) return;
  const rule = `must be ${wanted} or omitted if the deal enters the stage ${name}, which has the outcome ${outcome}`;
  problems.push(buildFieldProblem('probability', 'CONFLICTING_FIELDS', rule, { allowed: [String(wanted)] }));
}

/** Adds a problem if an update moves a deal to another pipeline without naming a stage of it. */
function checkPipelineChange({ mode, values, stored, sent, workspace, problems }: Draft): void {
  const { pipeline } = values;
  if (mode === 'create' || typeof pipeline !== 'string' || pipeline === stored.pipeline || sent.has('stage')) return;
  const allowed = listStages(pipeline, workspace).flatMap(({ name, isActive }) => (isActive ? [name] : []));
  problems.push(
    buildFieldProblem('stage', 'REQUIRED', 'is required to move the deal to another pipeline', { allowed }),
  );
}

function checkCurrency(draft: Draft): void {
  const { values } = draft;
  if (typeof values.currency_code !== 'string') return;
  const code = values.currency_code.toUpperCase();
  if (isCurrency(code)) values.currency_code = code;
  else
    draft.problems.push(buildFieldProblem('currency_code', 'INVALID_FORMAT', 'must be an ISO 4217 currency, e.g. EUR'));
}

/** Requires object and record_id of a task together, or neither. */
function checkTaskTarget(draft: Draft): void {
  if (!draft.sent.has('object') && !draft.sent.has('record_id')) return;
  const object = draft.joined('object');
  const recordId = draft.joined('record_id');
  if (object === undefined || recordId === undefined) return;
  if (object === null && recordId === null) return;
  if (object === null || recordId === null) {
    const [missing, present] = object === null ? ['object', 'record_id'] : ['record_id', 'object'];
    draft.problems.push(
      draft.sent.has(missing)
        ? buildFieldProblem(missing, 'CONFLICTING_FIELDS', `cannot be empty while ${present} has a value`)
        : buildFieldProblem(missing, 'REQUIRED', `is required if ${present} is sent`),
    );
    return;
  }
  const id = toUuid(String(recordId));
  const known = draft.workspace.objects.has(String(object));
  if (!known) {
    const allowed = [...draft.workspace.objects.keys()];
    draft.problems.push(buildFieldProblem('object', 'INVALID_OPTION', 'must be the name of an object', { allowed }));
  }
  if (id === undefined) draft.problems.push(buildFieldProblem('record_id', 'INVALID_FORMAT', 'must be a UUID'));
  if (!known || id === undefined) return;
  if (draft.sent.has('record_id')) draft.values.record_id = id;
  draft.references.push({ field: 'record_id', kind: 'record', value: id, object: String(object) });
}

/** Minutes that a client's clock may be ahead. */
const clockSkew = 5 * 60_000;

function checkActivity(draft: Draft): void {
  const entityType = draft.joined('entity_type');
  if (typeof draft.values.entity_id === 'string') {
    const id = toUuid(draft.values.entity_id);
    if (id === undefined) draft.problems.push(buildFieldProblem('entity_id', 'INVALID_FORMAT', 'must be a UUID'));
    else {
      draft.values.entity_id = id;
      if (isEntityType(entityType)) draft.references.push({ field: 'entity_id', kind: entityType, value: id });
    }
  }
  const performedAt = draft.joined('performed_at');
  const followupAt = draft.joined('followup_at');
  if (
    draft.sent.has('performed_at') &&
    performedAt &&
    Date.parse(String(performedAt)) > draft.now.getTime() + clockSkew
  )
    draft.problems.push(buildFieldProblem('performed_at', 'OUT_OF_RANGE', 'must not be in the future'));
  const changed = draft.sent.has('performed_at') || draft.sent.has('followup_at');
  if (changed && performedAt && followupAt && String(followupAt) <= String(performedAt))
    draft.problems.push(buildFieldProblem('followup_at', 'OUT_OF_RANGE', 'must be after performed_at'));
}
