// Ranges of feeds whose deliveries must still be created.
// The dispatcher adds them, the matcher works them off.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

/** Positions of a feed, both inclusive. */
export interface Stretch {
  first: number;
  last: number;
}

/** The maximum of ranges that are taken together. */
const maxRanges = 100;

/**
 * Adds the range of consecutive events, if the tenant has a subscription.
 * @returns false if there is none
 */
export async function noteStretch(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  events: readonly { position: number }[],
): Promise<boolean> {
  const [first, last] = [events[0], events.at(-1)];
  if (!first || !last) return false;
  const noted = await sql`
    insert into webhook_backlog (company_id, test_mode, first_position, last_position)
    select ${companyId}, ${testMode}, ${first.position}, ${last.position}
    where exists (
      select from webhook_subscriptions where company_id = ${companyId} and test_mode = ${testMode} and deleted_at is null
    )`;
  return noted.count === 1;
}

/** Returns when the oldest range was added; null: there is none. */
export async function findOldestNoted(sql: Sql): Promise<Date | null> {
  const [row] = await sql<{ oldest: Date | null }[]>`select min(noted_at) as oldest from webhook_backlog`;
  return row?.oldest ?? null;
}

/**
 * Locks the first ranges of a company and mode until the transaction ends. One process at a time
 * works on a tenant, because two would wait for each other's subscriptions.
 * @param limit the maximum of positions; consecutive ranges are taken together
 * @returns undefined if there is nothing, or if another process has it
 */
export async function takeStretch(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  limit: number,
): Promise<Stretch | undefined> {
  const locked = sql<Stretch[]>`
    select first_position as first, last_position as last
    from webhook_backlog
    where company_id = ${companyId} and test_mode = ${testMode} and first_position = (
      select first_position from webhook_backlog
      where company_id = ${companyId} and test_mode = ${testMode}
      order by first_position
      limit 1
    )
    for update skip locked`.execute();
  const noted = sql<Stretch[]>`
    select first_position as first, last_position as last
    from webhook_backlog
    where company_id = ${companyId} and test_mode = ${testMode}
    order by first_position
    limit ${maxRanges}`.execute();
  const [[oldest], following] = await Promise.all([locked, noted]);
  if (!oldest) return undefined;
  const { first } = oldest;
  const most = first + limit - 1;
  let { last } = oldest;
  for (const next of following) if (last < most && next.first === last + 1) last = next.last;
  return { first, last: Math.min(last, most) };
}

/** Removes finished ranges: everything up to a position. */
export async function settleStretch(sql: Sql, { companyId, testMode }: TenantScope, until: number): Promise<void> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode}`;
  await Promise.all([
    sql`delete from webhook_backlog where ${own} and first_position <= ${until} and last_position <= ${until}`.execute(),
    sql`update webhook_backlog set first_position = ${until + 1} where ${own} and first_position <= ${until}`.execute(),
  ]);
}

/**
 * Drops all ranges, in the order in which the matcher takes them. In another order, the two could
 * deadlock.
 */
export async function dropBacklog(sql: Sql, { companyId, testMode }: TenantScope): Promise<void> {
  const own = sql`company_id = ${companyId} and test_mode = ${testMode}`;
  await sql`
    with waiting as materialized (
      select first_position from webhook_backlog where ${own} order by first_position for update
    )
    delete from webhook_backlog where ${own} and first_position <= (select max(first_position) from waiting)`;
}
