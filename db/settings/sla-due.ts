// Statements of the SLA job: due clocks, and the results.
// The first one runs under the platform role, all others under the tenant's.
import type { Fragment } from 'postgres';
import type { SlaPolicy } from '../../domain/objects/configuration.ts';
import type { DueClock } from '../../domain/settings/sla-tracking.ts';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';
import { buildPolicyObject } from '../objects/workspace.ts';
import type { ClockScope } from './sla-clocks.ts';

/** Clocks that the query for due tenants scans. */
const scanLimit = 2000;

/**
 * Returns the tenants of the clocks that are due first.
 * @param besides companies that are left out
 */
export async function findDueScopes(sql: Sql, besides: readonly string[], due: DueTime): Promise<ClockScope[]> {
  return sql<ClockScope[]>`
    select distinct company_id, test_mode
    from (
      select company_id, test_mode from sla_clocks
      where next_at <= ${due.now} and company_id <> all(${[...besides]}::uuid[]) and ${belongsToRun(sql, 'sla_clocks', due)}
      order by next_at
      limit ${scanLimit}
    ) due`;
}

export interface DueClockRow extends DueClock {
  id: string;
  object: 'leads' | 'customers' | 'deals';
  recordId: string;
  /** null if it was deleted. */
  policy: SlaPolicy | null;
  recordName: string | null;
  /** The name of the user. */
  assignedTo: string | null;
  assignedToId: string | null;
}

/**
 * Takes due clocks of a tenant, the longest overdue first, until the transaction ends. Clocks that
 * others have locked are skipped.
 */
export async function takeDueClocks(sql: Sql, scope: ClockScope, limit: number, now: Date): Promise<DueClockRow[]> {
  const own = (alias: string): Fragment =>
    sql`${sql(alias)}.company_id = ${scope.companyId} and ${sql(alias)}.test_mode = ${scope.testMode}`;
  const person = sql`coalesce(nullif(concat_ws(' ', r.first_name, r.last_name), ''), r.company_name, r.email, r.mobile)`;
  return sql<DueClockRow[]>`
    with due as (
      select c.* from sla_clocks c
      where ${own('c')} and c.next_at <= ${now}
      order by c.next_at
      limit ${limit}
      for no key update skip locked
    )
    select c.id, c.object, c.record_id, c.kind, c.due_at, c.handled_at,
      c.breached_at, c.satisfied_at, c.ended_at,
      case when p.id is not null then ${buildPolicyObject(sql)} end as policy, record.name as record_name, u.full_name as assigned_to, record.assigned_to as assigned_to_id
    from due c
    left join sla_policies p on p.company_id = ${scope.companyId} and p.id = c.policy_id
    left join lateral (
      select ${person} as name, r.assigned_to from leads r where ${own('r')} and r.id = c.record_id and c.object = 'leads'
      union all
      select r.name, r.assigned_to from deals r where ${own('r')} and r.id = c.record_id and c.object = 'deals'
      union all
      select ${person}, r.assigned_to from customers r where ${own('r')} and r.id = c.record_id and c.object = 'customers'
    ) record on true
    left join users u on u.company_id = ${scope.companyId} and u.id = record.assigned_to`;
}

export interface HandledClock {
  id: string;
  isBreached: boolean;
  /** True if its policy was disabled or deleted. */
  isClosed: boolean;
  nextAt: Date | null;
}

/** Stores the results for the taken clocks. */
export async function saveHandledClocks(
  sql: Sql,
  scope: ClockScope,
  clocks: readonly HandledClock[],
  now: Date,
): Promise<void> {
  await sql`
    update sla_clocks c
    -- Never back: clocks of servers differ, and a notification must not be sent twice.
    set handled_at = greatest(c.handled_at, ${now}), next_at = h."nextAt",
      breached_at = case when h."isBreached" then ${now} else c.breached_at end,
      ended_at = case when h."isClosed" then coalesce(c.ended_at, ${now}) else c.ended_at end
    from jsonb_to_recordset(${sql.json(clocks as never)}) as h(id uuid, "isBreached" boolean, "isClosed" boolean, "nextAt" timestamptz)
    where c.company_id = ${scope.companyId} and c.test_mode = ${scope.testMode} and c.id = h.id
      and c.id = any(${clocks.map(({ id }) => id)}::uuid[])`;
}

export interface RevisedPolicy {
  companyId: string;
  id: string;
  revisedAt: Date;
}

/** Returns policies whose running clocks must still follow a change. */
export async function findRevisedPolicies(sql: Sql): Promise<RevisedPolicy[]> {
  return sql<RevisedPolicy[]>`
    select company_id, id, revised_at
    from sla_policies where revised_at is not null order by revised_at limit 100`;
}

/**
 * Makes running clocks of a policy due again, in the order of their ids.
 * @param after the last id of the previous batch
 * @returns the last id of this batch; undefined if there are no more
 */
export async function wakeClocks(
  sql: Sql,
  scope: ClockScope,
  policyId: string,
  after: string | undefined,
  limit: number,
  now: Date,
): Promise<string | undefined> {
  const woken = await sql<{ id: string }[]>`
    with batch as (
      select id from sla_clocks
      where company_id = ${scope.companyId} and test_mode = ${scope.testMode} and policy_id = ${policyId} and ended_at is null
        ${after === undefined ? sql`` : sql`and id > ${after}`}
      order by id
      limit ${limit}
      for no key update
    )
    update sla_clocks c set next_at = least(c.next_at, ${now})
    where c.company_id = ${scope.companyId} and c.test_mode = ${scope.testMode} and c.id = any(array(select id from batch))
    returning c.id`;
  const ids = woken.map((clock) => clock.id).sort();
  return ids.length < limit ? undefined : ids.at(-1);
}

/**
 * Milliseconds after a change in which earlier transactions may still start clocks with the old
 * policy.
 */
const oldPolicyMs = 5000;

/**
 * Marks the change as followed by the running clocks, unless it is too recent, or there was another
 * meanwhile.
 */
export async function clearRevision(sql: Sql, policy: RevisedPolicy, now: Date): Promise<void> {
  await sql`
    update sla_policies set revised_at = null
    where company_id = ${policy.companyId} and id = ${policy.id} and revised_at = ${policy.revisedAt}
      and revised_at < ${new Date(now.getTime() - oldPolicyMs)}`;
}

const day = 86_400_000;
/** Days for which ended clocks are kept. */
const keptDays = 400;

/**
 * Removes expired clocks.
 * @returns how many, at most the limit
 */
export async function sweepClocks(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * day);
  const due = await sql<DueRow[]>`
    select company_id, id
    from sla_clocks where ended_at < ${before} order by ended_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from sla_clocks
      where company_id = ${companyId} and ended_at < ${before} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}
