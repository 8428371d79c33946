// Lead conversion: creates the customer, account and deal of a lead together or not at all.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import { addNote, childrenPath, task } from '../support/record-children.ts';
import {
  createRecord,
  leftBehind,
  listProblems,
  newCustomField,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { askFor, setActive } from '../support/statuses.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

const path = (id: string) => `/v1/leads/${id}/convert`;
const address = () => `${randomUUID()}@x.example`;
const newLead = (key: string, more: object = {}): Promise<Json> =>
  createRecord(key, 'leads', { first_name: 'Sara', email: address(), ...more });
const post = (status: number, key: string, id: string, body?: unknown, options: CallOptions = {}) =>
  expectStatus(status, 'POST', path(id), { key, ...(body === undefined ? {} : { body }), ...options });
const convert = async (key: string, id: string, body?: object): Promise<Json> =>
  (await post(200, key, id, body)).body.data;
const refused = (status: number, key: string, id: string, body: unknown) =>
  refusedFields(status, 'POST', path(id), { key, body });

/** Counts the customers, accounts and deals of a tenant. */
async function counts(tenant: Tenant): Promise<Record<string, number>> {
  const [row] = await database()<Record<string, number>[]>`
    select
      (select count(*)::int from customers where company_id = ${tenant.companyId}) as customers,
      (select count(*)::int from accounts where company_id = ${tenant.companyId}) as accounts,
      (select count(*)::int from deals where company_id = ${tenant.companyId}) as deals`;
  return row ?? {};
}

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await database()`insert into sources (company_id, id, name, created_at, updated_at) values (${tenant.companyId}, ${randomUUID()}, 'Fair', now(), now())`;
});

describe('converting', () => {
  test('creates a customer, an account and a deal from the lead, links them, and audits each', async () => {
    const { id: userId } = await newUser(tenant);
    const company = `Blue Lake ${randomUUID()}`;
    const lead = await newLead(key, {
      last_name: 'Haddad',
      mobile: '+971501234567',
      company_name: company,
      job_title: 'Buyer',
      website: 'https://bluelake.example',
      city: 'Dubai',
      country: 'AE',
      notes: 'Met at the fair',
      source: 'Fair',
      assigned_to: userId,
    });
    await createRecord(key, 'activities', {
      activity_type: 'Call',
      entity_type: 'lead',
      entity_id: lead.id,
      summary: 'x',
    });
    const contacted = (await readRecord(key, 'leads', lead.id)).last_contacted_at;
    const data = await convert(key, lead.id, {
      create_deal: true,
      deal: { amount_minor: '1250000', stage: 'qualified' },
    });

    expect(data.lead).toEqual(await readRecord(key, 'leads', lead.id));
    expect(data.lead).toMatchObject({
      lead_status: 'Converted',
      converted_at: data.lead.updated_at,
      converted_customer_id: data.customer.id,
    });
    expect([data.customer.created, data.account.created]).toEqual([true, true]);
    expect(await readRecord(key, 'customers', data.customer.id)).toMatchObject({
      first_name: 'Sara',
      last_name: 'Haddad',
      email: lead.email,
      mobile: '+971501234567',
      company_name: company,
      account_id: data.account.id,
      job_title: 'Buyer',
      website: 'https://bluelake.example',
      city: 'Dubai',
      country: 'AE',
      source: 'Fair',
      notes: 'Met at the fair',
      assigned_to: userId,
      lead_id: lead.id,
      last_contacted_at: contacted,
    });
    expect(await readRecord(key, 'accounts', data.account.id)).toMatchObject({
      name: company,
      website: 'https://bluelake.example',
      city: 'Dubai',
      country: 'AE',
      assigned_to: userId,
    });
    expect(data.deal).toEqual(await readRecord(key, 'deals', data.deal.id));
    expect(data.deal).toMatchObject({
      name: company,
      amount_minor: 1250000,
      stage: 'Qualified',
      source: 'Fair',
      assigned_to: userId,
      customer_id: data.customer.id,
      account_id: data.account.id,
      lead_id: lead.id,
    });

    for (const [object, id] of [
      ['customers', data.customer.id],
      ['accounts', data.account.id],
      ['deals', data.deal.id],
    ]) {
      const { audit, events } = await leftBehind(id);
      expect(audit).toMatchObject([{ action: `${object.slice(0, -1)}.create`, object }]);
      expect(events).toMatchObject([{ event: 'record.created', data: { object } }]);
    }
    const { audit, events } = await leftBehind(lead.id);
    expect(audit.at(-1)).toMatchObject({
      action: 'lead.convert',
      metadata: { customer_id: data.customer.id, account_id: data.account.id, deal_id: data.deal.id },
    });
    const [updated, moved, ...more] = events.slice(2);
    expect([updated.event, moved.event, more]).toEqual(['record.updated', 'lead.status_changed', []]);
    expect(moved.data).toMatchObject({ from: 'New', to: 'Converted' });
    expect(updated.data.changed_fields.sort()).toEqual([
      'converted_at',
      'converted_customer_id',
      'lead_status',
      'lead_status_id',
    ]);
    const profile = await expectStatus(200, 'GET', `/v1/customers/${data.customer.id}`, {
      key,
      query: { include: 'leads_count,deals_count,activities_count' },
    });
    expect(profile.body.data.customer).toMatchObject({ leads_count: 1, deals_count: 1, activities_count: 1 });
  });

  test('creates only a customer without a body, and no account without a company', async () => {
    const lead = await newLead(key);
    const data = await convert(key, lead.id);
    expect(data).toMatchObject({ account: null, deal: null, customer: { created: true } });
    expect(await readRecord(key, 'customers', data.customer.id)).toMatchObject({ account_id: null, email: lead.email });
  });

  test('names the deal after the person without a company, and creates none with create_deal: false', async () => {
    const lead = await newLead(key, { last_name: 'Haddad' });
    expect((await convert(key, lead.id, { deal: {} })).deal).toMatchObject({
      name: 'Sara Haddad',
      account_id: null,
      stage: 'New',
    });
    const other = await newLead(key);
    expect((await convert(key, other.id, { create_deal: false })).deal).toBeNull();
  });

  test('copies custom fields that both objects have with one type and common values', async () => {
    const own = await newTenant();
    const both = async (name: string, options: object = {}, other: object = options) => {
      await newCustomField(own, 'leads', name, options);
      await newCustomField(own, 'customers', name, other);
    };
    await both('budget', { type: 'number' });
    await both('seats', { type: 'number' }, { type: 'text' });
    await both(
      'size',
      { type: 'select', options: [{ value: 'small' }, { value: 'big' }] },
      { type: 'select', options: [{ value: 'small' }] },
    );
    await newCustomField(own, 'leads', 'mood');
    const lead = await newLead(own.key, { budget: 5, seats: 7, size: 'big', mood: 'x' });
    const { customer } = await convert(own.key, lead.id);
    const record = await readRecord(own.key, 'customers', customer.id);
    expect(record).toMatchObject({ budget: 5, seats: null, size: null });
    const second = await convert(own.key, (await newLead(own.key, { size: 'small' })).id);
    expect((await readRecord(own.key, 'customers', second.customer.id)).size).toBe('small');
  });

  test('copies no disabled fields', async () => {
    const own = await newTenant();
    await database()`
      insert into field_overrides (company_id, object, name, enabled, updated_at)
      values (${own.companyId}, 'customers', 'notes', false, now()), (${own.companyId}, 'leads', 'city', false, now())`;
    const lead = await newLead(own.key, { notes: 'x' });
    await database()`update leads set city = 'Hidden' where id = ${lead.id}`;
    const { customer } = await convert(own.key, lead.id);
    const [row] = await database()`select notes, city from customers where id = ${customer.id}`;
    expect(row).toEqual({ notes: null, city: null });
  });

  test('converts test leads to test records', async () => {
    const lead = await newLead(tenant.testKey);
    await post(404, key, lead.id);
    const { customer } = await convert(tenant.testKey, lead.id);
    await expectStatus(404, 'GET', recordsPath('customers', customer.id), { key });
  });
});

describe('an existing customer', () => {
  test('reuses the customer with the same email unchanged, the last changed of several', async () => {
    const email = address();
    await createRecord(key, 'customers', { first_name: 'Old', email });
    const later = await createRecord(key, 'customers', { first_name: 'Later', email });
    const lead = await newLead(key, { email: email.toUpperCase(), last_name: 'New' });
    const data = await convert(key, lead.id, { create_deal: true });
    expect(data.customer).toEqual({ id: later.id, created: false });
    expect(await readRecord(key, 'customers', later.id)).toEqual(later);
    expect(data.deal.customer_id).toBe(later.id);
    expect((await leftBehind(later.id)).events).toHaveLength(1);
  });

  test('reuses a customer with the same phone only for a lead without an email', async () => {
    const own = await newTenant();
    const mobile = '+971501234567';
    const customer = await createRecord(own.key, 'customers', { first_name: 'C', phone: mobile });
    expect((await convert(own.key, (await newLead(own.key, { mobile })).id)).customer.created).toBe(true);
    await patchRecord(own.key, 'customers', customer.id, { job_title: 'x' });
    const lead = await newLead(own.key, { mobile, email: null });
    expect((await convert(own.key, lead.id)).customer).toEqual({ id: customer.id, created: false });
  });

  test('keeps the account of a reused customer, and otherwise links that of the company', async () => {
    const own = await newTenant();
    const account = await createRecord(own.key, 'accounts', { name: ' Blue  Lake ' });
    const other = await createRecord(own.key, 'accounts', { name: 'Other' });
    const [one, two] = [address(), address()];
    await createRecord(own.key, 'customers', { first_name: 'C', email: one, account_id: other.id });
    const loose = await createRecord(own.key, 'customers', { first_name: 'C', email: two });
    const company = { company_name: 'BLUE  lake' };
    const first = await convert(own.key, (await newLead(own.key, { email: one, ...company })).id);
    expect(first.account).toEqual({ id: other.id, created: false });
    const second = await convert(own.key, (await newLead(own.key, { email: two, ...company })).id);
    expect(second.account).toEqual({ id: account.id, created: false });
    expect((await readRecord(own.key, 'customers', loose.id)).account_id).toBe(account.id);
    const { events } = await leftBehind(loose.id);
    expect(events.at(-1)).toMatchObject({ event: 'record.updated', data: { changed_fields: ['account_id'] } });
    expect(await counts(own)).toEqual({ customers: 2, accounts: 2, deals: 0 });
  });

  test('creates a new customer if the existing one is not visible', async () => {
    const own = await newTenant();
    const branch = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${own.companyId}, ${branch}, 'B', now())`;
    const branchKey = await newKey(own, { reach: { kind: 'branch', id: branch } });
    const email = address();
    const hidden = await createRecord(own.key, 'customers', { first_name: 'C', email });
    await createRecord(own.key, 'accounts', { name: 'Blue Lake' });
    const lead = await newLead(branchKey, { email, company_name: 'Blue Lake' });
    const data = await convert(branchKey, lead.id, { deal: {} });
    expect([data.customer.created, data.account.created]).toEqual([true, true]);
    expect(data.customer.id).not.toBe(hidden.id);
    for (const [object, id] of [
      ['customers', data.customer.id],
      ['accounts', data.account.id],
      ['deals', data.deal.id],
    ])
      await readRecord(branchKey, object, id);
    await post(404, branchKey, (await newLead(own.key)).id);
  });
});

describe('a converted lead', () => {
  test('rejects a second conversion, and returns the ids of the first that the caller can see', async () => {
    const lead = await newLead(key, { company_name: randomUUID() });
    const data = await convert(key, lead.id, { deal: {} });
    const { error } = (await post(409, key, lead.id)).body;
    expect(error).toMatchObject({
      code: 'CONFLICT',
      details: {
        reason: 'already_converted',
        converted_at: data.lead.converted_at,
        customer_id: data.customer.id,
        account_id: data.account.id,
        deal_id: data.deal.id,
      },
    });
    const { id: userId } = await newUser(tenant);
    const branch = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branch}, 'B', now())`;
    await database()`update users set branch_id = ${branch} where id = ${userId}`;
    await patchRecord(key, 'leads', lead.id, { assigned_to: userId });
    const branchKey = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
    const { details } = (await post(409, branchKey, lead.id)).body.error;
    expect(details).toMatchObject({ customer_id: null, account_id: null, deal_id: null });
  });

  test('converts a reopened lead to the same customer again', async () => {
    const lead = await newLead(key);
    const first = await convert(key, lead.id);
    await patchRecord(key, 'customers', first.customer.id, { email: address() });
    const open = await patchRecord(key, 'leads', lead.id, { lead_status: 'Qualified' });
    expect(open).toMatchObject({ converted_at: null, converted_customer_id: first.customer.id });
    const again = await convert(key, lead.id, { deal: { name: 'Second' } });
    expect(again.customer).toEqual({ id: first.customer.id, created: false });
    expect(again.lead.converted_at).not.toBeNull();
  });

  test('converts a lead again whose customer was deleted', async () => {
    const lead = await newLead(key);
    const first = await convert(key, lead.id);
    await expectStatus(200, 'DELETE', recordsPath('customers', first.customer.id), { key });
    const again = await convert(key, lead.id);
    expect(again.customer).toEqual({ id: expect.not.stringContaining(first.customer.id), created: true });
    expect(again.lead.converted_at).toBe(first.lead.converted_at);
  });

  test('adds a customer to a lead that was converted by status only, and keeps converted_at', async () => {
    const lead = await newLead(key, { lead_status: 'Converted' });
    const data = await convert(key, lead.id);
    expect(data.lead).toMatchObject({ converted_at: lead.converted_at, converted_customer_id: data.customer.id });
  });
});

describe('a rejected conversion', () => {
  test('reports all problems of the deal, and stores nothing', async () => {
    const own = await newTenant();
    const lead = await newLead(own.key, { company_name: 'Blue Lake' });
    const deal = {
      name: '',
      amount_minor: 'x',
      stage: 'Nowhere',
      customer_id: randomUUID(),
      won_at: 'x',
      assigned_to: randomUUID(),
    };
    expect((await refused(422, own.key, lead.id, { deal, extra: 1 })).sort()).toEqual([
      'deal.amount_minor INVALID_TYPE',
      'deal.assigned_to NOT_FOUND',
      'deal.customer_id CONFLICTING_FIELDS',
      'deal.name REQUIRED',
      'deal.stage INVALID_OPTION',
      'deal.won_at READ_ONLY',
      'extra UNKNOWN_FIELD',
    ]);
    expect(await refused(400, own.key, lead.id, { create_deal: false, deal: {} })).toEqual(['deal CONFLICTING_FIELDS']);
    expect(await refused(422, own.key, lead.id, { create_deal: 1, deal: [] })).toEqual([
      'create_deal INVALID_TYPE',
      'deal INVALID_TYPE',
    ]);
    expect(await counts(own)).toEqual({ customers: 0, accounts: 0, deals: 0 });
    expect((await leftBehind(lead.id)).audit).toHaveLength(1);
  });

  test('stores nothing if preconditions of the status or stage fail, and counts the customer as set', async () => {
    const own = await newTenant();
    const lead = await newLead(own.key, { company_name: 'Blue Lake' });
    const unmet = async (body?: object) => {
      const { error } = (await post(422, own.key, lead.id, body)).body;
      expect(error.details.reason).toBe('pre_conditions_not_met');
      return listProblems(error);
    };
    await askFor(own, 'leads', 'Converted', {
      fields: ['converted_customer_id', 'last_name'],
      rules: [{ kind: 'activity', min_count: 1 }],
    });
    expect(await unmet()).toEqual(['last_name REQUIRED', 'activities RULE_FAILED']);
    await askFor(own, 'leads', 'Converted', { fields: ['converted_customer_id'] });
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'] });
    expect(await unmet({ deal: { stage: 'Won' } })).toEqual(['deal.amount_minor REQUIRED']);
    expect(await counts(own)).toEqual({ customers: 0, accounts: 0, deals: 0 });
    await convert(own.key, lead.id, { deal: { stage: 'Won', amount_minor: 1 } });
  });

  test('stores nothing without an active converted status, or if the deal is a duplicate', async () => {
    const own = await newTenant();
    const lead = await newLead(own.key);
    await setActive(own, 'leads', 'Converted', false);
    expect((await post(409, own.key, lead.id)).body.error.details.reason).toBe('no_converted_status');
    await setActive(own, 'leads', 'Converted', true);
    await database()`update duplicate_checks set enabled = true, fields = '{name}' where company_id = ${own.companyId} and object = 'deals'`;
    const deal = await createRecord(own.key, 'deals', { name: 'Twenty seats' });
    const { error } = (await post(409, own.key, lead.id, { deal: { name: 'Twenty seats' } })).body;
    expect(error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['name'], existing_id: deal.id },
    });
    expect(await counts(own)).toEqual({ customers: 0, accounts: 0, deals: 1 });
  });

  test('names the missing scope or module of what the conversion would create', async () => {
    const own = await newTenant();
    const lead = await newLead(own.key, { company_name: 'Blue Lake' });
    const limited = await newKey(own, { scopes: ['leads:edit', 'customers:create'] });
    const required = (answer: Answer) => answer.body.error.details.required_scopes;
    expect(required(await post(403, limited, lead.id))).toEqual(['accounts:create']);
    expect(required(await post(403, limited, lead.id, { deal: {} }))).toEqual(['deals:create']);
    await database()`update companies set disabled_modules = '{accounts}' where id = ${own.companyId}`;
    expect((await post(403, own.key, lead.id)).body.error).toMatchObject({
      code: 'MODULE_DISABLED',
      details: { module: 'accounts' },
    });
    await database()`update companies set disabled_modules = '{}' where id = ${own.companyId}`;
    expect(await counts(own)).toEqual({ customers: 0, accounts: 0, deals: 0 });
    await createRecord(own.key, 'accounts', { name: 'Blue Lake' });
    expect((await convert(limited, lead.id)).account.created).toBe(false);
  });
});

describe('concurrent conversions', () => {
  test('converts a lead once per key, and replays the first response byte for byte', async () => {
    const lead = await newLead(key);
    const idempotencyKey = randomUUID();
    const first = await post(200, key, lead.id, { deal: {} }, { idempotencyKey });
    const again = await post(200, key, lead.id, { deal: {} }, { idempotencyKey });
    expect(again.text).toBe(first.text);
    const other = await post(422, key, lead.id, {}, { idempotencyKey });
    expect(other.body.error.code).toBe('IDEMPOTENCY_CONFLICT');
  });

  test('converts a lead by one of 16 concurrent calls, and returns its result in the other errors', async () => {
    const own = await newTenant();
    for (let round = 1; round <= 3; round += 1) {
      const lead = await newLead(own.key, { company_name: `Company ${round}` });
      const answers = await Promise.all(
        Array.from({ length: 16 }, () =>
          call('POST', path(lead.id), { key: own.key, body: { deal: {} }, idempotencyKey: true }),
        ),
      );
      const [won, ...lost] = answers.toSorted((a, b) => a.status - b.status);
      expect(won?.status).toBe(200);
      const { customer, account, deal } = won?.body.data ?? {};
      for (const answer of lost)
        expect(answer.body.error).toMatchObject({
          code: 'CONFLICT',
          details: { reason: 'already_converted', customer_id: customer.id, account_id: account.id, deal_id: deal.id },
        });
      expect(await counts(own)).toEqual({ customers: round, accounts: round, deals: round });
    }
  });

  test('creates one customer and one account for concurrent leads of one person and company', async () => {
    const own = await newTenant();
    const email = address();
    const leads = await Promise.all(
      Array.from({ length: 8 }, () => newLead(own.key, { email, company_name: 'Blue Lake' })),
    );
    const answers = await Promise.all(leads.map(({ id }) => convert(own.key, id)));
    expect(new Set(answers.map((answer) => answer.customer.id)).size).toBe(1);
    expect(answers.filter((answer) => answer.customer.created)).toHaveLength(1);
    expect(await counts(own)).toEqual({ customers: 1, accounts: 1, deals: 0 });
    expect(
      await walk(own.key, 'leads', { filter: '{"field":"lead_status","op":"eq","value":"Converted"}' }),
    ).toHaveLength(8);
  });
});

test('updates automatic tags of the lead and the customer after a move and a conversion', async () => {
  const own = await newTenant();
  const condition = (field: string, value: string) => ({ field, operator: 'eq', value });
  const hot = { name: 'Hot', color: '#FF0000', fields: [condition('lead_status', 'Qualified')] };
  const done = { name: 'Done', color: '#00FF00', fields: [condition('lead_status', 'Converted')] };
  const tagged = { name: 'Dubai', color: '#0000FF', fields: ['city'], conditions: [condition('city', 'Dubai')] };
  for (const body of [hot, done]) await expectStatus(201, 'POST', '/v1/settings/tags/leads', { key: own.key, body });
  await expectStatus(201, 'POST', '/v1/settings/tags/customers', { key: own.key, body: tagged });
  const listTags = async (id: string) =>
    (
      await database()<{ name: string }[]>`
        select t.name from record_tags r join tags t on t.company_id = r.company_id and t.id = r.tag_id
        where r.company_id = ${own.companyId} and r.record_id = ${id}`
    ).map((row) => row.name);
  const lead = await newLead(own.key, { city: 'Dubai' });
  await expectStatus(200, 'POST', `/v1/leads/${lead.id}/status`, { key: own.key, body: { lead_status: 'Qualified' } });
  expect(await listTags(lead.id)).toEqual(['Hot']);
  const { customer } = await convert(own.key, lead.id);
  expect([await listTags(lead.id), await listTags(customer.id)]).toEqual([['Done'], ['Dubai']]);
});

describe('notes, tasks and attachments', () => {
  const onLead = async (of = key): Promise<{ id: string; task: string }> => {
    const { id } = await newLead(of);
    await addNote(of, 'leads', id, 'First');
    await addNote(of, 'leads', id, 'Second');
    const made = await expectStatus(201, 'POST', childrenPath('leads', id, 'tasks'), { key: of, body: task() });
    await expectStatus(201, 'POST', `${recordsPath('leads', id)}/attachments`, { key: of, ...fileForm() });
    return { id, task: made.body.data.task.id };
  };
  const countItems = async (object: string, id: string): Promise<number[]> => {
    const lists = await Promise.all(
      ['notes', 'tasks', 'attachments'].map((list) =>
        expectStatus(200, 'GET', `${recordsPath(object, id)}/${list}`, { key }),
      ),
    );
    return lists.map(({ body }) => (Object.values(body.data)[0] as Json[]).length);
  };

  test('move to the customer, and the response and the audit log count them', async () => {
    const lead = await onLead();
    const { customer, moved } = await convert(key, lead.id);
    expect(moved).toEqual({ notes: 2, tasks: 1, attachments: 1 });
    expect(await countItems('leads', lead.id)).toEqual([0, 0, 0]);
    expect(await countItems('customers', customer.id)).toEqual([2, 1, 1]);
    const { audit } = await leftBehind(lead.id);
    expect(audit.at(-1)).toMatchObject({ action: 'lead.move_items', metadata: { customer_id: customer.id, moved } });
  });

  test('move to a customer who exists already', async () => {
    const email = address();
    const known = (await createRecord(key, 'customers', { first_name: 'Sara', email })).id;
    const lead = await newLead(key, { email });
    await addNote(key, 'leads', lead.id);
    expect((await convert(key, lead.id)).customer).toEqual({ id: known, created: false });
    expect(await countItems('customers', known)).toEqual([1, 0, 0]);
  });

  test('a task that moves is a change of the task: version, audit row and event', async () => {
    const lead = await onLead();
    const before = await readRecord(key, 'tasks', lead.task);
    const { customer } = await convert(key, lead.id);
    const after = await readRecord(key, 'tasks', lead.task);
    expect(after).toMatchObject({ object: 'customers', record_id: customer.id });
    expect(Date.parse(after.updated_at)).toBeGreaterThan(Date.parse(before.updated_at));
    const [row] = await database()`select version from tasks where id = ${lead.task}`;
    expect(row?.version).toBe(2);
    const { audit, events } = await leftBehind(lead.task);
    const changes = { object: { from: 'leads', to: 'customers' }, record_id: { from: lead.id, to: customer.id } };
    expect(audit.at(-1)).toMatchObject({ action: 'task.update', changes });
    expect(events.at(-1)).toMatchObject({
      event: 'record.updated',
      data: { object: 'tasks', record_id: lead.task, changed_fields: ['object', 'record_id'] },
    });
  });

  test('stay on the lead with keep_on_lead', async () => {
    const lead = await onLead();
    const { customer, moved } = await convert(key, lead.id, { keep_on_lead: true });
    expect(moved).toEqual({ notes: 0, tasks: 0, attachments: 0 });
    expect(await countItems('leads', lead.id)).toEqual([2, 1, 1]);
    expect(await countItems('customers', customer.id)).toEqual([0, 0, 0]);
    expect((await leftBehind(lead.id)).audit.at(-1)).toMatchObject({ action: 'lead.convert' });
    expect(await refused(422, key, (await newLead(key)).id, { keep_on_lead: 'no' })).toEqual([
      'keep_on_lead INVALID_TYPE',
    ]);
  });

  test('of other leads stay where they are', async () => {
    const [lead, other] = [await onLead(), await onLead()];
    await convert(key, lead.id);
    expect(await countItems('leads', other.id)).toEqual([2, 1, 1]);
  });

  test('do not move if the conversion is rejected', async () => {
    const lead = await onLead();
    const own = await newKey(tenant, { scopes: ['leads:view', 'leads:edit', 'customers:create'] });
    await post(403, own, lead.id, { create_deal: true });
    expect(await countItems('leads', lead.id)).toEqual([2, 1, 1]);
  });

  test('of concurrent conversions move once, and a note that is added meanwhile is on one of the two', async () => {
    const lead = await onLead();
    const calls = Array.from({ length: 6 }, (_, index) =>
      index % 2
        ? call('POST', childrenPath('leads', lead.id, 'notes'), { key, body: { content: 'N' } })
        : call('POST', path(lead.id), { key }),
    );
    const answers = await Promise.all(calls);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 201, 201, 201, 409, 409]);
    const [{ id: customer }] = answers.flatMap(({ body }) => body.data?.customer ?? []);
    const [left = 0] = await countItems('leads', lead.id);
    const [moved = 0] = await countItems('customers', customer);
    expect(left + moved).toBe(5);
    expect(moved).toBeGreaterThanOrEqual(2);
  });
});
