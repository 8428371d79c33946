// The setting of a company that tracks opens and clicks of its emails.
import type { Sql } from '../client/pool.ts';

export async function isEngagementNoted(sql: Sql, companyId: string): Promise<boolean> {
  const [row] = await sql<[{ isNoted: boolean }]>`
    select notes_email_engagement as is_noted from companies where id = ${companyId}`;
  return row.isNoted;
}

/** Does the same, with a lock until the transaction ends. */
export async function lockEngagementNoted(sql: Sql, companyId: string): Promise<boolean> {
  const [row] = await sql<[{ isNoted: boolean }]>`
    select notes_email_engagement as is_noted from companies where id = ${companyId} for no key update`;
  return row.isNoted;
}

export async function setEngagementNoted(sql: Sql, companyId: string, isNoted: boolean): Promise<void> {
  await sql`update companies set notes_email_engagement = ${isNoted} where id = ${companyId}`;
}
