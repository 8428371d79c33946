// Tags of records: the existing ones, and those that a person adds or removes.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface RecordTagRow {
  id: string;
  name: string;
  color: string;
  priority: number;
  isManual: boolean;
}

/** A record, for its tags. */
export interface TaggedPath {
  object: string;
  id: string;
}

/** In display order. */
export async function listRecordTags(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { object, id }: TaggedPath,
): Promise<RecordTagRow[]> {
  return await sql<RecordTagRow[]>`
    select t.id, t.name, t.color, t.priority, r.is_manual
    from record_tags r
    join tags t on t.company_id = ${companyId} and t.id = r.tag_id
    where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.object = ${object} and r.record_id = ${id}
    order by t.priority, t.name, t.id`;
}

/** A tag in a list of records. */
interface ShownTag {
  id: string;
  name: string;
  color: string;
  automatic: boolean;
}

/**
 * Returns the tags of records by the ids of the records, in display order. Records without tags are
 * omitted.
 */
export async function findShownTags(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<Map<string, ShownTag[]>> {
  const rows = await sql<(ShownTag & { recordId: string })[]>`
    select r.record_id, t.id, t.name, t.color, not r.is_manual as automatic
    from record_tags r
    join tags t on t.company_id = ${companyId} and t.id = r.tag_id
    where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.object = ${object}
      and r.record_id = any(${[...ids]}::uuid[])
    order by t.priority, t.name, t.id`;
  const shown = Map.groupBy(rows, ({ recordId }) => recordId);
  return new Map([...shown].map(([id, tags]) => [id, tags.map(({ recordId: _, ...tag }) => tag)]));
}
