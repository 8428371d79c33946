// Message drafts as answers show them.
import type { components } from '../../generated/api.ts';
import { listOf, type StoredDraft, stopped } from './drafts.ts';

/** @param saidStop whether the recipient is on the list of the channel as things are now */
export function toDraftResponse(
  draft: StoredDraft,
  createdBy: components['schemas']['Actor'],
  saidStop: boolean,
  testMode: boolean,
): components['schemas']['MessageDraft'] {
  const list = listOf(draft.channel);
  return {
    id: draft.id,
    channel: draft.channel,
    status: draft.status,
    to: draft.recipient,
    from: draft.sender,
    subject: draft.subject,
    body: draft.body,
    object: draft.object,
    record_id: draft.record_id,
    note: draft.note,
    campaign_id: draft.campaign_id,
    run_id: draft.run_id,
    created_by: createdBy,
    approved_by: toDecider(draft.approved_by, draft.approved_by_name),
    approved_at: draft.approved_at?.toISOString() ?? null,
    rejected_by: toDecider(draft.rejected_by, draft.rejected_by_name),
    rejected_at: draft.rejected_at?.toISOString() ?? null,
    rejection_reason: draft.rejection_reason,
    withdrawal_reason: draft.withdrawal_reason,
    sent_at: draft.sent_at?.toISOString() ?? null,
    provider_ref: draft.provider_ref,
    error: draft.error_code && { code: draft.error_code, message: draft.error_message ?? '' },
    warnings: saidStop ? [{ code: list, message: stopped[list] }] : [],
    test_mode: testMode,
    created_at: draft.created_at.toISOString(),
    updated_at: draft.updated_at.toISOString(),
  };
}

/** Only people decide on drafts. */
const toDecider = (id: string | null, name: string | null) =>
  id === null ? null : { kind: 'user' as const, id, name };
