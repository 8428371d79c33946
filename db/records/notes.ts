// Notes on records.

import { type CreatedByRow, createdColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';

export interface NoteRow extends CreatedByRow {
  id: string;
  object: string;
  recordId: string;
  content: string;
  createdAt: Date;
  updatedAt: Date;
}

/**
 * Returns the notes of a record, the newest first.
 * @param after time and id of the last note of the previous page
 */
export async function listNotes(
  sql: Sql,
  { companyId, testMode }: Scope,
  record: { object: string; id: string },
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<NoteRow[]> {
  return sql<NoteRow[]>`
    select id, object, record_id, content, created_by_kind, created_by_id, created_by_name, created_at, updated_at
    from notes
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${record.object} and record_id = ${record.id}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

export async function insertNote(
  sql: Sql,
  scope: Scope,
  note: { id: string; object: string; recordId: string; content: string },
  now: Date,
): Promise<NoteRow> {
  const { id, object, recordId, content } = note;
  const keys = { companyId: scope.companyId, testMode: scope.testMode, id, object, recordId };
  const [row] = await sql<NoteRow[]>`
    insert into notes ${sql({ ...keys, content, ...createdColumns(scope), createdAt: now, updatedAt: now })}
    returning id, object, record_id, content, created_by_kind, created_by_id, created_by_name, created_at, updated_at`;
  if (!row) throw new Error('an inserted note was not returned');
  return row;
}
