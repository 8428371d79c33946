// Updates of a record: only sent fields change, and an update without a change writes nothing.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import {
  createRecord,
  lead,
  leftBehind,
  newCustomField,
  newCustomObject,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
} from '../support/records.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  await newCustomObject(tenant, 'visits');
  for (const object of ['leads', 'object:visits']) {
    await newCustomField(tenant, object, 'size', { type: 'number' });
    await newCustomField(tenant, object, 'vip', { type: 'boolean' });
    await newCustomField(tenant, object, 'tier', { type: 'select', options: [{ value: 'gold' }, { value: 'silver' }] });
    await newCustomField(tenant, object, 'constructor');
  }
});

describe('change', () => {
  test('merges custom fields, and clears a custom field with null', async () => {
    const record = await createRecord(key, 'leads', lead({ size: 5, vip: true, tier: 'gold' }));
    expect(await patchRecord(key, 'leads', record.id, { vip: null, tier: 'silver' })).toMatchObject({
      size: 5,
      vip: null,
      tier: 'silver',
    });
    const [row] = await database()`select custom, version from leads where id = ${record.id}`;
    expect(row).toEqual({ custom: { size: 5, tier: 'silver' }, version: 2 });
  });

  test('rejects clearing required fields, and keeps email or mobile', async () => {
    const record = await createRecord(key, 'leads', lead({ mobile: '+4930123456' }));
    const refused = (body: object) => refusedFields(422, 'PATCH', recordsPath('leads', record.id), { key, body });
    expect(await refused({ first_name: null })).toEqual(['first_name REQUIRED']);
    expect(await refused({ email: null, mobile: '' })).toEqual(['email REQUIRED']);
    const { email } = await patchRecord(key, 'leads', record.id, { email: null });
    expect(email).toBeNull();
    expect(await refused({ mobile: null })).toEqual(['email REQUIRED']);
    const visit = await createRecord(key, 'object:visits', { name: 'V' });
    expect(
      await refusedFields(422, 'PATCH', recordsPath('object:visits', visit.id), { key, body: { name: null } }),
    ).toEqual(['name REQUIRED']);
  });

  test('writes nothing for an update that changes nothing', async () => {
    const record = await createRecord(key, 'leads', lead({ size: 5, priority: 2 }));
    const same = {
      first_name: 'Sara',
      email: record.email.toUpperCase(),
      size: '5',
      priority: '2',
      lead_status: 'NEW',
      city: null,
      tier: null,
    };
    for (const body of [same, {}]) expect(await patchRecord(key, 'leads', record.id, body)).toEqual(record);
    const { audit, events } = await leftBehind(record.id);
    expect(audit).toHaveLength(1);
    expect(events).toHaveLength(1);
    const [row] = await database()`select version from leads where id = ${record.id}`;
    expect(row?.version).toBe(1);
  });

  test('records both values in the audit row, with only the last digits of phone numbers', async () => {
    const record = await createRecord(key, 'leads', lead({ mobile: '+4930123456' }));
    await patchRecord(key, 'leads', record.id, { mobile: '+4930654321', lead_status: 'Qualified' });
    const { audit, events } = await leftBehind(record.id);
    expect(audit[1].changes).toMatchObject({
      mobile: { from: '…3456', to: '…4321' },
      lead_status: { from: 'New', to: 'Qualified' },
      lead_status_id: { from: record.lead_status_id, to: expect.any(String) },
    });
    expect(events[1].data.changed_fields.sort()).toEqual(['lead_status', 'lead_status_id', 'mobile']);
    expect(JSON.stringify(audit)).not.toContain('0654321');
  });

  test('requires the edit scope to update and the delete scope to delete', async () => {
    const record = await createRecord(key, 'accounts', { name: 'A' });
    const viewer = await newKey(tenant, { scopes: ['accounts:view', 'accounts:create'] });
    const path = recordsPath('accounts', record.id);
    const patch = await expectStatus(403, 'PATCH', path, { key: viewer, body: { name: 'B' } });
    expect(patch.body.error.details.required_scopes).toEqual(['accounts:edit']);
    const remove = await expectStatus(403, 'DELETE', path, { key: viewer });
    expect(remove.body.error.details.required_scopes).toEqual(['accounts:delete']);
    expect(await readRecord(viewer, 'accounts', record.id)).toEqual(record);
  });

  test('replays updates and deletions under their Idempotency-Key without repeating them', async () => {
    const record = await createRecord(key, 'accounts', { name: 'A' });
    const path = recordsPath('accounts', record.id);
    const [change, remove] = [randomUUID(), randomUUID()];
    const first = await expectStatus(200, 'PATCH', path, { key, body: { name: 'B' }, idempotencyKey: change });
    await patchRecord(key, 'accounts', record.id, { name: 'C' });
    const again = await expectStatus(200, 'PATCH', path, { key, body: { name: 'B' }, idempotencyKey: change });
    expect(again.text).toBe(first.text);
    expect((await readRecord(key, 'accounts', record.id)).name).toBe('C');
    const gone = await expectStatus(200, 'DELETE', path, { key, idempotencyKey: remove });
    expect((await expectStatus(200, 'DELETE', path, { key, idempotencyKey: remove })).text).toBe(gone.text);
    await expectStatus(404, 'DELETE', path, { key });
  });
});
