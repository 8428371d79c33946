// The timeline of messages of a record.
import { listMessages, type MessageRow } from '../db/messages.ts';
import { hasRecord } from '../db/records.ts';
import type { components } from '../generated/api.ts';
import { notFound } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';
import { page, pageLimit } from '../runtime/paging.ts';

export const listRecordMessages: Handler<'listRecordMessages'> = async (call) => {
  const { sql, caller, path, query } = call;
  if (!(await call.workspace()).objects.has(path.object)) throw notFound();
  const limit = pageLimit(query.limit, 50);
  const { companyId, testMode, reach } = caller;
  const bound = JSON.stringify(['messages', companyId, testMode, reach, path.object, path.id]);
  const after = query.cursor === undefined ? undefined : call.cursors.decode(query.cursor, bound, 2);
  const [visible, rows] = await Promise.all([
    hasRecord(sql, caller, path.object, path.id),
    listMessages(sql, caller, path, after as [string, string] | undefined, limit + 1),
  ]);
  if (!visible) throw notFound();
  const cursorOf = (last: MessageRow) => call.cursors.encode([last.occurred_at.toISOString(), last.id], bound);
  const { rows: found, next_cursor, has_more } = page(rows, limit, cursorOf);
  return { status: 200, data: { messages: found.map(toMessage), next_cursor, has_more } };
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
    record_id: row.record_id,
    campaign_id: row.campaign_id,
    draft_id: row.draft_id,
    occurred_at: row.occurred_at.toISOString(),
  };
}
