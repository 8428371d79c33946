// Builds a lead as in the records API by hand from its row, for the responses of the baselines.
import type { Sql } from 'postgres';

export interface LeadRow {
  id: string;
  created_at: Date;
  updated_at: Date;
  lead_status_id: string;
  last_contacted_at: Date | null;
  next_followup_at: Date | null;
  converted_at: Date | null;
  [column: string]: unknown;
}

export const leadColumns = [
  'id',
  'created_at',
  'updated_at',
  'first_name',
  'last_name',
  'email',
  'mobile',
  'company_name',
  'job_title',
  'website',
  'city',
  'state',
  'country',
  'postal_code',
  'inquiry_details',
  'notes',
  'priority',
  'origin',
  'assigned_to',
  'lead_status_id',
  'source_id',
  'last_contacted_at',
  'next_followup_at',
  'converted_at',
  'converted_customer_id',
];

/** Returns the names of the lead statuses by id. */
export async function statusNames(sql: Sql, companyId: string): Promise<Map<string, string>> {
  const rows = await sql<
    { id: string; name: string }[]
  >`select id, name from statuses where company_id = ${companyId} and object = 'leads'`;
  return new Map(rows.map((row) => [row.id, row.name]));
}

export function toLeadResponse(row: LeadRow, names: Map<string, string>): object {
  return {
    id: row.id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    first_name: row.first_name,
    last_name: row.last_name,
    email: row.email,
    mobile: row.mobile,
    company_name: row.company_name,
    job_title: row.job_title,
    website: row.website,
    city: row.city,
    state: row.state,
    country: row.country,
    postal_code: row.postal_code,
    inquiry_details: row.inquiry_details,
    notes: row.notes,
    source: null,
    priority: row.priority,
    origin: row.origin,
    lead_status: names.get(row.lead_status_id) ?? null,
    assigned_to: row.assigned_to,
    lead_status_id: row.lead_status_id,
    source_id: row.source_id,
    last_contacted_at: row.last_contacted_at?.toISOString() ?? null,
    next_followup_at: row.next_followup_at?.toISOString() ?? null,
    converted_at: row.converted_at?.toISOString() ?? null,
    converted_customer_id: row.converted_customer_id,
  };
}

export function buildLeadResponse(row: LeadRow, names: Map<string, string>, requestId: string, now: Date): string {
  return JSON.stringify({
    success: true,
    data: { object: 'leads', record: toLeadResponse(row, names) },
    meta: { request_id: requestId, timestamp: now.toISOString() },
  });
}
