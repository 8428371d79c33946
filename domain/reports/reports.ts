// The body of a report: fields, buckets and window, with all problems.

import type { FieldType } from '../objects/builtin.ts';
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { type Filter, type RelationContext, readFilter } from '../objects/filter.ts';
import { isRelated, listLeaves } from '../objects/filter-tree.ts';
import { getTagsField } from '../objects/queryable.ts';
import { type Clock, resolveRelativeDates } from '../objects/relative-dates.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';

type Metric = 'count' | 'sum' | 'avg' | 'min' | 'max';
type Bucket = 'day' | 'week' | 'month';

export interface ReportBody {
  metric?: Metric;
  field?: string | null | undefined;
  group_by?: string | readonly string[] | null | undefined;
  bucket?: Bucket | null | undefined;
  /**
   * ISO 8601 in UTC with milliseconds, as the OpenAPI document's formats produce it. The same for
   * `to`.
   */
  from?: string | null | undefined;
  to?: string | null | undefined;
  /** The field that from and to compare. */
  date_field?: string | null | undefined;
  filter?: Record<string, unknown> | null | undefined;
}

export interface Report {
  metric: Metric;
  field: Field | undefined;
  /** At most two; none: one group of everything. */
  groupBy: readonly Field[];
  /** Of date fields in groupBy. */
  bucket: Bucket | undefined;
  /** The filter, including the window. */
  filter: Filter | undefined;
}

const created: Field = { name: 'created_at', label: 'Created', type: 'datetime', custom: false, required: false };
const updated: Field = { ...created, name: 'updated_at', label: 'Updated' };
const numeric: ReadonlySet<FieldType> = new Set<FieldType>(['number', 'currency']);
const temporal: ReadonlySet<FieldType> = new Set<FieldType>(['date', 'datetime']);

/**
 * Reads the body of a report. Invalid parts are left out of the result.
 * @returns the problems of the filter separately, because an invalid filter is a 400 in every
 * operation
 */
export function readReport(
  body: ReportBody,
  object: WorkspaceObject,
  clock: Clock,
  relations: RelationContext,
): { report: Report; problems: FieldProblem[]; inFilter: FieldProblem[] } {
  const problems: FieldProblem[] = [];
  const { metric = 'count' } = body;
  const field = findField(body.field, 'field', object, problems);
  if (metric !== 'count') checkMeasure(metric, body.field, field, problems);
  const names = typeof body.group_by === 'string' ? [body.group_by] : (body.group_by ?? []);
  const isList = typeof body.group_by === 'object';
  const groupBy = names.flatMap((name, index) => {
    const place = isList ? `group_by[${index}]` : 'group_by';
    if (names.indexOf(name) < index)
      problems.push(buildFieldProblem(place, 'DUPLICATE', 'must not name a field twice'));
    return findField(name, place, object, problems) ?? [];
  });
  const isTemporal = groupBy.some(({ type }) => temporal.has(type));
  if (body.bucket && !isTemporal && groupBy.length === names.length)
    problems.push(
      buildFieldProblem('bucket', 'CONFLICTING_FIELDS', 'is only allowed if group_by is a date or datetime field'),
    );
  const { from, to } = body;
  if (from && to && from > to) problems.push(buildFieldProblem('to', 'OUT_OF_RANGE', 'must not be before from'));
  const filter = body.filter ? readFilter(body.filter, object, relations) : { filter: undefined, problems: [] };
  const bucket = isTemporal ? (body.bucket ?? 'day') : undefined;
  const dateField = findWindowField(body.date_field, object, problems);
  const conditions = [...toWindowConditions(dateField, from, to)];
  if (filter.filter) conditions.push(resolveRelativeDates(filter.filter, clock));
  return {
    report: { metric, field, groupBy, bucket, filter: conditions.length > 0 ? { and: conditions } : undefined },
    problems,
    inFilter: filter.problems,
  };
}

/** Returns the field of the window. */
function findWindowField(name: string | null | undefined, object: WorkspaceObject, problems: FieldProblem[]): Field {
  const field = name === updated.name ? updated : findField(name, 'date_field', object, problems);
  if (!field) return created;
  if (temporal.has(field.type)) return field;
  const rule = `must be a date or datetime field; ${field.name} has the type ${field.type}`;
  problems.push(buildFieldProblem('date_field', 'CONFLICTING_FIELDS', rule));
  return created;
}

/** Returns the conditions of a window. A date counts as the beginning of its day in UTC. */
function toWindowConditions(
  { name, type }: Field,
  from: string | null | undefined,
  to: string | null | undefined,
): Filter[] {
  const isDate = type === 'date';
  const first = from && isDate ? findFirstDate(from) : from;
  const last = to && isDate ? to.slice(0, 10) : to;
  return [
    ...(first ? [{ field: name, op: 'gte' as const, value: first }] : []),
    ...(last ? [{ field: name, op: 'lte' as const, value: last }] : []),
  ];
}

/** Returns the first date whose day begins at a time or later. */
function findFirstDate(time: string): string {
  const date = time.slice(0, 10);
  if (time.slice(10) === 'T00:00:00.000Z') return date;
  return new Date(Date.parse(`${date}T00:00:00.000Z`) + 86_400_000).toISOString().slice(0, 10);
}

function findField(
  name: string | null | undefined,
  place: string,
  object: WorkspaceObject,
  problems: FieldProblem[],
): Field | undefined {
  if (name === null || name === undefined) return undefined;
  const tags = place.startsWith('group_by') ? getTagsField(object) : undefined;
  const further = new Map([created, ...(tags ? [tags] : [])].map((each) => [each.name, each]));
  const field = further.get(name) ?? object.fields.get(name);
  if (!field) {
    const allowed = [...object.fields.keys(), ...further.keys()].slice(0, 50);
    problems.push(
      buildFieldProblem(place, 'UNKNOWN_FIELD', `must be the name of a field of ${object.object}`, {
        allowed,
      }),
    );
  }
  return field;
}

function checkMeasure(
  metric: Exclude<Metric, 'count'>,
  name: string | null | undefined,
  field: Field | undefined,
  problems: FieldProblem[],
): void {
  if (name === null || name === undefined) {
    problems.push(buildFieldProblem('field', 'REQUIRED', `is required if metric is ${metric}`));
    return;
  }
  const takesDates = metric === 'min' || metric === 'max';
  if (!field || numeric.has(field.type) || (takesDates && temporal.has(field.type))) return;
  const rule = `must be a number${takesDates ? ' or date' : ''} field if metric is ${metric}; ${field.name} has the type ${field.type}`;
  problems.push(buildFieldProblem('field', 'CONFLICTING_FIELDS', rule));
}

const textual: ReadonlySet<FieldType> = new Set<FieldType>(['text', 'textarea', 'email', 'phone', 'url']);

/**
 * Returns true for a report that would tell texts or ids of single records, so that it needs more
 * than leave to see figures. What a record is related to is as much as an id.
 */
export function revealsTexts({ field, groupBy, filter }: Report, object: WorkspaceObject): boolean {
  const isText = (name: string): boolean =>
    textual.has(
      object.fields.get(name)?.type ??
        (name === 'id' || name === 'created_by' || name === 'updated_by' ? 'text' : 'datetime'),
    );
  return (
    [field, ...groupBy].some((each) => each && isText(each.name)) ||
    (filter !== undefined && listLeaves(filter).some((condition) => isRelated(condition) || isText(condition.field)))
  );
}
