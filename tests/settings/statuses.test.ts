// Statuses: order, names, outcomes, preconditions, and deletion.
import { describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, leftBehind, newCustomField, patchRecord, refusedFields } from '../support/records.ts';
import { changeSetting, configVersion, createSetting, listSettings } from '../support/settings.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

const path = (object: string, id?: string): string => `/v1/settings/statuses/${object}${id ? `/${id}` : ''}`;

const list = (tenant: Tenant, object = 'leads'): Promise<Json[]> => listSettings(tenant.key, path(object));
const names = async (tenant: Tenant, object = 'leads'): Promise<string[]> =>
  (await list(tenant, object)).map((status) => status.name);
const findId = async (tenant: Tenant, name: string, object = 'leads'): Promise<string> =>
  (await list(tenant, object)).find((status) => status.name === name).id;
const create = (tenant: Tenant, body: object, object = 'leads'): Promise<Json> =>
  createSetting(tenant, path(object), body);
const patch = (tenant: Tenant, id: string, body: object, object = 'leads'): Promise<Json> =>
  changeSetting(tenant, path(object, id), body);
const refused = (status: number, tenant: Tenant, body: object, object = 'leads'): Promise<string[]> =>
  refusedFields(status, 'POST', path(object), { key: tenant.key, body });

describe('a new workspace', () => {
  test('creates a workspace with the default lead statuses and deal stages in order, with outcomes', async () => {
    const tenant = await newTenant();
    const describeStatuses = (statuses: Json[]): string[] =>
      statuses.map(({ order_position, name, outcome }) => `${order_position} ${name} ${outcome}`);
    expect(describeStatuses(await list(tenant))).toEqual([
      '1 New open',
      '2 Contacted open',
      '3 Qualified open',
      '4 Converted converted',
      '5 Disqualified disqualified',
    ]);
    expect(describeStatuses(await list(tenant, 'deals'))).toEqual([
      '1 New open',
      '2 Contacted open',
      '3 Qualified open',
      '4 Proposal open',
      '5 Won won',
      '6 Lost lost',
    ]);
  });

  test.each(['customers', 'accounts', 'tasks', 'object:visits', 'Leads', 'lead'])('x', async (object) => {
    const tenant = await newTenant();
    for (const method of ['GET', 'POST'])
      await expectStatus(404, method, path(object), {
        key: tenant.key,
        ...(method === 'POST' ? { body: { name: 'X' } } : {}),
      });
  });
});

describe('a status', () => {
  test('creates a status with defaults in the last position, audits it and raises the version', async () => {
    const tenant = await newTenant();
    const before = await configVersion(tenant);
    const status = await create(tenant, { name: '  On hold ' });
    expect(status).toMatchObject({
      object: 'leads',
      name: 'On hold',
      description: null,
      order_position: 6,
      is_active: true,
      color: '#9CA3AF',
      outcome: 'open',
      pre_condition_fields: [],
      pre_condition_rules: [],
    });
    const { body } = await expectStatus(200, 'GET', path('leads', status.id), { key: tenant.testKey });
    expect(body.data.status).toEqual(status);
    expect((await list(tenant)).at(-1)).toEqual(status);
    expect(await configVersion(tenant)).toBeGreaterThan(before);
    const { audit } = await leftBehind(status.id);
    expect(audit).toMatchObject([
      { action: 'settings.status.create', object: 'leads', changes: { name: { from: null, to: 'On hold' } } },
    ]);
    const lead = await createRecord(tenant.key, 'leads', {
      first_name: 'A',
      email: 'a@x.example',
      lead_status: 'ON HOLD',
    });
    expect(lead.lead_status).toBe('On hold');
  });

  test('changes each field of a status alone, and audits it', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'deals', 'budget', { type: 'number' });
    let status = await create(tenant, { name: 'Negotiation', description: 'x' }, 'deals');
    const changes: [string, unknown][] = [
      ['name', 'Haggling'],
      ['description', null],
      ['description', 'Terms'],
      ['order_position', 1],
      ['is_active', false],
      ['color', '#00ff7F'],
      ['outcome', 'won'],
      ['pre_condition_fields', ['amount_minor', 'budget']],
      ['pre_condition_rules', [{ kind: 'attachment', min_count: 2 }]],
      ['pre_condition_rules', []],
    ];
    for (const [field, value] of changes) {
      const changed = await patch(tenant, status.id, { [field]: value }, 'deals');
      expect(changed).toEqual({ ...status, [field]: value, updated_at: changed.updated_at });
      const { audit } = await leftBehind(status.id);
      expect(audit.at(-1)).toMatchObject({
        action: 'settings.status.update',
        changes: { [field]: { from: status[field], to: value } },
      });
      expect(Object.keys(audit.at(-1).changes)).toEqual([field]);
      status = changed;
    }
    expect((await list(tenant, 'deals'))[0]).toEqual(status);
  });

  test('accepts a change of only the case of a status name', async () => {
    const tenant = await newTenant();
    const id = await findId(tenant, 'Contacted');
    expect(await patch(tenant, id, { name: 'CONTACTED' })).toMatchObject({ name: 'CONTACTED' });
  });

  test('returns 404 for a status of the other object or of another tenant', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    for (const [object, id] of [
      ['deals', await findId(tenant, 'New')],
      ['leads', await findId(other, 'New')],
    ] as const) {
      for (const [method, body] of [['GET'], ['PATCH', { name: 'X' }], ['DELETE']] as const)
        await expectStatus(404, method, path(object, id), { key: tenant.key, ...(body ? { body } : {}) });
    }
  });
});

describe('the order', () => {
  test('shifts statuses for a new position, and treats a position beyond the end as the end', async () => {
    const tenant = await newTenant();
    expect(await create(tenant, { name: 'A', order_position: 1 })).toMatchObject({ order_position: 1 });
    expect(await create(tenant, { name: 'B', order_position: 3 })).toMatchObject({ order_position: 3 });
    expect(await create(tenant, { name: 'C', order_position: 1000 })).toMatchObject({ order_position: 8 });
    expect(await names(tenant)).toEqual(['A', 'New', 'B', 'Contacted', 'Qualified', 'Converted', 'Disqualified', 'C']);
    expect((await list(tenant)).map((status) => status.order_position)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(await names(tenant, 'deals')).toHaveLength(6);
  });

  test('moves a status to the front, to the back and between others', async () => {
    const tenant = await newTenant();
    const id = await findId(tenant, 'Qualified');
    await patch(tenant, id, { order_position: 1 });
    expect(await names(tenant)).toEqual(['Qualified', 'New', 'Contacted', 'Converted', 'Disqualified']);
    await patch(tenant, id, { order_position: 5 });
    expect(await names(tenant)).toEqual(['New', 'Contacted', 'Converted', 'Disqualified', 'Qualified']);
    await patch(tenant, id, { order_position: 2 });
    expect(await names(tenant)).toEqual(['New', 'Qualified', 'Contacted', 'Converted', 'Disqualified']);
    const first = await createRecord(tenant.key, 'leads', { first_name: 'A', email: 'a@x.example' });
    expect(first.lead_status).toBe('New');
  });

  test('closes the gap of a deleted status, and starts new records in the first one', async () => {
    const tenant = await newTenant();
    await expectStatus(200, 'DELETE', path('leads', await findId(tenant, 'New')), { key: tenant.key });
    expect((await list(tenant)).map(({ order_position, name }) => `${order_position} ${name}`)).toEqual([
      '1 Contacted',
      '2 Qualified',
      '3 Converted',
      '4 Disqualified',
    ]);
    const lead = await createRecord(tenant.key, 'leads', { first_name: 'A', email: 'a@x.example' });
    expect(lead.lead_status).toBe('Contacted');
  });

  test('keeps positions without gaps after 16 concurrent insertions at the front', async () => {
    const tenant = await newTenant();
    const added = Array.from({ length: 16 }, (_, index) => create(tenant, { name: `S${index}`, order_position: 1 }));
    await Promise.all(added);
    expect((await list(tenant)).map((status) => status.order_position)).toEqual(
      Array.from({ length: 21 }, (_, index) => index + 1),
    );
  });
});

describe('names', () => {
  test('keeps status names unique without case within one object, active or not', async () => {
    const tenant = await newTenant();
    const id = await findId(tenant, 'Contacted');
    await patch(tenant, id, { is_active: false });
    const clash = await expectStatus(409, 'POST', path('leads'), { key: tenant.key, body: { name: ' cONTACTED' } });
    expect(clash.body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['name'], existing_id: id },
    });
    const renamed = await expectStatus(409, 'PATCH', path('leads', await findId(tenant, 'New')), {
      key: tenant.key,
      body: { name: 'contacted' },
    });
    expect(renamed.body.error).toMatchObject({ code: 'ALREADY_EXISTS', details: { existing_id: id } });
    await create(tenant, { name: 'Converted' }, 'deals');
  });

  test('creates one status for 32 concurrent calls with one name, and rejects the others as existing', async () => {
    const tenant = await newTenant();
    const send = (index: number): Promise<Answer> =>
      call('POST', path('leads'), { key: tenant.key, body: { name: index % 2 ? 'Same' : 'SAME' } });
    const answers = await Promise.all(Array.from({ length: 32 }, (_, index) => send(index)));
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1);
    const lost = answers.filter((answer) => answer.status !== 201);
    expect(new Set(lost.map((answer) => `${answer.status} ${answer.body.error.code}`))).toEqual(
      new Set(['409 ALREADY_EXISTS']),
    );
    expect(await names(tenant)).toHaveLength(6);
  });
});

describe('rejected statuses', () => {
  test.each<[string, object, number, string[]]>([
    ['no name', {}, 400, ['name REQUIRED']],
    ['an empty name', { name: '' }, 400, ['name TOO_SHORT']],
    ['a blank name', { name: '  ' }, 400, ['name INVALID_FORMAT']],
    ['a name of 61 characters', { name: 'x'.repeat(61) }, 400, ['name TOO_LONG']],
    ['a name that is no text', { name: 7 }, 422, ['name INVALID_TYPE']],
    ['a name with NUL', { name: 'a\0b' }, 400, ['name INVALID_FORMAT']],
    ['a long description', { name: 'X', description: 'x'.repeat(501) }, 400, ['description TOO_LONG']],
    ['position 0', { name: 'X', order_position: 0 }, 400, ['order_position OUT_OF_RANGE']],
    ['a fraction of a position', { name: 'X', order_position: 1.5 }, 422, ['order_position INVALID_TYPE']],
    ['a colour by name', { name: 'X', color: 'red' }, 400, ['color INVALID_FORMAT']],
    ['a short colour', { name: 'X', color: '#FFF' }, 400, ['color INVALID_FORMAT']],
    ['an outcome of nothing', { name: 'X', outcome: 'maybe' }, 400, ['outcome INVALID_OPTION']],
    ['an outcome of deals', { name: 'X', outcome: 'won' }, 400, ['outcome INVALID_OPTION']],
    ['text for a switch', { name: 'X', is_active: 'true' }, 422, ['is_active INVALID_TYPE']],
    ['an unknown field', { name: 'X', colour: '#FFFFFF' }, 422, ['colour UNKNOWN_FIELD']],
    ['an id', { name: 'X', id: 'x' }, 422, ['id READ_ONLY']],
    [
      'a field that leads do not have',
      { name: 'X', pre_condition_fields: ['email', 'stage'] },
      422,
      ['pre_condition_fields[1] UNKNOWN_FIELD'],
    ],
    ['a field twice', { name: 'X', pre_condition_fields: ['email', 'email'] }, 400, ['pre_condition_fields DUPLICATE']],
    [
      'problems of both kinds',
      { name: '', outcome: 'won', pre_condition_fields: ['zzz'] },
      422,
      ['pre_condition_fields[0] UNKNOWN_FIELD', 'outcome INVALID_OPTION', 'name TOO_SHORT'],
    ],
  ])('rejects a status with %s', async (_, body, status, problems) => {
    const tenant = await newTenant();
    const before = await configVersion(tenant);
    expect(await refused(status, tenant, body)).toEqual(problems);
    expect(await configVersion(tenant)).toBe(before);
  });

  test('rejects an empty change, and unknown and read-only fields', async () => {
    const tenant = await newTenant();
    const options = { key: tenant.key };
    const target = path('leads', await findId(tenant, 'New'));
    expect(await refusedFields(400, 'PATCH', target, { ...options, body: {} })).toEqual([' REQUIRED']);
    const body = { created_at: 'x', updated_at: 'x', id: 'x', object: 'deals', nmae: 'x' };
    expect(await refusedFields(422, 'PATCH', target, { ...options, body })).toEqual([
      'nmae UNKNOWN_FIELD',
      'id READ_ONLY',
      'object READ_ONLY',
      'created_at READ_ONLY',
      'updated_at READ_ONLY',
    ]);
    expect(await refusedFields(400, 'PATCH', target, { ...options, body: { outcome: 'lost' } })).toEqual([
      'outcome INVALID_OPTION',
    ]);
  });

  test('rejects more than 100 statuses', async () => {
    const tenant = await newTenant();
    await database()`
      insert into statuses (company_id, id, object, name, order_position, created_at, updated_at)
      select ${tenant.companyId}, gen_random_uuid(), 'leads', 'S' || i, 5 + i, now(), now() from generate_series(1, 94) i`;
    await create(tenant, { name: 'The hundredth' });
    const { body } = await expectStatus(409, 'POST', path('leads'), { key: tenant.key, body: { name: 'One more' } });
    expect(body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'status_limit_reached', limit: 100 } });
    await create(tenant, { name: 'One more' }, 'deals');
  });
});

describe('pre-conditions', () => {
  test('stores preconditions of every kind as sent', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'deals', 'score', { type: 'number' });
    const rules = [
      { kind: 'field', field: 'amount_minor', op: 'gte', value: 1000, message: 'Agree on a price.' },
      { kind: 'field', field: 'score', op: 'in', value: [1, '2'] },
      { kind: 'field', field: 'stage', op: 'neq', value: 'Lost' },
      { kind: 'field', field: 'lost_reason', op: 'is_null', value: true },
      { or: [{ kind: 'field', field: 'name', op: 'contains', value: 'x' }, { kind: 'tasks_completed' }] },
      { kind: 'activity', activity_type: 'Meeting', min_count: 1, within_days: 30 },
      { kind: 'activity', min_count: 3 },
      { kind: 'attachment', min_count: 1 },
      { kind: 'tasks_completed' },
    ];
    const status = await create(tenant, { name: 'Asking', pre_condition_rules: rules }, 'deals');
    expect(status.pre_condition_rules).toEqual(rules);
    expect((await list(tenant, 'deals')).at(-1)).toEqual(status);
  });

  test('accepts field rules without a kind, and is_null without a value', async () => {
    const tenant = await newTenant();
    const status = await create(tenant, { name: 'Asking', pre_condition_rules: [{ field: 'email', op: 'is_null' }] });
    expect(status.pre_condition_rules).toEqual([{ kind: 'field', field: 'email', op: 'is_null', value: true }]);
  });

  test('shows preconditions with the current names of statuses and types', async () => {
    const tenant = await newTenant();
    const rules = [
      { field: 'lead_status', op: 'in', value: ['new', 'Contacted'] },
      { kind: 'activity', activity_type: 'call', min_count: 1 },
    ];
    const { id } = await create(tenant, { name: 'Asking', pre_condition_rules: rules });
    await patch(tenant, await findId(tenant, 'New'), { name: 'Fresh' });
    await database()`update activity_types set name = 'Phone' where company_id = ${tenant.companyId} and name = 'Call'`;
    const { body } = await expectStatus(200, 'GET', path('leads', id), { key: tenant.key });
    expect(body.data.status.pre_condition_rules).toMatchObject([
      { value: ['Fresh', 'Contacted'] },
      { activity_type: 'Phone' },
    ]);
  });

  const field = (rule: object): object => ({ name: 'X', pre_condition_rules: [rule] });
  const first = 'pre_condition_rules[0]';
  test.each<[string, object, number, string[]]>([
    ['of an unknown field', field({ field: 'stage', op: 'eq', value: 'x' }), 422, [`${first}.field UNKNOWN_FIELD`]],
    ['without a field', field({ op: 'eq', value: 'x' }), 400, [`${first}.field REQUIRED`]],
    ['without an operator', field({ field: 'email' }), 400, [`${first}.op REQUIRED`]],
    ['without anything', field({}), 400, [`${first}.field REQUIRED`, `${first}.op REQUIRED`]],
    ['without a value', field({ field: 'email', op: 'eq' }), 422, [`${first}.value INVALID_TYPE`]],
    [
      'with an operator that is none',
      field({ field: 'email', op: 'like', value: 'x' }),
      400,
      [`${first}.op INVALID_OPTION`],
    ],
    [
      'with an operator of another type',
      field({ field: 'priority', op: 'contains', value: 1 }),
      422,
      [`${first}.op INVALID_OPTION`],
    ],
    [
      'with a value of another type',
      field({ field: 'priority', op: 'eq', value: 'high' }),
      422,
      [`${first}.value INVALID_TYPE`],
    ],
    [
      'with a time that is none',
      field({ field: 'created_at', op: 'gt', value: 'soon' }),
      422,
      [`${first}.value INVALID_TYPE`],
    ],
    ['with an empty list', field({ field: 'email', op: 'in', value: [] }), 422, [`${first}.value INVALID_TYPE`]],
    [
      'with a source that is none',
      field({ field: 'source', op: 'eq', value: 'Zzz' }),
      422,
      [`${first}.value INVALID_OPTION`],
    ],
    ['of an unknown kind', field({ kind: 'moon' }), 400, [`${first}.kind INVALID_OPTION`]],
    [
      'with parts of another kind',
      field({ kind: 'attachment', min_count: 1, field: 'email' }),
      422,
      [`${first}.field UNKNOWN_FIELD`],
    ],
    ['of activities without a number', field({ kind: 'activity' }), 400, [`${first}.min_count REQUIRED`]],
    ['of no activities', field({ kind: 'activity', min_count: 0 }), 400, [`${first}.min_count OUT_OF_RANGE`]],
    [
      'of an unknown type of activity',
      field({ kind: 'activity', activity_type: 'Zzz', min_count: 1 }),
      422,
      [`${first}.activity_type INVALID_OPTION`],
    ],
    ['of attachments without a number', field({ kind: 'attachment' }), 400, [`${first}.min_count REQUIRED`]],
    [
      'with or beside something',
      field({ or: [{ kind: 'tasks_completed' }], kind: 'field' }),
      422,
      [`${first}.kind UNKNOWN_FIELD`],
    ],
    ['with or around nothing', field({ or: [] }), 400, [`${first}.or TOO_SHORT`]],
    [
      'with or inside or',
      field({ or: [{ or: [{ kind: 'tasks_completed' }] }] }),
      422,
      [`${first}.or[0].or UNKNOWN_FIELD`],
    ],
    [
      'wrong inside or',
      field({ or: [{ kind: 'tasks_completed' }, { field: 'zzz', op: 'eq', value: 1 }] }),
      422,
      [`${first}.or[1].field UNKNOWN_FIELD`],
    ],
    ['that are no object', { name: 'X', pre_condition_rules: ['x'] }, 422, [`${first} INVALID_TYPE`]],
    [
      '21 of them',
      { name: 'X', pre_condition_rules: Array.from({ length: 21 }, () => ({ kind: 'tasks_completed' })) },
      400,
      ['pre_condition_rules TOO_LONG'],
    ],
  ])('rejects preconditions %s', async (_, body, status, problems) => {
    expect(await refused(status, await newTenant(), body)).toEqual(problems);
  });
});

describe('a status in use', () => {
  test('rejects deleting a status while records of either mode have it, with their count', async () => {
    const tenant = await newTenant();
    const id = await findId(tenant, 'Contacted');
    const lead = { first_name: 'A', email: 'a@x.example', lead_status: 'Contacted' };
    const live = await createRecord(tenant.key, 'leads', lead);
    await createRecord(tenant.testKey, 'leads', lead);
    await createRecord(tenant.testKey, 'leads', { ...lead, email: 'b@x.example' });
    const refusal = await expectStatus(409, 'DELETE', path('leads', id), { key: tenant.key });
    expect(refusal.body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'in_use', references: { leads: 3 } },
    });
    expect(refusal.body.error.details).toEqual({ reason: 'in_use', references: { leads: 3 } });
    await patchRecord(tenant.key, 'leads', live.id, { lead_status: 'New' });
    const again = await expectStatus(409, 'DELETE', path('leads', id), { key: tenant.key });
    expect(again.body.error.details.references).toEqual({ leads: 2 });
    await database()`delete from leads where company_id = ${tenant.companyId} and test_mode`;
    const { body } = await expectStatus(200, 'DELETE', path('leads', id), { key: tenant.key });
    expect(body.data).toEqual({ id, deleted: true });
    await expectStatus(404, 'GET', path('leads', id), { key: tenant.key });
    const { audit } = await leftBehind(id);
    expect(audit).toMatchObject([
      {
        action: 'settings.status.delete',
        object: 'leads',
        changes: { name: { from: 'Contacted', to: null } },
        test_mode: false,
      },
    ]);
  });

  test('counts deals of a stage as deals', async () => {
    const tenant = await newTenant();
    await createRecord(tenant.key, 'deals', { name: 'D', stage: 'Proposal' });
    const { body } = await expectStatus(409, 'DELETE', path('deals', await findId(tenant, 'Proposal', 'deals')), {
      key: tenant.key,
    });
    expect(body.error.details).toEqual({ reason: 'in_use', references: { deals: 1 } });
  });

  test('counts the records of a status up to 10,000', async () => {
    const tenant = await newTenant();
    const id = await findId(tenant, 'Contacted');
    await database()`
      insert into leads (company_id, test_mode, id, lead_status_id, created_by_kind, created_by_id, created_at, updated_at)
      select ${tenant.companyId}, false, gen_random_uuid(), ${id}, 'system', 'test', now(), now() from generate_series(1, 10001)`;
    const { body } = await expectStatus(409, 'DELETE', path('leads', id), { key: tenant.key });
    expect(body.error.details).toEqual({ reason: 'in_use', references: { leads: 10_000 }, references_capped: true });
  });

  test('keeps the records of a deactivated status, and accepts no new ones', async () => {
    const tenant = await newTenant();
    const lead = { first_name: 'A', email: 'a@x.example', lead_status: 'Contacted' };
    const { id } = await createRecord(tenant.key, 'leads', lead);
    await patch(tenant, await findId(tenant, 'Contacted'), { is_active: false });
    expect((await patchRecord(tenant.key, 'leads', id, { first_name: 'B' })).lead_status).toBe('Contacted');
    const body = { ...lead, email: 'b@x.example' };
    expect(
      await refusedFields(422, 'POST', '/v1/objects/leads/records', { key: tenant.key, body, idempotencyKey: true }),
    ).toEqual(['lead_status INVALID_OPTION']);
  });

  test('either deletes a status or assigns it to a record, if both happen at the same time', async () => {
    const tenant = await newTenant();
    for (let round = 0; round < 8; round += 1) {
      const { id, name } = await create(tenant, { name: `Race ${round}` });
      const body = { first_name: 'A', email: 'a@x.example', lead_status: name };
      const [deleted, created] = await Promise.all([
        call('DELETE', path('leads', id), { key: tenant.key }),
        call('POST', '/v1/objects/leads/records', { key: tenant.key, body, idempotencyKey: true }),
      ]);
      expect([deleted.status === 200, created.status === 201].filter(Boolean)).toHaveLength(1);
      if (deleted.status !== 200) expect(deleted.body.error.details.reason).toBe('in_use');
    }
  });
});

describe('the last active status', () => {
  test('rejects deactivating or deleting the last active status, but not inactive ones', async () => {
    const tenant = await newTenant();
    const [last, ...others] = await list(tenant);
    for (const status of others) await patch(tenant, status.id, { is_active: false });
    for (const [method, body] of [['PATCH', { is_active: false }], ['DELETE']] as const) {
      const answer = await expectStatus(409, method, path('leads', last.id), {
        key: tenant.key,
        ...(body ? { body } : {}),
      });
      expect(answer.body.error).toMatchObject({ code: 'CONFLICT', details: { reason: 'last_active' } });
    }
    await patch(tenant, last.id, { name: 'Only', is_active: true });
    for (const status of others) await expectStatus(200, 'DELETE', path('leads', status.id), { key: tenant.key });
    expect(await names(tenant)).toEqual(['Only']);
  });

  test('keeps one active status if all are deactivated concurrently', async () => {
    const tenant = await newTenant();
    const statuses = await list(tenant);
    const answers = await Promise.all(
      statuses.map(({ id }) => call('PATCH', path('leads', id), { key: tenant.key, body: { is_active: false } })),
    );
    expect(answers.filter((answer) => answer.status === 409)).toHaveLength(1);
    expect((await list(tenant)).filter((status) => status.is_active)).toHaveLength(1);
  });
});

test('applies a changed outcome to records that enter the status afterwards', async () => {
  const tenant = await newTenant();
  const before = await createRecord(tenant.key, 'deals', { name: 'D', stage: 'Proposal' });
  await patch(tenant, await findId(tenant, 'Proposal', 'deals'), { outcome: 'won', name: 'Signed' }, 'deals');
  const { body } = await expectStatus(200, 'GET', `/v1/objects/deals/records/${before.id}`, { key: tenant.key });
  expect(body.data.record).toMatchObject({ stage: 'Signed', won_at: null });
  const after = await createRecord(tenant.key, 'deals', { name: 'E', stage: 'signed' });
  expect(after.won_at).not.toBeNull();
});

test('lets read-only keys read statuses, and rejects changes by them and by test keys', async () => {
  const tenant = await newTenant();
  const reader = await newKey(tenant, { scopes: ['settings:view'] });
  await expectStatus(200, 'GET', path('leads'), { key: reader });
  for (const key of [reader, tenant.testKey])
    await expectStatus(403, 'POST', path('leads'), { key, body: { name: 'X' } });
});
