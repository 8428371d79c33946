// Campaigns: their stored form, and the messages that a run prepares for a record.
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
  /** For emails. */
  from: string | null;
  subject: string | null;
  body: string;
}

/** A stored campaign. */
export interface StoredCampaign {
  id: string;
  name: string;
  description: string | null;
  status: CampaignStatus;
  object: CampaignObject;
  /** As sent by the client. */
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

/** The content of a run: a copy of its campaign at the start. */
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

/** A stored run. */
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

/**
 * Copies the current content of a campaign for a run.
 * @param findNumber returns the phone number of an id
 */
export function parseContent(
  { object, filter, channels }: Pick<StoredCampaign, 'object' | 'filter' | 'channels'>,
  findNumber: (id: string) => string | undefined,
): RunContent {
  return {
    object,
    filter,
    channels: channels
      .filter(({ enabled }) => enabled)
      .map(({ channel_type: channel, phone_number_id: id, from, subject, body }) => ({
        channel,
        sender: channel === 'email' ? from : id === null ? null : (findNumber(id) ?? null),
        subject,
        body,
      })),
  };
}

/** The fields that contain the recipient. The first one with a value is used. */
const addressFields: Readonly<Record<CampaignObject, Readonly<Record<'email' | 'phone', readonly string[]>>>> = {
  leads: { email: ['email'], phone: ['mobile'] },
  customers: { email: ['email'], phone: ['mobile', 'phone'] },
  accounts: { email: ['email'], phone: ['phone'] },
};

/** Returns the recipient for a record; undefined if the record has no such address. */
export function findRecipient(
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

/** Maximum lengths for display and for providers. */
const maxLengths = { subject: 200, body: 20_000 } as const;

/** Prepares the messages for a record: one for each channel for which it has an address. */
export function buildMessages(
  content: RunContent,
  object: WorkspaceObject,
  record: { id: string; values: Readonly<Record<string, StoredValue | undefined>> },
): PreparedMessage[] {
  return content.channels.flatMap(({ channel, sender, subject, body }) => {
    const recipient = findRecipient(content.object, channel, record.values);
    if (recipient === undefined) return [];
    const fill = (text: string): string => fillPlaceholders(text, object, record.values);
    return [
      {
        channel,
        recipient,
        sender,
        recordId: record.id,
        // The subject stays one line, regardless of the record's values.
        subject: subject && fill(subject).replace(/\s+/g, ' ').slice(0, maxLengths.subject),
        body: fill(body).slice(0, channel === 'sms' ? longestText : maxLengths.body),
      },
    ];
  });
}

/** The number of drafts by status, and of messages in statuses that only providers report. */
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

/** Creates a run. */
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

/** Returns the changes of a campaign when a run starts. */
export const buildStartChanges = (now: Date) =>
  ({
    status: 'running',
    scheduled_at: null,
    started_at: now,
    completed_at: null,
    due_at: now,
    updated_at: now,
  }) as const;
