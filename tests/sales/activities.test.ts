// Activities: logging with its effects, changes, lists, and every reason for rejection.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { activityTypes } from '../../domain/onboarding/defaults.ts';
import { type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  leftBehind,
  listProblems,
  newCustomField,
  readRecord,
  recordsPath,
  refusedFields,
  lead as someLead,
} from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const path = '/v1/activities';
const newLead = async (key: string): Promise<string> => (await createRecord(key, 'leads', someLead())).id;
const onLead = (entityId: string, more: object = {}) => ({
  entity_type: 'lead',
  entity_id: entityId,
  activity_type: 'Call',
  summary: 'Called',
  ...more,
});
const post = (status: number, key: string, body: unknown, options: CallOptions = {}) =>
  expectStatus(status, 'POST', path, { key, body, ...options });
const log = async (key: string, body: object): Promise<Json> => (await post(201, key, body)).body.data.activity;
const patch = (status: number, key: string, id: string, body: unknown) =>
  expectStatus(status, 'PATCH', `${path}/${id}`, { key, body });
const list = async (key: string, query: Record<string, string | number> = {}): Promise<Json> =>
  (await expectStatus(200, 'GET', path, { key, query })).body.data;
const ids = (activities: Json[]): string[] => activities.map((activity) => activity.id);

let tenant: Tenant;
let key: string;
let lead: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  lead = await newLead(key);
});

describe('logging', () => {
  test('returns the activity and its lead, and writes one row, one audit row and one event', async () => {
    const on = await newLead(key);
    const body = onLead(on, {
      activity_type: ' cALL ',
      details: 'Twenty seats',
      performed_at: '2026-05-05T12:00:00+02:00',
      followup_at: '2036-01-01T00:00:00Z',
      duration_seconds: 420,
      outcome: 'Interested',
      metadata: { line: { number: [4] } },
    });
    const { activity, entity } = (await post(201, key, body)).body.data;
    expect(activity).toEqual({
      id: expect.any(String),
      entity_type: 'lead',
      entity_id: on,
      activity_type: 'Call',
      activity_type_id: expect.any(String),
      summary: 'Called',
      details: 'Twenty seats',
      performed_at: '2026-05-05T10:00:00.000Z',
      followup_at: '2036-01-01T00:00:00.000Z',
      duration_seconds: 420,
      outcome: 'Interested',
      created_by: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      test_mode: false,
      created_at: expect.any(String),
      updated_at: activity.created_at,
    });
    const contacted = { last_contacted_at: activity.performed_at, next_followup_at: activity.followup_at };
    expect(entity).toEqual({ type: 'lead', id: on, ...contacted });
    expect(await readRecord(key, 'leads', on)).toMatchObject(contacted);
    expect((await expectStatus(200, 'GET', `${path}/${activity.id}`, { key })).body.data.activity).toEqual(activity);
    const { audit, events } = await leftBehind(activity.id);
    expect(audit).toMatchObject([
      { action: 'activity.create', object: 'activities', metadata: { line: { number: [4] } } },
    ]);
    expect(events).toMatchObject([
      { event: 'record.created', data: { object: 'activities', occurred_at: activity.created_at } },
    ]);
  });

  test('reads and writes the same activity through the records API', async () => {
    const { id } = await log(key, onLead(lead, { duration_seconds: 7, outcome: 'Won over' }));
    const record = await readRecord(key, 'activities', id);
    expect(record).toMatchObject({ entity_id: lead, activity_type: 'Call', summary: 'Called' });
    expect(record).not.toHaveProperty('duration_seconds');
    await expectStatus(200, 'PATCH', recordsPath('activities', id), { key, body: { summary: 'Other' } });
    const byRecords = await createRecord(key, 'activities', onLead(lead));
    const read = async (of: string) => (await expectStatus(200, 'GET', `${path}/${of}`, { key })).body.data.activity;
    expect(await read(id)).toMatchObject({ summary: 'Other', duration_seconds: 7, outcome: 'Won over' });
    expect(await read(byRecords.id)).toMatchObject({ duration_seconds: null, created_by: { name: 'Test key' } });
    await expectStatus(200, 'DELETE', recordsPath('activities', id), { key });
    await expectStatus(404, 'GET', `${path}/${id}`, { key });
  });

  test('defaults performed_at to now, never moves last_contacted_at back, and moves deals like leads', async () => {
    const deal = (await createRecord(key, 'deals', { name: 'D' })).id;
    const onDeal = { ...onLead(deal), entity_type: 'deal' };
    const { activity, entity } = (await post(201, key, onDeal)).body.data;
    expect(activity.performed_at).toBe(activity.created_at);
    expect(entity).toMatchObject({ type: 'deal', last_contacted_at: activity.performed_at, next_followup_at: null });
    const earlier = (await post(201, key, { ...onDeal, performed_at: '2020-01-01T00:00:00Z' })).body.data;
    expect(earlier.entity).toEqual(entity);
  });

  test('moves the lead for activities of every type, including notes', async () => {
    for (const activity_type of activityTypes) {
      const on = onLead(await newLead(key), { activity_type, followup_at: '2036-01-01T00:00:00Z' });
      const { activity, entity } = (await post(201, key, on)).body.data;
      expect([activity_type, entity.last_contacted_at]).toEqual([activity_type, activity.performed_at]);
      expect(entity.next_followup_at).toBe('2036-01-01T00:00:00.000Z');
    }
  });

  test.each([
    ['customer', 'customers', { first_name: 'Sara' }],
    ['account', 'accounts', { name: 'Blue Lake' }],
  ])('of type %s moves its last_contacted_at and nothing else, and is a change of it', async (type, object, fields) => {
    const { id } = await createRecord(key, object, fields);
    const body = {
      ...onLead(id),
      entity_type: type,
      performed_at: '2026-05-05T10:00:00Z',
      followup_at: '2036-01-01T00:00:00Z',
    };
    const { activity, entity } = (await post(201, key, body)).body.data;
    expect(activity).toMatchObject({ entity_type: type, entity_id: id, followup_at: '2036-01-01T00:00:00.000Z' });
    const contacted = '2026-05-05T10:00:00.000Z';
    expect(entity).toEqual({ type, id, last_contacted_at: contacted, next_followup_at: null });
    expect((await readRecord(key, object, id)).last_contacted_at).toBe(contacted);
    const { audit, events } = await leftBehind(id);
    expect(audit.at(-1)).toMatchObject({
      action: `${type}.update`,
      changes: { last_contacted_at: { from: null, to: contacted } },
    });
    expect(events.at(-1)).toMatchObject({
      event: 'record.updated',
      data: { object, changed_fields: ['last_contacted_at'] },
    });
    // An earlier contact and a change of the follow-up leave it as it is.
    await log(key, { ...body, performed_at: '2026-05-04T10:00:00Z' });
    await patch(200, key, activity.id, { followup_at: null });
    expect((await leftBehind(id)).audit).toHaveLength(audit.length);
    await patch(200, key, activity.id, { performed_at: '2026-05-06T10:00:00Z' });
    expect((await readRecord(key, object, id)).last_contacted_at).toBe('2026-05-06T10:00:00.000Z');
    expect(ids((await list(key, { entity_type: type, entity_id: id })).activities)[0]).toBe(activity.id);
    await expectStatus(200, 'DELETE', recordsPath('activities', activity.id), { key });
    expect((await readRecord(key, object, id)).last_contacted_at).toBe('2026-05-06T10:00:00.000Z');
  });

  test('on a customer or an account that is not there or of another object is 404', async () => {
    const account = (await createRecord(key, 'accounts', { name: 'Blue Lake' })).id;
    await post(404, key, { ...onLead(account), entity_type: 'customer' });
    await post(404, key, { ...onLead(randomUUID()), entity_type: 'account' });
    await post(404, (await newTenant()).key, { ...onLead(account), entity_type: 'account' });
  });

  test('on a customer, applies the conditions of its tags again', async () => {
    const own = await newTenant();
    const condition = { field: 'last_contacted_at', operator: 'is_null', value: false };
    const tag = { name: 'Contacted', fields: ['last_contacted_at'], conditions: [condition] };
    await expectStatus(201, 'POST', '/v1/settings/tags/customers', { key: own.key, body: tag });
    const { id } = await createRecord(own.key, 'customers', { first_name: 'Sara' });
    const tags = async (): Promise<string[]> =>
      (await expectStatus(200, 'GET', `${recordsPath('customers', id)}/tags`, { key: own.key })).body.data.tags.map(
        (each: Json) => each.name,
      );
    expect(await tags()).toEqual([]);
    await log(own.key, { ...onLead(id), entity_type: 'customer' });
    expect(await tags()).toEqual(['Contacted']);
  });

  test.each(['customer', 'account'])('of type %s is deleted and restored together with it', async (type) => {
    const object = `${type}s`;
    const { id } = await createRecord(key, object, type === 'customer' ? { first_name: 'Ida' } : { name: 'Ida & Co' });
    const activity = await log(key, { ...onLead(id), entity_type: type });
    await expectStatus(200, 'DELETE', recordsPath(object, id), { key });
    expect((await list(key, { entity_id: id })).activities).toEqual([]);
    await expectStatus(200, 'POST', `/v1/objects/${object}/deleted-records/${id}/restore`, { key });
    expect(ids((await list(key, { entity_id: id })).activities)).toEqual([activity.id]);
  });

  test('logs an activity once per key, and replays the first response byte for byte', async () => {
    const on = await newLead(key);
    const idempotencyKey = randomUUID();
    const first = await post(201, key, onLead(on), { idempotencyKey });
    const again = await post(201, key, onLead(on), { idempotencyKey });
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotent-replay')).toBe('true');
    const other = await post(422, key, onLead(on, { summary: 'Other' }), { idempotencyKey });
    expect(other.body.error.code).toBe('IDEMPOTENCY_CONFLICT');
    expect((await list(key, { entity_id: on })).activities).toHaveLength(1);
  });

  test('accepts legacy scopes to log and change activities', async () => {
    const writer = await newKey(tenant, { scopes: ['activities:write', 'activities:update', 'activities:read'] });
    const { id } = await log(writer, onLead(lead));
    await patch(200, writer, id, { summary: 'Changed' });
    expect(ids((await list(writer, { limit: 1 })).activities)).toHaveLength(1);
  });
});

describe('rejected activities', () => {
  test.each<[string, number, string, (on: string) => object, string[]]>([
    [
      'nothing',
      400,
      'MISSING_REQUIRED_FIELD',
      () => ({}),
      ['summary REQUIRED', 'activity_type REQUIRED', 'entity_type REQUIRED', 'entity_id REQUIRED'],
    ],
    [
      'neither summary nor details',
      400,
      'MISSING_REQUIRED_FIELD',
      (on) => ({ ...onLead(on), summary: ' ' }),
      ['summary REQUIRED'],
    ],
    [
      'malformed id and times',
      400,
      'INVALID_FIELD_FORMAT',
      () => onLead('x', { performed_at: 'noon', followup_at: '2036-02-30T00:00:00Z' }),
      ['entity_id INVALID_FORMAT', 'followup_at INVALID_FORMAT', 'performed_at INVALID_FORMAT'],
    ],
    [
      'problems of two kinds',
      400,
      'VALIDATION_ERROR',
      (on) => ({ ...onLead(on), activity_type: undefined, performed_at: 'noon' }),
      ['activity_type REQUIRED', 'performed_at INVALID_FORMAT'],
    ],
    [
      'another kind of entity',
      400,
      'VALIDATION_ERROR',
      (on) => ({ ...onLead(on), entity_type: 'task' }),
      ['entity_type INVALID_OPTION'],
    ],
    [
      'a text that is too long',
      400,
      'VALIDATION_ERROR',
      (on) => onLead(on, { summary: 'x'.repeat(256) }),
      ['summary TOO_LONG'],
    ],
    [
      'details that are too long',
      400,
      'VALIDATION_ERROR',
      (on) => onLead(on, { details: 'x'.repeat(10_001) }),
      ['details TOO_LONG'],
    ],
    [
      'a day and a second',
      400,
      'VALIDATION_ERROR',
      (on) => onLead(on, { duration_seconds: 86_401, outcome: 'x'.repeat(101) }),
      ['duration_seconds OUT_OF_RANGE', 'outcome TOO_LONG'],
    ],
    [
      'the future',
      400,
      'VALIDATION_ERROR',
      (on) => onLead(on, { performed_at: new Date(Date.now() + 330_000).toISOString() }),
      ['performed_at OUT_OF_RANGE'],
    ],
    [
      'a follow-up that is not after it',
      400,
      'VALIDATION_ERROR',
      (on) => onLead(on, { performed_at: '2026-05-05T10:00:00Z', followup_at: '2026-05-05T10:00:00Z' }),
      ['followup_at OUT_OF_RANGE'],
    ],
    [
      'an unknown type',
      422,
      'VALIDATION_ERROR',
      (on) => onLead(on, { activity_type: 'Telepathy' }),
      ['activity_type INVALID_OPTION'],
    ],
    [
      'a wrong JSON type',
      422,
      'VALIDATION_ERROR',
      (on) => onLead(on, { summary: 1, details: 'x', duration_seconds: '7' }),
      ['duration_seconds INVALID_TYPE', 'summary INVALID_TYPE'],
    ],
    [
      'fields that are unknown or read-only',
      422,
      'VALIDATION_ERROR',
      (on) => onLead(on, { colour: 1, id: 'x', created_by: 'x' }),
      ['colour UNKNOWN_FIELD', 'created_by READ_ONLY', 'id READ_ONLY'],
    ],
  ])('rejects an activity with %s as %i %s, and reports all problems', async (_, status, code, body, problems) => {
    const answer = await post(status, key, body(lead));
    expect(answer.body.error.code).toBe(code);
    expect(listProblems(answer.body.error).sort()).toEqual(problems.sort());
  });

  test("lists the active types if the activity's type is disabled", async () => {
    const own = await newTenant();
    await database()`update activity_types set is_active = false where company_id = ${own.companyId} and name <> 'Email'`;
    const answer = await post(422, own.key, onLead(await newLead(own.key)));
    expect(answer.body.error.details.fields[0]).toMatchObject({ code: 'INVALID_OPTION', allowed: ['Email'] });
  });

  test('returns 404 for a lead that is foreign, of the other mode, deleted or a deal, and stores nothing', async () => {
    const other = await newTenant();
    const gone = await newLead(key);
    await expectStatus(200, 'DELETE', recordsPath('leads', gone), { key });
    const deal = (await createRecord(key, 'deals', { name: 'D' })).id;
    for (const id of [uuidv7(), gone, deal, await newLead(other.key), await newLead(tenant.testKey)]) {
      const { body } = await post(404, key, onLead(id));
      expect(body.error).toEqual({ code: 'NOT_FOUND', message: 'There is no such resource.' });
    }
    expect(await database()`select from activities where company_id = ${other.companyId}`).toHaveLength(0);
  });

  test("requires the workspace's mandatory fields, and rejects its disabled ones", async () => {
    const own = await newTenant();
    const on = await newLead(own.key);
    await database()`
      insert into field_overrides (company_id, object, name, required, enabled, updated_at)
      values (${own.companyId}, 'activities', 'followup_at', true, null, now()), (${own.companyId}, 'activities', 'details', null, false, now())`;
    await newCustomField(own, 'activities', 'mood', { required: true });
    const missed = await post(400, own.key, onLead(on));
    expect([missed.body.error.code, listProblems(missed.body.error)]).toEqual([
      'MISSING_REQUIRED_FIELD',
      ['followup_at REQUIRED'],
    ]);
    const unknown = await post(422, own.key, onLead(on, { details: 'x', followup_at: '2036-01-01T00:00:00Z' }));
    expect(listProblems(unknown.body.error)).toEqual(['details UNKNOWN_FIELD']);
    expect(await log(own.key, onLead(on, { followup_at: '2036-01-01T00:00:00Z' }))).toMatchObject({ details: null });
  });
});

describe('changing', () => {
  test('changes only the sent fields of an activity, and names them in audit row and event', async () => {
    const before = await log(key, onLead(lead, { details: 'Old', outcome: 'Open' }));
    const { activity } = (await patch(200, key, before.id, { details: 'New', activity_type: 'meeting' })).body.data;
    expect(activity).toEqual({
      ...before,
      details: 'New',
      activity_type: 'Meeting',
      activity_type_id: expect.not.stringMatching(before.activity_type_id),
      updated_at: expect.any(String),
    });
    const { audit, events } = await leftBehind(before.id);
    expect(audit[1]).toMatchObject({
      action: 'activity.update',
      changes: { details: { from: 'Old', to: 'New' }, activity_type: { from: 'Call', to: 'Meeting' } },
    });
    expect(events[1]).toMatchObject({
      event: 'record.updated',
      data: { changed_fields: ['activity_type', 'details'] },
    });
    const same = await patch(200, key, before.id, { details: 'New' });
    expect(same.body.data.activity).toEqual(activity);
    expect((await leftBehind(before.id)).audit).toHaveLength(2);
  });

  test('updates the lead of a changed activity, and falls back to the earliest remaining follow-up', async () => {
    const on = await newLead(key);
    const next = async () => (await readRecord(key, 'leads', on)).next_followup_at;
    const first = await log(
      key,
      onLead(on, { performed_at: '2026-05-05T10:00:00Z', followup_at: '2037-01-01T00:00:00Z' }),
    );
    const second = await log(
      key,
      onLead(on, { performed_at: '2026-05-05T10:00:00Z', followup_at: '2036-01-01T00:00:00Z' }),
    );
    await patch(200, key, first.id, { followup_at: '2038-01-01T00:00:00Z' });
    expect(await next()).toBe('2038-01-01T00:00:00.000Z');
    const cleared = await patch(200, key, first.id, { followup_at: null });
    expect(cleared.body.data.activity.followup_at).toBeNull();
    expect(await next()).toBe('2036-01-01T00:00:00.000Z');
    await patch(200, key, second.id, { followup_at: null });
    expect(await next()).toBeNull();
    await patch(200, key, first.id, { performed_at: '2026-06-06T10:00:00Z' });
    expect((await readRecord(key, 'leads', on)).last_contacted_at).toBe('2026-06-06T10:00:00.000Z');
  });

  test.each<[string, number, string, object, string[]]>([
    ['nothing', 400, 'VALIDATION_ERROR', {}, [' REQUIRED']],
    ['a malformed time', 400, 'INVALID_FIELD_FORMAT', { performed_at: 'noon' }, ['performed_at INVALID_FORMAT']],
    ['no time at all', 400, 'MISSING_REQUIRED_FIELD', { performed_at: null }, ['performed_at REQUIRED']],
    ['an empty text', 400, 'VALIDATION_ERROR', { details: '' }, ['details TOO_SHORT']],
    ['the last text', 400, 'MISSING_REQUIRED_FIELD', { summary: ' ' }, ['summary REQUIRED']],
    [
      'a past follow-up',
      400,
      'VALIDATION_ERROR',
      { followup_at: '2000-01-01T00:00:00Z' },
      ['followup_at OUT_OF_RANGE'],
    ],
    ['an unknown type', 422, 'VALIDATION_ERROR', { activity_type: 'Telepathy' }, ['activity_type INVALID_OPTION']],
    ['no type', 422, 'VALIDATION_ERROR', { details: null }, ['details INVALID_TYPE']],
    [
      'another lead',
      422,
      'VALIDATION_ERROR',
      { entity_id: 'x', entity_type: 'deal' },
      ['entity_id IMMUTABLE', 'entity_type IMMUTABLE'],
    ],
    [
      'what is read-only',
      422,
      'VALIDATION_ERROR',
      { id: 'x', test_mode: true },
      ['id READ_ONLY', 'test_mode READ_ONLY'],
    ],
    ['an unknown field', 422, 'VALIDATION_ERROR', { summary: 'x', colour: 1 }, ['colour UNKNOWN_FIELD']],
  ])('rejects a change to %s with %i %s', async (_, status, code, body, problems) => {
    const { id } = await log(key, onLead(lead));
    const answer = await patch(status, key, id, body);
    expect(answer.body.error.code).toBe(code);
    expect(listProblems(answer.body.error).sort()).toEqual(problems);
    expect((await leftBehind(id)).audit).toHaveLength(1);
  });
});

test.each([
  ['PATCH', path],
  ['PATCH', recordsPath('activities')],
  ['DELETE', recordsPath('activities')],
])('waits in %s %s/{id} for a lead that is being deleted, without blocking the deletion', async (method, where) => {
  const on = await newLead(key);
  const { id } = await log(key, onLead(on));
  const held = await database().reserve();
  await held`begin`;
  await held`set local lock_timeout = '1s'`;
  await held`delete from leads where company_id = ${tenant.companyId} and id = ${on}`;
  const asked = call(method, `${where}/${id}`, { key, ...(method === 'PATCH' ? { body: { summary: 'x' } } : {}) });
  try {
    await vi.waitUntil(
      async () =>
        (await held`select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))`).length > 0,
    );
    await held`delete from activities where company_id = ${tenant.companyId} and id = ${id}`;
    await held`commit`;
  } finally {
    await held`rollback`;
    held.release();
  }
  expect((await asked).status).toBe(404);
});

describe('the list', () => {
  test('sorts activities by performed_at and id, newest first, and applies each filter', async () => {
    const own = await newTenant();
    const other = await newKey(own);
    const [a, b] = [await newLead(own.key), await newLead(own.key)];
    const deal = (await createRecord(own.key, 'deals', { name: 'D' })).id;
    const at = (day: number) => ({ performed_at: `2026-05-0${day}T10:00:00Z` });
    const one = await log(own.key, onLead(a, at(1)));
    const three = await log(own.key, onLead(b, { ...at(3), activity_type: 'Email' }));
    const two = await log(other, { ...onLead(deal, at(2)), entity_type: 'deal' });
    const twoToo = await log(own.key, onLead(a, at(2)));
    const findIds = async (query: Record<string, string>) => ids((await list(own.key, query)).activities);
    const all = [three.id, twoToo.id, two.id, one.id];
    expect(await findIds({})).toEqual(all);
    expect(await findIds({ entity_type: 'deal' })).toEqual([two.id]);
    expect(await findIds({ entity_id: a.toUpperCase() })).toEqual([twoToo.id, one.id]);
    expect(await findIds({ entity_id: a, entity_type: 'deal' })).toEqual([]);
    expect(await findIds({ activity_type: 'eMAIL' })).toEqual([three.id]);
    expect(await findIds({ performed_from: two.performed_at })).toEqual(all.slice(0, 3));
    expect(await findIds({ performed_to: '2026-05-02T12:00:00.000+02:00' })).toEqual(all.slice(1));
    expect(await findIds({ performed_from: two.performed_at, performed_to: two.performed_at })).toEqual(
      all.slice(1, 3),
    );
    expect(await findIds({ created_by: two.created_by.id })).toEqual([two.id]);
    expect(await findIds({ created_by: 'nobody' })).toEqual([]);
    await database()`update activity_types set is_active = false where company_id = ${own.companyId} and name = 'Email'`;
    expect(await findIds({ activity_type: 'Email' })).toEqual([three.id]);
  });

  test('rejects impossible filters, and cursors of other queries', async () => {
    await log(key, onLead(lead));
    await log(key, onLead(lead));
    const refused = (query: Record<string, string>) => refusedFields(400, 'GET', path, { key, query });
    const window = { performed_from: '2026-05-02T00:00:00Z', performed_to: '2026-05-01T00:00:00Z' };
    expect(await refused({ activity_type: 'Telepathy', ...window })).toEqual([
      'activity_type INVALID_OPTION',
      'performed_to OUT_OF_RANGE',
    ]);
    expect(
      (await refused({ entity_type: 'x', entity_id: 'x', performed_from: 'x', offset: '-1', limit: 'x' })).sort(),
    ).toEqual([
      'entity_id INVALID_FORMAT',
      'entity_type INVALID_OPTION',
      'limit INVALID_TYPE',
      'offset OUT_OF_RANGE',
      'performed_from INVALID_FORMAT',
    ]);
    const { next_cursor: cursor } = await list(key, { limit: 1 });
    expect(await refused({ cursor, entity_type: 'lead' })).toEqual(['cursor INVALID_FORMAT']);
    expect(await refused({ cursor: `${cursor}x` })).toEqual(['cursor INVALID_FORMAT']);
    expect(await refused({ cursor, offset: '0' })).toEqual(['offset CONFLICTING_FIELDS']);
  });

  test('returns the total and the next cursor of a list by offset, and an empty page past the end', async () => {
    const own = await newTenant();
    const on = await newLead(own.key);
    const logged = await createRecords(
      own.key,
      'activities',
      Array.from({ length: 7 }, () => onLead(on)),
    );
    const order = ids((await list(own.key)).activities);
    expect(order).toEqual(ids(logged).reverse());
    const second = await list(own.key, { limit: 3, offset: 3 });
    expect(ids(second.activities)).toEqual(order.slice(3, 6));
    expect(second).toMatchObject({ has_more: true, pagination: { limit: 3, offset: 3, total: 7 } });
    const rest = await list(own.key, { limit: 3, cursor: second.next_cursor });
    expect(ids(rest.activities)).toEqual(order.slice(6));
    expect(rest).not.toHaveProperty('pagination');
    const filtered = await list(own.key, { offset: 0, limit: 1000, entity_type: 'deal' });
    expect(filtered).toEqual({
      activities: [],
      next_cursor: null,
      has_more: false,
      pagination: { limit: 100, offset: 0, total: 0 },
    });
    expect(await list(own.key, { offset: 2147483647 })).toMatchObject({ activities: [], pagination: { total: 7 } });
  });

  test('repeats and skips nothing in walks by cursor or offset under concurrent inserts and deletes', async () => {
    const own = await newTenant();
    const on = await newLead(own.key);
    const at = (index: number) => ({ performed_at: new Date(Date.UTC(2026, 4, 1, 0, index % 20)).toISOString() });
    const created = await createRecords(
      own.key,
      'activities',
      Array.from({ length: 100 }, (_, index) => onLead(on, at(index))),
    );
    const leaving = new Set(ids(created.filter((_, index) => index % 4 === 0)));
    const staying = ids(created).filter((id) => !leaving.has(id));
    const toDelete = [...leaving];
    let done = false;
    const disturb = async () => {
      for (let index = 0; !done; index += 1) {
        await log(own.key, onLead(on, at(index)));
        const id = toDelete.pop();
        if (id) await expectStatus(200, 'DELETE', recordsPath('activities', id), { key: own.key });
      }
    };
    const disturbing = disturb();
    const forms: Record<string, number>[] = [{}, { offset: 0 }, {}, { offset: 0 }];
    for (const start of forms) {
      let data = await list(own.key, { limit: 7, ...start });
      const seen = ids(data.activities);
      while (data.has_more) {
        data = await list(own.key, { limit: 7, cursor: data.next_cursor });
        seen.push(...ids(data.activities));
      }
      expect(new Set(seen).size).toBe(seen.length);
      expect(staying.filter((id) => !seen.includes(id))).toEqual([]);
    }
    done = true;
    await disturbing;
    // Nothing changes now, so pages by offset add up to the same list.
    const [all, paged] = [[] as string[], [] as string[]];
    for (
      let data = await list(own.key, { limit: 100 });
      ;
      data = await list(own.key, { limit: 100, cursor: data.next_cursor })
    ) {
      all.push(...ids(data.activities));
      if (!data.has_more) break;
    }
    for (let offset = 0; offset < all.length; offset += 50)
      paged.push(...ids((await list(own.key, { limit: 50, offset })).activities));
    expect(paged).toEqual(all);
  });
});

describe('visibility of activities', () => {
  test('separates live and test activities, and those of tenants', async () => {
    const own = await newTenant();
    const live = await log(own.key, onLead(await newLead(own.key)));
    const testing = await log(own.testKey, onLead(await newLead(own.testKey)));
    expect([live.test_mode, testing.test_mode]).toEqual([false, true]);
    expect(ids((await list(own.key)).activities)).toEqual([live.id]);
    expect(ids((await list(own.testKey)).activities)).toEqual([testing.id]);
    expect(ids((await list(key, { entity_id: live.entity_id })).activities)).toEqual([]);
    for (const [caller, id] of [
      [own.key, testing.id],
      [own.testKey, live.id],
      [key, live.id],
    ] as const) {
      await expectStatus(404, 'GET', `${path}/${id}`, { key: caller });
      await patch(404, caller, id, { summary: 'x' });
    }
  });

  test('limits keys of a branch or team to activities by them or their users, and to their visible records', async () => {
    const own = await newTenant();
    const sql = database();
    const [north, team] = [randomUUID(), randomUUID()];
    await sql`insert into branches (company_id, id, name, created_at) values (${own.companyId}, ${north}, 'North', now())`;
    await sql`insert into teams (company_id, id, branch_id, name, created_at) values (${own.companyId}, ${team}, ${north}, 'Team', now())`;
    const [inNorth, inTeam] = [await newUser(own, { branchId: north }), await newUser(own)];
    await sql`update users set team_id = ${team} where id = ${inTeam.id}`;
    const northKey = await newKey(own, { reach: { kind: 'branch', id: north } });
    const teamKey = await newKey(own, { reach: { kind: 'team', id: team } });
    const [hidden, northern, ofTeam] = await Promise.all(
      [null, inNorth.id, inTeam.id].map(async (assignee) => {
        const id = await newLead(own.key);
        await sql`update leads set assigned_to = ${assignee} where id = ${id}`;
        return id;
      }),
    );
    await post(404, northKey, onLead(hidden as string));
    await post(404, northKey, onLead(ofTeam as string));
    const byKey = await log(northKey, onLead(northern as string));
    const byUser = await log(own.key, onLead(northern as string));
    await sql`
      update activities set created_by_kind = 'user', created_by_id = ${inNorth.id}, created_by_user = ${inNorth.id} where id = ${byUser.id}`;
    const byOther = await log(own.key, onLead(northern as string));
    const byTeam = await log(teamKey, onLead(ofTeam as string));
    expect(ids((await list(northKey, { offset: 0 })).activities)).toEqual([byUser.id, byKey.id]);
    expect((await list(northKey, { offset: 0 })).pagination.total).toBe(2);
    expect(ids((await list(teamKey)).activities)).toEqual([byTeam.id]);
    await patch(200, northKey, byUser.id, { summary: 'x' });
    for (const id of [byOther.id, byTeam.id]) {
      await expectStatus(404, 'GET', `${path}/${id}`, { key: northKey });
      await patch(404, northKey, id, { summary: 'x' });
    }
    expect((await list(own.key)).activities).toHaveLength(4);
  });
});
