// Looks up what records refer to, for a whole page: users by id, and visible records.
import type { Expansion, FoundLink, Person, ShownClock, Wanted, WantedLinks } from '../../domain/records/reading.ts';
import { markUnprepared, type Sql } from '../client/pipeline.ts';
import type { Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';
import { findShownTags } from './record-tags.ts';
import { findRecords } from './records.ts';
import { selectRelatedRows } from './related.ts';
import { type Row, readFurtherColumns, selectColumns, toRecord } from './rows.ts';

/**
 * Finds the wanted users, tags, SLA clocks, records and links: with one statement for the users, one
 * for the tags, one for the clocks, and one for each object and link type. Sends no statement for what is not wanted.
 */
export async function findExpansion(sql: Sql, scope: Scope, wanted: Wanted): Promise<Expansion> {
  const { tagged, clocked, linked = [] } = wanted;
  const finding = linked.map(async (links) => [links.field, await findRelated(sql, scope, links)] as const);
  const [users, tags, clocks, ...records] = await Promise.all([
    findUsers(sql, scope.companyId, wanted.users),
    tagged && tagged.ids.length > 0 ? findShownTags(sql, scope, tagged.object, tagged.ids) : new Map<string, never>(),
    clocked && clocked.ids.length > 0 ? findClocks(sql, scope, clocked.object, clocked.ids) : new Map<string, never>(),
    ...[...wanted.records].map(async ([object, ids]) => {
      const found = await findRecords(sql, scope, object, ids);
      return [object, new Map(found.map((record) => [record.id, record]))] as const;
    }),
  ]);
  return {
    users: new Map(users.map((user) => [user.id, user])),
    records: new Map(records),
    tags,
    clocks,
    links: mergeLinks(await Promise.all(finding)),
  };
}

async function findUsers(sql: Sql, companyId: string, ids: readonly string[]): Promise<Person[]> {
  if (ids.length === 0) return [];
  return sql<Person[]>`
    select id, full_name, email
    from users
    where company_id = ${companyId} and id = any(${ids as string[]}::uuid[])`;
}

/**
 * Returns the last SLA clock of each kind by the IDs of the records, the one that is due first first.
 * Clocks that ended because they no longer apply are left out.
 */
async function findClocks(
  sql: Sql,
  { companyId, testMode }: Scope,
  object: string,
  ids: readonly string[],
): Promise<Map<string, ShownClock[]>> {
  const rows = await sql<(ShownClock & { recordId: string })[]>`
    select c.record_id, c.policy_id, p.name as policy_name, c.kind, c.started_at, c.due_at, c.breached_at, c.satisfied_at
    from unnest(${ids as string[]}::uuid[]) wanted (id)
    cross join (values ('first_response'), ('every_response'), ('resolution')) asked (kind)
    cross join lateral (
      select * from sla_clocks c
      where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.object = ${object} and c.record_id = wanted.id
        and c.kind = asked.kind
      order by c.started_at desc, c.id desc
      limit 1
    ) c
    left join sla_policies p on p.company_id = ${companyId} and p.id = c.policy_id
    where c.ended_at is null or c.satisfied_at is not null
    order by c.due_at, c.kind`;
  return Map.groupBy(rows, ({ recordId }) => recordId);
}

/** Joins the links of each name, which can lead to records of several objects. */
function mergeLinks(
  found: readonly (readonly [string, ReadonlyMap<string, FoundLink[]>])[],
): Map<string, Map<string, FoundLink[]>> {
  const merged = new Map<string, Map<string, FoundLink[]>>();
  for (const [field, links] of found) merged.set(field, new Map([...(merged.get(field) ?? []), ...links]));
  return merged;
}

/**
 * Returns related records by the IDs of the given ones, newest first. It reads only as many for
 * each record as are wanted.
 */
async function findRelated(sql: Sql, scope: Scope, wanted: WantedLinks): Promise<Map<string, FoundLink[]>> {
  const { object, ids, path, otherObject, limit } = wanted;
  const [origin, table] = [getRecordTable(object), getRecordTable(otherObject)];
  const { from, where } = selectRelatedRows(sql, scope, { table: origin, row: sql`origin` }, table, path);
  const order =
    path.kind === 'link' ? sql`l.created_at desc, l.id desc` : sql`related.created_at desc, related.id desc`;
  const rows = await markUnprepared(
    sql`
      select ${selectColumns(sql, table)}, origin.id as origin_id, r.related_place
      from ${sql(origin.name)} origin
      cross join lateral (
        select related.*, row_number() over (order by ${order}) as related_place
        from ${from}
        where ${where}
        order by ${order}
        limit ${limit}
      ) r
      where origin.company_id = ${scope.companyId} and origin.test_mode = ${scope.testMode}
        and origin.id = any(${[...ids]}::uuid[])
      order by r.related_place`.values(),
  );
  const found = new Map<string, FoundLink[]>();
  for (const row of rows as unknown as Row[]) {
    const id = String(readFurtherColumns(table, row)[0]);
    const link = { object: otherObject, record: toRecord(table, row) };
    found.set(id, [...(found.get(id) ?? []), link]);
  }
  return found;
}
