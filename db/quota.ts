// The monthly quota of each company: charged in the statement that looks up credentials, given back for calls that cost nothing.
import type { Sql } from './connect.ts';

/** What the look-up of a credential tells about the subscription that pays for its calls; all null without one. */
export interface SubscriptionRow {
  packageCode: string | null;
  subscriptionStatus: string | null;
  trialEndsAt: Date | null;
  /** Where an agreement says something other than the package. */
  agreedPerMinute: number | null;
  agreedPerDay: number | null;
  agreedPerMonth: number | null;
}

/** What the look-up tells about the quota of a company. */
export interface QuotaRow {
  /** Calls before these; null where nothing was to be charged. */
  used: number | null;
  /** How many of these were charged; the others are beyond the limit. */
  charged: number | null;
  /** null: unlimited. */
  limit: number | null;
  monthStart: Date | null;
  monthEnd: Date | null;
}

/** Columns of SubscriptionRow, from a subscription called s. */
export const subscriptionColumns = (sql: Sql) => sql`
  s.package_code as "packageCode", s.status as "subscriptionStatus", s.trial_ends_at as "trialEndsAt",
  s.api_rate_limit_per_minute as "agreedPerMinute", s.api_daily_cap as "agreedPerDay", s.api_call_cap as "agreedPerMonth"`;

/** Unlimited, for arithmetic. */
const plenty = Number.MAX_SAFE_INTEGER;

/** Calls per month of each package; null: unlimited. */
type CallsPerMonth = Readonly<Record<string, number | null>>;

/**
 * Tables to select from: the counter q, its month m (month_start, month_end), the calls l of the plan (null: unlimited), and the
 * calls u that were used in this month.
 */
function counters(sql: Sql, callsPerMonth: CallsPerMonth, now: Date) {
  const codes = Object.keys(callsPerMonth);
  const limits = Object.values(callsPerMonth);
  return sql`
    api_quota q
    join subscriptions s on s.company_id = q.company_id
    left join unnest(${codes}::text[], ${limits}::bigint[]) as plan (code, calls) on plan.code = s.package_code
    cross join lateral (select whole_months(s.period_start, ${now}) as months) as e
    cross join lateral (select add_months(s.period_start, e.months) as month_start, add_months(s.period_start, e.months + 1) as month_end) as m
    cross join lateral (select coalesce(s.api_call_cap, plan.calls) as calls) as l
    cross join lateral (select case when q.month_start = m.month_start then q.calls else 0 end as calls) as u`;
}

/**
 * Two more steps for a statement that has a step `charges` (company_id, calls), each company once: `quota`, a row per company as
 * in QuotaRow with snake case names, and the charge itself.
 */
export function charging(sql: Sql, callsPerMonth: CallsPerMonth, now: Date) {
  return sql`
    quota as (
      select q.company_id, m.month_start, m.month_end, l.calls as month_limit, u.calls as used,
        least(c.calls, greatest(coalesce(l.calls, ${plenty}::bigint) - u.calls, 0)) as charged
      from charges c
      join (${counters(sql, callsPerMonth, now)}) on q.company_id = c.company_id
      -- Two look-ups that charge the same companies never wait for each other.
      order by q.company_id
      for no key update of q
    ),
    charged as (
      update api_quota q set month_start = n.month_start, calls = n.used + n.charged from quota n where q.company_id = n.company_id
    )`;
}

/** Columns of QuotaRow, from a step `quota` called n; null where nothing was to be charged. */
export const quotaColumns = (sql: Sql) => sql`
  n.used, n.charged, n.month_limit as "limit", n.month_start as "monthStart", n.month_end as "monthEnd"`;

/** Calls to give back. */
export interface Refund {
  companyId: string;
  monthStart: Date;
  calls: number;
}

/**
 * Gives calls back to the month that they were charged to; a month that is over needs none.
 * @param refunds each company and month once
 */
export async function refundCalls(sql: Sql, refunds: readonly Refund[]): Promise<void> {
  const sorted = [...refunds].sort((a, b) => (a.companyId < b.companyId ? -1 : 1));
  await sql`
    with refunds as (
      select q.company_id, r.calls
      from unnest(${sorted.map((each) => each.companyId)}::uuid[], ${sorted.map((each) => each.monthStart.toISOString())}::timestamptz[],
        ${sorted.map((each) => each.calls)}::bigint[]) as r (company_id, month_start, calls)
      join api_quota q on q.company_id = r.company_id and q.month_start = r.month_start
      order by q.company_id
      for no key update of q
    )
    update api_quota q set calls = greatest(q.calls - r.calls, 0) from refunds r where q.company_id = r.company_id`;
}

export interface QuotaFigures {
  used: number;
  /** null: unlimited. */
  limit: number | null;
  monthStart: Date;
  monthEnd: Date;
}

/** The calls of a company in its current month; undefined where nothing was ever subscribed to. */
export async function findQuota(
  sql: Sql,
  companyId: string,
  callsPerMonth: CallsPerMonth,
  now: Date,
): Promise<QuotaFigures | undefined> {
  const [row] = await sql<QuotaFigures[]>`
    select u.calls as used, l.calls as "limit", m.month_start as "monthStart", m.month_end as "monthEnd"
    from ${counters(sql, callsPerMonth, now)}
    where q.company_id = ${companyId}`;
  return row;
}
