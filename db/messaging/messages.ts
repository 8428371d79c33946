// The timeline of messages of a record; rows come from whatever sends and receives.
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

/** What a message belongs to. */
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

/** Characters of a body that a preview shows. */
const previewLength = 500;

/** The messages of a record, the newest first. @param after time and id of the last message of the page before */
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

/** What became of an email that was sent, the furthest last. */
export type EngagedStatus = 'opened' | 'clicked';

/** What a status follows upon: who clicked is not said to have only opened. */
const before: Readonly<Record<EngagedStatus, readonly string[]>> = { opened: ['sent'], clicked: ['sent', 'opened'] };

/** Notes that an email that was sent was opened, or a link in it clicked. */
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

/** How many emails of a campaign were opened, those with a click included, and in how many of them a link was clicked. */
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

/** A message as it is written; what comes from somebody unknown is of no record. */
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
