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

/** Tables of items, by which the statements below list those of a record. */
const itemTables = [...plainTables, 'tasks', 'workforce_runs', 'activities', 'notifications', 'links'] as const;

type ItemTable = (typeof itemTables)[number];

/** Returns the queries for the ids of a record's items in a table, up to `most` in each. */
function selectItems(sql: Sql, scope: TenantScope, { object, from }: Pair, table: ItemTable, most: number): Fragment[] {
  switch (table) {
    case 'activities': {
      const type = entityTypes[object] ?? null;
      return [
        sql`select id from activities where ${isOwn(sql, scope)} and entity_type = ${type} and entity_id = ${from} limit ${most}`,
      ];
    }
    case 'notifications':
      return [
        sql`
          select id from notifications
          where company_id = ${scope.companyId} and object = ${object} and record_id = ${from} limit ${most}`,
      ];
    case 'links':
      return (['from', 'to'] as const).map(
        (end) =>
          sql`
            select id from links
            where ${isOwn(sql, scope)} and ${sql(`${end}_object`)} = ${object} and ${sql(`${end}_id`)} = ${from} limit ${most}`,
      );
    default:
      return [
        sql`select id from ${sql(table)} where ${isOwn(sql, scope)} and object = ${object} and record_id = ${from} limit ${most}`,
      ];
  }
}

/** Counts the items of a record by table, of each kind up to `most`. */
export async function countItems(
  sql: Sql,
  scope: TenantScope,
  pair: Pair,
  most: number,
): Promise<Record<ItemTable, number>> {
  const parts = itemTables.flatMap((table) =>
    selectItems(sql, scope, pair, table, most).map(
      (items) => sql`select ${table} as kind, count(*)::int as count from (${items}) items`,
    ),
  );
  const rows = await sql<{ kind: ItemTable; count: number }[]>`
    ${parts.map((part, index) => (index === 0 ? part : sql` union all ${part}`))}`.execute();
  const counts = Object.fromEntries(itemTables.map((table) => [table, 0])) as Record<ItemTable, number>;
  for (const { kind, count } of rows) counts[kind] += count;
  return counts;
}

/**
 * Returns some items of a record that is gone. Active runs of workforces are not among them, because
 * they moved before.
 * @param limit in all tables together
 */
export async function pickItems(
  sql: Sql,
  scope: TenantScope,
  pair: Pair,
  limit: number,
): Promise<{ kind: string; id: string }[]> {
  const parts = itemTables
    .filter((table) => !(scope.testMode && table === 'notifications'))
    .flatMap((table) =>
      table === 'workforce_runs'
        ? [
            sql`
              (select 'workforce_runs' as kind, id from workforce_runs
              where ${isOwn(sql, scope)} and object = ${pair.object} and record_id = ${pair.from} and ended_at is not null
              limit ${limit})`,
          ]
        : selectItems(sql, scope, pair, table, limit).map(
            (items) => sql`(select ${table} as kind, id from (${items}) items)`,
          ),
    );
  const rows = await sql<{ kind: ItemTable; id: string }[]>`
    ${parts.map((part, index) => (index === 0 ? part : sql` union all ${part}`))} limit ${limit}`;
  return [...rows];
}

/** Groups the ids of rows by their tables. */
export function groupMoved(rows: readonly { kind: string; id: string }[]): MovedIds {
  const ids = Object.fromEntries(itemTables.map((table) => [table, [] as string[]])) as MovedIds;
  for (const { kind, id } of rows) ids[kind as ItemTable].push(id);
  return ids;
}

/** Moves the active runs of workforces of a record. @returns the ids of those that the other record can have */
export function moveActiveRuns(sql: Sql, scope: TenantScope, pair: Pair): Promise<string[]> {
  return moveRuns(sql, scope, pair, sql`and ended_at is null`);
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
  const isNone = (kind: keyof MovedRows): boolean => only?.[kind].length === 0;
  const plain = plainTables.map(async (table) => {
    if (isNone(table)) return [table, []] as const;
    const rows = await sql<{ id: string }[]>`
      update ${sql(table)} set record_id = ${to}
      where ${isOwn(sql, scope)} and object = ${object} and record_id = ${from} ${named(table)}
      returning id`.execute();
    return [table, rows.map(({ id }) => id)] as const;
  });
  const moveRecords = async (
    table: 'activities' | 'tasks',
    condition: Fragment,
    column: string,
  ): Promise<readonly MovedRecord[]> => {
    if (isNone(table)) return [];
    return sql<MovedRecord[]>`
      with locked as materialized (
        select id from ${sql(table)} where ${isOwn(sql, scope)} and ${condition} ${named(table)} order by id for no key update
      )
      update ${sql(table)}
      set ${sql(column)} = ${to}, version = version + 1, updated_at = greatest(updated_at + interval '1 millisecond', ${now}),
        updated_by_id = ${scope.actor.id}
      where ${isOwn(sql, scope)} and id = any(array(select id from locked))
      returning id, updated_at as changed_at`.execute();
  };
  const [activities, tasks, links, runs, notifications, moved] = await Promise.all([
    moveRecords('activities', sql`entity_type = ${entityTypes[object] ?? null} and entity_id = ${from}`, 'entity_id'),
    moveRecords('tasks', sql`object = ${object} and record_id = ${from}`, 'record_id'),
    isNone('links') ? [] : moveLinks(sql, scope, pair, named('links')),
    isNone('workforce_runs') ? [] : moveRuns(sql, scope, pair, named('workforce_runs')),
    isNone('notifications') ? [] : moveNotifications(sql, scope, pair, named('notifications')),
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
export async function trashLeftovers(sql: Sql, scope: TenantScope, pair: Pair): Promise<number> {
  const [, links] = await Promise.all([trashTags(sql, scope, pair), trashLinks(sql, scope, pair, undefined)]);
  return links;
}

/** Moves the tags that are left on a record to its trash. Sends its statement immediately. */
export async function trashTags(sql: Sql, scope: TenantScope, { object, from }: Pair): Promise<void> {
  const { companyId, testMode } = scope;
  await sql`
    with gone as (
      delete from record_tags where ${isOwn(sql, scope)} and object = ${object} and record_id = ${from} returning *
    )
    insert into deleted_items (company_id, test_mode, record_id, kind, id, document)
    select ${companyId}, ${testMode}, ${from}, 'record_tags', tag_id, to_jsonb(gone) from gone`.execute();
}

/**
 * Moves links that are left on a record to its trash. Sends its statement immediately.
 * @param only some of them; undefined: all
 * @returns how many
 */
export async function trashLinks(
  sql: Sql,
  scope: TenantScope,
  { object, from }: Pair,
  only: readonly string[] | undefined,
): Promise<number> {
  const { companyId, testMode } = scope;
  const links = await sql`
    with gone as (
      delete from links
      where ${isOwn(sql, scope)} and (from_object = ${object} and from_id = ${from} or to_object = ${object} and to_id = ${from})
        ${only ? sql`and id = any(${[...only]}::uuid[])` : sql``}
      returning *
    )
    insert into deleted_items (company_id, test_mode, record_id, kind, id, document)
    select ${companyId}, ${testMode}, ${from}, 'links', id, to_jsonb(gone) from gone`.execute();
  return links.count;
}
