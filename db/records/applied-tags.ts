// The tags that records have.
import type { AppliedTag, TagChange } from '../../domain/settings/record-tags.ts';
import type { RetaggedRecord, Retagging, TaggedRecord } from '../../domain/settings/tags.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { findRecordsBeyondReach } from './records.ts';

/**
 * Returns the tags of records by the ids of the records, in no order. Records without tags are
 * omitted.
 */
export async function findAppliedTags(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  ids: readonly string[],
): Promise<Map<string, AppliedTag[]>> {
  const rows = await sql<(AppliedTag & { recordId: string })[]>`
    select record_id, tag_id, is_manual
    from record_tags
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${object}
      and record_id = any(${[...ids]}::uuid[])`;
  return Map.groupBy(rows, ({ recordId }) => recordId);
}

/**
 * Writes the tags of records that are new or locked, all in one statement. Sends it immediately, so
 * that it can be pipelined with the write of the records; sends nothing if no tag changes.
 */
export function changeTags(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  object: string,
  changes: readonly TagChange[],
): Promise<unknown> {
  const removed = changes.flatMap(({ recordId, before, after }) =>
    before
      .filter(({ tagId }) => !after.some((tag) => tag.tagId === tagId))
      .map(({ tagId }) => ({ record_id: recordId, tag_id: tagId })),
  );
  const put = changes.flatMap(({ recordId, before, after }) =>
    after
      .filter(({ tagId, isManual }) => !before.some((tag) => tag.tagId === tagId && tag.isManual === isManual))
      .map(({ tagId, isManual }) => ({ record_id: recordId, tag_id: tagId, is_manual: isManual })),
  );
  if (removed.length === 0 && put.length === 0) return Promise.resolve();
  const removing = sql`
    gone as (
      delete from record_tags t
      using jsonb_to_recordset(${sql.json(removed)}) as pair(record_id uuid, tag_id uuid)
      where t.company_id = ${companyId} and t.test_mode = ${testMode} and t.object = ${object}
        and t.record_id = pair.record_id and t.tag_id = pair.tag_id
    ),`;
  return sql`
    with ${removed.length > 0 ? removing : sql``} wanted as (
      select record_id, tag_id, is_manual
      from jsonb_to_recordset(${sql.json(put)}) as pair(record_id uuid, tag_id uuid, is_manual boolean)
    ), existing as materialized (
      -- Locked, since a tag that is being deleted must not be put on.
      select id from tags
      where company_id = ${companyId} and object = ${object} and id in (select tag_id from wanted)
      order by id
      for key share
    )
    insert into record_tags as r (company_id, test_mode, object, record_id, tag_id, is_manual)
    select ${companyId}, ${testMode}, ${object}, w.record_id, w.tag_id, w.is_manual
    from wanted w
    join existing e on e.id = w.tag_id
    on conflict (company_id, test_mode, object, record_id, tag_id) do update set is_manual = excluded.is_manual
      where r.is_manual <> excluded.is_manual`.execute();
}

/**
 * Replaces the automatic tags of records; tags that were added by hand stay. Sends its statement
 * immediately, so that it can be pipelined with the write of the records; sends nothing without
 * records.
 */
function setAutomaticTags(
  sql: Sql,
  scope: TenantScope,
  object: string,
  records: readonly TaggedRecord[],
): Promise<unknown> {
  if (records.length === 0) return Promise.resolve();
  const { companyId, testMode } = scope;
  const pairs = records.flatMap(({ id, tagIds }) => tagIds.map((tagId) => ({ record_id: id, tag_id: tagId })));
  return sql`
    with wanted as (
      select record_id, tag_id from jsonb_to_recordset(${sql.json(pairs)}) as pair(record_id uuid, tag_id uuid)
    ), gone as (
      delete from record_tags t
      where t.company_id = ${companyId} and t.test_mode = ${testMode} and t.object = ${object}
        and t.record_id = any(${records.map((record) => record.id)}::uuid[]) and not t.is_manual
        and not exists (select from wanted w where w.record_id = t.record_id and w.tag_id = t.tag_id)
    ), existing as materialized (
      -- Locked, since a tag that is being deleted must not be put on.
      select id from tags
      where company_id = ${companyId} and object = ${object} and id in (select tag_id from wanted)
      order by id
      for key share
    )
    insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
    select ${companyId}, ${testMode}, ${object}, w.record_id, w.tag_id, false
    from wanted w
    join existing e on e.id = w.tag_id
    on conflict do nothing`.execute();
}

/**
 * Recomputes the tags of records that this transaction changed indirectly, e.g. by an activity that
 * is logged on them.
 * @returns the records that were checked
 */
export async function retag(
  sql: Sql,
  scope: TenantScope,
  { object, ids, computeTags }: Retagging,
): Promise<RetaggedRecord[]> {
  if (ids.length === 0) return [];
  const [records, applied] = await Promise.all([
    findRecordsBeyondReach(sql, scope, object, ids),
    findAppliedTags(sql, scope, object, ids),
  ]);
  const tagged = computeTags(records);
  await setAutomaticTags(sql, scope, object, tagged);
  return tagged.map(({ id, tagIds }) => ({ id, before: applied.get(id) ?? [], tagIds }));
}
