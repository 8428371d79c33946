// Forms that create a secret: each works once, and the secret is shown once.
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';

/** A form of a session. The id is the key in the form. */
export interface SentForm {
  companyId: string;
  sessionId: string;
  id: string;
}

/** Claims the key of a form. @returns false if the form was sent before */
export async function claimForm(sql: Sql, form: SentForm, now: Date, expiresAt: Date): Promise<boolean> {
  const { companyId, sessionId, id } = form;
  const claimed = await sql`
    insert into shown_secrets (company_id, id, session_id, created_at, expires_at)
    values (${companyId}, ${id}, ${sessionId}, ${now}, ${expiresAt})
    on conflict (company_id, id) do nothing`;
  return claimed.count === 1;
}

/** Releases the key of a form that created nothing. */
export async function releaseForm(sql: Sql, { companyId, sessionId, id }: SentForm): Promise<void> {
  await sql`
    delete from shown_secrets
    where company_id = ${companyId} and id = ${id} and session_id = ${sessionId} and made_id is null`;
}

/** Stores the secret of a form until it is shown. */
export async function storeSecret(
  sql: Sql,
  { companyId, sessionId, id }: SentForm,
  madeId: string,
  sealedSecret: string,
): Promise<void> {
  await sql`
    update shown_secrets set made_id = ${madeId}, sealed_secret = ${sealedSecret}
    where company_id = ${companyId} and id = ${id} and session_id = ${sessionId}`;
}

export interface TakenSecret {
  /**
   * The id of the key or endpoint with the secret; null if its creation has not ended, or its
   * outcome is unknown.
   */
  madeId: string | null;
  /** null: it was already shown, or has expired. */
  sealedSecret: string | null;
}

/**
 * Takes the secret of a form, to show it. Of several calls, only one gets it.
 * @param since forms that were sent earlier no longer show their secret
 * @returns undefined if the session sent no such form
 */
export async function takeSecret(
  sql: Sql,
  { companyId, sessionId, id }: SentForm,
  since: Date,
): Promise<TakenSecret | undefined> {
  const [row] = await sql<TakenSecret[]>`
    with found as (
      select made_id, case when created_at > ${since} then sealed_secret end as sealed_secret from shown_secrets
      where company_id = ${companyId} and id = ${id} and session_id = ${sessionId}
      for update
    ),
    taken as (
      update shown_secrets set sealed_secret = null
      where company_id = ${companyId} and id = ${id} and exists (select from found where made_id is not null)
    )
    select made_id, sealed_secret from found`;
  return row;
}

/**
 * Removes the keys of old forms. For the platform role.
 * @returns how many, at most the limit
 */
export async function sweepForms(sql: Sql, limit: number, now: Date): Promise<number> {
  const due = await sql<DueRow[]>`
    select company_id, id from shown_secrets where expires_at < ${now} order by expires_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from shown_secrets
      where company_id = ${companyId} and id = any(${rows.map(({ id }) => id)}::uuid[]) and expires_at < ${now}`;
    return removed.count;
  });
}
