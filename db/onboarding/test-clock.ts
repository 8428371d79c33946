// The clock of a workspace's test mode, and the work that is due by it.
import type { Fragment } from 'postgres';
import type { Sql } from '../client/pool.ts';
import { completionDelay } from '../scheduling/bookings.ts';

/**
 * Advances the clock by some seconds, or sets how far it is ahead.
 * @returns the seconds by which it is ahead now; undefined if it would go backwards, which changes
 * nothing
 */
export async function advanceClock(
  sql: Sql,
  companyId: string,
  change: { by: number } | { to: number },
): Promise<number | undefined> {
  const [amount, after] =
    'by' in change
      ? [change.by, sql`test_clocks.ahead_seconds + excluded.ahead_seconds`]
      : [change.to, sql`excluded.ahead_seconds`];
  const [row] = await sql<{ aheadSeconds: number }[]>`
    insert into test_clocks (company_id, ahead_seconds) values (${companyId}, ${amount})
    on conflict (company_id) do update set ahead_seconds = ${after} where test_clocks.ahead_seconds <= ${after}
    returning ahead_seconds`;
  return row?.aheadSeconds;
}

/**
 * Returns the clock to the real time. Webhooks of test mode continue from there: otherwise, they
 * would wait for times of the clock, and ignore events before they were created by it. So do
 * campaigns and changes of the subscription that were begun, and decisions about campaigns. Keys and
 * secrets that were rotated stay valid for as long as they had left by the clock.
 * @returns the seconds by which it was ahead
 */
export async function removeClock(sql: Sql, companyId: string, now: Date): Promise<number> {
  const [row] = await sql<{ aheadSeconds: number }[]>`
    delete from test_clocks where company_id = ${companyId} returning ahead_seconds`;
  if (!row) return 0;
  const ahead = sql`${row.aheadSeconds}::int * interval '1 second'`;
  await sql`
    update webhook_subscriptions
    set created_at = least(created_at, ${now}), due_at = case when disabled_at is null then ${now}::timestamptz end, recent_attempts = '{}',
      failing_since = least(failing_since, ${now}), warned_at = least(warned_at, ${now}), probing_since = least(probing_since, ${now}),
      previous_secret_expires_at = previous_secret_expires_at - ${ahead}
    where company_id = ${companyId} and test_mode`;
  await sql`
    update api_keys set expires_at = expires_at - ${ahead}
    where company_id = ${companyId} and environment = 'test' and is_replaced and expires_at > ${now}`;
  await sql`
    update campaigns set due_at = ${now}
    where company_id = ${companyId} and test_mode and due_at > ${now} and status <> 'scheduled'`;
  await sql`
    update campaign_runs set decision_due_at = ${now}
    where company_id = ${companyId} and test_mode and decision_due_at > ${now}`;
  await sql`
    update billing_operations set leased_until = ${now}
    where company_id = ${companyId} and test_mode and status = 'pending' and leased_until > ${now}`;
  return row.aheadSeconds;
}

/**
 * Makes some deliveries of webhooks and some messages of test mode due immediately, of those that
 * wait for a later time. Those that are being sent wait until the lease of their sender ends.
 * @returns how many
 */
export async function resumeSomeSending(sql: Sql, companyId: string, now: Date, limit: number): Promise<number> {
  const deliveries = await sql`
    with waiting as materialized (
      select id from webhook_deliveries
      where company_id = ${companyId} and test_mode and status in ('pending', 'retrying') and next_attempt_at > greatest(${now}, leased_until)
      limit ${limit}
      for no key update skip locked
    )
    update webhook_deliveries set next_attempt_at = greatest(${now}, leased_until)
    where company_id = ${companyId} and test_mode and id = any(array(select id from waiting))`;
  const drafts = await sql`
    with waiting as materialized (
      select id from message_drafts
      where company_id = ${companyId} and test_mode and due_at > greatest(${now}, leased_until)
      limit ${limit}
      for no key update skip locked
    )
    update message_drafts set due_at = greatest(${now}, leased_until)
    where company_id = ${companyId} and test_mode and id = any(array(select id from waiting))`;
  return deliveries.count + drafts.count;
}

/** The jobs that a test clock concerns, by the names that the job of test clocks uses. */
export type ClockedWork =
  | 'change-sets'
  | 'billing'
  | 'sla'
  | 'bookings'
  | 'expiring-keys'
  | 'messages'
  | 'run-decisions'
  | 'campaigns'
  | 'trash'
  | 'webhooks';

/**
 * Returns conditions under which each kind of work is due for a company in test mode.
 * @param company the expression for its id
 * @param now the expression for the time of its clock
 */
function selectDueWork(sql: Sql, company: Fragment, now: Fragment): Record<ClockedWork, Fragment> {
  const dueIn = (table: string, condition: Fragment): Fragment =>
    sql`exists (select from ${sql(table)} t where t.company_id = ${company} and t.test_mode and ${condition})`;
  return {
    'change-sets': dueIn('change_sets', sql`t.status = 'pending' and t.expires_at <= ${now}`),
    billing: sql`
      exists (select from test_subscriptions t where t.company_id = ${company} and t.due_at <= ${now})
      or ${dueIn('billing_operations', sql`t.status = 'pending' and t.leased_until <= ${now}`)}`,
    sla: dueIn('sla_clocks', sql`t.next_at <= ${now}`),
    bookings: dueIn(
      'bookings',
      sql`t.status = 'confirmed' and t.end_at <= ${now} - ${completionDelay} * interval '1 millisecond'`,
    ),
    'expiring-keys': sql`exists (
      select from api_keys t
      where t.company_id = ${company} and t.environment = 'test' and t.revoked_at is null and t.expires_at > ${now}
        and t.expires_at <= ${now} + interval '7 days' and t.expiry_notified_for is distinct from t.expires_at)`,
    // The index of due drafts has their channel before their time.
    messages: dueIn('message_drafts', sql`t.channel = any('{email,sms,whatsapp}') and t.due_at <= ${now}`),
    'run-decisions': dueIn('campaign_runs', sql`t.decision_due_at <= ${now}`),
    campaigns: dueIn('campaigns', sql`t.due_at <= ${now}`),
    trash: dueIn('deleted_records', sql`t.purge_at <= ${now} and not t.is_restored`),
    webhooks: dueIn('webhook_subscriptions', sql`t.due_at <= ${now}`),
  };
}

export interface DueClock {
  companyId: string;
  aheadSeconds: number;
  work: ClockedWork[];
}

/**
 * Returns a page of clocks by the ids of their companies, each with its due work, for the platform
 * role. Clocks without due work are included, so that the last one tells where the next page begins.
 * @param works the kinds of work to look for
 * @param after the company of the last clock of the previous page; undefined for the first page
 */
export async function findDueClocks(
  sql: Sql,
  works: readonly ClockedWork[],
  after: string | undefined,
  limit: number,
  now: Date,
): Promise<DueClock[]> {
  const time = sql`(${now}::timestamptz + c.ahead_seconds * interval '1 second')`;
  const conditions = selectDueWork(sql, sql`c.company_id`, time);
  const work = works.map((name) => sql`case when ${conditions[name]} then ${name} end`);
  return sql<DueClock[]>`
    select company_id, ahead_seconds, array_remove(array[${joinFragments(sql, work, sql`, `)}]::text[], null) as work
    from (
      select company_id, ahead_seconds from test_clocks
      ${after === undefined ? sql`` : sql`where company_id > ${after}`}
      order by company_id
      limit ${limit}
    ) c
    order by company_id`;
}

/**
 * Returns true if work of the company's test mode is due at a time of its clock, or if a job has
 * begun with it: events and deliveries that are on their way, and changes that a write left to a job.
 */
export async function hasDueWork(sql: Sql, companyId: string, now: Date): Promise<boolean> {
  const conditions = Object.values(selectDueWork(sql, sql`${companyId}::uuid`, sql`${now}::timestamptz`));
  const [row] = await sql<{ isDue: boolean }[]>`
    select ${joinFragments(sql, conditions, sql` or `)}
      or exists (select from outbox_events where company_id = ${companyId} and test_mode)
      or exists (select from webhook_backlog where company_id = ${companyId} and test_mode)
      or exists (select from webhook_deliveries where company_id = ${companyId} and test_mode and leased_until > now())
      or exists (select from reference_clearings where company_id = ${companyId} and test_mode)
      or exists (select from merges where company_id = ${companyId} and test_mode and status = 'running') as is_due`;
  return row?.isDue ?? false;
}

const joinFragments = (sql: Sql, parts: readonly Fragment[], separator: Fragment): Fragment =>
  parts.reduce((joined, part) => sql`${joined}${separator}${part}`);
