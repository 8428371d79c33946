// Campaigns: what is kept of them, and what a run prepares for a record.
import type { StoredValue } from '../objects/field-values.ts';
import { fillPlaceholders } from '../objects/placeholders.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';
import { type DraftChannel, type DraftStatus, longestText } from './drafts.ts';

export type CampaignStatus = 'draft' | 'scheduled' | 'running' | 'paused' | 'completed' | 'cancelled';
type RunStatus = 'queued' | 'running' | 'completed' | 'failed' | 'cancelled';
export type CampaignObject = 'leads' | 'customers' | 'accounts';

export interface CampaignChannel {
  channel_type: DraftChannel;
  enabled: boolean;
  phone_number_id: string | null;
  /** Of emails. */
  from: string | null;
  subject: string | null;
  body: string;
}

/** A campaign as it is stored. */
export interface StoredCampaign {
  id: string;
  name: string;
  description: string | null;
  status: CampaignStatus;
  object: CampaignObject;
  /** As it was sent. */
  filter: object | null;
  channels: readonly CampaignChannel[];
  audienceSize: number | null;
  scheduledAt: Date | null;
  startedAt: Date | null;
  completedAt: Date | null;
  dueAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

/** What a run prepares, as its campaign was when it began. */
export interface RunContent {
  object: CampaignObject;
  filter: object | null;
  channels: readonly {
    channel: DraftChannel;
    /** null: the default. */
    sender: string | null;
    subject: string | null;
    body: string;
  }[];
}

/** A run as it is stored. */
export interface StoredRun {
  id: string;
  campaignId: string;
  status: RunStatus;
  content: RunContent;
  contentHash: Buffer | null;
  lastRecord: string | null;
  audience: number;
  total: number;
  skipped: number;
  errorSummary: string | null;
  startedAt: Date | null;
  finishedAt: Date | null;
  createdAt: Date;
}

/** What a run makes of a campaign as it is now. @param numberOf the number of a phone number's id */
export function contentOf(
  { object, filter, channels }: Pick<StoredCampaign, 'object' | 'filter' | 'channels'>,
  numberOf: (id: string) => string | undefined,
): RunContent {
  return {
    object,
    filter,
    channels: channels
      .filter(({ enabled }) => enabled)
      .map(({ channel_type: channel, phone_number_id: id, from, subject, body }) => ({
        channel,
        sender: channel === 'email' ? from : id === null ? null : (numberOf(id) ?? null),
        subject,
        body,
      })),
  };
}

/** Fields that a channel finds its recipient in, the first that has a value first. */
const addressFields: Readonly<Record<CampaignObject, Readonly<Record<'email' | 'phone', readonly string[]>>>> = {
  leads: { email: ['email'], phone: ['mobile'] },
  customers: { email: ['email'], phone: ['mobile', 'phone'] },
  accounts: { email: ['email'], phone: ['phone'] },
};

/** Whom a message about a record goes to; undefined where the record has no address of the kind. */
export function addressOf(
  object: CampaignObject,
  channel: DraftChannel,
  values: Readonly<Record<string, StoredValue | undefined>>,
): string | undefined {
  const [name] = addressFields[object][channel === 'email' ? 'email' : 'phone'].filter((field) => values[field]);
  return name === undefined ? undefined : String(values[name]);
}

/** A message for one recipient. */
export interface PreparedMessage {
  channel: DraftChannel;
  recipient: string;
  sender: string | null;
  subject: string | null;
  body: string;
  recordId: string;
}

/** Lengths of what people are shown and providers take. */
const longest = { subject: 200, body: 20_000 } as const;

/** The messages for a record, one for each channel that it has an address for. */
export function messagesFor(
  content: RunContent,
  object: WorkspaceObject,
  record: { id: string; values: Readonly<Record<string, StoredValue | undefined>> },
): PreparedMessage[] {
  return content.channels.flatMap(({ channel, sender, subject, body }) => {
    const recipient = addressOf(content.object, channel, record.values);
    if (recipient === undefined) return [];
    const fill = (text: string): string => fillPlaceholders(text, object, record.values);
    return [
      {
        channel,
        recipient,
        sender,
        recordId: record.id,
        // One line, whatever a record holds.
        subject: subject && fill(subject).replace(/\s+/g, ' ').slice(0, longest.subject),
        body: fill(body).slice(0, channel === 'sms' ? longestText : longest.body),
      },
    ];
  });
}

/** How many drafts are in which status, and how many messages in one that only a provider reports. */
export type StatusCounts = Record<DraftStatus | 'queued' | 'delivered', number>;

export const noDrafts: StatusCounts = {
  draft: 0,
  approved: 0,
  sent: 0,
  failed: 0,
  rejected: 0,
  withdrawn: 0,
  // No connected provider reports these two yet.
  queued: 0,
  delivered: 0,
};

/** A run that is about to begin. */
export function newRun(id: string, campaignId: string, content: RunContent, now: Date): StoredRun {
  return {
    id,
    campaignId,
    status: 'queued',
    content,
    contentHash: null,
    lastRecord: null,
    audience: 0,
    total: 0,
    skipped: 0,
    errorSummary: null,
    startedAt: null,
    finishedAt: null,
    createdAt: now,
  };
}

/** What becomes of a campaign when a run of it is to begin. */
export const begun = (now: Date) =>
  ({
    status: 'running',
    scheduled_at: null,
    started_at: now,
    completed_at: null,
    due_at: now,
    updated_at: now,
  }) as const;
