// SLA policies: every rule of a policy, and no deletion while clocks run.
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, leftBehind, refusedFields } from '../support/records.ts';
import { changeSetting, configVersion, createSetting, listSettings } from '../support/settings.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const root = '/v1/settings/sla-policies';
const create = (tenant: Tenant, body: object): Promise<Json> => createSetting(tenant, root, body);
const patch = (tenant: Tenant, id: string, body: object): Promise<Json> => changeSetting(tenant, `${root}/${id}`, body);
const list = (key: string): Promise<Json[]> => listSettings(key, root);
const smallest = { name: 'Leads', entity_type: 'lead', first_response_time: 60 };
const office = {
  mode: 'business_hours',
  business_hours_start: '09:00',
  business_hours_end: '17:00',
  business_days: [1, 2, 3, 4, 5],
};

let tenant: Tenant;
let user: { id: string };

beforeAll(async () => {
  tenant = await newTenant();
  user = await newUser(tenant);
});

const reminder = (more: object = {}) => ({
  type: 'first_response',
  minutes_before: 15,
  recipient_user_ids: [user.id],
  ...more,
});
const escalation = (more: object = {}) => ({
  level: 1,
  minutes_after: 0,
  recipient_user_ids: [user.id],
  message_template: '{{record_name}} of {{ policy_name }}',
  ...more,
});

test('creates a policy with defaults, readable in both modes, and audits it', async () => {
  const own = await newTenant();
  expect(await list(own.key)).toEqual([]);
  const policy = await create(own, { ...smallest, name: ' Leads ' });
  expect(policy).toEqual({
    id: policy.id,
    name: 'Leads',
    entity_type: 'lead',
    priority: null,
    is_active: true,
    first_response_time: 60,
    every_response_time: null,
    resolution_time: null,
    mode: '24/7',
    business_hours_start: null,
    business_hours_end: null,
    business_days: null,
    timezone: 'Europe/Berlin',
    reminders: [],
    escalations: [],
    created_at: policy.created_at,
    updated_at: policy.created_at,
  });
  expect(await list(own.testKey)).toEqual([policy]);
  const { body } = await expectStatus(200, 'GET', `${root}/${policy.id}`, { key: own.testKey });
  expect(body.data.sla_policy).toEqual(policy);
  expect((await leftBehind(policy.id)).audit).toMatchObject([
    { action: 'settings.sla_policy.create', changes: { name: { from: null, to: 'Leads' } }, actor_kind: 'api_key' },
  ]);
});

test('changes each field of a policy alone, audits it, and raises the configuration version', async () => {
  const own = await newTenant();
  const recipient = await newUser(own);
  const version = (): Promise<number> => configVersion(own);
  let policy = await create(own, smallest);
  const changes: [string, unknown][] = [
    ['name', 'LEADS'],
    ['entity_type', 'deal'],
    ['priority', 4],
    ['priority', null],
    ['every_response_time', 525_600],
    ['resolution_time', 1],
    ['first_response_time', null],
    ['business_hours_start', '00:00'],
    ['business_hours_end', '23:59'],
    ['business_days', [6, 0]],
    ['mode', 'business_hours'],
    ['timezone', 'Asia/Kolkata'],
    ['reminders', [reminder({ type: 'resolution', recipient_user_ids: [recipient.id] })]],
    ['escalations', [escalation({ type: 'resolution', recipient_user_ids: [recipient.id] })]],
    ['is_active', false],
  ];
  for (const [field, value] of changes) {
    const before = await version();
    const changed = await patch(own, policy.id, { [field]: value });
    expect(changed).toEqual({ ...policy, [field]: value, updated_at: changed.updated_at });
    expect(await version()).toBe(before + 1);
    expect((await leftBehind(policy.id)).audit.at(-1)).toMatchObject({
      action: 'settings.sla_policy.update',
      changes: { [field]: { from: policy[field], to: value } },
    });
    policy = changed;
  }
  const { audit } = await leftBehind(policy.id);
  expect(await patch(own, policy.id, { timezone: 'Asia/Kolkata' })).toEqual(policy);
  expect((await leftBehind(policy.id)).audit).toEqual(audit);
  expect(await list(own.key)).toEqual([policy]);
});

test('accepts changes of a policy with a stored reminder that has no clock', async () => {
  const policy = await create(tenant, { ...smallest, name: 'Earlier' });
  const reminders = [reminder({ type: 'resolution' })];
  await database()`
    update sla_policies set reminders = ${database().json(reminders)} where company_id = ${tenant.companyId} and id = ${policy.id}`;
  expect(await patch(tenant, policy.id, { name: 'Earlier, renamed' })).toMatchObject({ reminders });
});

test('replaces all reminders or escalations that are sent, and keeps those that are not', async () => {
  const policy = await create(tenant, {
    ...smallest,
    name: 'Whole sets',
    reminders: [reminder(), reminder({ minutes_before: 30 })],
    escalations: [escalation(), escalation({ level: 2, type: 'first_response', minutes_after: 60 })],
  });
  expect(policy.escalations[0]).toEqual(escalation({ type: 'resolution' }));
  const reminded = await patch(tenant, policy.id, { reminders: [reminder({ minutes_before: 5 })] });
  expect(reminded).toMatchObject({
    reminders: [reminder({ minutes_before: 5 })],
    escalations: policy.escalations,
  });
  const emptied = await patch(tenant, policy.id, { escalations: [] });
  expect(emptied).toMatchObject({ reminders: reminded.reminders, escalations: [] });
});

test('stores a recipient once if the id is repeated in another case', async () => {
  const own = await newTenant();
  const { id } = await newUser(own);
  const reminders = [reminder({ recipient_user_ids: [id, id.toUpperCase()] })];
  const policy = await create(own, { ...smallest, reminders });
  expect(policy.reminders[0].recipient_user_ids).toEqual([id]);
});

test('checks new recipients, but not those that stay', async () => {
  const leaving = await newUser(tenant);
  const staying = reminder({ recipient_user_ids: [leaving.id.toUpperCase()] });
  const policy = await create(tenant, { ...smallest, name: 'Recipients', reminders: [staying] });
  expect(policy.reminders[0].recipient_user_ids).toEqual([leaving.id]);
  await database()`update users set status = 'inactive' where company_id = ${tenant.companyId} and id = ${leaving.id}`;
  await patch(tenant, policy.id, { name: 'Renamed', reminders: [staying, reminder()] });
  const options = { key: tenant.key, body: { ...smallest, name: 'Another', reminders: [staying] } };
  expect(await refusedFields(422, 'POST', root, options)).toEqual(['reminders[0].recipient_user_ids[0] NOT_FOUND']);
});

describe('an invalid policy', () => {
  const times = { first_response_time: null };
  const cases: [string, number, () => object, string[]][] = [
    ['without a name', 400, () => ({ name: undefined }), ['name REQUIRED']],
    ['without an entity type', 400, () => ({ entity_type: undefined }), ['entity_type REQUIRED']],
    ['for another entity', 400, () => ({ entity_type: 'account' }), ['entity_type INVALID_OPTION']],
    ['with a blank name', 400, () => ({ name: '  ' }), ['name INVALID_FORMAT']],
    ['with a name of 101 characters', 400, () => ({ name: 'x'.repeat(101) }), ['name TOO_LONG']],
    ['of priority 0', 400, () => ({ priority: 0 }), ['priority OUT_OF_RANGE']],
    ['of priority 5', 400, () => ({ priority: 5 }), ['priority OUT_OF_RANGE']],
    ['without any time', 400, () => times, ['first_response_time REQUIRED']],
    ['with a time of 0 minutes', 400, () => ({ resolution_time: 0 }), ['resolution_time OUT_OF_RANGE']],
    ['with more than a year', 400, () => ({ every_response_time: 525_601 }), ['every_response_time OUT_OF_RANGE']],
    ['in another mode', 400, () => ({ mode: 'always' }), ['mode INVALID_OPTION']],
    [
      'in business hours without any',
      400,
      () => ({ mode: 'business_hours', business_days: [] }),
      ['business_hours_start REQUIRED', 'business_hours_end REQUIRED', 'business_days REQUIRED'],
    ],
    [
      'that ends when it starts',
      400,
      () => ({ ...office, business_hours_end: '09:00' }),
      ['business_hours_end OUT_OF_RANGE'],
    ],
    [
      'with a time of day of 24:00',
      400,
      () => ({ business_hours_end: '24:00' }),
      ['business_hours_end INVALID_FORMAT'],
    ],
    [
      'with a time of day of 9:00',
      400,
      () => ({ business_hours_start: '9:00' }),
      ['business_hours_start INVALID_FORMAT'],
    ],
    ['with an eighth day', 400, () => ({ business_days: [7] }), ['business_days[0] OUT_OF_RANGE']],
    ['with a day twice', 400, () => ({ business_days: [1, 1] }), ['business_days DUPLICATE']],
    ['in no time zone', 400, () => ({ timezone: 'Mars/Olympus' }), ['timezone INVALID_FORMAT']],
    [
      'whose deadline is more than ten years away',
      400,
      () => ({ ...office, business_hours_end: '09:01', business_days: [1], first_response_time: 521 }),
      ['first_response_time OUT_OF_RANGE'],
    ],
    [
      'with a reminder of an unknown type',
      400,
      () => ({ reminders: [reminder({ type: 'x' })] }),
      ['reminders[0].type INVALID_OPTION'],
    ],
    [
      'with a reminder without recipients',
      400,
      () => ({ reminders: [reminder({ recipient_user_ids: [] })] }),
      ['reminders[0].recipient_user_ids TOO_SHORT'],
    ],
    [
      'reminding 21 users',
      400,
      () => ({ reminders: [reminder({ recipient_user_ids: Array.from({ length: 21 }, () => uuidv7()) })] }),
      ['reminders[0].recipient_user_ids TOO_LONG'],
    ],
    [
      'reminding in 0 minutes',
      400,
      () => ({ reminders: [reminder({ minutes_before: 0 })] }),
      ['reminders[0].minutes_before OUT_OF_RANGE'],
    ],
    [
      'reminding more than a week before',
      400,
      () => ({ reminders: [reminder({ minutes_before: 10_081 })] }),
      ['reminders[0].minutes_before OUT_OF_RANGE'],
    ],
    [
      'with a level of 6',
      400,
      () => ({ escalations: [escalation({ level: 6 })] }),
      ['escalations[0].level OUT_OF_RANGE'],
    ],
    [
      'with a level twice',
      400,
      () => ({ escalations: [escalation(), escalation()] }),
      ['escalations[1].level DUPLICATE'],
    ],
    [
      'escalating after more than 30 days',
      400,
      () => ({ escalations: [escalation({ minutes_after: 43_201 })] }),
      ['escalations[0].minutes_after OUT_OF_RANGE'],
    ],
    [
      'with a message of 2,001 characters',
      400,
      () => ({ escalations: [escalation({ message_template: 'x'.repeat(2001) })] }),
      ['escalations[0].message_template TOO_LONG'],
    ],
    [
      'without a message',
      400,
      () => ({ escalations: [escalation({ message_template: undefined })] }),
      ['escalations[0].message_template REQUIRED'],
    ],
    [
      'with an unknown placeholder',
      400,
      () => ({ escalations: [escalation({ message_template: '{{record_name}} {{owner}}' })] }),
      ['escalations[0].message_template INVALID_FORMAT'],
    ],
    [
      'with an escalation to a user of another workspace',
      422,
      () => ({ escalations: [escalation({ recipient_user_ids: [user.id, uuidv7()] })] }),
      ['escalations[0].recipient_user_ids[1] NOT_FOUND'],
    ],
    ['with an unknown field', 422, () => ({ colour: 'red' }), ['colour UNKNOWN_FIELD']],
    [
      'with an unknown field in a reminder',
      422,
      () => ({ reminders: [reminder({ x: 1 })] }),
      ['reminders[0].x UNKNOWN_FIELD'],
    ],
    ['with a given id', 422, () => ({ id: uuidv7() }), ['id READ_ONLY']],
    ['with a time as text', 422, () => ({ first_response_time: '60' }), ['first_response_time INVALID_TYPE']],
  ];

  test.each(cases)('rejects a policy %s', async (_, status, change, expected) => {
    const body = { ...smallest, name: `Refused ${uuidv7()}`, ...change() };
    expect(await refusedFields(status, 'POST', root, { key: tenant.key, body })).toEqual(expected);
    expect((await list(tenant.key)).map((policy) => policy.name)).not.toContain(body.name);
  });

  test('rejects a change that leaves no time or no business hours, and keeps the policy', async () => {
    const policy = await create(tenant, { ...smallest, name: 'Stays', ...office });
    for (const [change, expected] of [
      [{ first_response_time: null }, 'first_response_time REQUIRED'],
      [{ business_days: null }, 'business_days REQUIRED'],
      [{ business_hours_start: '17:00' }, 'business_hours_end OUT_OF_RANGE'],
    ] as const)
      expect(await refusedFields(400, 'PATCH', `${root}/${policy.id}`, { key: tenant.key, body: change })).toEqual([
        expected,
      ]);
    const { body } = await expectStatus(200, 'GET', `${root}/${policy.id}`, { key: tenant.key });
    expect(body.data.sla_policy).toEqual(policy);
  });

  test('rejects a reminder of a time that the policy does not have or would lose', async () => {
    const { key } = tenant;
    const reminders = [reminder(), reminder({ type: 'resolution' }), reminder({ type: 'every_response' })];
    const body = { ...smallest, name: 'Clockless', reminders };
    const expected = ['reminders[1].type CONFLICTING_FIELDS', 'reminders[2].type CONFLICTING_FIELDS'];
    expect(await refusedFields(400, 'POST', root, { key, body })).toEqual(expected);
    const policy = await create(tenant, { ...body, every_response_time: 60, resolution_time: 90 });
    const path = `${root}/${policy.id}`;
    expect(await refusedFields(400, 'PATCH', path, { key, body: { resolution_time: null } })).toEqual([expected[0]]);
    await patch(tenant, policy.id, { resolution_time: null, reminders: [reminder()] });
    const added = { reminders: [reminder({ type: 'resolution' })] };
    const { body: refused } = await expectStatus(400, 'PATCH', path, { key, body: added });
    expect(refused.error.details.fields).toMatchObject([
      { field: 'reminders[0].type', allowed: ['first_response', 'every_response'] },
    ]);
    expect(refused.error.message).toContain('Set resolution_time, or choose another type');
  });

  test('rejects more than 100 policies', async () => {
    const own = await newTenant();
    await database()`
      insert into sla_policies (company_id, id, name, entity_type, is_active, first_response_time, mode, timezone, created_at, updated_at)
      select ${own.companyId}, gen_random_uuid(), 'Policy ' || n, 'lead', false, 60, '24/7', 'UTC', now(), now() from generate_series(1, 99) n`;
    await create(own, smallest);
    const { body } = await expectStatus(409, 'POST', root, { key: own.key, body: { ...smallest, name: 'One more' } });
    expect(body.error.details).toEqual({ reason: 'policy_limit_reached', limit: 100 });
  });
});

describe('names', () => {
  test('keeps policy names unique without case', async () => {
    const own = await newTenant();
    const { id } = await create(own, { ...smallest, name: 'Größe' });
    const other = await create(own, { ...smallest, name: 'Other' });
    for (const [method, path, body] of [
      ['POST', root, { ...smallest, name: 'GRÖßE ' }],
      ['PATCH', `${root}/${other.id}`, { name: 'größe' }],
    ] as const) {
      const answer = await expectStatus(409, method, path, { key: own.key, body });
      expect(answer.body.error).toMatchObject({
        code: 'ALREADY_EXISTS',
        details: { matched_fields: ['name'], existing_id: id },
      });
    }
  });

  test('creates one policy for 32 concurrent calls with one name, and rejects the others as existing', async () => {
    const own = await newTenant();
    const send = (): Promise<Answer> => call('POST', root, { key: own.key, body: smallest });
    const answers = await Promise.all(Array.from({ length: 32 }, send));
    const codes = answers.map((answer) => (answer.status === 201 ? 'created' : answer.body.error.code));
    expect(codes.toSorted()).toEqual([...Array.from({ length: 31 }, () => 'ALREADY_EXISTS'), 'created']);
    expect(await list(own.key)).toHaveLength(1);
  });
});

test('rejects deleting a policy with running clocks and counts them, and deletes it without any', async () => {
  const own = await newTenant();
  const policy = await create(own, { ...smallest, every_response_time: 60 });
  const lead = await createRecord(own.key, 'leads', { first_name: 'Ada', email: 'ada@x.example' });
  const { body } = await expectStatus(409, 'DELETE', `${root}/${policy.id}`, { key: own.key });
  expect(body.error).toMatchObject({
    code: 'CONFLICT',
    details: { reason: 'in_use', references: { open_clocks: 2 } },
  });
  await expectStatus(200, 'DELETE', `/v1/objects/leads/records/${lead.id}`, { key: own.key });
  const deleted = await expectStatus(200, 'DELETE', `${root}/${policy.id}`, { key: own.key });
  expect(deleted.body.data).toEqual({ id: policy.id, deleted: true });
  expect(await list(own.key)).toEqual([]);
  await expectStatus(404, 'DELETE', `${root}/${policy.id}`, { key: own.key });
  expect((await leftBehind(policy.id)).audit.at(-1)).toMatchObject({
    action: 'settings.sla_policy.delete',
    changes: { name: { from: 'Leads', to: null } },
  });
});

test('lets test keys read policies, but not change them', async () => {
  const policy = await create(tenant, { ...smallest, name: 'Shared' });
  for (const [method, path, body] of [
    ['POST', root, smallest],
    ['PATCH', `${root}/${policy.id}`, { is_active: false }],
    ['DELETE', `${root}/${policy.id}`, undefined],
  ] as const) {
    const answer = await expectStatus(403, method, path, { key: tenant.testKey, ...(body ? { body } : {}) });
    expect(answer.body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { reason: 'live_key_required' } });
  }
  const viewer = await newKey(tenant, { scopes: ['settings:view'] });
  await expectStatus(200, 'GET', root, { key: viewer });
  await expectStatus(403, 'POST', root, { key: viewer, body: smallest });
});
