// The columns of the paying subscription that the lookup of a credential reads.
import type { Sql } from '../client/pool.ts';

/** All null without a subscription. */
export interface SubscriptionRow {
  packageCode: string | null;
  subscriptionStatus: string | null;
  trialEndsAt: Date | null;
  /** Set if an agreement overrides the package. */
  agreedPerMinute: number | null;
  agreedPerDay: number | null;
  agreedPerMonth: number | null;
  /** Modules bought in addition to the package. */
  addOns: string[];
}

/** Returns columns of SubscriptionRow, from a subscription called s. */
export const selectSubscriptionColumns = (sql: Sql) => sql`
  s.package_code, s.status as subscription_status, s.trial_ends_at,
  s.api_rate_limit_per_minute as agreed_per_minute, s.api_daily_cap as agreed_per_day, s.api_call_cap as agreed_per_month, coalesce(s.add_ons, '{}') as add_ons`;
