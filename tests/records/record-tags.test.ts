// Tags on leads and customers: manual ones, besides those added by conditions.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { audited, createRecord, patchRecord } from '../support/records.ts';
import { createSetting } from '../support/settings.ts';
import { newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
/** Its condition holds for priority 1. */
let urgent: Json;
let manual: Json;

beforeAll(async () => {
  tenant = await newTenant();
  const condition = { field: 'priority', operator: 'eq', value: 1 };
  urgent = await createSetting(tenant, '/v1/settings/tags/leads', {
    name: 'Urgent',
    color: '#DC2626',
    priority: 1,
    fields: [condition],
  });
  manual = await createSetting(tenant, '/v1/settings/tags/customers', {
    name: 'Key account',
    color: '#111111',
    priority: 5,
    fields: ['city'],
  });
});

const newLead = (more: object = {}): Promise<Json> =>
  createRecord(tenant.key, 'leads', { first_name: 'Sara', email: `${randomUUID()}@x.example`, priority: 3, ...more });
const buildPath = (id: string, tagId?: string, object = 'leads'): string =>
  `/v1/objects/${object}/records/${id}/tags${tagId === undefined ? '' : `/${tagId}`}`;
const listTags = async (id: string, object?: string, key = tenant.key): Promise<Json[]> =>
  (await expectStatus(200, 'GET', buildPath(id, undefined, object), { key })).body.data.tags;
const put = (id: string, name: string, key = tenant.key, object?: string): Promise<Answer> =>
  call('POST', buildPath(id, undefined, object), { key, body: { name } });
const take = (id: string, tagId: string, key = tenant.key): Promise<Answer> =>
  call('DELETE', buildPath(id, tagId), { key });

describe('a tag', () => {
  test('adds a tag by name once, in any case, and keeps it when the record changes', async () => {
    const { id } = await newLead();
    const first = await put(id, 'urgent');
    expect(first.status).toBe(201);
    const shown = { id: urgent.id, name: 'Urgent', color: '#DC2626', priority: 1, is_manual: true };
    expect(first.body.data.tag).toEqual(shown);
    const second = await put(id, 'Urgent');
    expect(second.body.data.tag).toEqual(shown);
    expect(await audited(first)).toMatchObject([{ action: 'record.tag', record_id: id }]);
    expect(await audited(second)).toEqual([]);
    await patchRecord(tenant.key, 'leads', id, { priority: 1 });
    await patchRecord(tenant.key, 'leads', id, { priority: 2 });
    expect(await listTags(id)).toEqual([shown]);
  });

  test('keeps a tag that was added both by conditions and by hand, and rejects removing one added by conditions only', async () => {
    const { id } = await newLead({ priority: 1 });
    expect(await listTags(id)).toMatchObject([{ id: urgent.id, is_manual: false }]);
    const refused = await take(id, urgent.id);
    expect(refused.status).toBe(409);
    expect(refused.body.error.details.reason).toBe('automatic_tag');
    await put(id, 'Urgent');
    const kept = await take(id, urgent.id);
    expect(kept.body.data).toEqual({ id: urgent.id, deleted: false });
    expect(await listTags(id)).toMatchObject([{ id: urgent.id, is_manual: false }]);
    await patchRecord(tenant.key, 'leads', id, { priority: 2 });
    expect(await listTags(id)).toEqual([]);
  });

  test('removes a tag, and returns 404 for a missing one', async () => {
    const { id } = await newLead();
    await put(id, 'Urgent');
    const gone = await take(id, urgent.id);
    expect(gone.body.data).toEqual({ id: urgent.id, deleted: true });
    expect(await audited(gone)).toMatchObject([{ action: 'record.untag', record_id: id }]);
    expect(await listTags(id)).toEqual([]);
    expect((await take(id, urgent.id)).status).toBe(404);
  });

  test('limits customer tags to customers', async () => {
    const { id } = await createRecord(tenant.key, 'customers', {
      first_name: 'Sara',
      email: `${randomUUID()}@x.example`,
    });
    expect((await put(id, 'Key account', tenant.key, 'customers')).status).toBe(201);
    expect(await listTags(id, 'customers')).toMatchObject([{ id: manual.id, is_manual: true }]);
    const { status, body } = await put(id, 'Urgent', tenant.key, 'customers');
    expect(status).toBe(422);
    expect(body.error.details.fields).toMatchObject([
      { field: 'name', code: 'INVALID_OPTION', allowed: ['Key account'] },
    ]);
  });

  test('adds a tag once for concurrent calls', async () => {
    const { id } = await newLead();
    const answers = await Promise.all(Array.from({ length: 16 }, () => put(id, 'Urgent')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(await listTags(id)).toHaveLength(1);
    const audits = await Promise.all(answers.map(audited));
    expect(audits.flat()).toHaveLength(1);
  });
});

describe('errors of tagging', () => {
  test('returns 404 for tags of invisible records, and requires the edit scope to tag', async () => {
    const { id } = await newLead();
    const other = await newTenant();
    expect((await put(id, 'Urgent', other.key)).status).toBe(404);
    expect((await put(id, 'Urgent', tenant.testKey)).status).toBe(404);
    expect((await call('GET', buildPath(id), { key: other.key })).status).toBe(404);
    const viewer = await newKey(tenant, { scopes: ['leads:view'] });
    expect((await put(id, 'Urgent', viewer)).body.error.code).toBe('FORBIDDEN_SCOPE');
    expect((await take(id, urgent.id, viewer)).body.error.code).toBe('FORBIDDEN_SCOPE');
    expect(await listTags(id, 'leads', viewer)).toEqual([]);
  });

  test('rejects tags on an object without tags', async () => {
    const { id } = await createRecord(tenant.key, 'accounts', { name: 'Blue Lake' });
    const { status, body } = await put(id, 'Urgent', tenant.key, 'accounts');
    expect(status).toBe(422);
    expect(body.error.details.fields).toMatchObject([{ field: 'name', code: 'INVALID_OPTION' }]);
    expect(await listTags(id, 'accounts')).toEqual([]);
  });
});
