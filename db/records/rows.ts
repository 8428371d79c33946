// Records as rows: which columns are read and written, and the way from row to values and back.
import type { Fragment } from 'postgres';
import type { StoredValue } from '../../domain/objects/field-values.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { Sql } from '../connect.ts';
import type { RecordTable } from './columns.ts';

/** Values of the columns of `selection`, in their order: an object with so many names would be slow to make and to read. */
export type Row = readonly unknown[];

const first = ['id', 'version', 'created_at', 'updated_at', 'custom'];
const fixed = new Set(['id', 'created_at', 'created_by_kind', 'created_by_id', 'created_by_name']);
const common = new Set(['id', 'created_at', 'updated_at']);

interface Layout {
  selected: string;
  writable: string;
  /** How many columns are selected. */
  width: number;
  /** Fields other than those that every record has, with the places of their columns. */
  fields: readonly { field: string; at: number }[];
  /** All of them without a value: copied and filled, since an object that grows name by name is slow. */
  blank: Readonly<Record<string, null>>;
}

const layouts = new WeakMap<RecordTable['columns'], Layout>();

function layoutOf({ columns }: RecordTable): Layout {
  const known = layouts.get(columns);
  if (known) return known;
  const names = [...new Set([...columns.values()].map((column) => column.name))];
  const selected = [...first, ...names.filter((name) => !first.includes(name))];
  const fields = [...columns].flatMap(([field, column]) =>
    common.has(field) ? [] : [{ field, at: selected.indexOf(column.name) }],
  );
  const layout = {
    selected: selected.map((name) => `r."${name}"`).join(', '),
    writable: quoted([...names.filter((name) => !fixed.has(name)), 'custom', 'version']),
    width: selected.length,
    fields,
    blank: JSON.parse(`{${fields.map(({ field }) => `"${field}":null`).join(',')}}`),
  };
  layouts.set(columns, layout);
  return layout;
}

const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ');

/** The columns that a record is read from, of a table that the statement calls `r`. */
export function selection(sql: Sql, table: RecordTable): Fragment {
  return text(sql, layoutOf(table).selected);
}

/** The columns that an update writes. */
export function writableColumns(sql: Sql, table: RecordTable): Fragment {
  return text(sql, layoutOf(table).writable);
}

/** The columns that an insert writes. */
export function insertedColumns(sql: Sql, table: RecordTable): Fragment {
  const object = table.object === undefined ? '' : 'object, ';
  const origin = 'created_by_kind, created_by_id, created_by_name, created_by_user, created_at';
  return text(sql, `company_id, test_mode, ${object}id, ${origin}, ${layoutOf(table).writable}`);
}

/** Only for names that are written in this folder: they go into the statement as they are. */
function text(sql: Sql, names: string): Fragment {
  return sql.unsafe(names) as unknown as Fragment;
}

export function fromRow(table: RecordTable, row: Row): StoredRecord {
  const { fields, blank } = layoutOf(table);
  const values: Record<string, StoredValue> = { ...blank };
  for (const { field, at } of fields) {
    const value = row[at];
    values[field] = value instanceof Date ? value.toISOString() : (value as StoredValue);
  }
  const [id, version, createdAt, updatedAt, custom] = row as [string, number, Date, Date, StoredRecord['custom']];
  return { id, version, createdAt, updatedAt, values, custom };
}

/** What was selected after the columns of the record, e.g. the key values of a sort. */
export function restOfRow(table: RecordTable, row: Row): StoredValue[] {
  return row
    .slice(layoutOf(table).width)
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
    // A list's column is published under two names, source and source_id; only the first is ever written.
    else if (column.names || !(column.name in row)) row[column.name] = value;
  }
  return { ...row, custom: Object.fromEntries(inside.filter(([, value]) => value !== null)) };
}
