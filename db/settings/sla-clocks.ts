// SLA clocks: started, satisfied and ended in the transactions that change records.
import { v7 as uuidv7 } from 'uuid';
import type { ClockKind } from '../../domain/objects/configuration.ts';
import type { AnsweredClock, ClockChange, NewClock, Responses } from '../../domain/settings/sla-tracking.ts';
import type { Sql } from '../client/pool.ts';

/** The tenant of clocks. */
export interface ClockScope {
  companyId: string;
  testMode: boolean;
}

/**
 * Starts clocks, except those of a kind that already runs on the record, or of a policy that was
 * just deleted.
 */
export async function startClocks(sql: Sql, scope: ClockScope, clocks: readonly NewClock[]): Promise<void> {
  if (clocks.length === 0) return;
  const rows = clocks.map((clock) => ({
    id: uuidv7(),
    policy_id: clock.policyId,
    object: clock.object,
    record_id: clock.recordId,
    kind: clock.kind,
    started_at: clock.startedAt,
    due_at: clock.dueAt,
    next_at: clock.nextAt,
  }));
  // Locked, so that a policy with running clocks cannot be deleted.
  await sql`
    insert into sla_clocks (company_id, test_mode, id, policy_id, object, record_id, kind, started_at, due_at, next_at, handled_at)
    select p.company_id, ${scope.testMode}, c.id, p.id, c.object, c.record_id, c.kind, c.started_at, c.due_at, c.next_at, c.started_at
    from jsonb_to_recordset(${sql.json(rows as never)}) as c(id uuid, policy_id uuid, object text, record_id uuid, kind text,
      started_at timestamptz, due_at timestamptz, next_at timestamptz)
    join sla_policies p on p.company_id = ${scope.companyId} and p.id = c.policy_id and p.is_active
    for key share of p
    on conflict do nothing`.execute();
}

// Clocks and records are also passed as arrays, not only joined: with a join alone, a plan for few
// clocks reads all rows of the company.

/**
 * Satisfies the response clocks of records, and of the customers behind them, by contacts. Any
 * contact is a first response; later responses need a contact since the last one. If the contact
 * comes after the deadline, the breach is still reported.
 */
export async function answerClocks(
  sql: Sql,
  scope: ClockScope,
  { contacts, restarted }: Responses,
  now: Date,
): Promise<void> {
  if (contacts.length === 0) return;
  const { companyId, testMode } = scope;
  const answered = await sql<AnsweredClock[]>`
    with contact as (
      select object, "recordId" as record_id, at
      from jsonb_to_recordset(${sql.json(contacts as never)}) as c(object text, "recordId" uuid, at timestamptz)
    ), reached as (
      select object, record_id, at from contact
      union all
      select 'customers', d.customer_id, contact.at
      from contact join deals d on d.company_id = ${companyId} and d.test_mode = ${testMode} and d.id = contact.record_id
      where contact.object = 'deals' and d.customer_id is not null
      union all
      select 'customers', l.converted_customer_id, contact.at
      from contact join leads l on l.company_id = ${companyId} and l.test_mode = ${testMode} and l.id = contact.record_id
      where contact.object = 'leads' and l.converted_customer_id is not null
    ), answer as (
      select c.id, min(reached.at) as first_at, max(reached.at) as last_at
      from reached
      join sla_clocks c on c.company_id = ${companyId} and c.test_mode = ${testMode} and c.object = reached.object
        and c.record_id = reached.record_id and c.record_id = any(array(select record_id from reached)) and c.ended_at is null
      where c.kind = 'first_response' or c.kind = 'every_response' and reached.at >= c.started_at
      group by c.id
    ), locked as (
      -- In one order everywhere: two calls may lock the same customers.
      select c.id from sla_clocks c
      where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = any(array(select id from answer))
      order by c.id
      for no key update
    )
    update sla_clocks c
    set satisfied_at = answer.first_at, ended_at = ${now},
      next_at = case when c.breached_at is null and answer.first_at > c.due_at then c.due_at end
    from answer join locked on locked.id = answer.id
    where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = answer.id and c.id = any(array(select id from locked))
      and c.ended_at is null
    returning c.policy_id, c.object, c.record_id, c.kind, answer.last_at as answered_at`;
  await startClocks(sql, scope, restarted(answered));
}

/**
 * Ends the clocks that changes of records make obsolete, and starts those that the changes require.
 */
export async function changeClocks(
  sql: Sql,
  scope: ClockScope,
  changes: readonly ClockChange[],
  now: Date,
): Promise<void> {
  if (changes.length === 0) return;
  const given = changes.map(({ object, recordId, keptPolicyId, isResolved }) => ({
    object,
    record_id: recordId,
    kept_policy_id: keptPolicyId,
    is_resolved: isResolved,
  }));
  const ended = await sql<{ recordId: string; kind: ClockKind; startedAt: Date }[]>`
    with change as (
      select * from jsonb_to_recordset(${sql.json(given as never)})
        as c(object text, record_id uuid, kept_policy_id uuid, is_resolved boolean)
    ), locked as (
      -- In the order of answerClocks() and wakeClocks(), so that they cannot deadlock.
      select c.id, change.is_resolved
      from change
      join sla_clocks c on c.company_id = ${scope.companyId} and c.test_mode = ${scope.testMode} and c.object = change.object
        and c.record_id = change.record_id and c.record_id = any(array(select record_id from change))
        and c.ended_at is null and c.policy_id is distinct from change.kept_policy_id
      order by c.id
      for no key update of c
    )
    update sla_clocks c
    set ended_at = ${now},
      satisfied_at = case when locked.is_resolved and c.kind = 'resolution' then ${now}::timestamptz end,
      next_at = case when locked.is_resolved and c.breached_at is null and c.due_at < ${now} then c.due_at end
    from locked
    where c.company_id = ${scope.companyId} and c.test_mode = ${scope.testMode} and c.id = locked.id
      and c.id = any(array(select id from locked)) and c.ended_at is null
    returning c.record_id, c.kind, c.started_at`;
  const started = changes.flatMap((change) =>
    change.startedAfter(ended.filter(({ recordId }) => recordId === change.recordId)),
  );
  await startClocks(sql, scope, started);
}

/**
 * Lets the clocks of restored records run again that ended when the record was deleted. Their
 * deadlines stay, even if they have passed.
 */
export async function reopenClocks(
  sql: Sql,
  { companyId, testMode }: ClockScope,
  object: string,
  restored: readonly { id: string; deletedAt: Date }[],
  now: Date,
): Promise<void> {
  const ids = restored.map(({ id }) => id);
  // Locked, so that a policy with running clocks cannot be deleted.
  await sql`
    with policy as materialized (
      select id from sla_policies where company_id = ${companyId} and is_active order by id for key share
    )
    update sla_clocks c
    set ended_at = null, next_at = ${now}
    from unnest(${ids}::uuid[], ${restored.map(({ deletedAt }) => deletedAt.toISOString())}::timestamptz[])
      as restored (id, deleted_at)
    where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.object = ${object} and c.record_id = any(${ids}::uuid[])
      and c.record_id = restored.id and c.ended_at = restored.deleted_at and c.satisfied_at is null
      and c.policy_id in (select id from policy)`;
}

/**
 * Moves clocks from a record to another one of its object.
 * @param which open clocks by their kinds, if the other record has none of the kind; or clocks by
 * their ids, to move them back
 * @returns the ids of the moved clocks
 */
export async function moveClocks(
  sql: Sql,
  { companyId, testMode }: ClockScope,
  { object, from, to }: { object: string; from: string; to: string },
  which: { kinds: readonly ClockKind[] } | { ids: readonly string[] },
): Promise<string[]> {
  if (('ids' in which ? which.ids : which.kinds).length === 0) return [];
  const wanted =
    'ids' in which
      ? sql`c.id = any(${[...which.ids]}::uuid[])`
      : sql`
          c.kind = any(${[...which.kinds]}::text[]) and c.ended_at is null and not exists (
            select from sla_clocks o
            where o.company_id = ${companyId} and o.test_mode = ${testMode} and o.object = ${object} and o.record_id = ${to}
              and o.kind = c.kind and o.ended_at is null
          )`;
  const rows = await sql<{ id: string }[]>`
    with locked as (
      -- In the order of answerClocks() and wakeClocks(), so that they cannot deadlock.
      select c.id from sla_clocks c
      where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.object = ${object} and c.record_id = ${from} and ${wanted}
      order by c.id
      for no key update
    )
    update sla_clocks c
    set record_id = ${to}
    where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = any(array(select id from locked))
    returning c.id`;
  return rows.map(({ id }) => id);
}
