// Approved drafts that are being sent: one server at a time takes one and stores the outcome.
import type { DraftChannel, StoredDraft } from '../../domain/messaging/drafts.ts';
import type { SendingOutcome } from '../../domain/messaging/senders.ts';
import { type Brand, selectLogo } from '../access/logos.ts';
import { type SubscriptionRow, selectSubscriptionColumns } from '../access/paying-subscription.ts';
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import { belongsToRun, type DueTime } from '../client/test-clocks.ts';

/** The messages of a company in one mode and channel. */
export interface Queue extends TenantScope {
  channel: DraftChannel;
}

/** Finds queues with due messages, the longest overdue first. */
export async function findDueQueues(
  sql: Sql,
  channels: readonly DraftChannel[],
  limit: number,
  due: DueTime,
): Promise<Queue[]> {
  return sql<Queue[]>`
    select company_id, test_mode, channel from message_drafts
    where due_at <= ${due.now} and channel = any(${[...channels]}::text[]) and ${belongsToRun(sql, 'message_drafts', due)}
    group by company_id, test_mode, channel
    order by min(due_at)
    limit ${limit}`;
}

/** Counts due messages, for the operator. Counting stops at the limit. */
export async function countDueMessages(sql: Sql, limit: number, now: Date): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (select from message_drafts where due_at <= ${now} limit ${limit}) due`;
  return row?.count ?? 0;
}

export interface TakenDraft
  extends Pick<
    StoredDraft,
    'id' | 'channel' | 'recipient' | 'sender' | 'subject' | 'body' | 'object' | 'recordId' | 'campaignId'
  > {
  /** The number of this attempt. */
  attempts: number;
  /** When it may have been sent before; null: it was not. */
  attemptedAt: Date | null;
}

/**
 * Takes the draft that has waited longest, for one server only.
 * @param lease milliseconds after which it is due again if this server ends before it stores the
 * outcome
 */
export async function takeDraft(
  sql: Sql,
  { companyId, testMode, channel }: Queue,
  lease: number,
  now: Date,
): Promise<TakenDraft | undefined> {
  const leasedUntil = new Date(now.getTime() + lease);
  // Materialized so that every plan runs it once: a subquery may run again for each joined row, and
  // would lock another draft each time.
  const [taken] = await sql<TakenDraft[]>`
    with next as materialized (
      select id, attempted_at from message_drafts m
      where company_id = ${companyId} and test_mode = ${testMode} and channel = ${channel} and due_at <= ${now} and status = 'approved'
        and not exists (
          select from campaigns c
          where c.company_id = ${companyId} and c.test_mode = ${testMode} and c.id = m.campaign_id and c.status = 'cancelled'
        )
      order by due_at
      limit 1
      for no key update skip locked
    )
    update message_drafts d
    set attempts = attempts + 1, due_at = ${leasedUntil}, leased_until = ${leasedUntil}, attempted_at = coalesce(d.attempted_at, ${now})
    from next
    where d.company_id = ${companyId} and d.test_mode = ${testMode} and d.id = next.id
    returning d.id, d.channel, d.recipient, d.sender, d.subject, d.body, d.object, d.record_id, d.campaign_id, d.attempts,
      next.attempted_at`;
  return taken;
}

/** The name and permissions of a company. */
export interface SendingCompany extends SubscriptionRow {
  name: string;
  disabledModules: string[];
  /** True if opens and clicks of its emails are tracked. */
  notesEngagement: boolean;
}

/** @returns undefined if the company is no longer active */
export async function findSendingCompany(sql: Sql, companyId: string): Promise<SendingCompany | undefined> {
  const [row] = await sql<SendingCompany[]>`
    select c.name, c.disabled_modules, c.notes_email_engagement as notes_engagement,
      ${selectSubscriptionColumns(sql)}
    from companies c
    left join subscriptions s on s.company_id = ${companyId}
    where c.id = ${companyId} and c.status = 'active'`;
  return row;
}

/**
 * Stores the final outcome of a draft.
 * @returns false if another attempt has begun meanwhile, or if the draft was withdrawn
 */
export async function endDraft(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, attempts }: Pick<TakenDraft, 'id' | 'attempts'>,
  outcome: SendingOutcome,
  now: Date,
): Promise<boolean> {
  const end =
    outcome.status === 'sent'
      ? { status: outcome.status, sentAt: now, providerRef: outcome.providerRef }
      : { status: outcome.status, errorCode: outcome.code, errorMessage: outcome.message };
  const ended = await sql`
    update message_drafts set ${sql(end)}, due_at = null, leased_until = null, attempted_at = null, updated_at = ${now}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and attempts = ${attempts} and status = 'approved'`;
  return ended.count === 1;
}

/**
 * Schedules the next attempt for a draft.
 * @param mayBeSent true if it is unknown whether the draft was sent
 */
export async function postponeDraft(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, attempts }: Pick<TakenDraft, 'id' | 'attempts'>,
  mayBeSent: boolean,
  until: Date,
): Promise<void> {
  await sql`
    update message_drafts
    set due_at = ${until}, leased_until = null, attempted_at = case when ${mayBeSent}::boolean then attempted_at end
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id} and attempts = ${attempts} and status = 'approved'`;
}

/** Returns which of these message ids of a provider already belong to drafts. */
export async function findKnownReferences(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  references: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ providerRef: string }[]>`
    select provider_ref from message_drafts
    where company_id = ${companyId} and test_mode = ${testMode} and provider_ref = any(${[...references]}::text[])`;
  return new Set(rows.map((row) => row.providerRef));
}

/** The parts of a draft that a person sees after following a link in the email. */
export interface MailedDraft extends Brand {
  recipient: string;
  campaignId: string | null;
}

export async function findMailedDraft(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<MailedDraft | undefined> {
  const [row] = await sql<MailedDraft[]>`
    select d.recipient, d.campaign_id, c.id as company_id, c.name as company_name, ${selectLogo(sql, companyId)} as logo
    from message_drafts d
    join companies c on c.id = ${companyId}
    where d.company_id = ${companyId} and d.test_mode = ${testMode} and d.id = ${id} and d.channel = 'email'`;
  return row;
}

/** An email that may have been opened. */
export interface EngagedDraft {
  recipient: string;
  /** False until the mail server has accepted it. */
  isSent: boolean;
}

/** @returns undefined if the draft is not an email of an active company */
export async function findEngagedDraft(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<EngagedDraft | undefined> {
  const [row] = await sql<EngagedDraft[]>`
    select d.recipient, d.status = 'sent' as is_sent
    from message_drafts d
    join companies c on c.id = ${companyId} and c.status = 'active'
    where d.company_id = ${companyId} and d.test_mode = ${testMode} and d.id = ${id} and d.channel = 'email'`;
  return row;
}
