// SLA clocks under a moved clock: what starts, satisfies and ends them, and that each breach, reminder and escalation comes exactly once.
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Pool } from '../db/connect.ts';
import { runSlaRound } from '../jobs/sla.ts';
import { openLog } from '../runtime/log.ts';
import { expectStatus, type Json } from './support/client.ts';
import { createRecord, createRecords, leftBehind, patchRecord, recordsPath } from './support/records.ts';
import { database, newTenant, newUser, type Tenant } from './support/tenants.ts';

let pools: { platform: Pool; tenants: Pool };
const { log } = openLog('fatal');

beforeAll(() => {
  const shared = { url: inject('databaseUrl'), prepare: true, wait: 1000, statementTimeout: 1500, lanes: 1 };
  pools = {
    platform: new Pool({ ...shared, role: 'crm_platform' }),
    tenants: new Pool({ ...shared, role: 'crm_app' }),
  };
});

afterAll(async () => {
  await Promise.all([pools.platform.close(1), pools.tenants.close(1)]);
});

const minute = 60_000;
const roundAfter = (minutes: number): Promise<number> =>
  runSlaRound(pools, log, () => new Date(Date.now() + minutes * minute));

const createPolicy = async (tenant: Tenant, body: object = {}): Promise<Json> => {
  const policy = { name: `Policy ${Math.random()}`, entity_type: 'lead', ...body };
  return (await expectStatus(201, 'POST', '/v1/settings/sla-policies', { key: tenant.key, body: policy })).body.data
    .sla_policy;
};
const createLead = (tenant: Tenant, more: object = {}): Promise<Json> =>
  createRecord(tenant.key, 'leads', { first_name: 'Ada', email: 'ada@x.example', ...more });
const logActivity = (tenant: Tenant, entityId: string, more: object = {}): Promise<unknown> => {
  const body = { entity_type: 'lead', entity_id: entityId, activity_type: 'Call', summary: 'Spoke', ...more };
  return expectStatus(201, 'POST', '/v1/activities', { key: tenant.key, body });
};
const clocksOf = async (recordId: string): Promise<Json[]> => [
  ...(await database()`select * from sla_clocks where record_id = ${recordId} order by kind, started_at`),
];
const open = async (recordId: string): Promise<string[]> =>
  (await clocksOf(recordId)).filter((clock) => clock.ended_at === null).map((clock) => clock.kind);
const breaches = async (recordId: string): Promise<Json[]> =>
  (await leftBehind(recordId)).events.filter((event) => event.event === 'sla.breached');
const notifications = async (recordId: string): Promise<Json[]> => [
  ...(await database()`select user_id, kind, text from notifications where record_id = ${recordId} order by created_at, id`),
];
const all = { first_response_time: 60, every_response_time: 120, resolution_time: 240 };

test('every way of creating a record starts its clocks, with deadlines from its creation, and a workspace without policies has none', async () => {
  const tenant = await newTenant();
  const bare = await createLead(tenant);
  expect(await clocksOf(bare.id)).toEqual([]);
  const policy = await createPolicy(tenant, all);
  const lead = await createLead(tenant, { email: 'b@x.example' });
  const [batched] = await createRecords(tenant.key, 'leads', [{ first_name: 'C', email: 'c@x.example' }]);
  const body = { first_name: 'D', email: 'd@x.example' };
  const taken = (await expectStatus(201, 'POST', '/v1/leads', { key: tenant.key, body })).body.data.lead;
  for (const record of [lead, batched, taken]) {
    const clocks = await clocksOf(record.id);
    expect(clocks.map((clock) => [clock.kind, (clock.due_at - clock.started_at) / minute])).toEqual([
      ['every_response', 120],
      ['first_response', 60],
      ['resolution', 240],
    ]);
    expect(clocks[0]).toMatchObject({ policy_id: policy.id, object: 'leads', test_mode: false });
    expect(clocks[0].started_at.toISOString()).toBe(record.created_at);
  }
  const deal = await createRecord(tenant.key, 'deals', { name: 'Deal' });
  expect(await clocksOf(deal.id)).toEqual([]);
});

test('a breach is told once, with the body of the event, however many servers look and however often', async () => {
  const tenant = await newTenant();
  const policy = await createPolicy(tenant, { first_response_time: 60 });
  const lead = await createLead(tenant);
  await roundAfter(59);
  expect(await breaches(lead.id)).toEqual([]);
  await Promise.all(Array.from({ length: 8 }, () => roundAfter(65.5)));
  await roundAfter(600);
  const [clock] = await clocksOf(lead.id);
  expect(await breaches(lead.id)).toMatchObject([
    {
      test_mode: false,
      data: {
        object: 'leads',
        record_id: lead.id,
        level: 0,
        sla: {
          policy_id: policy.id,
          policy_name: policy.name,
          type: 'first_response',
          deadline: clock.due_at.toISOString(),
          overdue_minutes: 5,
        },
      },
    },
  ]);
  expect(clock).toMatchObject({ satisfied_at: null, ended_at: null, next_at: null });
});

test('reminders come before the deadline and escalations after it, once each, to active users, in the words of their template', async () => {
  const tenant = await newTenant();
  const [user, gone] = [await newUser(tenant), await newUser(tenant)];
  const recipient_user_ids = [user.id, gone.id];
  const policy = await createPolicy(tenant, {
    first_response_time: 60,
    reminders: [
      { type: 'first_response', minutes_before: 15, recipient_user_ids },
      { type: 'first_response', minutes_before: 90, recipient_user_ids },
      { type: 'resolution', minutes_before: 15, recipient_user_ids },
    ],
    escalations: [1, 2].map((level) => ({
      level,
      type: 'first_response',
      minutes_after: 30 * (level - 1),
      recipient_user_ids,
      message_template: `${level}: {{record_name}} ({{entity_type}}, {{policy_name}}) {{overdue_minutes}}`,
    })),
  });
  await database()`update users set status = 'inactive' where company_id = ${tenant.companyId} and id = ${gone.id}`;
  const lead = await createLead(tenant, { last_name: 'Okafor' });
  const told = async (minutes: number): Promise<string[]> => {
    await Promise.all([roundAfter(minutes), roundAfter(minutes)]);
    return (await notifications(lead.id)).map((each) => `${each.kind} ${each.text}`);
  };
  expect(await told(44)).toEqual([]);
  const [reminder, ...more] = await told(46);
  expect(more).toEqual([]);
  expect(reminder).toMatch(/^sla_reminder First response for the lead Ada Okafor is due at /);
  const first = `sla_escalation 1: Ada Okafor (lead, ${policy.name}) 1`;
  expect(await told(61.5)).toEqual([reminder, first]);
  const second = `sla_escalation 2: Ada Okafor (lead, ${policy.name}) 31`;
  expect(await told(91.5)).toEqual([reminder, first, second]);
  expect(await told(1000)).toEqual([reminder, first, second]);
  expect((await notifications(lead.id)).every((each) => each.user_id === user.id)).toBe(true);
  expect(await breaches(lead.id)).toHaveLength(1);
});

describe('contacts', () => {
  test('satisfy the first response at the time they were made, restart the next one, and a Note does neither', async () => {
    const tenant = await newTenant();
    await createPolicy(tenant, all);
    const lead = await createLead(tenant);
    await logActivity(tenant, lead.id, { activity_type: 'Note' });
    expect(await open(lead.id)).toEqual(['every_response', 'first_response', 'resolution']);
    const at = new Date(Date.parse(lead.created_at) + 2 * minute).toISOString();
    await logActivity(tenant, lead.id, { performed_at: at });
    const clocks = await clocksOf(lead.id);
    expect(clocks.map((clock) => [clock.kind, clock.satisfied_at?.toISOString() ?? null])).toEqual([
      ['every_response', at],
      ['every_response', null],
      ['first_response', at],
      ['resolution', null],
    ]);
    expect(clocks[1].started_at.toISOString()).toBe(at);
    await roundAfter(119);
    expect(await breaches(lead.id)).toEqual([]);
    await roundAfter(123);
    expect((await breaches(lead.id)).map((each) => each.data.sla.type)).toEqual(['every_response']);
  });

  test('made after the deadline leave the breach to be told', async () => {
    const tenant = await newTenant();
    await createPolicy(tenant, { first_response_time: 1 });
    const lead = await createLead(tenant);
    const at = new Date(Date.parse(lead.created_at) + 2 * minute).toISOString();
    await logActivity(tenant, lead.id, { performed_at: at });
    await roundAfter(3);
    await roundAfter(4);
    expect(await breaches(lead.id)).toHaveLength(1);
    expect((await clocksOf(lead.id))[0].satisfied_at.toISOString()).toBe(at);
  });
});

test('a status that ends the way of a lead ends its clocks, and leaving it starts them anew', async () => {
  const tenant = await newTenant();
  await createPolicy(tenant, all);
  const lead = await createLead(tenant);
  await patchRecord(tenant.key, 'leads', lead.id, { lead_status: 'Disqualified' });
  const ended = await clocksOf(lead.id);
  expect(ended.map((clock) => [clock.kind, clock.satisfied_at !== null, clock.ended_at !== null])).toEqual([
    ['every_response', false, true],
    ['first_response', false, true],
    ['resolution', true, true],
  ]);
  await roundAfter(1000);
  expect(await breaches(lead.id)).toEqual([]);
  await patchRecord(tenant.key, 'leads', lead.id, { lead_status: 'Contacted' });
  expect(await open(lead.id)).toEqual(['every_response', 'first_response', 'resolution']);
  expect(
    await clocksOf(
      await createLead(tenant, { email: 'e@x.example', lead_status: 'Converted' }).then((made) => made.id),
    ),
  ).toEqual([]);
});

test('a record falls under the policy of its priority before one for all, and another priority reckons its clocks anew from their start', async () => {
  const tenant = await newTenant();
  const general = await createPolicy(tenant, { first_response_time: 600 });
  const urgent = await createPolicy(tenant, { first_response_time: 60, priority: 1 });
  await createPolicy(tenant, { first_response_time: 5, priority: 1 });
  const lead = await createLead(tenant, { priority: 3 });
  const [before] = await clocksOf(lead.id);
  expect(before.policy_id).toBe(general.id);
  await patchRecord(tenant.key, 'leads', lead.id, { priority: 1 });
  const after = (await clocksOf(lead.id)).filter((clock) => clock.ended_at === null);
  expect(after).toMatchObject([{ policy_id: urgent.id, started_at: before.started_at }]);
  expect(after[0].due_at - after[0].started_at).toBe(60 * minute);
});

test('a deleted record has no clocks, and nothing is told of it', async () => {
  const tenant = await newTenant();
  await createPolicy(tenant, all);
  const lead = await createLead(tenant);
  await expectStatus(200, 'DELETE', recordsPath('leads', lead.id), { key: tenant.key });
  expect(await open(lead.id)).toEqual([]);
  await roundAfter(1000);
  expect(await breaches(lead.id)).toEqual([]);
});

test('a policy that is switched off ends its clocks in silence, and can then be deleted', async () => {
  const tenant = await newTenant();
  const policy = await createPolicy(tenant, all);
  const lead = await createLead(tenant);
  const path = `/v1/settings/sla-policies/${policy.id}`;
  await expectStatus(200, 'PATCH', path, { key: tenant.key, body: { is_active: false } });
  await roundAfter(1000);
  expect([await open(lead.id), await breaches(lead.id)]).toEqual([[], []]);
  await expectStatus(200, 'DELETE', path, { key: tenant.key });
});

test('records of test keys have clocks, fire to test subscriptions alone, and nobody is notified', async () => {
  const tenant = await newTenant();
  const user = await newUser(tenant);
  const told = { type: 'first_response', recipient_user_ids: [user.id] };
  await createPolicy(tenant, {
    first_response_time: 60,
    reminders: [{ ...told, minutes_before: 5 }],
    escalations: [{ ...told, level: 1, minutes_after: 0, message_template: 'x' }],
  });
  const lead = await createRecord(tenant.testKey, 'leads', { first_name: 'Ada', email: 'ada@x.example' });
  await roundAfter(57);
  await roundAfter(61);
  expect(await breaches(lead.id)).toMatchObject([{ test_mode: true }]);
  expect(await notifications(lead.id)).toEqual([]);
});

test('a contact on a deal answers the clocks of its customer too, and winning the deal resolves it', async () => {
  const tenant = await newTenant();
  await createPolicy(tenant, { ...all, entity_type: 'customer' });
  await createPolicy(tenant, { ...all, entity_type: 'deal' });
  const customer = await createRecord(tenant.key, 'customers', { first_name: 'Ada', email: 'ada@x.example' });
  const deal = await createRecord(tenant.key, 'deals', { name: 'Deal', customer_id: customer.id });
  expect(await open(customer.id)).toEqual(['every_response', 'first_response']);
  await logActivity(tenant, deal.id, { entity_type: 'deal' });
  expect([await open(customer.id), await open(deal.id)]).toEqual([
    ['every_response'],
    ['every_response', 'resolution'],
  ]);
  await patchRecord(tenant.key, 'deals', deal.id, { stage: 'Won' });
  expect(await open(deal.id)).toEqual([]);
});
