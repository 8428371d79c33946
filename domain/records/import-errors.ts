// The file of an import's failed rows: CSV with the columns of the import and two more.

const errorColumns = ['_error_code', '_error_message'];

/** Returns a line of a CSV file. Cells are quoted only if they must be, so that they stay as they were. */
function csvLine(cells: readonly string[], delimiter = ','): string {
  const quoted = cells.map((cell) =>
    cell.includes(delimiter) || /["\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell,
  );
  return `${quoted.join(delimiter)}\r\n`;
}

/** A row that failed. */
interface FailedRow {
  code: string;
  message: string;
  /** Cells, an object, or the text of a row that cannot be read. */
  content: unknown;
}

/**
 * Returns the columns that a failed row needs beyond those of the file: the keys of an NDJSON line,
 * or names for cells that have no column. A later import ignores these.
 */
export function listFurtherColumns({ content }: Pick<FailedRow, 'content'>, columns: readonly string[]): string[] {
  if (typeof content === 'string') return columns.length === 0 ? ['_error_raw'] : [];
  if (Array.isArray(content))
    return Array.from({ length: Math.max(0, content.length - columns.length) }, (_, index) =>
      buildCellName(columns.length + index),
    );
  return Object.keys(content as object);
}

/** Returns the name of a cell that has no column. */
export const buildCellName = (index: number): string => `_error_cell_${index + 1}`;

/** Returns the header of the file. */
export function buildErrorHeader(columns: readonly string[], delimiter: string | undefined): string {
  return csvLine([...columns, ...errorColumns], delimiter);
}

/** Returns the line of a failed row. Cells that are missing are empty. */
export function buildErrorLine(
  { code, message, content }: FailedRow,
  columns: readonly string[],
  delimiter: string | undefined,
): string {
  const cells = columns.map((column, index) => {
    if (Array.isArray(content)) return String(content[index] ?? '');
    if (typeof content === 'string') return index === 0 || column === '_error_raw' ? content : '';
    const value = (content as Record<string, unknown>)[column];
    if (value === null || value === undefined) return '';
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
  });
  return csvLine([...cells, code, message], delimiter);
}
