// Notes on records.

import type { Fragment } from 'postgres';
import { type CreatedByRow, toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';
import { belongsToTenant } from './reached.ts';

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
    insert into notes ${sql({ ...keys, content, ...toCreatedColumns(scope), createdAt: now, updatedAt: now })}
    returning id, object, record_id, content, created_by_kind, created_by_id, created_by_name, created_at, updated_at`;
  if (!row) throw new Error('an inserted note was not returned');
  return row;
}

/** A note with the user in whose name it was written. */
export interface OwnedNoteRow extends NoteRow {
  createdByUser: string | null;
}

/** Locks a note of a record until the transaction ends. @returns undefined if the record has no such note */
export async function lockNote(
  sql: Sql,
  { companyId, testMode }: Scope,
  record: { object: string; id: string },
  id: string,
): Promise<OwnedNoteRow | undefined> {
  const [row] = await sql<OwnedNoteRow[]>`
    select id, object, record_id, content, created_by_kind, created_by_id, created_by_name, created_by_user, created_at, updated_at
    from notes
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${record.object} and record_id = ${record.id} and id = ${id}
    for no key update`;
  return row;
}

/** Changes a note that the caller has locked. */
export async function updateNote(
  sql: Sql,
  { companyId, testMode }: Scope,
  { id, content, updatedAt }: Pick<NoteRow, 'id' | 'content' | 'updatedAt'>,
): Promise<void> {
  await sql`
    update notes set content = ${content}, updated_at = ${updatedAt}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Deletes a note that the caller has locked. */
export async function deleteNote(sql: Sql, { companyId, testMode }: Scope, id: string): Promise<void> {
  await sql`delete from notes where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

export interface NoteFilter {
  /** The objects that the caller can view. */
  objects: readonly string[];
  /** The id of the actor. */
  createdBy: string | undefined;
  /** Both included. */
  from: Date | undefined;
  to: Date | undefined;
}

/** Time and id of a note. */
export type NotePlace = readonly [createdAt: string, id: string];

/** Notes of a stretch of the list, and where to continue; undefined at its end. */
export interface NoteStretch {
  rows: NoteRow[];
  reached: NotePlace | undefined;
}

/** Notes that one statement looks at for those of records within reach. */
const scanLimit = 110;

/**
 * Returns notes on records within reach, of all objects, newest first. A caller that does not see the
 * whole workspace may get fewer notes than the limit although there are more: the statement looks at a
 * limited number of notes.
 */
export async function listNotesOfObjects(
  sql: Sql,
  scope: Scope,
  { objects, createdBy, from, to }: NoteFilter,
  after: NotePlace | undefined,
  limit: number,
): Promise<NoteStretch> {
  if (objects.length === 0) return { rows: [], reached: undefined };
  const stretch = scope.reach.kind === 'company' ? limit : scanLimit;
  const rows = await sql<(NoteRow & { isMatch: boolean })[]>`
    with looked as materialized (
      select note.*
      from unnest(${[...objects]}::text[]) viewable (object)
      cross join lateral (
        select * from notes n
        where n.company_id = ${scope.companyId} and n.test_mode = ${scope.testMode} and n.object = viewable.object
          ${createdBy === undefined ? sql`` : sql`and n.created_by_id = ${createdBy}`}
          ${from ? sql`and n.created_at >= ${from}` : sql``}
          ${to ? sql`and n.created_at <= ${to}` : sql``}
          ${after ? sql`and (n.created_at, n.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
        order by n.created_at desc, n.id desc
        limit ${stretch}
      ) note
      order by note.created_at desc, note.id desc
      limit ${stretch}
    ), matching as (
      select * from looked n where ${isOnVisible(sql, scope, objects)} order by created_at desc, id desc limit ${limit}
    ), last as (
      select * from looked order by created_at, id limit 1
    )
    select id, object, record_id, content, created_by_kind, created_by_id, created_by_name, created_at, updated_at, true as is_match
    from matching
    union all
    select id, object, record_id, '', created_by_kind, created_by_id, created_by_name, created_at, updated_at, false
    from last
    where (select count(*) from looked) = ${stretch}
    order by is_match desc, created_at desc, id desc`;
  const matching = rows.filter(({ isMatch }) => isMatch);
  const last = matching.length === limit ? matching.at(-1) : rows.find(({ isMatch }) => !isMatch);
  return { rows: matching, reached: last && [last.createdAt.toISOString(), last.id] };
}

/** Returns the condition that the record of a note `n` is within reach. */
function isOnVisible(sql: Sql, scope: Scope, objects: readonly string[]): Fragment {
  if (scope.reach.kind === 'company') return sql`true`;
  const each = objects.map((object, index) => {
    const table = getRecordTable(object);
    // With a limit, each record is looked up by its key. Without, PostgreSQL may read all that are within reach.
    return sql`${index === 0 ? sql`` : sql`or`} n.object = ${object} and (
        select true from ${sql(table.name)} r
        where ${belongsToTenant(sql, scope, table)} and r.id = n.record_id and ${isVisibleTo(sql, scope, table.assigned)}
        limit 1
      )`;
  });
  return sql`(${each})`;
}
