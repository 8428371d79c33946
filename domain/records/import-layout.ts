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

type Read = { layout: FileLayout; first: RowPlace } | { problems: FieldProblem[] };

const start: RowPlace = { byte: 0, row: 1, line: 1 };
const ofFile = (code: FieldProblem['code'], rule: string, hint?: string): Read => ({
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
export function readLayout(options: ImportOptions, head: Buffer, object: WorkspaceObject): Read {
  const isArchive = head[0] === 0x50 && head[1] === 0x4b && (head[2] ?? 0) < 10;
  if (isArchive)
    return ofFile('INVALID_FORMAT', 'is an archive or a workbook', 'Save the sheet as CSV, and send that.');
  const asked = options.format === 'ndjson' ? 'utf-8' : options.encoding;
  const { encoding, markBytes } = detectEncoding(asked, head, isUtf8);
  const text = new TextDecoder(encoding).decode(head.subarray(markBytes), { stream: true });
  if (text.includes('\0'))
    return ofFile('INVALID_FORMAT', `is not a ${options.format === 'csv' ? 'CSV' : 'text'} file`);
  if (text.trim() === '') return ofFile('TOO_SHORT', 'must not be empty');
  if (options.format === 'ndjson') return { layout: { encoding, markBytes, columns: [], fields: [] }, first: start };

  const delimiter = options.delimiter === 'auto' ? detectDelimiter(text) : delimiterOf[options.delimiter];
  const reader = new RowReader(delimiter, start);
  reader.push(Buffer.from(text));
  if (head.length < layoutBytes) reader.end();
  const header = reader.next();
  if (!header?.cells) return ofFile('INVALID_FORMAT', 'must begin with a header of column names', header?.flaw);
  const columns = header.cells.map((column) => column.trim());
  if (columns.length > importLimits.columns)
    return ofFile('TOO_LONG', `must have at most ${importLimits.columns} columns`);
  const { fields, problems } = new ColumnMapping(object, options).ofHeader(columns, options.matchOn);
  if (problems.length > 0) return { problems };
  return { layout: { encoding, markBytes, delimiter, columns, fields }, first: { ...header.next, row: 1 } };
}
