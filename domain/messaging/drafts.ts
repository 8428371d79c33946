// Message drafts: their stored form, their events and their responses.

export const draftChannels = ['sms', 'email', 'whatsapp'] as const;
export type DraftChannel = (typeof draftChannels)[number];

export type DraftStatus = 'draft' | 'approved' | 'sent' | 'failed' | 'rejected' | 'withdrawn';

/** Why a message was not sent. */
export type DraftErrorCode =
  | 'on_dnc_list'
  | 'suppressed_email'
  | 'no_sender'
  | 'module_disabled'
  | 'refused'
  | 'undeliverable';

/** A stored draft. */
export interface StoredDraft {
  id: string;
  channel: DraftChannel;
  status: DraftStatus;
  /** An E.164 number or a lower-case email address. */
  recipient: string;
  sender: string | null;
  subject: string | null;
  body: string;
  object: string | null;
  recordId: string | null;
  note: string | null;
  campaignId: string | null;
  runId: string | null;
  approvedBy: string | null;
  approvedByName: string | null;
  approvedAt: Date | null;
  rejectedBy: string | null;
  rejectedByName: string | null;
  rejectedAt: Date | null;
  rejectionReason: string | null;
  withdrawalReason: string | null;
  sentAt: Date | null;
  providerRef: string | null;
  errorCode: DraftErrorCode | null;
  errorMessage: string | null;
  createdAt: Date;
  updatedAt: Date;
}

type Prepared = Pick<
  StoredDraft,
  'id' | 'channel' | 'recipient' | 'sender' | 'subject' | 'body' | 'object' | 'recordId' | 'note'
>;

/**
 * Creates an undecided draft.
 * @param campaign the campaign and run that created it; null: a caller
 */
export function newDraft(prepared: Prepared, campaign: { id: string; runId: string } | null, now: Date): StoredDraft {
  return {
    ...prepared,
    status: 'draft',
    campaignId: campaign?.id ?? null,
    runId: campaign?.runId ?? null,
    approvedBy: null,
    approvedByName: null,
    approvedAt: null,
    rejectedBy: null,
    rejectedByName: null,
    rejectedAt: null,
    rejectionReason: null,
    withdrawalReason: null,
    sentAt: null,
    providerRef: null,
    errorCode: null,
    errorMessage: null,
    createdAt: now,
    updatedAt: now,
  };
}

/** Builds the event of a status change. */
export function buildDraftEvent(
  draft: Pick<StoredDraft, 'id' | 'channel' | 'object' | 'recordId' | 'campaignId'>,
  from: DraftStatus,
  to: DraftStatus,
  now: Date,
): { name: string; data: Record<string, unknown> } {
  return {
    name: 'message.draft.status_changed',
    data: {
      draft_id: draft.id,
      channel: draft.channel,
      from,
      to,
      ...(draft.recordId === null ? {} : { object: draft.object, record_id: draft.recordId }),
      ...(draft.campaignId === null ? {} : { campaign_id: draft.campaignId }),
      occurred_at: now.toISOString(),
    },
  };
}

/** Maximum characters of a text message. */
export const longestText = 1600;

/** Messages for recipients who have opted out. */
export const stopped = {
  on_dnc_list: 'The recipient is on the do-not-call list.',
  suppressed_email: 'The recipient is on the email suppression list.',
} as const;

/** Returns the opt-out list of a channel. */
export const chooseBlockList = (channel: DraftChannel): keyof typeof stopped =>
  channel === 'email' ? 'suppressed_email' : 'on_dnc_list';
