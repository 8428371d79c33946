// Workforces: creation, validation and changes.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { newCustomField } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, type Tenant } from '../support/tenants.ts';
import { newWorkforce } from '../support/workforces.ts';

let tenant: Tenant;
const path = '/v1/workforces';

beforeAll(async () => {
  tenant = await newWideTenant();
  const fields = [{ field: 'priority', operator: 'eq', value: 1 }];
  await createSetting(tenant, '/v1/settings/tags/leads', { name: 'Urgent', color: '#DC2626', priority: 1, fields });
});

const create = (more: object, key = tenant.key): Promise<Answer> =>
  call('POST', path, {
    key,
    body: { name: randomUUID(), subject_types: ['lead'], steps: [{ kind: 'wait', minutes: 1 }], ...more },
  });
const readProblems = ({ status, body }: Answer): [number, string[]] => [
  status,
  (body.error?.details?.fields ?? []).map(({ field, code }: Json) => `${field} ${code}`),
];
const patch = (id: string, body: object) => call('PATCH', `${path}/${id}`, { key: tenant.key, body });

describe('a workforce', () => {
  test('creates a draft without stop conditions by default', async () => {
    const { workforce } = (await create({ name: ' Welcome ' })).body.data;
    expect(workforce).toMatchObject({
      name: 'Welcome',
      description: null,
      kind: 'sequence',
      status: 'draft',
      subject_types: ['lead'],
      step_count: 1,
      enrolled_count: 0,
      stop_when: null,
      stop_when_replied: false,
      steps: [{ kind: 'wait', minutes: 1 }],
    });
    const read = await expectStatus(200, 'GET', `${path}/${workforce.id}`, { key: tenant.testKey });
    expect(read.body.data.workforce).toEqual(workforce);
    const { workforces } = (await expectStatus(200, 'GET', path, { key: tenant.key, query: { status: 'draft' } })).body
      .data;
    const { steps: _steps, stop_when: _when, stop_when_replied: _replied, ...item } = workforce;
    expect(workforces).toContainEqual(item);
    const active = await expectStatus(200, 'GET', path, { key: tenant.key, query: { status: 'active' } });
    expect(active.body.data.workforces).not.toContainEqual(item);
  });

  test('changes only the sent fields and records them in the audit log', async () => {
    const { id } = await newWorkforce(tenant.key);
    const steps = [
      { kind: 'wait', minutes: 5 },
      { kind: 'add_note', content: 'Hello' },
    ];
    const changed = await patch(id, { status: 'paused', steps, stop_when: { field: 'origin', op: 'eq', value: 'x' } });
    expect(changed.body.data.workforce).toMatchObject({ status: 'paused', steps, step_count: 2 });
    expect((await patch(id, { stop_when: null })).body.data.workforce).toMatchObject({ stop_when: null, steps });
    const same = await patch(id, { steps });
    const audit = await database()`select action, changes from audit_logs where record_id = ${id} order by seq`;
    expect(audit.map(({ action }) => action)).toEqual([
      'settings.workforce.create',
      'settings.workforce.update',
      'settings.workforce.update',
    ]);
    expect(audit[1]?.changes.status).toEqual({ from: 'active', to: 'paused' });
    expect(same.body.data.workforce.updated_at).not.toBe(changed.body.data.workforce.created_at);
    expect(readProblems(await patch(id, { kind: 'agent' }))).toEqual([422, ['kind IMMUTABLE']]);
  });

  test('requires a unique name and limits a workspace to 100 workforces', async () => {
    const other = await newWideTenant();
    const { id } = await newWorkforce(other.key, { name: 'Welcome' });
    const twin = await create({ name: 'WELCOME' }, other.key);
    expect(twin.body.error).toMatchObject({ code: 'ALREADY_EXISTS', details: { existing_id: id } });
    await database()`
      insert into workforces (company_id, id, name, kind, status, subject_types, steps, stop_when_replied, created_at, updated_at)
      select ${other.companyId}, gen_random_uuid(), n::text, 'sequence', 'draft', '{lead}', '[]', false, now(), now() from generate_series(2, 100) n`;
    const full = await create({}, other.key);
    expect(full.body.error).toMatchObject({
      code: 'CONFLICT',
      details: { reason: 'workforce_limit_reached', limit: 100 },
    });
  });

  test('requires live keys with full visibility and with the scopes of all steps', async () => {
    expect((await create({}, tenant.testKey)).body.error.details.reason).toBe('live_key_required');
    const branch = { kind: 'branch' as const, id: tenant.branchId };
    const narrow = await newKey(tenant, { reach: branch });
    expect((await create({}, narrow)).body.error.details.reason).toBe('company_reach_required');
    const needs: [Json, string][] = [
      [{ kind: 'wait', minutes: 1 }, 'leads:view'],
      [{ kind: 'add_note', content: 'Hello' }, 'leads:edit'],
      [{ kind: 'set_field', field: 'origin', value: 'x' }, 'leads:edit'],
      [{ kind: 'add_tag', tag: 'Urgent' }, 'leads:edit'],
      [{ kind: 'create_task', title: 'Call' }, 'tasks:create'],
      [{ kind: 'draft_message', channel: 'sms', body: 'Hello' }, 'inbox:create'],
    ];
    const all = ['workforces:create', ...needs.map(([, scope]) => scope)];
    for (const [step, scope] of needs) {
      const lacking = await newKey(tenant, { scopes: all.filter((each) => each !== scope) });
      const answer = await create({ steps: [step] }, lacking);
      expect(answer.body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { required_scopes: [scope] } });
      expect((await create({ steps: [step] }, await newKey(tenant, { scopes: all }))).status).toBe(201);
    }
  });
});

describe('steps', () => {
  test.each<[string, Json, number, string[]]>([
    ['with an unknown tag', { kind: 'add_tag', tag: 'Urgen' }, 422, ['steps[0].tag INVALID_OPTION']],
    ['without a required field', { kind: 'create_task' }, 400, ['steps[0].title REQUIRED']],
    [
      'with a field that belongs to another kind of step',
      { kind: 'wait', minutes: 1, title: 'x' },
      422,
      ['steps[0].title UNKNOWN_FIELD'],
    ],
    [
      'that set an unknown field',
      { kind: 'set_field', field: 'first_nam', value: 'x' },
      422,
      ['steps[0].field INVALID_OPTION'],
    ],
    [
      'that set a read-only field',
      { kind: 'set_field', field: 'id', value: 'x' },
      422,
      ['steps[0].field INVALID_OPTION'],
    ],
    [
      'with a value of another type',
      { kind: 'set_field', field: 'priority', value: 'x' },
      422,
      ['steps[0].value INVALID_TYPE'],
    ],
    [
      'with a value that is not an option',
      { kind: 'set_field', field: 'lead_status', value: 'Newish' },
      422,
      ['steps[0].value INVALID_OPTION'],
    ],
    [
      'that clear a required field',
      { kind: 'set_field', field: 'first_name', value: null },
      400,
      ['steps[0].value REQUIRED'],
    ],
    [
      'that assign an unknown user',
      { kind: 'set_field', field: 'assigned_to', value: randomUUID() },
      422,
      ['steps[0].value NOT_FOUND'],
    ],
    [
      'with a placeholder for an unknown field',
      { kind: 'add_note', content: '{{first_nam}}' },
      422,
      ['steps[0].content INVALID_OPTION'],
    ],
    [
      'with an unknown task type',
      { kind: 'create_task', title: 'x', task_type: 'Caal' },
      422,
      ['steps[0].task_type INVALID_OPTION'],
    ],
    [
      'with a task for an unknown user',
      { kind: 'create_task', title: 'x', assigned_to: randomUUID() },
      422,
      ['steps[0].assigned_to NOT_FOUND'],
    ],
    [
      'with an email without a subject',
      { kind: 'draft_message', channel: 'email', body: 'x' },
      400,
      ['steps[0].subject REQUIRED'],
    ],
    [
      'with a text message that has a subject',
      { kind: 'draft_message', channel: 'sms', subject: 'x', body: 'x' },
      400,
      ['steps[0].subject CONFLICTING_FIELDS'],
    ],
    [
      'with a text message that is too long',
      { kind: 'draft_message', channel: 'sms', body: 'x'.repeat(1601) },
      400,
      ['steps[0].body TOO_LONG'],
    ],
    [
      'with a condition on an unknown field',
      { kind: 'stop_when', condition: { field: 'orign', op: 'eq', value: 'x' } },
      422,
      ['steps[0].condition UNKNOWN_FIELD'],
    ],
    ['of an unknown kind', { kind: 'send_message' }, 400, ['steps[0].kind INVALID_OPTION']],
  ])('rejects steps %s', async (_, step, status, fields) => {
    expect(readProblems(await create({ steps: [step] }))).toEqual([status, fields]);
  });

  test('suggests similar names and lists allowed values for invalid steps', async () => {
    const [field] = (await create({ steps: [{ kind: 'add_note', content: '{{first_nam}}' }] })).body.error.details
      .fields;
    expect(field).toMatchObject({ did_you_mean: 'first_name' });
    const [setting] = (await create({ steps: [{ kind: 'set_field', field: 'orign', value: 1 }] })).body.error.details
      .fields;
    expect(setting).toMatchObject({ did_you_mean: 'origin', allowed: expect.arrayContaining(['origin']) });
  });

  test('validates steps against each type of record', async () => {
    await newCustomField(tenant, 'leads', 'budget', { type: 'number' });
    const steps = [{ kind: 'set_field', field: 'budget', value: 5 }];
    expect((await create({ steps })).status).toBe(201);
    expect(readProblems(await create({ steps, subject_types: ['lead', 'account'] }))).toEqual([
      422,
      ['steps[0].field INVALID_OPTION'],
    ]);
    const message = [{ kind: 'draft_message', channel: 'sms', body: 'x' }];
    expect(readProblems(await create({ steps: message, subject_types: ['deal'] }))).toEqual([
      400,
      ['steps[0].kind CONFLICTING_FIELDS'],
    ]);
  });

  test('validates the steps of a change against the resulting workforce', async () => {
    const { id } = await newWorkforce(tenant.key);
    expect(readProblems(await patch(id, { subject_types: ['deal'] }))).toEqual([
      422,
      ['steps[0].content INVALID_OPTION'],
    ]);
    expect(readProblems(await patch(id, { stop_when: { field: 'nothing', op: 'eq', value: 1 } }))).toEqual([
      422,
      ['stop_when UNKNOWN_FIELD'],
    ]);
  });
});
