// Custom objects.
import type { Sql } from '../client/pool.ts';

export interface NewCustomObject {
  slug: string;
  label: string;
  plural: string;
}

export interface CustomObjectChange {
  label?: string;
  plural?: string;
  enabled?: boolean;
}

export async function insertCustomObject(
  sql: Sql,
  companyId: string,
  object: NewCustomObject,
  now: Date,
): Promise<void> {
  await sql`
    insert into custom_objects (company_id, slug, label, plural, created_at, updated_at)
    values (${companyId}, ${object.slug}, ${object.label}, ${object.plural}, ${now}, ${now})`;
}

/** Properties that the change omits stay. */
export async function updateCustomObject(
  sql: Sql,
  companyId: string,
  slug: string,
  change: CustomObjectChange,
  now: Date,
): Promise<void> {
  await sql`
    update custom_objects
    set label = coalesce(${change.label ?? null}::text, label),
      plural = coalesce(${change.plural ?? null}::text, plural),
      enabled = coalesce(${change.enabled ?? null}::boolean, enabled),
      updated_at = ${now}
    where company_id = ${companyId} and slug = ${slug}`;
}
