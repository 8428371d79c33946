// The filter grammar: each rule, and the error for each violation.
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import type { ReferenceFilter } from '../support/filter-reference.ts';
import { createRecord, createRecords, newCustomField, recordsPath, refusedFields, walk } from '../support/records.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
  await newCustomField(tenant, 'leads', 'size', { type: 'number' });
  await newCustomField(tenant, 'leads', 'vip', { type: 'boolean' });
  await newCustomField(tenant, 'leads', 'tier', { type: 'select', options: [{ value: 'gold' }] });
});

describe('the grammar', () => {
  const refused = (filter: unknown, object = 'leads') =>
    refusedFields(400, 'GET', recordsPath(object), {
      key: tenant.key,
      query: { filter: typeof filter === 'string' ? filter : JSON.stringify(filter) },
    });
  const condition = { field: 'first_name', op: 'eq', value: 'x' };
  const relative = (field: string, name: string) => ({ field, op: 'gte', value: { relative: name } });
  const nested = (depth: number): ReferenceFilter => (depth === 0 ? condition : { and: [nested(depth - 1)] });

  test.each([
    ['no JSON', '{"field"'],
    ['an empty text', ''],
    ['a list', [condition]],
    ['a text', '"x"'],
    ['an empty object', {}],
    ['an empty combinator', { and: [] }],
    ['a combinator that is no list', { or: condition }],
    ['two combinators in one object', { and: [condition], or: [condition] }],
    ['a combinator beside a condition', { ...condition, and: [condition] }],
    ['a further key', { ...condition, not: true }],
    ['a condition without a field', { op: 'eq', value: 'x' }],
    ['a member that is no object', { and: [condition, null] }],
    ['four combinators deep', nested(4)],
    ['not of a list', { not: [condition] }],
    ['not of nothing', { not: null }],
    ['not beside a condition', { ...condition, not: condition }],
    ['not on the fourth level', { and: [{ or: [{ not: { not: condition } }] }] }],
  ])('rejects the malformed filter: %s', async (_, filter) => {
    expect(await refused(filter)).toEqual(['filter INVALID_FORMAT']);
  });

  test('accepts three levels of combinators and 50 conditions, and rejects 51', async () => {
    const fifty = { or: Array.from({ length: 50 }, () => condition) };
    for (const filter of [nested(3), fifty])
      await expectStatus(200, 'GET', recordsPath('leads'), {
        key: tenant.key,
        query: { filter: JSON.stringify(filter) },
      });
    expect(await refused({ and: [fifty, condition] })).toEqual(['filter TOO_LONG']);
  });

  test.each([
    ['an unknown field', { field: 'colour', op: 'eq', value: 1 }, 'colour UNKNOWN_FIELD'],
    ['a field of the prototype', { field: '__proto__', op: 'eq', value: 1 }, '__proto__ UNKNOWN_FIELD'],
    ['an unknown operator', { ...condition, op: 'like' }, 'first_name INVALID_OPTION'],
    ['a missing operator', { field: 'first_name', value: 'x' }, 'first_name INVALID_OPTION'],
    ['contains on a number', { field: 'priority', op: 'contains', value: '1' }, 'priority INVALID_OPTION'],
    ['gt on a select', { field: 'lead_status', op: 'gt', value: 'New' }, 'lead_status INVALID_OPTION'],
    ['gt on a boolean', { field: 'vip', op: 'gt', value: true }, 'vip INVALID_OPTION'],
    ['a number for a text', { ...condition, value: 5 }, 'first_name INVALID_TYPE'],
    ['null for a text', { ...condition, value: null }, 'first_name INVALID_TYPE'],
    ['no value', { field: 'first_name', op: 'eq' }, 'first_name INVALID_TYPE'],
    ['an object for a text', { ...condition, value: {} }, 'first_name INVALID_TYPE'],
    ['NUL in a text', { ...condition, value: 'a\0b' }, 'first_name INVALID_FORMAT'],
    ['half a surrogate pair', { ...condition, value: 'a\ud800b' }, 'first_name INVALID_FORMAT'],
    ['a text for a number', { field: 'priority', op: 'eq', value: 'high' }, 'priority INVALID_TYPE'],
    ['an empty text for a number', { field: 'priority', op: 'eq', value: '' }, 'priority INVALID_TYPE'],
    ['a text for a custom number', { field: 'size', op: 'gt', value: 'big' }, 'size INVALID_TYPE'],
    ['a text for a boolean', { field: 'vip', op: 'eq', value: 'yes' }, 'vip INVALID_TYPE'],
    ['no time', { field: 'created_at', op: 'gt', value: 'yesterday' }, 'created_at INVALID_FORMAT'],
    ['no day', { field: 'created_at', op: 'gt', value: '2025-02-30' }, 'created_at INVALID_FORMAT'],
    ['an unknown status', { field: 'lead_status', op: 'eq', value: 'Nope' }, 'lead_status INVALID_OPTION'],
    ['an unknown option', { field: 'tier', op: 'in', value: ['gold', 'lead'] }, 'tier INVALID_OPTION'],
    ['an empty list', { ...condition, op: 'in', value: [] }, 'first_name INVALID_TYPE'],
    ['no list', { ...condition, op: 'in', value: 'x' }, 'first_name INVALID_TYPE'],
    ['101 values', { ...condition, op: 'in', value: Array(101).fill('x') }, 'first_name INVALID_TYPE'],
    ['a wrong value in a list', { field: 'priority', op: 'in', value: [1, 'x'] }, 'priority INVALID_TYPE'],
    ['101 values to avoid', { ...condition, op: 'not_in', value: Array(101).fill('x') }, 'first_name INVALID_TYPE'],
    ['no list to avoid', { field: 'priority', op: 'not_in', value: 1 }, 'priority INVALID_TYPE'],
    ['one bound', { field: 'priority', op: 'between', value: [1] }, 'priority INVALID_TYPE'],
    ['three bounds', { field: 'priority', op: 'between', value: [1, 2, 3] }, 'priority INVALID_TYPE'],
    ['a wrong bound', { field: 'priority', op: 'between', value: [1, 'x'] }, 'priority INVALID_TYPE'],
    ['an open bound', { field: 'priority', op: 'between', value: [null, 2] }, 'priority INVALID_TYPE'],
    [
      'between on a select',
      { field: 'lead_status', op: 'between', value: ['New', 'New'] },
      'lead_status INVALID_OPTION',
    ],
    ['starts_with on a number', { field: 'priority', op: 'starts_with', value: '1' }, 'priority INVALID_OPTION'],
    ['ends_with on a select', { field: 'tier', op: 'ends_with', value: 'g' }, 'tier INVALID_OPTION'],
    ['a number as a beginning', { ...condition, op: 'starts_with', value: 5 }, 'first_name INVALID_TYPE'],
    ['an unknown reading', { field: 'size', op: 'gt', value: 1, as: 'integer' }, 'size INVALID_OPTION'],
    [
      'a reading of a built-in field',
      { field: 'priority', op: 'gt', value: 1, as: 'number' },
      'priority CONFLICTING_FIELDS',
    ],
    ['a text read as a number', { field: 'size', op: 'gt', value: 'big', as: 'number' }, 'size INVALID_TYPE'],
    ['contains on a number read', { field: 'size', op: 'contains', value: '1', as: 'number' }, 'size INVALID_OPTION'],
    ['an unknown relative date', relative('created_at', 'next_week'), 'created_at INVALID_OPTION'],
    ['no days', relative('created_at', 'last_0_days'), 'created_at INVALID_OPTION'],
    ['more than ten years of days', relative('created_at', 'last_3651_days'), 'created_at INVALID_OPTION'],
    ['a name of the prototype', relative('created_at', 'toString'), 'created_at INVALID_OPTION'],
    [
      'a key beside relative',
      { ...relative('created_at', 'today'), value: { relative: 'today', days: 1 } },
      'created_at INVALID_OPTION',
    ],
    [
      'a relative date in a list',
      { field: 'created_at', op: 'in', value: [{ relative: 'today' }] },
      'created_at INVALID_TYPE',
    ],
    ['a relative date for a text', relative('first_name', 'today'), 'first_name INVALID_TYPE'],
    ['a relative date for a number', relative('priority', 'today'), 'priority INVALID_TYPE'],
    ['an actor that is a number', { field: 'updated_by', op: 'eq', value: 5 }, 'updated_by INVALID_TYPE'],
    ['is_null with a text', { field: 'priority', op: 'is_null', value: 'yes' }, 'priority INVALID_TYPE'],
  ])('rejects a condition and names its field: %s', async (_, filter, expected) => {
    expect(await refused(filter)).toEqual([expected]);
  });

  test('reports all problems of a filter together, with the existing fields and operators', async () => {
    const filter = {
      or: [
        { field: 'colour', op: 'eq', value: 1 },
        { field: 'priority', op: 'contains', value: 1 },
      ],
    };
    const { body } = await expectStatus(400, 'GET', recordsPath('leads'), {
      key: tenant.key,
      query: { filter: JSON.stringify(filter), sort: 'flavour' },
    });
    const [flavour, colour, priority] = body.error.details.fields;
    expect(flavour).toMatchObject({ field: 'flavour', code: 'UNKNOWN_FIELD' });
    expect(colour.message).toBe('filter: colour is not a field of leads.');
    expect(colour.allowed).toEqual(
      expect.arrayContaining(['first_name', 'tier', 'id', 'created_at', 'updated_at', 'created_by', 'updated_by']),
    );
    expect(priority.allowed).toEqual(['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'between', 'in', 'not_in', 'is_null']);
  });

  test('compares ids as text, so a malformed id matches no record and is no error', async () => {
    const [lead] = await createRecords(tenant.key, 'leads', [
      { first_name: 'A', email: 'a@x.example' },
      { first_name: 'B', email: 'b@x.example' },
      { first_name: 'C', email: 'c@x.example' },
    ]);
    const count = async (op: string, value: unknown) =>
      (await walk(tenant.key, 'leads', { limit: 100, filter: JSON.stringify({ field: 'id', op, value }) })).length;
    const total = 3;
    expect(await count('eq', lead.id)).toBe(1);
    expect(await count('eq', 'no id')).toBe(0);
    expect(await count('neq', 'no id')).toBe(total);
    expect(await count('in', ['no id', lead.id])).toBe(1);
    expect(await count('in', ['no id'])).toBe(0);
    expect(await count('contains', lead.id.slice(9, 20))).toBeGreaterThan(0);
    expect((await count('gte', lead.id)) + (await count('lt', lead.id))).toBe(total);
  });

  test('treats LIKE wildcards in starts_with and ends_with as ordinary characters', async () => {
    const other = await newTenant();
    const names = ['50%_off', '50 off', 'x\\_', 'x_'];
    await createRecords(
      other.key,
      'leads',
      names.map((first_name, index) => ({ first_name, email: `${index}_%@x.example` })),
    );
    const findNames = async (field: string, op: string, value: string) => {
      const rows = await walk(other.key, 'leads', { limit: 100, filter: JSON.stringify({ field, op, value }) });
      return rows.map((record) => record.first_name).sort();
    };
    expect(await findNames('first_name', 'starts_with', '50%')).toEqual(['50%_off']);
    expect(await findNames('first_name', 'starts_with', '50_')).toEqual([]);
    expect(await findNames('first_name', 'ends_with', '\\_')).toEqual(['x\\_']);
    expect(await findNames('first_name', 'ends_with', '_OFF')).toEqual(['50%_off']);
    expect(await findNames('email', 'starts_with', '0_%@X')).toEqual(['50%_off']);
    expect(await findNames('email', 'starts_with', '_')).toEqual([]);
  });

  test('keeps a cursor with a relative date valid when the day changes', async () => {
    const other = await newTenant();
    await createRecords(
      other.key,
      'leads',
      ['a', 'b', 'c'].map((first_name) => ({ first_name, email: `${first_name}@x.example` })),
    );
    const ask = async (cursor?: string) => {
      const filter = JSON.stringify({ field: 'created_at', op: 'eq', value: { relative: 'last_2_days' } });
      const query = { filter, limit: 2, ...(cursor ? { cursor } : {}) };
      const { body } = await expectStatus(200, 'GET', recordsPath('leads'), { key: other.key, query });
      return body.data;
    };
    const first = await ask();
    // A change of the time zone changes the day, as midnight does.
    await database()`update companies set timezone = 'Pacific/Kiritimati' where id = ${other.companyId}`;
    expect((await ask(first.next_cursor)).records.length).toBe(1);
  });

  test('rejects disabled fields in filters, and prefers a built-in field to a custom field of the same name', async () => {
    const other = await newTenant();
    await newCustomField(other, 'leads', 'retired', { enabled: false });
    await newCustomField(other, 'leads', 'city', { type: 'number' });
    await database()`insert into field_overrides (company_id, object, name, enabled, updated_at) values (${other.companyId}, 'leads', 'state', false, now())`;
    const lead = await createRecord(other.key, 'leads', { first_name: 'A', email: 'a@x.example', city: 'Berlin' });
    const ask = (field: string) => ({
      key: other.key,
      query: { filter: JSON.stringify({ field, op: 'eq', value: 'Berlin' }) },
    });
    expect(await refusedFields(400, 'GET', recordsPath('leads'), ask('retired'))).toEqual(['retired UNKNOWN_FIELD']);
    expect(await refusedFields(400, 'GET', recordsPath('leads'), ask('state'))).toEqual(['state UNKNOWN_FIELD']);
    const { body } = await expectStatus(200, 'GET', recordsPath('leads'), ask('city'));
    expect(body.data.records.map((record: Json) => record.id)).toEqual([lead.id]);
  });
});
