// Moves the items of a record to another record of its object, and back.
import type { Fragment } from 'postgres';
import type { ActingScope } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { entityTypes } from './deletion.ts';

/** Two records of one object. */
export interface Pair {
  object: string;
  from: string;
  to: string;
}

const plainTables = [
  'notes',
  'messages',
  'received_reports',
  'attachments',
  'bookings',
  'message_drafts',
  'scheduling_assignments',
] as const;

/** An activity or task that moved, which is a record itself. */
interface MovedRecord {
  id: string;
  changedAt: Date;
}

/** The rows that moved, by table. */
export type MovedRows = Record<(typeof plainTables)[number], string[]> & {
  activities: MovedRecord[];
  tasks: MovedRecord[];
  links: string[];
  workforce_runs: string[];
  notifications: string[];
};

/** The ids of the rows that moved. */
export type MovedIds = Record<keyof MovedRows, string[]>;

const isOwn = (sql: Sql, { companyId, testMode }: TenantScope): Fragment =>
  sql`company_id = ${companyId} and test_mode = ${testMode}`;

const isOwnRow = (sql: Sql, { companyId, testMode }: TenantScope, alias: string): Fragment =>
  sql`${sql(alias)}.company_id = ${companyId} and ${sql(alias)}.test_mode = ${testMode}`;

/** Counts the items of a record, of each kind up to `most`. */
export async function countItems(sql: Sql, scope: TenantScope, { object, from }: Pair, most: number): Promise<number> {
  const ofRecord = [...plainTables, 'tasks', 'workforce_runs'].map(
    (table) => sql`
      select 1 from (
        select from ${sql(table)} where ${isOwn(sql, scope)} and object = ${object} and record_id = ${from} limit ${most}
      ) items`,
  );
  const rows = await sql<{ count: number }[]>`
    select count(*)::int as count
    from (
      ${ofRecord.map((part) => sql`${part} union all`)}
      select 1 from (select from activities where ${isOwn(sql, scope)} and entity_type = ${entityTypes[object] ?? null}
        and entity_id = ${from} limit ${most}) items
      union all
      select 1 from (select from notifications where company_id = ${scope.companyId} and object = ${object}
        and record_id = ${from} limit ${most}) items
      union all
      select 1 from (select from links where ${isOwn(sql, scope)} and from_id = ${from} limit ${most}) items
      union all
      select 1 from (select from links where ${isOwn(sql, scope)} and to_id = ${from} limit ${most}) items
    ) counted`;
  return rows[0]?.count ?? 0;
}

/**
 * Moves the items of a record, one statement for each table. Activities and tasks get their next
 * version. Links and runs of workforces that the other record cannot have stay.
 * @param only items that are moved back; undefined: all
 */
export async function moveItems(
  sql: Sql,
  scope: ActingScope,
  pair: Pair,
  only: MovedIds | undefined,
  now: Date,
): Promise<MovedRows> {
  const { object, from, to } = pair;
  const named = (kind: keyof MovedRows): Fragment => (only ? sql`and id = any(${only[kind]}::uuid[])` : sql``);
  const plain = plainTables.map(async (table) => {
    const rows = await sql<{ id: string }[]>`
      update ${sql(table)} set record_id = ${to}
      where ${isOwn(sql, scope)} and object = ${object} and record_id = ${from} ${named(table)}
      returning id`.execute();
    return [table, rows.map(({ id }) => id)] as const;
  });
  const moveRecords = (table: 'activities' | 'tasks', condition: Fragment, column: string): Promise<MovedRecord[]> =>
    sql<MovedRecord[]>`
      with locked as materialized (
        select id from ${sql(table)} where ${isOwn(sql, scope)} and ${condition} ${named(table)} order by id for no key update
      )
      update ${sql(table)}
      set ${sql(column)} = ${to}, version = version + 1, updated_at = greatest(updated_at + interval '1 millisecond', ${now}),
        updated_by_id = ${scope.actor.id}
      where ${isOwn(sql, scope)} and id = any(array(select id from locked))
      returning id, updated_at as changed_at`.execute();
  const [activities, tasks, links, runs, notifications, moved] = await Promise.all([
    moveRecords('activities', sql`entity_type = ${entityTypes[object] ?? null} and entity_id = ${from}`, 'entity_id'),
    moveRecords('tasks', sql`object = ${object} and record_id = ${from}`, 'record_id'),
    moveLinks(sql, scope, pair, named('links')),
    moveRuns(sql, scope, pair, named('workforce_runs')),
    moveNotifications(sql, scope, pair, named('notifications')),
    Promise.all(plain),
  ]);
  return {
    ...(Object.fromEntries(moved) as MovedIds),
    ...{ activities: [...activities], tasks: [...tasks], links, workforce_runs: runs, notifications },
  };
}

/** Moves runs of workforces. A record has at most one active run in a workforce. */
async function moveRuns(sql: Sql, scope: TenantScope, { object, from, to }: Pair, named: Fragment): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    update workforce_runs r set record_id = ${to}
    where ${isOwnRow(sql, scope, 'r')} and r.object = ${object} and r.record_id = ${from} ${named}
      and (r.ended_at is not null or not exists (
        select from workforce_runs o
        where ${isOwnRow(sql, scope, 'o')} and o.workforce_id = r.workforce_id and o.object = ${object} and o.record_id = ${to} and o.ended_at is null
      ))
    returning id`.execute();
  return rows.map(({ id }) => id);
}

/** Moves notifications of users. Records of test mode have none. */
async function moveNotifications(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { object, from, to }: Pair,
  named: Fragment,
): Promise<string[]> {
  if (testMode) return [];
  const rows = await sql<{ id: string }[]>`
    update notifications set record_id = ${to}
    where company_id = ${companyId} and object = ${object} and record_id = ${from} ${named}
    returning id`.execute();
  return rows.map(({ id }) => id);
}

/**
 * Moves links. Neither a pair nor a cardinality may be exceeded, and no record is linked to itself.
 * Writers of links hold both records, so that nothing changes meanwhile.
 */
async function moveLinks(sql: Sql, scope: TenantScope, { object, from, to }: Pair, named: Fragment): Promise<string[]> {
  const ofFrom = sql<{ id: string }[]>`
    update links l set from_id = ${to}
    where ${isOwnRow(sql, scope, 'l')} and l.from_object = ${object} and l.from_id = ${from} and l.to_id <> ${to} ${named}
      and not exists (
        select from links o
        where ${isOwnRow(sql, scope, 'o')} and o.link_type_id = l.link_type_id and o.from_id = ${to}
          and (o.to_id = l.to_id or l.cardinality = 'one_to_one')
      )
    returning id`.execute();
  const ofTo = sql<{ id: string }[]>`
    update links l set to_id = ${to}
    where ${isOwnRow(sql, scope, 'l')} and l.to_object = ${object} and l.to_id = ${from} and l.from_id <> ${to} ${named}
      and not exists (
        select from links o
        where ${isOwnRow(sql, scope, 'o')} and o.link_type_id = l.link_type_id and o.to_id = ${to}
          and (o.from_id = l.from_id or l.cardinality in ('one_to_one', 'one_to_many'))
      )
    returning id`.execute();
  const rows = await Promise.all([ofFrom, ofTo]);
  return [...new Set(rows.flat().map(({ id }) => id))];
}

/** Moves the tags and the links that are left on a record to its trash. @returns how many links */
export async function trashLeftovers(sql: Sql, scope: TenantScope, { object, from }: Pair): Promise<number> {
  const { companyId, testMode } = scope;
  const [, links] = await Promise.all([
    sql`
      with gone as (
        delete from record_tags where ${isOwn(sql, scope)} and object = ${object} and record_id = ${from} returning *
      )
      insert into deleted_items (company_id, test_mode, record_id, kind, id, document)
      select ${companyId}, ${testMode}, ${from}, 'record_tags', tag_id, to_jsonb(gone) from gone`.execute(),
    sql`
      with gone as (
        delete from links
        where ${isOwn(sql, scope)} and (from_object = ${object} and from_id = ${from} or to_object = ${object} and to_id = ${from})
        returning *
      )
      insert into deleted_items (company_id, test_mode, record_id, kind, id, document)
      select ${companyId}, ${testMode}, ${from}, 'links', id, to_jsonb(gone) from gone`.execute(),
  ]);
  return links.count;
}
