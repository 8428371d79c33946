// Deleting records, with what belongs to them alone.
import type { Fragment } from 'postgres';
import type { Possession } from '../../domain/possession.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import type { GoneRecord, GoneWithIt } from '../../domain/records/view.ts';
import type { Sql } from '../connect.ts';
import { inReach, type Scope } from '../reach.ts';
import { recordTable } from './columns.ts';
import { belongs } from './reached.ts';
import { fromRow, restOfRow, selection } from './rows.ts';

export interface DeletedRecord extends StoredRecord {
  gone: GoneWithIt;
  possession: Possession;
  /** Activities and tasks that went with it, which are records too. */
  records: readonly GoneRecord[];
}

/**
 * Deletes records with what belongs to them alone: the activities logged on them, their tasks, tags, notes, messages and attachments,
 * and what hangs on those activities and tasks. Other records that refer to them stay, without the reference.
 * @returns those that were there within reach, in no order
 */
export async function deleteRecords(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
): Promise<DeletedRecord[]> {
  const table = recordTable(object);
  const wanted = sql`
    ${belongs(sql, scope, table)} and r.id = any(${ids as string[]}::uuid[]) and ${inReach(sql, scope, table.assigned)}`;
  // In the order of the ids, so that no two calls wait for each other.
  if (ids.length > 1) await sql`select r.id from ${sql(table.name)} r where ${wanted} order by r.id for update`;
  const rows = await sql`
    delete from ${sql(table.name)} r
    where ${wanted}
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
  const count = (name: string, root: string) => owned.filter((one) => one.object === name && one.root === root).length;
  const byRoot = Map.groupBy(owned, ({ root }) => root);
  return records.map((record) => ({
    ...record,
    records: byRoot.get(record.id) ?? [],
    gone: {
      activities: count('activities', record.id),
      tasks: count('tasks', record.id),
      notes: hung.get(record.id)?.notes ?? 0,
      attachments: hung.get(record.id)?.attachments ?? 0,
    },
  }));
}

/** A record that goes, and the one with which it goes. */
interface Going {
  object: string;
  id: string;
  root: string;
}

interface GoingRow extends Going {
  assigned_to: string | null;
  created_by_kind: string;
  created_by_id: string;
  created_by_user: string | null;
}

/** Deletes the activities, tasks and tags of records that are gone. A statement of its own: it sees what others attached until these were locked. */
async function deleteOwned(
  sql: Sql,
  { companyId, testMode }: Scope,
  object: string,
  roots: readonly Going[],
): Promise<(Going & GoneRecord)[]> {
  const ids = roots.map(({ id }) => id);
  // One for each kind of record: joined by `or`, no index would serve them.
  const deleteTasks = (of: string, recordIds: Fragment) => sql`
    delete from tasks
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${of} and record_id = any(${recordIds})
    returning id, record_id, assigned_to, created_by_kind, created_by_id, created_by_user`;
  const rows = await sql<GoingRow[]>`
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
    select 'activities' as object, id, entity_id as root, null::uuid as assigned_to, created_by_kind, created_by_id, created_by_user
    from gone_activities
    union all
    select 'tasks', t.id, coalesce(a.entity_id, t.record_id), t.assigned_to, t.created_by_kind, t.created_by_id, t.created_by_user
    from (select * from gone_tasks union all select * from gone_tasks_of_activities) t
    left join gone_activities a on a.id = t.record_id`;
  return rows.map(({ assigned_to, created_by_kind, created_by_id, created_by_user, ...going }) => ({
    ...going,
    possession: {
      assignedTo: assigned_to,
      createdBy: { kind: created_by_kind, id: created_by_id, userId: created_by_user },
    },
  }));
}

/** Deletes what hangs on records that are gone, and counts it by their roots. A statement of its own, for the reason above. */
async function deleteChildren(
  sql: Sql,
  { companyId, testMode }: Scope,
  going: readonly Going[],
): Promise<Map<string, { notes: number; attachments: number }>> {
  const ids = going.map(({ id }) => id);
  const own = (child: string) => sql`
    ${sql(child)}.company_id = ${companyId} and ${sql(child)}.test_mode = ${testMode}
      and ${sql(child)}.object = going.object and ${sql(child)}.record_id = going.id
      and ${sql(child)}.record_id = any(${ids}::uuid[])`;
  const counts = await sql<{ root: string; notes: number; attachments: number }[]>`
    with going as (
      select object, id, root from jsonb_to_recordset(${sql.json(going as never)}) as r (object text, id uuid, root uuid)
    ), gone_notes as (
      delete from notes using going where ${own('notes')} returning going.root
    ), gone_messages as (
      delete from messages using going where ${own('messages')}
    ), gone_reports as (
      delete from received_reports using going where ${own('received_reports')}
    ), gone_attachments as (
      delete from attachments using going where ${own('attachments')} returning going.root
    )
    select going.root,
      (select count(*) from gone_notes n where n.root = going.root) as notes,
      (select count(*) from gone_attachments a where a.root = going.root) as attachments
    from going
    where going.id = going.root`;
  return new Map(counts.map((each) => [each.root, each]));
}

/** What activities call the objects that they are logged on. */
const entityTypes: Readonly<Record<string, string>> = { leads: 'lead', deals: 'deal' };
