// What the pre-conditions of a status ask about a record beside its own fields, counted in one statement.
import type { Fragment } from 'postgres';
import type { Sql } from './connect.ts';
import type { Scope } from './reach.ts';

export interface NeededFacts {
  /** Activities of a type, or of any; performed since then, or ever. */
  activities: readonly { typeId: string | null; since: Date | null }[];
  attachments: boolean;
  openTasks: boolean;
}

export interface Facts {
  /** In the order of the needed counts. */
  activities: number[];
  attachments: number;
  openTasks: number;
}

/** Facts about a record, whoever may see what they are counted from; what is not needed is 0, and nothing is asked for nothing. */
export async function countFacts(
  sql: Sql,
  scope: Scope,
  object: string,
  id: string,
  needed: NeededFacts | undefined,
): Promise<Facts> {
  if (!needed) return { activities: [], attachments: 0, openTasks: 0 };
  const counts = needed.activities
    .map((asked) => activitiesCounted(sql, scope, id, asked))
    .reduce((all, one, index) => (index === 0 ? one : sql`${all}, ${one}`), sql``);
  const [facts] = await sql<Facts[]>`
    select
      array[${counts}]::int[] as activities,
      ${needed.attachments ? attachmentsCounted(sql, scope, object, id) : sql`0`} as attachments,
      ${needed.openTasks ? openTasksCounted(sql, scope, object, id) : sql`0`} as "openTasks"`;
  if (!facts) throw new Error('a count was not returned');
  return facts;
}

/** By the id alone, which names the lead or deal, and which the index begins with. */
function activitiesCounted(
  sql: Sql,
  { companyId, testMode }: Scope,
  id: string,
  { typeId, since }: NeededFacts['activities'][number],
): Fragment {
  return sql`(
    select count(*)
    from activities
    where company_id = ${companyId} and test_mode = ${testMode} and entity_id = ${id}
      ${typeId === null ? sql`` : sql`and activity_type_id = ${typeId}`}
      ${since === null ? sql`` : sql`and performed_at >= ${since}`}
  )`;
}

function openTasksCounted(sql: Sql, { companyId, testMode }: Scope, object: string, id: string): Fragment {
  return sql`(
    select count(*)
    from tasks
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = ${id}
      and status not in ('completed', 'cancelled')
  )`;
}

function attachmentsCounted(sql: Sql, { companyId, testMode }: Scope, object: string, id: string): Fragment {
  return sql`(
    select count(*)
    from attachments
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = ${id}
  )`;
}
