// References of records: what they accept, and the outcome if the other record is deleted.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  lead,
  leftBehind,
  newCustomObject,
  readRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newCustomObject(tenant, 'visits');
});

const refusedCreate = (object: string, body: unknown, withKey = key) =>
  refusedFields(422, 'POST', recordsPath(object), { key: withKey, body, idempotencyKey: true });

describe('references', () => {
  test('accepts visible records of the same tenant and mode, and active users, as references', async () => {
    const other = await newTenant();
    const branch = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branch}, 'North', now())`;
    const narrow = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
    const inactive = await newUser(tenant, { status: 'inactive' });
    const foreign = await newUser(other);
    const account = { name: 'A' };
    const mine = await createRecord(key, 'accounts', account);
    const hidden = [
      (await createRecord(other.key, 'accounts', account)).id,
      (await createRecord(tenant.testKey, 'accounts', account)).id,
      randomUUID(),
    ];
    for (const id of hidden) {
      expect(await refusedCreate('deals', { name: 'D', account_id: id })).toEqual(['account_id NOT_FOUND']);
      expect(
        await refusedCreate('tasks', { title: 'T', scheduled_at: '2027-01-01', object: 'accounts', record_id: id }),
      ).toEqual(['record_id NOT_FOUND']);
      expect(
        await refusedCreate('activities', { activity_type: 'Call', entity_type: 'deal', entity_id: id, summary: 'x' }),
      ).toEqual(['entity_id NOT_FOUND']);
    }
    expect(await refusedCreate('deals', { name: 'D', account_id: mine.id }, narrow)).toEqual(['account_id NOT_FOUND']);
    for (const id of [inactive.id, foreign.id, randomUUID()])
      expect(await refusedCreate('deals', { name: 'D', assigned_to: id })).toEqual(['assigned_to NOT_FOUND']);
    for (const { email } of [inactive, foreign])
      expect(await refusedCreate('deals', { name: 'D', assigned_to_email: email })).toEqual([
        'assigned_to_email NOT_FOUND',
      ]);
    const deal = await createRecord(key, 'deals', { name: 'D', account_id: mine.id.toUpperCase() });
    expect(deal.account_id).toBe(mine.id);
    expect(
      await refusedFields(422, 'PATCH', recordsPath('deals', deal.id), {
        key,
        body: { account_id: hidden[0], customer_id: hidden[2] },
      }),
    ).toEqual(['account_id NOT_FOUND', 'customer_id NOT_FOUND']);
    const visit = await createRecord(key, 'object:visits', { name: 'V' });
    expect(
      await createRecord(key, 'tasks', {
        title: 'T',
        scheduled_at: '2027-01-01',
        object: 'object:visits',
        record_id: visit.id,
      }),
    ).toMatchObject({ object: 'object:visits', record_id: visit.id });
  });

  test('clears references to a deleted record, and deletes its activities, tasks and tags', async () => {
    const account = await createRecord(key, 'accounts', { name: 'A' });
    const source = await createRecord(key, 'leads', lead());
    const deal = await createRecord(key, 'deals', { name: 'D', account_id: account.id, lead_id: source.id });
    const activity = await createRecord(key, 'activities', {
      activity_type: 'Call',
      entity_type: 'lead',
      entity_id: source.id,
      summary: 'x',
    });
    const kept = await createRecord(key, 'activities', {
      activity_type: 'Call',
      entity_type: 'deal',
      entity_id: deal.id,
      summary: 'x',
    });
    const task = await createRecord(key, 'tasks', {
      title: 'T',
      scheduled_at: '2027-01-01',
      object: 'leads',
      record_id: source.id,
    });
    const [tag] = [randomUUID()];
    const sql = database();
    await sql`insert into tags (company_id, id, object, name, created_at, updated_at) values (${tenant.companyId}, ${tag}, 'leads', ${tag}, now(), now())`;
    await sql`insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual) values (${tenant.companyId}, false, 'leads', ${source.id}, ${tag}, true)`;
    for (const [object, id] of [
      ['accounts', account.id],
      ['leads', source.id],
    ] as const)
      await expectStatus(200, 'DELETE', recordsPath(object, id), { key });
    expect(await readRecord(key, 'deals', deal.id)).toMatchObject({ account_id: null, lead_id: null });
    await expectStatus(404, 'GET', recordsPath('activities', activity.id), { key });
    await expectStatus(404, 'GET', recordsPath('tasks', task.id), { key });
    await readRecord(key, 'activities', kept.id);
    expect(await sql`select from record_tags where record_id = ${source.id}`).toHaveLength(0);
    const { audit, events } = await leftBehind(source.id);
    expect(audit[audit.length - 1]).toMatchObject({ action: 'lead.delete', metadata: { activities: 1, tasks: 1 } });
    expect(events[events.length - 1].event).toBe('record.deleted');
    expect((await leftBehind(activity.id)).events.map((row) => row.event)).toEqual([
      'record.created',
      'record.deleted',
    ]);
  });
});

describe('foreign ids', () => {
  test('returns the same 404 for ids that are foreign, of the other mode, deleted, random or malformed', async () => {
    const other = await newTenant();
    const record = { name: 'A' };
    const deleted = await createRecord(key, 'accounts', record);
    await expectStatus(200, 'DELETE', recordsPath('accounts', deleted.id), { key });
    const foreign = await createRecord(other.key, 'accounts', record);
    const test = await createRecord(tenant.testKey, 'accounts', record);
    const wrongObject = await createRecord(key, 'deals', { name: 'D' });
    const errors: Json[] = [];
    for (const id of [foreign.id, test.id, deleted.id, wrongObject.id, randomUUID(), 'not-an-id', '1']) {
      for (const method of ['GET', 'PATCH', 'DELETE'])
        errors.push(
          (
            await expectStatus(404, method, recordsPath('accounts', id), {
              key,
              ...(method === 'PATCH' ? { body: { name: 'B' } } : {}),
            })
          ).body.error,
        );
    }
    expect(new Set(errors.map((error) => JSON.stringify(error)))).toEqual(new Set([JSON.stringify(errors[0])]));
    expect((await readRecord(other.key, 'accounts', foreign.id)).name).toBe('A');
    expect((await readRecord(tenant.testKey, 'accounts', test.id)).name).toBe('A');
  });
});

test('locks no row that the whole company shares when a record is created', async () => {
  const referring = await database()`
    select conrelid::regclass::text as table from pg_constraint
    where contype = 'f' and confrelid = 'companies'::regclass
      and conrelid = any('{leads,deals,customers,accounts,tasks,activities,custom_records}'::regclass[])`;
  expect(referring).toEqual([]);
  const undo = new Error('undo');
  const adding = database().begin(async (sql) => {
    await sql`
      insert into leads (company_id, test_mode, id, first_name, created_by_kind, created_by_id, created_at, updated_at)
      values (${tenant.companyId}, false, ${randomUUID()}, 'Lead', 'system', 'x', now(), now())`;
    // Locks on another connection without waiting.
    expect(await database()`select from companies where id = ${tenant.companyId} for update nowait`).toHaveLength(1);
    throw undo;
  });
  await expect(adding).rejects.toBe(undo);
});
