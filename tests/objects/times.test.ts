// Dates and times: every spelling, and the same spellings in every input of the API.
import { beforeAll, describe, expect, test } from 'vitest';
import { readDay, readTime } from '../../domain/objects/times.ts';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, recordsPath } from '../support/records.ts';
import { adminToken } from '../support/sessions.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

describe('the time parser', () => {
  test.each([
    ['2036-01-01', '2036-01-01T00:00:00.000Z'],
    ['2036-01-01T10:00Z', '2036-01-01T10:00:00.000Z'],
    ['2036-01-01T10:00:00+0200', '2036-01-01T08:00:00.000Z'],
    ['2036-01-01T10:00:00-01:30', '2036-01-01T11:30:00.000Z'],
    [' 2036-01-01t10:00:00.1z ', '2036-01-01T10:00:00.100Z'],
    ['2036-01-01 10:00:00.123456789Z', '2036-01-01T10:00:00.123Z'],
    ['2036-02-29T00:00:00+15:59', '2036-02-28T08:01:00.000Z'],
    ['0001-01-01', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
    ['0001-01-01T00:00:00+00:01', 'out of range'],
    ['9999-12-31T23:59:59-00:01', 'out of range'],
  ])('parses the time %j as %j', (text, time) => expect(readTime(text)).toBe(time));

  test.each([
    '2036-01-01T10:00:00',
    '2036-01-01T10Z',
    '2036-01-01T24:00Z',
    '2036-01-01T10:60Z',
    '2036-01-01T10:00:60Z',
    '2036-01-01T10:00:00.Z',
    '2036-01-01T10:00:00+02',
    '2036-01-01T10:00:00+16:00',
    '2036-01-01T10:00:00-16:00',
    '2036-01-01T10:00:00-23:59',
    '2036-01-01T10:00:00+02:60',
    '2035-02-29T10:00Z',
    '2036-04-31',
    '2036-13-01',
    '0000-01-01',
    '+002036-01-01T10:00Z',
    '2036-01-01T10:00Z\n2036-01-02',
    'tomorrow',
    '',
  ])('rejects the time %j', (text) => expect(readTime(text)).toBeUndefined());

  test('reads a bare date as the start or the end of its day', () => {
    expect(readTime('2036-02-29', 'end')).toBe('2036-02-29T23:59:59.999Z');
    expect(readTime('2036-02-29T10:00Z', 'end')).toBe('2036-02-29T10:00:00.000Z');
    expect([readDay(' 2036-02-29 '), readDay('2035-02-29'), readDay('2036-02-29T10:00Z')]).toEqual([
      '2036-02-29',
      undefined,
      undefined,
    ]);
  });
});

let tenant: Tenant;
let token: string;
let lead: string;

beforeAll(async () => {
  tenant = await newTenant();
  token = await adminToken(tenant);
  lead = (await createRecord(tenant.key, 'leads', { first_name: 'Sara', email: 'sara@example.com' })).id;
});

const activity = () => ({ entity_type: 'lead', entity_id: lead, activity_type: 'Call', summary: 'Called' });
const answered = (name: string) => (body: Json) => body.data[name];

/** Every field and parameter that is a time: how to send it, and where the response returns it. */
const inputs: Record<string, { send: (time: string) => Promise<Json>; shown?: (body: Json) => string }> = {
  'scheduled_at of a task as a record': {
    send: (time) => post(recordsPath('tasks'), { title: 'Call', scheduled_at: time }),
    shown: (body) => answered('record')(body).scheduled_at,
  },
  'scheduled_at of a task on a record': {
    send: (time) => post(`${recordsPath('leads', lead)}/tasks`, { title: 'Call', scheduled_at: time }),
    shown: (body) => answered('task')(body).scheduled_at,
  },
  'followup_at of an activity': {
    send: (time) => post('/v1/activities', { ...activity(), followup_at: time }),
    shown: (body) => answered('activity')(body).followup_at,
  },
  'expires_at of a key': {
    send: (time) =>
      call('POST', '/v1/api-keys', { token, body: { name: 'Forms', scopes: ['leads:view'], expires_at: time } }),
    shown: (body) => answered('api_key')(body).expires_at,
  },
  'performed_from of activities': { send: (time) => list({ performed_from: time }) },
  'performed_to of activities': { send: (time) => list({ performed_to: time }) },
  'a filter of records': {
    send: (value) =>
      call('GET', recordsPath('tasks'), {
        key: tenant.key,
        query: { filter: JSON.stringify({ field: 'scheduled_at', op: 'gt', value }) },
      }),
  },
  'from of a report': { send: (time) => post('/v1/reports/query', { object: 'leads', from: time }) },
  'to of a report': { send: (time) => post('/v1/reports/query', { object: 'leads', to: time }) },
};

const post = (path: string, body: object) => call('POST', path, { key: tenant.key, body, idempotencyKey: true });
const list = (query: Record<string, string>) => call('GET', '/v1/activities', { key: tenant.key, query });

describe.each(Object.entries(inputs))('%s', (_, { send, shown }) => {
  test.each([
    ['2036-01-01', '2036-01-01T00:00:00.000Z'],
    ['2036-01-01T10:00Z', '2036-01-01T10:00:00.000Z'],
    ['2036-01-01T10:00:00+0200', '2036-01-01T08:00:00.000Z'],
    ['2036-01-01 10:00:00.123456+02:00', '2036-01-01T08:00:00.123Z'],
  ])('accepts %s', async (time, utc) => {
    const answer = await send(time);
    expect([answer.status, answer.body.error]).toEqual([expect.toSatisfy((status) => status < 300), undefined]);
    if (shown) expect(shown(answer.body)).toBe(utc);
  });

  test.each(['2036-01-01T10:00:00', '2036-02-30T10:00Z', '2036-01-01T10:00:00+16:00', 'tomorrow'])(
    'rejects %s',
    async (time) => {
      const answer = await send(time);
      expect([answer.status, answer.body.error.details.fields.map((each: Json) => each.code)]).toEqual([
        expect.toSatisfy((status) => status === 400 || status === 422),
        ['INVALID_FORMAT'],
      ]);
    },
  );
});

test('accepts every spelling of performed_at, and includes the last day in a list bounded by days', async () => {
  for (const performed_at of ['2026-05-05', '2026-05-05T10:00Z', '2026-05-05T14:00:00+0200', '2026-05-06T00:00Z'])
    expect((await post('/v1/activities', { ...activity(), performed_at })).status).toBe(201);
  const { body } = await list({ performed_from: '2026-05-05', performed_to: '2026-05-05' });
  expect(body.data.activities.map((each: Json) => each.performed_at)).toEqual([
    '2026-05-05T12:00:00.000Z',
    '2026-05-05T10:00:00.000Z',
    '2026-05-05T00:00:00.000Z',
  ]);
});

test('treats two spellings of one time as the same call under an Idempotency-Key', async () => {
  const idempotencyKey = 'times-of-one-call';
  const path = `${recordsPath('leads', lead)}/tasks`;
  const send = (scheduled_at: string) =>
    expectStatus(201, 'POST', path, { key: tenant.key, body: { title: 'Call', scheduled_at }, idempotencyKey });
  const first = await send('2036-01-01T10:00Z');
  expect((await send('2036-01-01T12:00:00+0200')).text).toBe(first.text);
});
