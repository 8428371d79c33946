// The interface of message providers, and the handling of their faults.
import { chooseBlockList, type DraftChannel, type DraftErrorCode, type StoredDraft, stopped } from './drafts.ts';

/** A message to send. */
export interface OutgoingMessage {
  /** The id of its draft, the same for every attempt. */
  id: string;
  channel: DraftChannel;
  recipient: string;
  /**
   * The E.164 sender number of a text, or the reply-to address of an email; null: the address of
   * the service.
   */
  sender: string | null;
  subject: string | null;
  body: string;
  companyName: string;
  /** The page on which the recipient unsubscribes. */
  unsubscribeUrl: string;
  isOfCampaign: boolean;
  /** null: opens and clicks are not tracked. */
  engagement: EngagementUrls | null;
}

/** The tracking URLs of an email. */
export interface EngagementUrls {
  /** The tracking pixel. */
  open: string;
  /** Returns the URL that redirects to a link. */
  click: (url: string) => string;
}

export interface Sender {
  /**
   * @returns the provider's reference
   * @throws SendingFault
   */
  send(message: OutgoingMessage): Promise<string>;
  /**
   * Finds messages like this one that the provider accepted since a time, by their references.
   * Without this function, an attempt with unknown outcome is repeated.
   * @throws SendingFault
   */
  findSent?(message: OutgoingMessage, since: Date): Promise<string[]>;
}

/** undefined: messages of the channel are stored and not sent. */
export type Senders = Readonly<Record<DraftChannel, Sender | undefined>>;

/**
 * refused: the provider rejects the message. said_stop, unknown_recipient: it rejects all messages
 * to this recipient. no_sender: it cannot send from this number. not_sent: a retry may succeed.
 * unknown: the message may have been sent.
 */
export type SendingFaultKind = 'refused' | 'said_stop' | 'unknown_recipient' | 'no_sender' | 'not_sent' | 'unknown';

export class SendingFault extends Error {
  readonly kind: SendingFaultKind;

  /**
   * @param message for the log and, if the fault is final, for people: without addresses and
   * without the provider's own text
   */
  constructor(kind: SendingFaultKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The final outcome of a draft. */
export type SendingOutcome =
  | { status: 'sent'; providerRef: string }
  | { status: 'failed'; code: DraftErrorCode; message: string };

/**
 * References of messages that no provider received: those of test mode, and those of channels
 * without a provider.
 */
export const notSent = { test: 'dry_run', kept: 'kept' } as const;

const minute = 60_000;
/** With the pauses between them, the attempts take a day. */
const maxAttempts = 10;
const maxPauseMinutes = 360;

/**
 * Returns the consequence of a fault.
 * @param attempts including this one
 * @returns the outcome of the draft, or the milliseconds until the retry
 */
export function decideAfterFault({ kind, message }: SendingFault, attempts: number): SendingOutcome | number {
  if (kind === 'no_sender') return { status: 'failed', code: 'no_sender', message };
  if (kind !== 'not_sent' && kind !== 'unknown') return { status: 'failed', code: 'refused', message };
  if (attempts >= maxAttempts)
    return { status: 'failed', code: 'undeliverable', message: 'The provider could not be reached for 24 hours.' };
  return minute * Math.min(3 ** (attempts - 1), maxPauseMinutes);
}

/**
 * Returns the outcome of a draft that used all attempts because servers crashed during them.
 * @param attempts started, including the current one
 * @returns undefined if attempts are left
 */
export function findLostOutcome(attempts: number): SendingOutcome | undefined {
  if (attempts <= maxAttempts) return undefined;
  return { status: 'failed', code: 'undeliverable', message: 'No attempt to send the message was completed.' };
}

/** Appends the unsubscribe link to messages of campaigns. */
export function appendUnsubscribeLink({ body, isOfCampaign, unsubscribeUrl }: OutgoingMessage): string {
  return isOfCampaign ? `${body}\n\n-- \nUnsubscribe: ${unsubscribeUrl}\n` : body;
}

/** Returns why a draft cannot be sent now, in order of precedence; undefined if it can. */
export function findSendingObstacle(
  { channel }: Pick<StoredDraft, 'channel'>,
  asked: { isInboxOn: boolean; isOptedOut: boolean; hasSender: boolean },
): Extract<SendingOutcome, { status: 'failed' }> | undefined {
  const failed = (code: DraftErrorCode, message: string) => ({ status: 'failed' as const, code, message });
  if (!asked.isInboxOn) return failed('module_disabled', 'The workspace no longer has the module inbox.');
  if (asked.isOptedOut) return failed(chooseBlockList(channel), stopped[chooseBlockList(channel)]);
  if (asked.hasSender) return undefined;
  return channel === 'email'
    ? failed('no_sender', 'The user who owns the sender address is no longer active.')
    : failed('no_sender', 'No active phone number can send the message.');
}
