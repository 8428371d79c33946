// Who brings messages to people, behind one interface, and what becomes of an attempt.
import { type DraftChannel, type DraftErrorCode, listOf, type StoredDraft, stopped } from './drafts.ts';

/** A message as it leaves. */
export interface OutgoingMessage {
  /** Of its draft: every attempt goes by the same name. */
  id: string;
  channel: DraftChannel;
  recipient: string;
  /** The number that a text comes from, in E.164; the address that an email is answered to; null: that of the service. */
  sender: string | null;
  subject: string | null;
  body: string;
  companyName: string;
  /** Where the recipient says stop. */
  unsubscribeUrl: string;
  isOfCampaign: boolean;
  /** null: what becomes of it is not noted. */
  engagement: EngagementUrls | null;
}

/** Addresses of ours that an email leads through, so that it is noted what becomes of it. */
export interface EngagementUrls {
  /** Of a picture that nobody sees. */
  open: string;
  /** Leads on to another address. */
  click: (url: string) => string;
}

export interface Sender {
  /**
   * @returns what the provider calls it
   * @throws SendingFault
   */
  send(message: OutgoingMessage): Promise<string>;
  /**
   * What the provider calls the messages like this one that it took since a moment. Where it cannot be asked, an attempt of which nobody
   * knows the end is made again.
   * @throws SendingFault
   */
  findSent?(message: OutgoingMessage, since: Date): Promise<string[]>;
}

/** undefined: messages of the channel are kept, and nobody receives them. */
export type Senders = Readonly<Record<DraftChannel, Sender | undefined>>;

/**
 * refused: the provider does not take it. said_stop and unknown_recipient: nor anything else for this recipient. no_sender: it does not send from
 * this number. not_sent: another time it may. unknown: nobody knows whether it was sent.
 */
export type SendingFaultKind = 'refused' | 'said_stop' | 'unknown_recipient' | 'no_sender' | 'not_sent' | 'unknown';

export class SendingFault extends Error {
  readonly kind: SendingFaultKind;

  /** @param message for the log and, where it is final, for people: without addresses, and without the provider's own words */
  constructor(kind: SendingFaultKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** What the draft of a message ends with. */
export type SendingOutcome =
  | { status: 'sent'; providerRef: string }
  | { status: 'failed'; code: DraftErrorCode; message: string };

/** What the references of messages say that no provider took: those of test mode, and those that there is no provider for. */
export const notSent = { test: 'dry_run', kept: 'kept' } as const;

const minute = 60_000;
/** Together with the pauses between them a day. */
const mostAttempts = 10;
const longestPause = 360;

/**
 * What follows a fault.
 * @param attempts that were made, this one included
 * @returns how the draft ends, or the milliseconds until it is tried again
 */
export function afterFault({ kind, message }: SendingFault, attempts: number): SendingOutcome | number {
  if (kind === 'no_sender') return { status: 'failed', code: 'no_sender', message };
  if (kind !== 'not_sent' && kind !== 'unknown') return { status: 'failed', code: 'refused', message };
  if (attempts >= mostAttempts)
    return { status: 'failed', code: 'undeliverable', message: 'The provider could not be reached for 24 hours.' };
  return minute * Math.min(3 ** (attempts - 1), longestPause);
}

/**
 * How a draft ends of which more attempts were begun than it has, because servers died in the middle of them.
 * @param attempts that were begun, the present one included
 * @returns undefined if the draft has attempts left
 */
export function afterLostAttempts(attempts: number): SendingOutcome | undefined {
  if (attempts <= mostAttempts) return undefined;
  return { status: 'failed', code: 'undeliverable', message: 'No attempt to send the message was completed.' };
}

/** A last line for who was written to by a campaign. */
export function textWithLink({ body, isOfCampaign, unsubscribeUrl }: OutgoingMessage): string {
  return isOfCampaign ? `${body}\n\n-- \nUnsubscribe: ${unsubscribeUrl}\n` : body;
}

/** What stands against sending a draft now, in the order in which it is asked; undefined where nothing does. */
export function objectionTo(
  { channel }: Pick<StoredDraft, 'channel'>,
  asked: { isInboxOn: boolean; saidStop: boolean; hasSender: boolean },
): Extract<SendingOutcome, { status: 'failed' }> | undefined {
  const failed = (code: DraftErrorCode, message: string) => ({ status: 'failed' as const, code, message });
  if (!asked.isInboxOn) return failed('module_disabled', 'The workspace no longer has the module inbox.');
  if (asked.saidStop) return failed(listOf(channel), stopped[listOf(channel)]);
  if (asked.hasSender) return undefined;
  return channel === 'email'
    ? failed('no_sender', 'The user who owns the sender address is no longer active.')
    : failed('no_sender', 'No active phone number can send the message.');
}
