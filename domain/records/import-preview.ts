// Shows what an import would store: the columns of its file, problems of a mapping, and first rows.
import type { FieldProblem, StoredValue } from '../objects/field-values.ts';
import type { Workspace, WorkspaceObject } from '../objects/workspace.ts';
import type { FileStart } from './import-layout.ts';
import {
  buildBodyFromCells,
  buildBodyFromObject,
  ColumnMapping,
  type ImportOptions,
  normalizeName,
} from './import-mapping.ts';
import type { FileRow } from './import-rows.ts';
import { checkRecord } from './values.ts';

/** Rows of a preview. */
const previewedRows = 20;

/** The columns of a file, or the keys of its first lines, with the first rows. */
export interface FileSample {
  columns: readonly string[];
  rows: readonly SampledRow[];
}

interface SampledRow {
  line: number;
  /** Cells of CSV. */
  cells?: readonly string[];
  /** The object of an NDJSON line. */
  value?: Readonly<Record<string, unknown>>;
  /** Why the row cannot be read. */
  flaw?: string;
}

/** Reads the first rows of a file. */
export function readSample(start: FileStart): FileSample {
  const rows: SampledRow[] = [];
  for (let row = start.reader.next(); row && rows.length < previewedRows; row = start.reader.next())
    rows.push(start.delimiter === undefined ? readLine(row) : toSampledRow(row));
  if (start.delimiter !== undefined) return { columns: start.columns, rows };
  return { columns: [...new Set(rows.flatMap(({ value }) => Object.keys(value ?? {})))], rows };
}

const toSampledRow = ({ place: { line }, cells, flaw }: FileRow): SampledRow => ({
  line,
  ...(cells ? { cells } : {}),
  ...(flaw === undefined ? {} : { flaw }),
});

function readLine({ place: { line }, text = '', flaw }: FileRow): SampledRow {
  if (flaw !== undefined) return { line, flaw };
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { line, value: value as Record<string, unknown> };
  } catch {
    // Reported below, like JSON that is no object.
  }
  return { line, flaw: 'The line is not a JSON object.' };
}

/** Returns the first values of each column, for people who choose its field. */
export const listExamples = ({ columns, rows }: FileSample): string[][] =>
  columns.map((column, index) => {
    const values = rows.map(({ cells, value }) => cells?.[index] ?? (value ? toText(value[column]) : ''));
    return values.filter((each) => each.trim() !== '').slice(0, 3);
  });

const toText = (value: unknown): string =>
  value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);

/** What a chosen mapping lacks. */
export interface MappingProblems {
  /** By the index of the column. */
  columns: ReadonlyMap<number, string>;
  /** Problems of the whole mapping. */
  all: readonly string[];
}

/** @param fields of the columns; null: left out */
export function findMappingProblems(
  columns: readonly string[],
  fields: readonly (string | null)[],
  object: WorkspaceObject,
  { mode, matchOn }: Pick<ImportOptions, 'mode' | 'matchOn'>,
): MappingProblems {
  const problems = new Map<number, string>();
  const firstOfField = new Map<string, string>();
  const names = Map.groupBy(columns, normalizeName);
  for (const [index, field] of fields.entries()) {
    const column = columns[index] ?? '';
    if (field === null) continue;
    const earlier = firstOfField.get(field);
    if ((names.get(normalizeName(column))?.length ?? 0) > 1)
      problems.set(index, 'Several columns have this name. Rename them in the file, or leave all of them out.');
    else if (earlier !== undefined)
      problems.set(index, `“${earlier}” already goes to ${getFieldLabel(field, object)}.`);
    else firstOfField.set(field, column);
  }
  const has = (field: string): boolean => firstOfField.has(field) || fields.includes(field);
  const all: string[] = [];
  for (const field of matchOn)
    if (!has(field)) all.push(`Choose a column for ${getFieldLabel(field, object)}, which identifies the records.`);
  if (mode !== 'update') {
    const missing = [...object.fields.values()].filter(
      ({ name, required, readOnly, default: value }) => required && !readOnly && value === undefined && !has(name),
    );
    if (missing.length > 0)
      all.push(`New records need a value for ${missing.map(({ label }) => label).join(', ')}. Choose a column for it.`);
    const oneOf = object.oneOf.filter((name) => object.fields.has(name));
    if (oneOf.length > 0 && !oneOf.some(has))
      all.push(`New records need at least one of ${oneOf.map((name) => getFieldLabel(name, object)).join(', ')}.`);
  }
  if (firstOfField.size === 0) all.push('Choose a field for at least one column.');
  return { columns: problems, all };
}

/** Returns the name of a field that people read. */
export function getFieldLabel(name: string, object: WorkspaceObject): string {
  const special: Record<string, string> = { tags: 'Tags', id: 'Id', assigned_to_email: 'Assigned to (email)' };
  return object.fields.get(name)?.label ?? special[name] ?? name;
}

/** A row as it would be stored. */
export interface PreviewedRow {
  line: number;
  /** By field. */
  values: Readonly<Record<string, unknown>>;
  problems: readonly string[];
}

/** Returns the first rows as they would be stored. Duplicates and references are not looked up. */
export function buildPreview(
  { columns, rows }: FileSample,
  fields: readonly (string | null)[],
  options: ImportOptions,
  workspace: Workspace,
  object: WorkspaceObject,
  now: Date,
): PreviewedRow[] {
  const mapping = new ColumnMapping(object, options);
  return rows.map(({ line, cells, value, flaw }) => {
    if (flaw !== undefined) return { line, values: {}, problems: [flaw] };
    const read = cells
      ? buildBodyFromCells(cells, columns, fields, object, options)
      : buildBodyFromObject(value ?? {}, mapping, options);
    if (!('body' in read)) return { line, values: {}, problems: [read.message] };
    const { id, ...body } = read.body;
    const checked = checkRecord(object, body, options.mode === 'create' ? 'create' : 'update', workspace, now);
    // What a matched record has already is unknown here.
    const isShown = ({ field }: FieldProblem) => options.mode === 'create' || Object.hasOwn(body, field);
    return {
      line,
      values: {
        ...body,
        ...nameItems({ ...checked.values, ...checked.custom }, object),
        ...(id === undefined ? {} : { id }),
      },
      problems: checked.problems.filter(isShown).map((each) => nameByLabel(each, object)),
    };
  });
}

/** Replaces the name of the field at the beginning of a message. */
const nameByLabel = ({ field, message }: FieldProblem, object: WorkspaceObject): string =>
  message.startsWith(`${field} `) ? getFieldLabel(field, object) + message.slice(field.length) : message;

/** Replaces the ids of configured items by their names. */
const nameItems = (values: Record<string, StoredValue>, object: WorkspaceObject): Record<string, StoredValue> =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      object.fields.get(name)?.items?.find(({ id }) => id === value)?.name ?? value,
    ]),
  );
