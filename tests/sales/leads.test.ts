// Lead intake: resolved names, defaults, every error, idempotency, and duplicates.

import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { describe, expect, test } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { type CallOptions, call, expectStatus } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import { listProblems, recordsPath } from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const post = (status: number, key: string, body: unknown, options: CallOptions = {}) =>
  expectStatus(status, 'POST', '/v1/leads', { key, body, ...options });
const person = (more: object = {}) => ({ first_name: 'Sara', email: `${randomUUID()}@bluelake.example`, ...more });

async function readLeads(tenant: Tenant) {
  return database()`select * from leads where company_id = ${tenant.companyId} order by id`;
}

async function addSource(tenant: Tenant, name: string, enabled = true): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into sources (company_id, id, name, is_enabled, created_at, updated_at)
    values (${tenant.companyId}, ${id}, ${name}, ${enabled}, now(), now())`;
  return id;
}

async function addTag(tenant: Tenant, name: string, priority: number, object = 'leads'): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into tags (company_id, id, object, name, priority, created_at, updated_at)
    values (${tenant.companyId}, ${id}, ${object}, ${name}, ${priority}, now(), now())`;
  return id;
}

async function addField(tenant: Tenant, name: string, type: string, required = false): Promise<void> {
  await database()`
    insert into custom_fields (company_id, object, name, label, type, required, created_at, updated_at)
    values (${tenant.companyId}, 'leads', ${name}, ${name}, ${type}, ${required}, now(), now())`;
}

async function changeField(tenant: Tenant, name: string, change: { required?: boolean; enabled?: boolean }) {
  await database()`
    insert into field_overrides (company_id, object, name, required, enabled, updated_at)
    values (${tenant.companyId}, 'leads', ${name}, ${change.required ?? null}, ${change.enabled ?? null}, now())`;
}

async function checkDuplicates(tenant: Tenant, fields: string[]): Promise<void> {
  await database()`
    update duplicate_checks set enabled = true, fields = ${fields}
    where company_id = ${tenant.companyId} and object = 'leads'`;
}

describe('stored leads', () => {
  test('applies the defaults to a minimal lead, and writes one row, one audit row and one event', async () => {
    const tenant = await newTenant();
    const { body } = await post(201, tenant.key, { first_name: 'Sara', email: ' Sara@BlueLake.example ' });
    const { lead } = body.data;
    expect(lead).toMatchObject({
      first_name: 'Sara',
      last_name: null,
      full_name: 'Sara',
      email: 'sara@bluelake.example',
      mobile: null,
      source: null,
      source_id: null,
      priority: 3,
      lead_status: 'New',
      assigned_to: tenant.admin.id,
      assigned_to_email: tenant.admin.email,
      assigned_to_name: 'Ada Admin',
      tags: [],
      custom_fields: {},
      test_mode: false,
      created_by: { kind: 'api_key', name: 'Test key' },
    });
    expect(lead.updated_at).toBe(lead.created_at);
    const [row, ...others] = await readLeads(tenant);
    expect(others).toEqual([]);
    expect(row).toMatchObject({ id: lead.id, email: 'sara@bluelake.example', lead_status_id: lead.lead_status_id });
    expect(row?.created_at.toISOString()).toBe(lead.created_at);
    const sql = database();
    const audit = await sql`
      select action, object, record_id, metadata, test_mode from audit_logs where company_id = ${tenant.companyId}`;
    expect(audit).toEqual([
      { action: 'lead.create', object: 'leads', record_id: lead.id, metadata: null, test_mode: false },
    ]);
    const events =
      await sql`select event, test_mode, data from ${recordedEvents(database())} where company_id = ${tenant.companyId}`;
    expect(events).toEqual([
      {
        event: 'record.created',
        test_mode: false,
        data: { object: 'leads', record_id: lead.id, occurred_at: lead.created_at },
      },
    ]);
  });

  test('resolves source, status and tags without case, and stores tags as manual, by priority', async () => {
    const tenant = await newTenant();
    const source = await addSource(tenant, 'Web Site');
    const cold = await addTag(tenant, 'Cold', 200);
    const hot = await addTag(tenant, 'Hot', 1);
    await addField(tenant, 'budget', 'currency');
    await addField(tenant, 'vip', 'boolean');
    const { body } = await post(201, tenant.key, {
      first_name: 'Sara',
      last_name: 'Haddad',
      email: null,
      mobile: '+971 50 123 4567',
      source: ' wEB sITE ',
      lead_status: 'QUALIFIED',
      priority: 1,
      origin: 'fair',
      inquiry_details: 'Twenty seats',
      notes: '',
      tags: ['cold', 'HOT', 'Cold'],
      custom_fields: { budget: '12000', vip: false },
    });
    expect(body.data.lead).toMatchObject({
      full_name: 'Sara Haddad',
      email: null,
      mobile: '+971501234567',
      source: 'Web Site',
      source_id: source,
      lead_status: 'Qualified',
      priority: 1,
      origin: 'fair',
      inquiry_details: 'Twenty seats',
      notes: null,
      tags: ['Hot', 'Cold'],
      custom_fields: { budget: 12000, vip: false },
    });
    expect((await readLeads(tenant))[0]?.custom).toEqual({ budget: 12000, vip: false });
    const tagged = await database()`
      select object, record_id, tag_id, is_manual, test_mode from record_tags where company_id = ${tenant.companyId} order by tag_id`;
    const common = { object: 'leads', record_id: body.data.lead.id, is_manual: true, test_mode: false };
    expect(tagged).toEqual([
      { ...common, tag_id: cold },
      { ...common, tag_id: hot },
    ]);
  });

  test('assigns a lead by email, else to the longest-standing active user, else to no user', async () => {
    const tenant = await newTenant();
    await newUser(tenant, { status: 'inactive', createdAt: new Date('2020-01-01') });
    const oldest = await newUser(tenant, { createdAt: new Date('2021-01-01') });
    const named = await newUser(tenant);
    const assignedTo = async (more: object) =>
      (await post(201, tenant.key, person(more))).body.data.lead.assigned_to_email;
    expect(await assignedTo({})).toBe(oldest.email);
    expect(await assignedTo({ assigned_to_email: named.email.toUpperCase() })).toBe(named.email);
    await database()`update users set status = 'inactive' where company_id = ${tenant.companyId}`;
    expect(await assignedTo({})).toBeNull();
  });

  test('assigns leads of a branch key only to users of the branch, and keeps them visible to the key', async () => {
    const tenant = await newTenant();
    const branchId = uuidv7();
    await database()`
      insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branchId}, 'North', now())`;
    const key = await newKey(tenant, { reach: { kind: 'branch', id: branchId } });
    const elsewhere = await newUser(tenant, { createdAt: new Date('2020-01-01') });
    const unassigned = (await post(201, key, person())).body.data.lead;
    expect(unassigned.assigned_to).toBeNull();
    await newUser(tenant, { branchId, status: 'inactive', createdAt: new Date('2021-01-01') });
    const member = await newUser(tenant, { branchId });
    const assigned = (await post(201, key, person())).body.data.lead;
    expect(assigned.assigned_to).toBe(member.id);
    for (const lead of [unassigned, assigned]) await expectStatus(200, 'GET', recordsPath('leads', lead.id), { key });
    expect((await post(201, tenant.key, person())).body.data.lead.assigned_to).toBe(elsewhere.id);

    // An app of a user who sees only their own records assigns to that user.
    const token = await newBearer(tenant, ['leads:*'], { userId: member.id });
    const own = await expectStatus(201, 'POST', '/v1/leads', { token, body: person(), idempotencyKey: true });
    expect(own.body.data.lead.assigned_to).toBe(member.id);
    const [row] = await database()`select created_by_user from leads where id = ${own.body.data.lead.id}`;
    expect(row?.created_by_user).toBe(member.id);
  });

  test('sets converted_at of a lead that arrives as converted', async () => {
    const tenant = await newTenant();
    const { lead } = (await post(201, tenant.key, person({ lead_status: 'converted' }))).body.data;
    expect(lead).toMatchObject({ lead_status: 'Converted', converted_at: lead.created_at });
    expect((await readLeads(tenant))[0]?.converted_at.toISOString()).toBe(lead.created_at);
  });

  test('creates test leads with a test key', async () => {
    const tenant = await newTenant();
    const { body } = await post(201, tenant.testKey, person());
    expect(body.data.lead.test_mode).toBe(true);
    expect((await readLeads(tenant)).map((lead) => lead.test_mode)).toEqual([true]);
  });

  test('stores metadata only in the audit row', async () => {
    const tenant = await newTenant();
    const marker = randomUUID();
    const deepest = { two: [{ three: [{ four: [marker, 4, true, null] }] }] };
    const many = Object.fromEntries(Array.from({ length: 97 }, (_, place) => [`key ${place}`, place]));
    const metadata = { form: marker, one: deepest, referrer: null, ...many };
    const { text } = await post(201, tenant.key, person({ metadata }));
    expect(text).not.toContain(marker);
    const sql = database();
    const [audit] = await sql`select metadata from audit_logs where company_id = ${tenant.companyId}`;
    expect(audit?.metadata).toEqual(metadata);
    const elsewhere = await sql`
      select from leads where company_id = ${tenant.companyId} and leads::text like ${`%${marker}%`}
      union all select from ${recordedEvents(sql)} where company_id = ${tenant.companyId} and recorded::text like ${`%${marker}%`}`;
    expect(elsewhere).toEqual([]);
    for (const [beyond, reason] of [
      [{ one: { two: { three: { four: { five: 5 } } } } }, 'nesting_too_deep'],
      [{ ...metadata, another: 1 }, 'too_many_keys'],
    ] as const)
      expect((await post(400, tenant.key, person({ metadata: beyond }))).body.error.details).toEqual({ reason });
  });

  test.each([
    `'); drop table leads; --`,
    '<script>alert(1)</script>',
    `\u202Eevil\u0007 $1 \${x} %s \\u0041 \\`,
    '"}],{"$where":"1"}',
    '😀 e\u0301 \uFEFFend',
  ])('stores and returns the hostile text %j literally', async (hostile) => {
    const tenant = await newTenant();
    await addField(tenant, 'remark', 'text');
    const { body } = await post(
      201,
      tenant.key,
      person({
        first_name: hostile,
        notes: hostile,
        custom_fields: { remark: hostile },
        metadata: { remark: hostile, [hostile]: 1 },
      }),
    );
    expect(body.data.lead).toMatchObject({
      first_name: hostile,
      notes: hostile,
      custom_fields: { remark: hostile },
    });
    expect((await readLeads(tenant))[0]).toMatchObject({
      first_name: hostile,
      notes: hostile,
      custom: { remark: hostile },
    });
    const [audit] = await database()`select metadata from audit_logs where company_id = ${tenant.companyId}`;
    expect(audit?.metadata).toEqual({ remark: hostile, [hostile]: 1 });
  });
});

describe('scopes', () => {
  test('accepts leads:create, leads:* and the legacy leads:write, and no other scopes of leads', async () => {
    const tenant = await newTenant();
    for (const scopes of [['leads:create'], ['leads:*'], ['leads:write']])
      await post(201, await newKey(tenant, { scopes }), person());
    await post(201, await newKey(tenant, { scopes: ['leads:write'], legacy: true }), person());
    for (const scopes of [['leads:view', 'leads:edit', 'leads:delete'], ['leads:read'], ['deals:create']]) {
      const refused = await post(403, await newKey(tenant, { scopes }), person());
      expect(refused.body.error).toMatchObject({
        code: 'FORBIDDEN_SCOPE',
        details: { required_scopes: ['leads:create'] },
      });
    }
    await expectStatus(401, 'POST', '/v1/leads', { body: person() });
    expect(await readLeads(tenant)).toHaveLength(4);
  });
});

describe('rejected leads', () => {
  test.each<[string, object, number, string, string[]]>([
    ['no first name', { email: 'a@b.co' }, 400, 'MISSING_REQUIRED_FIELD', ['first_name REQUIRED']],
    [
      'a blank first name',
      { first_name: ' ', email: 'a@b.co' },
      400,
      'MISSING_REQUIRED_FIELD',
      ['first_name REQUIRED'],
    ],
    ['neither email nor mobile', { first_name: 'A', email: '' }, 400, 'MISSING_REQUIRED_FIELD', ['email REQUIRED']],
    ['nothing at all', {}, 400, 'MISSING_REQUIRED_FIELD', ['first_name REQUIRED', 'email REQUIRED']],
    ['a malformed email', { first_name: 'A', email: 'a@' }, 400, 'INVALID_FIELD_FORMAT', ['email INVALID_FORMAT']],
    ['a malformed mobile', { first_name: 'A', mobile: 'call' }, 400, 'INVALID_FIELD_FORMAT', ['mobile INVALID_FORMAT']],
    [
      'a malformed email and no name',
      { email: 'a@' },
      400,
      'VALIDATION_ERROR',
      ['email INVALID_FORMAT', 'first_name REQUIRED'],
    ],
    ['a long first name', person({ first_name: 'x'.repeat(101) }), 400, 'VALIDATION_ERROR', ['first_name TOO_LONG']],
    ['long notes', person({ notes: 'x'.repeat(5001) }), 400, 'VALIDATION_ERROR', ['notes TOO_LONG']],
    [
      'a long inquiry',
      person({ inquiry_details: 'x'.repeat(5001) }),
      400,
      'VALIDATION_ERROR',
      ['inquiry_details TOO_LONG'],
    ],
    ['priority 0', person({ priority: 0 }), 400, 'VALIDATION_ERROR', ['priority OUT_OF_RANGE']],
    ['priority 5', person({ priority: 5 }), 400, 'VALIDATION_ERROR', ['priority OUT_OF_RANGE']],
    ['a priority in text', person({ priority: 'high' }), 422, 'VALIDATION_ERROR', ['priority INVALID_TYPE']],
    ['a name that is a number', person({ first_name: 5 }), 422, 'VALIDATION_ERROR', ['first_name INVALID_TYPE']],
    ['an unknown field', person({ emial: 'x' }), 422, 'VALIDATION_ERROR', ['emial UNKNOWN_FIELD']],
    [
      'a field of leads that has no place here',
      person({ assigned_to: 'x' }),
      422,
      'VALIDATION_ERROR',
      ['assigned_to UNKNOWN_FIELD'],
    ],
    [
      'read-only fields',
      person({ id: uuidv7(), created_at: 'x', source_id: 'x' }),
      422,
      'VALIDATION_ERROR',
      ['id READ_ONLY', 'created_at READ_ONLY', 'source_id READ_ONLY'],
    ],
    ['an unknown source', person({ source: 'Moon' }), 422, 'VALIDATION_ERROR', ['source INVALID_OPTION']],
    ['a disabled source', person({ source: 'Fax' }), 422, 'VALIDATION_ERROR', ['source INVALID_OPTION']],
    ['an unknown status', person({ lead_status: 'Won' }), 422, 'VALIDATION_ERROR', ['lead_status INVALID_OPTION']],
    [
      'unknown tags',
      person({ tags: ['Hot', 'Tepid', 'Loyal'] }),
      422,
      'VALIDATION_ERROR',
      ['tags[1] INVALID_OPTION', 'tags[2] INVALID_OPTION'],
    ],
    ['tags that are not a list', person({ tags: 'Hot' }), 422, 'VALIDATION_ERROR', ['tags INVALID_TYPE']],
    [
      'an assignee who is not there',
      person({ assigned_to_email: 'no@body.example' }),
      422,
      'VALIDATION_ERROR',
      ['assigned_to_email NOT_FOUND'],
    ],
    [
      'a malformed assignee',
      person({ assigned_to_email: 'nobody' }),
      400,
      'INVALID_FIELD_FORMAT',
      ['assigned_to_email INVALID_FORMAT'],
    ],
    [
      'an unknown custom field',
      person({ custom_fields: { nope: 1 } }),
      422,
      'VALIDATION_ERROR',
      ['custom_fields.nope UNKNOWN_FIELD'],
    ],
    [
      'a built-in among custom fields',
      person({ custom_fields: { notes: 'x' } }),
      422,
      'VALIDATION_ERROR',
      ['custom_fields.notes UNKNOWN_FIELD'],
    ],
    [
      'a custom value of the wrong type',
      person({ custom_fields: { budget: 'much' } }),
      422,
      'VALIDATION_ERROR',
      ['custom_fields.budget INVALID_TYPE'],
    ],
    [
      'custom fields that are a list',
      person({ custom_fields: [] }),
      422,
      'VALIDATION_ERROR',
      ['custom_fields INVALID_TYPE'],
    ],
    ['metadata that is a list', person({ metadata: [1] }), 422, 'VALIDATION_ERROR', ['metadata INVALID_TYPE']],
    ['a NUL character', person({ notes: 'a\0b' }), 400, 'INVALID_FIELD_FORMAT', ['notes INVALID_FORMAT']],
    [
      'half a surrogate pair',
      person({ metadata: { a: '\uD800' } }),
      400,
      'INVALID_FIELD_FORMAT',
      ['metadata.a INVALID_FORMAT'],
    ],
    [
      'problems of both kinds',
      { email: 'a@', source: 'Moon', assigned_to_email: 'no@body.example', extra: 1, tags: ['Tepid'] },
      422,
      'VALIDATION_ERROR',
      [
        'email INVALID_FORMAT',
        'source INVALID_OPTION',
        'first_name REQUIRED',
        'tags[0] INVALID_OPTION',
        'assigned_to_email NOT_FOUND',
        'extra UNKNOWN_FIELD',
      ],
    ],
  ])('rejects a lead with %s', async (_, body, status, code, fields) => {
    const tenant = await settled();
    const refused = await post(status, tenant.key, body);
    expect(refused.body.error.code).toBe(code);
    expect(listProblems(refused.body.error)).toEqual(fields);
    expect(await readLeads(tenant)).toEqual([]);
    const left = await database()`
      select from audit_logs where company_id = ${tenant.companyId}
      union all select from ${recordedEvents(database())} where company_id = ${tenant.companyId}`;
    expect(left).toEqual([]);
  });

  /** A tenant that all rejections share, because they store nothing. */
  let shared: Promise<Tenant> | undefined;
  function settled(): Promise<Tenant> {
    shared ??= (async () => {
      const tenant = await newTenant();
      await addSource(tenant, 'Website');
      await addSource(tenant, 'Fax', false);
      await addTag(tenant, 'Hot', 1);
      await addTag(tenant, 'Loyal', 1, 'customers');
      await addField(tenant, 'budget', 'currency');
      return tenant;
    })();
    return shared;
  }

  test('lists the existing names for an unknown one', async () => {
    const tenant = await settled();
    const refused = await post(422, tenant.key, person({ source: 'x', lead_status: 'x', tags: ['x'] }));
    const allowed = refused.body.error.details.fields.map((problem: { allowed: string[] }) => problem.allowed);
    expect(allowed).toEqual([['Website'], ['New', 'Contacted', 'Qualified', 'Converted', 'Disqualified'], ['Hot']]);
  });

  test('rejects inactive and foreign users as assignees with the same error', async () => {
    const tenant = await newTenant();
    const inactive = await newUser(tenant, { status: 'inactive' });
    const foreign = (await newTenant()).admin;
    const one = await post(422, tenant.key, person({ assigned_to_email: inactive.email }));
    const other = await post(422, tenant.key, person({ assigned_to_email: foreign.email }));
    expect(listProblems(one.body.error)).toEqual(['assigned_to_email NOT_FOUND']);
    expect(other.body.error).toEqual(one.body.error);
  });

  test("requires the tenant's mandatory fields, and rejects its disabled ones", async () => {
    const tenant = await newTenant();
    await changeField(tenant, 'last_name', { required: true });
    await changeField(tenant, 'company_name', { required: true });
    await changeField(tenant, 'origin', { enabled: false });
    await changeField(tenant, 'lead_status', { enabled: false });
    await addField(tenant, 'budget', 'currency', true);
    const missing = await post(400, tenant.key, person());
    expect(missing.body.error.code).toBe('MISSING_REQUIRED_FIELD');
    expect(listProblems(missing.body.error)).toEqual([
      'last_name REQUIRED',
      'company_name REQUIRED',
      'custom_fields.budget REQUIRED',
    ]);
    const good = person({ last_name: 'Haddad', company_name: 'Blue Lake', custom_fields: { budget: 1 } });
    const unknown = await post(422, tenant.key, { ...good, origin: 'fair', lead_status: 'New' });
    expect(listProblems(unknown.body.error)).toEqual(['origin UNKNOWN_FIELD', 'lead_status UNKNOWN_FIELD']);
    const { body } = await post(201, tenant.key, good);
    expect(body.data.lead).toMatchObject({ origin: null, lead_status: 'New', custom_fields: { budget: 1 } });
  });
});

describe('the company and the place of a lead', () => {
  const about = {
    company_name: 'Blue Lake Trading',
    job_title: 'Head of purchasing',
    website: 'https://bluelake.example',
    city: 'Dubai',
    state: 'Dubai',
    country: 'United Arab Emirates',
    postal_code: '00000',
  };

  test('are stored and returned as the records API stores them, and are null if they are omitted', async () => {
    const tenant = await newTenant();
    const { lead } = (await post(201, tenant.key, person(about))).body.data;
    expect(lead).toMatchObject(about);
    const { record } = (await expectStatus(200, 'GET', recordsPath('leads', lead.id), { key: tenant.key })).body.data;
    expect(record).toMatchObject(about);
    const blank = Object.fromEntries(Object.keys(about).map((name) => [name, ' ']));
    for (const more of [{}, blank]) {
      const other = (await post(201, tenant.key, person(more))).body.data.lead;
      expect(Object.keys(about).map((name) => other[name])).toEqual(Object.keys(about).map(() => null));
    }
  });

  test('follow the rules of the fields of leads', async () => {
    const tenant = await newTenant();
    const { error } = (await post(400, tenant.key, person({ website: 'bluelake', company_name: 'x'.repeat(201) })))
      .body;
    expect(listProblems(error).toSorted()).toEqual(['company_name TOO_LONG', 'website INVALID_FORMAT']);
    const wrong = (await post(422, tenant.key, person({ city: 5 }))).body.error;
    expect(listProblems(wrong)).toEqual(['city INVALID_TYPE']);
    await changeField(tenant, 'country', { enabled: false });
    expect(listProblems((await post(422, tenant.key, person({ country: 'X' }))).body.error)).toEqual([
      'country UNKNOWN_FIELD',
    ]);
  });
});

describe('idempotency', () => {
  test('replays the first response byte for byte, and stores nothing', async () => {
    const tenant = await newTenant();
    const body = person();
    const idempotencyKey = randomUUID();
    const first = await post(201, tenant.key, body, { idempotencyKey });
    expect(first.headers.get('idempotent-replay')).toBeNull();
    const again = await post(201, tenant.key, body, { idempotencyKey });
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotent-replay')).toBe('true');
    expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
    expect(await readLeads(tenant)).toHaveLength(1);
    const conflict = await post(422, tenant.key, { ...body, notes: 'other' }, { idempotencyKey });
    expect(conflict.body.error.code).toBe('IDEMPOTENCY_CONFLICT');
    await post(201, tenant.testKey, { ...body, notes: 'other' }, { idempotencyKey });
    expect(await readLeads(tenant)).toHaveLength(2);
  });

  test('creates one lead for 16 concurrent calls with one key, and replays it or reports it in progress', async () => {
    const tenant = await newTenant();
    const body = person();
    const idempotencyKey = randomUUID();
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => call('POST', '/v1/leads', { key: tenant.key, body, idempotencyKey })),
    );
    const made = answers.filter((answer) => answer.status === 201);
    const waiting = answers.filter((answer) => answer.body.error?.code === 'IDEMPOTENCY_IN_PROGRESS');
    expect(made.length + waiting.length).toBe(16);
    expect(new Set(made.map((answer) => answer.text)).size).toBe(1);
    expect(await readLeads(tenant)).toHaveLength(1);
    expect((await post(201, tenant.key, body, { idempotencyKey })).text).toBe(made[0]?.text);
  });

  test('replays a stored rejection even if its reason is gone', async () => {
    const tenant = await newTenant();
    const body = person({ source: 'Website' });
    const idempotencyKey = randomUUID();
    const first = await post(422, tenant.key, body, { idempotencyKey });
    await addSource(tenant, 'Website');
    const again = await post(422, tenant.key, body, { idempotencyKey });
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotent-replay')).toBe('true');
    await post(201, tenant.key, body, { idempotencyKey: true });
  });
});

describe('duplicates', () => {
  test('stores duplicates while the check is off, and rejects them with the existing lead once it is on', async () => {
    const tenant = await newTenant();
    const body = person();
    const { id } = (await post(201, tenant.key, body)).body.data.lead;
    await post(201, tenant.key, person());
    await database()`update leads set created_at = created_at - interval '1 day' where id = ${id}`;
    await post(201, tenant.key, body);
    await checkDuplicates(tenant, ['email']);
    const refused = await post(409, tenant.key, { ...body, email: body.email.toUpperCase() });
    expect(refused.body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['email'], existing_id: id },
    });
    await post(201, tenant.key, person());
  });

  test('matches duplicates on every selected field with a value, and always on the email', async () => {
    const tenant = await newTenant();
    const source = await addSource(tenant, 'Website');
    await addField(tenant, 'score', 'number');
    await checkDuplicates(tenant, ['last_name', 'mobile', 'source', 'score']);
    const known = {
      last_name: 'Haddad',
      mobile: '+971501234567',
      source: 'Website',
      custom_fields: { score: 0.0000001 },
    };
    const first = person(known);
    const { id } = (await post(201, tenant.key, first)).body.data.lead;
    const matched = async (body: object) => {
      const { details } = (await post(409, tenant.key, body)).body.error;
      expect(details.existing_id).toBe(id);
      return details.matched_fields;
    };
    expect(await matched(person(known))).toEqual(['last_name', 'mobile', 'source', 'score']);
    expect(await matched(person({ mobile: '+971 50 1234567', source: 'website' }))).toEqual(['mobile', 'source']);
    expect(await matched({ first_name: 'Other', email: first.email })).toEqual(['email']);
    expect(await matched(first)).toEqual(['last_name', 'mobile', 'source', 'score', 'email']);
    await post(201, tenant.key, person({ ...known, last_name: 'Berg' }));
    await post(201, tenant.key, person());
    expect((await readLeads(tenant)).filter((lead) => lead.source_id === source)).toHaveLength(2);
  });

  test('looks for duplicates only in the same mode and tenant', async () => {
    const tenant = await newTenant();
    const other = await newTenant();
    const body = person();
    for (const each of [tenant, other]) await checkDuplicates(each, ['email']);
    for (const key of [tenant.key, tenant.testKey, other.key]) await post(201, key, body);
    for (const key of [tenant.key, tenant.testKey, other.key]) await post(409, key, body);
  });

  test('omits the id of an invisible duplicate', async () => {
    const tenant = await newTenant();
    await checkDuplicates(tenant, ['email']);
    const branchId = uuidv7();
    await database()`
      insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branchId}, 'North', now())`;
    const member = await newUser(tenant, { branchId });
    const key = await newKey(tenant, { reach: { kind: 'branch', id: branchId } });
    const [theirs, ours] = [person(), person({ assigned_to_email: member.email })];
    await post(201, tenant.key, theirs);
    const { id } = (await post(201, tenant.key, ours)).body.data.lead;
    expect((await post(409, key, theirs)).body.error.details).toEqual({ matched_fields: ['email'], existing_id: null });
    expect((await post(409, key, ours)).body.error.details).toEqual({ matched_fields: ['email'], existing_id: id });
  });

  test('stores one of 16 concurrent duplicates, whichever fields they share', async () => {
    const tenant = await newTenant();
    await checkDuplicates(tenant, ['mobile', 'email']);
    const { email } = person();
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        call('POST', '/v1/leads', {
          key: tenant.key,
          body: { first_name: `Sara ${index}`, email, ...(index % 2 === 0 ? { mobile: '+971501234567' } : {}) },
          idempotencyKey: true,
        }),
      ),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, ...Array(15).fill(409)]);
    expect(await readLeads(tenant)).toHaveLength(1);
  });

  test('releases the lock of a rejected duplicate, and replays its rejection', async () => {
    const tenant = await newTenant();
    await checkDuplicates(tenant, ['email']);
    const body = person();
    const { id } = (await post(201, tenant.key, body)).body.data.lead;
    const idempotencyKey = randomUUID();
    const first = await post(409, tenant.key, body, { idempotencyKey });
    await database()`delete from leads where company_id = ${tenant.companyId} and id = ${id}`;
    expect((await post(409, tenant.key, body, { idempotencyKey })).text).toBe(first.text);
    await post(201, tenant.key, body, { idempotencyKey: true });
  });
});
