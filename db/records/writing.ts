// Inserts and changes records of all objects. Only services/records/ calls it, after validation.
import type { Ownership } from '../../domain/ownership.ts';
import type { NewRecord, StoredRecord } from '../../domain/records/draft.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';
import { getRecordTable, type RecordTable } from './columns.ts';
import { belongsToTenant, isNamed } from './reached.ts';
import {
  getInsertions,
  getWritableColumns,
  predictRow,
  type Row,
  readFurtherColumns,
  selectColumns,
  toRecord,
  toRow,
} from './rows.ts';

/** Records whose write statement was sent. */
export interface WrittenRecords<Written> {
  /**
   * The stored records in the given order, after the database has responded. Rejects if they could
   * not be written.
   */
  stored: Promise<Written[]>;
  /** The predicted result, if it is certain. */
  predicted: Written[] | undefined;
}

/** Inserts records in one statement. Sends it immediately. */
export function insertRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  records: readonly NewRecord[],
  now: Date,
): WrittenRecords<StoredRecord> {
  if (records.length === 0) return nothing;
  const table = getRecordTable(object);
  const columns = {
    company_id: scope.companyId,
    test_mode: scope.testMode,
    ...(table.object === undefined ? {} : { object: table.object }),
    created_by_kind: scope.actor.kind,
    created_by_id: scope.actor.id,
    created_by_name: scope.actor.name,
    created_by_user: scope.userId,
    version: 1,
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
    updated_by_id: scope.actor.id,
  };
  const rows = records.map(({ id, values, custom }) => Object.assign(toRow(table, values, custom), columns, { id }));
  const { silent, returning } = getInsertions(table);
  const predicted = predictRecords(table, rows);
  if (predicted) return certain(table, predicted, silent.of(sql, rows).execute());
  const answer = returning.of(sql, rows).values().execute();
  return { stored: readAnswer(table, rows, answer, (row) => toRecord(table, row)), predicted: undefined };
}

/** A record after a change. */
export interface ChangedRecord extends StoredRecord {
  /** The creator; undefined if it was not selected. */
  createdBy?: NonNullable<Ownership['createdBy']>;
}

function changedFromRow(table: RecordTable, row: Row): ChangedRecord {
  const [kind, id, userId] = readFurtherColumns(table, row) as [string, string, string | null];
  return { ...toRecord(table, row), createdBy: { kind, id, userId } };
}

/**
 * Writes locked records, each with its next version and its `updatedAt`, in one statement. Sends it
 * immediately.
 * @param whoMade true: the creators are selected, too
 */
export function updateRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  records: readonly StoredRecord[],
  whoMade: boolean,
): WrittenRecords<ChangedRecord> {
  if (records.length === 0) return nothing;
  const table = getRecordTable(object);
  const columns = getWritableColumns(sql, table);
  const next = records.map((record) => ({
    ...toRow(table, record.values, record.custom),
    id: record.id,
    version: record.version + 1,
    created_at: record.createdAt.toISOString(),
    updated_at: record.updatedAt.toISOString(),
    updated_by_id: scope.actor.id,
  }));
  const named = isNamed(
    sql,
    records.map(({ id }) => id),
  );
  const update = sql`
    update ${sql(table.name)} r
    set (${columns}) = (select ${columns} from (select next.*) as row)
    from json_populate_recordset(null::${sql(table.name)}, ${JSON.stringify(next)}::text::json) as next
    where ${belongsToTenant(sql, scope, table)} and ${named} and r.id = next.id`;
  const predicted = whoMade ? undefined : predictRecords(table, next);
  if (predicted) return certain(table, predicted, update.execute());
  const answer = sql`
    ${update} returning ${selectColumns(sql, table)}, r.created_by_kind, r.created_by_id, r.created_by_user`;
  const answered = answer.values().execute();
  return { stored: readAnswer(table, next, answered, (row) => changedFromRow(table, row)), predicted: undefined };
}

const nothing: WrittenRecords<never> = { stored: Promise.resolve([]), predicted: [] };

interface SentRow {
  id: string;
  created_at: string;
  updated_at: string;
  [column: string]: unknown;
}

/** Returns the predicted record of a single row, if it is certain how it will be stored. */
function predictRecords(table: RecordTable, rows: readonly SentRow[]): StoredRecord | undefined {
  const [only] = rows;
  const row = only && rows.length === 1 ? predictRow(table, only) : undefined;
  if (!only || !row) return undefined;
  // Sent as texts.
  return { ...toRecord(table, row), createdAt: new Date(only.created_at), updatedAt: new Date(only.updated_at) };
}

/**
 * @param answer without the record: sending, reading and comparing it took a twentieth of a create
 */
function certain(
  table: RecordTable,
  record: StoredRecord,
  answer: Promise<{ count: number }>,
): WrittenRecords<StoredRecord> {
  const predicted = [record];
  const stored = answer.then(({ count }) => {
    checkCount(table, count, predicted.length);
    return predicted;
  });
  return { stored, predicted };
}

/**
 * @param rows in the given order
 * @param answer the same rows as stored, in any order
 */
async function readAnswer<Written extends StoredRecord>(
  table: RecordTable,
  rows: readonly SentRow[],
  answer: Promise<readonly Row[]>,
  read: (row: Row) => Written,
): Promise<Written[]> {
  const answered = await answer;
  checkCount(table, answered.length, rows.length);
  const byId = new Map(answered.map(read).map((record) => [record.id, record]));
  return rows.flatMap(({ id }) => byId.get(id) ?? []);
}

/** The records were inserted or locked before, so none can be missing. */
function checkCount(table: RecordTable, written: number, sent: number): void {
  if (written !== sent) throw new Error(`a record of ${table.name} no longer exists`);
}
