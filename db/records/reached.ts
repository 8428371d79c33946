// Which rows of a table of records a statement is about: the tenant's own, those in reach, those that it names.
import type { Fragment } from 'postgres';
import { type Sql, unprepared } from '../connect.ts';
import { inReach, members, type Scope } from '../reach.ts';
import type { TenantScope } from '../tenant.ts';
import type { RecordTable } from './columns.ts';

/** The condition that a row `r` is the tenant's, in the caller's mode, and of this object. */
export function belongs(sql: Sql, scope: TenantScope, table: RecordTable): Fragment {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  return table.object === undefined ? own : sql`${own} and r.object = ${table.object}`;
}

/**
 * The condition that a row `r` is one of some, for statements that join them: by the join alone, a plan that was made for companies with few
 * records would read all of a large one.
 */
export function isNamed(sql: Sql, ids: readonly string[]): Fragment {
  return ids.length === 1 ? sql`r.id = ${ids[0] as string}` : sql`r.id = any(${[...ids]}::uuid[])`;
}

/** Where a statement that looks through records finds them, as rows `r`. */
export interface Source {
  rows: Fragment;
  where: Fragment;
}

/** So many records in reach are found person by person. Of more, some come by soon enough in whatever order all are read. */
const fewRecords = 5000;

/** All records in reach. Where these are few, nobody else's are read. */
export async function recordsInReach(sql: Sql, scope: Scope, table: RecordTable): Promise<Source> {
  const own = belongs(sql, scope, table);
  if (scope.reach.kind === 'company') return { rows: sql`${sql(table.name)} r`, where: own };
  const [some] = await unprepared(sql<{ count: number }[]>`
    select count(*)::int as count
    from (select from (${ofEach(sql, scope, table, sql`r.id`, sql`limit ${fewRecords + 1}`)}) r limit ${fewRecords + 1}) counted`);
  return (some?.count ?? 0) > fewRecords
    ? { rows: sql`${sql(table.name)} r`, where: sql`${own} and ${inReach(sql, scope, table.assigned)}` }
    : firstInReach(sql, scope, table, sql``);
}

/**
 * The records in reach that are asked for, first of each person and then by the statement itself: in an order in which indexes have those of
 * each, a page costs the same however many records there are.
 * @param asked conditions, each with a leading `and`, and `order by` with `limit`
 */
export function firstInReach(sql: Sql, scope: Scope, table: RecordTable, asked: Fragment): Source {
  return { rows: sql`(${ofEach(sql, scope, table, sql`r.*`, asked)}) r`, where: sql`true` };
}

/** What is asked of the records of each user in reach, and of those that the calling key has made and nobody has. */
function ofEach(sql: Sql, scope: Scope, table: RecordTable, columns: Fragment, asked: Fragment): Fragment {
  if (scope.reach.kind === 'company') throw new Error('a whole company has no members in reach');
  const own = sql`select ${columns} from ${sql(table.name)} r where ${belongs(sql, scope, table)}`;
  const ofNobody = table.assigned === 'assigned' ? sql`and r.assigned_to is null` : sql``;
  const users = members(sql, scope.companyId, scope.reach);
  return sql`
    ${table.assigned === 'assigned' ? sql`select r.* from (${users}) member cross join lateral (${own} and r.assigned_to = member.id ${asked}) r union all` : sql``}
    select r.* from (${users}) member cross join lateral (${own} ${ofNobody} and r.created_by_user = member.id ${asked}) r
    ${
      scope.actor.kind === 'api_key'
        ? sql`union all (${own} ${ofNobody} and r.created_by_kind = 'api_key' and r.created_by_user is null and r.created_by_id = ${scope.actor.id} ${asked})`
        : sql``
    }`;
}
