// Filters of records by the next SLA deadline and by what it means at the time of the filter.
import type { Condition, Tree } from './filter-tree.ts';
import type { Field } from './workspace.ts';

/** The objects whose records have SLA clocks. */
export const clockedObjects: ReadonlySet<string> = new Set(['leads', 'deals', 'customers']);

const deadline = 'sla_due_at';
const status = 'sla_status';

/** Milliseconds before its deadline within which a clock is at risk. */
const riskMs = 3_600_000;

const statuses = { running: 'Running', at_risk: 'At risk', breached: 'Breached' } as const;

/** Fields that filters of these objects may name; both are about the running clock that is due first. */
export const slaFields: readonly Field[] = [
  { name: deadline, label: 'Next SLA deadline', type: 'datetime', custom: false, required: false },
  {
    name: status,
    label: 'SLA status',
    type: 'select',
    custom: false,
    required: false,
    options: Object.entries(statuses).map(([value, label]) => ({ value, label })),
  },
];

/** Returns true for a condition on the status, which depends on the time. */
export const isSlaStatus = ({ field }: { field: string }): boolean => field === status;

/** Replaces a condition on the status by conditions on the next deadline. */
export function resolveSlaStatus(condition: Condition, now: Date): Tree<Condition> {
  switch (condition.op) {
    case 'is_null':
      return { field: deadline, op: 'is_null', isNull: condition.isNull };
    case 'eq':
      return hasStatus(String(condition.value), now);
    case 'neq':
      return { not: hasStatus(String(condition.value), now) };
    case 'in':
    case 'not_in': {
      const isOne = { or: condition.values.map((value) => hasStatus(String(value), now)) };
      return condition.op === 'in' ? isOne : { not: isOne };
    }
    default:
      throw new Error(`${status} has no ${condition.op}`);
  }
}

function hasStatus(value: string, now: Date): Tree<Condition> {
  const isBreached: Condition = { field: deadline, op: 'lte', value: now.toISOString() };
  const isRunning: Condition = { field: deadline, op: 'gt', value: now.toISOString() };
  if (value === 'breached') return isBreached;
  if (value === 'running') return isRunning;
  const riskEnds = new Date(now.getTime() + riskMs).toISOString();
  return { and: [isRunning, { field: deadline, op: 'lte', value: riskEnds }] };
}
