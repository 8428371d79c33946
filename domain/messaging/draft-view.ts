// Converts message drafts to API responses.
import type { components } from '../../generated/api.ts';
import { chooseBlockList, type StoredDraft, stopped } from './drafts.ts';

/** @param isOptedOut true if the recipient is currently on the opt-out list of the channel */
export function toDraftResponse(
  draft: StoredDraft,
  createdBy: components['schemas']['Actor'],
  isOptedOut: boolean,
  testMode: boolean,
): components['schemas']['MessageDraft'] {
  const list = chooseBlockList(draft.channel);
  return {
    id: draft.id,
    channel: draft.channel,
    status: draft.status,
    to: draft.recipient,
    from: draft.sender,
    subject: draft.subject,
    body: draft.body,
    object: draft.object,
    record_id: draft.recordId,
    note: draft.note,
    campaign_id: draft.campaignId,
    run_id: draft.runId,
    created_by: createdBy,
    approved_by: toDecider(draft.approvedBy, draft.approvedByName),
    approved_at: draft.approvedAt?.toISOString() ?? null,
    rejected_by: toDecider(draft.rejectedBy, draft.rejectedByName),
    rejected_at: draft.rejectedAt?.toISOString() ?? null,
    rejection_reason: draft.rejectionReason,
    withdrawal_reason: draft.withdrawalReason,
    sent_at: draft.sentAt?.toISOString() ?? null,
    provider_ref: draft.providerRef,
    error: draft.errorCode && { code: draft.errorCode, message: draft.errorMessage ?? '' },
    warnings: isOptedOut ? [{ code: list, message: stopped[list] }] : [],
    test_mode: testMode,
    created_at: draft.createdAt.toISOString(),
    updated_at: draft.updatedAt.toISOString(),
  };
}

/** Returns the person who decided. Only people can approve or reject drafts. */
const toDecider = (id: string | null, name: string | null) =>
  id === null ? null : { kind: 'user' as const, id, name };
