// Writes leads of intake. Only services/records/ calls it, after validation.
import type { NewRecord } from '../../domain/records/draft.ts';
import { toCreatedColumns } from '../client/created-by.ts';
import type { Sql } from '../client/pool.ts';
import type { Scope } from '../client/visibility.ts';
import { getRecordTable } from '../records/columns.ts';
import { toRow } from '../records/rows.ts';

/**
 * The columns that intake has a field for, or that follow from the status. Always the same, so that
 * it is one prepared statement.
 */
const blank = {
  first_name: null,
  last_name: null,
  email: null,
  mobile: null,
  extension: null,
  company_name: null,
  job_title: null,
  website: null,
  city: null,
  state: null,
  country: null,
  postal_code: null,
  inquiry_details: null,
  notes: null,
  source_id: null,
  priority: null,
  origin: null,
  lead_status_id: null,
  assigned_to: null,
  converted_at: null,
};

/** Stores a lead with its manual and automatic tags. Sends its statement immediately. */
export function insertLead(
  sql: Sql,
  scope: Scope,
  lead: NewRecord,
  tagIds: { manual: readonly string[]; automatic: readonly string[] },
  now: Date,
): Promise<unknown> {
  const { companyId, testMode } = scope;
  const { custom, ...columns } = toRow(getRecordTable('leads'), lead.values, lead.custom);
  const row = {
    ...blank,
    ...columns,
    custom: sql.json(custom as never),
    company_id: companyId,
    test_mode: testMode,
    id: lead.id,
    ...toCreatedColumns(scope),
    created_at: now,
    updated_at: now,
    updated_by_id: scope.actor.id,
  };
  // Locked, because a tag that is being deleted must not be applied.
  const automatic = sql`
    union all
    select id, false from (
      select id from tags
      where company_id = ${companyId} and object = 'leads' and id = any(${[...tagIds.automatic]}::uuid[])
      order by id
      for key share
    ) locked`;
  return sql`
    with lead as (
      insert into leads ${sql(row)} returning company_id, test_mode, id
    )
    insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
    select lead.company_id, lead.test_mode, 'leads', lead.id, tag.id, tag.is_manual
    from lead, (
      select id, true from unnest(${[...tagIds.manual]}::uuid[]) manual (id)
      ${tagIds.automatic.length === 0 ? sql`` : automatic}
    ) tag (id, is_manual)`.execute();
}
