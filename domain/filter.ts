// The filter grammar of records: reads the JSON of a caller into a typed tree, or names every problem of it.
import type { FieldProblem } from './field-values.ts';
import { filterValue, type Operator, operatorsOf, type ValueFault } from './filter-values.ts';
import { queryableField, queryableNames, shown } from './queryable.ts';
import { filterLimits } from './request-limits.ts';
import type { Field, Workspace, WorkspaceObject } from './workspace.ts';

/** One comparison. Values are in stored form: ids for configured lists, text for custom fields. */
export type Condition =
  | { field: string; op: Exclude<Operator, 'in' | 'is_null'>; value: string | number }
  | { field: string; op: 'in'; values: readonly (string | number)[] }
  | { field: string; op: 'is_null'; isNull: boolean };

export type Filter = Condition | { and: readonly Filter[] } | { or: readonly Filter[] };

interface Reading {
  object: WorkspaceObject;
  workspace: Workspace;
  problems: FieldProblem[];
  conditions: number;
}

/** Reads the parameter. Without it there is no filter, and no problem. */
export function parseFilter(
  text: string | undefined,
  object: WorkspaceObject,
  workspace: Workspace,
): { filter: Filter | undefined; problems: FieldProblem[] } {
  if (text === undefined) return { filter: undefined, problems: [] };
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return { filter: undefined, problems: [malformed('filter must be JSON, percent-encoded')] };
  }
  return readFilter(given, object, workspace);
}

/** Reads a filter that is JSON already. */
export function readFilter(
  given: unknown,
  object: WorkspaceObject,
  workspace: Workspace,
): { filter: Filter | undefined; problems: FieldProblem[] } {
  const reading: Reading = { object, workspace, problems: [], conditions: 0 };
  const filter = readNode(given, 1, reading);
  if (reading.conditions > filterLimits.conditions) {
    const message = `filter takes at most ${filterLimits.conditions} conditions`;
    reading.problems.unshift({ field: 'filter', code: 'TOO_LONG', message });
  }
  return { filter, problems: reading.problems };
}

const malformed = (message: string): FieldProblem => ({ field: 'filter', code: 'INVALID_FORMAT', message });
const shape = 'filter must be {"field", "op", "value"}, {"and": […]} or {"or": […]}';

/** @param depth of the combinator that this node would be */
function readNode(given: unknown, depth: number, reading: Reading): Filter | undefined {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    reading.problems.push(malformed(shape));
    return undefined;
  }
  const node = given as Record<string, unknown>;
  const keys = Object.keys(node);
  if (!keys.includes('and') && !keys.includes('or')) return readCondition(node, keys, reading);
  const [combinator = ''] = keys;
  const members = node[combinator];
  if (keys.length > 1) reading.problems.push(malformed(`filter: ${shown(combinator)} must stand alone in its object`));
  else if (!Array.isArray(members) || members.length === 0)
    reading.problems.push(malformed(`filter: ${combinator} needs a list with at least one condition`));
  else if (depth > filterLimits.depth)
    reading.problems.push(malformed(`filter: and and or may be nested at most ${filterLimits.depth} deep`));
  else {
    const read: Filter[] = [];
    for (const member of members) {
      if (reading.conditions > filterLimits.conditions) return undefined;
      const inner = readNode(member, depth + 1, reading);
      if (inner) read.push(inner);
    }
    return combinator === 'and' ? { and: read } : { or: read };
  }
  return undefined;
}

function readCondition(node: Record<string, unknown>, keys: string[], reading: Reading): Condition | undefined {
  reading.conditions += 1;
  if (reading.conditions > filterLimits.conditions) return undefined;
  const { object, problems } = reading;
  const extra = keys.find((key) => key !== 'field' && key !== 'op' && key !== 'value');
  const { field: name, op } = node;
  if (extra !== undefined) problems.push(malformed(`filter: ${shown(extra)} is not part of a condition; ${shape}`));
  else if (typeof name !== 'string') problems.push(malformed('filter: a condition names its field as a string'));
  else {
    const field = queryableField(object, name);
    if (field) return readComparison(field, op, node.value, reading);
    problems.push({
      field: shown(name),
      code: 'UNKNOWN_FIELD',
      message: `filter: ${shown(name)} is not a field of ${object.object}`,
      allowed: queryableNames(object).slice(0, 50),
    });
  }
  return undefined;
}

function readComparison(field: Field, given: unknown, value: unknown, reading: Reading): Condition | undefined {
  const allowed = operatorsOf(field.type);
  const op = allowed.find((each) => each === given);
  const { name } = field;
  if (op === undefined) {
    const message = `filter: ${name} takes the operators ${allowed.join(', ')}`;
    reading.problems.push({ field: name, code: 'INVALID_OPTION', message, allowed: [...allowed] });
    return undefined;
  }
  const fail = (fault: ValueFault): undefined => {
    const { code, rule, allowed: options, hint } = fault;
    reading.problems.push({
      field: name,
      code,
      message: `filter: ${name} ${rule}`,
      ...(options ? { allowed: options.slice(0, 50) } : {}),
      ...(hint ? { hint } : {}),
    });
    return undefined;
  };
  if (op === 'is_null') {
    if (value !== undefined && typeof value !== 'boolean')
      return fail({ code: 'INVALID_TYPE', rule: 'is_null takes true or false' });
    return { field: name, op, isNull: value ?? true };
  }
  if (op !== 'in') {
    const read = filterValue(reading.object, field, op, value, reading.workspace);
    return 'fault' in read ? fail(read.fault) : { field: name, op, value: read.value };
  }
  if (!Array.isArray(value) || value.length === 0 || value.length > filterLimits.values)
    return fail({ code: 'INVALID_TYPE', rule: `in takes a list of 1 to ${filterLimits.values} values` });
  const values: (string | number)[] = [];
  for (const item of value) {
    const read = filterValue(reading.object, field, op, item, reading.workspace);
    if ('fault' in read) return fail(read.fault);
    values.push(read.value);
  }
  return { field: name, op, values };
}
