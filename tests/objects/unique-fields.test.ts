// Unique fields: which field types can be unique, and turning uniqueness on and off.
import type { ISql } from 'postgres';
import { describe, expect, test, vi } from 'vitest';
import { as } from '../support/api.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, lead, newCustomField, newCustomObject, patchRecord, recordsPath } from '../support/records.ts';
import { database, newKey, newTenant, newUser } from '../support/tenants.ts';

const buildFieldsPath = (object: string) => `/v1/objects/${encodeURIComponent(object)}/fields`;
const text = { name: 'erp', label: 'ERP number', type: 'text' };
const unique = (key: string, name = 'erp', object = 'leads') =>
  as(key).patch(`${buildFieldsPath(object)}/${name}`, { unique: true });
const rejectUnique = (key: string, name = 'erp', object = 'leads'): Promise<Json> =>
  as(key).rejects(409, 'PATCH', `${buildFieldsPath(object)}/${name}`, { unique: true });
const published = async (key: string, name: string): Promise<Json> =>
  (await as(key).get('/v1/objects/leads/schema')).schema.fields.find((field: Json) => field.name === name);

/** Returns the backends that wait for a lock of a transaction. */
const blockedBy = (sql: ISql) =>
  sql`select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))`;

describe('a field that is created', () => {
  test.each(['text', 'number', 'email', 'phone', 'url'])('creates a unique field of the type %s', async (type) => {
    const { key, testKey } = await newTenant();
    const { field } = await as(key).post(buildFieldsPath('leads'), { ...text, type, unique: true });
    expect(field).toMatchObject({ name: 'erp', unique: true });
    expect(await published(key, 'erp')).toMatchObject({ unique: true });
    expect(await published(testKey, 'erp')).toMatchObject({ unique: true });
    expect(await published(key, 'email')).toMatchObject({ unique: false });
  });

  test.each(['textarea', 'boolean', 'date', 'datetime', 'currency', 'select'])(
    'cannot be unique if it is of the type %s',
    async (type) => {
      const { key } = await newTenant();
      const options = type === 'select' ? { options: [{ label: 'One' }] } : {};
      const body = { ...text, type, ...options };
      const error = await as(key).rejects(422, 'POST', buildFieldsPath('leads'), { ...body, unique: true });
      expect(error.details.fields).toMatchObject([{ field: 'unique', code: 'CONFLICTING_FIELDS' }]);
      await as(key).post(buildFieldsPath('leads'), { ...body, unique: false });
      const refused = await as(key).rejects(422, 'PATCH', `${buildFieldsPath('leads')}/erp`, { unique: true });
      expect(refused.details.fields).toMatchObject([{ field: 'unique', code: 'CONFLICTING_FIELDS' }]);
      await as(key).patch(`${buildFieldsPath('leads')}/erp`, { unique: false });
    },
  );

  test('creates fields that are not unique by default, and accepts only true and false', async () => {
    const { key } = await newTenant();
    expect((await as(key).post(buildFieldsPath('leads'), text)).field).toMatchObject({ unique: false });
    for (const [method, path] of [
      ['POST', buildFieldsPath('leads')],
      ['PATCH', `${buildFieldsPath('leads')}/erp`],
    ] as const)
      for (const wrong of ['yes', 1, null]) {
        const body = method === 'POST' ? { ...text, name: 'other', unique: wrong } : { unique: wrong };
        const error = await as(key).rejects(422, method, path, body);
        expect(error.details.fields).toMatchObject([{ field: 'unique', code: 'INVALID_TYPE' }]);
      }
  });
});

test('rejects unique built-in fields', async () => {
  const { key } = await newTenant();
  const error = await as(key).rejects(422, 'PATCH', `${buildFieldsPath('leads')}/email`, { unique: true });
  expect(error.details.fields).toMatchObject([{ field: 'unique', code: 'RULE_FAILED' }]);
});

test('allows at most five unique fields per object, retired ones included', async () => {
  const { key } = await newTenant();
  const sixth = { code: 'CONFLICT', details: { reason: 'field_limit', limit: 5 } };
  for (let number = 1; number <= 5; number += 1)
    await as(key).post(buildFieldsPath('leads'), { ...text, name: `unique_${number}`, unique: true });
  await as(key).patch(`${buildFieldsPath('leads')}/unique_1`, { enabled: false });
  expect(await as(key).rejects(409, 'POST', buildFieldsPath('leads'), { ...text, unique: true })).toMatchObject(sixth);
  await as(key).post(buildFieldsPath('leads'), text);
  expect(await rejectUnique(key)).toMatchObject(sixth);
  // It is already one of the five.
  await unique(key, 'unique_2');
  await as(key).post(buildFieldsPath('deals'), { ...text, unique: true });
  await as(key).patch(`${buildFieldsPath('leads')}/unique_1`, { unique: false });
  await unique(key);

  const fields = Array.from({ length: 6 }, (_, index) => ({ ...text, name: `unique_${index}`, unique: true }));
  const object = { slug: 'visits', label: 'Visit', plural: 'Visits' };
  expect(await as(key).rejects(409, 'POST', '/v1/objects', { ...object, fields })).toMatchObject(sixth);
  const made = await as(key).post('/v1/objects', { ...object, fields: fields.slice(1) });
  expect(made.object.fields.filter((field: Json) => field.unique)).toHaveLength(5);
});

describe('a field that becomes unique while values are stored', () => {
  test('rejects uniqueness with the repeated values of both modes, and leaves the field unchanged', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    const { key, testKey } = tenant;
    for (const each of [tenant, other]) await newCustomField(each, 'leads', 'erp');
    const first = await createRecord(key, 'leads', lead({ erp: 'A' }));
    // These repeat no value: another workspace, the other mode, another case, and no value.
    await createRecord(other.key, 'leads', lead({ erp: 'A' }));
    await createRecord(testKey, 'leads', lead({ erp: 'A' }));
    await createRecord(key, 'leads', lead({ erp: 'a' }));
    await createRecord(key, 'leads', lead());
    await createRecord(key, 'leads', lead());
    await unique(key);
    await as(key).patch(`${buildFieldsPath('leads')}/erp`, { unique: false });

    const second = await createRecord(key, 'leads', lead({ erp: 'A' }));
    const [one, two] = [
      await createRecord(testKey, 'leads', lead({ erp: 'T' })),
      await createRecord(testKey, 'leads', lead({ erp: 'T' })),
    ];
    const error = await rejectUnique(key);
    expect(error).toMatchObject({ code: 'CONFLICT', details: { reason: 'duplicate_values' } });
    expect(error.details.examples).toEqual([
      { value: 'A', test_mode: false, record_ids: [first.id, second.id] },
      { value: 'T', test_mode: true, record_ids: [one.id, two.id] },
    ]);
    expect(await published(key, 'erp')).toMatchObject({ unique: false });

    await patchRecord(key, 'leads', second.id, { erp: 'B' });
    expect((await rejectUnique(key)).details.examples).toEqual([
      { value: 'T', test_mode: true, record_ids: [one.id, two.id] },
    ]);
    await as(testKey).delete(recordsPath('leads', two.id));
    expect((await unique(key)).field).toMatchObject({ unique: true });
    expect(await published(testKey, 'erp')).toMatchObject({ unique: true });
    const [row] = await database()`
      select changes from audit_logs where company_id = ${tenant.companyId} and action = 'field.update' order by seq desc limit 1`;
    expect(row?.changes).toEqual({ unique: { from: false, to: true } });
  });

  test('reports at most 20 values of each mode and ten records of a value, with numbers as numbers', async () => {
    const tenant = await newTenant();
    const object = await newCustomObject(tenant, 'visits');
    await newCustomField(tenant, object, 'size', { type: 'number' });
    const batch = (records: object[]) => as(tenant.key).post(`${recordsPath(object)}:batch`, { records });
    await batch(Array.from({ length: 60 }, (_, index) => ({ name: 'V', size: index % 25 })));
    const { examples } = (await rejectUnique(tenant.key, 'size', object)).details;
    expect(examples).toHaveLength(20);
    const values = examples.map((example: Json) => example.value);
    expect(new Set(values).size).toBe(20);
    expect(values.every((value: unknown) => Number.isInteger(value) && 0 <= Number(value) && Number(value) < 25)).toBe(
      true,
    );

    await newCustomField(tenant, object, 'rate', { type: 'number' });
    await batch(Array.from({ length: 30 }, () => ({ name: 'V', rate: '1.50' })));
    const [example, ...others] = (await rejectUnique(tenant.key, 'rate', object)).details.examples;
    expect(others).toEqual([]);
    expect(example).toMatchObject({ value: 1.5, test_mode: false });
    expect(new Set(example.record_ids).size).toBe(10);
  });

  test('names only records that the caller can see as repeated', async () => {
    const tenant = await newTenant();
    await newCustomField(tenant, 'leads', 'erp');
    const member = await newUser(tenant);
    await database()`update users set branch_id = null where id = ${tenant.admin.id}`;
    const own = await createRecord(tenant.key, 'leads', lead({ erp: 'A', assigned_to: member.id }));
    for (const erp of ['A', 'B', 'B'])
      await createRecord(tenant.key, 'leads', lead({ erp, assigned_to: tenant.admin.id }));
    const reaching = await newKey(tenant, { reach: { kind: 'branch', id: tenant.branchId } });
    const examplesFor = async (key: string): Promise<Json[]> => (await rejectUnique(key)).details.examples;
    expect(await examplesFor(reaching)).toEqual([{ value: 'A', test_mode: false, record_ids: [own.id] }]);
    expect(await examplesFor(await newKey(tenant, { scopes: ['settings:configure'] }))).toEqual([]);
    expect(await examplesFor(await newKey(tenant, { scopes: ['settings:configure', 'leads:view'] }))).toHaveLength(2);
  });

  test('keeps a retired field unique, also after it is restored', async () => {
    const { key } = await newTenant();
    await as(key).post(buildFieldsPath('leads'), { ...text, unique: true });
    await createRecord(key, 'leads', lead({ erp: 'A' }));
    const retire = (enabled: boolean) => as(key).patch(`${buildFieldsPath('leads')}/erp`, { enabled });
    expect((await retire(false)).field).toMatchObject({ unique: true, enabled: false });
    await retire(true);
    const error = await as(key).rejects(409, 'POST', '/v1/leads', {
      first_name: 'B',
      email: 'b@x.example',
      custom_fields: { erp: 'A' },
    });
    expect(error.code).toBe('ALREADY_EXISTS');
  });

  test('waits for concurrent writers and never admits a repeated value', async () => {
    for (let round = 0; round < 6; round += 1) {
      const tenant = await newTenant();
      const { key } = tenant;
      await newCustomField(tenant, 'leads', 'erp');
      const write = (turn: number): Promise<Answer> => {
        const body = lead({ erp: `E${turn % 12}` });
        return turn % 3 === 0
          ? call('POST', `${recordsPath('leads')}:batch`, { key, body: [body], idempotencyKey: true })
          : call('POST', recordsPath('leads'), { key, body, idempotencyKey: true });
      };
      const writing = Array.from({ length: 20 }, async (_, turn) => {
        // Every second writer starts while the field changes, or after that.
        if (turn % 2) await new Promise((resolve) => setImmediate(resolve));
        return write(turn);
      });
      const switching = call('PATCH', `${buildFieldsPath('leads')}/erp`, { key, body: { unique: true } });
      const answers = await Promise.all(writing);
      const { status } = await switching;
      expect([200, 409]).toContain(status);
      expect(answers.every((answer) => [200, 201, 409].includes(answer.status))).toBe(true);
      const [row] = await database()<{ repeated: number }[]>`
        select count(*)::int as repeated from (
          select from leads where company_id = ${tenant.companyId} group by custom ->> 'erp' having count(*) > 1
        ) values`;
      if (status === 200) expect(row?.repeated).toBe(0);
      else expect(row?.repeated).toBeGreaterThan(0);
    }
  });

  test('waits for an uncommitted write, and includes its value', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await newCustomField(tenant, 'activities', 'erp');
    const { id } = await createRecord(key, 'leads', lead());
    const body = { activity_type: 'Call', entity_type: 'lead', entity_id: id, summary: 'Called', erp: 'A' };
    const path = recordsPath('activities');
    await createRecord(key, 'activities', body);
    let writing: Promise<Answer> | undefined;
    let switching: Promise<Answer> | undefined;
    await database().begin(async (sql) => {
      // The activity is stored and then waits for its lead.
      await sql`select from leads where company_id = ${tenant.companyId} and id = ${id} for no key update`;
      writing = call('POST', path, { key, body, idempotencyKey: true });
      await vi.waitUntil(async () => (await blockedBy(sql)).length > 0, 10_000);
      switching = call('PATCH', `${buildFieldsPath('activities')}/erp`, { key, body: { unique: true } });
      await vi.waitUntil(async () => {
        const waiting = await sql`
          select from pg_locks l where locktype = 'advisory' and not granted
            and pg_blocking_pids(pid) && array(select b.pid from pg_locks b where pg_backend_pid() = any(pg_blocking_pids(b.pid)))`;
        return waiting.length > 0;
      }, 10_000);
    });
    expect((await writing)?.status).toBe(201);
    expect((await switching)?.status).toBe(409);
  });

  test('applies the new rule to a write that began before it, by retrying the write', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await newCustomField(tenant, 'leads', 'erp');
    const holder = await createRecord(key, 'leads', lead({ erp: 'A' }));
    const { id } = await createRecord(key, 'leads', lead({ erp: 'B' }));
    const changed: Promise<Answer>[] = [];
    await database().begin(async (sql) => {
      await sql`select from leads where company_id = ${tenant.companyId} and id = ${id} for update`;
      for (const erp of ['A', 'C'])
        changed.push(call('PATCH', recordsPath('leads', id), { key, body: { erp }, idempotencyKey: true }));
      // Once they wait for the record, they have loaded the old rules.
      await vi.waitUntil(async () => (await blockedBy(sql)).length > 0, 10_000);
      await unique(key);
    });
    const [refused, written] = await Promise.all(changed);
    expect(refused?.status).toBe(409);
    expect(refused?.body.error.details).toEqual({ matched_fields: ['erp'], existing_id: holder.id });
    expect(written?.status).toBe(200);
    expect(written?.body.data.record.erp).toBe('C');
  });
});

test('accepts repeated values immediately after a field stops being unique', async () => {
  const { key } = await newTenant();
  await as(key).post(buildFieldsPath('leads'), { ...text, unique: true });
  await createRecord(key, 'leads', lead({ erp: 'A' }));
  await expectStatus(409, 'POST', recordsPath('leads'), { key, body: lead({ erp: 'A' }), idempotencyKey: true });
  await as(key).patch(`${buildFieldsPath('leads')}/erp`, { unique: false });
  await createRecord(key, 'leads', lead({ erp: 'A' }));
});
