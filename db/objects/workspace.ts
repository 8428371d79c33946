// Loads a tenant's whole configuration in one statement.
import type { Fragment } from 'postgres';
import type { WorkspaceRows } from '../../domain/objects/configuration.ts';
import type { Sql } from '../client/pool.ts';

/** @returns undefined if the company does not exist */
export async function loadWorkspaceRows(sql: Sql, companyId: string): Promise<WorkspaceRows> {
  const [row] = await sql<{ workspace: WorkspaceRows }[]>`
    select json_build_object(
      'currency', c.currency,
      'timezone', c.timezone,
      'country', c.country,
      'pipelines', coalesce((
        select json_agg(json_build_object('id', id, 'name', name, 'isDefault', is_default, 'isActive', true) order by order_position, id)
        from pipelines where company_id = c.id), '[]'),
      'statuses', coalesce((
        select json_agg(json_build_object('id', s.id, 'object', s.object, 'pipelineId', s.pipeline_id, 'name', s.name, 'outcome', s.outcome,
          'isActive', s.is_active, 'position', s.order_position, 'preConditionFields', s.pre_condition_fields, 'preConditionRules', s.pre_condition_rules)
          order by s.object, p.order_position, s.order_position, s.id)
        from statuses s left join pipelines p on p.company_id = s.company_id and p.id = s.pipeline_id
        where s.company_id = c.id), '[]'),
      'sources', coalesce((
        select json_agg(json_build_object('id', id, 'name', name, 'isActive', is_enabled) order by name, id)
        from sources where company_id = c.id), '[]'),
      'tags', coalesce((
        select json_agg(json_build_object('id', id, 'object', object, 'name', name,
          'conditions', case when object = 'leads' then fields else conditions end, 'logic', condition_logic) order by priority, name, id)
        from tags where company_id = c.id), '[]'),
      'activityTypes', coalesce((
        select json_agg(json_build_object('id', id, 'name', name, 'icon', icon, 'color', color, 'isActive', is_active, 'isSystem', is_system, 'position', order_position)
          order by order_position, id)
        from activity_types where company_id = c.id), '[]'),
      'taskTypes', coalesce((
        select json_agg(json_build_object('id', id, 'name', name, 'isActive', is_active, 'position', order_position) order by order_position, id)
        from task_types where company_id = c.id), '[]'),
      'slaPolicies', coalesce((
        select json_agg(${buildPolicyObject(sql)} order by p.created_at, p.id)
        from sla_policies p where p.company_id = c.id), '[]'),
      'linkTypes', coalesce((
        select json_agg(json_build_object('id', id, 'name', name, 'inverseName', inverse_name, 'fromObject', from_object, 'toObject', to_object,
          'cardinality', cardinality, 'isEnabled', is_enabled) order by created_at, id)
        from link_types where company_id = c.id), '[]'),
      'duplicateChecks', coalesce((
        select json_agg(json_build_object('object', object, 'enabled', enabled, 'fields', fields) order by object)
        from duplicate_checks where company_id = c.id), '[]'),
      'customObjects', coalesce((
        select json_agg(json_build_object('slug', slug, 'label', label, 'plural', plural, 'enabled', enabled) order by created_at, slug)
        from custom_objects where company_id = c.id), '[]'),
      'customFields', coalesce((
        select json_agg(json_build_object('object', object, 'name', name, 'label', label, 'type', type, 'required', required, 'options', options, 'enabled', enabled,
          'unique', is_unique)
          order by object, seq)
        from custom_fields where company_id = c.id), '[]'),
      'fieldOverrides', coalesce((
        select json_agg(json_build_object('object', object, 'name', name, 'label', label, 'required', required, 'enabled', enabled) order by object, name)
        from field_overrides where company_id = c.id), '[]')
    ) as workspace
    from companies c
    where c.id = ${companyId}`;
  if (!row) throw new Error('there is no such company');
  return row.workspace;
}

/** As loadWorkspaceRows, with a lock on the tenant's configuration until the transaction ends. */
export async function lockWorkspaceRows(sql: Sql, companyId: string): Promise<WorkspaceRows> {
  // Not "for update", which would also block all rows that refer to the company.
  const locked = sql`select from companies where id = ${companyId} for no key update`.execute();
  const [rows] = await Promise.all([loadWorkspaceRows(sql, companyId), locked]);
  return rows;
}

/** Returns a row `p` of sla_policies in the format of the configuration. */
export function buildPolicyObject(sql: Sql): Fragment {
  return sql`json_build_object(
    'id', p.id, 'name', p.name, 'entityType', p.entity_type, 'priority', p.priority, 'isActive', p.is_active,
    'times', json_build_object('first_response', p.first_response_time, 'every_response', p.every_response_time, 'resolution', p.resolution_time),
    'hours', case when p.mode = 'business_hours' then json_build_object('start', p.business_hours_start, 'end', p.business_hours_end,
      'days', p.business_days, 'timezone', p.timezone) end,
    'timezone', p.timezone, 'reminders', p.reminders, 'escalations', p.escalations)`;
}
