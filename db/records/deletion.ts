// Deleting records with what belongs to them alone: into the trash, or for good.
import type { Fragment } from 'postgres';
import type { Ownership } from '../../domain/ownership.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { GoneRecord, GoneWithIt } from '../../domain/records/view.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isVisibleTo, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';
import { belongsToTenant } from './reached.ts';
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
import { readFurtherColumns, selectColumns, toRecord } from './rows.ts';
import {
  countChildren,
  type Deleter,
  keepClearedReferences,
  keepCounts,
  keepRecords,
  type TrashedItem,
} from './trash.ts';
import { findMergedWith, findUnfinishedMerges, type UnfinishedMerge } from './unfinished-merges.ts';

export interface DeletedRecord extends StoredRecord {
  gone: GoneWithIt;
  ownership: Ownership;
  /** Activities and tasks that were deleted with it, which are records, too. */
  records: readonly GoneRecord[];
}

/** A deleted record with the numbers of its items. */
interface RemovedRecord extends DeletedRecord {
  children: ReturnType<typeof countChildren>;
}

/** The result of a deletion. */
export interface Deletion {
  /** The deleted records, in no order: those that existed and were visible. */
  records: DeletedRecord[];
  /** Other records that lost their reference to one of them. */
  cleared: ClearedReference[];
  /** True if so many refer to them that a job clears the references. */
  isClearingPending: boolean;
  /** A merge or undo that moves items to or from one of them. The transaction must then not commit. */
  unfinishedMerge: UnfinishedMerge | undefined;
  deletedAt: Date;
  /** Resolves when the trash has them. The transaction must wait for it before it commits. */
  stored: Promise<unknown>;
}

/**
 * Moves records to the trash with what belongs to them alone: the activities logged on them, their tasks, tags, notes, links,
 * messages and attachments, and what hangs on those activities and tasks. Other records that refer to them lose the reference,
 * now or by a job.
 */
export async function moveToTrash(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
  causedBy: ClearingCause,
  now: Date,
): Promise<Deletion> {
  const { cleared, isClearingPending } = isReferredTo(object)
    ? await clearReferencesTo(sql, scope, object, ids, causedBy, now)
    : { cleared: [], isClearingPending: false };
  const { records, unfinishedMerge } = await removeRecords(sql, scope, object, ids, { actor: causedBy.actor, at: now });
  const stored = Promise.all([keepCounts(sql, scope, records), keepClearedReferences(sql, scope, object, cleared)]);
  return { records, cleared, isClearingPending, unfinishedMerge, deletedAt: now, stored };
}

/** Returns a condition for a row `r` that is one of the records and visible. */
function isToBeDeleted(sql: Sql, scope: Scope, object: string, ids: readonly string[]): Fragment {
  const table = getRecordTable(object);
  return sql`
    ${belongsToTenant(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${isVisibleTo(sql, scope, table.assigned)}`;
}

/** As moveToTrash(), but for good. @returns those that were there within reach, in no order */
export async function deleteRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
): Promise<DeletedRecord[]> {
  return (await removeRecords(sql, scope, object, ids, undefined)).records;
}

/**
 * Deletes for good what still hangs on records that are being merged into some others, which are
 * gone: a job can no longer move it.
 */
export async function deleteUnmoved(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
  now: Date,
): Promise<void> {
  const sources = await findMergedWith(sql, scope, object, ids);
  if (sources.length === 0) return;
  const roots = sources.map((id) => ({ object, id, root: id }));
  const { owned } = await deleteOwned(sql, scope, object, roots, 'for good');
  await deleteChildren(sql, scope, [...roots, ...owned], 'for good');
  await clearReferences(sql, scope, object, sources, Number.MAX_SAFE_INTEGER, now);
}

/** Returns false for records that cannot be merged. */
const canMerge = (object: string): boolean => object !== 'activities' && object !== 'tasks';

type Fate = 'to the trash' | 'for good';

/** Removes records and what belongs to them. @param deleter if they go to the trash */
async function removeRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
  deleter: Deleter | undefined,
): Promise<{ records: RemovedRecord[]; unfinishedMerge: UnfinishedMerge | undefined }> {
  const table = getRecordTable(object);
  const fate: Fate = deleter ? 'to the trash' : 'for good';
  // In the order of the ids, which prevents deadlocks.
  if (ids.length > 1)
    await sql`select r.id from ${sql(table.name)} r where ${isToBeDeleted(sql, scope, object, ids)} order by r.id for update`;
  const deleting = sql`
    delete from ${sql(table.name)} r
    where ${isToBeDeleted(sql, scope, object, ids)}`;
  const selected = sql`${selectColumns(sql, table)}, r.created_by_kind, r.created_by_id, r.created_by_user`;
  const rows = await (deleter
    ? sql`
        with gone as (${deleting} returning r.*), kept as (${keepRecords(sql, scope, object, deleter)})
        select ${selected} from gone r`
    : sql`${deleting} returning ${selected}`
  ).values();
  const records = rows.map((row) => {
    const record = toRecord(table, row);
    const [kind, id, userId] = readFurtherColumns(table, row) as [string, string, string | null];
    const assignedTo = (record.values.assigned_to ?? null) as string | null;
    return { ...record, ownership: { assignedTo, createdBy: { kind, id, userId } } };
  });
  if (records.length === 0) return { records: [], unfinishedMerge: undefined };
  const roots = records.map(({ id }) => ({ object, id, root: id }));
  // Read after the records are locked, so that no merge of them can begin meanwhile.
  const [[unfinishedMerge], { owned, tags }] = await Promise.all([
    deleter && canMerge(object)
      ? findUnfinishedMerges(
          sql,
          scope,
          records.map(({ id }) => id),
        )
      : [],
    deleteOwned(sql, scope, object, roots, fate),
  ]);
  const hung = await deleteChildren(sql, scope, [...roots, ...owned], fate);
  const byRoot = Map.groupBy(owned, ({ root }) => root);
  const itemsOf = Map.groupBy(
    [...owned.map(({ kind, root }) => ({ kind, root })), ...tags, ...hung],
    ({ root }) => root,
  );
  const removed = records.map((record) => {
    const children = countChildren(itemsOf.get(record.id) ?? []);
    const { activities, tasks, notes, attachments } = children;
    const gone = { activities, tasks, notes, attachments };
    return { ...record, records: byRoot.get(record.id) ?? [], gone, children };
  });
  return { records: removed, unfinishedMerge };
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
): Promise<Pick<Deletion, 'cleared' | 'isClearingPending'>> {
  const table = sql(getRecordTable(object).name);
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

/** An activity or task that goes with a record. */
interface OwnedRecord extends Going, GoneRecord {
  kind: 'activities' | 'tasks';
}

interface GoingRow {
  kind: 'activities' | 'tasks' | 'record_tags';
  id: string;
  root: string;
  assignedTo: string | null;
  createdByKind: string;
  createdById: string;
  createdByUser: string | null;
}

/**
 * Deletes the activities, tasks and tags of deleted records. A separate statement, which sees what
 * others attached before the records were locked. The code finds the root of each row, and not a
 * join, which PostgreSQL may plan for a few rows and run for thousands.
 */
async function deleteOwned(
  sql: Sql,
  { companyId, testMode }: Scope,
  object: string,
  roots: readonly Going[],
  fate: Fate,
): Promise<{ owned: OwnedRecord[]; tags: readonly Pick<TrashedItem, 'kind' | 'root'>[] }> {
  const ids = roots.map(({ id }) => id);
  const owned = { companyId, testMode, object, ids };
  const locking = lockOwned(sql, owned);
  // One query for each kind of record: an index cannot serve conditions that are joined by `or`.
  const deleteTasks = (of: string, recordIds: Fragment) => sql`
    delete from tasks
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${of} and record_id = any(${recordIds})
    returning *`;
  const deleting = sql<GoingRow[]>`
    with gone_activities as (
      delete from activities
      where company_id = ${companyId} and test_mode = ${testMode}
        and entity_type = ${entityTypes[object] ?? null} and entity_id = any(${ids}::uuid[])
      returning *
    ), gone_tasks as (
      ${deleteTasks(object, sql`${ids}::uuid[]`)}
    ), gone_tasks_of_activities as (
      ${deleteTasks('activities', sql`array(select id from gone_activities)`)}
    ), gone_tags as (
      delete from record_tags
      where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = any(${ids}::uuid[])
      returning *
    ), gone as (
      select 'activities' as kind, a.id, a.entity_id as root, to_jsonb(a) as document from gone_activities a
      union all
      select 'tasks', t.id, t.record_id, to_jsonb(t) from gone_tasks t
      union all
      select 'tasks', t.id,
        ((select jsonb_object_agg(id, entity_id) from gone_activities) ->> t.record_id::text)::uuid, to_jsonb(t)
      from gone_tasks_of_activities t
      union all
      select 'record_tags', t.tag_id, t.record_id, to_jsonb(t) from gone_tags t
    )
    ${storeGone(sql, { companyId, testMode }, fate)}, document ->> 'created_by_kind' as created_by_kind,
      document ->> 'created_by_id' as created_by_id, document ->> 'created_by_user' as created_by_user,
      document ->> 'assigned_to' as assigned_to ${endOfGone(sql, fate)}`.execute();
  const [, rows] = await Promise.all([locking, deleting]);
  const records = rows.flatMap(({ kind, assignedTo, createdByKind, createdById, createdByUser, ...gone }) =>
    kind === 'record_tags'
      ? []
      : [
          {
            ...gone,
            kind,
            object: kind,
            ownership: {
              assignedTo,
              createdBy: { kind: createdByKind, id: createdById, userId: createdByUser },
            },
          },
        ],
  );
  return { owned: records, tags: rows.filter(({ kind }) => kind === 'record_tags') };
}

/**
 * Returns the part of a statement behind its rows `gone` that stores them in the trash, or only
 * lists them; columns may follow.
 */
function storeGone(sql: Sql, { companyId, testMode }: TenantScope, fate: Fate): Fragment {
  const columns = sql`kind, id`;
  if (fate === 'for good') return sql`select ${columns}, root`;
  // Items that an earlier deletion of the same record left are equal.
  return sql`
    insert into deleted_items (company_id, test_mode, record_id, kind, id, document)
    select ${companyId}, ${testMode}, root, kind, id, document from gone
    returning ${columns}, record_id as root`;
}

const endOfGone = (sql: Sql, fate: Fate): Fragment => (fate === 'for good' ? sql`from gone` : sql``);

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
  const selectTasks = (of: string, recordIds: Fragment) =>
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
      ${selectTasks(object, sql`${[...ids]}::uuid[]`)}
      union all
      ${selectTasks('activities', sql`array(select id from locked_activities)`)}
    ))
    order by r.id
    for update`.execute();
}

/** Deletes what hangs on records that are gone. Statements of their own, for the reason above. */
async function deleteChildren(
  sql: Sql,
  scope: Scope,
  going: readonly Going[],
  fate: Fate,
): Promise<Pick<TrashedItem, 'kind' | 'root'>[]> {
  const byObject = Map.groupBy(going, ({ object }) => object);
  const gone = await Promise.all([...byObject].map(([object, of]) => deleteChildRows(sql, scope, object, of, fate)));
  return gone.flat();
}

function deleteChildRows(
  sql: Sql,
  { companyId, testMode }: Scope,
  object: string,
  going: readonly Going[],
  fate: Fate,
): Promise<Pick<TrashedItem, 'kind' | 'root'>[]> {
  const ids = going.map(({ id }) => id);
  const own = sql`
    company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = any(${ids}::uuid[])`;
  const roots = sql.json(Object.fromEntries(going.map(({ id, root }) => [id, root])));
  const selectRoot = (id: Fragment) => sql`(${roots}::jsonb ->> ${id}::text)::uuid`;
  return sql<Pick<TrashedItem, 'kind' | 'root'>[]>`
    with gone_notes as (
      delete from notes where ${own} returning *
    ), gone_messages as (
      delete from messages where ${own} returning *
    ), gone_reports as (
      delete from received_reports where ${own} returning *
    ), gone_links_from as (
      delete from links
      where company_id = ${companyId} and test_mode = ${testMode} and from_object = ${object} and from_id = any(${ids}::uuid[])
      returning *
    ), gone_links_to as (
      delete from links
      where company_id = ${companyId} and test_mode = ${testMode} and to_object = ${object} and to_id = any(${ids}::uuid[])
        and not (from_object = ${object} and from_id = any(${ids}::uuid[]))
      returning *
    ), gone_attachments as (
      delete from attachments where ${own} returning *
    ), gone as (
      select 'notes' as kind, r.id, ${selectRoot(sql`r.record_id`)} as root, to_jsonb(r) as document from gone_notes r
      union all
      select 'messages', r.id, ${selectRoot(sql`r.record_id`)}, to_jsonb(r) from gone_messages r
      union all
      select 'received_reports', r.id, ${selectRoot(sql`r.record_id`)}, to_jsonb(r) from gone_reports r
      union all
      select 'attachments', r.id, ${selectRoot(sql`r.record_id`)}, to_jsonb(r) from gone_attachments r
      union all
      select 'links', r.id, ${selectRoot(sql`r.from_id`)}, to_jsonb(r) from gone_links_from r
      union all
      select 'links', r.id, ${selectRoot(sql`r.to_id`)}, to_jsonb(r) from gone_links_to r
    )
    ${storeGone(sql, { companyId, testMode }, fate)} ${endOfGone(sql, fate)}`.execute();
}

/** The names of objects in activities. */
export const entityTypes: Readonly<Record<string, string>> = {
  leads: 'lead',
  deals: 'deal',
  customers: 'customer',
  accounts: 'account',
};
