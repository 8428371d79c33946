// Selects the rows of a statement: those of the tenant, the visible ones, or named ones.
import type { Fragment } from 'postgres';
import { setPlanning } from '../client/pipeline.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { isVisibleTo, type Scope, selectVisibleUserIds } from '../client/visibility.ts';
import type { RecordTable } from './columns.ts';

/** Returns a condition for rows `r` of the tenant, the mode and this object. */
export function belongsToTenant(sql: Sql, scope: TenantScope, table: ReachedTable): Fragment {
  const own = sql`r.company_id = ${scope.companyId} and r.test_mode = ${scope.testMode}`;
  return table.object === undefined ? own : sql`${own} and r.object = ${table.object}`;
}

/**
 * Returns a condition for rows `r` with these ids, for statements that join them. With the join
 * alone, a plan for companies with few records would read all records of a large one.
 */
export function isNamed(sql: Sql, ids: readonly string[]): Fragment {
  return ids.length === 1 ? sql`r.id = ${ids[0] as string}` : sql`r.id = any(${[...ids]}::uuid[])`;
}

/**
 * Returns the row of the tenant with this id as `r`, for a lateral join with rows that have the id.
 * A range in the order of the primary key leaves no other index: with an equality, PostgreSQL may
 * read all rows of the company for each id if it has no statistics of them, as after an import.
 */
export function selectById(sql: Sql, scope: TenantScope, table: ReachedTable, id: Fragment): Fragment {
  return sql`
    select r.* from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} and r.id >= ${id} and r.id <= ${id}
    order by r.id offset 0`;
}

/** A table whose rows are visible by assignee or creator. */
type ReachedTable = Pick<RecordTable, 'name' | 'object' | 'assigned'>;

/** The rows `r` that a statement searches. */
export interface Source {
  rows: Fragment;
  where: Fragment;
  /** True if it reads the records of each user separately, so that one plan fits all callers. */
  isOfEach: boolean;
}

/** Returns the time by which indexes order the records of each user. */
export function getAgeColumn({ name }: ReachedTable): string {
  return name === 'activities' ? 'performed_at' : 'created_at';
}

/**
 * Up to this many visible records are read user by user. If there are more, a scan of all rows soon
 * finds enough of them in any order.
 */
const fewRecords = 5000;

/** Returns all visible records. If these are few, no others are read. */
export async function findVisibleRecords(sql: Sql, scope: Scope, table: ReachedTable): Promise<Source> {
  if (scope.reach.kind === 'company') return everybodys(sql, scope, table);
  const known = ofEach(sql, scope, table, sql`r.id`, sql`limit ${fewRecords + 1}`);
  return (await areFew(sql, known)) ? firstOfEach(sql, scope, table, sql``) : everybodys(sql, scope, table);
}

/**
 * Returns the requested visible records, first of each user, then limited by the statement itself.
 * If indexes have the records of each user in this order, the cost of a page does not depend on the
 * number of records.
 * @param asked conditions, each with a leading `and`, and `order by` with `limit`
 */
export async function findFirstVisible(sql: Sql, scope: Scope, table: ReachedTable, asked: Fragment): Promise<Source> {
  if (scope.reach.kind === 'company') return everybodys(sql, scope, table);
  const known = ofKey(sql, scope, table, sql`r.id`);
  const isFound = known === undefined || (await areFew(sql, known));
  return isFound ? firstOfEach(sql, scope, table, asked) : everybodys(sql, scope, table);
}

/** Reads every row of the tenant. */
function everybodys(sql: Sql, scope: Scope, table: ReachedTable): Source {
  const own = belongsToTenant(sql, scope, table);
  const where = scope.reach.kind === 'company' ? own : sql`${own} and ${isVisibleTo(sql, scope, table.assigned)}`;
  return { rows: sql`${sql(table.name)} r`, where, isOfEach: false };
}

function firstOfEach(sql: Sql, scope: Scope, table: ReachedTable, asked: Fragment): Source {
  return { rows: sql`(${ofEach(sql, scope, table, sql`r.*`, asked)}) r`, where: sql`true`, isOfEach: true };
}

async function areFew(sql: Sql, rows: Fragment): Promise<boolean> {
  const query = sql<{ count: number }[]>`
    select count(*)::int as count from (select from (${rows}) r limit ${fewRecords + 1}) counted`;
  setPlanning(query, 'once');
  const [counted] = await query;
  return (counted?.count ?? 0) <= fewRecords;
}

/** Returns the requested records of each visible user, and those that the calling key created. */
function ofEach(sql: Sql, scope: Scope, table: ReachedTable, columns: Fragment, asked: Fragment): Fragment {
  const { companyId, reach } = scope;
  if (reach.kind === 'company') throw new Error('a whole company has no members in reach');
  const ofMembers = (whose: Fragment): Fragment => sql`
    select r.* from (${selectVisibleUserIds(sql, companyId, reach)}) member
    cross join lateral (select ${columns} from ${sql(table.name)} r where ${belongsToTenant(sql, scope, table)} ${whose} ${asked}) r`;
  const own = ofKey(sql, scope, table, sql`r.*`);
  return sql`
    ${table.assigned === 'assigned' ? sql`${ofMembers(sql`and r.assigned_to = member.id`)} union all` : sql``}
    ${ofMembers(sql`${ofNobody(sql, table)} and r.created_by_user = member.id`)}
    ${own ? sql`union all (select ${columns} from (${own}) r where true ${asked})` : sql``}`;
}

/**
 * Returns the unassigned records that the calling key created, in no order, because its index has
 * none; undefined if the caller is not a key.
 */
function ofKey(sql: Sql, scope: Scope, table: ReachedTable, columns: Fragment): Fragment | undefined {
  if (scope.actor.kind !== 'api_key') return undefined;
  return sql`
    select ${columns} from ${sql(table.name)} r
    where ${belongsToTenant(sql, scope, table)} ${ofNobody(sql, table)}
      and r.created_by_kind = 'api_key' and r.created_by_user is null and r.created_by_id = ${scope.actor.id}
    limit ${fewRecords + 1}`;
}

const ofNobody = (sql: Sql, { assigned }: ReachedTable): Fragment =>
  assigned === 'assigned' ? sql`and r.assigned_to is null` : sql``;
