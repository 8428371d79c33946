// The SLA policies of a tenant: settings, and the form in which the configuration stores them.
import type { Fragment } from 'postgres';
import type { Sql } from '../client/pool.ts';

export interface SlaPolicyRow {
  id: string;
  name: string;
  entityType: 'lead' | 'customer' | 'deal';
  priority: number | null;
  isActive: boolean;
  firstResponseTime: number | null;
  everyResponseTime: number | null;
  resolutionTime: number | null;
  mode: '24/7' | 'business_hours';
  businessHoursStart: string | null;
  businessHoursEnd: string | null;
  businessDays: number[] | null;
  timezone: string;
  reminders: { type: Kind; minutes_before: number; recipient_user_ids: string[] }[];
  escalations: {
    level: number;
    type: Kind;
    minutes_after: number;
    recipient_user_ids: string[];
    message_template: string;
  }[];
  createdAt: Date;
  updatedAt: Date;
}

type Kind = 'first_response' | 'every_response' | 'resolution';

const columns = (sql: Sql): Fragment => sql`
  id, name, entity_type, priority, is_active, first_response_time, every_response_time, resolution_time, mode, business_hours_start,
  business_hours_end, business_days, timezone, reminders, escalations, created_at, updated_at`;

/** Returns all policies, in the order in which they are matched with a record. */
export async function listPolicies(sql: Sql, companyId: string): Promise<SlaPolicyRow[]> {
  return sql<SlaPolicyRow[]>`
    select ${columns(sql)} from sla_policies where company_id = ${companyId} order by created_at, id`;
}

export async function findPolicy(sql: Sql, companyId: string, id: string): Promise<SlaPolicyRow | undefined> {
  const [policy] = await sql<SlaPolicyRow[]>`
    select ${columns(sql)} from sla_policies where company_id = ${companyId} and id = ${id}`;
  return policy;
}

/** Marks the columns that are stored as JSON. */
function toRow(sql: Sql, policy: SlaPolicyRow) {
  return {
    ...policy,
    reminders: sql.json(policy.reminders as never),
    escalations: sql.json(policy.escalations as never),
  };
}

export async function insertPolicy(sql: Sql, companyId: string, policy: SlaPolicyRow): Promise<void> {
  await sql`insert into sla_policies ${sql({ companyId, ...toRow(sql, policy) })}`;
}

/** @param revisedAt set if running clocks must follow the change */
export async function updatePolicy(
  sql: Sql,
  companyId: string,
  policy: SlaPolicyRow,
  revisedAt: Date | undefined,
): Promise<void> {
  const { id, createdAt: _createdAt, ...changed } = toRow(sql, policy);
  const row = { ...changed, ...(revisedAt ? { revisedAt } : {}) };
  await sql`update sla_policies set ${sql(row)} where company_id = ${companyId} and id = ${id}`;
}

/**
 * Locks a policy, so that no clock starts with it until the transaction ends, and counts the
 * running ones.
 */
export async function countOpenClocks(sql: Sql, companyId: string, id: string): Promise<number> {
  await sql`select from sla_policies where company_id = ${companyId} and id = ${id} for update`;
  // A separate statement: it sees the clocks that were started before the policy was locked.
  const [row] = await sql<{ open: number }[]>`
    select count(*) as open from sla_clocks where company_id = ${companyId} and policy_id = ${id} and ended_at is null`;
  return row?.open ?? 0;
}

export async function deletePolicy(sql: Sql, companyId: string, id: string): Promise<void> {
  await sql`delete from sla_policies where company_id = ${companyId} and id = ${id}`;
}

/** Returns those of the ids that belong to active users of the company. */
export async function findActiveUserIds(sql: Sql, companyId: string, ids: readonly string[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select id from users where company_id = ${companyId} and status = 'active' and id = any(${[...ids]}::uuid[])`;
  return new Set(rows.map((row) => row.id));
}
