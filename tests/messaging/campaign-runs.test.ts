// Campaign runs: prepared messages, recipients, and what a cancellation withdraws.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { runCampaigns } from '../../jobs/messaging/campaigns.ts';
import type { JobPools } from '../../jobs/runner.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { newCampaign, newDraft, newPhoneNumber, someNumber } from '../support/messaging.ts';
import { createRecords, newCustomField } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, type Tenant } from '../support/tenants.ts';

const servers: JobPools[] = [];

beforeAll(() => {
  const shared = { url: inject('databaseUrl'), prepare: true, spread: false, wait: 10_000, statementTimeout: 5000 };
  for (const _ of [1, 2]) {
    const platform = new Pool({ ...shared, role: 'crm_platform', lanes: 1 });
    const tenants = new Pool({ ...shared, role: 'crm_app', name: 'campaigns', lanes: 1 });
    servers.push({ platform, tenants });
  }
});
afterAll(() => Promise.all(servers.flatMap(({ platform, tenants }) => [platform.close(1), tenants.close(1)])));

const begin = (tenant: Tenant, campaign: Json) =>
  call('POST', `/v1/campaigns/${campaign.id}/runs`, { key: tenant.key, idempotencyKey: true });
const read = async (tenant: Tenant, campaign: Json): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/campaigns/${campaign.id}`, { key: tenant.key })).body.data;

/** Lets two additional servers process the campaign to its end. @returns the campaign */
async function ended(tenant: Tenant, campaign: Json): Promise<Json> {
  await Promise.all(servers.map((pools) => runCampaigns(buildJobContext('campaigns', pools))));
  await expect.poll(async () => (await read(tenant, campaign)).campaign.status).toMatch(/completed|cancelled/);
  return read(tenant, campaign);
}

const readDrafts = (campaign: Json) => database()<Json[]>`
  select channel, recipient, sender, subject, body, status, object, record_id, created_by_name from message_drafts
  where campaign_id = ${campaign.id} order by recipient`;

describe('a run', () => {
  test('prepares a message for each recipient and sends nothing', async () => {
    const tenant = await newWideTenant();
    const number = await newPhoneNumber(tenant.key);
    const [ada, ben] = await createRecords(tenant.key, 'leads', [
      { first_name: 'Ada', city: 'Berlin', email: 'ada@x.example', mobile: '+971501111111' },
      { first_name: 'Ben', city: 'Berlin', email: 'ben@x.example' },
      { first_name: 'Cem', city: 'Paris', email: 'cem@x.example' },
    ]);
    const channels = [
      {
        channel_type: 'email',
        subject: 'For {{first_name}}',
        body: 'Hello {{ first_name }} of {{city}}{{job_title}}!',
      },
      { channel_type: 'sms', phone_number_id: number.id, body: '{{first_name}}, look into your mailbox.' },
      { channel_type: 'whatsapp', enabled: false, body: 'Hello' },
    ];
    const filter = { field: 'city', op: 'eq', value: 'Berlin' };
    const campaign = await newCampaign(tenant.key, { filter, channels });
    const { run } = (await begin(tenant, campaign)).body.data;
    expect(run).toMatchObject({ campaign_id: campaign.id, total: 0, sent: 0, failed: 0 });
    const after = await ended(tenant, campaign);
    expect(after.campaign).toMatchObject({ status: 'completed', audience_size: 2 });
    expect(after.latest_runs).toMatchObject([
      { id: run.id, status: 'completed', total: 3, skipped: 1, error_summary: null },
    ]);
    expect(after.stats).toMatchObject([
      { channel_type: 'sms', total: 1, by_status: { draft: 1, sent: 0 } },
      { channel_type: 'email', total: 2, by_status: { draft: 2, sent: 0 } },
    ]);
    const own = { status: 'draft', object: 'leads', created_by_name: run.created_by.name };
    expect(await readDrafts(campaign)).toEqual([
      {
        ...own,
        channel: 'sms',
        recipient: '+971501111111',
        sender: number.phone_number,
        subject: null,
        body: 'Ada, look into your mailbox.',
        record_id: ada?.id,
      },
      {
        ...own,
        channel: 'email',
        recipient: 'ada@x.example',
        sender: null,
        subject: 'For Ada',
        body: 'Hello Ada of Berlin!',
        record_id: ada?.id,
      },
      {
        ...own,
        channel: 'email',
        recipient: 'ben@x.example',
        sender: null,
        subject: 'For Ben',
        body: 'Hello Ben of Berlin!',
        record_id: ben?.id,
      },
    ]);
    const listed = await expectStatus(200, 'GET', `/v1/campaigns/${campaign.id}/runs`, { key: tenant.key });
    expect(listed.body.data.runs).toEqual(after.latest_runs);
    const drafts = await expectStatus(200, 'GET', '/v1/messages/drafts', { key: tenant.key });
    expect(drafts.body.data.drafts[0]).toMatchObject({ campaign_id: campaign.id, run_id: run.id });
  });

  test('skips records without an address, with a repeated one, and with an opt-out', async () => {
    const tenant = await newWideTenant();
    const [listed, twice] = [someNumber(), someNumber()];
    await createRecords(tenant.key, 'leads', [
      { first_name: 'Mail', email: 'mail@x.example' },
      { first_name: 'Once', email: 'once@x.example', mobile: twice },
      { first_name: 'Again', email: 'ONCE@x.example', mobile: twice },
      { first_name: 'Stop', email: 'stop@x.example', mobile: listed },
    ]);
    await expectStatus(201, 'POST', '/v1/dnc-list', { key: tenant.key, body: { phone_number: listed } });
    await expectStatus(201, 'POST', '/v1/email-suppression', { key: tenant.key, body: { email: 'stop@x.example' } });
    const channels = [
      { channel_type: 'email', subject: 'Offer', body: 'Hello' },
      { channel_type: 'whatsapp', body: 'Hello' },
    ];
    const campaign = await newCampaign(tenant.key, { channels });
    await begin(tenant, campaign);
    const { latest_runs: runs } = await ended(tenant, campaign);
    expect(runs).toMatchObject([{ total: 3, skipped: 5 }]);
    expect((await readDrafts(campaign)).map(({ recipient }) => recipient)).toEqual([
      twice,
      'mail@x.example',
      'once@x.example',
    ]);
  });

  test('prepares one message per record over several pages on three servers', async () => {
    const tenant = await newWideTenant();
    await database()`
      insert into leads (company_id, test_mode, id, first_name, email, created_by_kind, created_by_id, created_at, updated_at)
      select ${tenant.companyId}, false, gen_random_uuid(), 'Lead ' || n, n || '@x.example', 'system', 'test', now(), now()
      from generate_series(1, 3500) n`;
    const campaigns = [await newCampaign(tenant.key), await newCampaign(tenant.key)];
    for (const campaign of campaigns) await begin(tenant, campaign);
    for (const campaign of campaigns) {
      const after = await ended(tenant, campaign);
      expect(after.campaign.audience_size).toBe(3500);
      expect(after.latest_runs).toMatchObject([{ status: 'completed', total: 3500, skipped: 0 }]);
      const [row] = await database()`
        select count(*)::int as drafts, count(distinct recipient)::int as recipients from message_drafts where campaign_id = ${campaign.id}`;
      expect(row).toEqual({ drafts: 3500, recipients: 3500 });
    }
  });

  test('keeps the texts and the audience of the start of a run', async () => {
    const tenant = await newWideTenant();
    await createRecords(tenant.key, 'leads', [{ first_name: 'Ada', email: 'ada@x.example' }]);
    const campaign = await newCampaign(tenant.key);
    await begin(tenant, campaign);
    await ended(tenant, campaign);
    const body = { channels: [{ channel_type: 'email', subject: 'Other', body: 'Other' }] };
    await expectStatus(200, 'PATCH', `/v1/campaigns/${campaign.id}`, { key: tenant.key, body });
    expect(await readDrafts(campaign)).toMatchObject([{ subject: 'Offer', body: 'Hello Ada' }]);
    await begin(tenant, campaign);
    const { latest_runs: runs } = await ended(tenant, campaign);
    expect(runs).toMatchObject([{ total: 1 }, { total: 1 }]);
    expect((await readDrafts(campaign)).map(({ subject }) => subject).toSorted()).toEqual(['Offer', 'Other']);
  });

  test('selects its audience by relative dates, beginnings of texts and their negation', async () => {
    const own = await newWideTenant();
    await createRecords(own.key, 'leads', [
      { first_name: 'Ada', email: 'ada@x.example' },
      { first_name: 'Ben', email: 'ben@x.example' },
    ]);
    const recent = { field: 'created_at', op: 'eq', value: { relative: 'last_2_days' } };
    const sizes: number[] = [];
    for (const filter of [recent, { not: recent }, { field: 'first_name', op: 'starts_with', value: 'a' }]) {
      const campaign = await newCampaign(own.key, { filter });
      await begin(own, campaign);
      sizes.push((await ended(own, campaign)).campaign.audience_size);
    }
    expect(sizes).toEqual([2, 0, 1]);
  });

  test('fails a run with the reason if its filter no longer fits', async () => {
    const tenant = await newWideTenant();
    await newCustomField(tenant, 'leads', 'floor', {});
    await createRecords(tenant.key, 'leads', [{ first_name: 'Ada', email: 'ada@x.example' }]);
    const campaign = await newCampaign(tenant.key, { filter: { field: 'floor', op: 'eq', value: '3' } });
    await database()`update custom_fields set enabled = false where company_id = ${tenant.companyId}`;
    await begin(tenant, campaign);
    const { latest_runs: runs } = await ended(tenant, campaign);
    expect(runs).toMatchObject([{ status: 'failed', total: 0, error_summary: expect.stringContaining('floor') }]);
  });

  test('pauses a run with its campaign and resumes it there', async () => {
    const tenant = await newWideTenant();
    await createRecords(tenant.key, 'leads', [{ first_name: 'Ada', email: 'ada@x.example' }]);
    const campaign = await newCampaign(tenant.key);
    // Paused before any job can see the run, as if both were one transaction.
    await database().begin(async (sql) => {
      await sql`
      insert into campaign_runs (company_id, test_mode, id, campaign_id, status, content, created_by_kind, created_by_id, created_at)
      select company_id, test_mode, ${randomUUID()}, id, 'queued',
        ${sql.json({ object: 'leads', filter: null, channels: [{ channel: 'email', sender: null, subject: 'Offer', body: 'Hello' }] })},
        'system', 'test', now()
      from campaigns where id = ${campaign.id}`;
      await sql`update campaigns set status = 'paused' where id = ${campaign.id}`;
    });
    await Promise.all(servers.map((pools) => runCampaigns(buildJobContext('campaigns', pools))));
    expect(await readDrafts(campaign)).toHaveLength(0);
    expect((await begin(tenant, campaign)).body.error.details.reason).toBe('run_in_progress');
    const resumed = await call('POST', `/v1/campaigns/${campaign.id}/resume`, { key: tenant.key });
    expect(resumed.body.data.campaign.status).toBe('running');
    await ended(tenant, campaign);
    expect(await readDrafts(campaign)).toHaveLength(1);
  });
});

test('withdraws undecided and unsent drafts on cancellation, with an event each', async () => {
  const tenant = await newWideTenant();
  await createRecords(
    tenant.key,
    'leads',
    ['a', 'b', 'c', 'd', 'e'].map((name) => ({ first_name: name, email: `${name}@x.example` })),
  );
  const campaign = await newCampaign(tenant.key);
  await begin(tenant, campaign);
  await ended(tenant, campaign);
  const other = await newDraft(tenant.key);
  const become = (name: string, status: string, leased: boolean) => database()`
    update message_drafts set status = ${status}, leased_until = ${leased ? new Date(Date.now() + 60_000) : null}
    where campaign_id = ${campaign.id} and recipient = ${`${name}@x.example`}`;
  await become('b', 'approved', false);
  await become('c', 'approved', true);
  await become('d', 'sent', false);
  // Its sender crashed, so the outcome is unknown.
  await become('e', 'approved', false);
  await database()`
    update message_drafts set attempted_at = now() where campaign_id = ${campaign.id} and recipient = 'e@x.example'`;
  await expectStatus(200, 'POST', `/v1/campaigns/${campaign.id}/cancel`, { key: tenant.key });
  await Promise.all(servers.map((pools) => runCampaigns(buildJobContext('campaigns', pools))));
  await expect
    .poll(async () => (await readDrafts(campaign)).map(({ status }) => status))
    .toEqual(['withdrawn', 'withdrawn', 'approved', 'sent', 'approved']);
  expect((await call('GET', `/v1/messages/drafts/${other.id}`, { key: tenant.key })).body.data.draft.status).toBe(
    'draft',
  );
  const recorded = await database()<Json[]>`
    select data from ${recordedEvents(database())} where company_id = ${tenant.companyId} and event = 'message.draft.status_changed'`;
  expect(recorded.map(({ data }) => [data.from, data.to]).toSorted()).toEqual([
    ['approved', 'withdrawn'],
    ['draft', 'withdrawn'],
  ]);
});
