// Preconditions of statuses: every kind of rule, for every way into a status.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  lead,
  leftBehind,
  listProblems,
  newCustomField,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { activityTypeId, askFor, setActive, statusId } from '../support/statuses.ts';
import { database, newKey, newTenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

const deal = (more: object = {}) => ({ name: 'D', ...more });
const newDeal = async (key: string, more: object = {}): Promise<string> =>
  (await createRecord(key, 'deals', deal(more))).id;
const path = (id: string) => `/v1/deals/${id}/stage`;
const move = (status: number, key: string, id: string, body: object, options: CallOptions = {}) =>
  expectStatus(status, 'POST', path(id), { key, body, ...options });
const log = (key: string, on: string, more: object = {}) =>
  createRecord(key, 'activities', { activity_type: 'Call', entity_type: 'deal', entity_id: on, summary: 'x', ...more });

/** Returns the problems of a rejected move, as `field CODE`. */
async function unmet(key: string, id: string, body: object = { stage: 'Won' }): Promise<string[]> {
  const { error } = (await move(422, key, id, body)).body;
  expect(error).toMatchObject({ code: 'VALIDATION_ERROR', details: { reason: 'pre_conditions_not_met' } });
  return listProblems(error);
}

describe('fields that must have a value', () => {
  test('reports all missing fields and failed rules, stores nothing, and counts fields set by the move', async () => {
    const own = await newTenant();
    await newCustomField(own, 'deals', 'seats', { type: 'number' });
    await newCustomField(own, 'deals', 'signed', { type: 'boolean' });
    const rules = [{ field: 'priority', op: 'lte', value: 2, message: 'Be sure first.' }];
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor', 'seats', 'signed', 'name'], rules });
    const id = await newDeal(own.key);
    const before = await readRecord(own.key, 'deals', id);
    const body = { stage: 'Won', fields: { description: 'x' } };
    expect(await unmet(own.key, id, body)).toEqual([
      'amount_minor REQUIRED',
      'seats REQUIRED',
      'signed REQUIRED',
      'priority RULE_FAILED',
    ]);
    const { fields } = (await move(422, own.key, id, body)).body.error.details;
    expect(fields[3].message).toBe('Be sure first.');
    expect(await readRecord(own.key, 'deals', id)).toEqual(before);
    expect((await leftBehind(id)).audit).toHaveLength(1);
    // 0 and false are values.
    const good = { amount_minor: 0, seats: 0, signed: false, priority: 2 };
    expect((await move(200, own.key, id, { stage: 'Won', fields: good })).body.data.changed).toBe(true);
  });

  test('does not require disabled fields', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', {
      fields: ['probability'],
      rules: [{ field: 'probability', op: 'gte', value: 1 }],
    });
    await database()`
      insert into field_overrides (company_id, object, name, enabled, updated_at)
      values (${own.companyId}, 'deals', 'probability', false, now())`;
    await move(200, own.key, await newDeal(own.key), { stage: 'Won' });
  });

  test('checks nothing if the record already has the status', async () => {
    const own = await newTenant();
    const id = await newDeal(own.key, { stage: 'Won' });
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'] });
    await move(200, own.key, id, { stage: 'Won', fields: { description: 'x' } });
    await patchRecord(own.key, 'deals', id, { stage: 'Won', description: 'y' });
  });

  test('replays a rejected move under its Idempotency-Key', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'] });
    const id = await newDeal(own.key);
    const idempotencyKey = randomUUID();
    const first = await move(422, own.key, id, { stage: 'Won' }, { idempotencyKey });
    await patchRecord(own.key, 'deals', id, { amount_minor: 1 });
    expect((await move(422, own.key, id, { stage: 'Won' }, { idempotencyKey })).text).toBe(first.text);
    await move(200, own.key, id, { stage: 'Won' }, { idempotencyKey: true });
  });
});

describe('rules', () => {
  test('evaluates field rules exactly as list filters', async () => {
    const own = await newTenant();
    await newCustomField(own, 'deals', 'seats', { type: 'number' });
    await newCustomField(own, 'deals', 'vip', { type: 'boolean' });
    await database()`insert into sources (company_id, id, name, created_at, updated_at) values (${own.companyId}, ${randomUUID()}, 'Fair', now(), now())`;
    const bodies = [
      { name: 'Alpha', amount_minor: 5, seats: 9, vip: true, expected_close_date: '2027-01-01', source: 'Fair' },
      { name: 'beta \u{1F600}', amount_minor: 50, seats: 10, vip: false, probability: 30, description: '100% _sure_' },
      { name: 'beta \uFFFD', lost_reason: 'x', seats: 100, expected_close_date: '2026-12-31', stage: 'Qualified' },
      { name: 'D' },
    ];
    for (const body of bodies) await createRecord(own.key, 'deals', body);
    const fair = (await database()`select id from sources where company_id = ${own.companyId}`)[0]?.id;
    const qualified = await statusId(own, 'deals', 'Qualified');
    const conditions: [Json, Json?][] = [
      [{ field: 'amount_minor', op: 'gt', value: 5 }],
      [{ field: 'amount_minor', op: 'lte', value: 50 }],
      [{ field: 'amount_minor', op: 'neq', value: 5 }],
      [{ field: 'amount_minor', op: 'in', value: [5, 7] }],
      [{ field: 'seats', op: 'gte', value: 10 }],
      [{ field: 'seats', op: 'lt', value: 9 }],
      [{ field: 'vip', op: 'eq', value: true }],
      [{ field: 'name', op: 'contains', value: 'BETA' }],
      [{ field: 'name', op: 'gt', value: 'beta \uFFFD' }],
      [{ field: 'name', op: 'lte', value: 'Z' }],
      [{ field: 'description', op: 'contains', value: '0% _S' }],
      [{ field: 'probability', op: 'is_null' }],
      [{ field: 'lost_reason', op: 'is_null', value: false }],
      [{ field: 'expected_close_date', op: 'gte', value: '2027-01-01' }],
      [{ field: 'created_at', op: 'lt', value: '2020-01-01' }],
      [
        { field: 'source', op: 'eq', value: fair },
        { field: 'source', op: 'eq', value: 'fair' },
      ],
      [{ field: 'source_id', op: 'neq', value: fair }],
      [{ field: 'won_at', op: 'is_null' }],
      [{ field: 'amount_minor', op: 'between', value: [5, 49] }],
      [{ field: 'amount_minor', op: 'not_in', value: [5, 7] }],
      [{ field: 'seats', op: 'between', value: ['10', '100'] }],
      [{ field: 'name', op: 'starts_with', value: 'BETA' }],
      [{ field: 'description', op: 'ends_with', value: '_SURE_' }],
      [{ field: 'created_at', op: 'eq', value: { relative: 'last_2_days' } }],
      [{ field: 'expected_close_date', op: 'neq', value: { relative: 'last_month' } }],
      [{ field: 'expected_close_date', op: 'gt', value: { relative: 'last_3650_days' } }],
    ];
    const records = await walk(own.key, 'deals');
    for (const [kept, filter = kept] of conditions) {
      await askFor(own, 'deals', 'Proposal', { rules: [kept] });
      const listed = (await walk(own.key, 'deals', { filter: JSON.stringify(filter) })).map((each) => each.id);
      const passed: string[] = [];
      for (const { id, stage } of records) {
        const { status } = await call('POST', path(id), { key: own.key, body: { stage: 'Proposal' } });
        if (status !== 200) continue;
        passed.push(id);
        await database()`update deals set stage_id = ${await statusId(own, 'deals', stage)} where id = ${id}`;
      }
      expect({ kept, passed: passed.sort() }).toEqual({ kept, passed: listed.sort() });
    }
    // The rule sees the stage that the deal enters.
    const [any] = records;
    await askFor(own, 'deals', 'Proposal', { rules: [{ field: 'stage', op: 'eq', value: qualified }] });
    expect(await unmet(own.key, any.id, { stage: 'Proposal' })).toEqual(['stage RULE_FAILED']);
  });

  test('names the range or the relative date of a rule in the error', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', {
      rules: [
        { field: 'amount_minor', op: 'between', value: [10, 20] },
        { field: 'expected_close_date', op: 'lte', value: { relative: 'this_quarter' } },
      ],
    });
    const id = await newDeal(own.key, { expected_close_date: '2999-01-01' });
    const { fields } = (await move(422, own.key, id, { stage: 'Won' })).body.error.details;
    expect(fields.map((each: Json) => each.message)).toEqual([
      'amount_minor must be between 10 and 20.',
      'expected_close_date must be at most this_quarter.',
    ]);
  });

  test('requires all rules, but one of those under or, and names all of them in the error', async () => {
    const own = await newTenant();
    const or = [
      { kind: 'field', field: 'amount_minor', op: 'gte', value: 100 },
      { kind: 'activity', min_count: 1 },
    ];
    await askFor(own, 'deals', 'Won', { rules: [{ or }, { field: 'priority', op: 'lte', value: 2 }] });
    const id = await newDeal(own.key);
    expect(await unmet(own.key, id)).toEqual(['amount_minor RULE_FAILED', 'priority RULE_FAILED']);
    const { fields } = (await move(422, own.key, id, { stage: 'Won' })).body.error.details;
    expect(fields.map((each: Json) => each.message)).toEqual([
      'amount_minor must be at least 100, or activities must include at least 1; there are 0.',
      'priority must be at most 2.',
    ]);
    await patchRecord(own.key, 'deals', id, { priority: 1 });
    await log(own.key, id);
    await move(200, own.key, id, { stage: 'Won' });
    const other = await newDeal(own.key, { priority: 1 });
    await move(200, own.key, other, { stage: 'Won', fields: { amount_minor: 100 } });
  });

  test('counts activities of the type in the last days on the record itself', async () => {
    const own = await newTenant();
    const meeting = await activityTypeId(own, 'Meeting');
    const rules = [
      { kind: 'activity', activity_type: meeting, min_count: 2, within_days: 30 },
      { kind: 'activity', min_count: 4 },
    ];
    await askFor(own, 'deals', 'Won', { rules });
    const [id, other] = [await newDeal(own.key), await newDeal(own.key)];
    const ago = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
    const met = { activity_type: 'Meeting' };
    await log(own.key, id, { ...met, performed_at: ago(31) });
    await log(own.key, id, { ...met, performed_at: ago(29) });
    for (let index = 0; index < 4; index += 1) await log(own.key, other, met);
    await log(own.key, id);
    expect(await unmet(own.key, id)).toEqual(['activities RULE_FAILED', 'activities RULE_FAILED']);
    const { fields } = (await move(422, own.key, id, { stage: 'Won' })).body.error.details;
    expect(fields[0].message).toContain(
      'activities must include at least 2 of the type Meeting in the last 30 days; there are 1.',
    );
    await log(own.key, id, met);
    await move(200, own.key, id, { stage: 'Won' });
  });

  test('counts activities that the caller cannot see', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { rules: [{ kind: 'activity', min_count: 1 }] });
    const branchKey = await newKey(own, { reach: { kind: 'branch', id: own.branchId } });
    const id = await newDeal(branchKey);
    await log(own.key, id);
    await move(200, branchKey, id, { stage: 'Won' });
  });

  test('requires that no task is open, and accepts a record without tasks', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { rules: [{ kind: 'tasks_completed' }] });
    const id = await newDeal(own.key);
    const task = (status: string) =>
      createRecord(own.key, 'tasks', {
        title: 'T',
        scheduled_at: '2027-01-01',
        object: 'deals',
        record_id: id,
        status,
      });
    await move(200, own.key, id, { stage: 'Won' });
    await move(200, own.key, id, { stage: 'New' });
    await task('cancelled');
    const tasks = [await task('open'), await task('in_progress')];
    expect(await unmet(own.key, id)).toEqual(['tasks RULE_FAILED']);
    for (const { id: taskId } of tasks) await patchRecord(own.key, 'tasks', taskId, { status: 'completed' });
    await move(200, own.key, id, { stage: 'Won' });
  });

  test('requires attachments on the record', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { rules: [{ kind: 'attachment', min_count: 1 }] });
    const id = await newDeal(own.key);
    expect(await unmet(own.key, id)).toEqual(['attachments RULE_FAILED']);
    await expectStatus(201, 'POST', `/v1/objects/deals/records/${id}/attachments`, { key: own.key, ...fileForm() });
    await move(200, own.key, id, { stage: 'Won' });
  });

  test('counts activities and tasks of a lead for its statuses', async () => {
    const own = await newTenant();
    await askFor(own, 'leads', 'Qualified', {
      rules: [{ kind: 'activity', min_count: 1 }, { kind: 'tasks_completed' }],
    });
    const { id } = await createRecord(own.key, 'leads', lead());
    const body = { lead_status: 'Qualified' };
    const refused = await refusedFields(422, 'POST', `/v1/leads/${id}/status`, { key: own.key, body });
    expect(refused).toEqual(['activities RULE_FAILED']);
    await log(own.key, id, { entity_type: 'lead' });
    await expectStatus(200, 'POST', `/v1/leads/${id}/status`, { key: own.key, body });
  });
});

describe('every other way into a status', () => {
  test('checks preconditions in a PATCH, and none if the status stays', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'], rules: [{ kind: 'activity', min_count: 1 }] });
    const id = await newDeal(own.key);
    const change = (body: object) => refusedFields(422, 'PATCH', recordsPath('deals', id), { key: own.key, body });
    expect(await change({ stage: 'Won' })).toEqual(['amount_minor REQUIRED', 'activities RULE_FAILED']);
    await log(own.key, id);
    expect(await change({ stage: 'Won' })).toEqual(['amount_minor REQUIRED']);
    await patchRecord(own.key, 'deals', id, { stage: 'Won', amount_minor: 1 });
    expect((await patchRecord(own.key, 'deals', id, { amount_minor: null })).stage).toBe('Won');
  });

  test('checks preconditions when a record is created in a status, before anything belongs to it', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'], rules: [{ kind: 'tasks_completed' }] });
    await askFor(own, 'deals', 'Proposal', { rules: [{ kind: 'activity', min_count: 1 }] });
    const create = (body: object) =>
      refusedFields(422, 'POST', recordsPath('deals'), { key: own.key, body, idempotencyKey: true });
    expect(await create(deal({ stage: 'Won' }))).toEqual(['amount_minor REQUIRED']);
    expect(await create(deal({ stage: 'Proposal' }))).toEqual(['activities RULE_FAILED']);
    expect((await createRecord(own.key, 'deals', deal({ stage: 'Won', amount_minor: 1 }))).stage).toBe('Won');
  });

  test('fails only the batch items that violate preconditions, and ignores them in the duplicate check', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'] });
    await database()`update duplicate_checks set enabled = true, fields = '{name}' where company_id = ${own.companyId} and object = 'deals'`;
    const items = [deal({ stage: 'Won' }), deal({ stage: 'Won', amount_minor: 1 }), { name: 'Other' }];
    const { data } = (
      await expectStatus(200, 'POST', `${recordsPath('deals')}:batch`, {
        key: own.key,
        body: items,
        idempotencyKey: true,
      })
    ).body;
    expect(data.succeeded.map((item: Json) => item.index)).toEqual([1, 2]);
    expect(data.failed).toMatchObject([
      {
        index: 0,
        code: 'VALIDATION_ERROR',
        details: { reason: 'pre_conditions_not_met', fields: [{ field: 'amount_minor', code: 'REQUIRED' }] },
      },
    ]);
  });

  test('checks each item of a batch update by its own status and activities', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'], rules: [{ kind: 'activity', min_count: 1 }] });
    await askFor(own, 'deals', 'Proposal', { rules: [{ kind: 'activity', min_count: 2 }] });
    const [bare, ready, other] = [await newDeal(own.key), await newDeal(own.key), await newDeal(own.key)];
    await log(own.key, ready);
    await log(own.key, other);
    const records = [
      { id: bare, stage: 'Won' },
      { id: ready, stage: 'Won', amount_minor: 1 },
      { id: other, stage: 'Proposal' },
    ];
    const send = (status: number, body: object) =>
      expectStatus(status, 'POST', `${recordsPath('deals')}:batch-update`, {
        key: own.key,
        body,
        idempotencyKey: true,
      });
    const refusal = (index: number, ...fields: [string, string][]) => ({
      index,
      code: 'VALIDATION_ERROR',
      details: { reason: 'pre_conditions_not_met', fields: fields.map(([field, code]) => ({ field, code })) },
    });
    const failed = [
      refusal(0, ['amount_minor', 'REQUIRED'], ['activities', 'RULE_FAILED']),
      refusal(2, ['activities', 'RULE_FAILED']),
    ];
    const { details } = (await send(422, { records, atomic: true })).body.error;
    expect(details).toMatchObject({ reason: 'atomic_batch_failed', failed });
    expect((await readRecord(own.key, 'deals', ready)).stage).toBe('New');
    const { data } = (await send(200, { records })).body;
    expect(data.failed).toMatchObject(failed);
    expect(data.succeeded).toMatchObject([{ index: 1, record: { id: ready, stage: 'Won' } }]);
    expect((await readRecord(own.key, 'deals', bare)).stage).toBe('New');
    await log(own.key, other);
    expect((await send(200, { records: [records[2]] })).body.data.succeeded_count).toBe(1);
  });

  test('checks preconditions in upserts that create or update', async () => {
    const own = await newTenant();
    await askFor(own, 'deals', 'Won', { fields: ['amount_minor'] });
    const options = (record: object): CallOptions => ({
      key: own.key,
      body: { match_on: ['name'], record: deal(record) },
      idempotencyKey: true,
    });
    const upsertPath = `${recordsPath('deals')}:upsert`;
    const refused = async () => {
      const { details } = (await expectStatus(422, 'POST', upsertPath, options({ stage: 'Won' }))).body.error;
      expect(details).toMatchObject({
        reason: 'pre_conditions_not_met',
        fields: [{ field: 'record.amount_minor', code: 'REQUIRED' }],
      });
    };
    await refused();
    const { record } = (await expectStatus(201, 'POST', upsertPath, options({}))).body.data;
    await refused();
    expect((await readRecord(own.key, 'deals', record.id)).stage).toBe('New');
    const won = await expectStatus(200, 'POST', upsertPath, options({ stage: 'Won', amount_minor: 1 }));
    expect(won.body.data.record).toMatchObject({ id: record.id, stage: 'Won' });
  });

  test('checks preconditions in lead intake if it names the status, but not for the default status', async () => {
    const own = await newTenant();
    await setActive(own, 'leads', 'New', false);
    await askFor(own, 'leads', 'Contacted', {
      fields: ['inquiry_details', 'assigned_to'],
      rules: [{ kind: 'activity', min_count: 1 }],
    });
    const intake = { key: own.key, body: lead({ lead_status: 'Contacted' }) };
    const answer = await expectStatus(422, 'POST', '/v1/leads', intake);
    expect(answer.body.error.details.reason).toBe('pre_conditions_not_met');
    // Intake assigns the lead itself.
    expect(answer.body.error.details.fields.map((each: Json) => each.field)).toEqual(['inquiry_details', 'activities']);
    const started = await expectStatus(201, 'POST', '/v1/leads', { key: own.key, body: lead() });
    expect(started.body.data.lead.lead_status).toBe('Contacted');
    expect((await createRecord(own.key, 'leads', lead())).lead_status).toBe('Contacted');
    expect(await refusedFields(422, 'POST', recordsPath('leads'), { ...intake, idempotencyKey: true })).toHaveLength(3);
  });
});

test('stores rules by ids, so they apply after a rename', async () => {
  const own = await newTenant();
  const admin = { key: own.key };
  const source = await expectStatus(201, 'POST', '/v1/settings/sources', { ...admin, body: { name: 'Fair' } });
  const rules = [
    { kind: 'activity', activity_type: 'meeting', min_count: 1 },
    {
      or: [
        { field: 'source', op: 'eq', value: 'fair' },
        { kind: 'attachment', min_count: 1 },
      ],
    },
  ];
  const body = { name: 'Signed', outcome: 'won', pre_condition_fields: ['amount_minor'], pre_condition_rules: rules };
  await expectStatus(201, 'POST', '/v1/settings/statuses/deals', { ...admin, body });
  await expectStatus(200, 'PATCH', `/v1/settings/sources/${source.body.data.source.id}`, {
    ...admin,
    body: { name: 'Exhibition' },
  });
  const id = await newDeal(own.key);
  expect(await unmet(own.key, id, { stage: 'signed' })).toEqual([
    'amount_minor REQUIRED',
    'activities RULE_FAILED',
    'source RULE_FAILED',
  ]);
  const { fields } = (await move(422, own.key, id, { stage: 'signed' })).body.error.details;
  expect(fields[2].message).toContain('source must be Exhibition, or attachments');
  await log(own.key, id, { activity_type: 'Meeting' });
  const moved = await move(200, own.key, id, { stage: 'Signed', fields: { source: 'Exhibition', amount_minor: 1 } });
  expect(moved.body.data.deal.won_at).not.toBeNull();
});
