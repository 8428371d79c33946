// Saved views: their checks, and lists of records that apply one.
import type { FieldProblem } from '../objects/field-values.ts';
import { type GivenFilter, parseFilter, type RelationContext, readFilter } from '../objects/filter.ts';
import { parseSort, type SortKey } from '../objects/sort.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';
import { findUnknownFieldProblems } from './reading.ts';

/** What a view applies to a list. */
export interface ViewQuery {
  filter: Record<string, unknown> | null;
  sort: string | null;
  fields: readonly string[] | null;
}

/** Returns the problems of a filter; none without one. */
export function findFilterProblems(
  filter: Record<string, unknown> | null | undefined,
  object: WorkspaceObject,
  context: RelationContext,
): FieldProblem[] {
  return filter ? readFilter(filter, object, context).problems : [];
}

/** Returns the problems of a sort order and of fields. */
export function findOrderProblems(
  { sort, fields }: { sort?: string | null | undefined; fields?: readonly string[] | null | undefined },
  object: WorkspaceObject,
): FieldProblem[] {
  return [...parseSort(sort ?? undefined, object).problems, ...findUnknownFieldProblems(fields ?? [], object)];
}

/** Returns everything in a view that does not fit the object. */
export function findViewProblems(view: ViewQuery, object: WorkspaceObject, context: RelationContext): FieldProblem[] {
  return [...findFilterProblems(view.filter, object, context), ...findOrderProblems(view, object)];
}

/** The parameters of a list, as the caller sends them. */
export interface ListParameters {
  filter?: string | undefined;
  sort?: string | undefined;
  fields?: string | undefined;
}

export interface ListQuery {
  filter: GivenFilter | undefined;
  sort: readonly SortKey[];
  /** The parameter `fields` that applies. */
  fields: string | undefined;
  /** Of the parameters, alone and together with the view. */
  problems: FieldProblem[];
  /** Of the parts of the view that apply. */
  inView: FieldProblem[];
}

/**
 * Reads the parameters of a list, with those of a view: both filters apply, and the parameters
 * `sort` and `fields` replace those of the view.
 */
export function readListQuery(
  given: ListParameters,
  view: ViewQuery | undefined,
  object: WorkspaceObject,
  context: RelationContext,
): ListQuery {
  const own = parseFilter(given.filter, object, context);
  const ofView = view?.filter ? readFilter(view.filter, object, context) : undefined;
  const sort = parseSort(given.sort ?? view?.sort ?? undefined, object);
  const applied = {
    sort: given.sort === undefined ? view?.sort : undefined,
    fields: given.fields === undefined ? view?.fields : undefined,
  };
  const problems = [...(applied.sort ? [] : sort.problems), ...own.problems];
  const inView = [...(ofView?.problems ?? []), ...findOrderProblems(applied, object)];
  const fields = given.fields ?? (inView.length === 0 ? applied.fields?.join(',') : undefined);
  const isCombined = ofView?.filter && own.filter && problems.length + inView.length === 0;
  const combined = isCombined
    ? readFilter(combineFilters(view?.filter, JSON.parse(given.filter ?? 'null')), object, context)
    : { filter: own.filter ?? ofView?.filter, problems: [] };
  return {
    filter: combined.filter,
    sort: sort.keys,
    fields,
    problems: [...problems, ...combined.problems],
    inView,
  };
}

export interface ExportQuery {
  filter: Record<string, unknown> | null;
  fields: readonly string[] | null;
  /** Of the filter that was sent, alone and together with that of the view. */
  inFilter: FieldProblem[];
  /** Of the fields that were sent. */
  inFields: FieldProblem[];
  /** Of the parts of the view that apply. */
  inView: FieldProblem[];
}

/**
 * Reads what an export contains, with a view: both filters apply, and the fields replace those of
 * the view, as in lists.
 */
export function readExportQuery(
  { filter, fields }: { filter: Record<string, unknown> | null; fields: readonly string[] | null },
  view: ViewQuery | undefined,
  object: WorkspaceObject,
  context: RelationContext,
): ExportQuery {
  const ofView = view?.filter ?? null;
  const inFilter = findFilterProblems(filter, object, context);
  const inView = [
    ...findFilterProblems(ofView, object, context),
    ...findOrderProblems({ fields: fields ? undefined : view?.fields }, object),
  ];
  const both = filter && ofView && inFilter.length + inView.length === 0 ? combineFilters(ofView, filter) : undefined;
  return {
    filter: both ?? filter ?? ofView,
    fields: fields ?? view?.fields ?? null,
    inFilter: [...inFilter, ...findFilterProblems(both, object, context)],
    inFields: findUnknownFieldProblems(fields ?? [], object),
    inView,
  };
}

/** Returns a filter that holds if both do. An `and` at the top of either adds no level. */
function combineFilters(...filters: unknown[]): Record<string, unknown> {
  return { and: filters.flatMap((filter) => (isAnd(filter) ? filter.and : [filter])) };
}

function isAnd(filter: unknown): filter is { and: unknown[] } {
  return filter !== null && typeof filter === 'object' && 'and' in filter && Array.isArray(filter.and);
}
