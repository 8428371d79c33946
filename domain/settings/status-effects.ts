// The effects of entering a status: the time of winning, losing or completing, and the probability.
import type { Status } from '../objects/configuration.ts';
import type { StoredValue } from '../objects/field-values.ts';
import type { Workspace } from '../objects/workspace.ts';

type Values = Readonly<Record<string, StoredValue>>;

/**
 * Returns the probability of a deal that enters a stage with the outcome; undefined if the outcome
 * does not determine it.
 */
export function findProbability(outcome: string | undefined): number | undefined {
  if (outcome === 'won') return 100;
  return outcome === 'lost' ? 0 : undefined;
}

/** Returns the fields that closing a deal sets. */
function findClosingEffects(outcome: string): Record<string, StoredValue> {
  const probability = findProbability(outcome);
  return {
    ...(probability === undefined ? {} : { probability }),
    ...(outcome === 'won' ? { lost_reason: null } : {}),
  };
}

/** The status field, and the fields that entering a status sets. */
const statusFields: Readonly<
  Record<string, { field: string; effects: (outcome: string, now: string) => Record<string, StoredValue> }>
> = {
  leads: {
    field: 'lead_status',
    effects: (outcome, now) => ({ converted_at: outcome === 'converted' ? now : null }),
  },
  deals: {
    field: 'stage',
    effects: (outcome, now) => ({
      stage_changed_at: now,
      won_at: outcome === 'won' ? now : null,
      lost_at: outcome === 'lost' ? now : null,
      ...findClosingEffects(outcome),
    }),
  },
  tasks: {
    field: 'status',
    effects: (outcome, now) => ({ completed_at: outcome === 'completed' ? now : null }),
  },
};

/**
 * Returns the status that a write moves the record into; undefined if it stays. Pre-conditions of a
 * status apply to exactly these writes.
 * @param before undefined for a new record
 */
export function findEnteredStatus(object: string, before: Values | undefined, after: Values): string | undefined {
  const field = statusFields[object]?.field;
  const status = field === undefined ? null : (after[field] ?? null);
  return field === undefined || status === null || status === (before?.[field] ?? null) ? undefined : String(status);
}

/** Returns the fields that entering a status sets and clears. */
export function computeStatusEffects(
  object: string,
  status: string | undefined,
  workspace: Workspace,
  now: Date,
): Record<string, StoredValue> {
  const rule = statusFields[object];
  if (!rule || status === undefined) return {};
  const pipelineId = findStatusItem(object, status, workspace)?.pipelineId ?? null;
  return {
    ...rule.effects(findOutcome(object, status, workspace), now.toISOString()),
    // The stage determines the pipeline of a deal.
    ...(pipelineId === null ? {} : { pipeline: pipelineId }),
  };
}

/**
 * Returns the event of a lead or deal that moved to another status; undefined if it stays, and for
 * other objects.
 */
export function buildMoveEvent(
  object: string,
  { id, values: before }: { id: string; values: Values },
  after: { values: Values },
  workspace: Workspace,
  now: Date,
): { name: string; data: Record<string, unknown> } | undefined {
  const name = moveEvents[object];
  const entered = findEnteredStatus(object, before, after.values);
  if (name === undefined || entered === undefined) return undefined;
  const from = findStatusItem(object, before[statusFields[object]?.field ?? ''], workspace);
  const to = findStatusItem(object, entered, workspace);
  const moved = { from: from?.name ?? null, from_id: from?.id ?? null, to: to?.name ?? null, to_id: entered };
  return { name, data: { object, record_id: id, ...moved, occurred_at: now.toISOString() } };
}

const moveEvents: Readonly<Record<string, string>> = { leads: 'lead.status_changed', deals: 'deal.stage_changed' };

/** Returns true for a lead or deal with a final status: won, lost, converted or disqualified. */
export function isSettled(object: string, values: Values, workspace: Workspace): boolean {
  if (object !== 'leads' && object !== 'deals') return false;
  const status = values[statusFields[object]?.field ?? ''] ?? null;
  return status !== null && findOutcome(object, String(status), workspace) !== 'open';
}

/** Returns the outcome of a configured status. The status of a task is its own outcome. */
function findOutcome(object: string, status: string, workspace: Workspace): string {
  return object === 'tasks' ? status : (findStatusItem(object, status, workspace)?.outcome ?? 'open');
}

/** Returns the statuses of leads, or the stages of deals in all pipelines, in their order. */
export function listStatuses(object: string, workspace: Workspace): readonly Status[] {
  return workspace.statuses.filter((status) => status.object === object);
}

/** Returns a configured status; undefined for objects without configurable statuses. */
export function findStatusItem(object: string, id: StoredValue | undefined, workspace: Workspace): Status | undefined {
  return listStatuses(object, workspace).find((status) => status.id === id);
}
