// Facts about records besides their own fields, for pre-conditions, counted in one statement.
import type { Fragment } from 'postgres';
import type { ActivityCount, Facts, NeededFacts } from '../../domain/settings/pre-conditions.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';

/**
 * Returns facts about each of the records, even if the caller cannot see all counted rows. Facts
 * that are not needed are 0.
 */
export async function countFacts(
  sql: Sql,
  scope: Scope,
  object: string,
  ids: readonly string[],
  needed: NeededFacts,
): Promise<Map<string, Facts>> {
  const counts = needed.activities
    .map((asked) => countActivities(sql, scope, asked))
    .reduce((all, one, index) => (index === 0 ? one : sql`${all}, ${one}`), sql``);
  const rows = await sql<(Facts & { id: string })[]>`
    select
      record.id,
      array[${counts}]::int[] as activities,
      ${needed.attachments ? countAttachments(sql, scope, object) : sql`0`} as attachments,
      ${needed.openTasks ? openTasksCounted(sql, scope, object) : sql`0`} as open_tasks
    from unnest(${ids as string[]}::uuid[]) record (id)`;
  return new Map(rows.map(({ id, ...facts }) => [id, facts]));
}

/** Selects by the id alone: it determines the lead or deal, and the index begins with it. */
function countActivities(sql: Sql, { companyId, testMode }: Scope, { typeId, since }: ActivityCount): Fragment {
  return sql`(
    select count(*)
    from activities
    where company_id = ${companyId} and test_mode = ${testMode} and entity_id = record.id
      ${typeId === null ? sql`` : sql`and activity_type_id = ${typeId}`}
      ${since === null ? sql`` : sql`and performed_at >= ${since}`}
  )`;
}

function openTasksCounted(sql: Sql, { companyId, testMode }: Scope, object: string): Fragment {
  return sql`(
    select count(*)
    from tasks
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = record.id
      and status not in ('completed', 'cancelled')
  )`;
}

function countAttachments(sql: Sql, { companyId, testMode }: Scope, object: string): Fragment {
  return sql`(
    select count(*)
    from attachments
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = record.id
  )`;
}
