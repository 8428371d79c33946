// Which tags records have.
import type { Retagging, TaggedRecord } from '../../domain/settings/tags.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { findRecordsBeyondReach } from './records.ts';

/**
 * Makes the automatic tags of records those given; what was put on by hand stays. Sent at once, so that it can travel with the
 * write of the records themselves; nothing is sent without records.
 */
export function setAutomaticTags(
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

/** Looks again at records that this transaction changed by something else, such as an activity logged on them. */
export async function retag(sql: Sql, scope: TenantScope, { object, ids, tagsOf }: Retagging): Promise<void> {
  if (ids.length === 0) return;
  await setAutomaticTags(sql, scope, object, tagsOf(await findRecordsBeyondReach(sql, scope, object, ids)));
}
