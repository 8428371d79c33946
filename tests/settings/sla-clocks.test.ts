// SLA clocks with a simulated time: their start and end, and notifications exactly once.

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Pool, type Sql } from '../../db/client/pool.ts';
import { answerClocks, changeClocks } from '../../db/settings/sla-clocks.ts';
import { findDueScopes, takeDueClocks, wakeClocks } from '../../db/settings/sla-due.ts';
import { countOpenClocks } from '../../db/settings/sla-policies.ts';
import type { JobPools } from '../../jobs/runner.ts';
import { handleSlaClocks } from '../../jobs/settings/sla.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { PausedJobs } from '../support/paused-jobs.ts';
import { createRecord, createRecords, leftBehind, patchRecord, recordsPath } from '../support/records.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';

/** The server that the tests call. Simulated time makes every clock of its database run out. */
let called: PausedJobs;
/** Two more servers that run the job. */
let servers: [JobPools, JobPools];

beforeAll(async () => {
  called = await PausedJobs.of('sla');
  const shared = {
    url: called.url,
    prepare: true,
    spread: false,
    wait: 10_000,
    statementTimeout: 10_000,
    lanes: 4,
  };
  const open = (): JobPools => ({
    platform: new Pool({ ...shared, role: 'crm_platform' }),
    tenants: new Pool({ ...shared, role: 'crm_app' }),
  });
  servers = [open(), open()];
});

afterAll(async () => {
  await Promise.all(servers.flatMap(({ platform, tenants }) => [platform.close(1), tenants.close(1)]));
  await called.close();
});

const minute = 60_000;
const later = (minutes: number): Date => new Date(Date.now() + minutes * minute);
const roundAfter = (minutes: number, server = 0): Promise<number> =>
  handleSlaClocks(buildJobContext('sla', servers[server] as JobPools, { now: () => later(minutes) }));

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
const readClocks = async (recordId: string): Promise<Json[]> => [
  ...(await database()`select * from sla_clocks where record_id = ${recordId} order by kind, started_at`),
];
const open = async (recordId: string): Promise<string[]> =>
  (await readClocks(recordId)).filter((clock) => clock.ended_at === null).map((clock) => clock.kind);
const breaches = async (recordId: string): Promise<Json[]> =>
  (await leftBehind(recordId)).events.filter((event) => event.event === 'sla.breached');
const notifications = async (recordId: string): Promise<Json[]> => [
  ...(await database()`select user_id, kind, title as text from notifications where record_id = ${recordId} order by created_at, id`),
];
const all = { first_response_time: 60, every_response_time: 120, resolution_time: 240 };

test('starts clocks for every way of creating a record, with deadlines from its creation, only if policies exist', async () => {
  const tenant = await newTenant();
  const bare = await createLead(tenant);
  expect(await readClocks(bare.id)).toEqual([]);
  const policy = await createPolicy(tenant, all);
  const lead = await createLead(tenant, { email: 'b@x.example' });
  const [batched] = await createRecords(tenant.key, 'leads', [{ first_name: 'C', email: 'c@x.example' }]);
  const body = { first_name: 'D', email: 'd@x.example' };
  const taken = (await expectStatus(201, 'POST', '/v1/leads', { key: tenant.key, body })).body.data.lead;
  for (const record of [lead, batched, taken]) {
    const clocks = await readClocks(record.id);
    expect(clocks.map((clock) => [clock.kind, (clock.due_at - clock.started_at) / minute])).toEqual([
      ['every_response', 120],
      ['first_response', 60],
      ['resolution', 240],
    ]);
    expect(clocks[0]).toMatchObject({ policy_id: policy.id, object: 'leads', test_mode: false });
    expect(clocks[0].started_at.toISOString()).toBe(record.created_at);
  }
  const deal = await createRecord(tenant.key, 'deals', { name: 'Deal' });
  expect(await readClocks(deal.id)).toEqual([]);
});

test('emits one breach with its body for any number of servers and runs', async () => {
  const tenant = await newTenant();
  const policy = await createPolicy(tenant, { first_response_time: 60 });
  const lead = await createLead(tenant);
  await roundAfter(59);
  expect(await breaches(lead.id)).toEqual([]);
  await Promise.all(Array.from({ length: 8 }, (_, index) => roundAfter(65.5, index % 2)));
  await roundAfter(600);
  const [clock] = await readClocks(lead.id);
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

test('sends reminders before the deadline and escalations after it once each to active users, by template', async () => {
  const tenant = await newTenant();
  const [user, gone] = [await newUser(tenant), await newUser(tenant)];
  const recipient_user_ids = [user.id, gone.id];
  const policy = await createPolicy(tenant, {
    first_response_time: 60,
    reminders: [
      { type: 'first_response', minutes_before: 15, recipient_user_ids },
      { type: 'first_response', minutes_before: 90, recipient_user_ids },
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
  const notificationsAfter = async (minutes: number): Promise<string[]> => {
    await Promise.all([roundAfter(minutes, 0), roundAfter(minutes, 1)]);
    return (await notifications(lead.id)).map((each) => `${each.kind} ${each.text}`);
  };
  expect(await notificationsAfter(44)).toEqual([]);
  const [reminder, ...more] = await notificationsAfter(46);
  expect(more).toEqual([]);
  expect(reminder).toMatch(/^sla_reminder First response for the lead Ada Okafor is due at /);
  const first = `sla_escalation 1: Ada Okafor (lead, ${policy.name}) 1`;
  expect(await notificationsAfter(61.5)).toEqual([reminder, first]);
  const second = `sla_escalation 2: Ada Okafor (lead, ${policy.name}) 31`;
  expect(await notificationsAfter(91.5)).toEqual([reminder, first, second]);
  expect(await notificationsAfter(1000)).toEqual([reminder, first, second]);
  expect((await notifications(lead.id)).every((each) => each.user_id === user.id)).toBe(true);
  expect(await breaches(lead.id)).toHaveLength(1);
});

describe('contacts', () => {
  test('satisfies the first response at the time of a contact, and restarts the next response', async () => {
    const tenant = await newTenant();
    await createPolicy(tenant, all);
    const lead = await createLead(tenant);
    const at = new Date(Date.parse(lead.created_at) + 2 * minute).toISOString();
    await logActivity(tenant, lead.id, { performed_at: at });
    const clocks = await readClocks(lead.id);
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

  test('satisfies no clock by a note until its type changes, but shows it as the last contact', async () => {
    const tenant = await newTenant();
    await createPolicy(tenant, all);
    const lead = await createLead(tenant);
    const at = new Date(Date.parse(lead.created_at) + minute).toISOString();
    const note = {
      entity_type: 'lead',
      entity_id: lead.id,
      activity_type: 'note',
      details: 'Call tomorrow.',
      performed_at: at,
    };
    const { body } = await expectStatus(201, 'POST', '/v1/activities', { key: tenant.key, body: note });
    expect(body.data.entity.last_contacted_at).toBe(at);
    expect((await readClocks(lead.id)).filter(({ satisfied_at }) => satisfied_at !== null)).toEqual([]);
    const change = { key: tenant.key, body: { activity_type: 'Call' } };
    await expectStatus(200, 'PATCH', `/v1/activities/${body.data.activity.id}`, change);
    const satisfied = (await readClocks(lead.id)).filter(({ satisfied_at }) => satisfied_at?.toISOString() === at);
    expect(satisfied.map(({ kind }) => kind)).toEqual(['every_response', 'first_response']);
  });

  test('emits the breach of a contact after the deadline', async () => {
    const tenant = await newTenant();
    await createPolicy(tenant, { first_response_time: 1 });
    const lead = await createLead(tenant);
    const at = new Date(Date.parse(lead.created_at) + 2 * minute).toISOString();
    await logActivity(tenant, lead.id, { performed_at: at });
    await roundAfter(3);
    await roundAfter(4);
    expect(await breaches(lead.id)).toHaveLength(1);
    expect((await readClocks(lead.id))[0].satisfied_at.toISOString()).toBe(at);
  });
});

test('ends clocks in a final status of a lead, and starts new ones when it leaves that status', async () => {
  const tenant = await newTenant();
  await createPolicy(tenant, all);
  const lead = await createLead(tenant);
  await patchRecord(tenant.key, 'leads', lead.id, { lead_status: 'Disqualified' });
  const ended = await readClocks(lead.id);
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
    await readClocks(
      await createLead(tenant, { email: 'e@x.example', lead_status: 'Converted' }).then((made) => made.id),
    ),
  ).toEqual([]);
});

test('prefers the policy of the priority, and recomputes clocks from their start when the priority changes', async () => {
  const tenant = await newTenant();
  const general = await createPolicy(tenant, { first_response_time: 600 });
  const urgent = await createPolicy(tenant, { first_response_time: 60, priority: 1 });
  await createPolicy(tenant, { first_response_time: 5, priority: 1 });
  const lead = await createLead(tenant, { priority: 3 });
  const [before] = await readClocks(lead.id);
  expect(before.policy_id).toBe(general.id);
  await patchRecord(tenant.key, 'leads', lead.id, { priority: 1 });
  const after = (await readClocks(lead.id)).filter((clock) => clock.ended_at === null);
  expect(after).toMatchObject([{ policy_id: urgent.id, started_at: before.started_at }]);
  expect(after[0].due_at - after[0].started_at).toBe(60 * minute);
});

test('ends the clocks of a deleted record without events', async () => {
  const tenant = await newTenant();
  await createPolicy(tenant, all);
  const lead = await createLead(tenant);
  await expectStatus(200, 'DELETE', recordsPath('leads', lead.id), { key: tenant.key });
  expect(await open(lead.id)).toEqual([]);
  await roundAfter(1000);
  expect(await breaches(lead.id)).toEqual([]);
});

test('ends the clocks of a disabled policy silently, and then allows its deletion', async () => {
  const tenant = await newTenant();
  const policy = await createPolicy(tenant, all);
  const lead = await createLead(tenant);
  const path = `/v1/settings/sla-policies/${policy.id}`;
  await expectStatus(200, 'PATCH', path, { key: tenant.key, body: { is_active: false } });
  await roundAfter(1000);
  expect([await open(lead.id), await breaches(lead.id)]).toEqual([[], []]);
  await expectStatus(200, 'DELETE', path, { key: tenant.key });
});

test('runs clocks of test records with events for test webhooks only, and without notifications', async () => {
  const tenant = await newTenant();
  const user = await newUser(tenant);
  const rule = { type: 'first_response', recipient_user_ids: [user.id] };
  await createPolicy(tenant, {
    first_response_time: 60,
    reminders: [{ ...rule, minutes_before: 5 }],
    escalations: [{ ...rule, level: 1, minutes_after: 0, message_template: 'x' }],
  });
  const lead = await createRecord(tenant.testKey, 'leads', { first_name: 'Ada', email: 'ada@x.example' });
  await roundAfter(57);
  await roundAfter(61);
  expect(await breaches(lead.id)).toMatchObject([{ test_mode: true }]);
  expect(await notifications(lead.id)).toEqual([]);
});

test('satisfies the clocks of a customer by a contact on its deal, and resolves a deal by winning it', async () => {
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

test('follows changed reminders and escalations of running clocks, and repeats none that was sent', async () => {
  const tenant = await newTenant();
  const user = await newUser(tenant);
  const reminder = (minutes_before: number) => ({
    type: 'first_response',
    minutes_before,
    recipient_user_ids: [user.id],
  });
  const escalation = (level: number, minutes_after: number) => ({
    level,
    type: 'first_response',
    minutes_after,
    recipient_user_ids: [user.id],
    message_template: `Level ${level} at {{overdue_minutes}}`,
  });
  const policy = await createPolicy(tenant, {
    first_response_time: 60,
    reminders: [reminder(30)],
    escalations: [escalation(1, 0)],
  });
  const lead = await createLead(tenant);
  const patch = (body: object) =>
    expectStatus(200, 'PATCH', `/v1/settings/sla-policies/${policy.id}`, { key: tenant.key, body });
  const newNotifications = async (minutes: number): Promise<string[]> => {
    const before = await notifications(lead.id);
    await roundAfter(minutes);
    return (await notifications(lead.id)).slice(before.length).map((each) => each.text);
  };
  const reminded = [expect.stringContaining('First response for the lead')];
  expect(await newNotifications(30.5)).toEqual(reminded);
  await patch({ reminders: [reminder(30), reminder(10)], escalations: [escalation(1, 20)] });
  expect([await newNotifications(31), await newNotifications(49)]).toEqual([[], []]);
  expect(await newNotifications(50.5)).toEqual(reminded);
  expect(await newNotifications(60.5)).toEqual([]);
  expect(await breaches(lead.id)).toHaveLength(1);
  expect(await newNotifications(80.5)).toEqual(['Level 1 at 20']);
  // Levels before one that was sent are not sent afterwards.
  await patch({ escalations: [escalation(1, 20), escalation(2, 10), escalation(3, 25)] });
  expect(await newNotifications(82)).toEqual([]);
  expect(await newNotifications(85.5)).toEqual(['Level 3 at 25']);
  await patch({ escalations: [] });
  expect(await newNotifications(1000)).toEqual([]);
  expect(await breaches(lead.id)).toHaveLength(1);
});

test("repeats no notification if a server's clock is behind", async () => {
  const tenant = await newTenant();
  const user = await newUser(tenant);
  const escalation = {
    level: 1,
    type: 'first_response',
    minutes_after: 0,
    recipient_user_ids: [user.id],
    message_template: 'x',
  };
  const policy = await createPolicy(tenant, { first_response_time: 60, escalations: [escalation] });
  const lead = await createLead(tenant);
  await roundAfter(60.5);
  // The change makes the clock due again.
  const body = { escalations: [escalation, { ...escalation, level: 2, minutes_after: 90 }] };
  await expectStatus(200, 'PATCH', `/v1/settings/sla-policies/${policy.id}`, { key: tenant.key, body });
  await roundAfter(59, 1);
  await roundAfter(61);
  expect([(await breaches(lead.id)).length, (await notifications(lead.id)).length]).toEqual([1, 1]);
});

test('loses and repeats nothing after a crash between taking clocks and the commit', async () => {
  const tenant = await newTenant();
  const user = await newUser(tenant);
  const escalation = { level: 1, type: 'first_response', minutes_after: 0, recipient_user_ids: [user.id] };
  await createPolicy(tenant, { first_response_time: 60, escalations: [{ ...escalation, message_template: 'x' }] });
  const lead = await createLead(tenant);
  const [before] = await readClocks(lead.id);
  const sql = database();
  await sql.begin(async (holder) => {
    // The notification refers to its user, so the insert waits here while the job holds the clock.
    await holder`select from users where company_id = ${tenant.companyId} and id = ${user.id} for update`;
    const round = roundAfter(61);
    const waiting = async (): Promise<Json | undefined> =>
      (
        await sql`
          select pid from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into notifications%' and pid <> pg_backend_pid()`
      )[0];
    const { pid } = await vi.waitUntil(waiting);
    await sql`select pg_terminate_backend(${pid})`;
    await round;
  });
  expect(await readClocks(lead.id)).toEqual([before]);
  expect([await breaches(lead.id), await notifications(lead.id)]).toEqual([[], []]);
  await roundAfter(62);
  await roundAfter(63);
  expect([(await breaches(lead.id)).length, (await notifications(lead.id)).length]).toEqual([1, 1]);
});

test('locks the clocks of a changed record in the order of the job, so they never deadlock', async () => {
  const tenant = await newTenant();
  await createPolicy(tenant, all);
  const lead = await createLead(tenant);
  const [first, ...others] = (await readClocks(lead.id)).map((clock) => clock.id).sort();
  const sql = database();
  await sql
    .begin(async (holder) => {
      await holder`select from sla_clocks where company_id = ${tenant.companyId} and id = ${first} for update`;
      const change = patchRecord(tenant.key, 'leads', lead.id, { lead_status: 'Disqualified' });
      const waiting = async (): Promise<Json | undefined> =>
        (
          await sql`
            select from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and query like '%sla_clocks%'`
        )[0];
      await vi.waitUntil(waiting);
      // The call that waits for the first clock holds no other.
      const free = await holder`
      select id from sla_clocks where company_id = ${tenant.companyId} and id = any(${others}) order by id for update nowait`;
      expect(free.map(({ id }) => id)).toEqual(others);
      return { change };
    })
    .then(({ change }) => change);
  expect(await open(lead.id)).toEqual([]);
});

test('names the policy and the clock of a breach in the feed, as in webhooks', async () => {
  const tenant = await newTenant();
  const policy = await createPolicy(tenant, all);
  const cursor = await now(tenant.key);
  const lead = await createLead(tenant);
  await roundAfter(121);
  const changes = (await changesAfter(tenant.key, cursor)).filter(({ event }) => event === 'sla.breached');
  const buildBreach = (type: string, minutes: number) => ({
    event: 'sla.breached',
    object: 'leads',
    record_id: lead.id,
    data: {
      object: 'leads',
      record_id: lead.id,
      level: 0,
      occurred_at: expect.stringMatching(/Z$/),
      sla: {
        policy_id: policy.id,
        policy_name: policy.name,
        type,
        overdue_minutes: expect.any(Number),
        deadline: new Date(new Date(lead.created_at).getTime() + minutes * minute).toISOString(),
      },
    },
  });
  expect(changes).toMatchObject([buildBreach('first_response', 60), buildBreach('every_response', 120)]);
});

test('handles each of 450 due clocks once across two servers', async () => {
  const tenant = await newTenant();
  const user = await newUser(tenant);
  const escalation = { level: 1, type: 'first_response', minutes_after: 0, recipient_user_ids: [user.id] };
  await createPolicy(tenant, { first_response_time: 60, escalations: [{ ...escalation, message_template: 'x' }] });
  const bodies = Array.from({ length: 450 }, (_, index) => ({ first_name: `L${index}`, email: `l${index}@x.example` }));
  await createRecords(tenant.key, 'leads', bodies);
  await Promise.all([0, 1, 0, 1].map((server) => roundAfter(61, server)));
  const [counts] = await database()`
    select
      (select count(*)::int from ${recordedEvents(database())} where company_id = ${tenant.companyId} and event = 'sla.breached') as events,
      (select count(distinct data ->> 'record_id')::int from ${recordedEvents(database())} where company_id = ${tenant.companyId} and event = 'sla.breached') as records,
      (select count(*)::int from notifications where company_id = ${tenant.companyId}) as notifications,
      (select count(distinct record_id)::int from notifications where company_id = ${tenant.companyId}) as of_records`;
  expect(counts).toEqual({ events: 450, records: 450, notifications: 450, of_records: 450 });
});

/** Adds clocks of records that do not exist. */
const fill = (tenant: Tenant, policyId: string, count: number, dueAt: Date): Promise<unknown> => database()`
  insert into sla_clocks (company_id, test_mode, id, policy_id, object, record_id, kind, started_at, due_at, next_at, handled_at)
  select ${tenant.companyId}, false, gen_random_uuid(), ${policyId}, 'leads', gen_random_uuid(), 'first_response', now(), ${dueAt}, ${dueAt}, now()
  from generate_series(1, ${count}::int)`;
const empty = (tenant: Tenant): Promise<unknown> =>
  database()`delete from sla_clocks where company_id = ${tenant.companyId}`;

test('handles clocks of other companies if any number of those of one company fail', async () => {
  const [faulty, other] = [await newTenant(), await newTenant()];
  const policy = await createPolicy(faulty, { first_response_time: 60 });
  await createPolicy(other, { first_response_time: 60 });
  const lead = await createLead(other);
  await fill(faulty, policy.id, 2500, new Date());
  await database()`update sla_policies set escalations = '{}' where company_id = ${faulty.companyId}`;
  await roundAfter(61);
  await empty(faulty);
  expect(await breaches(lead.id)).toHaveLength(1);
});

test('finds clocks by an index in every statement', async () => {
  const tenant = await newTenant();
  const policy = await createPolicy(tenant, { first_response_time: 60 });
  const lead = await createLead(tenant);
  const { id: usual } = await createPolicy(tenant, { first_response_time: 60 });
  await fill(tenant, usual, 20_000, new Date('2100-01-01T00:00:00Z'));
  await database()`analyze sla_clocks`;
  const scope = { companyId: tenant.companyId, testMode: false };
  const now = new Date();
  const change = { object: 'leads', recordId: lead.id, keptPolicyId: null, isResolved: false, startedAfter: () => [] };
  const contacts = [{ object: 'leads' as const, recordId: lead.id, at: now.toISOString() }];
  const plan = async (role: string, run: (sql: Sql) => Promise<unknown>): Promise<string[]> => {
    const plans: string[] = [];
    await database().begin(async (sql) => {
      await sql`select set_config('role', ${role}, true), set_config('app.company_id', ${tenant.companyId}, true), set_config('app.test_mode', 'false', true)`;
      await run(explaining(sql as unknown as Sql, plans));
    });
    return plans.flatMap((text) => text.match(/(Seq Scan|using \w+) on sla_clocks/g) ?? []);
  };
  const ofRecord = 'using sla_clocks_open on sla_clocks';
  const byId = 'using sla_clocks_pkey on sla_clocks';
  const found = {
    due: await plan('crm_platform', (sql) => findDueScopes(sql, [], { now })),
    taken: await plan('crm_app', (sql) => takeDueClocks(sql, scope, 200, now)),
    answered: await plan('crm_app', (sql) => answerClocks(sql, scope, { contacts, restarted: () => [] }, now)),
    changed: await plan('crm_app', (sql) => changeClocks(sql, scope, [change], now)),
    woken: await plan('crm_app', (sql) => wakeClocks(sql, scope, policy.id, undefined, 200, now)),
    open: await plan('crm_app', (sql) => countOpenClocks(sql, tenant.companyId, policy.id)),
  };
  await empty(tenant);
  expect(found).toEqual({
    due: ['using sla_clocks_due on sla_clocks'],
    taken: [expect.stringMatching(/^using sla_clocks_due(_of_company)? on/)],
    answered: expect.arrayContaining([byId, ofRecord]),
    changed: expect.arrayContaining([byId, ofRecord]),
    woken: expect.arrayContaining([byId, 'using sla_clocks_of_policy on sla_clocks']),
    open: ['using sla_clocks_of_policy on sla_clocks'],
  });
  expect(
    Object.values(found)
      .flat()
      .filter((each) => each.startsWith('Seq')),
  ).toEqual([]);
});

/** Returns a driver that explains statements instead of running them. */
function explaining(sql: Sql, plans: string[]): Sql {
  const send = (first: TemplateStringsArray, ...values: never[]) => {
    // Fragments of statements are passed on.
    if (!Array.isArray(first) || !/^\s*(with|select|update)/.test(first[0] ?? '')) return sql(first, ...values);
    const strings = Object.assign([`explain ${first[0]}`, ...first.slice(1)], { raw: first.raw });
    const query = sql(strings as unknown as TemplateStringsArray, ...values);
    return query.then((rows: Json[]) => {
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      return [];
    });
  };
  return Object.assign(send, { json: sql.json }) as unknown as Sql;
}

test('notifies the owner of the record besides the recipients, once each', async () => {
  const tenant = await newTenant();
  const [owner, boss] = [await newUser(tenant), await newUser(tenant)];
  await createPolicy(tenant, {
    first_response_time: 60,
    reminders: [{ type: 'first_response', minutes_before: 15, recipient_user_ids: [boss.id, owner.id] }],
    escalations: [
      {
        level: 1,
        type: 'first_response',
        minutes_after: 0,
        recipient_user_ids: [boss.id],
        message_template: '{{record_name}} waits.',
      },
    ],
  });
  const lead = await createLead(tenant, { assigned_to: owner.id });
  await roundAfter(50);
  await roundAfter(61);
  const sent = (await notifications(lead.id)).map(
    ({ user_id, kind }) => `${kind} ${user_id === boss.id ? 'boss' : 'owner'}`,
  );
  expect(sent.toSorted()).toEqual([
    'sla_escalation boss',
    'sla_escalation owner',
    'sla_reminder boss',
    'sla_reminder owner',
  ]);
});

describe('SLA clocks of records in reads', () => {
  const day = 1440;
  const filterIds = async (tenant: Tenant, filter: object, key = tenant.key): Promise<string[]> => {
    const query = { filter: JSON.stringify(filter), sort: 'created_at', count: 'true' };
    const { data } = (await expectStatus(200, 'GET', recordsPath('leads'), { key, query })).body;
    expect(data.total).toBe(data.records.length);
    return data.records.map(({ id }: Json) => id);
  };
  const readSla = async (tenant: Tenant, id: string): Promise<Json[]> => {
    const query = { expand: 'sla', fields: 'id' };
    const one = await expectStatus(200, 'GET', recordsPath('leads', id), { key: tenant.key, query });
    const { sla } = one.body.data.record.expanded;
    const listed = await expectStatus(200, 'GET', recordsPath('leads'), { key: tenant.key, query });
    expect(listed.body.data.records.find((each: Json) => each.id === id).expanded.sla).toEqual(sla);
    return sla;
  };
  const moveDeadline = (id: string, kind: string, minutes: number): Promise<unknown> =>
    database()`update sla_clocks set due_at = ${later(minutes)}, next_at = ${later(minutes)} where record_id = ${id} and kind = ${kind}`;

  test('expands the last clock of each kind, running, met or breached', async () => {
    const tenant = await newTenant();
    const bare = await createLead(tenant);
    const policy = await createPolicy(tenant, all);
    const lead = await createLead(tenant, { email: 'b@x.example' });
    expect(await readSla(tenant, bare.id)).toEqual([]);
    const start = new Date(lead.created_at).getTime();
    const shown = (clock: string, minutes: number): object => ({
      policy_id: policy.id,
      policy_name: policy.name,
      clock,
      status: 'running',
      started_at: lead.created_at,
      due_at: new Date(start + minutes * minute).toISOString(),
      breached_at: null,
      met_at: null,
    });
    expect(await readSla(tenant, lead.id)).toEqual([
      shown('first_response', 60),
      shown('every_response', 120),
      shown('resolution', 240),
    ]);
    await moveDeadline(lead.id, 'resolution', -1);
    await logActivity(tenant, lead.id);
    const [late, first, every] = await readSla(tenant, lead.id);
    expect(late).toMatchObject({ clock: 'resolution', status: 'breached', breached_at: null, met_at: null });
    expect(first).toEqual({ ...shown('first_response', 60), status: 'met', met_at: expect.any(String) });
    // The next response has a new clock.
    expect(every).toMatchObject({ clock: 'every_response', status: 'running', met_at: null });
    expect(every.started_at > lead.created_at).toBe(true);
    await roundAfter(0);
    expect((await readSla(tenant, lead.id))[0]).toMatchObject({ status: 'breached', breached_at: expect.any(String) });
  });

  test('shows a late response as breached, and leaves out clocks that no longer apply', async () => {
    const tenant = await newTenant();
    const policy = await createPolicy(tenant, { first_response_time: 60, resolution_time: 240 });
    const lead = await createLead(tenant);
    await moveDeadline(lead.id, 'first_response', -5);
    await logActivity(tenant, lead.id);
    expect((await readSla(tenant, lead.id))[0]).toMatchObject({ status: 'breached', met_at: expect.any(String) });
    const path = `/v1/settings/sla-policies/${policy.id}`;
    await expectStatus(200, 'PATCH', path, { key: tenant.key, body: { is_active: false } });
    await roundAfter(1);
    expect((await readSla(tenant, lead.id)).map(({ clock }) => clock)).toEqual(['first_response']);
  });

  test('filters by the status and by the next deadline', async () => {
    const tenant = await newTenant();
    const bare = await createLead(tenant);
    await createPolicy(tenant, { first_response_time: day, resolution_time: 2 * day });
    const [calm, soon, late] = [
      await createLead(tenant, { email: 'b@x.example' }),
      await createLead(tenant, { email: 'c@x.example' }),
      await createLead(tenant, { email: 'd@x.example' }),
    ];
    await moveDeadline(soon.id, 'resolution', 30);
    await moveDeadline(late.id, 'first_response', -30);
    const due = (await readSla(tenant, soon.id))[0]?.due_at;
    const [b, c, s, l] = [bare.id, calm.id, soon.id, late.id];
    const cases: [string, string, unknown, string[]][] = [
      ['sla_status', 'eq', 'breached', [l]],
      ['sla_status', 'eq', 'at_risk', [s]],
      ['sla_status', 'eq', 'running', [c, s]],
      ['sla_status', 'neq', 'breached', [b, c, s]],
      ['sla_status', 'in', ['at_risk', 'breached'], [s, l]],
      ['sla_status', 'not_in', ['at_risk', 'breached'], [b, c]],
      ['sla_status', 'is_null', true, [b]],
      ['sla_status', 'is_null', false, [c, s, l]],
      ['sla_due_at', 'lte', due, [s, l]],
      ['sla_due_at', 'lt', due, [l]],
      ['sla_due_at', 'gt', due, [c]],
      ['sla_due_at', 'gte', due, [c, s]],
      ['sla_due_at', 'eq', due, [s]],
      ['sla_due_at', 'neq', due, [b, c, l]],
      ['sla_due_at', 'in', [due], [s]],
      ['sla_due_at', 'not_in', [due], [b, c, l]],
      ['sla_due_at', 'between', [later(-60).toISOString(), later(60).toISOString()], [s, l]],
      ['sla_due_at', 'between', [later(0).toISOString(), later(60).toISOString()], [s]],
      ['sla_due_at', 'is_null', true, [b]],
      ['sla_due_at', 'gte', { relative: 'today' }, [c, s, l]],
    ];
    for (const [field, op, value, ids] of cases)
      expect([field, op, value, await filterIds(tenant, { field, op, value })]).toEqual([field, op, value, ids]);
    const and = [
      { field: 'sla_status', op: 'eq', value: 'breached' },
      { field: 'email', op: 'eq', value: 'd@x.example' },
    ];
    expect(await filterIds(tenant, { and })).toEqual([l]);
    expect(await filterIds(tenant, { not: { or: and } })).toEqual([b, c, s]);
    // A response ends the breached clock; the next deadline is that of the resolution.
    await logActivity(tenant, l);
    expect(await filterIds(tenant, { field: 'sla_status', op: 'eq', value: 'breached' })).toEqual([]);
    expect(await filterIds(tenant, { field: 'sla_status', op: 'eq', value: 'running' })).toEqual([c, s, l]);
  });

  test('rejects unknown statuses, objects without clocks, and sorting by deadlines', async () => {
    const tenant = await newTenant();
    const refuse = async (object: string, query: Record<string, string>): Promise<Json> =>
      (await expectStatus(400, 'GET', recordsPath(object), { key: tenant.key, query })).body.error.details.fields[0];
    const filter = JSON.stringify({ field: 'sla_status', op: 'eq', value: 'atrisk' });
    expect(await refuse('leads', { filter })).toMatchObject({
      field: 'sla_status',
      code: 'INVALID_OPTION',
      allowed: ['running', 'at_risk', 'breached'],
    });
    const other = JSON.stringify({ field: 'sla_status', op: 'eq', value: 'breached' });
    expect(await refuse('accounts', { filter: other })).toMatchObject({ code: 'UNKNOWN_FIELD' });
    expect(await refuse('accounts', { expand: 'sla' })).toMatchObject({ field: 'expand', code: 'INVALID_OPTION' });
    expect(await refuse('leads', { sort: 'sla_due_at' })).toMatchObject({ code: 'UNKNOWN_FIELD' });
  });

  test('keeps the modes and companies apart, and follows the clock of test mode', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    for (const each of [tenant, other]) await createPolicy(each, { first_response_time: 60 });
    const lead = await createRecord(tenant.testKey, 'leads', { first_name: 'Test', email: 't@x.example' });
    await createLead(other);
    const breached = { field: 'sla_status', op: 'eq', value: 'breached' };
    const any = { field: 'sla_due_at', op: 'is_null', value: false };
    expect(await filterIds(tenant, any)).toEqual([]);
    expect(await filterIds(tenant, any, tenant.testKey)).toEqual([lead.id]);
    expect(await filterIds(tenant, breached, tenant.testKey)).toEqual([]);
    await database()`
      insert into test_clocks (company_id, ahead_seconds) values (${tenant.companyId}, 7200)`;
    expect(await filterIds(tenant, breached, tenant.testKey)).toEqual([lead.id]);
    await database()`delete from test_clocks where company_id = ${tenant.companyId}`;
  });
});
