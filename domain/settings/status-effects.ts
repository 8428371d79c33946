// What entering a status sets: when a record was won, lost or completed, and how likely it is.
import type { Status } from '../objects/configuration.ts';
import type { StoredValue } from '../objects/field-values.ts';
import type { Workspace } from '../objects/workspace.ts';

type Values = Readonly<Record<string, StoredValue>>;

/** The probability of a deal that enters a stage with the outcome; undefined if the outcome says nothing about it. */
export function probabilityOf(outcome: string | undefined): number | undefined {
  if (outcome === 'won') return 100;
  return outcome === 'lost' ? 0 : undefined;
}

/** What closing a deal sets. */
function closingEffects(outcome: string): Record<string, StoredValue> {
  const probability = probabilityOf(outcome);
  return {
    ...(probability === undefined ? {} : { probability }),
    ...(outcome === 'won' ? { lost_reason: null } : {}),
  };
}

/** The field that holds the status, and what entering one sets. */
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
      ...closingEffects(outcome),
    }),
  },
  tasks: {
    field: 'status',
    effects: (outcome, now) => ({ completed_at: outcome === 'completed' ? now : null }),
  },
};

/**
 * The status that a write moves the record into, or undefined when it stays where it is. What a status demands of the records
 * that enter it is to be checked for exactly these writes.
 * @param before undefined for a new record
 */
export function enteredStatus(object: string, before: Values | undefined, after: Values): string | undefined {
  const field = statusFields[object]?.field;
  const status = field === undefined ? null : (after[field] ?? null);
  return field === undefined || status === null || status === (before?.[field] ?? null) ? undefined : String(status);
}

/** The fields that entering a status sets and clears. */
export function statusEffects(
  object: string,
  status: string | undefined,
  workspace: Workspace,
  now: Date,
): Record<string, StoredValue> {
  const rule = statusFields[object];
  if (!rule || status === undefined) return {};
  return rule.effects(outcomeOf(object, status, workspace), now.toISOString());
}

/** The event of a lead or deal that went from one status to another; undefined when it stays, and for records without such. */
export function moveEvent(
  object: string,
  { id, values: before }: { id: string; values: Values },
  after: { values: Values },
  workspace: Workspace,
  now: Date,
): { name: string; data: Record<string, unknown> } | undefined {
  const name = moveEvents[object];
  const entered = enteredStatus(object, before, after.values);
  if (name === undefined || entered === undefined) return undefined;
  const from = statusItem(object, before[statusFields[object]?.field ?? ''], workspace);
  const to = statusItem(object, entered, workspace);
  const moved = { from: from?.name ?? null, from_id: from?.id ?? null, to: to?.name ?? null, to_id: entered };
  return { name, data: { object, record_id: id, ...moved, occurred_at: now.toISOString() } };
}

const moveEvents: Readonly<Record<string, string>> = { leads: 'lead.status_changed', deals: 'deal.stage_changed' };

/** True for a lead or deal in a status that ends its way: won, lost, converted or disqualified. */
export function isSettled(object: string, values: Values, workspace: Workspace): boolean {
  if (object !== 'leads' && object !== 'deals') return false;
  const status = values[statusFields[object]?.field ?? ''] ?? null;
  return status !== null && outcomeOf(object, String(status), workspace) !== 'open';
}

/** The outcome of a configured status; a task's status says it itself. */
function outcomeOf(object: string, status: string, workspace: Workspace): string {
  return object === 'tasks' ? status : (statusItem(object, status, workspace)?.outcome ?? 'open');
}

/** The statuses of leads or the stages of deals, in their order. */
export function statusesOf(object: string, workspace: Workspace): readonly Status[] {
  return workspace.statuses.filter((status) => status.object === object);
}

/** A configured status; undefined also for objects whose statuses nobody configures. */
export function statusItem(object: string, id: StoredValue | undefined, workspace: Workspace): Status | undefined {
  return statusesOf(object, workspace).find((status) => status.id === id);
}
