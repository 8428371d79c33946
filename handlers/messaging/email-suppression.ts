// The suppression list of email addresses: read and add. Entries cannot be removed.
import { v7 as uuidv7 } from 'uuid';
import { addSuppressed, listSuppressed, type SuppressionRow } from '../../db/messaging/email-suppression.ts';
import type { components } from '../../generated/api.ts';
import type { Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

export const listEmailSuppressionEntries: Handler<'listEmailSuppressionEntries'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { rows, ...rest } = await readPage(
    call,
    ['email suppression', query.reason],
    (after, limit) => listSuppressed(sql, caller, query.reason, after, limit),
    (last: SuppressionRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { entries: rows.map(toSuppressionResponse), ...rest } };
};

export const createEmailSuppressionEntry: Handler<'createEmailSuppressionEntry'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { entry, isNew } = await addSuppressed(sql, caller, {
    id: uuidv7(),
    email: body.email.trim().toLowerCase(),
    reason: body.reason,
    source: 'api',
    campaignId: null,
    createdAt: now,
  });
  if (isNew)
    call.db.record({
      action: 'email_suppression.create',
      object: 'email_suppressions',
      recordId: entry.id,
      metadata: { reason: entry.reason, source: 'api' },
    });
  return { status: isNew ? 201 : 200, data: { entry: toSuppressionResponse(entry), already_present: !isNew } };
};

function toSuppressionResponse(row: SuppressionRow): components['schemas']['EmailSuppression'] {
  return {
    id: row.id,
    email: row.email,
    reason: row.reason,
    source: row.source,
    campaign_id: row.campaignId,
    created_at: row.createdAt.toISOString(),
  };
}
