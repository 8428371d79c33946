// Activity types of a tenant. The caller has locked the configuration.
import type { Sql } from '../client/pool.ts';

export interface ActivityTypeRow {
  id: string;
  name: string;
  icon: string | null;
  color: string;
  isActive: boolean;
}

/** Adds a type at the end. */
export async function insertActivityType(sql: Sql, companyId: string, type: ActivityTypeRow): Promise<void> {
  await sql`
    insert into activity_types (company_id, id, name, icon, color, is_active, order_position)
    values (${companyId}, ${type.id}, ${type.name}, ${type.icon}, ${type.color}, ${type.isActive},
      (select count(*) + 1 from activity_types where company_id = ${companyId}))`;
}

export async function updateActivityType(sql: Sql, companyId: string, type: ActivityTypeRow): Promise<void> {
  await sql`
    update activity_types
    set name = ${type.name}, icon = ${type.icon}, color = ${type.color}, is_active = ${type.isActive}
    where company_id = ${companyId} and id = ${type.id}`;
}

/** Numbers the types from 1, in the given order. */
export async function orderActivityTypes(sql: Sql, companyId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update activity_types type
    set order_position = listed.position
    from unnest(${[...ids]}::uuid[]) with ordinality listed (id, position)
    where type.company_id = ${companyId} and type.id = listed.id and type.order_position <> listed.position`;
}
