// Unique values: no two records of a mode share one, in any spelling or under concurrency.
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { as } from '../support/api.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, lead, newCustomField, newCustomObject, patchRecord, recordsPath } from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
let visits: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  visits = await newCustomObject(tenant, 'visits');
  for (const object of ['leads', 'customers', 'deals', 'tasks', 'activities', visits])
    await newCustomField(tenant, object, 'erp', { unique: true });
  for (const type of ['number', 'email', 'phone', 'url']) await newCustomField(tenant, visits, type, { type });
  await newCustomField(tenant, 'leads', 'code', { type: 'number', unique: true });
  await newCustomField(tenant, 'leads', 'plain');
  await database()`
    update custom_fields set is_unique = true where company_id = ${tenant.companyId} and object = ${visits} and name <> 'erp'`;
});

let count = 0;
/** Returns a value that no other record has. */
const fresh = (): string => {
  count += 1;
  return `E-${count}`;
};
const send = (method: string, path: string, body: object, credential = key): Promise<Answer> =>
  call(method, path, { key: credential, body, idempotencyKey: true });
const create = (object: string, body: object, credential = key) => send('POST', recordsPath(object), body, credential);
const patch = (object: string, id: string, body: object) => send('PATCH', recordsPath(object, id), body);
const upsert = (object: string, match_on: string[], record: object) =>
  send('POST', `${recordsPath(object)}:upsert`, { match_on, record });
const batch = async (object: string, how: string, body: object): Promise<Json> =>
  (await expectStatus(200, 'POST', `${recordsPath(object)}:${how}`, { key, body, idempotencyKey: true })).body.data;

function expectTaken(answer: Answer, fields: string[], id: string | null): void {
  expect(answer.status).toBe(409);
  const details = { matched_fields: fields, existing_id: id };
  expect(answer.body.error).toMatchObject({ code: 'ALREADY_EXISTS', details });
}
const takenItem = (index: number, fields: string[], id: string | null) => ({
  index,
  code: 'ALREADY_EXISTS',
  details: { matched_fields: fields, existing_id: id },
});

describe('a value that another record has', () => {
  test('rejects a taken value in a create, an update and an upsert, and writes nothing', async () => {
    const [erp, other] = [fresh(), fresh()];
    const holder = await createRecord(key, 'leads', lead({ erp }));
    const second = await createRecord(key, 'leads', lead({ erp: other }));
    const body = lead({ erp });
    expectTaken(await create('leads', body), ['erp'], holder.id);
    expectTaken(await patch('leads', second.id, { erp, first_name: 'New' }), ['erp'], holder.id);
    expectTaken(await upsert('leads', ['email'], body), ['erp'], holder.id);
    expectTaken(await upsert('leads', ['email'], { ...body, email: second.email }), ['erp'], holder.id);
    const intake = { first_name: 'Sara', email: body.email, custom_fields: { erp } };
    expectTaken(await send('POST', '/v1/leads', intake), ['erp'], holder.id);
    const { records } = await as(key).get(recordsPath('leads'), {
      filter: JSON.stringify({ field: 'email', op: 'eq', value: body.email }),
    });
    expect(records).toEqual([]);
    expect((await as(key).get(recordsPath('leads', second.id))).record).toMatchObject({
      erp: other,
      first_name: 'Sara',
    });
  });

  test('rejects a taken value for tasks, activities, deals and custom objects', async () => {
    const { id: entity_id } = await createRecord(key, 'leads', lead());
    const bodies: Record<string, object> = {
      tasks: { title: 'Call', scheduled_at: '2027-01-01T10:00:00.000Z' },
      activities: { activity_type: 'Call', entity_type: 'lead', entity_id, summary: 'Called' },
      deals: { name: 'Deal' },
      [visits]: { name: 'Visit' },
    };
    for (const [object, body] of Object.entries(bodies)) {
      const erp = fresh();
      const holder = await createRecord(key, object, { ...body, erp });
      expectTaken(await create(object, { ...body, erp }), ['erp'], holder.id);
      const second = await createRecord(key, object, { ...body, erp: fresh() });
      expectTaken(await patch(object, second.id, { erp }), ['erp'], holder.id);
    }
  });

  test('names one other record and all values that it shares', async () => {
    const [erp, code] = [fresh(), 7001];
    const both = await createRecord(key, 'leads', lead({ erp, code }));
    expectTaken(await create('leads', lead({ erp, code })), ['erp', 'code'], both.id);
    const [one, two] = [fresh(), 7002];
    const holders = [
      await createRecord(key, 'leads', lead({ erp: one })),
      await createRecord(key, 'leads', lead({ code: two })),
    ];
    expectTaken(await create('leads', lead({ erp: one, code: two })), ['erp'], holders[0]?.id);
  });

  test('hides the other record from a caller that cannot see it', async () => {
    const erp = fresh();
    const member = await newUser(tenant);
    await database()`update users set branch_id = null where id = ${tenant.admin.id}`;
    const hidden = await createRecord(key, 'leads', lead({ erp, assigned_to: tenant.admin.id }));
    const reaching = await newKey(tenant, { reach: { kind: 'branch', id: tenant.branchId } });
    expectTaken(await create('leads', lead({ erp, assigned_to: member.id }), reaching), ['erp'], null);
    // It does not match either, because the caller cannot see it.
    const upserted = await send(
      'POST',
      `${recordsPath('leads')}:upsert`,
      { match_on: ['erp'], record: lead({ erp, assigned_to: member.id }) },
      reaching,
    );
    expectTaken(upserted, ['erp'], null);
    const { failed } = await as(reaching).post(`${recordsPath('leads')}:batch`, [lead({ erp })]);
    expect(failed).toMatchObject([takenItem(0, ['erp'], null)]);
    expectTaken(await create('leads', lead({ erp })), ['erp'], hidden.id);
  });

  test('accepts the value in the other mode, another workspace, another field and another object', async () => {
    const erp = fresh();
    await createRecord(key, 'leads', lead({ erp }));
    const inTestMode = await createRecord(tenant.testKey, 'leads', lead({ erp }));
    expectTaken(await create('leads', lead({ erp }), tenant.testKey), ['erp'], inTestMode.id);
    const other = await newTenant();
    await newCustomField(other, 'leads', 'erp', { unique: true });
    await createRecord(other.key, 'leads', lead({ erp }));
    await createRecord(key, 'leads', lead({ plain: erp }));
    await createRecord(key, 'leads', lead({ plain: erp }));
    await createRecord(key, visits, { name: 'Visit', erp });
  });

  test('accepts a value again once its record changes, clears it or is deleted', async () => {
    for (const release of [
      (id: string) => patchRecord(key, 'leads', id, { erp: fresh() }),
      (id: string) => patchRecord(key, 'leads', id, { erp: null }),
      (id: string) => patchRecord(key, 'leads', id, { erp: ' ' }),
      (id: string) => as(key).delete(recordsPath('leads', id)),
    ]) {
      const erp = fresh();
      const { id } = await createRecord(key, 'leads', lead({ erp }));
      // Its own record may send the value again.
      await patchRecord(key, 'leads', id, { erp, first_name: 'Again' });
      await release(id);
      await createRecord(key, 'leads', lead({ erp }));
    }
  });
});

test.each([
  ['erp', 'Case', 'Case', true],
  ['erp', 'Case', 'case', false],
  ['erp', 'space', 'space ', false],
  ['erp', 'é', 'e\u0301', false],
  ['erp', 'x'.repeat(1000), 'x'.repeat(1000), true],
  ['erp', `${'x'.repeat(998)}ab`, `${'x'.repeat(998)}ac`, false],
  ['number', 1, '1.0', true],
  ['number', '1e2', 100, true],
  ['number', 0.0000001, '1e-7', true],
  ['number', 0, '-0', true],
  ['number', 9007199254740991, 9007199254740990, false],
  ['email', 'Sara@X.example', ' sara@x.EXAMPLE ', true],
  ['email', 'sara1@x.example', 'sara2@x.example', false],
  ['phone', '+49 30 123456', '0049-30-123456', true],
  ['url', 'https://x.example/A', 'https://x.example/a', false],
  ['url', ' https://x.example/B ', 'https://x.example/B', true],
])('%s: %j and %j are the same value: %s', async (field, one, other, isSame) => {
  const holder = await createRecord(key, visits, { name: 'One', [field]: one });
  const answer = await create(visits, { name: 'Two', [field]: other });
  if (isSame) expectTaken(answer, [field], holder.id);
  else expect(answer.status).toBe(201);
  for (const { id } of [holder, ...(isSame ? [] : [answer.body.data.record])])
    await as(key).delete(recordsPath(visits, id));
});

test('accepts any number of records without a value', async () => {
  for (const erp of [null, '', '  ', undefined]) await createRecord(key, 'leads', lead({ erp }));
  const { failed } = await batch('leads', 'batch', [lead({ erp: null }), lead({ erp: '' }), lead()]);
  expect(failed).toEqual([]);
});

describe('a batch', () => {
  test('fails the created items with taken values, and stores the rest', async () => {
    const [erp, twice] = [fresh(), fresh()];
    const holder = await createRecord(key, 'leads', lead({ erp }));
    const data = await batch('leads', 'batch', [
      lead({ erp }),
      lead({ erp: twice }),
      lead({ erp: twice }),
      lead({ erp }),
      lead({ erp: fresh() }),
      // This item is not stored, so its value stays free.
      { first_name: 'No address', erp: 'never' },
      lead({ erp: 'never' }),
    ]);
    expect(data.succeeded.map((item: Json) => item.index)).toEqual([1, 4, 6]);
    expect(data.failed).toMatchObject([
      takenItem(0, ['erp'], holder.id),
      { index: 2, code: 'DUPLICATE_IN_BATCH', message: 'Duplicates the item at index 1 of this batch.' },
      takenItem(3, ['erp'], holder.id),
      { index: 5, code: 'VALIDATION_ERROR' },
    ]);
  });

  test('processes updated items in order, so a released value is free for the next item', async () => {
    const values = [fresh(), fresh(), fresh()];
    const records = await Promise.all(values.map((erp) => createRecord(key, 'leads', lead({ erp }))));
    const [a, b, c] = records as [Json, Json, Json];
    const update = (items: object[]) => batch('leads', 'batch-update', items);
    // b takes a value of a, and then c takes the one that a released.
    const early = await update([
      { id: a.id, erp: b.erp },
      { id: b.id, erp: fresh() },
    ]);
    expect(early.failed).toMatchObject([takenItem(0, ['erp'], b.id)]);
    const chain = await update([
      { id: a.id, erp: null },
      { id: c.id, erp: a.erp },
      { id: b.id, erp: c.erp },
    ]);
    expect(chain.failed).toEqual([]);
    expect(chain.succeeded.map((item: Json) => item.record.erp)).toEqual([null, a.erp, c.erp]);
    const twice = fresh();
    const repeated = await update([
      { id: a.id, erp: twice },
      { id: b.id, erp: twice },
      { id: c.id, erp: a.erp },
    ]);
    expect(repeated.failed).toMatchObject([{ index: 1, code: 'DUPLICATE_IN_BATCH' }]);
    expect(repeated.succeeded).toHaveLength(2);
  });

  test('matches upserted items on a unique field, and checks creates and updates against each other', async () => {
    const [erp, taken, twice] = [fresh(), fresh(), fresh()];
    const one = await createRecord(key, 'leads', lead({ erp }));
    const two = await createRecord(key, 'leads', lead({ erp: taken }));
    const matched = await batch('leads', 'batch-upsert', {
      match_on: ['erp'],
      records: [lead({ erp, first_name: 'Changed' }), lead({ erp: fresh() }), lead({ erp })],
    });
    expect(matched.succeeded.map((item: Json) => [item.index, item.created])).toEqual([
      [0, false],
      [1, true],
    ]);
    expect(matched.succeeded[0].record).toMatchObject({ id: one.id, first_name: 'Changed' });
    expect(matched.failed).toMatchObject([{ index: 2, code: 'DUPLICATE_IN_BATCH' }]);

    const { email } = matched.succeeded[0].record;
    const records = [lead({ erp: twice }), { ...lead(), email, erp: twice }, { ...lead(), erp: taken }];
    const mixed = await batch('leads', 'batch-upsert', { match_on: ['email'], records });
    expect(mixed.failed).toMatchObject([
      { index: 1, code: 'DUPLICATE_IN_BATCH', message: 'Duplicates the item at index 0 of this batch.' },
      takenItem(2, ['erp'], two.id),
    ]);
  });

  test('writes nothing of an atomic batch if a value is taken', async () => {
    const erp = fresh();
    const holder = await createRecord(key, 'leads', lead({ erp }));
    const free = fresh();
    const body = { atomic: true, records: [lead({ erp: free }), lead({ erp })] };
    const answer = await send('POST', `${recordsPath('leads')}:batch`, body);
    expect(answer.status).toBe(422);
    expect(answer.body.error.details).toMatchObject({
      reason: 'atomic_batch_failed',
      failed: [takenItem(1, ['erp'], holder.id)],
    });
    expect((await create('leads', lead({ erp: free }))).status).toBe(201);
  });
});

test('matches an upsert on a unique field, alone and with others', async () => {
  const erp = fresh();
  const first = await upsert('leads', ['erp'], lead({ erp }));
  expect(first.body.data).toMatchObject({ created: true });
  const { id } = first.body.data.record;
  const second = await upsert('leads', ['erp'], lead({ erp, first_name: 'Changed' }));
  expect(second.body.data).toMatchObject({ created: false, record: { id, first_name: 'Changed' } });
  // No record has both values, and the new record cannot have the first.
  expectTaken(await upsert('leads', ['erp', 'code'], lead({ erp, code: 7100 })), ['erp'], id);
});

test('rejects a conversion that would give a customer a taken value', async () => {
  const erp = fresh();
  const known = await createRecord(key, 'customers', { first_name: 'Known', erp });
  const { id } = await createRecord(key, 'leads', lead({ erp }));
  const path = `/v1/leads/${id}/convert`;
  const deal = { create_deal: false };
  expectTaken(await send('POST', path, deal), ['erp'], known.id);
  await patchRecord(key, 'customers', known.id, { erp: null });
  const { customer } = await as(key).post(path, deal);
  expect((await as(key).get(recordsPath('customers', customer.id))).record).toMatchObject({ erp });
});

describe('callers that take one value at the same time', () => {
  test('stores one record for 20 concurrent writes of one value by any operation', async () => {
    const erp = fresh();
    const others = await Promise.all(Array.from({ length: 5 }, () => createRecord(key, 'leads', lead())));
    const answers = await Promise.all([
      ...Array.from({ length: 5 }, () => create('leads', lead({ erp }))),
      ...others.map(({ id }) => patch('leads', id, { erp })),
      ...Array.from({ length: 5 }, () => upsert('leads', ['email'], lead({ erp }))),
      ...Array.from({ length: 5 }, () =>
        send('POST', `${recordsPath('leads')}:batch`, [lead({ erp: fresh() }), lead({ erp })]),
      ),
    ]);
    const holders = await database()<{ id: string }[]>`
      select id from leads where company_id = ${tenant.companyId} and not test_mode and custom ->> 'erp' = ${erp}`;
    expect(holders).toHaveLength(1);
    const outcomes = answers.map(({ status, body }) =>
      status === 409 ? body.error.code : (body.data.failed?.[0]?.code ?? 'stored'),
    );
    expect(outcomes.filter((outcome) => outcome === 'stored')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'ALREADY_EXISTS')).toHaveLength(19);
    for (const { status, body } of answers)
      if (status === 409) expect(body.error.details.existing_id).toBe(holders[0]?.id);
  });

  test('creates one record and updates it for 20 concurrent upserts by one value', async () => {
    const erp = fresh();
    const answers = await Promise.all(Array.from({ length: 20 }, () => upsert('leads', ['erp'], lead({ erp }))));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(19);
    expect(new Set(answers.map(({ body }) => body.data.record.id)).size).toBe(1);
  });

  test('serializes concurrent batches with the same values in any order', async () => {
    const values = Array.from({ length: 10 }, fresh);
    const shuffled = (turn: number): string[] => values.map((_, index) => values[(index * 3 + turn) % 10] ?? '');
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, turn) =>
        batch('leads', turn % 2 ? 'batch' : 'batch-upsert', {
          ...(turn % 2 ? {} : { match_on: ['email'] }),
          records: shuffled(turn).map((erp) => lead({ erp })),
        }),
      ),
    );
    const stored = answers.flatMap(({ succeeded }) => succeeded.map((item: Json) => item.record.erp));
    expect(stored.sort()).toEqual(values.toSorted());
  });

  test('never deadlocks concurrent creates and updates of activities of one lead', async () => {
    const { id: entity_id } = await createRecord(key, 'leads', lead());
    const body = { activity_type: 'Call', entity_type: 'lead', entity_id, summary: 'Called' };
    const known = await Promise.all(Array.from({ length: 6 }, () => createRecord(key, 'activities', body)));
    for (let round = 0; round < 4; round += 1) {
      const erp = fresh();
      const answers = await Promise.all(
        known.flatMap(({ id }) => [create('activities', { ...body, erp }), patch('activities', id, { erp })]),
      );
      expect(answers.filter(({ status }) => status < 300)).toHaveLength(1);
      expect(answers.filter(({ status }) => status === 409)).toHaveLength(11);
    }
  });
});

describe('any sequence of writes', () => {
  const value = fc.constantFrom('a', 'b', 'c', 'd', null);
  const number = fc.constantFrom(1, 2, 3, null);
  const fields = fc.record({ erp: value, number });
  const place = fc.nat({ max: 7 });
  const step = fc.oneof(
    fc.record({ how: fc.constant('batch' as const), items: fc.array(fields, { minLength: 1, maxLength: 4 }) }),
    fc.record({
      how: fc.constant('batch-update' as const),
      items: fc.uniqueArray(fc.record({ place, fields }), {
        minLength: 1,
        maxLength: 4,
        selector: (each) => each.place,
      }),
    }),
    fc.record({ how: fc.constant('delete' as const), place }),
  );
  interface Known {
    id: string;
    erp: string | null;
    number: number | null;
  }

  /** Returns true if the model has another record with one of the values. */
  const hasOne = (records: readonly Known[], { erp, number: own }: Pick<Known, 'erp' | 'number'>, except?: string) =>
    records.some(
      (each) => each.id !== except && ((erp !== null && each.erp === erp) || (own !== null && each.number === own)),
    );

  test('stores the same records as a sequential model with unique values, for any sequence of writes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
        await database()`delete from custom_records where company_id = ${tenant.companyId} and object = ${visits}`;
        let known: Known[] = [];
        for (const each of steps) {
          if (each.how === 'delete') {
            const [gone] = known.splice(each.place, 1);
            if (gone) await as(key).delete(recordsPath(visits, gone.id));
            continue;
          }
          const expected: number[] = [];
          let body: object[];
          if (each.how === 'batch') {
            body = each.items.map((item) => ({ name: 'Visit', ...item }));
            const taken: Known[] = [];
            for (const [index, item] of each.items.entries())
              if (!hasOne([...known, ...taken], item)) {
                expected.push(index);
                taken.push({ id: `${index}`, ...item });
              }
          } else {
            const items = each.items.flatMap((item) => {
              const record = known[item.place];
              return record ? [{ id: record.id, ...item.fields }] : [];
            });
            if (items.length === 0) continue;
            body = items;
            for (const [index, item] of items.entries())
              if (!hasOne(known, item, item.id)) {
                expected.push(index);
                known = known.map((record) => (record.id === item.id ? item : record));
              }
          }
          const { succeeded } = await batch(visits, each.how, body);
          expect(succeeded.map((item: Json) => item.index)).toEqual(expected);
          if (each.how === 'batch') known.push(...succeeded.map(({ record }: Json) => record));
        }
        const stored = await database()<Known[]>`
          select id, custom ->> 'erp' as erp, (custom ->> 'number')::int as number from custom_records
          where company_id = ${tenant.companyId} and object = ${visits} order by id`;
        const inOrder = known.map(({ id, erp, number: own }) => ({ id, erp, number: own }));
        expect([...stored]).toEqual(inOrder.sort((a, b) => (a.id < b.id ? -1 : 1)));
      }),
      { numRuns: 25 },
    );
  });
});
