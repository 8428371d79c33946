// The services of the message jobs, and drafts for them, without a server.
import { v7 as uuidv7 } from 'uuid';
import { openSenders } from '../../app/message-senders.ts';
import { Pool } from '../../db/client/pool.ts';
import { decideDrafts } from '../../db/messaging/draft-decisions.ts';
import { insertDraft } from '../../db/messaging/drafts.ts';
import { insertPhoneNumber } from '../../db/messaging/phone-numbers.ts';
import { type DraftChannel, newDraft } from '../../domain/messaging/drafts.ts';
import { openMailTransport } from '../../integrations/smtp/transport.ts';
import type { MessageServices } from '../../jobs/messaging/message-sending.ts';
import type { JobPools } from '../../jobs/runner.ts';
import { readConfig } from '../../runtime/config.ts';
import { OutgoingClient } from '../../runtime/outbound/client.ts';
import { rowDatabase, type Tenant } from './tenants.ts';

/**
 * @param url of the database
 * @param smtpUrl as SMTP_URL
 * @param messagingUrl as MESSAGING_URL
 */
export async function openMessageServer(
  url: string,
  smtpUrl: string,
  messagingUrl: string,
): Promise<{ pools: JobPools; services: MessageServices; close(): Promise<void> }> {
  const { mailServer, messagingProvider: provider } = readConfig({ SMTP_URL: smtpUrl, MESSAGING_URL: messagingUrl });
  const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 5000 };
  const platform = new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
  const tenants = new Pool({ ...shared, role: 'crm_app', name: 'messages', lanes: 4 });
  const transport = mailServer && (await openMailTransport(mailServer));
  const client = new OutgoingClient({ privateAddresses: 'allowed' });
  const from = 'crm@example.com';
  return {
    pools: { platform, tenants },
    services: {
      senders: openSenders({ transport, from, client, provider }),
      unsubscribeUrl: (_scope, id) => `https://crm.example/unsubscribe/${id}`,
      engagementUrls: (_companyId, id) => ({
        open: `https://crm.example/opened/${id}`,
        click: (url) => `https://crm.example/clicked/${id}?${url}`,
      }),
    },
    async close() {
      transport?.close();
      await Promise.all([platform.close(1), tenants.close(1)]);
    },
  };
}

/**
 * Creates a draft about a record.
 * @param isApproved by the administrator of the tenant
 * @returns its id
 */
export async function newStoredDraft(
  { companyId, admin }: Tenant,
  channel: DraftChannel,
  recipient: string,
  isApproved: boolean,
  now = new Date(),
): Promise<string> {
  const scope = { companyId, testMode: false };
  const id = uuidv7();
  const text = { subject: channel === 'email' ? 'Your quote' : null, body: `Hello ${id}`, sender: null, note: null };
  const draft = newDraft({ id, channel, recipient, ...text, object: 'leads', recordId: uuidv7() }, null, now);
  const by = { actor: { kind: 'system' as const, id: 'tests', name: null }, userId: null };
  await rowDatabase().begin(async (sql) => {
    await insertDraft(sql, scope, draft, by);
    const decided = { decision: 'approved' as const, userId: admin.id, userName: 'Ada Admin', reason: null, at: now };
    if (isApproved) await decideDrafts(sql, scope, [id], decided);
  });
  return id;
}

/** Creates the sending number of a tenant. */
export async function newDefaultNumber({ companyId }: Tenant, number: string, now = new Date()): Promise<void> {
  await insertPhoneNumber(
    rowDatabase(),
    { companyId, testMode: false },
    {
      id: uuidv7(),
      phoneNumber: number,
      friendlyName: null,
      country: null,
      numberType: 'local',
      canSms: true,
      canVoice: false,
      canFax: false,
      status: 'active',
      monthlyCostMinor: 0,
      currency: 'EUR',
      isDefault: true,
      isDefaultFax: false,
      assignedUserId: null,
      createdAt: now,
      updatedAt: now,
    },
  );
}
