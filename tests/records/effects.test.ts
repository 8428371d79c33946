// Side effects of writing a record: timestamps, moved records, duplicate checks and races.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import {
  createRecord,
  createRecords,
  lead,
  leftBehind,
  newCustomField,
  patchRecord,
  readRecord,
  recordsPath,
  refusedFields,
  walk,
} from '../support/records.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

describe('statuses', () => {
  test('sets won_at or lost_at by the outcome of a stage with any name, and clears them when the deal leaves it', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await database()`update statuses set name = 'Signed' where company_id = ${tenant.companyId} and object = 'deals' and name = 'Won'`;
    const deal = await createRecord(key, 'deals', { name: 'D' });
    expect(deal).toMatchObject({ stage: 'New', won_at: null, lost_at: null, stage_changed_at: deal.created_at });
    const won = await patchRecord(key, 'deals', deal.id, { stage: 'signed' });
    expect(won).toMatchObject({
      stage: 'Signed',
      won_at: won.updated_at,
      lost_at: null,
      stage_changed_at: won.updated_at,
    });
    const { events } = await leftBehind(deal.id);
    expect(events[1].data.changed_fields.sort()).toEqual([
      'probability',
      'stage',
      'stage_changed_at',
      'stage_id',
      'won_at',
    ]);
    const same = await patchRecord(key, 'deals', deal.id, { stage: 'Signed', description: 'x' });
    expect(same).toMatchObject({ won_at: won.won_at, stage_changed_at: won.stage_changed_at });
    const lost = await patchRecord(key, 'deals', deal.id, { stage: 'Lost', lost_reason: 'Price' });
    expect(lost).toMatchObject({ won_at: null, lost_at: lost.updated_at });
    expect(await patchRecord(key, 'deals', deal.id, { stage: 'Proposal' })).toMatchObject({
      won_at: null,
      lost_at: null,
    });
    const born = await createRecord(key, 'deals', { name: 'D', stage: 'Signed' });
    expect(born.won_at).toBe(born.created_at);
  });

  test('sets and clears converted_at by the lead status, and completed_at by the task status', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const converted = await patchRecord(key, 'leads', id, { lead_status: 'Converted' });
    expect(converted.converted_at).toBe(converted.updated_at);
    expect((await patchRecord(key, 'leads', id, { lead_status: 'Qualified' })).converted_at).toBeNull();
    const task = await createRecord(key, 'tasks', { title: 'T', scheduled_at: '2027-01-01' });
    expect(task).toMatchObject({ status: 'open', completed_at: null });
    const completed = await patchRecord(key, 'tasks', task.id, { status: 'completed' });
    expect(completed.completed_at).toBe(completed.updated_at);
    expect((await patchRecord(key, 'tasks', task.id, { status: 'in_progress' })).completed_at).toBeNull();
  });
});

describe('activities', () => {
  const log = (key: string, entityId: string, more: object = {}) =>
    createRecord(key, 'activities', {
      activity_type: 'Call',
      entity_type: 'lead',
      entity_id: entityId,
      summary: 'x',
      ...more,
    });

  test('moves last_contacted_at forward but never back, and sets next_followup_at if given', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const entity = () => readRecord(key, 'leads', id);
    await log(key, id, { performed_at: '2026-05-05T10:00:00Z', followup_at: '2030-01-01' });
    expect(await entity()).toMatchObject({
      last_contacted_at: '2026-05-05T10:00:00.000Z',
      next_followup_at: '2030-01-01T00:00:00.000Z',
    });
    await log(key, id, { performed_at: '2026-04-04T10:00:00Z' });
    expect(await entity()).toMatchObject({
      last_contacted_at: '2026-05-05T10:00:00.000Z',
      next_followup_at: '2030-01-01T00:00:00.000Z',
    });
    await log(key, id, { performed_at: '2026-06-06T10:00:00Z', followup_at: '2029-01-01' });
    expect(await entity()).toMatchObject({
      last_contacted_at: '2026-06-06T10:00:00.000Z',
      next_followup_at: '2029-01-01T00:00:00.000Z',
    });
  });

  test('treats a note as a contact, and moves deals like leads', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const note = await log(key, id, { activity_type: 'note', followup_at: '2030-01-01' });
    expect(await readRecord(key, 'leads', id)).toMatchObject({
      last_contacted_at: note.performed_at,
      next_followup_at: '2030-01-01T00:00:00.000Z',
    });
    const deal = await createRecord(key, 'deals', { name: 'D' });
    const activity = await log(key, deal.id, { entity_type: 'deal' });
    expect(await readRecord(key, 'deals', deal.id)).toMatchObject({ last_contacted_at: activity.performed_at });
  });

  test('applies the effects of changed activities, and falls back to the earliest remaining follow-up', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const next = async () => (await readRecord(key, 'leads', id)).next_followup_at;
    const first = await log(key, id, { performed_at: '2026-05-05T10:00:00Z', followup_at: '2031-01-01' });
    const second = await log(key, id, { performed_at: '2026-05-05T10:00:00Z', followup_at: '2030-01-01' });
    await log(key, id, { performed_at: '2020-05-05T10:00:00Z', followup_at: '2020-06-01' });
    await patchRecord(key, 'activities', first.id, { followup_at: '2032-01-01' });
    expect(await next()).toBe('2032-01-01T00:00:00.000Z');
    await patchRecord(key, 'activities', first.id, { followup_at: null });
    expect(await next()).toBe('2030-01-01T00:00:00.000Z');
    await expectStatus(200, 'DELETE', recordsPath('activities', second.id), { key });
    expect(await next()).toBeNull();
    await patchRecord(key, 'activities', first.id, { performed_at: '2026-06-06T10:00:00Z' });
    const before = await readRecord(key, 'leads', id);
    expect(before.last_contacted_at).toBe('2026-06-06T10:00:00.000Z');
    await patchRecord(key, 'activities', first.id, { summary: 'y' });
    expect(await readRecord(key, 'leads', id)).toEqual(before);
  });

  test('writes an audit row and an event for what an activity changed on its lead or deal, and none for no change', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const changedFields = async () => {
      const { audit, events } = await leftBehind(id);
      expect(audit.map((row) => row.action)).toEqual(['lead.create', ...events.slice(1).map(() => 'lead.update')]);
      for (const { event, data } of events.slice(1)) expect([event, data.object]).toEqual(['record.updated', 'leads']);
      return events.slice(1).map(({ data }) => data.changed_fields);
    };
    const [contact, followup] = ['last_contacted_at', 'next_followup_at'];
    const first = await log(key, id, { performed_at: '2026-05-05T10:00:00Z', followup_at: '2030-01-01' });
    expect(await changedFields()).toEqual([[contact, followup]]);
    expect((await leftBehind(id)).audit[1].changes).toEqual({
      [contact]: { from: null, to: '2026-05-05T10:00:00.000Z' },
      [followup]: { from: null, to: '2030-01-01T00:00:00.000Z' },
    });
    const before = await expectStatus(200, 'GET', recordsPath('leads', id), { key });
    await log(key, id, { performed_at: '2026-04-04T10:00:00Z' });
    const after = await expectStatus(200, 'GET', recordsPath('leads', id), { key });
    expect([after.body.data, after.headers.get('etag')]).toEqual([before.body.data, before.headers.get('etag')]);
    await patchRecord(key, 'activities', first.id, { performed_at: '2026-06-06T10:00:00Z', followup_at: null });
    const { record } = (await expectStatus(200, 'GET', recordsPath('leads', id), { key })).body.data;
    expect([record[contact], record[followup]]).toEqual(['2026-06-06T10:00:00.000Z', null]);
    expect((await changedFields()).slice(1)).toEqual([[contact, followup]]);
    const last = await log(key, id, { performed_at: '2026-06-06T10:00:00Z', followup_at: '2031-01-01' });
    await expectStatus(200, 'DELETE', recordsPath('activities', last.id), { key });
    expect((await changedFields()).slice(2)).toEqual([[followup], [followup]]);
    const logged = { activity_type: 'Call', entity_type: 'lead', entity_id: id, summary: 'x' };
    await createRecords(
      key,
      'activities',
      ['07', '08', '09'].map((day) => ({ ...logged, performed_at: `2026-06-${day}T10:00:00Z` })),
    );
    expect((await changedFields()).slice(4)).toEqual([[contact]]);
  });

  test('chains the audited values of one lead without gaps across 16 concurrent activities', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const days = Array.from({ length: 16 }, (_, index) => `2026-05-${String(index + 10)}T10:00:00.000Z`);
    await Promise.all(days.map((day) => log(key, id, { performed_at: day })));
    expect((await readRecord(key, 'leads', id)).last_contacted_at).toBe(days.at(-1));
    const { audit } = await leftBehind(id);
    const steps = audit.slice(1).map((row) => row.changes.last_contacted_at);
    const inOrder = steps.toSorted((a: Json, b: Json) => (a.to < b.to ? -1 : 1));
    expect(inOrder.map((step: Json) => step.from)).toEqual([
      null,
      ...inOrder.slice(0, -1).map((step: Json) => step.to),
    ]);
    expect(inOrder.at(-1).to).toBe(days.at(-1));
  });

  test('rejects changing the record that an activity is logged on', async () => {
    const { key } = await newTenant();
    const { id } = await createRecord(key, 'leads', lead());
    const activity = await log(key, id);
    const body = { entity_type: 'lead', entity_id: id };
    expect(await refusedFields(422, 'PATCH', recordsPath('activities', activity.id), { key, body })).toEqual([
      'entity_type IMMUTABLE',
      'entity_id IMMUTABLE',
    ]);
  });
});

describe('duplicates', () => {
  async function checking(tenant: Tenant, object: string, fields: string[]): Promise<void> {
    await database()`update duplicate_checks set enabled = true, fields = ${fields} where company_id = ${tenant.companyId} and object = ${object}`;
  }
  const post = (key: string, object: string, body: object) =>
    call('POST', recordsPath(object), { key, body, idempotencyKey: true });

  test('rejects a record that matches on every selected field with a value, and names the stored one', async () => {
    const tenant = await newTenant();
    const { key, testKey } = tenant;
    await newCustomField(tenant, 'leads', 'tax_id');
    const first = await createRecord(key, 'leads', {
      first_name: 'A',
      email: 'a@x.example',
      mobile: '+4930123456',
      tax_id: '7',
    });
    await createRecord(key, 'leads', { first_name: 'B', email: 'a@x.example' });
    await checking(tenant, 'leads', ['email', 'tax_id', 'mobile']);
    const same = { first_name: 'C', email: 'A@X.example', tax_id: '7' };
    const { status, body } = await post(key, 'leads', same);
    expect(status).toBe(409);
    expect(body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['email', 'tax_id'], existing_id: first.id },
    });
    expect((await post(key, 'leads', { ...same, tax_id: '8' })).status).toBe(201);
    expect((await post(key, 'leads', { ...same, email: 'c@x.example' })).status).toBe(201);
    expect((await post(testKey, 'leads', same)).status).toBe(201);
    await patchRecord(key, 'leads', (await createRecord(key, 'leads', lead())).id, {
      email: 'a@x.example',
      tax_id: '7',
    });
  });

  test('checks deals for duplicates on their own fields, and no other objects', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    await checking(tenant, 'deals', ['name', 'stage', 'expected_close_date', 'amount_minor']);
    const deal = { name: 'D', stage: 'Won', expected_close_date: '2027-01-01', amount_minor: 5 };
    await createRecord(key, 'deals', deal);
    expect((await post(key, 'deals', deal)).status).toBe(409);
    expect((await post(key, 'deals', { ...deal, stage: 'Lost' })).status).toBe(201);
    for (let index = 0; index < 2; index += 1) await createRecord(key, 'accounts', { name: 'A' });
  });

  test('hides the id of a duplicate that the key cannot see', async () => {
    const tenant = await newTenant();
    await checking(tenant, 'leads', ['email']);
    const branch = randomUUID();
    await database()`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${branch}, 'North', now())`;
    const narrow = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
    await createRecord(tenant.key, 'leads', { first_name: 'A', email: 'a@x.example' });
    const { body } = await post(narrow, 'leads', { first_name: 'B', email: 'a@x.example' });
    expect(body.error.details).toEqual({ matched_fields: ['email'], existing_id: null });
    const own = await createRecord(narrow, 'leads', { first_name: 'A', email: 'b@x.example' });
    const again = await post(narrow, 'leads', { first_name: 'B', email: 'b@x.example' });
    expect(again.body.error.details.existing_id).toBe(own.id);
  });

  test('stores one of 16 concurrent creates of the same lead', async () => {
    const tenant = await newTenant();
    await checking(tenant, 'leads', ['email', 'mobile']);
    const bodies = Array.from({ length: 16 }, (_, index) => ({
      first_name: `N${index}`,
      email: 'a@x.example',
      mobile: '+4930123456',
    }));
    const answers = await Promise.all(bodies.map((body) => post(tenant.key, 'leads', body)));
    const codes = answers.map((answer) => answer.body.error?.code ?? answer.status).sort();
    expect(codes).toEqual([201, ...Array(15).fill('ALREADY_EXISTS')]);
    expect(await walk(tenant.key, 'leads')).toHaveLength(1);
  });
});

describe('races', () => {
  test('executes one of 16 concurrent calls with one key, replays equal bodies or answers that it runs, and rejects others', async () => {
    const { key } = await newTenant();
    for (let round = 0; round < 10; round += 1) {
      const idempotencyKey = randomUUID();
      const send = (name: string) => call('POST', recordsPath('accounts'), { key, body: { name }, idempotencyKey });
      const names = Array.from({ length: 16 }, (_, index) => (index % 5 === 4 ? 'B' : 'A'));
      const answers = await Promise.all(names.map(send));
      const created = answers.filter((answer) => answer.status === 201);
      expect(created.filter((answer) => answer.headers.get('idempotent-replay') === null)).toHaveLength(1);
      expect(new Set(created.map((answer) => answer.text)).size).toBe(1);
      const winner = created[0]?.body.data.record.name;
      const lost = answers.map((answer, index) => [names[index] === winner, answer.body.error?.code ?? 'created']);
      const allowed = [
        [true, 'created'],
        [true, 'IDEMPOTENCY_IN_PROGRESS'],
        [false, 'IDEMPOTENCY_CONFLICT'],
      ];
      for (const outcome of lost) expect(allowed).toContainEqual(outcome);
    }
    expect(await walk(key, 'accounts')).toHaveLength(10);
  });

  test('keeps all concurrent changes of different custom fields of one record', async () => {
    const tenant = await newTenant();
    const { key } = tenant;
    const names = Array.from({ length: 16 }, (_, index) => `field_${index}`);
    for (const name of names) await newCustomField(tenant, 'accounts', name, { type: 'number' });
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    for (let round = 1; round <= 5; round += 1) {
      await Promise.all(names.map((name) => patchRecord(key, 'accounts', id, { [name]: round })));
      const record = await readRecord(key, 'accounts', id);
      expect(names.map((name) => record[name])).toEqual(names.map(() => round));
    }
    const [row] = await database()`select version from accounts where id = ${id}`;
    expect(row?.version).toBe(1 + 5 * names.length);
    expect((await leftBehind(id)).events).toHaveLength(1 + 5 * names.length);
  });

  test('deletes a record once, and deletes or rejects what is attached concurrently', async () => {
    const { key } = await newTenant();
    for (let round = 0; round < 10; round += 1) {
      const { id } = await createRecord(key, 'leads', lead());
      const task = { title: 'T', scheduled_at: '2027-01-01', object: 'leads', record_id: id };
      const activity = { activity_type: 'Note', entity_type: 'lead', entity_id: id, summary: 'x' };
      const deletions = Promise.all(Array.from({ length: 4 }, () => call('DELETE', recordsPath('leads', id), { key })));
      const attached = await Promise.all(
        Array.from({ length: 4 }, (_, index) =>
          call('POST', recordsPath(index % 2 ? 'tasks' : 'activities'), {
            key,
            body: index % 2 ? task : activity,
            idempotencyKey: true,
          }),
        ),
      );
      const statuses = (await deletions).map((answer) => answer.status);
      expect(statuses.sort()).toEqual([200, 404, 404, 404]);
      for (const answer of attached) expect([201, 422]).toContain(answer.status);
      const [left] = await database()`
        select (select count(*)::int from tasks where record_id = ${id}) as tasks, (select count(*)::int from activities where entity_id = ${id}) as activities`;
      expect(left).toEqual({ tasks: 0, activities: 0 });
    }
  });
});
