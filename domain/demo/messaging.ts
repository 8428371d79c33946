// Messages of the demo workspace: sent, received, and scheduled.
import {
  type CampaignChannel,
  newRun,
  type RunContent,
  type StoredCampaign,
  type StoredRun,
} from '../messaging/campaigns.ts';
import { newDraft, type StoredDraft } from '../messaging/drafts.ts';
import type { DemoData } from './data.ts';
import { exampleIds } from './ids.ts';
import { addDays, Random } from './random.ts';
import { demoCompany } from './workspace.ts';

export interface DemoMessaging {
  drafts: StoredDraft[];
  doNotCall: { id: string; phoneNumber: string; reason: string }[];
  suppressed: { id: string; email: string; reason: 'unsubscribed' | 'bounced' | 'manual' }[];
  phoneNumbers: { id: string; phoneNumber: string; friendlyName: string; isDefault: boolean }[];
  campaigns: StoredCampaign[];
  runs: StoredRun[];
  messages: DemoMessage[];
}

/** A message of a lead's timeline. */
interface DemoMessage {
  id: string;
  object: 'leads';
  recordId: string;
  channel: 'email' | 'sms';
  direction: 'inbound' | 'outbound';
  sender: string | null;
  recipient: string | null;
  subject: string | null;
  body: string;
  status: 'received' | 'sent';
  occurredAt: Date;
}

const offer: CampaignChannel = {
  channel_type: 'email',
  enabled: true,
  phone_number_id: null,
  from: null,
  subject: 'Our winter offer',
  body: 'Hello {{first_name}}, until the end of January the roof survey is free.',
};

/** The same seed, data and time give the same messages. */
export function buildDemoMessaging(seed: number, { leads }: DemoData, now: Date): DemoMessaging {
  const random = new Random(seed);
  const reached = leads.filter(({ email, lead_status }) => email !== null && lead_status !== 'Disqualified');
  const [first, ...others] = reached;
  const yesterday = addDays(now, -1);
  const campaign = (id: string, name: string, more: Partial<StoredCampaign>): StoredCampaign => ({
    id,
    name,
    description: null,
    status: 'draft',
    object: 'leads',
    filter: null,
    channels: [offer],
    audienceSize: null,
    scheduledAt: null,
    startedAt: null,
    completedAt: null,
    dueAt: null,
    createdAt: addDays(now, -3),
    updatedAt: addDays(now, -3),
    ...more,
  });
  // Far ahead, so that readers of the documentation still find it in the future.
  const later = addDays(now, 3650);
  const ofBerlin = { field: 'city', op: 'eq', value: 'Berlin' };
  const written = others.slice(0, 12);
  const content: RunContent = {
    object: 'leads',
    filter: null,
    channels: [{ channel: 'email', sender: null, subject: offer.subject, body: offer.body }],
  };
  const drafts = [
    newDraft(
      {
        id: exampleIds.messageDraft,
        channel: 'email',
        recipient: first?.email ?? 'sara@bluelake.example',
        sender: null,
        subject: 'Your quote',
        body: 'Hello, here is the quote for 30 seats.',
        object: first ? 'leads' : null,
        recordId: first?.id ?? null,
        note: 'Asked for on the phone',
      },
      null,
      yesterday,
    ),
    ...written.map((lead) =>
      newDraft(
        {
          id: random.uuid(yesterday),
          channel: 'email',
          recipient: lead.email ?? '',
          sender: null,
          subject: offer.subject,
          body: offer.body.replace('{{first_name}}', lead.first_name ?? ''),
          object: 'leads',
          recordId: lead.id,
          note: null,
        },
        { id: exampleIds.campaign, runId: exampleIds.campaignRun },
        yesterday,
      ),
    ),
  ];
  const desk = '+4930901820100';
  const mail = demoCompany.email;
  const message = (
    lead: (typeof leads)[number],
    days: number,
    more: Pick<DemoMessage, 'channel' | 'direction' | 'body'>,
  ): DemoMessage => {
    const isText = more.channel === 'sms';
    const [ours, theirs] = isText ? [desk, lead.mobile] : [mail, lead.email];
    const isInbound = more.direction === 'inbound';
    return {
      id: random.uuid(addDays(now, -days)),
      object: 'leads',
      recordId: lead.id,
      ...more,
      sender: isInbound ? theirs : ours,
      recipient: isInbound ? ours : theirs,
      subject: isText ? null : `${isInbound ? 'Re: ' : ''}Your roof`,
      status: isInbound ? 'received' : 'sent',
      occurredAt: addDays(now, -days),
    };
  };
  const [one, two] = reached.filter(({ mobile }) => mobile !== null);
  const messages =
    one && two
      ? [
          message(one, 6, { channel: 'email', direction: 'outbound', body: 'When may we have a look at your roof?' }),
          message(one, 5, { channel: 'email', direction: 'inbound', body: 'Any morning of next week would do.' }),
          message(one, 2, { channel: 'sms', direction: 'inbound', body: 'Can we move to Thursday?' }),
          message(two, 4, { channel: 'sms', direction: 'outbound', body: 'Your quote is in your mailbox.' }),
          message(two, 3, { channel: 'sms', direction: 'inbound', body: 'Got it, thank you. Is storage included?' }),
        ]
      : [];
  return {
    drafts,
    messages,
    doNotCall: [{ id: exampleIds.dncEntry, phoneNumber: '+4930901820099', reason: 'Asked on the phone' }],
    suppressed: [
      { id: exampleIds.suppression, email: 'unsubscribed@bluelake.example', reason: 'unsubscribed' },
      { id: random.uuid(now), email: 'gone@bluelake.example', reason: 'bounced' },
    ],
    phoneNumbers: [
      { id: exampleIds.phoneNumber, phoneNumber: '+4930901820100', friendlyName: 'Front desk', isDefault: true },
      {
        id: exampleIds.phoneNumberToRelease,
        phoneNumber: '+4930901820101',
        friendlyName: 'Engineering',
        isDefault: false,
      },
    ],
    campaigns: [
      campaign(exampleIds.campaign, 'Winter offer', {
        status: 'completed',
        description: 'Leads that asked for an offer in autumn',
        audienceSize: written.length,
        startedAt: yesterday,
        completedAt: yesterday,
      }),
      campaign(exampleIds.campaignToChange, 'Spring offer', {}),
      campaign(exampleIds.campaignToPause, 'Summer offer', { status: 'scheduled', scheduledAt: later, dueAt: later }),
      campaign(exampleIds.campaignToResume, 'Autumn offer', { status: 'paused', scheduledAt: later }),
      campaign(exampleIds.campaignToCancel, 'Old offer', {}),
      campaign(exampleIds.campaignToRun, 'Berlin offer', { filter: ofBerlin }),
    ],
    runs: [
      { id: exampleIds.campaignRun, campaignId: exampleIds.campaign, total: written.length },
      { id: random.uuid(yesterday), campaignId: exampleIds.campaignToRun, total: 0 },
    ].map(({ id, campaignId, total }) => ({
      ...newRun(id, campaignId, content, yesterday),
      status: 'completed',
      audience: total,
      total,
      startedAt: yesterday,
      finishedAt: yesterday,
    })),
  };
}
