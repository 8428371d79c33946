// Scheduling policies: the rules of booking. Callers that change them have locked scheduling.
import type { PolicySettings } from '../../domain/scheduling/policies.ts';
import type { Sql } from '../client/pool.ts';

export interface PolicyRow extends PolicySettings {
  id: string;
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  'id',
  'name',
  'is_default',
  'duration_minutes',
  'slot_interval_minutes',
  'buffer_before_minutes',
  'buffer_after_minutes',
  'min_notice_minutes',
  'horizon_days',
  'reservation_ttl_seconds',
  'reservation_hard_cap_seconds',
  'timezone',
  'working_hours',
  'assignment_strategy',
  'exposure',
  'max_bookings_per_day',
  'meeting_location_kind',
  'meeting_url_template',
  'questions',
  'created_at',
  'updated_at',
] as const;

/** Locks the policies and pools of a company until the transaction ends. */
export async function lockScheduling(sql: Sql, companyId: string): Promise<void> {
  await sql`select from companies where id = ${companyId} for no key update`.execute();
}

/** Returns all policies by name. */
export async function listPolicies(sql: Sql, companyId: string): Promise<PolicyRow[]> {
  return await sql<PolicyRow[]>`
    select ${sql(columns)} from scheduling_policies where company_id = ${companyId} order by lower(name), id`;
}

export async function findPolicy(sql: Sql, companyId: string, id: string): Promise<PolicyRow | undefined> {
  const [row] = await sql<PolicyRow[]>`
    select ${sql(columns)} from scheduling_policies where company_id = ${companyId} and id = ${id}`;
  return row;
}

export async function findDefaultPolicy(sql: Sql, companyId: string): Promise<PolicyRow | undefined> {
  const [row] = await sql<PolicyRow[]>`
    select ${sql(columns)} from scheduling_policies where company_id = ${companyId} and is_default`;
  return row;
}

export async function insertPolicy(sql: Sql, companyId: string, policy: PolicyRow): Promise<void> {
  await sql`insert into scheduling_policies ${sql({ companyId, ...toRow(sql, policy) })}`;
}

export async function updatePolicy(sql: Sql, companyId: string, { id, ...policy }: PolicyRow): Promise<void> {
  await sql`update scheduling_policies set ${sql(toRow(sql, policy))} where company_id = ${companyId} and id = ${id}`;
}

/** Removes the default from the policy that has it. */
export async function clearDefault(sql: Sql, companyId: string): Promise<void> {
  await sql`update scheduling_policies set is_default = false where company_id = ${companyId} and is_default`;
}

export async function deletePolicy(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from scheduling_policies where company_id = ${companyId} and id = ${id}`;
}

/** Returns how many pools have chosen this policy. */
export async function countPoolsWithPolicy(sql: Sql, companyId: string, policyId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from scheduling_pools where company_id = ${companyId} and policy_id = ${policyId}`;
  return row?.count ?? 0;
}

/** Marks the columns that are stored as JSON. */
function toRow<Policy extends Partial<PolicyRow>>(sql: Sql, policy: Policy) {
  const { workingHours, questions } = policy;
  return {
    ...policy,
    workingHours: workingHours ? sql.json(workingHours as never) : null,
    questions: sql.json((questions ?? []) as never),
  };
}
