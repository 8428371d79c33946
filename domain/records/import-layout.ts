// How the file of an import is read: its encoding, delimiter and columns, from its first bytes.
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';
import { importLimits } from '../service/request-limits.ts';
import { ColumnMapping, type ImportOptions } from './import-mapping.ts';
import { detectDelimiter, detectEncoding, type FileEncoding, type RowPlace, RowReader } from './import-rows.ts';

/** Bytes from which the layout is read: more than the longest header. */
export const layoutBytes = 262_144;

export interface FileLayout {
  encoding: FileEncoding;
  /** Bytes of the byte order mark. */
  markBytes: number;
  /** Undefined for NDJSON. */
  delimiter?: string;
  /** The header of a CSV file. */
  columns: string[];
  /** The field of each column. */
  fields: (string | null)[];
}

type Unreadable = { problems: FieldProblem[] };

/** How a file is read, before its columns are mapped. */
export interface FileStart extends Omit<FileLayout, 'fields'> {
  /** Where the first row of data begins. */
  first: RowPlace;
  /** Reads the rows of data within the first bytes. */
  reader: RowReader;
}

const start: RowPlace = { byte: 0, row: 1, line: 1 };
const ofFile = (code: FieldProblem['code'], rule: string, hint?: string): Unreadable => ({
  problems: [buildFieldProblem('file', code, rule, { hint })],
});
const delimiterOf = { ',': ',', ';': ';', tab: '\t', pipe: '|' } as const;

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/**
 * @param head the first bytes of the file, or all of it
 * @returns the layout and where the first row of data begins, or why the file cannot be imported
 */
export function readLayout(
  options: ImportOptions,
  head: Buffer,
  object: WorkspaceObject,
): { layout: FileLayout; first: RowPlace } | Unreadable {
  const found = readFileStart(options, head);
  if ('problems' in found) return found;
  const { first, reader: _, ...layout } = found;
  if (options.format === 'ndjson') return { layout: { ...layout, fields: [] }, first };
  const { fields, problems } = new ColumnMapping(object, options).ofHeader(layout.columns, options.matchOn);
  return problems.length > 0 ? { problems } : { layout: { ...layout, fields }, first };
}

/**
 * Reads the encoding, the delimiter and the columns of a file.
 * @param head the first bytes of the file, or all of it
 */
export function readFileStart(
  options: Pick<ImportOptions, 'format' | 'encoding' | 'delimiter'>,
  head: Buffer,
): FileStart | Unreadable {
  const isArchive = head[0] === 0x50 && head[1] === 0x4b && (head[2] ?? 0) < 10;
  if (isArchive)
    return ofFile('INVALID_FORMAT', 'is an archive or a workbook', 'Save the sheet as CSV, and send that.');
  const asked = options.format === 'ndjson' ? 'utf-8' : options.encoding;
  const { encoding, markBytes } = detectEncoding(asked, head, isUtf8);
  const text = new TextDecoder(encoding).decode(head.subarray(markBytes), { stream: true });
  if (text.includes('\0'))
    return ofFile('INVALID_FORMAT', `is not a ${options.format === 'csv' ? 'CSV' : 'text'} file`);
  if (text.trim() === '') return ofFile('TOO_SHORT', 'must not be empty');
  const isCsv = options.format === 'csv';
  const chosen = options.delimiter === 'auto' ? detectDelimiter(text) : delimiterOf[options.delimiter];
  const delimiter = isCsv ? chosen : undefined;
  const reader = new RowReader(delimiter, start);
  reader.push(Buffer.from(text));
  if (head.length < layoutBytes) reader.end();
  if (delimiter === undefined) return { encoding, markBytes, columns: [], first: start, reader };
  const header = reader.next();
  if (!header?.cells) return ofFile('INVALID_FORMAT', 'must begin with a header of column names', header?.flaw);
  const columns = header.cells.map((column) => column.trim());
  if (columns.length > importLimits.columns)
    return ofFile('TOO_LONG', `must have at most ${importLimits.columns} columns`);
  return { encoding, markBytes, delimiter, columns, first: { ...header.next, row: 1 }, reader };
}
