// Reports of providers, each stored once, and the record from which a message came.
import type { ReportKind } from '../../domain/messaging/reports.ts';
import type { Sql } from '../client/pool.ts';
import { type DueDataRow, forEachTenant } from '../client/sweeping.ts';
import type { TenantScope } from '../client/tenant.ts';

/** A record with a phone number or an email address. */
export interface Contact {
  object: 'leads' | 'customers';
  id: string;
}

export interface ReportRow {
  id: string;
  /** own: recorded by this server. */
  provider: 'generic' | 'twilio' | 'own';
  /** The provider's id. */
  externalId: string;
  kind: ReportKind;
  object: string | null;
  recordId: string | null;
  details: Record<string, unknown>;
  occurredAt: Date;
  receivedAt: Date;
}

/** The fields with numbers and addresses. */
const fields = {
  phone: { leads: ['mobile'], customers: ['mobile', 'phone'] },
  email: { leads: ['email'], customers: ['email'] },
} as const;

/**
 * Returns the record with this number or address: the most recently changed lead, otherwise a
 * customer. It cannot be deleted until the transaction ends.
 * @param value E.164, or an address in lower case
 */
export async function findContact(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  kind: 'phone' | 'email',
  value: string,
): Promise<Contact | undefined> {
  for (const object of ['leads', 'customers'] as const) {
    // The indexes sort texts by their bytes.
    const equal = fields[kind][object].map((field) => sql`${sql(field)} collate "C" = ${value}`);
    const [row] = await sql<[{ id: string }?]>`
      select id from ${sql(object)}
      where company_id = ${companyId} and test_mode = ${testMode} and (${equal.reduce((any, one) => sql`${any} or ${one}`)})
      order by updated_at desc, id desc
      limit 1
      for key share`;
    if (row) return { object, id: row.id };
  }
  return undefined;
}

/**
 * Stores a report, unless it is stored already.
 * @returns the existing row, if there is one
 */
export async function addReport(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  report: ReportRow,
): Promise<Pick<ReportRow, 'id' | 'object' | 'recordId'> | undefined> {
  const row = { ...report, details: sql.json(report.details as never) };
  const added = await sql`
    insert into received_reports ${sql({ companyId, testMode, ...row })}
    on conflict (company_id, test_mode, provider, external_id) do nothing`;
  if (added.count === 1) return undefined;
  const [before] = await sql<[Pick<ReportRow, 'id' | 'object' | 'recordId'>]>`
    select id, object, record_id from received_reports
    where company_id = ${companyId} and test_mode = ${testMode} and provider = ${report.provider} and external_id = ${report.externalId}`;
  return before;
}

/** Days for which a report is kept. If a provider resends one later, it counts as new. */
const keptDays = 400;

/**
 * Removes expired reports.
 * @returns how many, at most the limit
 */
export async function sweepReports(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<DueDataRow[]>`
    select company_id, test_mode, id from received_reports
    where received_at < ${before} order by received_at limit ${limit}`;
  return forEachTenant(due, async ({ companyId, testMode }, rows) => {
    const removed = await sql`
      delete from received_reports
      where company_id = ${companyId} and test_mode = ${testMode} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}
