// Conditions that the configuration keeps: checked when they are written, and with ids in place of configured names, so that a rename does not break them.
import { type Condition, readComparison } from './comparisons.ts';
import { type FieldProblem, fieldProblem } from './field-values.ts';
import { type Operator, operators } from './filter-values.ts';
import { queryableField, queryableNames } from './queryable.ts';
import { closest } from './suggestions.ts';
import { type Field, findByName, lookupItems, type Workspace, type WorkspaceObject } from './workspace.ts';

/** A comparison as a caller wrote it; whether it has the right shape is the document's to say. */
export interface GivenComparison {
  field: unknown;
  operator: unknown;
  value: unknown;
}

/** As it is kept. */
export interface KeptComparison {
  field: string;
  operator: string;
  value: unknown;
}

/** Where a comparison stands, for its problems. */
export interface Place {
  path: string;
  /** What the operator is called there. */
  operator: 'operator' | 'op';
}

/**
 * Holds a comparison against the published fields of the object.
 * @returns undefined when something is wrong; then the problem is added, unless the document finds it itself
 */
export function checkComparison(
  object: WorkspaceObject,
  workspace: Workspace,
  given: GivenComparison,
  place: Place,
  problems: FieldProblem[],
): KeptComparison | undefined {
  const { field: name, operator, value } = given;
  if (typeof name !== 'string' || !isOperator(operator)) return undefined;
  const field = queryableField(object, name);
  if (!field) {
    const allowed = queryableNames(object);
    const meant = closest(name, allowed);
    problems.push(
      fieldProblem(`${place.path}.field`, 'UNKNOWN_FIELD', `names no field of ${object.object}`, { allowed, meant }),
    );
    return undefined;
  }
  const read = readComparison(object, field, operator, value, workspace);
  if ('condition' in read) {
    const kept = operator === 'is_null' ? (value ?? true) : withIds(field, value, workspace);
    return { field: name, operator, value: kept };
  }
  const { code, rule, ...more } = read.fault;
  // Whatever it is that does not fit, the value is not of the field's type.
  const shownCode = code === 'INVALID_OPTION' ? code : 'INVALID_TYPE';
  const part = read.part === 'value' ? 'value' : place.operator;
  problems.push(fieldProblem(`${place.path}.${part}`, shownCode, rule, more));
  return undefined;
}

function isOperator(given: unknown): given is Operator {
  return operators.some((operator) => operator === given);
}

/** The value with the names that its ids have now; ids of what is gone stay. */
export function shownComparisonValue(object: WorkspaceObject, workspace: Workspace, kept: KeptComparison): unknown {
  const field = queryableField(object, kept.field);
  return field ? withNames(field, kept.value, workspace) : kept.value;
}

/** What to evaluate; undefined when the comparison does not fit the fields any more. */
export function toCondition(
  object: WorkspaceObject,
  workspace: Workspace,
  kept: KeptComparison,
): Condition | undefined {
  const field = queryableField(object, kept.field);
  if (!field) return undefined;
  const read = readComparison(object, field, kept.operator, withNames(field, kept.value, workspace), workspace);
  return 'condition' in read ? read.condition : undefined;
}

function withIds(field: Field, value: unknown, workspace: Workspace): unknown {
  if (!field.lookup) return value;
  const items = lookupItems(field.lookup, workspace);
  return swapped(value, (name) => findByName(items, name)?.id);
}

function withNames(field: Field, value: unknown, workspace: Workspace): unknown {
  if (!field.lookup) return value;
  const items = lookupItems(field.lookup, workspace);
  return swapped(value, (id) => items.find((item) => item.id === id)?.name);
}

function swapped(value: unknown, other: (text: string) => string | undefined): unknown {
  if (Array.isArray(value)) return value.map((each) => swapped(each, other));
  return typeof value === 'string' ? (other(value) ?? value) : value;
}
