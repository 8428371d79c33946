// Stored conditions of the configuration, with ids instead of names: parsing, checks and responses.
import { readComparison } from './comparisons.ts';
import type { KeptComparison } from './configuration.ts';
import { buildFieldProblem, type FieldProblem } from './field-values.ts';
import type { GivenCondition } from './filter-tree.ts';
import { type Operator, operators } from './filter-values.ts';
import { findQueryableField, listQueryableNames } from './queryable.ts';
import { isResolved } from './relative-dates.ts';
import { findClosest } from './suggestions.ts';
import { type Field, findByName, type WorkspaceObject } from './workspace.ts';

/** A comparison as a caller sent it. The OpenAPI document checks its shape. */
export interface GivenComparison {
  field: unknown;
  operator: unknown;
  value: unknown;
}

/** The path of a comparison, for its problems, and what it accepts there. */
export interface ComparisonPath {
  path: string;
  /** Why relative dates are not accepted; follows the field's name. */
  noRelativeDates?: string;
  /** The name of the operator there. */
  operator: 'operator' | 'op';
}

/**
 * Checks a comparison against the published fields of the object.
 * @returns undefined if there is a problem, which is added unless the OpenAPI document finds it
 * itself
 */
export function checkComparison(
  object: WorkspaceObject,
  given: GivenComparison,
  at: ComparisonPath,
  problems: FieldProblem[],
): KeptComparison | undefined {
  const { field: name, operator, value } = given;
  if (typeof name !== 'string' || !isOperator(operator)) return undefined;
  const field = findQueryableField(object, name);
  if (!field) {
    const allowed = listQueryableNames(object);
    const meant = findClosest(name, allowed);
    problems.push(
      buildFieldProblem(`${at.path}.field`, 'UNKNOWN_FIELD', `must be the name of a field of ${object.object}`, {
        allowed,
        meant,
      }),
    );
    return undefined;
  }
  const read = readComparison(field, operator, value);
  if ('condition' in read) {
    if (at.noRelativeDates !== undefined && !isResolved(read.condition)) {
      problems.push(buildFieldProblem(`${at.path}.value`, 'INVALID_TYPE', at.noRelativeDates));
      return undefined;
    }
    const kept = operator === 'is_null' ? (value ?? true) : withIds(field, value);
    return { field: name, operator, value: kept };
  }
  const { code, rule, ...more } = read.fault;
  // In all other cases, the value is not of the field's type.
  const shownCode = code === 'INVALID_OPTION' ? code : 'INVALID_TYPE';
  const part = read.part === 'value' ? 'value' : at.operator;
  problems.push(buildFieldProblem(`${at.path}.${part}`, shownCode, rule, more));
  return undefined;
}

function isOperator(given: unknown): given is Operator {
  return operators.some((operator) => operator === given);
}

/** Returns the value with the current names of its ids; ids of deleted items stay. */
export function toResponseComparisonValue(object: WorkspaceObject, kept: KeptComparison): unknown {
  const field = findQueryableField(object, kept.field);
  return field ? withNames(field, kept.value) : kept.value;
}

/** Returns the condition to evaluate; undefined if the comparison no longer fits the fields. */
export function toCondition(object: WorkspaceObject, kept: KeptComparison): GivenCondition | undefined {
  const field = findQueryableField(object, kept.field);
  if (!field) return undefined;
  const read = readComparison(field, kept.operator, withNames(field, kept.value));
  return 'condition' in read ? read.condition : undefined;
}

function withIds({ items }: Field, value: unknown): unknown {
  return items ? swapped(value, (name) => findByName(items, name)?.id) : value;
}

function withNames({ items }: Field, value: unknown): unknown {
  return items ? swapped(value, (id) => items.find((item) => item.id === id)?.name) : value;
}

function swapped(value: unknown, other: (text: string) => string | undefined): unknown {
  if (Array.isArray(value)) return value.map((each) => swapped(each, other));
  return typeof value === 'string' ? (other(value) ?? value) : value;
}
