// The timeline of messages of a record.
import { listMessages, type MessageRow } from '../../db/messaging/messages.ts';
import type { components } from '../../generated/api.ts';
import type { Handler } from '../../runtime/handler.ts';
import { pageOfRecord } from '../../services/records/open-record.ts';

export const listRecordMessages: Handler<'listRecordMessages'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await pageOfRecord(
    call,
    'messages',
    (after, limit) => listMessages(sql, caller, path, after, limit),
    (last: MessageRow) => [last.occurredAt.toISOString(), last.id],
  );
  return { status: 200, data: { messages: rows.map(toMessage), ...rest } };
};

function toMessage(row: MessageRow): components['schemas']['MessageTimelineItem'] {
  return {
    id: row.id,
    channel: row.channel,
    direction: row.direction,
    source: row.source,
    from: row.sender,
    to: row.recipient,
    subject: row.subject,
    preview: row.preview,
    status: row.status,
    record_id: row.recordId,
    campaign_id: row.campaignId,
    draft_id: row.draftId,
    occurred_at: row.occurredAt.toISOString(),
  };
}
