// The filter grammar: every rule of it, refused by name.
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
  ])('refuses %s', async (_, filter) => {
    expect(await refused(filter)).toEqual(['filter INVALID_FORMAT']);
  });

  test('takes three combinators deep and 50 conditions, and refuses 51', async () => {
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
    ['is_null with a text', { field: 'priority', op: 'is_null', value: 'yes' }, 'priority INVALID_TYPE'],
  ])('refuses %s and names the field', async (_, filter, expected) => {
    expect(await refused(filter)).toEqual([expected]);
  });

  test('names every problem at once, with the fields and operators that there are', async () => {
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
    expect(colour.allowed).toEqual(expect.arrayContaining(['first_name', 'tier', 'id', 'created_at', 'updated_at']));
    expect(priority.allowed).toEqual(['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'is_null']);
  });

  test('an id is compared as text: what is none equals no record and is no failure', async () => {
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

  test('a field that is switched off, or that collides with a built-in one, is unknown or means the built-in one', async () => {
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
