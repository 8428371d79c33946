// Campaigns: content, validation, and their way from draft to end.
import { beforeAll, describe, expect, test } from 'vitest';
import { newRecord, newTeam } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { newCampaign, newPhoneNumber } from '../support/messaging.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newKey, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/campaigns';

beforeAll(async () => {
  tenant = await newWideTenant();
});

const post = (to: string, body?: object, key = tenant.key) =>
  call('POST', to, { key, idempotencyKey: true, ...(body ? { body } : {}) });
const on = (campaign: Json, verb: string, body?: object) => post(`${path}/${campaign.id}/${verb}`, body);
const read = async (campaign: Json): Promise<Json> =>
  (await expectStatus(200, 'GET', `${path}/${campaign.id}`, { key: tenant.key })).body.data;
const readStatus = async (campaign: Json): Promise<string> => (await read(campaign)).campaign.status;
const email = { channel_type: 'email', subject: 'Offer', body: 'Hello {{first_name}}' };
const tomorrow = (): string => new Date(Date.now() + 86_400_000).toISOString();

describe('a campaign', () => {
  test('stores the audience and the content of a campaign', async () => {
    const number = await newPhoneNumber(tenant.key);
    const { email: from } = await newUser(tenant);
    const channels = [
      { ...email, from },
      { channel_type: 'sms', enabled: false, phone_number_id: number.id, body: 'Hello {{ first_name }}' },
    ];
    const filter = { field: 'city', op: 'eq', value: 'Berlin' };
    const made = await newCampaign(tenant.key, { name: ' Winter ', filter, channels });
    expect(made).toMatchObject({ name: 'Winter', status: 'draft', object: 'leads', filter, channel_types: ['email'] });
    expect(await read(made)).toEqual({
      campaign: made,
      channels: [
        { ...email, enabled: true, from, phone_number_id: null },
        {
          channel_type: 'sms',
          enabled: false,
          from: null,
          phone_number_id: number.id,
          subject: null,
          body: 'Hello {{ first_name }}',
        },
      ],
      latest_runs: [],
      stats: [],
    });
  });

  const channel = (more: object) => ({ channels: [{ ...email, ...more }] });
  const sms = { channel_type: 'sms', body: 'Hello' };
  test.each([
    [{ filter: { field: 'nothing', op: 'eq', value: 1 } }, 400, 'nothing', 'UNKNOWN_FIELD'],
    [{ filter: { op: 'eq' } }, 400, 'filter', 'INVALID_FORMAT'],
    [{ object: 'deals' }, 400, 'object', 'INVALID_OPTION'],
    [{ channels: [] }, 400, 'channels', 'TOO_SHORT'],
    [{ channels: [email, email] }, 400, 'channels[1].channel_type', 'DUPLICATE'],
    [channel({ subject: undefined }), 400, 'channels[0].subject', 'REQUIRED'],
    [channel({ body: 'Hello {{frist_name}}' }), 422, 'channels[0].body', 'INVALID_OPTION'],
    [channel({ subject: '{{password}}' }), 422, 'channels[0].subject', 'INVALID_OPTION'],
    [channel({ from: 'nobody@bluelake.example' }), 422, 'channels[0].from', 'NOT_FOUND'],
    [{ channels: [{ ...sms, subject: 'Offer' }] }, 400, 'channels[0].subject', 'CONFLICTING_FIELDS'],
    [{ channels: [{ ...sms, body: 'x'.repeat(1601) }] }, 400, 'channels[0].body', 'TOO_LONG'],
    [
      { channels: [{ ...sms, phone_number_id: '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9e10' }] },
      422,
      'channels[0].phone_number_id',
      'NOT_FOUND',
    ],
  ] as [object, number, string, string][])('rejects a campaign with %j', async (more, status, field, code) => {
    const answer = await post(path, { name: 'Winter', object: 'leads', channels: [email], ...more });
    expect([answer.status, answer.body.error.details.fields[0]]).toMatchObject([status, { field, code }]);
  });

  test('suggests a similar name for an unknown one', async () => {
    const answer = await post(path, { name: 'Winter', object: 'leads', ...channel({ body: '{{frist_name}}' }) });
    expect(answer.body.error.details.fields[0].did_you_mean).toBe('first_name');
  });

  test('requires a credential that sees the whole audience', async () => {
    const body = { name: 'Winter', object: 'leads', channels: [email] };
    const blind = await newKey(tenant, { scopes: ['campaigns:view', 'campaigns:create'] });
    expect((await post(path, body, blind)).body.error.code).toBe('FORBIDDEN_SCOPE');
    const narrow = await newKey(tenant, { reach: { kind: 'team', id: await newTeam(tenant) } });
    expect((await post(path, body, narrow)).body.error.details.reason).toBe('company_reach_required');
  });

  test('lists campaigns by status, newest first', async () => {
    const own = await newWideTenant();
    const [first, second] = [await newCampaign(own.key), await newCampaign(own.key)];
    await post(`${path}/${first.id}/cancel`, undefined, own.key);
    const ids = async (query: object) =>
      (await call('GET', path, { key: own.key, query: { ...query } })).body.data.campaigns.map((each: Json) => each.id);
    expect(await ids({})).toEqual([second.id, first.id]);
    expect(await ids({ status: 'cancelled' })).toEqual([first.id]);
    const other = await call('GET', `${path}/${first.id}`, { key: own.testKey });
    expect(other.status).toBe(404);
  });
});

describe('the states of a campaign', () => {
  test('permits changes of a campaign until its run starts', async () => {
    const campaign = await newCampaign(tenant.key);
    const patch = (body: object) => call('PATCH', `${path}/${campaign.id}`, { key: tenant.key, body });
    const changed = (await patch({ description: 'Autumn', filter: null, object: 'customers' })).body.data.campaign;
    expect(changed).toMatchObject({ name: campaign.name, description: 'Autumn', object: 'customers' });
    expect((await patch({ channels: [{ channel_type: 'sms', body: '{{nothing}}' }] })).status).toBe(422);
    await on(campaign, 'cancel');
    const late = await patch({ name: 'Later' });
    expect([late.status, late.body.error.details]).toMatchObject([
      409,
      { reason: 'not_editable', status: 'cancelled' },
    ]);
  });

  test('schedules, pauses, resumes and cancels a campaign', async () => {
    const campaign = await newCampaign(tenant.key);
    const at = tomorrow();
    const scheduled = (await on(campaign, 'schedule', { scheduled_at: at })).body.data.campaign;
    expect(scheduled).toMatchObject({ status: 'scheduled', scheduled_at: at });
    for (const _ of [1, 2]) expect((await on(campaign, 'pause')).body.data.campaign.status).toBe('paused');
    expect((await on(campaign, 'schedule', { scheduled_at: at })).body.error.details.reason).toBe('not_editable');
    expect((await on(campaign, 'resume')).body.data.campaign).toMatchObject({ status: 'scheduled', scheduled_at: at });
    expect((await on(campaign, 'resume')).body.error.details.reason).toBe('not_paused');
    for (const _ of [1, 2]) expect((await on(campaign, 'cancel')).body.data.campaign.status).toBe('cancelled');
    const reasons = [await on(campaign, 'runs'), await on(campaign, 'pause')].map(
      ({ body }) => body.error.details.reason,
    );
    expect(reasons).toEqual(['campaign_cancelled', 'not_running']);
  });

  test('rejects a start in the past or in the distant future', async () => {
    const campaign = await newCampaign(tenant.key);
    for (const scheduled_at of ['2020-01-01T00:00:00Z', '2099-01-01T00:00:00Z']) {
      const refused = await on(campaign, 'schedule', { scheduled_at });
      expect([refused.status, refused.body.error.details.fields]).toMatchObject([400, [{ field: 'scheduled_at' }]]);
    }
  });

  test('starts the run of a campaign at the scheduled time', async () => {
    await newRecord(tenant, 'live', 'leads');
    const campaign = await newCampaign(tenant.key);
    await on(campaign, 'schedule', { scheduled_at: tomorrow() });
    await database()`update campaigns set scheduled_at = now(), due_at = now() where id = ${campaign.id}`;
    await expect.poll(() => readStatus(campaign)).toBe('completed');
    const { latest_runs: runs } = await read(campaign);
    expect(runs).toMatchObject([{ status: 'completed', campaign_id: campaign.id, created_by: campaign.created_by }]);
  });

  test('starts one run at a time for concurrent requests', async () => {
    const campaign = await newCampaign(tenant.key);
    const answers = await Promise.all(Array.from({ length: 16 }, () => on(campaign, 'runs')));
    const begun = answers.filter(({ status }) => status === 202);
    // The first run may have ended before the last request.
    expect(begun.length).toBeGreaterThanOrEqual(1);
    const refused = answers.filter(({ status }) => status !== 202);
    expect(new Set(refused.map(({ body }) => body.error.details.reason))).toEqual(new Set(['run_in_progress']));
    await expect.poll(() => readStatus(campaign)).toBe('completed');
    expect((await read(campaign)).latest_runs).toHaveLength(Math.min(5, begun.length));
  });

  test('requires a channel before a run can start', async () => {
    const campaign = await newCampaign(tenant.key, { channels: [{ ...email, enabled: false }] });
    const reasons = [await on(campaign, 'runs'), await on(campaign, 'schedule', { scheduled_at: tomorrow() })];
    expect(reasons.map(({ body }) => body.error.details.reason)).toEqual(['no_channel', 'no_channel']);
  });
});
