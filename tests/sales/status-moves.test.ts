// Status moves of deals and leads: atomic, in one order under concurrency, with every error.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  leftBehind,
  newCustomField,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { setActive, statusId, type WithStatuses } from '../support/statuses.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

interface Kind {
  object: WithStatuses;
  /** The field with the name of the status. */
  field: 'stage' | 'lead_status';
  /** The record and the status in the response. */
  record: 'deal' | 'lead';
  status: 'stage' | 'status';
  path(id: string): string;
}

const deals: Kind = {
  object: 'deals',
  field: 'stage',
  record: 'deal',
  status: 'stage',
  path: (id) => `/v1/deals/${id}/stage`,
};
const leads: Kind = {
  object: 'leads',
  field: 'lead_status',
  record: 'lead',
  status: 'status',
  path: (id) => `/v1/leads/${id}/status`,
};

let tenant: Tenant;
let key: string;

beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const newOne = async (kind: Kind, of = key): Promise<string> =>
  (
    await createRecord(
      of,
      kind.object,
      kind === deals ? { name: 'D' } : { first_name: 'S', email: `${randomUUID()}@x.example` },
    )
  ).id;
const post = (status: number, kind: Kind, id: string, body: unknown, options: CallOptions = {}) =>
  expectStatus(status, 'POST', kind.path(id), { key, body, ...options });
const move = async (kind: Kind, id: string, body: object): Promise<Json> => (await post(200, kind, id, body)).body.data;
const refused = (status: number, kind: Kind, id: string, body: unknown) =>
  refusedFields(status, 'POST', kind.path(id), { key, body });

describe.each([deals, leads])('a move of $object', (kind) => {
  const { object, field, record, status } = kind;
  const moved = `${record}.${status}_changed`;

  test('returns the previous and the new status as the records API does, with one audit row and the events', async () => {
    const id = await newOne(kind);
    const data = await move(kind, id, { [field]: ' qUALIFIED ' });
    const [from, to] = [await statusId(tenant, object, 'New'), await statusId(tenant, object, 'Qualified')];
    expect(data).toEqual({
      [record]: await readRecord(key, object, id),
      [`previous_${status}`]: { id: from, name: 'New' },
      [status]: { id: to, name: 'Qualified', outcome: 'open' },
      changed: true,
    });
    expect(data[record]).toMatchObject({ [field]: 'Qualified', [`${field}_id`]: to });
    const { audit, events } = await leftBehind(id);
    expect(audit[1]).toMatchObject({ action: `${record}.update`, object });
    expect(audit[1].changes[field]).toEqual({ from: 'New', to: 'Qualified' });
    expect(events.map((each) => each.event)).toEqual(['record.created', 'record.updated', moved]);
    expect(events[1].data).toMatchObject({ object, changed_fields: expect.arrayContaining([field, `${field}_id`]) });
    expect(events[2].data).toEqual({
      object,
      record_id: id,
      occurred_at: data[record].updated_at,
      from: 'New',
      from_id: from,
      to: 'Qualified',
      to_id: to,
    });
  });

  test('emits the move event for every way of moving, and none for staying or creation', async () => {
    const [id, other] = [await newOne(kind), await newOne(kind)];
    await patchRecord(key, object, id, { [field]: 'Contacted' });
    await patchRecord(key, object, id, { [field]: 'contacted', priority: 1 });
    const records = [
      { id, [field]: 'Qualified' },
      { id: other, priority: 2 },
    ];
    const batch = `${recordsPath(object)}:batch-update`;
    await expectStatus(200, 'POST', batch, { key, body: { records }, idempotencyKey: true });
    const upsert = { match_on: ['id'], record: { id, [field]: 'New' } };
    await expectStatus(200, 'POST', `${recordsPath(object)}:upsert`, { key, body: upsert, idempotencyKey: true });
    const moves = async (of: string) => (await leftBehind(of)).events.filter((each) => each.event === moved);
    expect((await moves(id)).map(({ data }) => [data.from, data.to])).toEqual([
      ['New', 'Contacted'],
      ['Contacted', 'Qualified'],
      ['Qualified', 'New'],
    ]);
    expect(await moves(other)).toEqual([]);
  });

  test('returns the new version, which is valid for If-Match', async () => {
    const id = await newOne(kind);
    const etag = async (body: object) => (await post(200, kind, id, body)).headers.get('etag');
    expect([await etag({ [field]: 'New' }), await etag({ [field]: 'Contacted' })]).toEqual(['"1"', '"2"']);
    const headers = { 'if-match': '"2"' };
    await expectStatus(200, 'PATCH', recordsPath(object, id), { key, headers, body: { priority: 1 } });
  });

  test('accepts the id of a status', async () => {
    const id = await newOne(kind);
    const to = await statusId(tenant, object, 'Contacted');
    expect((await move(kind, id, { [`${field}_id`]: to.toUpperCase() }))[status].name).toBe('Contacted');
  });

  test('returns changed: false and writes nothing for a move to the current status', async () => {
    const id = await newOne(kind);
    const before = await readRecord(key, object, id);
    const data = await move(kind, id, { [field]: 'New' });
    expect(data).toMatchObject({ [record]: before, changed: false });
    expect(data[`previous_${status}`]).toEqual({ id: data[status].id, name: 'New' });
    const { audit, events } = await leftBehind(id);
    expect([audit.length, events.length]).toEqual([1, 1]);
  });

  test('sets fields in the same change, also if the record already has the status', async () => {
    const id = await newOne(kind);
    const first = await move(kind, id, { [field]: 'Contacted', fields: { priority: '2', source: null } });
    expect(first[record]).toMatchObject({ [field]: 'Contacted', priority: 2 });
    const second = await move(kind, id, { [field]: 'Contacted', fields: { priority: 1 } });
    expect([second.changed, second[record].priority]).toEqual([false, 1]);
    const { events } = await leftBehind(id);
    expect(events.map((each) => each.event)).toEqual(['record.created', 'record.updated', moved, 'record.updated']);
    expect(events[1].data.changed_fields).toEqual(expect.arrayContaining(['priority', field]));
    expect(events[3].data.changed_fields).toEqual(['priority']);
  });

  test('stores nothing with invalid fields, and reports all problems', async () => {
    const id = await newOne(kind);
    const before = await readRecord(key, object, id);
    const fields = { priority: 9, colour: 1, id: 'x', [`${field}_id`]: 'x', assigned_to: randomUUID(), [field]: 'New' };
    expect((await refused(422, kind, id, { [field]: 'Nowhere', fields, extra: 1 })).sort()).toEqual(
      [
        'extra UNKNOWN_FIELD',
        'fields.assigned_to NOT_FOUND',
        'fields.colour UNKNOWN_FIELD',
        'fields.id READ_ONLY',
        'fields.priority OUT_OF_RANGE',
        `fields.${field} CONFLICTING_FIELDS`,
        `fields.${field}_id READ_ONLY`,
        `${field} INVALID_OPTION`,
      ].sort(),
    );
    expect(await readRecord(key, object, id)).toEqual(before);
  });

  test.each<[string, number, (of: Kind) => object, (of: Kind) => string[]]>([
    ['neither form', 400, () => ({}), (of) => [`${of.field} REQUIRED`]],
    [
      'both forms',
      400,
      (of) => ({ [of.field]: 'New', [`${of.field}_id`]: randomUUID() }),
      (of) => [`${of.field} CONFLICTING_FIELDS`],
    ],
    ['an unknown id', 422, (of) => ({ [`${of.field}_id`]: randomUUID() }), (of) => [`${of.field}_id INVALID_OPTION`]],
    ['a malformed id', 400, (of) => ({ [`${of.field}_id`]: 'x' }), (of) => [`${of.field}_id INVALID_FORMAT`]],
    ['a number', 422, (of) => ({ [of.field]: 1 }), (of) => [`${of.field} INVALID_TYPE`]],
    ['fields that are not an object', 422, (of) => ({ [of.field]: 'New', fields: [1] }), () => ['fields INVALID_TYPE']],
    [
      'a reason that is too long',
      400,
      (of) => ({ [of.field]: 'New', reason: 'x'.repeat(501) }),
      () => ['reason TOO_LONG'],
    ],
  ])('rejects a move to %s with %i', async (_, code, body, problems) => {
    expect(await refused(code, kind, await newOne(kind), body(kind))).toEqual(problems(kind));
  });

  test('lists the active statuses for an unknown name', async () => {
    const answer = await post(422, kind, await newOne(kind), { [field]: 'Nowhere' });
    expect(answer.body.error.details.fields[0].allowed).toEqual(expect.arrayContaining(['New', 'Qualified']));
  });

  test('rejects an inactive status by name and id, and keeps records that already have it', async () => {
    const own = await newTenant();
    const id = await newOne(kind, own.key);
    await setActive(own, object, 'Qualified', false);
    const bodies = [{ [field]: 'Qualified' }, { [`${field}_id`]: await statusId(own, object, 'Qualified') }];
    for (const body of bodies) {
      const { error } = (await post(409, kind, id, body, { key: own.key })).body;
      expect(error).toMatchObject({ code: 'CONFLICT', details: { reason: `${status}_inactive` } });
    }
    await setActive(own, object, 'New', false);
    const same = await post(200, kind, id, { [field]: 'New' }, { key: own.key });
    expect(same.body.data.changed).toBe(false);
  });

  test('moves once per key, and replays the first response byte for byte', async () => {
    const id = await newOne(kind);
    const idempotencyKey = randomUUID();
    const first = await post(200, kind, id, { [field]: 'Contacted' }, { idempotencyKey });
    await move(kind, id, { [field]: 'New' });
    const again = await post(200, kind, id, { [field]: 'Contacted' }, { idempotencyKey });
    expect(again.text).toBe(first.text);
    expect((await readRecord(key, object, id))[field]).toBe('New');
    const other = await post(422, kind, id, { [field]: 'New' }, { idempotencyKey });
    expect(other.body.error.code).toBe('IDEMPOTENCY_CONFLICT');
  });

  test('requires the edit scope and a visible record for a move', async () => {
    const id = await newOne(kind);
    const viewer = await newKey(tenant, { scopes: [`${object}:view`, `${object}:create`] });
    const answer = await post(403, kind, id, { [field]: 'Contacted' }, { key: viewer });
    expect(answer.body.error.details.required_scopes).toEqual([`${object}:edit`]);
    const own = await newTenant();
    for (const other of [tenant.testKey, own.key]) await post(404, kind, id, { [field]: 'Contacted' }, { key: other });
    const branch = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branch}, 'B', now())`;
    const branchKey = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
    await post(404, kind, id, { [field]: 'Contacted' }, { key: branchKey });
    const { id: userId } = await newUser(tenant, { branchId: branch });
    await patchRecord(key, object, id, { assigned_to: userId });
    await post(200, kind, id, { [field]: 'Contacted' }, { key: branchKey });
  });

  test('serializes concurrent moves, each beginning where another ended', async () => {
    const id = await newOne(kind);
    const targets = ['Contacted', 'Qualified', 'New', 'Contacted', 'Qualified', 'New', 'Contacted', 'Qualified'];
    const answers = await Promise.all(targets.map((target) => move(kind, id, { [field]: target })));
    const steps = answers
      .filter((answer) => answer.changed)
      .map((answer) => [answer[`previous_${status}`].name, answer[status].name]);
    const { audit } = await leftBehind(id);
    const written = audit.slice(1).map(({ changes }) => [changes[field].from, changes[field].to]);
    expect(written.toSorted()).toEqual(steps.toSorted());
    expect(chain('New', written)).toBe((await readRecord(key, object, id))[field]);
  });
});

/** Follows steps from a start in order. @returns the end, or undefined if a step does not fit */
function chain(start: string, steps: readonly (readonly string[])[]): string | undefined {
  let at: string | undefined = start;
  for (const [from, to] of steps) at = from === at ? to : undefined;
  return at;
}

describe('outcomes', () => {
  test('sets and clears won_at and lost_at, and stores the reason as lost_reason only for a lost deal', async () => {
    const id = await newOne(deals);
    const won = await move(deals, id, { stage: 'Won', reason: 'Best price' });
    expect(won.stage.outcome).toBe('won');
    expect(won.deal).toMatchObject({ won_at: won.deal.updated_at, lost_at: null, lost_reason: null });
    expect(won.deal.stage_changed_at).toBe(won.deal.won_at);
    const lost = await move(deals, id, { stage: 'Lost', reason: 'Chose another' });
    expect(lost.deal).toMatchObject({ won_at: null, lost_at: lost.deal.updated_at, lost_reason: 'Chose another' });
    const open = await move(deals, id, { stage: 'Proposal' });
    expect(open.deal).toMatchObject({ won_at: null, lost_at: null, lost_reason: 'Chose another' });
    const { audit } = await leftBehind(id);
    expect(audit.map((row) => row.metadata)).toEqual([
      null,
      { reason: 'Best price' },
      { reason: 'Chose another' },
      null,
    ]);
  });

  const open = async () => (await createRecord(key, 'deals', { name: 'D', probability: 30, lost_reason: 'Before' })).id;
  const post = (path: string, body: object) => send('POST', path, body);
  const patch = (id: string, body: object) => send('PATCH', recordsPath('deals', id), body);
  async function send(method: string, path: string, body: object): Promise<Json> {
    const { data, error } = (await call(method, path, { key, body, idempotencyKey: true })).body;
    const fields = error?.details.fields ?? data.failed?.[0]?.details.fields;
    if (fields) return fields.map((each: Json) => [each.field, each.code, each.allowed]);
    return data.deal ?? data.record ?? data.succeeded[0].record;
  }

  /** Every way into a stage. @returns the deal, or the rejected fields with their codes */
  const waysIn: [string, (stage: string, more: object) => Promise<Json>][] = [
    ['create', (stage, more) => post(recordsPath('deals'), { name: 'D', stage, ...more })],
    ['batch create', (stage, more) => post(`${recordsPath('deals')}:batch`, [{ name: 'D', stage, ...more }])],
    ['change', async (stage, more) => patch(await open(), { stage, ...more })],
    [
      'batch update',
      async (stage, more) => post(`${recordsPath('deals')}:batch-update`, [{ id: await open(), stage, ...more }]),
    ],
    [
      'upsert',
      async (stage, more) => {
        const record = { id: await open(), stage, ...more };
        return post(`${recordsPath('deals')}:upsert`, { match_on: ['id'], record });
      },
    ],
    [
      'batch upsert',
      async (stage, more) => {
        const records = [{ id: await open(), stage, ...more }];
        return post(`${recordsPath('deals')}:batch-upsert`, { match_on: ['id'], records });
      },
    ],
    ['move', async (stage, fields) => post(deals.path(await open()), { stage, fields })],
    [
      'conversion',
      async (stage, more) => post(`/v1/leads/${await newOne(leads)}/convert`, { deal: { name: 'D', stage, ...more } }),
    ],
  ];

  test.each(waysIn)('sets the probability of the outcome for a %s into a closed stage', async (how, enter) => {
    expect(await enter('Won', { lost_reason: 'No more' })).toMatchObject({ probability: 100, lost_reason: null });
    expect(await enter('Won', { probability: 100 })).toMatchObject({ probability: 100 });
    expect(await enter('Lost', { lost_reason: 'Price' })).toMatchObject({ probability: 0, lost_reason: 'Price' });
    expect(await enter('Lost', { probability: 0 })).toMatchObject({ probability: 0 });
    const field = { move: 'fields.probability', conversion: 'deal.probability', upsert: 'record.probability' }[how];
    const refusedFor = (value: string) => [[field ?? 'probability', 'CONFLICTING_FIELDS', [value]]];
    expect(await enter('Won', { probability: 90 })).toEqual(refusedFor('100'));
    expect(await enter('Lost', { probability: 1 })).toEqual(refusedFor('0'));
  });

  test('keeps a given probability of a deal that stays in its closed stage', async () => {
    const { id } = await createRecord(key, 'deals', { name: 'D', stage: 'Won' });
    expect(await patchRecord(key, 'deals', id, { stage: 'Won', probability: 90 })).toMatchObject({ probability: 90 });
    expect(await patchRecord(key, 'deals', id, { stage: 'Proposal' })).toMatchObject({ probability: 90 });
  });

  test('rejects a reason next to lost_reason in fields only if the stage means lost', async () => {
    const id = await newOne(deals);
    const body = { reason: 'x', fields: { lost_reason: 'y' } };
    expect(await refused(422, deals, id, { stage: 'Lost', ...body })).toEqual([
      'fields.lost_reason CONFLICTING_FIELDS',
    ]);
    expect((await move(deals, id, { stage: 'Qualified', ...body })).deal.lost_reason).toBe('y');
  });

  test('audits a reason for staying without an event, and stores a new one for a lost deal', async () => {
    const id = await newOne(deals);
    await move(deals, id, { stage: 'New', reason: 'Not yet' });
    expect((await leftBehind(id)).audit[1].metadata).toEqual({ reason: 'Not yet' });
    expect((await leftBehind(id)).events).toHaveLength(1);
    await move(deals, id, { stage: 'Lost', reason: 'Price' });
    const again = await move(deals, id, { stage: 'Lost', reason: 'Price and time' });
    expect([again.changed, again.deal.lost_reason]).toEqual([false, 'Price and time']);
    expect((await leftBehind(id)).events.at(-1).data.changed_fields).toEqual(['lost_reason']);
  });

  test('sets converted_at in a converted status without creating a customer, and clears it afterwards', async () => {
    const id = await newOne(leads);
    const converted = await move(leads, id, { lead_status: 'Converted' });
    expect(converted.lead).toMatchObject({ converted_at: converted.lead.updated_at, converted_customer_id: null });
    expect((await move(leads, id, { lead_status: 'Qualified' })).lead.converted_at).toBeNull();
  });

  test('moves a deal without a stage, with no previous stage', async () => {
    const id = await newOne(deals);
    await database()`update deals set stage_id = null where id = ${id}`;
    expect(await move(deals, id, { stage: 'New' })).toMatchObject({ previous_stage: null, changed: true });
  });

  test('sets custom fields together with the move', async () => {
    await newCustomField(tenant, 'deals', 'seats', { type: 'number' });
    const id = await newOne(deals);
    expect((await move(deals, id, { stage: 'Won', fields: { seats: 20 } })).deal.seats).toBe(20);
  });
});

test('keeps both a move of a deal and a concurrent change by the records API', async () => {
  const id = await newOne(deals);
  for (let round = 0; round < 5; round += 1) {
    const stage = round % 2 ? 'New' : 'Won';
    const answers = await Promise.all([
      call('POST', deals.path(id), { key, body: { stage } }),
      call('PATCH', `/v1/objects/deals/records/${id}`, { key, body: { amount_minor: round } }),
    ]);
    expect(answers.map((answer) => answer.status)).toEqual([200, 200]);
    expect(await readRecord(key, 'deals', id)).toMatchObject({ stage, amount_minor: round });
  }
});
