// Mails: written in the transaction of the change that they tell of, delivered after its commit, under the platform role.
import { v7 as uuidv7 } from 'uuid';
import type { Sql } from './connect.ts';

export interface NewMail {
  companyId: string;
  recipient: string;
  template: string;
  /** What the template shows. Never a password, nor anything else that opens a door. */
  data: Record<string, string>;
}

export async function insertMail(sql: Sql, mail: NewMail, now: Date): Promise<void> {
  await sql`
    insert into mails (company_id, id, recipient, template, data, next_attempt_at, created_at)
    values (${mail.companyId}, ${uuidv7()}, ${mail.recipient}, ${mail.template}, ${sql.json(mail.data)}, ${now}, ${now})`;
}

export interface MailRow {
  companyId: string;
  id: string;
  recipient: string;
  template: string;
  data: Record<string, string>;
  /** This one included. */
  attempts: number;
}

/**
 * Takes mails that are due, each for one server only.
 * @param lease milliseconds after which a mail is due again, should this server end before it says how the attempt went
 */
export async function takeMails(sql: Sql, limit: number, lease: number, now: Date): Promise<MailRow[]> {
  return sql<MailRow[]>`
    update mails m
    set attempts = m.attempts + 1, next_attempt_at = ${new Date(now.getTime() + lease)}
    from (
      select company_id, id from mails
      where status = 'queued' and next_attempt_at <= ${now}
      order by next_attempt_at
      limit ${limit}
      for update skip locked
    ) due
    where m.company_id = due.company_id and m.id = due.id
    returning m.company_id as "companyId", m.id, m.recipient, m.template, m.data, m.attempts`;
}

/** Ends a mail's way. */
export async function closeMail(
  sql: Sql,
  mail: { companyId: string; id: string },
  status: 'sent' | 'kept' | 'failed',
): Promise<void> {
  await sql`update mails set status = ${status} where company_id = ${mail.companyId} and id = ${mail.id}`;
}

/** Has a mail tried again at a time. */
export async function postponeMail(sql: Sql, mail: { companyId: string; id: string }, until: Date): Promise<void> {
  await sql`update mails set next_attempt_at = ${until} where company_id = ${mail.companyId} and id = ${mail.id}`;
}

/** Days that a mail is kept once its way has ended. */
const keptDays = 30;

/** Removes mails that are past their time. @returns how many */
export async function sweepMails(sql: Sql, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const removed = await sql`
    delete from mails
    where ctid in (select ctid from mails where created_at < ${before} and status <> 'queued' limit 5000)`;
  return removed.count;
}
