// Opens and clicks of emails that were sent: noted once, told, and counted, whoever reports them.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { approveDraft, draftsToApprove } from '../../writes/draft-approvals.ts';
import { openPeople } from '../support/approvals.ts';
import { expectStatus, type Json, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { toldEvents } from '../support/events.ts';
import { inboundSecret } from '../support/inbound.ts';
import { newCampaign, newDraft } from '../support/messaging.ts';
import { listChildren } from '../support/record-children.ts';
import { createRecord } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { testSettings } from '../support/setup.ts';
import { startSmtp, type TestSmtp } from '../support/smtp.ts';
import { database, type Tenant, useDatabase } from '../support/tenants.ts';

const patience = { timeout: 20_000, interval: 50 };

// A database of their own: another server would send through nobody what this one sends.
let databaseUrl: string;
let smtp: TestSmtp;
let server: TestServer;
let people: ReturnType<typeof openPeople>;
let tenant: Tenant;

beforeAll(async () => {
  databaseUrl = await newDatabase();
  await useDatabase(databaseUrl);
  smtp = await startSmtp();
  const own = { DATABASE_URL: databaseUrl, SMTP_URL: `smtp://127.0.0.1:${smtp.port}` };
  server = await startServer({ ...testSettings, SECRET_KEY: '5e'.repeat(32), ...own });
  useServer(server.url);
  people = openPeople(databaseUrl);
  tenant = await newWideTenant();
}, 60_000);

afterAll(async () => {
  await people?.close();
  await server?.stop();
  await smtp?.stop();
  await useDatabase(undefined);
  useServer(undefined);
  await dropDatabase(databaseUrl);
}, 60_000);

/** An email that was sent to a lead of the tenant. @param campaignId of a campaign that it is taken for one of */
async function sent(
  more: { body?: string; campaignId?: string; of?: Tenant } = {},
): Promise<{ draft: Json; lead: Json; raw: string }> {
  const of = more.of ?? tenant;
  const email = `${randomUUID()}@bluelake.example`;
  const lead = await createRecord(of.key, 'leads', { first_name: 'Sara', email });
  const draft = await newDraft(of.key, {
    ...{ channel: 'email', to: email, subject: 'Your quote', body: more.body ?? 'Hello Sara' },
    ...{ object: 'leads', record_id: lead.id },
  });
  if (more.campaignId)
    await database()`update message_drafts set campaign_id = ${more.campaignId} where id = ${draft.id}`;
  await people.decide(of, async (call) => {
    const found = (await draftsToApprove(call, undefined, 50)).find((each) => each.draft.id === draft.id);
    await approveDraft(call, draft.id, found?.draft.hash ?? '');
  });
  const read = async (): Promise<Json> =>
    (await expectStatus(200, 'GET', `/v1/messages/drafts/${draft.id}`, { key: of.key })).body.data.draft;
  await expect.poll(read, patience).toMatchObject({ status: 'sent' });
  const raw = smtp.received.find(({ recipients }) => recipients.includes(email))?.raw ?? '';
  return { draft, lead, raw };
}

/** What the timeline of a lead says of its only message. */
async function messageOf(lead: Json): Promise<Json> {
  const { messages } = await listChildren(tenant.key, 'leads', lead.id, 'messages');
  expect(messages).toHaveLength(1);
  return messages[0];
}

const toldOf = (draft: Json): Promise<Json[]> =>
  database()`
    select data, actor, test_mode from ${toldEvents(database())}
    where event = 'message.email.engagement' and data ->> 'message_id' = ${draft.id}
    order by occurred_at, id` as never;

async function figuresOf(campaign: Json): Promise<Json> {
  const { body } = await expectStatus(200, 'GET', `/v1/campaigns/${campaign.id}`, { key: tenant.key });
  return body.data.stats[0].by_status;
}

describe('what a provider reports', () => {
  async function report(more: object): Promise<void> {
    const body = { type: 'email_engagement', external_id: randomUUID(), to: 'sara@bluelake.example', ...more };
    const signedWith = await inboundSecret(tenant, 'live');
    const query = { company_id: tenant.companyId };
    await expectStatus(200, 'POST', '/v1/inbound/generic', { body, signedWith, query });
  }

  test('is in the timeline and in the figures of the campaign, each email once', async () => {
    const campaign = await newCampaign(tenant.key);
    const [first, second] = [await sent({ campaignId: campaign.id }), await sent({ campaignId: campaign.id })];
    expect(await figuresOf(campaign)).toMatchObject({ sent: 2, opened: 0, clicked: 0 });
    await report({ engagement: 'open', message_id: first.draft.id });
    await report({ engagement: 'click', message_id: second.draft.id });
    expect(await messageOf(first.lead)).toMatchObject({ id: first.draft.id, status: 'opened' });
    // Whoever clicked has opened it, and stays one who clicked.
    for (const _ of [1, 2]) await report({ engagement: 'open', message_id: second.draft.id });
    expect((await messageOf(second.lead)).status).toBe('clicked');
    expect(await figuresOf(campaign)).toMatchObject({ sent: 2, opened: 2, clicked: 1 });
    expect((await toldOf(first.draft))[0]?.data).toMatchObject({ campaign_id: campaign.id, record_id: first.lead.id });
  });

  test('says nothing of an email that came in', async () => {
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'A', email: `${randomUUID()}@x.example` });
    await report({
      ...{ type: 'email', from: lead.email, to: 'sales@x.example', body: 'Hello' },
    });
    const { id } = await messageOf(lead);
    await report({ engagement: 'open', message_id: id });
    expect((await messageOf(lead)).status).toBe('received');
  });
});
