// Records as rows: the columns that are read and written, and the conversion of rows to values.
import type { Fragment } from 'postgres';
import type { StoredValue } from '../../domain/objects/field-values.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { Insertion } from '../client/insertion.ts';
import type { Sql } from '../client/pool.ts';
import type { ColumnType, RecordTable } from './columns.ts';

/**
 * Values of the columns of `selection`, in their order. An object with so many names would be slow
 * to create and to read.
 */
export type Row = readonly unknown[];

const first = ['id', 'version', 'created_at', 'updated_at', 'custom'];
const fixed = new Set(['id', 'created_at', 'created_by_kind', 'created_by_id', 'created_by_name']);
const common = new Set(['id', 'created_at', 'updated_at']);
const keys = ['company_id', 'test_mode', 'id'];
const origin = ['created_by_kind', 'created_by_id', 'created_by_name', 'created_by_user', 'created_at'];

interface Layout {
  selected: string;
  writable: string;
  /** All columns but those that are computed. */
  inserted: readonly string[];
  /** Insert statements: without a result, and with the selected columns. */
  insertions: { silent: Insertion; returning: Insertion };
  /** The selected columns with their types. */
  columns: readonly { name: string; type: ColumnType | 'other' }[];
  /** Fields except those that every record has, with the indexes of their columns. */
  fields: readonly { field: string; at: number }[];
  /**
   * All of them without a value. It is copied and filled, because adding names one by one is slow.
   */
  blank: Readonly<Record<string, null>>;
}

const layouts = new WeakMap<RecordTable['columns'], Layout>();

function getLayout(table: RecordTable): Layout {
  const known = layouts.get(table.columns);
  if (known) return known;
  const names = [...new Set([...table.columns.values()].map((column) => column.name))];
  const selected = [...first, ...names.filter((name) => !first.includes(name))];
  const fields = [...table.columns].flatMap(([field, column]) =>
    common.has(field) ? [] : [{ field, at: selected.indexOf(column.name) }],
  );
  const read = selected.map((name) => `r."${name}"`).join(', ');
  const writable = [...names.filter((name) => !fixed.has(name)), 'custom', 'version', 'updated_by_id'];
  const columns = [...keys, ...(table.object === undefined ? [] : ['object']), ...origin, ...writable];
  const types = new Map([...table.columns.values()].map(({ name, type }) => [name, type]));
  const inserted = { table: table.name, columns, documents: ['custom'] };
  const layout = {
    selected: read,
    writable: quoted(writable),
    inserted: columns,
    insertions: { silent: new Insertion(inserted), returning: new Insertion({ ...inserted, returning: read }) },
    columns: selected.map((name) => ({ name, type: types.get(name) ?? ('other' as const) })),
    fields,
    blank: JSON.parse(`{${fields.map(({ field }) => `"${field}":null`).join(',')}}`),
  };
  layouts.set(table.columns, layout);
  return layout;
}

const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ');

/** Returns the columns of a record, of a table that the statement calls `r`. */
export function selectColumns(sql: Sql, table: RecordTable): Fragment {
  return text(sql, getSelectedNames(table));
}

/** Does the same for a statement that is built as a text. */
export function getSelectedNames(table: RecordTable): string {
  return getLayout(table).selected;
}

/** Returns the columns that an update writes. */
export function getWritableColumns(sql: Sql, table: RecordTable): Fragment {
  return text(sql, getLayout(table).writable);
}

/** Returns the columns that an insert writes: all but those that are computed. */
export function getInsertedColumns(table: RecordTable): readonly string[] {
  return getLayout(table).inserted;
}

/**
 * Returns the statements that insert rows of toRow: without a result, and with the columns of
 * selection.
 */
export function getInsertions(table: RecordTable): Layout['insertions'] {
  return getLayout(table).insertions;
}

/** Only for names from this folder: they become part of the statement unchanged. */
function text(sql: Sql, names: string): Fragment {
  return sql.unsafe(names) as unknown as Fragment;
}

export function toRecord(table: RecordTable, row: Row): StoredRecord {
  const { fields, blank } = getLayout(table);
  const values: Record<string, StoredValue> = { ...blank };
  for (const { field, at } of fields) {
    const value = row[at];
    values[field] = value instanceof Date ? value.toISOString() : (value as StoredValue);
  }
  const [id, version, createdAt, updatedAt, custom] = row as [string, number, Date, Date, StoredRecord['custom']];
  return { id, version, createdAt, updatedAt, values, custom };
}

/**
 * Returns the values that were selected after the columns of the record, e.g. the key values of a
 * sort.
 */
export function readFurtherColumns(table: RecordTable, row: Row): StoredValue[] {
  return row
    .slice(getLayout(table).columns.length)
    .map((value) => (value instanceof Date ? value.toISOString() : (value as StoredValue)));
}

export function toRow(
  table: RecordTable,
  values: Readonly<Record<string, StoredValue>>,
  custom: Readonly<Record<string, StoredValue>>,
): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  const inside: [string, StoredValue][] = Object.entries(custom);
  for (const [field, value] of Object.entries(values)) {
    const column = table.columns.get(field);
    if (!column) inside.push([field, value]);
    // The column of a list is published under two names, source and source_id. Only the first is
    // ever written.
    else if (column.names || !(column.name in row)) row[column.name] = value;
  }
  row.custom = Object.fromEntries(inside.filter(([, value]) => value !== null));
  return row;
}

/** Returns true for values that the database returns exactly as they were sent, by type. */
const kept: Readonly<Record<ColumnType | 'other', (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  uuid: (value) => typeof value === 'string' && lowerCase.test(value),
  number: Number.isSafeInteger,
  date: (value) => typeof value === 'string' && day.test(value),
  timestamp: (value) => typeof value === 'string' && moment.test(value),
  other: () => true,
};
const lowerCase = /^[\da-f-]{36}$/;
const day = /^[1-9]\d{3}-\d\d-\d\d$/;
const moment = /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/**
 * Predicts how the database would return an inserted row. Each column that is read was written, its
 * value is sent in stored form, and none is computed or set by a trigger.
 * @param row as the insertion takes it
 * @returns undefined if the database may return a value in another form
 */
export function predictRow(table: RecordTable, row: Readonly<Record<string, unknown>>): Row | undefined {
  const { columns } = getLayout(table);
  const values: unknown[] = [];
  for (const { name, type } of columns) {
    const value = row[name] ?? null;
    if (value !== null && !kept[type](value)) return undefined;
    values.push(value);
  }
  return values;
}
