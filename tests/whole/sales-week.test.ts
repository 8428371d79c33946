// A sales week as an integrator writes it with the client of sdk/. Read it as a tutorial: the days
// build on each other. The week has its own server and database, because it moves the clock.

import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { handleSlaClocks } from '../../jobs/settings/sla.ts';
import { type Client, type CrmError, createClient, isCrmError, type Schemas } from '../../sdk/src/index.ts';
import { dropAllDatabases, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { database, useDatabase } from '../support/tenants.ts';

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `week-${process.pid}`);
const password = 'a long passphrase';
let databaseUrl: string;
let server: TestServer;

beforeAll(async () => {
  databaseUrl = await newDatabase();
  server = await startServer({ DATABASE_URL: databaseUrl, DATA_DIR: folder });
  await useDatabase(databaseUrl);
});

afterAll(async () => {
  await server?.stop();
  await useDatabase(undefined);
  await dropAllDatabases();
  rmSync(folder, { recursive: true, force: true });
});

/** Returns the error of a failing call. */
async function catchError(call: Promise<unknown>): Promise<CrmError> {
  try {
    await call;
  } catch (error) {
    if (isCrmError(error)) return error;
    throw error;
  }
  throw new Error('the call did not fail');
}

/** Returns the data of a record's events of one name, as webhooks send it. */
async function readEvents(name: string, recordId: string): Promise<Record<string, unknown>[]> {
  const rows = await database()`
    select data from ${recordedEvents(database(), recordId)} where event = ${name} order by id`;
  return rows.map((row) => row.data);
}

describe('a sales week', () => {
  let admin: Client;
  let crm: Client;
  let omar: Schemas['User'];
  const ids: Record<'sara' | 'karim' | 'customer' | 'account' | 'deal' | 'file', string> = {
    sara: '',
    karim: '',
    customer: '',
    account: '',
    deal: '',
    file: '',
  };
  let fileLink = '';

  test('signs up the company, signs in, creates a key, and configures the workspace (Sunday)', async () => {
    const signup = await createClient({ baseUrl: server.url }).createOnboarding({
      body: {
        company: { name: 'Solar Roofs', email: 'office@solar.example' },
        admin_user: { email: 'dana@solar.example', full_name: 'Dana Demo', password },
        region: 'europe',
        industry: 'Renewable energy',
      },
    });
    expect(signup.subscription).toMatchObject({ status: 'trialing', package_code: 'growth' });
    expect(signup).not.toHaveProperty('temp_password');

    const { access_token } = await createClient({ baseUrl: server.url }).createSession({
      query: { grant_type: 'password' },
      body: { email: 'dana@solar.example', password },
    });
    admin = createClient({ baseUrl: server.url, token: access_token });
    const { key } = await admin.createApiKey({ body: { name: 'Integration', scopes: ['*'] } });
    crm = createClient({ baseUrl: server.url, apiKey: key });
    expect(await crm.getMe()).toMatchObject({ company: { name: 'Solar Roofs' }, environment: 'live', scopes: ['*'] });

    const made = await crm.createUser({
      body: { email: 'omar@solar.example', full_name: 'Omar Nasser', role: 'Sales_Rep', password },
    });
    omar = made.user;
    await crm.createSource({ body: { name: 'Trade fair' } });
    await crm.updateDuplicateCheck({ path: { object: 'leads' }, body: { enabled: true, fields: ['email', 'mobile'] } });
    const { field } = await crm.createField({
      path: { object: 'leads' },
      body: { name: 'Fair badge', label: 'Fair badge', type: 'text' },
    });
    expect(field).toMatchObject({ name: 'fair_badge', type: 'text', custom: true, enabled: true });
  });

  test('imports leads of a fair, one of them twice, and stores each once (Monday)', async () => {
    const visitor = (first_name: string, number: number, mobile: string) => ({
      first_name,
      mobile,
      email: `${first_name.toLowerCase()}@visitors.example`,
      source: 'Trade fair',
      fair_badge: `B-${number}`,
    });
    const records = [
      { ...visitor('Sara', 1, '+4917139200 11'), last_name: 'Haddad', company_name: 'Blue Lake Trading' },
      visitor('Karim', 2, '+491713920012'),
      visitor('Elena', 3, '+491713920013'),
      visitor('Sara', 1, '+491713920011'),
      { first_name: 'Nobody', fair_badge: 'B-4' },
    ];
    const call = { path: { object: 'leads' }, body: { records }, idempotencyKey: 'fair-2026-import-1' };
    const imported = await crm.createRecordBatch(call);
    expect([imported.succeeded_count, imported.failed_count]).toEqual([3, 2]);
    expect(imported.failed).toMatchObject([
      { index: 3, code: 'DUPLICATE_IN_BATCH' },
      { index: 4, code: 'VALIDATION_ERROR' },
    ]);
    // A restarted script sends the same key, gets the first response, and stores nothing again.
    expect(await crm.createRecordBatch(call)).toEqual(imported);
    const leads: Schemas['CrmRecord'][] = [];
    const list = { path: { object: 'leads' }, query: { sort: 'fair_badge', limit: 2 } };
    for await (const lead of crm.listRecords.all(list)) leads.push(lead);
    expect(leads.map(({ first_name, fair_badge }) => [first_name, fair_badge])).toEqual([
      ['Sara', 'B-1'],
      ['Karim', 'B-2'],
      ['Elena', 'B-3'],
    ]);
    [ids.sara, ids.karim] = leads.map(({ id }) => id) as [string, string];
    expect(leads[0]).toMatchObject({ mobile: '+491713920011', lead_status: 'New', source: 'Trade fair' });
  });

  test('finds returning leads by a check, by the error for a duplicate, and by an upsert (Tuesday)', async () => {
    const asked = await crm.checkRecordDuplicates({
      path: { object: 'leads' },
      body: { record: { email: 'SARA@visitors.example' } },
    });
    expect(asked).toMatchObject({ matches: [{ id: ids.sara, matched_fields: ['email'] }] });

    const again = { first_name: 'Sara', email: 'Sara@Visitors.example', source: 'website' };
    const refusal = await catchError(crm.createLead({ body: again }));
    expect(refusal).toMatchObject({ status: 409, code: 'ALREADY_EXISTS' });
    expect(refusal.details).toMatchObject({ existing_id: ids.sara, matched_fields: ['email'] });

    const upserted = await crm.upsertRecord({
      path: { object: 'leads' },
      body: { match_on: ['email'], record: { ...again, source: 'Website', priority: 1 } },
    });
    expect(upserted).toMatchObject({ created: false, record: { id: ids.sara, priority: 1, source: 'Website' } });
    expect(upserted.record).toMatchObject({ last_name: 'Haddad', fair_badge: 'B-1' });
  });

  test('assigns, calls and converts a lead (Wednesday)', async () => {
    const lead = { path: { object: 'leads', id: ids.sara } };
    await crm.updateRecord({ ...lead, body: { assigned_to: omar.id } });
    const { record } = await crm.getRecord({ ...lead, query: { expand: 'assigned_to' } });
    expect(record).toMatchObject({ assigned_to: omar.id, expanded: { assigned_to: { full_name: 'Omar Nasser' } } });

    const performed_at = new Date(Date.now() - 60_000).toISOString();
    const followup_at = new Date(Date.now() + 3_600_000).toISOString();
    const called = { entity_type: 'lead', entity_id: ids.sara, activity_type: 'call', performed_at } as const;
    await crm.createActivity({ body: { ...called, summary: 'Wants a quote for the main hall', followup_at } });
    const after = (await crm.getRecord(lead)).record;
    expect(after).toMatchObject({ last_contacted_at: performed_at, next_followup_at: followup_at });

    const deal = { name: 'Main hall, 120 kWp', stage: 'Qualified' };
    const converted = await crm.convertLead({ path: { id: ids.sara }, body: { create_deal: true, deal } });
    expect(converted).toMatchObject({
      lead: { lead_status: 'Converted' },
      customer: { created: true },
      account: { created: true },
      deal: { name: deal.name, stage: 'Qualified', assigned_to: omar.id },
    });
    ids.customer = converted.customer.id;
    ids.account = converted.account?.id ?? '';
    ids.deal = (converted.deal as { id: string }).id;
    const twice = await catchError(crm.convertLead({ path: { id: ids.sara }, body: {} }));
    expect(twice.details).toMatchObject({ reason: 'already_converted', customer_id: ids.customer, deal_id: ids.deal });

    const { customer } = await crm.getCustomerByEmail({ query: { email: 'sara@visitors.example' } });
    expect(customer).toMatchObject({ id: ids.customer, lead_id: ids.sara, account: { name: 'Blue Lake Trading' } });
  });

  test('wins a deal after its stage required missing fields (Thursday)', async () => {
    const { statuses } = await crm.listStatuses({ path: { object: 'deals' } });
    const won = statuses.find(({ name }) => name === 'Won');
    await crm.updateStatus({
      path: { object: 'deals', id: won?.id ?? '' },
      body: {
        pre_condition_fields: ['amount_minor'],
        pre_condition_rules: [
          { kind: 'activity', activity_type: 'Meeting', min_count: 1 },
          { kind: 'attachment', min_count: 1 },
        ],
      },
    });
    const proposal = await crm.updateDealStage({ path: { id: ids.deal }, body: { stage: 'Proposal' } });
    expect(proposal).toMatchObject({
      changed: true,
      previous_stage: { name: 'Qualified' },
      stage: { name: 'Proposal' },
    });

    const move = { path: { id: ids.deal }, body: { stage: 'Won', fields: { amount_minor: 12_600_000 } } };
    const early = await catchError(crm.updateDealStage({ ...move, body: { stage: 'Won' } }));
    expect(early).toMatchObject({
      status: 422,
      code: 'VALIDATION_ERROR',
      details: { reason: 'pre_conditions_not_met' },
    });
    expect(early.fields.map(({ field, code }) => [field, code])).toEqual([
      ['amount_minor', 'REQUIRED'],
      ['activities', 'RULE_FAILED'],
      ['attachments', 'RULE_FAILED'],
    ]);

    await crm.createActivity({
      body: { entity_type: 'deal', entity_id: ids.deal, activity_type: 'Meeting', summary: 'Signed' },
    });
    const form = new FormData();
    form.set('file', new Blob(['The signed contract'], { type: 'text/plain' }), 'Contract 17.txt');
    const { attachment } = await crm.createAttachment({ path: { object: 'deals', id: ids.deal }, body: form });
    expect(attachment).toMatchObject({ file_name: 'Contract 17.txt', size_bytes: 19, record_id: ids.deal });
    ids.file = attachment.id;
    const moved = await crm.updateDealStage(move);
    expect(moved).toMatchObject({ changed: true, stage: { name: 'Won', outcome: 'won' } });
    expect(moved.deal).toMatchObject({ amount_minor: 12_600_000, won_at: expect.any(String), lost_at: null });

    // The link needs no credential for ten minutes.
    fileLink = (await crm.getAttachment({ path: { id: ids.file } })).attachment.download_url;
    const file = await fetch(fileLink);
    expect(file.headers.get('content-disposition')).toContain('Contract 17.txt');
    expect(await file.text()).toBe('The signed contract');
  });

  test('shows the week in search, report and pipeline (Friday)', async () => {
    const found = await crm.searchRecords({ query: { q: 'blue lake' } });
    const hits = found.groups.map(({ object, hits: [best] }) => [object, best?.id, best?.matched_field]);
    expect(hits).toEqual([
      ['leads', ids.sara, 'company_name'],
      ['customers', ids.customer, 'company_name'],
      ['accounts', ids.account, 'name'],
    ]);

    const report = await crm.searchReport({
      body: { object: 'deals', metric: 'sum', field: 'amount_minor', group_by: 'stage' },
    });
    expect(report).toMatchObject({
      groups: [{ key: 'Won', value: 12_600_000, count: 1 }],
      total: { value: 12_600_000 },
    });

    const pipeline = await crm.getPipeline({ query: { object: 'leads' } });
    expect(pipeline).toMatchObject({ total: 3, converted: 1, conversion_rate: 0.3333 });
    expect(pipeline.by_status.map(({ status, count }) => `${status} ${count}`)).toEqual([
      'New 2',
      'Contacted 0',
      'Qualified 0',
      'Converted 1',
      'Disqualified 0',
    ]);
  });

  test('reports a lead without a timely response once, by an event and in the app (Saturday)', async () => {
    const { sla_policy } = await crm.createSlaPolicy({
      body: {
        name: 'Within the hour',
        entity_type: 'lead',
        first_response_time: 60,
        escalations: [
          {
            level: 1,
            type: 'first_response',
            minutes_after: 0,
            recipient_user_ids: [omar.id],
            message_template: '{{record_name}} still waits.',
          },
        ],
      },
    });
    const { lead } = await crm.createLead({ body: { first_name: 'Vera', email: 'vera@visitors.example' } });
    await twoServersLookAfter(61);
    await twoServersLookAfter(62);
    const sla = {
      policy_id: sla_policy.id,
      policy_name: 'Within the hour',
      type: 'first_response',
      overdue_minutes: 1,
    };
    expect(await readEvents('sla.breached', lead.id)).toMatchObject([
      { object: 'leads', record_id: lead.id, level: 0, sla },
    ]);
    const notifications = await database()`select user_id, kind, title from notifications where record_id = ${lead.id}`;
    const escalation = { kind: 'sla_escalation', title: 'Vera still waits.' };
    // The recipient of the escalation, and the user to whom the lead is assigned.
    const reached = [omar.id, lead.assigned_to].map((id) => ({ user_id: id, ...escalation }));
    expect([...notifications]).toEqual(expect.arrayContaining(reached));
    expect(notifications).toHaveLength(2);
    // Monday's leads are older than the policy.
    expect(await readEvents('sla.breached', ids.karim)).toEqual([]);
  });

  test('deactivates a user, which frees the seat, ends the session and keeps the records (the week after)', async () => {
    const signIn = () =>
      createClient({ baseUrl: server.url }).createSession({
        query: { grant_type: 'password' },
        body: { email: 'omar@solar.example', password },
      });
    const session = await signIn();
    const own = createClient({ baseUrl: server.url, token: session.access_token });
    expect((await own.getMe()).actor.id).toBe(omar.id);
    // The trial ends, and the company buys three seats.
    await database()`update subscriptions set package_code = 'starter'`;
    const person = (name: string) => ({ email: `${name}@solar.example`, full_name: name, role: 'Sales_Rep' });
    await crm.createUser({ body: person('nora') });
    const full = await catchError(crm.createUser({ body: person('hugo') }));
    expect(full).toMatchObject({ status: 409, code: 'SEAT_LIMIT_REACHED', details: { seats_used: 3, set_seats: 4 } });

    await crm.updateUser({ path: { id: omar.id }, body: { status: 'inactive' } });
    expect(await catchError(own.getMe())).toMatchObject({ status: 401 });
    expect(await catchError(signIn())).toMatchObject({ code: 'invalid_grant' });
    const renewal = createClient({ baseUrl: server.url }).createSession({
      query: { grant_type: 'refresh_token' },
      body: { refresh_token: session.refresh_token },
    });
    expect(await catchError(renewal)).toMatchObject({ code: 'invalid_grant' });
    expect((await crm.createUser({ body: person('hugo') })).user.status).toBe('active');
    const { record } = await crm.getRecord({ path: { object: 'deals', id: ids.deal } });
    expect(record).toMatchObject({ assigned_to: omar.id, stage: 'Won' });
  });

  test('retires a field, which hides and keeps its values (the week after)', async () => {
    const field = { path: { object: 'leads', field: 'fair_badge' } };
    const names = async () =>
      (await crm.getObjectSchema({ path: { object: 'leads' } })).schema.fields.map(({ name }) => name);
    expect(await names()).toContain('fair_badge');
    await crm.updateField({ ...field, body: { enabled: false } });
    expect(await names()).not.toContain('fair_badge');
    const lead = { path: { object: 'leads', id: ids.karim } };
    expect((await crm.getRecord(lead)).record).not.toHaveProperty('fair_badge');
    const refused = await catchError(crm.updateRecord({ ...lead, body: { fair_badge: 'B-9' } }));
    expect(refused).toMatchObject({ status: 422, fields: [{ field: 'fair_badge', code: 'UNKNOWN_FIELD' }] });
    await crm.updateField({ ...field, body: { enabled: true } });
    expect((await crm.getRecord(lead)).record).toMatchObject({ fair_badge: 'B-2' });
  });

  test('lists everything in the audit log in order, with actors and changes (the end)', async () => {
    const rows = await database()<{ action: string; who: string; recordId: string | null; changes: unknown }[]>`
      select action, coalesce(key_name, actor_kind) as who, record_id as "recordId", changes from audit_logs order by seq`;
    // The import was replayed and the second Sara was rejected, so neither is here.
    expect(rows.map(({ who, action }) => `${who}: ${action}`)).toEqual([
      'system: company.onboard',
      'user: session.create',
      'user: api_key.create',
      ...[
        'user.create',
        'settings.source.create',
        'settings.duplicate_check.update',
        'field.create',
        'lead.create',
        'lead.create',
        'lead.create',
        'lead.update',
        'lead.update',
        'activity.create',
        'lead.update',
        'account.create',
        'customer.create',
        'deal.create',
        'lead.convert',
        'settings.status.update',
        'deal.update',
        'activity.create',
        'deal.update',
        'attachment.create',
        'deal.update',
        'settings.sla_policy.create',
        'lead.create',
      ].map((action) => `Integration: ${action}`),
      'user: session.create',
      ...['user.create', 'user.update', 'user.create', 'field.update', 'field.update'].map(
        (action) => `Integration: ${action}`,
      ),
    ]);
    const won = rows.filter(({ recordId, action }) => recordId === ids.deal && action === 'deal.update')[2];
    expect(won?.changes).toMatchObject({
      amount_minor: { from: null, to: 12_600_000 },
      stage: { from: 'Proposal', to: 'Won' },
      won_at: { from: null, to: expect.any(String) },
    });
  });
});

/** Runs the SLA job on two servers as if some minutes had passed. */
async function twoServersLookAfter(minutes: number): Promise<void> {
  const shared = { url: databaseUrl, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000, lanes: 1 };
  const pools = {
    platform: new Pool({ ...shared, role: 'crm_platform' }),
    tenants: new Pool({ ...shared, role: 'crm_app' }),
  };
  const later = () => new Date(Date.now() + minutes * 60_000);
  const look = () => handleSlaClocks(buildJobContext('sla', pools, { now: later }));
  await Promise.all([look(), look()]);
  await Promise.all([pools.platform.close(1), pools.tenants.close(1)]);
}
