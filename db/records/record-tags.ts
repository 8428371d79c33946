// Tags of one record: those it has, and those that somebody puts on or takes off.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface RecordTagRow {
  id: string;
  name: string;
  color: string;
  priority: number;
  isManual: boolean;
}

/** The record that has a tag, or is to have it. */
export interface TaggedPath {
  object: string;
  id: string;
}

/** In the order that tags are shown. */
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

/** Puts a tag on for good. @returns the tag, and whether that changed anything; undefined where the tag is gone */
export async function addRecordTag(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { object, id }: TaggedPath,
  tagId: string,
): Promise<(RecordTagRow & { changed: boolean }) | undefined> {
  // Locked, since a tag that is being deleted must not be put on.
  const [row] = await sql<(RecordTagRow & { changed: boolean })[]>`
    with tag as materialized (
      select id, name, color, priority from tags where company_id = ${companyId} and object = ${object} and id = ${tagId} for key share
    ), put as (
      insert into record_tags as r (company_id, test_mode, object, record_id, tag_id, is_manual)
      select ${companyId}, ${testMode}, ${object}, ${id}, tag.id, true from tag
      on conflict (company_id, test_mode, object, record_id, tag_id) do update set is_manual = true where not r.is_manual
      returning r.tag_id
    )
    select tag.id, tag.name, tag.color, tag.priority, true as is_manual, exists (select from put) as changed from tag`;
  return row;
}

/** Takes off a tag that was put on. @returns whether it was put on by hand, which alone is taken off; undefined where the record does not have it */
export async function removeRecordTag(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { object, id }: TaggedPath,
  tagId: string,
): Promise<{ wasManual: boolean } | undefined> {
  const [row] = await sql<{ wasManual: boolean }[]>`
    with there as materialized (
      select is_manual from record_tags
      where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = ${id} and tag_id = ${tagId}
      for update
    ), gone as (
      delete from record_tags
      where company_id = ${companyId} and test_mode = ${testMode} and object = ${object} and record_id = ${id} and tag_id = ${tagId}
        and is_manual
    )
    select is_manual as was_manual from there`;
  return row;
}
