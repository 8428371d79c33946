// Deletes records with everything that belongs only to them.
import type { Fragment } from 'postgres';
import type { Possession } from '../../domain/possession.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { GoneRecord, GoneWithIt } from '../../domain/records/view.ts';
import type { Sql } from '../client/pool.ts';
import { inReach, type Scope } from '../client/visibility.ts';
import { recordTable } from './columns.ts';
import { belongs } from './reached.ts';
import {
  type ClearedReference,
  type ClearingCause,
  clearReferences,
  countReferring,
  isReferredTo,
  lockConvertedLeads,
  mostClearedAtOnce,
  noteClearings,
} from './reference-clearing.ts';
import { fromRow, restOfRow, selection } from './rows.ts';

export interface DeletedRecord extends StoredRecord {
  gone: GoneWithIt;
  possession: Possession;
  /** Activities and tasks that were deleted with it, which are records, too. */
  records: readonly GoneRecord[];
}

/** The result of a deletion. */
export interface Deletion {
  /** The deleted records, in no order: those that existed and were visible. */
  records: DeletedRecord[];
  /** Other records that lost their reference to one of them. */
  cleared: ClearedReference[];
  /** True if so many refer to them that a job clears the references. */
  isClearingPending: boolean;
}

/** As deleteRecords(). Records that referred to them are changed, now or by a job. */
export async function deleteAndClear(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
  causedBy: ClearingCause,
  now: Date,
): Promise<Deletion> {
  const clearing = isReferredTo(object)
    ? await clearReferencesTo(sql, scope, object, ids, causedBy, now)
    : { cleared: [], isClearingPending: false };
  return { records: await deleteRecords(sql, scope, object, ids), ...clearing };
}

/** Returns a condition for a row `r` that is one of the records and visible. */
function isToBeDeleted(sql: Sql, scope: Scope, object: string, ids: readonly string[]): Fragment {
  const table = recordTable(object);
  return sql`
    ${belongs(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${inReach(sql, scope, table.assigned)}`;
}

/**
 * Deletes records with everything that belongs only to them: activities that are logged on them,
 * tasks, tags, notes, links, messages and attachments, and what belongs to those activities and
 * tasks. Other records that refer to them lose the reference.
 * @returns the deleted records, in no order: those that existed and were visible
 */
export async function deleteRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
): Promise<DeletedRecord[]> {
  const table = recordTable(object);
  // In the order of the ids, which prevents deadlocks.
  if (ids.length > 1)
    await sql`select r.id from ${sql(table.name)} r where ${isToBeDeleted(sql, scope, object, ids)} order by r.id for update`;
  const rows = await sql`
    delete from ${sql(table.name)} r
    where ${isToBeDeleted(sql, scope, object, ids)}
    returning ${selection(sql, table)}, r.created_by_kind, r.created_by_id, r.created_by_user`.values();
  const records = rows.map((row) => {
    const record = fromRow(table, row);
    const [kind, id, userId] = restOfRow(table, row) as [string, string, string | null];
    const assignedTo = (record.values.assigned_to ?? null) as string | null;
    return { ...record, possession: { assignedTo, createdBy: { kind, id, userId } } };
  });
  if (records.length === 0) return [];
  const roots = records.map(({ id }) => ({ object, id, root: id }));
  const owned = await deleteOwned(sql, scope, object, roots);
  const hung = await deleteChildren(sql, scope, [...roots, ...owned]);
  const byRoot = Map.groupBy(owned, ({ root }) => root);
  return records.map((record) => {
    const own = byRoot.get(record.id) ?? [];
    const activities = own.filter((one) => one.object === 'activities').length;
    const { notes = 0, attachments = 0 } = hung.get(record.id) ?? {};
    const gone = { activities, tasks: own.length - activities, notes, attachments };
    return { ...record, records: own, gone };
  });
}

/**
 * Locks records to be deleted, so that no new reference to them can be written, and clears the
 * existing ones.
 */
async function clearReferencesTo(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
  causedBy: ClearingCause,
  now: Date,
): Promise<Omit<Deletion, 'records'>> {
  const table = sql(recordTable(object).name);
  // Separate statements, pipelined: each sees what was committed before the previous locks were
  // taken.
  const [, rows, referring] = await Promise.all([
    object === 'customers' ? lockConvertedLeads(sql, scope, ids) : undefined,
    sql<{ id: string }[]>`
      select r.id from ${table} r where ${isToBeDeleted(sql, scope, object, ids)} order by r.id for update`.execute(),
    countReferring(sql, scope, object, ids, mostClearedAtOnce + 1),
  ]);
  const locked = rows.map(({ id }) => id);
  if (locked.length === 0 || referring === 0) return { cleared: [], isClearingPending: false };
  if (referring > mostClearedAtOnce) {
    await noteClearings(sql, scope, object, locked, causedBy, now);
    return { cleared: [], isClearingPending: true };
  }
  const cleared = await clearReferences(sql, scope, object, locked, mostClearedAtOnce, now);
  return { cleared, isClearingPending: false };
}

/** A record that is deleted, and the record with which it is deleted. */
interface Going {
  object: string;
  id: string;
  root: string;
}

interface GoingRow {
  object: string;
  id: string;
  /** The record that it was logged on, or is a task of. */
  parent: string;
  assignedTo: string | null;
  createdByKind: string;
  createdById: string;
  createdByUser: string | null;
}

/**
 * Deletes the activities, tasks and tags of deleted records. A separate statement sees what others
 * attached before the records were locked. The ids are passed as parameters: PostgreSQL may plan a
 * join for a few rows and run it for thousands.
 */
async function deleteOwned(
  sql: Sql,
  { companyId, testMode }: Scope,
  object: string,
  roots: readonly Going[],
): Promise<(Going & GoneRecord)[]> {
  const ids = roots.map(({ id }) => id);
  const owned = { companyId, testMode, object, ids };
  const locking = lockOwned(sql, owned);
  // One statement for each kind of record: an index cannot serve conditions that are joined by
  // `or`.
  const deleteTasks = (of: string, recordIds: Fragment) => sql`
    delete from tasks
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${of} and record_id = any(${recordIds})
    returning id, record_id, assigned_to, created_by_kind, created_by_id, created_by_user`;
  const deleting = sql<GoingRow[]>`
    with gone_activities as (
      delete from activities
      where company_id = ${companyId} and test_mode = ${testMode}
        and entity_type = ${entityTypes[object] ?? null} and entity_id = any(${ids}::uuid[])
      returning id, entity_id, created_by_kind, created_by_id, created_by_user
    ), gone_tasks as (
      ${deleteTasks(object, sql`${ids}::uuid[]`)}
    ), gone_tasks_of_activities as (
      ${deleteTasks('activities', sql`array(select id from gone_activities)`)}
    ), gone_tags as (
      delete from record_tags
      where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = any(${ids}::uuid[])
    )
    select 'activities' as object, id, entity_id as parent, null::uuid as assigned_to, created_by_kind, created_by_id, created_by_user
    from gone_activities
    union all
    select 'tasks', id, record_id, assigned_to, created_by_kind, created_by_id, created_by_user
    from (select * from gone_tasks union all select * from gone_tasks_of_activities) t`.execute();
  const [, rows] = await Promise.all([locking, deleting]);
  const rootOfActivity = new Map(
    rows.filter((row) => row.object === 'activities').map(({ id, parent }) => [id, parent]),
  );
  return rows.map(({ parent, assignedTo, createdByKind, createdById, createdByUser, ...gone }) => ({
    ...gone,
    root: rootOfActivity.get(parent) ?? parent,
    possession: {
      assignedTo,
      createdBy: { kind: createdByKind, id: createdById, userId: createdByUser },
    },
  }));
}

/**
 * Locks the activities and tasks of deleted records in the order of their ids, as batches that
 * change them do. Sends its statement immediately.
 */
function lockOwned(
  sql: Sql,
  {
    companyId,
    testMode,
    object,
    ids,
  }: { companyId: string; testMode: boolean; object: string; ids: readonly string[] },
): Promise<unknown> {
  const own = sql`r.company_id = ${companyId} and r.test_mode = ${testMode}`;
  const tasksOf = (of: string, recordIds: Fragment) =>
    sql`select r.id from tasks r where ${own} and r.object = ${of} and r.record_id = any(${recordIds})`;
  return sql`
    with locked_activities as materialized (
      select r.id from activities r
      where ${own} and r.entity_type = ${entityTypes[object] ?? null} and r.entity_id = any(${[...ids]}::uuid[])
      order by r.id
      for update
    )
    select r.id from tasks r
    where ${own} and r.id = any(array(
      ${tasksOf(object, sql`${[...ids]}::uuid[]`)}
      union all
      ${tasksOf('activities', sql`array(select id from locked_activities)`)}
    ))
    order by r.id
    for update`.execute();
}

/**
 * Deletes what belongs to deleted records, and counts it by their roots. Separate statements, for
 * the reason above.
 */
async function deleteChildren(
  sql: Sql,
  scope: Scope,
  going: readonly Going[],
): Promise<Map<string, { notes: number; attachments: number }>> {
  const byObject = Map.groupBy(going, ({ object }) => object);
  const gone = await Promise.all([...byObject].map(([object, of]) => deleteChildrenOf(sql, scope, object, of)));
  const counts = new Map<string, { notes: number; attachments: number }>();
  for (const { child, root } of gone.flat()) {
    const count = counts.get(root) ?? { notes: 0, attachments: 0 };
    count[child] += 1;
    counts.set(root, count);
  }
  return counts;
}

async function deleteChildrenOf(
  sql: Sql,
  { companyId, testMode }: Scope,
  object: string,
  going: readonly Going[],
): Promise<{ child: 'notes' | 'attachments'; root: string }[]> {
  const roots = new Map(going.map(({ id, root }) => [id, root]));
  const own = sql`
    company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = any(${[...roots.keys()]}::uuid[])`;
  const rows = await sql<{ child: 'notes' | 'attachments'; recordId: string }[]>`
    with gone_notes as (
      delete from notes where ${own} returning record_id
    ), gone_messages as (
      delete from messages where ${own}
    ), gone_reports as (
      delete from received_reports where ${own}
    ), gone_links_from as (
      delete from links
      where company_id = ${companyId} and test_mode = ${testMode} and from_object = ${object} and from_id = any(${[...roots.keys()]}::uuid[])
    ), gone_links_to as (
      delete from links
      where company_id = ${companyId} and test_mode = ${testMode} and to_object = ${object} and to_id = any(${[...roots.keys()]}::uuid[])
        and not (from_object = ${object} and from_id = any(${[...roots.keys()]}::uuid[]))
    ), gone_attachments as (
      delete from attachments where ${own} returning record_id
    )
    select 'notes' as child, record_id from gone_notes
    union all
    select 'attachments', record_id from gone_attachments`;
  return rows.map(({ child, recordId }) => ({ child, root: roots.get(recordId) as string }));
}

/** The names of objects in activities. */
const entityTypes: Readonly<Record<string, string>> = { leads: 'lead', deals: 'deal' };
