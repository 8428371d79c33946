// Message drafts: what is kept of them, what is told when one changes, and how they are shown.

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

/** A draft as it is stored. */
export interface StoredDraft {
  id: string;
  channel: DraftChannel;
  status: DraftStatus;
  /** E.164, or an address in lower case. */
  recipient: string;
  sender: string | null;
  subject: string | null;
  body: string;
  object: string | null;
  record_id: string | null;
  note: string | null;
  campaign_id: string | null;
  run_id: string | null;
  approved_by: string | null;
  approved_by_name: string | null;
  approved_at: Date | null;
  rejected_by: string | null;
  rejected_by_name: string | null;
  rejected_at: Date | null;
  rejection_reason: string | null;
  withdrawal_reason: string | null;
  sent_at: Date | null;
  provider_ref: string | null;
  error_code: DraftErrorCode | null;
  error_message: string | null;
  created_at: Date;
  updated_at: Date;
}

type Prepared = Pick<
  StoredDraft,
  'id' | 'channel' | 'recipient' | 'sender' | 'subject' | 'body' | 'object' | 'record_id' | 'note'
>;

/** A draft that nobody has decided about. @param campaign whose run made it; null: somebody did */
export function newDraft(prepared: Prepared, campaign: { id: string; runId: string } | null, now: Date): StoredDraft {
  return {
    ...prepared,
    status: 'draft',
    campaign_id: campaign?.id ?? null,
    run_id: campaign?.runId ?? null,
    approved_by: null,
    approved_by_name: null,
    approved_at: null,
    rejected_by: null,
    rejected_by_name: null,
    rejected_at: null,
    rejection_reason: null,
    withdrawal_reason: null,
    sent_at: null,
    provider_ref: null,
    error_code: null,
    error_message: null,
    created_at: now,
    updated_at: now,
  };
}

/** What subscribers are told when a draft becomes something else. */
export function draftEvent(
  draft: Pick<StoredDraft, 'id' | 'channel' | 'object' | 'record_id' | 'campaign_id'>,
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
      ...(draft.record_id === null ? {} : { object: draft.object, record_id: draft.record_id }),
      ...(draft.campaign_id === null ? {} : { campaign_id: draft.campaign_id }),
      occurred_at: now.toISOString(),
    },
  };
}

/** Characters of a text message. */
export const longestText = 1600;

/** What stands against sending a message to somebody who said stop. */
export const stopped = {
  on_dnc_list: 'The recipient is on the do-not-call list.',
  suppressed_email: 'The recipient is on the email suppression list.',
} as const;

/** Which list the recipients of a channel are looked up in. */
export const listOf = (channel: DraftChannel): keyof typeof stopped =>
  channel === 'email' ? 'suppressed_email' : 'on_dnc_list';
