// Maps the columns of an import to fields, and rows to the bodies that batches take.
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { foldName } from '../objects/name-folding.ts';
import { findClosest } from '../objects/suggestions.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';

/** What the caller of an import chose. */
export interface ImportOptions {
  format: 'csv' | 'ndjson';
  mode: 'create' | 'update' | 'upsert';
  matchOn: string[];
  /** Columns and their fields; null: left out. */
  mapping: Record<string, string | null>;
  defaults: Record<string, unknown>;
  tags: string[];
  checkDuplicates: boolean;
  encoding: 'auto' | 'utf-8' | 'utf-16' | 'windows-1252';
  delimiter: 'auto' | ',' | ';' | 'tab' | 'pipe';
  maxErrors: number | null;
}

/** Returns true for columns that an error file adds. */
export const isErrorColumn = (column: string): boolean => column.startsWith('_error');

/** Returns the form in which names of columns and fields are compared. */
export const normalizeName = (name: string): string => foldName(name.trim());

/** Returns the fields that a column may be mapped to, in the form in which names are compared. */
export function mapTargets(object: WorkspaceObject, matchOn: readonly string[]): Map<string, string> {
  const names = new Map<string, string>();
  const writable = [...object.fields.values()].filter((field) => !field.readOnly);
  for (const { name, label } of writable) if (!names.has(normalizeName(label))) names.set(normalizeName(label), name);
  for (const { name } of writable) names.set(normalizeName(name), name);
  if (object.fields.has('assigned_to')) names.set('assigned_to_email', 'assigned_to_email');
  if (object.tags) names.set('tags', 'tags');
  if (matchOn.includes('id')) names.set('id', 'id');
  return names;
}

/** Finds the field of each column; one problem for each that has none. */
export class ColumnMapping {
  readonly #names: Map<string, string>;
  readonly #chosen: Map<string, string | null>;
  readonly #object: WorkspaceObject;

  constructor(object: WorkspaceObject, { mapping, matchOn }: Pick<ImportOptions, 'mapping' | 'matchOn'>) {
    this.#object = object;
    this.#names = mapTargets(object, matchOn);
    this.#chosen = new Map(Object.entries(mapping).map(([column, field]) => [normalizeName(column), field]));
  }

  /** Returns the field of a column; null: left out; undefined: none. */
  findField(column: string): string | null | undefined {
    if (isErrorColumn(column.trim())) return null;
    const chosen = this.#chosen.get(normalizeName(column));
    if (chosen === undefined) return this.#names.get(normalizeName(column));
    return chosen === null ? null : this.#names.get(normalizeName(chosen));
  }

  /** Returns a problem for each entry of the mapping that names no field. */
  problems(): FieldProblem[] {
    return [...this.#chosen].flatMap(([column, field]) =>
      field === null || this.#names.has(normalizeName(field)) ? [] : [this.unknown(column, field)],
    );
  }

  unknown(column: string, field: string | undefined): FieldProblem {
    const allowed = [...new Set(this.#names.values())];
    const meant = findClosest(field ?? normalizeName(column), allowed);
    const rule =
      field === undefined
        ? 'maps to no field. Map it to a field, or to null to leave it out'
        : 'must be the name of a field';
    return buildFieldProblem(`mapping.${column}`, 'UNKNOWN_FIELD', rule, { allowed, meant });
  }

  /** Returns the field of each column of a header, and the problems of the header. */
  ofHeader(
    columns: readonly string[],
    matchOn: readonly string[],
  ): { fields: (string | null)[]; problems: FieldProblem[] } {
    const problems: FieldProblem[] = [];
    const first = new Map<string, string>();
    const fields = columns.map((column) => {
      const field = this.findField(column);
      if (field === undefined)
        problems.push(this.unknown(column, this.#chosen.get(normalizeName(column)) ?? undefined));
      else if (field !== null) {
        const earlier = first.get(field);
        if (earlier !== undefined)
          problems.push(
            buildFieldProblem(
              `mapping.${column}`,
              'CONFLICTING_FIELDS',
              `maps to ${field}, as the column ${earlier || '""'} does`,
            ),
          );
        else first.set(field, column);
      }
      return field ?? null;
    });
    const present = new Set(columns.map(normalizeName));
    for (const column of this.#chosen.keys())
      if (!present.has(column))
        problems.push(buildFieldProblem(`mapping.${column}`, 'NOT_FOUND', 'is not a column of the file'));
    for (const [index, name] of matchOn.entries())
      if (!first.has(name))
        problems.push(buildFieldProblem(`match_on[${index}]`, 'NOT_FOUND', `needs a column that maps to ${name}`));
    return { fields, problems };
  }

  get object(): WorkspaceObject {
    return this.#object;
  }
}

/** The body of a row, or why there is none. */
export type RowBody = { body: Record<string, unknown> } | { problems: FieldProblem[]; message: string };

const failing = (message: string, problems: FieldProblem[] = []): RowBody => ({ problems, message });

/**
 * Returns the body of a CSV row. Empty cells have no value.
 * @param fields of the columns
 */
export function buildBodyFromCells(
  cells: readonly string[],
  columns: readonly string[],
  fields: readonly (string | null)[],
  object: WorkspaceObject,
  options: Pick<ImportOptions, 'defaults' | 'tags'>,
): RowBody {
  if (cells.length !== columns.length)
    return failing(`The row has ${cells.length} cells, and the header has ${columns.length} columns.`);
  const body: Record<string, unknown> = {};
  const problems: FieldProblem[] = [];
  for (const [index, cell] of cells.entries()) {
    const field = fields[index];
    if (field === null || field === undefined || cell.trim() === '') continue;
    if (cell.includes('\0'))
      problems.push(buildFieldProblem(field, 'INVALID_FORMAT', 'must not contain the NUL character'));
    else if (cell.includes('\ufffd'))
      problems.push(
        buildFieldProblem(field, 'INVALID_FORMAT', 'has bytes that are not in the encoding of the file', {
          hint: 'Set encoding, for example to windows-1252.',
        }),
      );
    else body[field] = valueOfCell(cell, field, object);
  }
  if (problems.length > 0) return failing(problems[0]?.message ?? '', problems);
  return { body: complete(body, options) };
}

/** Texts stay texts, which checks read as the field's type. */
function valueOfCell(cell: string, field: string, object: WorkspaceObject): unknown {
  if (field === 'tags') return cell.split(/[,;]/).flatMap((name) => name.trim() || []);
  // Spreadsheets write TRUE and FALSE.
  if (object.fields.get(field)?.type === 'boolean') return cell.trim().toLowerCase();
  return cell;
}

/** Returns the body of an NDJSON line. */
export function buildBodyFromObject(
  value: Readonly<Record<string, unknown>>,
  mapping: ColumnMapping,
  options: Pick<ImportOptions, 'defaults' | 'tags'>,
): RowBody {
  const body: Record<string, unknown> = {};
  const problems: FieldProblem[] = [];
  for (const [key, given] of Object.entries(value)) {
    const field = mapping.findField(key);
    if (field === null) continue;
    if (field === undefined) problems.push({ ...mapping.unknown(key, undefined), field: key });
    else if (Object.hasOwn(body, field))
      problems.push(buildFieldProblem(key, 'CONFLICTING_FIELDS', `maps to ${field}, as another key of the line does`));
    else body[field] = given;
  }
  if (problems.length > 0) return failing(problems[0]?.message ?? '', problems);
  return { body: complete(body, options) };
}

function complete(
  body: Record<string, unknown>,
  { defaults, tags }: Pick<ImportOptions, 'defaults' | 'tags'>,
): Record<string, unknown> {
  for (const [name, value] of Object.entries(defaults)) if (!Object.hasOwn(body, name)) body[name] = value;
  if (tags.length > 0) body.tags = [...(Array.isArray(body.tags) ? body.tags : []), ...tags];
  return body;
}
