// The monthly quota of each company: calls are charged one by one, or leased to a process.
import type { ChargedCalls } from '../../domain/billing/quota.ts';
import type { Sql } from '../client/pool.ts';
import { removeByCompany } from '../client/sweeping.ts';

/** Unlimited, for arithmetic. */
const unlimited = Number.MAX_SAFE_INTEGER;

/** Calls per month of each package (null: unlimited), and the extra calls of add-ons. */
export interface CallCatalogue {
  callsPerMonth: Readonly<Record<string, number | null>>;
  extraCalls: Readonly<Record<string, number>>;
}

/**
 * Returns the tables for a query about a company: the counter q, the end of the subscription e
 * (null while it is active), the month m (month_start, month_end), which is the current one or the
 * last one that was paid for, the calls l of the plan (null: unlimited), and the used calls u.
 */
function counters(sql: Sql, companyId: string, { callsPerMonth, extraCalls }: CallCatalogue, now: Date) {
  const codes = Object.keys(callsPerMonth);
  const limits = Object.values(callsPerMonth);
  const [extras, amounts] = [Object.keys(extraCalls), Object.values(extraCalls)];
  return sql`
    api_quota q
    join subscriptions s on q.company_id = ${companyId} and s.company_id = ${companyId}
    left join unnest(${codes}::text[], ${limits}::bigint[]) as plan (code, calls) on plan.code = s.package_code
    cross join lateral (
      select case
        when s.status in ('active', 'past_due') or s.status = 'trialing' and coalesce(s.trial_ends_at > ${now}, true) then null
        else least(case when s.status = 'trialing' then s.trial_ends_at else s.period_end end, ${now})
      end as ended_at
    ) as e
    cross join lateral (
      select whole_months(s.period_start,
        case when e.ended_at is null then ${now} else greatest(e.ended_at - interval '1 millisecond', s.period_start) end) as months
    ) as w
    cross join lateral (select add_months(s.period_start, w.months) as month_start, add_months(s.period_start, w.months + 1) as month_end) as m
    cross join lateral (
      select coalesce(s.api_call_cap, plan.calls) + coalesce((
        select sum(extra.calls) from unnest(${extras}::text[], ${amounts}::bigint[]) as extra (key, calls) where extra.key = any(s.add_ons)
      ), 0)::bigint as calls
    ) as l
    cross join lateral (select case when q.month_start = m.month_start then q.calls else 0 end as calls) as u`;
}

/**
 * If fewer calls are left in a month, they are charged one by one, so that exactly the limit
 * passes.
 */
const reserve = 2000;
/** A lease is at most 1/16 of the calls that are left in the month. */
const leaseDivisor = 16;

/**
 * Charges calls to the month of a company. If enough are left, also a lease for later calls; then
 * saveLease must run in the same transaction.
 * @param holder the process
 * @param calls the number of waiting calls
 * @param ahead the maximum size of the lease
 * @returns undefined if the company has never had a subscription
 */
export async function chargeCalls(
  sql: Sql,
  companyId: string,
  holder: string,
  calls: number,
  ahead: number,
  catalogue: CallCatalogue,
  now: Date,
): Promise<ChargedCalls | undefined> {
  const [row] = await sql<ChargedCalls[]>`
    with quota as (
      select m.month_start, m.month_end, l.calls as month_limit, u.calls as used, e.ended_at is null as open,
        greatest(coalesce(l.calls, ${unlimited}::bigint) - u.calls, 0) as room
      from ${counters(sql, companyId, catalogue, now)}
      for no key update of q
    ),
    share as (
      select quota.*, case when open then least(${calls}::bigint, room) else 0 end as charged,
        case when open and room >= ${calls}::bigint + ${reserve} then least(${ahead}::bigint, (room - ${calls}::bigint) / ${leaseDivisor}) else 0 end as ahead
      from quota
    ),
    written as (
      update api_quota q set month_start = s.month_start, calls = s.used + s.charged + s.ahead from share s where q.company_id = ${companyId}
    )
    select s.charged, s.ahead, s.month_limit as "limit", s.month_start, s.month_end,
      exists (
        select from api_quota_blocks b
        where b.company_id = ${companyId} and b.holder <> ${holder} and b.month_start = s.month_start and b.calls > 0
      ) as held_by_others
    from share s`;
  return row;
}

/** Calls that a process has charged in advance. */
export interface QuotaLease {
  companyId: string;
  holder: string;
  monthStart: Date;
  /** Not used yet. */
  calls: number;
}

/**
 * Stores the calls that a process has charged in advance. If it already has a lease, it never
 * learned the outcome of that charge. Those calls are unused, so they are added.
 * @returns the calls of the lease
 */
export async function saveLease(
  sql: Sql,
  { companyId, holder, monthStart, calls }: QuotaLease,
  now: Date,
): Promise<number> {
  const [row] = await sql<{ calls: number }[]>`
    insert into api_quota_blocks as b (company_id, holder, month_start, calls, renewed_at)
    values (${companyId}, ${holder}, ${monthStart}, ${calls}, ${now})
    on conflict (company_id, holder) do update
    set month_start = excluded.month_start, renewed_at = excluded.renewed_at,
      calls = excluded.calls + case when b.month_start = excluded.month_start then b.calls else 0 end
    returning b.calls`;
  return row?.calls ?? 0;
}

/**
 * Stores how much of a lease is left, which also shows that its process is alive.
 * @returns the calls charged to the month so far, leases included; undefined if the lease no longer
 * exists
 */
async function renewLease(
  sql: Sql,
  companyId: string,
  holder: string,
  left: number,
  now: Date,
): Promise<number | undefined> {
  const [row] = await sql<{ charged: number }[]>`
    update api_quota_blocks b set calls = ${left}, renewed_at = ${now}
    where b.company_id = ${companyId} and b.holder = ${holder}
    returning (select q.calls from api_quota q where q.company_id = ${companyId}) as charged`;
  return row?.charged;
}

/**
 * Locks the counter of a company. Every charge locks it before any lease, so transactions that lock
 * both cannot deadlock.
 */
const lockedCounter = (sql: Sql, companyId: string) =>
  sql`select q.company_id from api_quota q where q.company_id = ${companyId} for no key update`;

/**
 * Ends a lease and gives back the unused calls, unless the sweep has done so.
 * @param left null: the last stored number
 */
export async function returnLease(sql: Sql, companyId: string, holder: string, left: number | null): Promise<void> {
  await sql`
    with counter as (${lockedCounter(sql, companyId)}),
    ended as (
      delete from api_quota_blocks b using counter
      where b.company_id = ${companyId} and b.holder = ${holder}
      returning b.month_start, coalesce(${left}::bigint, b.calls) as calls
    )
    update api_quota q set calls = greatest(q.calls - ended.calls, 0)
    from ended
    where q.company_id = ${companyId} and q.month_start = ended.month_start`;
}

/**
 * Milliseconds after which a lease without renewal belonged to a process that died. No process uses
 * a lease for that long without renewing it.
 */
const leaseKeptMs = 30_000;

/**
 * Gives back the leases of dead processes, of all companies.
 * @returns how many there were, at most the limit
 */
export async function sweepLeases(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - leaseKeptMs);
  const due = await sql<{ companyId: string; holder: string }[]>`
    select company_id, holder from api_quota_blocks where renewed_at < ${before} order by renewed_at limit ${limit}`;
  return removeByCompany(due, (companyId) => sweepCompanyLeases(sql, companyId, now));
}

/** Does the same for one company. */
export async function sweepCompanyLeases(sql: Sql, companyId: string, now: Date): Promise<number> {
  const [row] = await sql<{ ended: number }[]>`
    with counter as (${lockedCounter(sql, companyId)}),
    ended as (
      delete from api_quota_blocks b using counter
      where b.company_id = ${companyId} and b.renewed_at < ${new Date(now.getTime() - leaseKeptMs)}
      returning b.month_start, b.calls
    ),
    rest as (
      select month_start, sum(calls)::bigint as calls from ended group by month_start
    ),
    given as (
      update api_quota q set calls = greatest(q.calls - rest.calls, 0)
      from rest
      where q.company_id = ${companyId} and q.month_start = rest.month_start
    )
    select count(*)::int as ended from ended`;
  return row?.ended ?? 0;
}

/** Calls to give back. */
interface Refund {
  companyId: string;
  monthStart: Date;
  calls: number;
}

/**
 * Gives calls back to the month to which they were charged. If that month is over, nothing changes.
 */
async function refundCalls(sql: Sql, { companyId, monthStart, calls }: Refund): Promise<void> {
  await sql`
    update api_quota set calls = greatest(calls - ${calls}::bigint, 0)
    where company_id = ${companyId} and month_start = ${monthStart}`;
}

export interface QuotaFigures {
  used: number;
  /** null: unlimited. */
  limit: number | null;
  monthStart: Date;
  monthEnd: Date;
}

/**
 * Returns the calls of a company in its current month, or in the last month of a subscription that
 * ended; undefined if it has never had a subscription.
 */
export async function findQuota(
  sql: Sql,
  companyId: string,
  catalogue: CallCatalogue,
  now: Date,
): Promise<QuotaFigures | undefined> {
  const [row] = await sql<QuotaFigures[]>`
    select u.calls - coalesce((
        select sum(b.calls) from api_quota_blocks b where b.company_id = ${companyId} and b.month_start = m.month_start
      ), 0)::bigint as used, l.calls as "limit", m.month_start, m.month_end
    from ${counters(sql, companyId, catalogue, now)}`;
  return row;
}

/** The statements that the quota ledger of a process uses. */
export const quotaStatements = {
  chargeCalls,
  saveLease,
  renewLease,
  returnLease,
  sweepCompanyLeases,
  refundCalls,
  findQuota,
};
