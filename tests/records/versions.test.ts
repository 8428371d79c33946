// Versions: the ETag of each record, and If-Match against lost updates.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus } from '../support/client.ts';
import { createRecord, leftBehind, newCustomObject, patchRecord, readRecord, recordsPath } from '../support/records.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
});

const readEtag = async (object: string, id: string): Promise<string | null> =>
  (await expectStatus(200, 'GET', recordsPath(object, id), { key })).headers.get('etag');

function expectMismatch(answer: Answer, version: number): void {
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 409 });
  expect(answer.body.error).toMatchObject({
    code: 'CONFLICT',
    details: { reason: 'version_mismatch', current_version: version },
  });
}

describe('the ETag of a record', () => {
  test('returns the version as ETag on create, read and update, unchanged if nothing changes', async () => {
    const visits = await newCustomObject(tenant, 'visits');
    for (const object of ['accounts', visits]) {
      const created = await expectStatus(201, 'POST', recordsPath(object), {
        key,
        body: { name: 'A' },
        idempotencyKey: true,
      });
      expect(created.headers.get('etag')).toBe('"1"');
      const { id } = created.body.data.record;
      const path = recordsPath(object, id);
      expect(await readEtag(object, id)).toBe('"1"');
      const same = await expectStatus(200, 'PATCH', path, { key, body: { name: 'A' } });
      expect(same.headers.get('etag')).toBe('"1"');
      const changed = await expectStatus(200, 'PATCH', path, { key, body: { name: 'B' } });
      expect(changed.headers.get('etag')).toBe('"2"');
      expect((await call('HEAD', path, { key })).headers.get('etag')).toBe('"2"');
      expect(await readEtag(object, id)).toBe('"2"');
    }
  });

  test('omits the ETag from the fields and from lists', async () => {
    const record = await createRecord(key, 'accounts', { name: 'A' });
    expect(Object.keys(record)).not.toContain('etag');
    const list = await expectStatus(200, 'GET', recordsPath('accounts'), { key });
    expect(list.headers.get('etag')).toBeNull();
    expect(list.body).not.toHaveProperty('etag');
  });
});

describe('the versions of many records', () => {
  test('returns the ETag of each record as its version in lists and batches', async () => {
    const object = await newCustomObject(tenant, 'versioned');
    const send = async (path: string, body: object) =>
      (await expectStatus(200, 'POST', `${recordsPath(object)}${path}`, { key, body, idempotencyKey: true })).body.data;
    const numbers = (items: { version: number }[]) => items.map(({ version }) => version);
    const made = await send(':batch', { records: [{ name: 'A' }, { name: 'B' }] });
    expect(numbers(made.succeeded)).toEqual([1, 1]);
    const [first, second] = made.succeeded.map(({ record }: { record: { id: string } }) => record.id);
    const updates = [
      { id: first, name: 'C' },
      { id: second, name: 'B' },
    ];
    expect(numbers((await send(':batch-update', { records: updates })).succeeded)).toEqual([2, 1]);
    const upserts = { match_on: ['name'], records: [{ name: 'B' }, { name: 'new' }] };
    expect(numbers((await send(':batch-upsert', upserts)).succeeded)).toEqual([1, 1]);
    await patchRecord(key, object, first, { name: 'D' });
    expect(numbers((await send(':batch-get', { ids: [second, first], fields: ['id'] })).succeeded)).toEqual([1, 3]);

    const { body } = await expectStatus(200, 'GET', recordsPath(object), { key, query: { fields: 'name' } });
    const { records, versions } = body.data;
    const tags = await Promise.all(records.map((record: { id: string }) => readEtag(object, record.id)));
    expect(versions.map((version: number) => `"${version}"`)).toEqual(tags);
    expect(versions).toContain(3);
    expect(Object.keys(records[0])).not.toContain('version');
  });

  test('protects an update of a listed record by its version', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    const filter = JSON.stringify({ field: 'id', op: 'eq', value: id });
    const { body } = await expectStatus(200, 'GET', recordsPath('accounts'), { key, query: { filter } });
    const headers = { 'If-Match': `"${body.data.versions[0]}"` };
    await expectStatus(200, 'PATCH', recordsPath('accounts', id), { key, headers, body: { name: 'B' } });
    expectMismatch(await call('PATCH', recordsPath('accounts', id), { key, headers, body: { name: 'C' } }), 2);
  });
});

test('returns an ETag with every single record: intake, task, conversion and profile', async () => {
  const lead = { first_name: 'A', email: `${randomUUID()}@x.example` };
  const taken = await expectStatus(201, 'POST', '/v1/leads', { key, body: lead });
  const { id } = taken.body.data.lead;
  expect(taken.headers.get('etag')).toBe(await readEtag('leads', id));
  const body = { title: 'Call', scheduled_at: '2030-01-01T00:00:00Z' };
  const task = await expectStatus(201, 'POST', `${recordsPath('leads', id)}/tasks`, { key, body });
  expect(task.headers.get('etag')).toBe(await readEtag('tasks', task.body.data.task.id));
  const converted = await expectStatus(200, 'POST', `/v1/leads/${id}/convert`, { key, body: {} });
  expect(converted.headers.get('etag')).toBe('"2"');
  expect(converted.headers.get('etag')).toBe(await readEtag('leads', id));
  const customer = converted.body.data.customer.id;
  await patchRecord(key, 'customers', customer, { city: 'Berlin' });
  for (const path of [`/v1/customers/${customer}`, `/v1/customers?email=${lead.email}`])
    expect((await expectStatus(200, 'GET', path, { key })).headers.get('etag')).toBe('"2"');
});

describe('If-Match', () => {
  const patch = (id: string, ifMatch: string, body: object, idempotencyKey?: string): Promise<Answer> =>
    call('PATCH', recordsPath('accounts', id), {
      key,
      body,
      headers: { 'if-match': ifMatch },
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    });

  test('applies an update if If-Match names its version, also weak, in a list, or as *', async () => {
    const { id } = await createRecord(key, 'accounts', { name: '0' });
    for (const [index, tag] of ['"1"', 'W/"2"', '"1", "3"', '*'].entries()) {
      const answer = await patch(id, tag, { name: `${index + 1}` });
      expect({ tag, status: answer.status, etag: answer.headers.get('etag') }).toEqual({
        tag,
        status: 200,
        etag: `"${index + 2}"`,
      });
    }
  });

  test('rejects an update of another version, and writes nothing', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    await patchRecord(key, 'accounts', id, { city: 'Berlin' });
    const before = await readRecord(key, 'accounts', id);
    const left = await leftBehind(id);
    for (const tag of ['"1"', '"3"', '""', 'W/"1", "3"']) {
      const answer = await patch(id, tag, { name: tag });
      expectMismatch(answer, 2);
    }
    expect(await readRecord(key, 'accounts', id)).toEqual(before);
    expect(await leftBehind(id)).toEqual(left);
  });

  test('checks If-Match before the body, and replays the rejection', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    expectMismatch(await patch(id, '"2"', { name: null }), 1);
    const idempotencyKey = randomUUID();
    expectMismatch(await patch(id, '"2"', { name: 'B' }, idempotencyKey), 1);
    const replayed = await patch(id, '"1"', { name: 'B' }, idempotencyKey);
    expectMismatch(replayed, 1);
    expect(replayed.headers.get('idempotent-replay')).toBe('true');
  });

  test('applies one of 16 concurrent updates of one version', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A', employee_count: 0 });
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, index) => patch(id, '"1"', { employee_count: index + 1 })),
    );
    const [won, ...others] = answers.filter((answer) => answer.status === 200);
    expect(others).toEqual([]);
    for (const lost of answers.filter((answer) => answer !== won)) expectMismatch(lost, 2);
    expect(await readRecord(key, 'accounts', id)).toEqual(won?.body.data.record);
  });

  test('rejects a deletion of another version, and keeps the record with everything that belongs to it', async () => {
    const { id } = await createRecord(key, 'leads', { first_name: 'A', email: `${randomUUID()}@x.example` });
    const task = { title: 'Call', scheduled_at: '2030-01-01', object: 'leads', record_id: id };
    const { id: taskId } = await createRecord(key, 'tasks', task);
    const remove = (tag: string, more: object = {}) =>
      call('DELETE', recordsPath('leads', id), { key, headers: { 'if-match': tag }, ...more });
    expectMismatch(await remove('"2"'), 1);
    expectMismatch(await remove('"2"', { idempotencyKey: true }), 1);
    await readRecord(key, 'tasks', taskId);
    expect((await leftBehind(id)).events.map((row) => row.event)).toEqual(['record.created']);
    expect((await remove((await readEtag('leads', id)) ?? '')).status).toBe(200);
    await expectStatus(404, 'GET', recordsPath('tasks', taskId), { key });
    expect((await remove('"1"')).status).toBe(404);
  });

  test.each(['2', 'junk', '"1" "2"', '"1', '', ','])(
    'rejects the malformed ETag %s in If-Match, and explains the format',
    async (tag) => {
      const { id } = await createRecord(key, 'accounts', { name: 'A' });
      const answer = await patch(id, tag, { name: 'B' });
      expect(answer.status).toBe(400);
      expect(answer.body.error.details.fields).toEqual([
        {
          field: 'if-match',
          code: 'INVALID_FORMAT',
          message: 'if-match must be an ETag of a response with its quotes, e.g. "3", or *.',
        },
      ]);
      expect((await readRecord(key, 'accounts', id)).name).toBe('A');
    },
  );

  test('rejects an If-Match of 1,001 characters, and names the header', async () => {
    const { id } = await createRecord(key, 'accounts', { name: 'A' });
    const answer = await patch(id, `"${'x'.repeat(999)}"`, { name: 'B' });
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.fields).toMatchObject([{ field: 'if-match', code: 'TOO_LONG' }]);
  });

  test('checks If-Match on the operations of activities', async () => {
    const lead = await createRecord(key, 'leads', { first_name: 'A', email: `${randomUUID()}@x.example` });
    const body = { activity_type: 'Call', entity_type: 'lead', entity_id: lead.id, summary: 'x' };
    const created = await expectStatus(201, 'POST', '/v1/activities', { key, body });
    expect(created.headers.get('etag')).toBe('"1"');
    const path = `/v1/activities/${created.body.data.activity.id}`;
    const change = (tag: string, summary: string) =>
      call('PATCH', path, { key, body: { summary }, headers: { 'if-match': tag } });
    expectMismatch(await change('"2"', 'y'), 1);
    expect((await change('"1"', 'x')).headers.get('etag')).toBe('"1"');
    expect((await change('"1"', 'y')).headers.get('etag')).toBe('"2"');
    const read = await expectStatus(200, 'GET', path, { key });
    expect([read.headers.get('etag'), read.body.data.activity.summary]).toEqual(['"2"', 'y']);
    const guarded = { key, body: { summary: 'z' }, headers: { 'if-match': '"2"' }, idempotencyKey: randomUUID() };
    const first = await expectStatus(200, 'PATCH', path, guarded);
    const again = await expectStatus(200, 'PATCH', path, guarded);
    expect([again.text, again.headers.get('idempotent-replay')]).toEqual([first.text, 'true']);
  });
});
