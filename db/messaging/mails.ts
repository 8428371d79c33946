// Mails: written in the transaction that causes them, delivered under the platform role.
import { v7 as uuidv7 } from 'uuid';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';

export interface NewMail {
  companyId: string;
  recipient: string;
  template: string;
  /**
   * The data of the template. Never a password; links that grant access only encrypted, as
   * `sealed_link`.
   */
  data: Record<string, string>;
}

export async function insertMail(sql: Sql, mail: NewMail, now: Date): Promise<void> {
  await insertMails(sql, [mail], now);
}

/** Inserts several mails with one statement. */
export async function insertMails(sql: Sql, mails: readonly NewMail[], now: Date): Promise<void> {
  if (mails.length === 0) return;
  const rows = mails.map(({ companyId, ...mail }) => ({
    ...mail,
    company_id: companyId,
    id: uuidv7(),
    data: sql.json(mail.data),
    next_attempt_at: now,
    created_at: now,
  }));
  await sql`insert into mails ${sql(rows)}`;
}

export interface MailRow {
  companyId: string;
  id: string;
  recipient: string;
  template: string;
  data: Record<string, string>;
  /** Including the current one. */
  attempts: number;
}

/**
 * Takes due mails, each for one server only.
 * @param lease milliseconds after which a mail is due again if this server ends before it stores
 * the outcome
 * @returns the mails that were taken, and how many were due: other servers may have taken some
 */
export async function takeMails(
  sql: Sql,
  limit: number,
  lease: number,
  now: Date,
): Promise<{ taken: MailRow[]; due: number }> {
  const due = await sql<DueRow[]>`
    select company_id, id from mails
    where status = 'queued' and next_attempt_at <= ${now}
    order by next_attempt_at
    limit ${limit}`;
  const taken = due.map(
    ({ companyId, id }) => sql<MailRow[]>`
      update mails
      set attempts = attempts + 1, next_attempt_at = ${new Date(now.getTime() + lease)}
      where company_id = ${companyId} and id = (
        select id from mails
        where company_id = ${companyId} and id = ${id} and status = 'queued' and next_attempt_at <= ${now}
        for update skip locked
      )
      returning company_id, id, recipient, template, data, attempts`,
  );
  return { taken: (await Promise.all(taken)).flat(), due: due.length };
}

/** Stores the final status of a mail. */
export async function closeMail(
  sql: Sql,
  mail: { companyId: string; id: string },
  status: 'sent' | 'kept' | 'failed',
): Promise<void> {
  await sql`update mails set status = ${status} where company_id = ${mail.companyId} and id = ${mail.id}`;
}

/** Schedules the next attempt for a mail. */
export async function postponeMail(sql: Sql, mail: { companyId: string; id: string }, until: Date): Promise<void> {
  await sql`update mails set next_attempt_at = ${until} where company_id = ${mail.companyId} and id = ${mail.id}`;
}

/** Days for which a mail is kept after its final status. */
const keptDays = 30;

/**
 * Removes expired mails.
 * @returns how many, at most the limit
 */
export async function sweepMails(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<DueRow[]>`
    select company_id, id from mails
    where created_at < ${before} and status <> 'queued' order by created_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from mails
      where company_id = ${companyId} and id = any(${rows.map(({ id }) => id)}::uuid[]) and status <> 'queued'`;
    return removed.count;
  });
}
