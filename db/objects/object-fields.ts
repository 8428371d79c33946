// Custom fields, and a tenant's changes to built-in ones.
import type { FieldChange, FieldDefinition } from '../../domain/objects/field-definitions.ts';
import type { Sql } from '../client/pool.ts';

/**
 * Adds fields to an object, in their order.
 * @param object the API's name: leads, or object:visits
 */
export async function insertCustomFields(
  sql: Sql,
  companyId: string,
  object: string,
  fields: readonly FieldDefinition[],
  now: Date,
): Promise<void> {
  if (fields.length === 0) return;
  const rows = fields.map((field) => ({
    companyId,
    object,
    name: field.name,
    label: field.label,
    type: field.type,
    required: field.required,
    options: field.options === null ? null : sql.json(field.options as never),
    isUnique: field.unique,
    createdAt: now,
    updatedAt: now,
  }));
  await sql`insert into custom_fields ${sql(rows)}`;
}

/** Fields that the change omits stay. */
export async function updateCustomField(
  sql: Sql,
  companyId: string,
  object: string,
  name: string,
  change: FieldChange,
  now: Date,
): Promise<void> {
  const options = change.options === undefined ? null : sql.json(change.options as never);
  await sql`
    update custom_fields
    set label = coalesce(${change.label ?? null}::text, label),
      required = coalesce(${change.required ?? null}::boolean, required),
      enabled = coalesce(${change.enabled ?? null}::boolean, enabled),
      options = coalesce(${options}::jsonb, options),
      is_unique = coalesce(${change.unique ?? null}::boolean, is_unique),
      updated_at = ${now}
    where company_id = ${companyId} and object = ${object} and name = ${name}`;
}

/** Changes a built-in field for one tenant. Properties that the override omits stay. */
export async function overrideField(
  sql: Sql,
  companyId: string,
  object: string,
  name: string,
  override: Omit<FieldChange, 'options' | 'unique'>,
  now: Date,
): Promise<void> {
  const { label = null, required = null, enabled = null } = override;
  await sql`
    insert into field_overrides as stored (company_id, object, name, label, required, enabled, updated_at)
    values (${companyId}, ${object}, ${name}, ${label}, ${required}, ${enabled}, ${now})
    on conflict (company_id, object, name) do update
    set label = coalesce(excluded.label, stored.label),
      required = coalesce(excluded.required, stored.required),
      enabled = coalesce(excluded.enabled, stored.enabled),
      updated_at = excluded.updated_at`;
}
