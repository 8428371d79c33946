// Each tool with valid and invalid calls: results and errors.
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { beforeAll, describe, expect, test } from 'vitest';
import { tools } from '../../mcp/tools.ts';
import { newBranch, newRecord } from '../support/arranged-ids.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { callTool, post } from '../support/mcp.ts';
import { tomorrow, toolExamples } from '../support/mcp-examples.ts';
import { newWideTenant } from '../support/requests.ts';
import { newPool } from '../support/scheduling.ts';
import { newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const ajv = new Ajv2020({ strict: false });
(addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
const nobody = '019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b9e10';

let tenant: Tenant;
let lead = '';
let listed: Map<string, Json>;

beforeAll(async () => {
  tenant = await newWideTenant();
  lead = await newRecord(tenant, 'live', 'leads');
  const { tools: shown } = (await post('tools/list', {}, { key: tenant.key })).body.result;
  listed = new Map(shown.map((tool: Json) => [tool.name, tool]));
});

const use = async (name: string, args: object, key = tenant.key): Promise<Json> =>
  (await callTool(name, args, { key })).body.result;
/** Returns the data of a call that must succeed. */
const data = async (name: string, args: object, key = tenant.key): Promise<Json> => {
  const result = await use(name, args, key);
  expect(result.isError, result.content[0].text).toBeUndefined();
  return result.structuredContent;
};
/** Returns the error text of a call that must fail. */
const refusal = async (name: string, args: object, key = tenant.key): Promise<string> => {
  const result = await use(name, args, key);
  expect(result.isError, JSON.stringify(result.structuredContent)).toBe(true);
  expect(result.structuredContent).toBeUndefined();
  return result.content[0].text;
};

const booking = { attendee: { name: 'Sara', email: 'sara@example.com' }, meeting: { title: 'First call' } };

/** By tool: invalid arguments, and the expected error. */
const refusals: Record<string, [bad: object, recorded: RegExp]> = {
  whoami: [{ who: 'me' }, /- who \(UNKNOWN_FIELD\)/],
  list_objects: [{ limit: 'ten' }, /- limit \(/],
  describe_object: [{}, /- object \(REQUIRED\)/],
  search: [{ q: 'x' }, /- q \(/],
  query_records: [{ object: 'leads', sort: 'colour' }, /sort: colour/],
  get_record: [{ object: 'leads', id: nobody }, /^NOT_FOUND/],
  create_record: [
    { object: 'accounts', record: { nome: 'Blue Lake' } },
    /- nome \(UNKNOWN_FIELD\).*Did you mean name\?/,
  ],
  update_record: [{ object: 'leads', id: nobody, record: 'Dubai' }, /- record \(INVALID_TYPE\)/],
  batch_create_records: [{ object: 'accounts', records: [] }, /- records \(/],
  create_lead: [{ email: 'sara' }, /- first_name \(/],
  get_customer: [{}, /Send one of id, email/],
  log_activity: [{ entity_type: 'lead', entity_id: nobody, activity_type: 'Dance' }, /- activity_type \(/],
  update_activity: [{ id: nobody, summary: 'Asked again' }, /^NOT_FOUND/],
  list_activities: [{ entity_type: 'task' }, /- entity_type \(/],
  add_note: [{ object: 'leads', id: nobody, content: '' }, /- content \(/],
  list_notes: [{ object: 'leads', id: nobody }, /^NOT_FOUND/],
  link_records: [{ object: 'leads', id: nobody, link_type: 'x', record_id: nobody }, /^NOT_FOUND/],
  list_links: [{ object: 'leads', id: nobody }, /^NOT_FOUND/],
  create_task: [{ object: 'leads', id: nobody, title: 'Call', scheduled_at: tomorrow }, /^NOT_FOUND/],
  move_deal_stage: [{ id: nobody, stage: 'Qualified' }, /^NOT_FOUND/],
  run_report: [{ object: 'leads', metric: 'most' }, /- metric \(.*count/],
  pipeline_report: [{ object: 'tasks' }, /- object \(/],
  list_settings: [{ kind: 'users' }, /- kind \(.*Allowed: statuses, tags/],
  find_slots: [
    { member_ids: nobody, duration_minutes: 5 },
    /duration_minutes is not allowed together with the other arguments/,
  ],
  hold_slot: [{ slot_token: 'x' }, /slot_token/],
  book_meeting: [{ slot_token: 'x', ...booking, attendee: 'Sara' }, /- attendee \(/],
  list_bookings: [{ status: 'held' }, /- status \(.*confirmed/],
  draft_message: [{ channel: 'fax', to: 'sara@example.com', body: 'Hello' }, /- channel \(.*sms/],
  list_drafts: [{ status: 'new' }, /- status \(/],
  list_messages: [{ object: 'leads', id: nobody }, /^NOT_FOUND/],
  find_users: [{ status: 'gone' }, /- status \(.*active/],
  get_change_set: [{ id: nobody }, /^NOT_FOUND/],
  get_usage: [{ month: 'May' }, /- month \(UNKNOWN_FIELD\)/],
};

describe('a tool', () => {
  test('tests every tool', () => {
    const names = tools.map(({ name }) => name);
    expect([Object.keys(refusals), Object.keys(toolExamples(tenant, lead))]).toEqual([names, names]);
  });

  test.each(Object.entries(refusals))(
    'performs %s, returns the declared result, and explains errors',
    async (name, [bad, recorded]) => {
      const args = await toolExamples(tenant, lead)[name]?.();
      const { inputSchema, outputSchema } = listed.get(name);
      expect(ajv.validate(inputSchema, args), JSON.stringify(ajv.errors)).toBe(true);
      const answered = await data(name, args);
      expect(ajv.validate(outputSchema, answered), JSON.stringify(ajv.errors)).toBe(true);
      expect(Object.keys(answered).filter((field) => !(field in outputSchema.properties))).toEqual([]);
      expect(await refusal(name, bad)).toMatch(recorded);
    },
  );

  test('books a meeting with answers to the questions that its error lists, and finds it by its record', async () => {
    const questions = [
      { question: 'How large is your roof?', required: true },
      { question: 'Flat or pitched?', required: false },
    ];
    const pool = await newPool(tenant, { members: 1, policy: { questions } });
    const { slots } = await data('find_slots', { pool_id: pool.id, limit: 1 });
    const { reservation } = await data('hold_slot', { slot_token: slots[0].slot_token });
    const about = { object: 'leads', record_id: await newRecord(tenant, 'live', 'leads') };
    const held = { slot_token: slots[0].slot_token, reservation_id: reservation.id, ...booking, ...about };
    expect(await refusal('book_meeting', held)).toMatch(
      /- answers \(REQUIRED\): .*The policy asks “How large is your roof\?” \(required\), “Flat or pitched\?”\./,
    );
    const answers = [{ question: 'How large is your roof?', answer: '80 square meters' }];
    const booked = (await data('book_meeting', { ...held, answers, guests: ['ben@example.com'] })).booking;
    expect(booked).toMatchObject({ answers, guests: ['ben@example.com'], ...about });
    const { bookings } = await data('list_bookings', { ...about, upcoming: true, order: 'asc' });
    expect(bookings.map(({ id }: Json) => id)).toEqual([booked.id]);
  });

  test('shows the requested fields, even if the operation returns all', async () => {
    const { activities } = await data('list_activities', { fields: 'summary, outcome' });
    expect(Object.keys(activities[0]).toSorted()).toEqual(['id', 'outcome', 'summary']);
    const { drafts } = await data('list_drafts', { fields: 'to' });
    expect(Object.keys(drafts[0]).toSorted()).toEqual(['id', 'to']);
    const id = await newRecord(tenant, 'live', 'customers');
    expect(Object.keys((await data('get_customer', { id, fields: 'email' })).customer)).toEqual(['id', 'email']);
  });
});

describe('a change', () => {
  test('makes a change once per key, and each time without a key', async () => {
    const record = { name: 'Once' };
    const args = { object: 'accounts', record, idempotency_key: 'the-same' };
    const first = await data('create_record', args);
    expect((await data('create_record', args)).record.id).toBe(first.record.id);
    expect(await refusal('create_record', { ...args, record: { name: 'Twice' } })).toMatch(/^IDEMPOTENCY_CONFLICT/);
    const again = await data('create_record', { object: 'accounts', record });
    expect(again.record.id).not.toBe(first.record.id);
  });

  test('makes the same change with a key as over REST', async () => {
    const args = { object: 'accounts', record: { name: 'Both' }, idempotency_key: 'both-ways' };
    const { record } = await data('create_record', args);
    const path = '/v1/objects/accounts/records';
    const answer = await call('POST', path, { key: tenant.key, body: args.record, idempotencyKey: 'both-ways' });
    expect([answer.status, answer.body.data.record.id]).toEqual([201, record.id]);
    expect(answer.headers.get('idempotent-replay')).toBe('true');
  });

  test('records a change in the audit log with its API key', async () => {
    const { lead: made } = await data('create_lead', { first_name: 'Noted', email: 'noted@example.com' });
    const { body } = await expectStatus(200, 'GET', '/v1/audit-logs', { key: tenant.key, query: { limit: 5 } });
    expect(body.data.audit_logs ?? body.data.entries ?? Object.values(body.data)[0]).toContainEqual(
      expect.objectContaining({
        action: 'lead.create',
        record_id: made.id,
        actor: expect.objectContaining({ kind: 'api_key' }),
      }),
    );
  });
});

describe('a result', () => {
  const countResultTokens = (result: Json): number => countTokens(result.content[0].text);

  test.each([
    // More tokens than a quarter of the bytes, which estimates assume.
    ['digits', (index: number) => `${index} 7f3a91c0-`.repeat(150)],
    ['Chinese', (index: number) => `客户${index}询问报价。`.repeat(100)],
  ])(
    'shortens a result that is too large to a page with %s, with a cursor after its last record',
    async (_name, notes) => {
      const big = await newWideTenant();
      const rows = Array.from({ length: 40 }, (_, index) => ({
        email: `lead${index}@example.com`,
        first_name: `Lead ${index}`,
        notes: notes(index),
      }));
      for (let from = 0; from < 40; from += 20)
        await data('batch_create_records', { object: 'leads', records: rows.slice(from, from + 20) }, big.key);
      const emails: string[] = [];
      let cursor: string | undefined;
      do {
        const args = { object: 'leads', limit: 40, ...(cursor === undefined ? {} : { cursor }) };
        const result = await use('query_records', args, big.key);
        expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
        const page = result.structuredContent;
        expect([page.has_more, page.has_more]).toEqual([page.next_cursor !== null, page.truncated]);
        if (page.has_more) expect(page.hint).toContain(`shortened to ${page.records.length} items`);
        expect(page.records[0].notes).toBe(notes(Number(page.records[0].first_name.slice(5))).trim());
        emails.push(...page.records.map(({ email }: Json) => email));
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      expect(emails.toSorted()).toEqual(rows.map(({ email }) => email).toSorted());
      const narrow = await data('query_records', { object: 'leads', limit: 40, fields: 'email' }, big.key);
      expect([narrow.records.length, narrow.truncated]).toEqual([40, false]);
    },
  );

  test('keeps the group of every object in a search result', async () => {
    const big = await newWideTenant();
    const notes = 'Asks again next week. '.repeat(150);
    for (const object of ['leads', 'customers', 'accounts']) {
      const named = object === 'accounts' ? 'name' : 'first_name';
      const text = object === 'accounts' ? 'description' : 'notes';
      const records = Array.from({ length: 10 }, (_, index) => ({
        [named]: `Findable ${index}`,
        [text]: notes,
        email: `findable${index}@example.com`,
      }));
      await data('batch_create_records', { object, records }, big.key);
    }
    const result = await use('search', { q: 'findable' }, big.key);
    expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
    const { groups, truncated } = result.structuredContent;
    expect(groups.map(({ object }: Json) => object).toSorted()).toEqual(['accounts', 'customers', 'leads']);
    for (const group of groups)
      expect(group).toMatchObject({ total: 10, hits: [expect.anything(), expect.anything()] });
    expect(truncated).toBe(true);
  });

  test('cuts texts of a single large item', async () => {
    const id = await newRecord(tenant, 'live', 'leads');
    const text = '客'.repeat(5000);
    const result = await use('update_record', { object: 'leads', id, record: { notes: text, inquiry_details: text } });
    expect(result.isError, result.content[0].text).toBeUndefined();
    expect(countResultTokens(result)).toBeLessThanOrEqual(8000);
    const { truncated, hint, record } = result.structuredContent;
    expect({ truncated, hint }).toEqual({ truncated: true, hint: 'Long texts were cut. Everything was written.' });
    expect(record).toMatchObject({ id, notes: expect.stringMatching(/^客{2000}…$/) });
    expect((await data('get_record', { object: 'leads', id, fields: 'notes' })).record.notes).toBe(text);
  });
});

describe('an error', () => {
  test.each([
    ['query_records', { object: 'lead' }],
    ['get_record', { object: 'lead', id: nobody }],
    ['create_record', { object: 'lead', record: {} }],
    ['batch_create_records', { object: 'lead', records: [{}] }],
    ['update_record', { object: 'lead', id: nobody, record: {} }],
    ['describe_object', { object: 'lead' }],
    ['add_note', { object: 'lead', id: nobody, content: 'x' }],
    ['list_notes', { object: 'lead', id: nobody }],
    ['list_messages', { object: 'lead', id: nobody }],
    ['create_task', { object: 'lead', id: nobody, title: 'x', scheduled_at: tomorrow }],
    ['run_report', { object: 'lead', metric: 'count' }],
    ['search', { q: 'example', objects: 'lead,deals' }],
    [
      'draft_message',
      { channel: 'email', to: 'a@example.com', subject: 'x', body: 'x', object: 'lead', record_id: nobody },
    ],
  ])('lists the existing objects if %s gets an unknown name', async (name, args) => {
    const { objects } = await data('list_objects', { limit: 100 });
    const recorded = await refusal(name, args);
    expect(recorded).toMatch(/^(NOT_FOUND|VALIDATION_ERROR)/);
    for (const { object } of objects) expect(recorded).toContain(object);
  });

  test('lists only objects that the credential can see', async () => {
    const key = await newKey(tenant, { scopes: ['leads:view', 'leads:edit'] });
    const recorded = await refusal('query_records', { object: 'deals' }, key);
    expect(recorded).toBe('NOT_FOUND: There is no object deals that this credential can see. Objects: leads.');
  });

  test('names the argument that found nothing', async () => {
    expect(await refusal('get_record', { object: 'leads', id: nobody })).toBe(
      'NOT_FOUND: Nothing that this credential can see was found by id.',
    );
  });

  test.each([
    ['create_record', { object: 'leads', record: { colour: 'red' } }, /describe_object lists the fields/],
    ['create_lead', { first_name: 'Sara', email: 'a@example.com', custom_fields: { x: 1 } }, /custom_fields/],
    ['create_record', { object: 'leads', record: {}, idempotency_key: 'short' }, /idempotency_key must be 8 to 255/],
    ['query_records', { object: 'leads', filter: { field: 'colour', op: 'eq', value: 1 } }, /colour/],
    ['query_records', { object: 'leads', cursor: 'x' }, /cursor/],
    ['log_activity', { entity_type: 'lead' }, /entity_id/],
    ['book_meeting', { slot_token: 'x', attendee: { colour: 'red' }, meeting: {} }, /attendee\.colour/],
    ['move_deal_stage', { id: nobody, stage: 'Nowhere' }, /./],
  ])('words the error of %s with %j in terms of tools and arguments', async (name, args, recorded) => {
    const text = await refusal(name, args);
    expect(text).toMatch(recorded);
    expect(text).not.toMatch(
      /\/v1\/|\b(GET|POST|PATCH|PUT|DELETE)\b|query parameter|Idempotency-Key|request|header|such resource/,
    );
  });
});

describe('records of the other mode', () => {
  test.each([
    'get_record',
    'update_record',
    'log_activity',
    'add_note',
    'list_notes',
    'list_messages',
    'create_task',
    'move_deal_stage',
    'update_activity',
    'get_customer',
  ])('finds nothing of the other mode by %s', async (name) => {
    const args = await toolExamples(tenant, lead)[name]?.();
    expect(await refusal(name, args, tenant.testKey)).toMatch(/^NOT_FOUND|^VALIDATION_ERROR/);
  });
});

describe('the tools for what happened and who works here', () => {
  test('returns the same notes, messages, bookings and users as the operations', async () => {
    const [id, other] = [await newRecord(tenant, 'live', 'leads'), await newRecord(tenant, 'live', 'leads')];
    for (const content of ['First', 'Second']) await data('add_note', { object: 'leads', id, content });
    await data('add_note', { object: 'leads', id: other, content: 'Of another' });
    await data('book_meeting', await toolExamples(tenant, lead).book_meeting?.());
    const read = async (path: string): Promise<Json> =>
      (await expectStatus(200, 'GET', path, { key: tenant.key, query: { limit: 10 } })).body.data;
    const at = { object: 'leads', id };
    const { truncated: _, ...notes } = await data('list_notes', at);
    expect(notes.notes.map(({ content }: Json) => content)).toEqual(['Second', 'First']);
    expect(notes).toEqual(await read(`/v1/objects/leads/records/${id}/notes`));
    expect(await data('list_messages', at)).toMatchObject(await read(`/v1/objects/leads/records/${id}/messages`));
    const booked = await data('list_bookings', {});
    expect(booked.bookings.length).toBeGreaterThan(0);
    expect(booked).toMatchObject(await read('/v1/bookings'));
    expect(await data('find_users', {})).toMatchObject(await read('/v1/users'));
  });

  test('finds users by part of a name or an address, without patterns', async () => {
    const { id, email } = await newUser(tenant);
    expect((await data('find_users', { q: email.toUpperCase(), fields: 'email' })).users).toEqual([{ id, email }]);
    expect((await data('find_users', { q: 'dA AdM' })).users).toMatchObject([{ id: tenant.admin.id }]);
    for (const q of ['%', '_', '\\']) expect((await data('find_users', { q })).users).toEqual([]);
  });

  test('shows a credential only what it can see', async () => {
    const reach = { kind: 'branch', id: await newBranch(tenant) } as const;
    const narrow = await newKey(tenant, { reach });
    const colleague = await newUser(tenant, { branchId: reach.id });
    expect(await refusal('list_notes', { object: 'leads', id: lead }, narrow)).toMatch(/^NOT_FOUND/);
    expect(await refusal('list_messages', { object: 'leads', id: lead }, narrow)).toMatch(/^NOT_FOUND/);
    expect((await data('list_bookings', {}, narrow)).bookings).toEqual([]);
    expect((await data('find_users', {}, narrow)).users.map(({ id }: Json) => id)).toEqual([colleague.id]);
    expect((await data('list_bookings', {}, tenant.testKey)).bookings).toEqual([]);
    const leads = await newKey(tenant, { scopes: ['leads:view'] });
    for (const name of ['list_bookings', 'find_users', 'list_messages'])
      expect((await callTool(name, {}, { key: leads })).body.error.message).toContain(`There is no tool ${name}`);
  });
});

describe('missing scopes', () => {
  test('hides tools without permission, and names the scope that an object needs', async () => {
    const key = await newKey(await newTenant(), { scopes: ['leads:view', 'leads:edit', 'deals:view'] });
    expect((await callTool('create_lead', { first_name: 'Sara' }, { key })).body.error.message).toMatch(
      /no tool create_lead/,
    );
    expect(await refusal('update_record', { object: 'deals', id: nobody, record: {} }, key)).toMatch(
      /^FORBIDDEN_SCOPE: .*deals:edit/,
    );
    expect(await refusal('query_records', { object: 'customers' }, key)).toMatch(/^NOT_FOUND/);
  });
});
