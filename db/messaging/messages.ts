// The timeline of messages of a record. Its rows come from sending and receiving.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';
import type { Scope } from '../client/visibility.ts';

export interface MessageRow {
  id: string;
  recordId: string;
  channel: 'sms' | 'email' | 'whatsapp';
  direction: 'inbound' | 'outbound';
  source: 'campaigns' | 'drafts' | 'inbox' | 'support' | null;
  sender: string | null;
  recipient: string | null;
  subject: string | null;
  /** The beginning of the body. */
  preview: string;
  status: string | null;
  campaignId: string | null;
  draftId: string | null;
  occurredAt: Date;
}

/** The record and campaign of a message. */
export interface MessagePlace {
  id: string;
  object: string | null;
  recordId: string | null;
  campaignId: string | null;
}

export async function findMessage(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
): Promise<MessagePlace | undefined> {
  const [row] = await sql<[MessagePlace?]>`
    select id, object, record_id, campaign_id from messages
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
  return row;
}

/** The maximum length of a preview, in characters. */
const previewLength = 500;

/**
 * Returns the messages of a record, the newest first.
 * @param after time and id of the last message of the previous page
 */
export async function listMessages(
  sql: Sql,
  { companyId, testMode }: Scope,
  record: { object: string; id: string },
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<MessageRow[]> {
  return sql<MessageRow[]>`
    select id, record_id, channel, direction, source, sender, recipient, subject, left(body, ${previewLength}) as preview, status,
      campaign_id, draft_id, occurred_at
    from messages
    where company_id = ${companyId} and test_mode = ${testMode} and object = ${record.object} and record_id = ${record.id}
      ${after ? sql`and (occurred_at, id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by occurred_at desc, id desc
    limit ${limit}`;
}

/** The engagement with a sent email, in ascending order. */
export type EngagedStatus = 'opened' | 'clicked';

/** The statuses that a status may replace: an email with a click does not go back to opened. */
const before: Readonly<Record<EngagedStatus, readonly string[]>> = { opened: ['sent'], clicked: ['sent', 'opened'] };

/** Records that a sent email was opened, or that a link in it was clicked. */
export async function markEngaged(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  id: string,
  status: EngagedStatus,
): Promise<void> {
  await sql`
    update messages set status = ${status}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}
      and channel = 'email' and status = any(${[...before[status]]}::text[])`;
}

/**
 * Returns how many emails of a campaign were opened, including those with a click, and in how many
 * a link was clicked.
 */
export async function countEngaged(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  campaignId: string,
): Promise<Record<EngagedStatus, number>> {
  const [row] = await sql<[Record<EngagedStatus, number>]>`
    select count(*)::int as opened, count(*) filter (where status = 'clicked')::int as clicked from messages
    where company_id = ${companyId} and test_mode = ${testMode} and campaign_id = ${campaignId} and status in ('opened', 'clicked')`;
  return row;
}

/** A message to be stored. Messages from unknown senders belong to no record. */
export type NewMessage = Omit<MessageRow, 'preview' | 'recordId'> & {
  object: string | null;
  recordId: string | null;
  body: string;
};

export async function insertMessage(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  message: NewMessage,
): Promise<void> {
  await sql`insert into messages ${sql({ companyId, testMode, ...message })}`;
}
