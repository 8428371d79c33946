// Leads as intake stores them.
import type { Sql } from './connect.ts';

export interface Assignee {
  id: string;
  email: string;
  full_name: string;
}

/** The active user with this address, or, without one, the active user who has been there longest. */
export async function findAssignee(sql: Sql, companyId: string, email: string | null): Promise<Assignee | undefined> {
  const [user] = await sql<Assignee[]>`
    select id, email, full_name
    from users
    where company_id = ${companyId} and status = 'active' ${email === null ? sql`` : sql`and email = ${email}`}
    order by created_at, id
    limit 1`.execute();
  return user;
}

export interface LeadRow {
  company_id: string;
  test_mode: boolean;
  id: string;
  first_name: string;
  last_name: string | null;
  email: string | null;
  mobile: string | null;
  inquiry_details: string | null;
  notes: string | null;
  source_id: string | null;
  priority: number;
  origin: string | null;
  lead_status_id: string;
  assigned_to: string | null;
  converted_at: Date | null;
  custom: object;
  created_by_kind: 'api_key' | 'oauth_client' | 'user' | 'system';
  created_by_id: string;
  created_by_name: string | null;
  created_at: Date;
  updated_at: Date;
}

/** Stores a lead, the tags that its sender put on it, and others that its data puts on it. */
export async function insertLead(
  sql: Sql,
  lead: LeadRow,
  manualTagIds: readonly string[],
  automaticTagIds: readonly string[],
): Promise<void> {
  const row = { ...lead, custom: sql.json(lead.custom as never) };
  // Locked, since a tag that is being deleted must not be put on.
  const automatic = sql`
    union all
    select id, false from (
      select id from tags
      where company_id = ${lead.company_id} and object = 'leads' and id = any(${[...automaticTagIds]}::uuid[])
      order by id
      for key share
    ) locked`;
  await sql`
    with lead as (
      insert into leads ${sql(row)} returning company_id, test_mode, id
    )
    insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
    select lead.company_id, lead.test_mode, 'leads', lead.id, tag.id, tag.is_manual
    from lead, (
      select id, true from unnest(${[...manualTagIds]}::uuid[]) manual (id)
      ${automaticTagIds.length === 0 ? sql`` : automatic}
    ) tag (id, is_manual)`;
}
