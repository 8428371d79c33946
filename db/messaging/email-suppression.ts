// The suppression list: email addresses that receive no messages, separate for each mode.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export type SuppressionReason = 'unsubscribed' | 'bounced' | 'complained' | 'manual';

export interface SuppressionRow {
  id: string;
  /** In lower case. */
  email: string;
  reason: SuppressionReason;
  source: 'api' | 'app' | 'import' | 'opt_out' | 'provider';
  campaignId: string | null;
  createdAt: Date;
}

const columns = ['id', 'email', 'reason', 'source', 'campaign_id', 'created_at'];

/**
 * Returns entries, the newest first.
 * @param after time and id of the last entry of the previous page
 */
export async function listSuppressed(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  reason: SuppressionReason | undefined,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<SuppressionRow[]> {
  return sql<SuppressionRow[]>`
    select ${sql(columns)} from email_suppressions
    where company_id = ${companyId} and test_mode = ${testMode}
      ${reason ? sql`and reason = ${reason}` : sql``}
      ${after ? sql`and (created_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by created_at desc, id desc
    limit ${limit}`;
}

/**
 * Adds an address, unless it is on the list.
 * @returns the stored entry, and whether it is new
 */
export async function addSuppressed(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  entry: SuppressionRow,
): Promise<{ entry: SuppressionRow; isNew: boolean }> {
  const added = await sql`
    insert into email_suppressions ${sql({ companyId, testMode, ...entry })}
    on conflict (company_id, test_mode, email) do nothing`;
  if (added.count === 1) return { entry, isNew: true };
  const [row] = await sql<SuppressionRow[]>`
    select ${sql(columns)} from email_suppressions
    where company_id = ${companyId} and test_mode = ${testMode} and email = ${entry.email}`;
  if (!row) throw new Error('an entry of the suppression list was removed, although nothing removes entries');
  return { entry: row, isNew: false };
}

/**
 * Returns which of these addresses are on the list.
 * @param emails in lower case
 */
export async function findSuppressedEmails(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  emails: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ email: string }[]>`
    select email from email_suppressions
    where company_id = ${companyId} and test_mode = ${testMode} and email = any(${[...emails]}::text[])`;
  return new Set(rows.map((row) => row.email));
}
