// The formats of exported files: NDJSON, CSV and Parquet, encoded piece by piece.
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { StoredValue } from '../objects/field-values.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';
import type { ExportFormat } from './exports.ts';

type SchemaElement = ConstructorParameters<typeof ParquetWriter>[0]['schema'][number];

type ColumnType = 'text' | 'integer' | 'double' | 'boolean' | 'date' | 'timestamp';

export interface ExportColumn {
  name: string;
  type: ColumnType;
}

/** A row by the names of its columns. Columns that it lacks are null. */
export type ExportRow = Readonly<Record<string, unknown>>;

/** Encodes a file. Each function returns the next bytes of it. */
export interface ExportEncoder {
  begin(): Uint8Array;
  add(rows: readonly ExportRow[]): Uint8Array;
  end(): Uint8Array;
}

const columnTypes: Partial<Record<Field['type'], ColumnType>> = {
  currency: 'integer',
  number: 'double',
  boolean: 'boolean',
  date: 'date',
  datetime: 'timestamp',
};

function toColumn({ name, type, integer }: Field): ExportColumn {
  return { name, type: type === 'number' && integer ? 'integer' : (columnTypes[type] ?? 'text') };
}

/** Columns that every object has. */
const fixedColumns: readonly ExportColumn[] = [
  { name: 'id', type: 'text' },
  { name: 'created_at', type: 'timestamp' },
  { name: 'updated_at', type: 'timestamp' },
];

/**
 * Returns the columns of an object's file, in the order in which records show them.
 * @param fields undefined for all
 */
export function listExportColumns(object: WorkspaceObject, fields?: ReadonlySet<string>): ExportColumn[] {
  const fixed = new Set(fixedColumns.map(({ name }) => name));
  const others = [...object.fields.values()].filter(({ name }) => !fixed.has(name) && (!fields || fields.has(name)));
  return [...fixedColumns, ...others.map(toColumn)];
}

/** The columns of an export of everything. `record` is the JSON of a record. */
export const everythingColumns: readonly ExportColumn[] = [
  { name: 'object', type: 'text' },
  { name: 'record', type: 'text' },
];

/** @param isSpreadsheetSafe for CSV only */
export function createEncoder(
  format: ExportFormat,
  columns: readonly ExportColumn[],
  isSpreadsheetSafe: boolean,
): ExportEncoder {
  switch (format) {
    case 'ndjson':
      return encodeNdjson();
    case 'csv':
      return encodeCsv(columns, isSpreadsheetSafe);
    case 'parquet':
      return new ParquetEncoder(columns);
  }
}

const nothing = new Uint8Array();

function encodeNdjson(): ExportEncoder {
  return {
    begin: () => nothing,
    add: (rows) => Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join('')),
    end: () => nothing,
  };
}

/** RFC 4180. */
function encodeCsv(columns: readonly ExportColumn[], isSpreadsheetSafe: boolean): ExportEncoder {
  const line = (values: readonly unknown[]): string =>
    `${values.map((value) => toCell(value, isSpreadsheetSafe)).join(',')}\r\n`;
  return {
    begin: () => Buffer.from(line(columns.map(({ name }) => name))),
    add: (rows) => Buffer.from(rows.map((row) => line(columns.map(({ name }) => row[name]))).join('')),
    end: () => nothing,
  };
}

/** Beginnings for which a spreadsheet can take a cell for a formula. */
const formula = /^[=+\-@\t\r]/;

function toCell(value: unknown, isSpreadsheetSafe: boolean): string {
  if (value === null || value === undefined) return '';
  const plain = toText(value);
  const text = isSpreadsheetSafe && formula.test(plain) ? `'${plain}` : plain;
  // A reader that trims cells keeps the blanks of quoted ones.
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const toText = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value));

/** Rows of a row group. All of them are in memory at the same time. */
const rowsOfGroup = 2000;
/** Characters of texts after which a row group ends early. */
const charactersOfGroup = 2_000_000;

class ParquetEncoder implements ExportEncoder {
  readonly #columns: readonly ExportColumn[];
  readonly #bytes = new ByteWriter();
  readonly #writer: ParquetWriter;
  #values: unknown[][];
  #characters = 0;

  constructor(columns: readonly ExportColumn[]) {
    this.#columns = columns;
    this.#values = columns.map(() => []);
    const schema: SchemaElement[] = [{ name: 'root', num_children: columns.length }, ...columns.map(toSchemaElement)];
    // Without statistics, which would keep bytes of every row group in memory until the end.
    this.#writer = new ParquetWriter({ writer: this.#bytes, schema, statistics: false });
  }

  begin(): Uint8Array {
    return this.#take();
  }

  add(rows: readonly ExportRow[]): Uint8Array {
    for (const [index, { name, type }] of this.#columns.entries()) {
      const values = this.#values[index] as unknown[];
      for (const row of rows) {
        const value = toParquet(type, (row[name] ?? null) as StoredValue | object);
        if (typeof value === 'string') this.#characters += value.length;
        // Bytes from Node's pool: the writer would allocate memory for each text.
        values.push(typeof value === 'string' ? Buffer.from(value) : value);
      }
    }
    const count = this.#values[0]?.length ?? 0;
    return count >= rowsOfGroup || this.#characters >= charactersOfGroup ? this.#endGroup() : nothing;
  }

  end(): Uint8Array {
    this.#writeGroup();
    this.#writer.finish();
    return this.#take();
  }

  #endGroup(): Uint8Array {
    this.#writeGroup();
    return this.#take();
  }

  #writeGroup(): void {
    const count = this.#values[0]?.length ?? 0;
    if (count === 0) return;
    const columnData = this.#columns.map(({ name }, index) => ({
      name,
      data: this.#values[index] as unknown[],
      offsetIndex: false,
    }));
    this.#writer.write({ columnData, rowGroupSize: count });
    this.#values = this.#columns.map(() => []);
    this.#characters = 0;
  }

  /** Returns what was written since the last time, and forgets it. */
  #take(): Uint8Array {
    const bytes = this.#bytes.getBytes().slice();
    this.#bytes.index = 0;
    return bytes;
  }
}

const schemaElements: Readonly<Record<ColumnType, Pick<SchemaElement, 'type' | 'converted_type'>>> = {
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  integer: { type: 'INT64' },
  double: { type: 'DOUBLE' },
  boolean: { type: 'BOOLEAN' },
  date: { type: 'INT32', converted_type: 'DATE' },
  timestamp: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
};

function toSchemaElement({ name, type }: ExportColumn): SchemaElement {
  return { name, repetition_type: 'OPTIONAL', ...schemaElements[type] } as SchemaElement;
}

/** A value that the type of its column cannot hold becomes null; such values are refused when records are written. */
function toParquet(type: ColumnType, value: StoredValue | object): unknown {
  if (value === null) return null;
  switch (type) {
    case 'text':
      return toText(value);
    case 'integer':
      return Number.isSafeInteger(value) ? BigInt(value as number) : null;
    case 'double':
      return typeof value === 'number' ? value : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'date':
    case 'timestamp': {
      const time = Date.parse(String(value));
      return Number.isNaN(time) ? null : new Date(time);
    }
  }
}
