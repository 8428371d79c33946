// Reverts undo operations of a call, an import, a revert or an actor, and keep what others wrote.
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { newBranch } from '../support/arranged-ids.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { document } from '../support/document.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { findProgram, skipNote } from '../support/programs.ts';
import { addNote } from '../support/record-children.ts';
import { createRecord, leftBehind, listProblems, newCustomField, readRecord, recordsPath } from '../support/records.ts';
import { createSetting } from '../support/settings.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const path = '/v1/reverts';
const unique = (): string => randomUUID().slice(0, 8);

const plan = async (body: object, credential = key): Promise<Json> =>
  (await expectStatus(201, 'POST', path, { key: credential, body })).body.data.revert;

const read = async (id: string, credential = key): Promise<Json> =>
  (await expectStatus(200, 'GET', `${path}/${id}`, { key: credential })).body.data.revert;

const apply = (revert: Json, conflicts = 'skip', credential = key): Promise<Answer> =>
  call('POST', `${path}/${revert.id}/apply`, { key: credential, body: { digest: revert.digest, conflicts } });

const ended = (id: string, credential = key): Promise<Json> =>
  vi.waitUntil(
    async () => {
      const found = await read(id, credential);
      return ['completed', 'failed'].includes(found.status) && found;
    },
    { timeout: 20_000, interval: 50 },
  );

/** Plans a revert, applies it, and waits for its end. */
async function undo(body: object, credential = key): Promise<Json> {
  const revert = await plan(body, credential);
  expect((await apply(revert, 'skip', credential)).status).toBe(202);
  return ended(revert.id, credential);
}

/** Sends a batch. @returns the ID of the call */
async function batch(verb: string, body: object, object = 'accounts', credential = key): Promise<string> {
  const headers = { 'idempotency-key': randomUUID() };
  const suffix = verb === 'create' ? 'batch' : `batch-${verb}`;
  const answer = await call('POST', `/v1/objects/${object}/records:${suffix}`, { key: credential, headers, body });
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 200 });
  expect(answer.body.data.failed).toEqual([]);
  return answer.body.meta.request_id;
}

const update = (records: readonly object[], object = 'accounts', credential = key): Promise<string> =>
  batch('update', { records }, object, credential);

const patch = async (id: string, body: object, object = 'accounts', credential = key): Promise<string> =>
  (await expectStatus(200, 'PATCH', `/v1/objects/${object}/records/${id}`, { key: credential, body })).body.meta
    .request_id;

const remove = async (id: string, object = 'accounts', credential = key): Promise<string> =>
  (await expectStatus(200, 'DELETE', `/v1/objects/${object}/records/${id}`, { key: credential })).body.meta.request_id;

const isGone = async (id: string, object = 'accounts'): Promise<boolean> =>
  (await call('GET', `/v1/objects/${object}/records/${id}`, { key })).status === 404;

const readReason = (answer: Answer): unknown => [answer.status, answer.body.error?.details?.reason];

describe('a plan', () => {
  test('changes nothing and lists conflicts; applying it gives fields back that others have not changed', async () => {
    const [a, b, c] = await Promise.all(
      ['A', 'B', 'C'].map((name) => createRecord(key, 'accounts', { name, city: 'Berlin', industry: 'Retail' })),
    );
    const records = [a, b, c].map((each) => ({ id: each?.id, city: 'Wrong', industry: 'Wrong' }));
    const request = await update(records);
    await patch(b?.id, { city: 'Right' });
    await remove(c?.id);
    const revert = await plan({ request_id: request });
    expect(revert).toMatchObject({
      status: 'planned',
      source: { request_id: request, import_id: null },
      counts: { records: 3, operations: 3, reverted: 0, skipped: 1, conflicts: 2 },
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(revert.conflicts).toEqual(
      expect.arrayContaining([
        { object: 'accounts', record_id: b?.id, field: 'city', reason: 'changed_since', action: null },
        { object: 'accounts', record_id: c?.id, field: null, reason: 'deleted_since', action: null },
      ]),
    );
    expect(await readRecord(key, 'accounts', a?.id)).toMatchObject({ city: 'Wrong' });
    const applied = await apply(revert);
    expect([applied.status, applied.body.data.revert.status]).toEqual([202, 'running']);
    const done = await ended(revert.id);
    expect(done).toMatchObject({
      status: 'completed',
      percent: 100,
      on_conflict: 'skip',
      counts: { reverted: 2, skipped: 1, conflicts: 2 },
    });
    expect(await readRecord(key, 'accounts', a?.id)).toMatchObject({ city: 'Berlin', industry: 'Retail' });
    expect(await readRecord(key, 'accounts', b?.id)).toMatchObject({ city: 'Right', industry: 'Retail' });
  });

  test('moves created records to the trash, and restores deleted ones with their former fields', async () => {
    const mail = `${unique()}@x.example`;
    const created = await expectStatus(201, 'POST', '/v1/objects/leads/records', {
      key,
      idempotencyKey: true,
      body: { first_name: 'Sara', email: mail },
    });
    const lead = created.body.data.record.id;
    await undo({ request_id: created.body.meta.request_id });
    expect(await isGone(lead, 'leads')).toBe(true);
    const account = await createRecord(key, 'accounts', { name: 'Kept', city: 'Berlin' });
    const deletion = await remove(account.id);
    expect((await undo({ request_id: deletion })).counts).toMatchObject({ reverted: 1, conflicts: 0 });
    expect(await readRecord(key, 'accounts', account.id)).toMatchObject({ name: 'Kept', city: 'Berlin' });
  });

  test('is applied once, with its digest, within an hour', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'Once', city: 'Berlin' });
    const revert = await plan({ request_id: await patch(id, { city: 'Rome' }) });
    expect(readReason(await apply({ ...revert, digest: 'other' }))).toEqual([409, 'digest_mismatch']);
    await database()`update reverts set expires_at = now() where company_id = ${tenant.companyId} and id = ${revert.id}`;
    expect((await read(revert.id)).status).toBe('expired');
    expect(readReason(await apply(revert))).toEqual([409, 'expired']);
    const again = await plan({ request_id: revert.source.request_id });
    expect(again.digest).toBe(revert.digest);
    const answers = await Promise.all([apply(again), apply(again)]);
    expect(answers.map(readReason).toSorted()).toEqual([
      [202, undefined],
      [409, 'already_applied'],
    ]);
    await ended(again.id);
    expect(await readRecord(key, 'accounts', id)).toMatchObject({ city: 'Berlin' });
    expect(readReason(await apply(again))).toEqual([409, 'already_applied']);
    // Unchanged records need no revert.
    expect((await plan({ request_id: revert.source.request_id })).counts).toMatchObject({ records: 1, conflicts: 0 });
  });

  test('fails at conflicts if asked to, also at those that arise after it was made', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'Fail', city: 'Berlin' });
    const request = await patch(id, { city: 'Rome' });
    const early = await plan({ request_id: request });
    await patch(id, { city: 'Oslo' });
    const late = await plan({ request_id: request });
    const refused = await apply(late, 'fail');
    expect(readReason(refused)).toEqual([409, 'conflicts']);
    expect((await apply(early, 'fail')).status).toBe(202);
    expect(await ended(early.id)).toMatchObject({
      status: 'failed',
      error: { code: 'CONFLICT' },
      counts: { reverted: 0 },
    });
    expect(await readRecord(key, 'accounts', id)).toMatchObject({ city: 'Oslo' });
  });

  test('names what cannot be reverted', async () => {
    const lead = await createRecord(key, 'leads', {
      first_name: 'Phone',
      email: `${unique()}@x.example`,
      mobile: '+4930123456',
    });
    const changed = await plan({ request_id: await patch(lead.id, { mobile: '+4930123457', city: 'Bonn' }, 'leads') });
    expect(changed.conflicts).toMatchObject([{ field: 'mobile', reason: 'not_revertible' }]);
    const note = await expectStatus(201, 'POST', `/v1/objects/leads/records/${lead.id}/notes`, {
      key,
      body: { content: 'Hello' },
    });
    expect((await plan({ request_id: note.body.meta.request_id })).conflicts).toEqual([
      { object: 'leads', record_id: lead.id, field: null, reason: 'not_revertible', action: 'note.create' },
    ]);
  });

  test('keeps a created record that others have written to', async () => {
    const other = await newKey(tenant);
    const answer = await expectStatus(201, 'POST', '/v1/objects/accounts/records', {
      key,
      idempotencyKey: true,
      body: { name: 'Shared' },
    });
    const { id } = answer.body.data.record;
    await patch(id, { city: 'Bonn' }, 'accounts', other);
    const revert = await undo({ request_id: answer.body.meta.request_id });
    expect(revert).toMatchObject({ counts: { reverted: 0, skipped: 1 }, conflicts: [{ reason: 'changed_since' }] });
    expect(await readRecord(key, 'accounts', id)).toMatchObject({ city: 'Bonn' });
  });
});

describe('values', () => {
  test('of every kind come back, with their tags, audit rows and events', async () => {
    const own = await newTenant();
    const field = `n_${unique()}`;
    await newCustomField(own, 'leads', field, { type: 'number' });
    for (const name of ['Hot', 'Cold'])
      await database()`
        insert into tags (company_id, id, object, name, created_at, updated_at)
        values (${own.companyId}, ${randomUUID()}, 'leads', ${name}, now(), now())`;
    const before = {
      first_name: 'Sara',
      email: `${unique()}@x.example`,
      priority: 1,
      [field]: 5,
      lead_status: 'New',
      tags: ['Hot'],
    };
    const { tags: _, ...fields } = before;
    const lead = await createRecord(own.key, 'leads', before);
    const request = await patch(
      lead.id,
      { priority: 4, [field]: null, lead_status: 'Contacted', tags: ['Cold'], notes: 'x', assigned_to: own.admin.id },
      'leads',
      own.key,
    );
    const cursor = await now(own.key);
    const revert = await undo({ request_id: request }, own.key);
    expect(revert).toMatchObject({ counts: { reverted: 1, conflicts: 0 }, conflicts: [] });
    expect(await readRecord(own.key, 'leads', lead.id)).toMatchObject({ ...fields, notes: null, assigned_to: null });
    const tags = await expectStatus(200, 'GET', `/v1/objects/leads/records/${lead.id}/tags`, { key: own.key });
    expect(tags.body.data.tags.map(({ name }: Json) => name)).toEqual(['Hot']);
    const { audit } = await leftBehind(lead.id);
    expect(audit.at(-1)).toMatchObject({
      action: 'lead.update',
      metadata: { revert_id: revert.id },
    });
    const changes = await vi.waitUntil(async () => {
      const found = await changesAfter(own.key, cursor, { objects: 'leads' });
      return found.length > 0 && found;
    });
    expect(changes[0]).toMatchObject({ event: 'record.updated', origin: { kind: 'revert', id: revert.id } });
  });

  test('of a unique field that another record has by now stay as they are', async () => {
    const field = `u_${unique()}`;
    await newCustomField(tenant, 'accounts', field, { type: 'text', unique: true });
    const { id } = await createRecord(key, 'accounts', { name: 'U', [field]: 'one' });
    const request = await patch(id, { [field]: 'two' });
    await createRecord(key, 'accounts', { name: 'V', [field]: 'one' });
    const done = await undo({ request_id: request });
    expect(done).toMatchObject({ counts: { reverted: 0, skipped: 1 }, conflicts: [{ reason: 'changed_since' }] });
    expect(await readRecord(key, 'accounts', id)).toMatchObject({ [field]: 'two' });
  });

  test('that refer to a record that is gone stay as they are', async () => {
    const account = await createRecord(key, 'accounts', { name: 'Old' });
    const customer = await createRecord(key, 'customers', { first_name: 'C', account_id: account.id });
    const request = await patch(customer.id, { account_id: null, city: 'Bonn' }, 'customers');
    await remove(account.id);
    const done = await undo({ request_id: request });
    expect(done.conflicts).toMatchObject([{ field: 'account_id', reason: 'deleted_since' }]);
    expect(await readRecord(key, 'customers', customer.id)).toMatchObject({ account_id: null, city: null });
  });

  test('of a task that moved to another record come back', async () => {
    const [a, b] = [
      await createRecord(key, 'accounts', { name: 'A' }),
      await createRecord(key, 'accounts', { name: 'B' }),
    ];
    const scheduled_at = new Date(Date.now() + 86_400_000).toISOString();
    const task = await createRecord(key, 'tasks', { title: 'T', scheduled_at, object: 'accounts', record_id: a.id });
    const request = await patch(task.id, { record_id: b.id, object: 'accounts' }, 'tasks');
    expect((await undo({ request_id: request })).conflicts).toEqual([]);
    expect(await readRecord(key, 'tasks', task.id)).toMatchObject({ object: 'accounts', record_id: a.id });
  });
});

describe('a revert', () => {
  test('is reverted by its own ID, and that one, too', async () => {
    const created = await batch('create', {
      records: [{ name: `X${unique()}`, city: 'Bonn' }, { name: `Y${unique()}` }],
    });
    const rows = await database()`
      select record_id from audit_logs where company_id = ${tenant.companyId} and request_id = ${created} and action = 'account.create'`;
    const ids = rows.map((row) => row.record_id as string);
    const first = await undo({ request_id: created });
    expect(await Promise.all(ids.map((id) => isGone(id)))).toEqual([true, true]);
    const second = await undo({ revert_id: first.id });
    expect(second).toMatchObject({ source: { revert_id: first.id }, counts: { records: 2, reverted: 2 } });
    expect(await Promise.all(ids.map((id) => isGone(id)))).toEqual([false, false]);
    await undo({ revert_id: second.id });
    expect(await Promise.all(ids.map((id) => isGone(id)))).toEqual([true, true]);
  });

  test('undoes what a key did in a time, while others write', async () => {
    const own = await newTenant();
    const [bad, good] = [await newKey(own), own.key];
    const { id: badId } = (await expectStatus(200, 'GET', '/v1/me', { key: bad })).body.data.actor;
    const from = new Date().toISOString();
    const lead = await createRecord(good, 'leads', {
      first_name: 'Sara',
      email: `${unique()}@x.example`,
      city: 'Berlin',
    });
    const kept = await createRecord(good, 'accounts', { name: 'Kept', city: 'Berlin' });
    const lost = await createRecord(good, 'accounts', { name: 'Lost', city: 'Berlin' });
    // Several operations on one record, and a change by another key in between.
    await patch(lead.id, { city: 'One' }, 'leads', bad);
    await patch(lead.id, { city: 'Two', company_name: 'Bad' }, 'leads', bad);
    await patch(kept.id, { city: 'Bad' }, 'accounts', bad);
    await patch(kept.id, { city: 'Good' }, 'accounts', good);
    await patch(kept.id, { city: 'Worse' }, 'accounts', bad);
    await patch(lost.id, { city: 'Bad' }, 'accounts', bad);
    await remove(lost.id, 'accounts', bad);
    const made = await createRecord(bad, 'deals', { name: 'Made', amount_minor: 5 });
    const revert = await plan({ actor_id: badId, from, to: new Date(Date.now() + 60_000).toISOString() }, good);
    expect(revert).toMatchObject({ counts: { records: 4, operations: 7, conflicts: 0 } });
    const writes = Promise.all(
      Array.from({ length: 5 }, (_, n) => createRecord(good, 'accounts', { name: `Other ${n}` })),
    );
    expect((await apply(revert, 'skip', good)).status).toBe(202);
    expect(await ended(revert.id, good)).toMatchObject({ status: 'completed', counts: { reverted: 4, skipped: 0 } });
    expect(await readRecord(good, 'leads', lead.id)).toMatchObject({ city: 'Berlin', company_name: null });
    expect(await readRecord(good, 'accounts', kept.id)).toMatchObject({ city: 'Good' });
    expect(await readRecord(good, 'accounts', lost.id)).toMatchObject({ city: 'Berlin' });
    expect((await call('GET', `/v1/objects/deals/records/${made.id}`, { key: good })).status).toBe(404);
    for (const { id } of await writes) await readRecord(good, 'accounts', id);
  });

  test('keeps to some objects', async () => {
    const own = await newTenant();
    const { id: actor } = (await expectStatus(200, 'GET', '/v1/me', { key: own.key })).body.data.actor;
    const from = new Date().toISOString();
    const account = await createRecord(own.key, 'accounts', { name: 'A' });
    const deal = await createRecord(own.key, 'deals', { name: 'D' });
    const body = { actor_id: actor, from, to: new Date().toISOString(), objects: ['deals'] };
    expect((await undo(body, own.key)).counts).toMatchObject({ records: 1, reverted: 1 });
    await readRecord(own.key, 'accounts', account.id);
    expect((await call('GET', `/v1/objects/deals/records/${deal.id}`, { key: own.key })).status).toBe(404);
  });

  test('undoes the conversion of a lead', async () => {
    const lead = await createRecord(key, 'leads', { first_name: 'Sara', email: `${unique()}@x.example` });
    const converted = await expectStatus([200, 201], 'POST', `/v1/leads/${lead.id}/convert`, {
      key,
      idempotencyKey: true,
      body: {},
    });
    const customer = (await readRecord(key, 'leads', lead.id)).converted_customer_id;
    const done = await undo({ request_id: converted.body.meta.request_id });
    expect(done).toMatchObject({ status: 'completed', counts: { records: 2, reverted: 2, conflicts: 0 } });
    expect(await readRecord(key, 'leads', lead.id)).toMatchObject({ converted_at: null, converted_customer_id: null });
    expect(await isGone(customer, 'customers')).toBe(true);
    const again = await undo({ revert_id: done.id });
    expect(again).toMatchObject({ status: 'completed', conflicts: [] });
    expect(await readRecord(key, 'leads', lead.id)).toMatchObject({ converted_customer_id: customer });
  });

  test('undoes a merge with everything that moved, and cannot undo the undo of a merge', async () => {
    const [source, target] = [
      await createRecord(key, 'leads', { first_name: 'Source', city: 'Berlin', email: `${unique()}@source.example` }),
      await createRecord(key, 'leads', { first_name: 'Target', email: `${unique()}@target.example` }),
    ];
    const deal = await createRecord(key, 'deals', { name: 'Moved', lead_id: source.id });
    const merge = `/v1/objects/leads/records/${source.id}/merge`;
    const merged = await expectStatus(200, 'POST', merge, { key, body: { into_id: target.id } });
    expect(await readRecord(key, 'deals', deal.id)).toMatchObject({ lead_id: target.id });
    const done = await undo({ request_id: merged.body.meta.request_id });
    expect(done).toMatchObject({ status: 'completed', conflicts: [] });
    expect(await readRecord(key, 'leads', source.id)).toMatchObject({ first_name: 'Source', city: 'Berlin' });
    expect(await readRecord(key, 'leads', target.id)).toMatchObject({ first_name: 'Target', city: null });
    expect(await readRecord(key, 'deals', deal.id)).toMatchObject({ lead_id: source.id });

    const again = await expectStatus(200, 'POST', merge, { key, body: { into_id: target.id } });
    const undone = await expectStatus(200, 'POST', `/v1/merges/${again.body.data.merge.id}/undo`, { key });
    const nothing = await undo({ request_id: undone.body.meta.request_id });
    expect(nothing.conflicts).toEqual([
      { object: 'leads', record_id: source.id, field: null, reason: 'not_revertible', action: 'lead.unmerge' },
    ]);
    expect(nothing.counts).toMatchObject({ records: 0, operations: 1, reverted: 0 });
    expect(await readRecord(key, 'leads', target.id)).toMatchObject({ first_name: 'Target', city: null });
    expect(await readRecord(key, 'deals', deal.id)).toMatchObject({ lead_id: source.id });
  });

  test('keeps a merge whose source cannot come back, and everything that the undo would have written', async () => {
    const field = `code_${unique()}`;
    await newCustomField(tenant, 'accounts', field, { unique: true });
    const value = unique();
    const [source, target] = [
      await createRecord(key, 'accounts', { name: 'Source', city: 'Berlin', [field]: value }),
      await createRecord(key, 'accounts', { name: 'Target', [field]: unique() }),
    ];
    const merge = `/v1/objects/accounts/records/${source.id}/merge`;
    const merged = await expectStatus(200, 'POST', merge, { key, body: { into_id: target.id } });
    await createRecord(key, 'accounts', { name: 'Third', [field]: value });
    const done = await undo({ request_id: merged.body.meta.request_id });
    expect(done).toMatchObject({ status: 'completed' });
    expect(await isGone(source.id)).toBe(true);
    expect(await readRecord(key, 'accounts', target.id)).toMatchObject({ city: 'Berlin' });
  });

  test('undoes an activity with its effects on the lead', async () => {
    const own = await newTenant();
    const { id: actor } = (await expectStatus(200, 'GET', '/v1/me', { key: own.key })).body.data.actor;
    const lead = await createRecord(own.key, 'leads', { first_name: 'Sara', email: `${unique()}@x.example` });
    const from = new Date().toISOString();
    await expectStatus(201, 'POST', '/v1/activities', {
      key: own.key,
      idempotencyKey: true,
      body: {
        activity_type: 'Call',
        entity_type: 'lead',
        entity_id: lead.id,
        summary: 'Called',
        followup_at: new Date(Date.now() + 86_400_000).toISOString(),
      },
    });
    const done = await undo({ actor_id: actor, from, to: new Date().toISOString() }, own.key);
    expect(done).toMatchObject({ status: 'completed', conflicts: [] });
    expect(await readRecord(own.key, 'leads', lead.id)).toMatchObject({ next_followup_at: null });
    const again = await undo({ revert_id: done.id }, own.key);
    expect(again).toMatchObject({ status: 'completed', conflicts: [] });
    expect((await readRecord(own.key, 'leads', lead.id)).next_followup_at).not.toBeNull();
  });
});

describe('many restorations', () => {
  /**
   * Returns the text of a value in which IDs, times and the names of a group are the same for every
   * group.
   */
  const normalize = (value: unknown, ids: Readonly<Record<string, string>>, group: string): Json =>
    JSON.parse(
      Object.entries(ids)
        .reduce((text, [role, id]) => text.replaceAll(id, `<${role}>`), JSON.stringify(value))
        .replaceAll(group, '<group>')
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
        .replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, '<id>'),
    );

  interface Group {
    name: string;
    ids: Record<string, string>;
    /** By role, in the order in which a revert restores them. */
    deleted: [role: string, object: string][];
    from: string;
    to: string;
    actor: string;
  }

  /**
   * Deletes one item of every kind with a separate key, and then removes records that some of them
   * refer to.
   */
  async function deleteGroup(of: Tenant): Promise<Group> {
    const name = unique();
    const deleter = await newKey(of);
    const { id: actor } = (await expectStatus(200, 'GET', '/v1/me', { key: deleter })).body.data.actor;
    const from = new Date().toISOString();
    const ids: Record<string, string> = {};
    const make = async (role: string, object: string, body: object): Promise<string> => {
      const { id } = await createRecord(of.key, object, body);
      ids[role] = id;
      return id;
    };
    const person = (role: string, more: object = {}): object => ({
      ...{ first_name: `${role} ${name}`, email: `${role}.${name}@x.example` },
      ...more,
    });
    const owner = await newUser(of);
    const status = await createSetting(of, '/v1/settings/statuses/leads', { name: `Passing ${name}` });
    await make('account', 'accounts', { name: `Account ${name}` });
    await make('gone', 'accounts', { name: `Gone ${name}` });
    await make('customer', 'customers', person('customer', { account_id: ids.gone }));
    await make('referring', 'customers', person('referring', { account_id: ids.account }));
    await make('full', 'leads', person('full', { tags: ['By hand'], city: 'Berlin', badge: `full ${name}` }));
    await make('ownerless', 'leads', person('ownerless', { assigned_to: owner.id }));
    await make('passing', 'leads', person('passing', { lead_status: `Passing ${name}`, city: 'Berlin' }));
    await make('taken', 'leads', person('taken', { badge: `taken ${name}` }));
    await make('first', 'leads', person('first', { badge: `twin ${name}` }));
    await make('followed', 'leads', person('followed'));
    await make('lost', 'leads', person('lost'));
    await make('deal', 'deals', { name: `Deal ${name}`, lead_id: ids.full });
    const logged = (lead: string): object => ({
      ...{ entity_type: 'lead', entity_id: ids[lead], activity_type: 'Call', summary: 'Called' },
      ...{ performed_at: '2026-11-01T09:00:00Z', followup_at: '2036-01-01T09:00:00Z' },
    });
    for (const lead of ['full', 'followed', 'lost']) await make(`call of ${lead}`, 'activities', logged(lead));
    await addNote(of.key, 'leads', ids.full ?? '', 'A note');
    const task = { title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z' };
    await make('task of full', 'tasks', { ...task, object: 'leads', record_id: ids.full });
    await make('task of lost', 'tasks', { ...task, object: 'leads', record_id: ids.lost });
    await expectStatus(201, 'POST', `${recordsPath('accounts', ids.account)}/links`, {
      key: of.key,
      body: { link_type: 'related', record_id: ids.full },
    });

    const deleted: Group['deleted'] = [];
    const removeAs = async (object: string, roles: readonly string[]): Promise<void> => {
      await batch('delete', { ids: roles.map((role) => ids[role]) }, object, deleter);
      // Records of one step are restored in the order of their IDs.
      const sorted = roles.toSorted((a, b) => ((ids[a] ?? '') < (ids[b] ?? '') ? -1 : 1));
      deleted.push(...sorted.map((role): [string, string] => [role, object]));
    };
    await removeAs('accounts', ['account']);
    await removeAs('customers', ['customer']);
    await remove(ids.first ?? '', 'leads', deleter);
    await make('second', 'leads', person('second', { badge: `twin ${name}` }));
    await removeAs('leads', ['full', 'ownerless', 'passing', 'taken', 'second']);
    deleted.splice(-5, 0, ['first', 'leads']);
    await removeAs('tasks', ['task of lost']);
    await removeAs('activities', ['call of followed', 'call of lost']);
    const to = new Date(Date.now() + 1).toISOString();
    await remove(ids.gone ?? '', 'accounts', of.key);
    await remove(ids.lost ?? '', 'leads', of.key);
    await make('taker', 'leads', person('taker', { badge: `taken ${name}` }));
    await database()`update users set status = 'inactive' where company_id = ${of.companyId} and id = ${owner.id}`;
    await expectStatus(200, 'DELETE', `/v1/settings/statuses/leads/${status.id}`, { key: of.key });
    return { name, ids, deleted, from, to, actor };
  }

  /** Returns everything that a caller can see of a group, and its audit rows, events and clocks. */
  async function describeGroup(of: Tenant, { name, ids }: Group): Promise<Json> {
    const seen: Json = {};
    for (const [role, id] of Object.entries(ids)) {
      const object = (await database()`select object from audit_logs where record_id = ${id} limit 1`)[0]?.object;
      const record = await call('GET', recordsPath(object, id), {
        key: of.key,
        query: object === 'leads' || object === 'customers' ? { expand: 'tags' } : {},
      });
      const { audit, events } = await leftBehind(id);
      const [stored] = await database()`
        select
          (select count(*)::int from custom_value_hashes where company_id = ${of.companyId} and record_id = ${id}) as hashes,
          (select count(*)::int from notes where company_id = ${of.companyId} and record_id = ${id}) as notes,
          (select count(*)::int from links where company_id = ${of.companyId} and ${id} in (from_id, to_id)) as links,
          (select count(*)::int from deleted_records where company_id = ${of.companyId} and id = ${id}) as trashed,
          (select count(*)::int from deleted_items where company_id = ${of.companyId} and record_id = ${id}) as items,
          (select jsonb_agg(ended_at is null order by kind) from sla_clocks where company_id = ${of.companyId} and record_id = ${id})
            as clocks`;
      seen[role] = {
        ...{ status: record.status, record: record.body.data?.record, expanded: record.body.data?.expanded },
        ...{ etag: record.headers.get('etag'), stored },
        audit: audit.map(({ metadata, ...row }) => ({ ...row, ...(metadata?.revert_id ? {} : metadata) })),
        events: events.map(({ data: { origin: _, ...data }, ...event }) => ({ ...event, data })),
      };
    }
    return normalize(seen, ids, name);
  }

  test('give the same as one restoration after the other', { timeout: 60_000 }, async () => {
    const of = await newTenant();
    await newCustomField(of, 'leads', 'badge', { unique: true });
    await createSetting(of, '/v1/settings/tags/leads', { name: 'By hand', fields: [] });
    await createSetting(of, '/v1/settings/tags/leads', {
      ...{ name: 'Berliner', fields: [{ field: 'city', operator: 'eq', value: 'Berlin' }] },
    });
    await expectStatus(201, 'POST', '/v1/link-types', {
      key: of.key,
      body: {
        ...{ name: 'related', inverse_name: 'related_to', label: 'R', inverse_label: 'R' },
        ...{ from_object: 'accounts', to_object: 'leads', cardinality: 'many_to_many' },
      },
    });
    const policy = { name: 'First', entity_type: 'lead', first_response_time: 60, mode: '24/7', timezone: 'UTC' };
    await expectStatus(201, 'POST', '/v1/settings/sla-policies', { key: of.key, body: policy });
    const [single, together] = [await deleteGroup(of), await deleteGroup(of)];
    const failed: string[] = [];
    for (const [role, object] of single.deleted) {
      const path = `/v1/objects/${object}/deleted-records/${single.ids[role]}/restore`;
      const { status, body } = await call('POST', path, { key: of.key });
      if (status !== 200) failed.push(`${role} ${status} ${body.error.details.reason ?? body.error.code}`);
    }
    expect(failed.toSorted()).toEqual([
      'call of lost 409 related_record_deleted',
      // The other one of the twins is restored first.
      expect.stringMatching(/^(first|second) 409 ALREADY_EXISTS$/),
      'taken 409 ALREADY_EXISTS',
    ]);
    const done = await undo({ actor_id: together.actor, from: together.from, to: together.to }, of.key);
    expect(done.counts.reverted).toBe(single.deleted.length - failed.length);
    // The deletion of a call changed the lead that was then deleted itself.
    const conflicts = [...failed.map((each) => each.replace(/ 409.*/, '')), 'lost'];
    expect(
      normalize(done.conflicts, together.ids, together.name)
        .map((each: Json) => each.record_id)
        .toSorted(),
    ).toEqual(conflicts.map((role) => `<${role}>`).toSorted());
    expect(await describeGroup(of, together)).toEqual(await describeGroup(of, single));
  });
});

test.skipIf(!findProgram('node'))(
  `the program of the guide undoes a change and its revert${skipNote('node')}`,
  async () => {
    const own = await newTenant();
    const guide = (document.tags ?? []).find(({ name }: { name: string }) => name === 'Reverts')?.description ?? '';
    const source = /```ts\n([\s\S]*?)```/.exec(guide)?.[1] ?? '';
    const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `revert-${process.pid}`);
    mkdirSync(folder, { recursive: true });
    const file = join(folder, 'revert.ts');
    writeFileSync(file, source.replace("'@headless-crm/sdk'", JSON.stringify(resolve('sdk/src/index.ts'))));
    const env = { PATH: process.env.PATH ?? '', CRM_URL: inject('baseUrl'), API_KEY: own.key };
    const { stdout } = await promisify(execFile)(findProgram('node') ?? '', [file], { env });
    expect(stdout.trim().split('\n')).toEqual([
      '1 records, 0 conflicts',
      'completed: 1 put back, 0 left as they are',
      '1 records, 0 conflicts',
      'The revert itself is undone: completed',
    ]);
  },
);

describe('requests', () => {
  test.each([
    [{}, 400, ['request_id REQUIRED']],
    [{ request_id: randomUUID(), revert_id: randomUUID() }, 422, ['revert_id CONFLICTING_FIELDS']],
    [{ actor_id: 'a', from: '2026-01-01T00:00:00Z' }, 400, ['to REQUIRED']],
    [{ actor_id: 'a', from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' }, 422, ['to OUT_OF_RANGE']],
    [{ actor_id: 'a', from: '2026-01-01T00:00:00Z', to: '2026-02-02T00:00:00Z' }, 422, ['to OUT_OF_RANGE']],
    [{ request_id: randomUUID(), objects: ['nothing'] }, 422, ['objects[0] INVALID_OPTION']],
    [{ import_id: randomUUID() }, 422, ['import_id NOT_FOUND']],
    [{ revert_id: randomUUID() }, 422, ['revert_id NOT_FOUND']],
  ])('with the operations %j are rejected with %i', async (body, status, problems) => {
    const answer = await call('POST', path, { key, body });
    expect([answer.status, listProblems(answer.body.error)]).toEqual([status, problems]);
  });

  test('see only the operations and reverts of their workspace and mode', async () => {
    const other = await newTenant();
    const { id } = await createRecord(key, 'accounts', { name: 'Mine' });
    const request = await patch(id, { city: 'Rome' });
    const revert = await plan({ request_id: request });
    for (const foreign of [other.key, tenant.testKey]) {
      expect((await plan({ request_id: request }, foreign)).counts).toMatchObject({ records: 0, operations: 0 });
      await expectStatus(404, 'GET', `${path}/${revert.id}`, { key: foreign });
      expect((await apply(revert, 'skip', foreign)).status).toBe(404);
      const answer = await call('POST', path, { key: foreign, body: { revert_id: revert.id } });
      expect([answer.status, listProblems(answer.body.error)]).toEqual([422, ['revert_id NOT_FOUND']]);
    }
    const list = await expectStatus(200, 'GET', `${path}?limit=100`, { key: other.key });
    expect(list.body.data.reverts.map((each: Json) => each.id)).not.toContain(revert.id);
  });

  test('need the scopes of what is undone, and see the whole workspace', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'Scoped' });
    const request = await patch(id, { city: 'Rome' });
    const narrow = await newKey(tenant, { scopes: ['reverts:*'] });
    const revert = await plan({ request_id: request }, narrow);
    const refused = await apply(revert, 'skip', narrow);
    expect([refused.status, refused.body.error.code]).toEqual([403, 'FORBIDDEN_SCOPE']);
    expect(
      (await apply(revert, 'skip', await newKey(tenant, { scopes: ['reverts:create', 'accounts:edit'] }))).status,
    ).toBe(202);
    const reach = { kind: 'branch', id: await newBranch(tenant) } as const;
    const near = await newKey(tenant, { scopes: ['reverts:*', 'accounts:*'], reach });
    const answer = await call('POST', path, { key: near, body: { request_id: request } });
    expect(readReason(answer)).toEqual([403, 'company_reach_required']);
    expect(readReason(await call('GET', path, { key: near }))).toEqual([403, 'company_reach_required']);
    await expectStatus(403, 'POST', path, {
      key: await newKey(tenant, { scopes: ['accounts:*', 'reverts:view'] }),
      body: { request_id: request },
    });
    await ended(revert.id);
  });

  test('end as failed if the key that applied them is revoked', async () => {
    const scoped = await newKey(tenant);
    const { id } = await createRecord(key, 'accounts', { name: 'Revoked', city: 'Berlin' });
    const revert = await plan({ request_id: await patch(id, { city: 'Rome' }) }, scoped);
    const sql = database();
    // The job must not be faster than the revocation.
    await sql`
      insert into reverts (company_id, test_mode, id, status, source, digest, module, reach_kind, created_by_kind, created_by_id,
        due_at, started_at, created_at)
      values (${tenant.companyId}, false, ${randomUUID()}, 'paused', '{}', '', 'reverts', 'company', 'system', 'test',
        now() + interval '1 hour', now(), now())`;
    expect((await apply(revert, 'skip', scoped)).status).toBe(202);
    await sql`
      update api_keys set revoked_at = now()
      where company_id = ${tenant.companyId} and id = (select created_by_id::uuid from reverts where id = ${revert.id})`;
    await sql`delete from reverts where company_id = ${tenant.companyId} and status = 'paused'`;
    expect(await ended(revert.id)).toMatchObject({ status: 'failed', error: { code: 'API_KEY_REVOKED' } });
    expect(await readRecord(key, 'accounts', id)).toMatchObject({ city: 'Rome' });
  });

  test('are planned by a job if the operations are many, and are limited in number', async () => {
    const own = await newTenant();
    const sql = database();
    const request = randomUUID();
    await sql`
      insert into audit_logs (company_id, id, occurred_at, actor_kind, actor_id, request_id, ip, action, object, record_id, changes, test_mode)
      select ${own.companyId}, gen_random_uuid(), now(), 'system', 'test', ${request}, '', 'account.update', 'accounts',
        gen_random_uuid()::text, '{"city": {"from": "A", "to": "B"}}', false
      from generate_series(1, 1200)`;
    const begun = await plan({ request_id: request }, own.key);
    expect(begun).toMatchObject({ status: 'planning', digest: null });
    const planned = await vi.waitUntil(
      async () => {
        const found = await read(begun.id, own.key);
        return found.status === 'planned' && found;
      },
      { timeout: 20_000, interval: 50 },
    );
    expect(planned.counts).toEqual({ records: 1200, operations: 1200, reverted: 0, skipped: 1200, conflicts: 1200 });
    expect(planned.conflicts).toHaveLength(100);
    await sql`
      insert into reverts (company_id, test_mode, id, status, source, digest, module, reach_kind, created_by_kind, created_by_id,
        due_at, created_at)
      select ${own.companyId}, false, gen_random_uuid(), 'running', '{}', '', 'reverts', 'company', 'system', 'test',
        now() + interval '1 hour', now() from generate_series(1, 10)`;
    expect(readReason(await apply(planned, 'skip', own.key))).toEqual([409, 'revert_limit']);
    await sql`delete from reverts where company_id = ${own.companyId} and source = '{}'`;
  });
});
