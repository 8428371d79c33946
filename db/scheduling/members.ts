// Users as scheduling sees them: whether they exist and are active, and when they work.
import type { DateHours, DayOff, WorkingWindow } from '../../domain/scheduling/working-time.ts';
import type { Sql } from '../client/pool.ts';
import { isUserVisible, type Reach } from '../client/visibility.ts';

export interface MemberRow {
  id: string;
  fullName: string;
  isActive: boolean;
  /** null: the user has no separate working hours. */
  timezone: string | null;
  weekly: WorkingWindow[] | null;
  daysOff: DayOff[] | null;
  dates: DateHours[] | null;
  updatedAt: Date | null;
}

/** Returns those of the users that exist and are visible. */
export async function findMembers(
  sql: Sql,
  { companyId, reach }: { companyId: string; reach: Reach },
  ids: readonly string[],
): Promise<MemberRow[]> {
  return await sql<MemberRow[]>`
    select u.id, u.full_name, u.status = 'active' as is_active, h.timezone, h.weekly, h.days_off, h.dates, h.updated_at
    from users u
    left join user_working_hours h on h.company_id = ${companyId} and h.user_id = u.id
    where u.company_id = ${companyId} and u.id = any(${[...ids]}::uuid[]) and ${isUserVisible(sql, reach, 'u')}`;
}

/** Locks the user, so that concurrent changes of the same hours take turns. */
export async function lockMember(sql: Sql, companyId: string, userId: string): Promise<void> {
  await sql`select from users where company_id = ${companyId} and id = ${userId} for no key update`;
}

export interface NewHours {
  /** null, like weekly: the user has the hours of the default policy. */
  timezone: string | null;
  weekly: readonly WorkingWindow[] | null;
  daysOff: readonly DayOff[];
  dates: readonly DateHours[];
}

/** Replaces the hours, single dates and days off of the user. */
export async function saveHours(
  sql: Sql,
  companyId: string,
  userId: string,
  { timezone, weekly, daysOff, dates }: NewHours,
  now: Date,
): Promise<void> {
  await sql`
    insert into user_working_hours (company_id, user_id, timezone, weekly, days_off, dates, created_at, updated_at)
    values (${companyId}, ${userId}, ${timezone}, ${weekly && sql.json(weekly as never)}, ${sql.json(daysOff as never)},
      ${sql.json(dates as never)}, ${now}, ${now})
    on conflict (company_id, user_id) do update
    set timezone = excluded.timezone, weekly = excluded.weekly, days_off = excluded.days_off,
      dates = excluded.dates, updated_at = excluded.updated_at`;
}
