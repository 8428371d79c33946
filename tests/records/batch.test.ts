// Batch creates: each item alone, and no item if the call itself is rejected.

import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { recordedEvents } from '../support/events.ts';
import {
  createRecord,
  leftBehind,
  listProblems,
  newCustomField,
  newCustomObject,
  readRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { database, newKey, newTenant, newUser } from '../support/tenants.ts';

const batchPath = (object: string) => `${recordsPath(object)}:batch`;
const send = async (key: string, object: string, body: unknown): Promise<Json> =>
  (await expectStatus(200, 'POST', batchPath(object), { key, body, idempotencyKey: true })).body.data;

describe('items', () => {
  test('creates each item of a batch alone, and reports its index in the sent list', async () => {
    const { key } = await newTenant();
    const account = await createRecord(key, 'accounts', { name: 'A' });
    const data = await send(key, 'deals', [
      { name: 'First', account_id: account.id },
      { amount_minor: 'much', colour: 'red' },
      { name: 'Third', account_id: randomUUID() },
      'no object',
      null,
      [],
      { name: 'Last', stage: 'won' },
    ]);
    expect(data).toMatchObject({ object: 'deals', succeeded_count: 2, failed_count: 5 });
    expect(data.succeeded.map((item: Json) => [item.index, item.record.name])).toEqual([
      [0, 'First'],
      [6, 'Last'],
    ]);
    expect(data.succeeded[1].record.won_at).toBe(data.succeeded[1].record.created_at);
    const failed = data.failed.map((item: Json) => [item.index, item.code, ...listProblems(item).sort()]);
    expect(failed).toEqual([
      [1, 'VALIDATION_ERROR', 'amount_minor INVALID_TYPE', 'colour UNKNOWN_FIELD', 'name REQUIRED'],
      [2, 'VALIDATION_ERROR', 'account_id NOT_FOUND'],
      [3, 'VALIDATION_ERROR', ' INVALID_TYPE'],
      [4, 'VALIDATION_ERROR', ' INVALID_TYPE'],
      [5, 'VALIDATION_ERROR', ' INVALID_TYPE'],
    ]);
    expect(await walk(key, 'deals')).toHaveLength(2);
  });

  test('returns created items as they read back, each with an audit row and an event', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const visits = await newCustomObject(tenant, 'visits');
    await newCustomField(tenant, visits, 'size', { type: 'number' });
    const data = await send(key, visits, {
      records: Array.from({ length: 100 }, (_, index) => ({ name: `V${index}`, size: index })),
    });
    expect(data).toMatchObject({ succeeded_count: 100, failed_count: 0, failed: [] });
    for (const { index, record } of [data.succeeded[0], data.succeeded[57], data.succeeded[99]]) {
      expect(record).toMatchObject({ name: `V${index}`, size: index });
      expect(await readRecord(key, visits, record.id)).toEqual(record);
      const { audit, events } = await leftBehind(record.id);
      expect(audit.map((row) => row.action)).toEqual(['record.create']);
      expect(events.map((row) => row.event)).toEqual(['record.created']);
    }
    const [counts] =
      await database()`select count(*)::int as events from ${recordedEvents(database())} where company_id = ${tenant.companyId}`;
    expect(counts).toEqual({ events: 100 });
  });

  test('returns an empty list of succeeded or failed items', async () => {
    const { key } = await newTenant();
    expect(await send(key, 'accounts', [{}, {}])).toMatchObject({ succeeded_count: 0, failed_count: 2, succeeded: [] });
    expect(await send(key, 'accounts', [{ name: 'A' }])).toMatchObject({ succeeded_count: 1, failed: [] });
  });

  test('applies the side effects of single creates to batches: assignment by email, and activities that move their lead', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const user = await newUser(tenant);
    const leads = await send(key, 'leads', [
      { first_name: 'A', email: 'a@x.example', assigned_to_email: user.email },
      { first_name: 'B', email: 'b@x.example', assigned_to_email: 'nobody@x.example' },
    ]);
    expect(leads.succeeded[0].record.assigned_to).toBe(user.id);
    expect(leads.failed[0].details.fields[0]).toMatchObject({ field: 'assigned_to_email', code: 'NOT_FOUND' });
    const { id } = leads.succeeded[0].record;
    const activity = { entity_type: 'lead', entity_id: id, activity_type: 'Call', summary: 'x' };
    await send(key, 'activities', [
      { ...activity, performed_at: '2026-03-03T00:00:00Z', followup_at: '2030-03-03' },
      { ...activity, performed_at: '2026-05-05T00:00:00Z', followup_at: '2030-02-02' },
      { ...activity, performed_at: '2026-04-04T00:00:00Z' },
      { ...activity, activity_type: 'Note', performed_at: '2026-06-06T00:00:00Z' },
    ]);
    expect(await readRecord(key, 'leads', id)).toMatchObject({
      last_contacted_at: '2026-06-06T00:00:00.000Z',
      next_followup_at: '2030-02-02T00:00:00.000Z',
    });
  });

  test('fails an item that repeats an earlier one on the selected fields, and ignores stored records', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await newCustomField(tenant, 'leads', 'tax_id');
    await createRecord(key, 'leads', { first_name: 'Stored', email: 'a@x.example', tax_id: '1' });
    const items = [
      { first_name: 'A', email: 'a@x.example', tax_id: '1' },
      { first_name: 'B', email: 'b@x.example', tax_id: '1' },
      { first_name: 'C', email: 'A@X.example', tax_id: '1' },
      { email: 'd@x.example', tax_id: '2' },
      { first_name: 'E', email: 'd@x.example', tax_id: '2' },
      { first_name: 'F', mobile: '+4930123456', tax_id: '2' },
      { first_name: 'G', mobile: '+4930123456' },
    ];
    expect(
      (
        await send(
          key,
          'leads',
          items.filter((item) => item.first_name),
        )
      ).failed,
    ).toEqual([]);
    await database()`update duplicate_checks set enabled = true, fields = '{email,tax_id}' where company_id = ${tenant.companyId} and object = 'leads'`;
    const data = await send(key, 'leads', items);
    expect(data.succeeded.map((item: Json) => item.index)).toEqual([0, 1, 4, 6]);
    const failed = new Map(data.failed.map((item: Json) => [item.index, item]));
    expect(failed.get(2)).toEqual({
      index: 2,
      code: 'DUPLICATE_IN_BATCH',
      message: 'Duplicates the item at index 0 of this batch.',
    });
    // Item 3 is not stored, so item 4 repeats no item. Item 5 has no email, and matches item 4 on
    // its other selected fields.
    expect(failed.get(3)).toMatchObject({ code: 'VALIDATION_ERROR' });
    expect(failed.get(5)).toMatchObject({ code: 'DUPLICATE_IN_BATCH', message: expect.stringContaining('index 4') });
  });
});

describe('rejection of the whole call', () => {
  test('rejects a batch without a list, with an empty list and with 101 items, and writes nothing', async () => {
    const { key } = await newTenant();
    const refused = (body: unknown) =>
      refusedFields(422, 'POST', batchPath('accounts'), { key, body, idempotencyKey: true });
    const item = { name: 'A' };
    expect(await refused([])).toEqual([' TOO_SHORT']);
    expect(await refused({ records: [] })).toEqual(['records TOO_SHORT']);
    expect(await refused({})).toEqual(['records REQUIRED']);
    expect(await refused({ records: 'A' })).toEqual(['records INVALID_TYPE']);
    expect(await refused({ records: item })).toEqual(['records INVALID_TYPE']);
    expect(await refused({ records: [item], atomic: 1 })).toEqual(['atomic INVALID_TYPE']);
    expect(await refused(Array(101).fill(item))).toEqual([' TOO_LONG']);
    expect(await refused({ records: Array(101).fill(item) })).toEqual(['records TOO_LONG']);
    expect(await walk(key, 'accounts')).toEqual([]);
    expect((await send(key, 'accounts', Array(100).fill(item))).succeeded_count).toBe(100);
  });

  test('requires a credential, the create scope and a visible object for a batch', async () => {
    const tenant = await newTenant();
    const body = [{ name: 'A' }];
    const keyless = await expectStatus(428, 'POST', batchPath('accounts'), { key: tenant.key, body });
    expect(keyless.body.error.code).toBe('IDEMPOTENCY_KEY_REQUIRED');
    const viewer = await newKey(tenant, { scopes: ['accounts:view'] });
    const refused = await expectStatus(403, 'POST', batchPath('accounts'), { key: viewer, body, idempotencyKey: true });
    expect(refused.body.error.details.required_scopes).toEqual(['accounts:create']);
    await expectStatus(404, 'POST', batchPath('deals'), { key: viewer, body, idempotencyKey: true });
    await expectStatus(404, 'POST', batchPath('object:nothing'), { key: tenant.key, body, idempotencyKey: true });
    await expectStatus(400, 'POST', batchPath('accounts'), {
      key: tenant.key,
      rawBody: '[{"name":',
      idempotencyKey: true,
    });
    expect(await walk(tenant.key, 'accounts')).toEqual([]);
  });

  test('replays a batch under its key without storing anything again', async () => {
    const { key } = await newTenant();
    const options = { key, body: [{ name: 'A' }, {}], idempotencyKey: randomUUID() };
    const first = await expectStatus(200, 'POST', batchPath('accounts'), options);
    const again = await expectStatus(200, 'POST', batchPath('accounts'), options);
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotent-replay')).toBe('true');
    const other = await expectStatus(422, 'POST', batchPath('accounts'), { ...options, body: [{ name: 'B' }] });
    expect(other.body.error.code).toBe('IDEMPOTENCY_CONFLICT');
    expect(await walk(key, 'accounts')).toHaveLength(1);
  });
});
