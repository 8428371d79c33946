// Lead statuses and deal stages, found by name and configured as by an administrator.
import type { Json } from './client.ts';
import { database, type Tenant } from './tenants.ts';

export type WithStatuses = 'leads' | 'deals';

/** Returns the id of a status; of deals, of a stage of the default pipeline. */
export async function statusId(tenant: Tenant, object: WithStatuses, name: string): Promise<string> {
  const [row] = await database()<{ id: string }[]>`
    select s.id
    from statuses s left join pipelines p on p.company_id = s.company_id and p.id = s.pipeline_id
    where s.company_id = ${tenant.companyId} and s.object = ${object} and s.name = ${name} and p.is_default is not false`;
  if (!row) throw new Error(`there is no status ${name} of ${object}`);
  return row.id;
}

/** Returns the id of an activity type. */
export async function activityTypeId(tenant: Tenant, name: string): Promise<string> {
  const [row] = await database()<{ id: string }[]>`
    select id from activity_types where company_id = ${tenant.companyId} and name = ${name}`;
  return row?.id ?? '';
}

/** Replaces the preconditions of a status. */
export async function askFor(
  tenant: Tenant,
  object: WithStatuses,
  name: string,
  asked: { fields?: string[]; rules?: Json[] },
): Promise<void> {
  const sql = database();
  await sql`
    update statuses set pre_condition_fields = ${asked.fields ?? []}, pre_condition_rules = ${sql.json(asked.rules ?? [])}
    where company_id = ${tenant.companyId} and object = ${object} and name = ${name}`;
}

/** Enables or disables a status. */
export async function setActive(tenant: Tenant, object: WithStatuses, name: string, active: boolean): Promise<void> {
  await database()`
    update statuses set is_active = ${active}
    where company_id = ${tenant.companyId} and object = ${object} and name = ${name}`;
}
