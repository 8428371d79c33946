// The timeline of messages of a record.
import { listMessages, type MessageRow } from '../../db/messaging/messages.ts';
import { toMessageResponse } from '../../domain/messaging/messages.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readRecordPage } from '../../services/records/open-record.ts';

export const listRecordMessages: Handler<'listRecordMessages'> = async (call) => {
  const { caller } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await readRecordPage(
    call,
    'messages',
    (after, limit) => listMessages(sql, caller, path, after, limit),
    (last: MessageRow) => [last.occurredAt.toISOString(), last.id],
  );
  return { status: 200, data: { messages: rows.map(toMessageResponse), ...rest } };
};
