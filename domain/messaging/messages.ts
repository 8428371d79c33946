// Converts messages to API responses.
import type { components } from '../../generated/api.ts';

type Item = components['schemas']['MessageTimelineItem'];

interface StoredMessage {
  id: string;
  recordId: string;
  channel: Item['channel'];
  direction: Item['direction'];
  source: Item['source'];
  sender: string | null;
  recipient: string | null;
  subject: string | null;
  preview: string;
  status: string | null;
  campaignId: string | null;
  draftId: string | null;
  occurredAt: Date;
}

export function toMessageResponse(row: StoredMessage): Item {
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
