// Records of all objects, inserted and changed; for writes/ alone, which takes what was prepared.
import type { Possession } from '../../domain/possession.ts';
import type { NewRecord, StoredRecord } from '../../domain/records/draft.ts';
import type { Sql } from '../connect.ts';
import { createdColumns } from '../created-by.ts';
import type { Scope } from '../reach.ts';
import { type RecordTable, recordTable } from './columns.ts';
import { belongs, isNamed } from './reached.ts';
import {
  foreseenRow,
  fromRow,
  insertion,
  isForeseen,
  type Row,
  restOfRow,
  selection,
  toRow,
  writableColumns,
} from './rows.ts';

/** Records that are being inserted. */
export interface InsertedRecords {
  /** As they are stored, in the order given, once the database has answered. */
  stored: Promise<StoredRecord[]>;
  /** The same before that, where it is certain what they will be like. */
  foreseen: StoredRecord[] | undefined;
}

/** Inserts records in one statement, which is sent at once. */
export function insertRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  records: readonly NewRecord[],
  now: Date,
): InsertedRecords {
  if (records.length === 0) return { stored: Promise.resolve([]), foreseen: [] };
  const table = recordTable(object);
  const columns = {
    company_id: scope.companyId,
    test_mode: scope.testMode,
    ...(table.object === undefined ? {} : { object: table.object }),
    ...createdColumns(scope),
    version: 1,
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
  };
  const rows = records.map(({ id, values, custom }) => Object.assign(toRow(table, values, custom), columns, { id }));
  const answer = insertion(table).of(sql, rows).values().execute();
  const [only] = rows;
  const foreseen = only && rows.length === 1 ? foreseenRow(table, only) : undefined;
  return {
    stored: foreseen ? asForeseen(answer, table, foreseen) : inOrder(answer, table, records),
    foreseen: foreseen && [{ ...fromRow(table, foreseen), createdAt: now, updatedAt: now }],
  };
}

async function inOrder(
  answer: Promise<readonly Row[]>,
  table: RecordTable,
  records: readonly NewRecord[],
): Promise<StoredRecord[]> {
  const byId = new Map((await answer).map((row) => fromRow(table, row)).map((record) => [record.id, record]));
  return records.flatMap((record) => byId.get(record.id) ?? []);
}

async function asForeseen(answer: Promise<readonly Row[]>, table: RecordTable, foreseen: Row): Promise<StoredRecord[]> {
  const [row] = await answer;
  if (!row || !isForeseen(foreseen, row)) throw new Error(`a record of ${table.name} is not stored as it was sent`);
  return [fromRow(table, row)];
}

/** A record as it is stored after a change, and who made it. */
export interface ChangedRecord extends StoredRecord {
  createdBy: NonNullable<Possession['createdBy']>;
}

function changedFromRow(table: RecordTable, row: Row): ChangedRecord {
  const [kind, id, userId] = restOfRow(table, row) as [string, string, string | null];
  return { ...fromRow(table, row), createdBy: { kind, id, userId } };
}

/** Writes records that are locked, each with its next version, in one statement. @returns them as they are stored, in the order given */
export async function updateRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  records: readonly StoredRecord[],
  now: Date,
): Promise<ChangedRecord[]> {
  if (records.length === 0) return [];
  const table = recordTable(object);
  const columns = writableColumns(sql, table);
  const next = records.map((record) => ({
    ...toRow(table, record.values, record.custom),
    id: record.id,
    version: record.version + 1,
    // A call that waited for the lock began before the change it waited for; time does not go back for that.
    updated_at: now > record.updatedAt ? now : record.updatedAt,
  }));
  const named = isNamed(
    sql,
    records.map(({ id }) => id),
  );
  const rows = await sql`
    update ${sql(table.name)} r
    set (${columns}) = (select ${columns} from (select next.*) as row)
    from json_populate_recordset(null::${sql(table.name)}, ${JSON.stringify(next)}::text::json) as next
    where ${belongs(sql, scope, table)} and ${named} and r.id = next.id
    returning ${selection(sql, table)}, r.created_by_kind, r.created_by_id, r.created_by_user`.values();
  const stored = new Map(rows.map((row) => changedFromRow(table, row)).map((record) => [record.id, record]));
  if (stored.size < records.length) throw new Error('a locked record has gone');
  return records.flatMap((record) => stored.get(record.id) ?? []);
}
