// Which rows of a table of records a statement is about: the own ones, those in reach, named ones.
import type { Fragment } from 'postgres';
import { setPlanning } from '../client/pipeline.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { inReach, members, type Scope } from '../client/visibility.ts';
import type { RecordTable } from './columns.ts';

/** The condition that a row `r` is the tenant's, in the caller's mode, and of this object. */
export function belongs(sql: Sql, scope: TenantScope, table: ReachedTable): Fragment {
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

/** A table of which each sees what they have or made. */
type ReachedTable = Pick<RecordTable, 'name' | 'object' | 'assigned'>;

/** Where a statement that looks through records finds them, as rows `r`. */
export interface Source {
  rows: Fragment;
  where: Fragment;
  /** True where it asks for the records of each person, so that one plan is good for everybody. */
  isOfEach: boolean;
}

/** The time by which indexes have the records of each person in order. */
export function ageOf({ name }: ReachedTable): string {
  return name === 'activities' ? 'performed_at' : 'created_at';
}

/** So many records in reach are found person by person. Of more, some come by soon enough in whatever order all are read. */
const fewRecords = 5000;

/** All records in reach. Where these are few, nobody else's are read. */
export async function recordsInReach(sql: Sql, scope: Scope, table: ReachedTable): Promise<Source> {
  if (scope.reach.kind === 'company') return everybodys(sql, scope, table);
  const known = ofEach(sql, scope, table, sql`r.id`, sql`limit ${fewRecords + 1}`);
  return (await areFew(sql, known)) ? firstOfEach(sql, scope, table, sql``) : everybodys(sql, scope, table);
}

/**
 * The records in reach that are asked for, first of each person and then by the statement itself: in an order in which indexes have those of
 * each, a page costs the same however many there are.
 * @param asked conditions, each with a leading `and`, and `order by` with `limit`
 */
export async function firstInReach(sql: Sql, scope: Scope, table: ReachedTable, asked: Fragment): Promise<Source> {
  if (scope.reach.kind === 'company') return everybodys(sql, scope, table);
  const known = ofKey(sql, scope, table, sql`r.id`);
  const isFound = known === undefined || (await areFew(sql, known));
  return isFound ? firstOfEach(sql, scope, table, asked) : everybodys(sql, scope, table);
}

/** Every row of the tenant is looked at. */
function everybodys(sql: Sql, scope: Scope, table: ReachedTable): Source {
  const own = belongs(sql, scope, table);
  const where = scope.reach.kind === 'company' ? own : sql`${own} and ${inReach(sql, scope, table.assigned)}`;
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

/** What is asked of the records of each user in reach, and of those that the calling key has made. */
function ofEach(sql: Sql, scope: Scope, table: ReachedTable, columns: Fragment, asked: Fragment): Fragment {
  const { companyId, reach } = scope;
  if (reach.kind === 'company') throw new Error('a whole company has no members in reach');
  const ofMembers = (whose: Fragment): Fragment => sql`
    select r.* from (${members(sql, companyId, reach)}) member
    cross join lateral (select ${columns} from ${sql(table.name)} r where ${belongs(sql, scope, table)} ${whose} ${asked}) r`;
  const own = ofKey(sql, scope, table, sql`r.*`);
  return sql`
    ${table.assigned === 'assigned' ? sql`${ofMembers(sql`and r.assigned_to = member.id`)} union all` : sql``}
    ${ofMembers(sql`${ofNobody(sql, table)} and r.created_by_user = member.id`)}
    ${own ? sql`union all (select ${columns} from (${own}) r where true ${asked})` : sql``}`;
}

/** What the calling key has made and nobody has, in no order, since its index keeps none; undefined where no key calls. */
function ofKey(sql: Sql, scope: Scope, table: ReachedTable, columns: Fragment): Fragment | undefined {
  if (scope.actor.kind !== 'api_key') return undefined;
  return sql`
    select ${columns} from ${sql(table.name)} r
    where ${belongs(sql, scope, table)} ${ofNobody(sql, table)}
      and r.created_by_kind = 'api_key' and r.created_by_user is null and r.created_by_id = ${scope.actor.id}
    limit ${fewRecords + 1}`;
}

const ofNobody = (sql: Sql, { assigned }: ReachedTable): Fragment =>
  assigned === 'assigned' ? sql`and r.assigned_to is null` : sql``;
