// Change sets: tried out when proposed, decided once by people, and applied in one transaction.
import { hash, randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { findKeys } from '../../db/access/credentials.ts';
import { newBearer } from '../support/access-tokens.ts';
import { newBranch } from '../support/arranged-ids.ts';
import { subscribed } from '../support/billing.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { createRecord } from '../support/records.ts';
import { adminToken, newPerson, tokenFor } from '../support/sessions.ts';
import { database, newKey, newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let key: string;
let token: string;
beforeAll(async () => {
  tenant = await newTenant();
  key = tenant.key;
  token = await adminToken(tenant);
});

const path = '/v1/change-sets';
const records = '/v1/objects/accounts/records';
const unique = (): string => `Acme ${randomUUID().slice(0, 8)}`;

const propose = async (operations: object[], more: object = {}, credential = key): Promise<Json> =>
  (await expectStatus(201, 'POST', path, { key: credential, body: { title: 'Changes', operations, ...more } })).body
    .data.change_set;
const read = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `${path}/${id}`, { key })).body.data.change_set;
const approve = ({ id, digest }: Json, credential: object = { token }): Promise<Answer> =>
  call('POST', `${path}/${id}/approve`, { ...credential, body: { digest } });
const countNamed = async (name: string): Promise<number> => {
  const filter = JSON.stringify({ field: 'name', op: 'eq', value: name });
  const answer = await expectStatus(200, 'GET', records, { key, query: { filter } });
  return answer.body.data.records.length;
};

/** Returns true if authentication finds that a set of the key waits, so that answers count them. */
async function hasProposals(secret: string): Promise<boolean> {
  const digest = hash('sha256', secret);
  const found = await findKeys(database(), tenant.companyId, [digest]);
  return found.get(digest)?.hasProposals ?? false;
}

test('a proposal changes nothing, and its approval applies operations that refer to each other', async () => {
  const name = unique();
  const set = await propose([
    { method: 'POST', path: records, body: { name }, ref: 'acme' },
    { method: 'POST', path: `${records}/$ref.acme.id/notes`, body: { content: 'Called' } },
    { method: 'PATCH', path: `${records}/$ref.acme.id`, body: { name: `${name} Ltd` } },
  ]);
  expect(set).toMatchObject({ status: 'pending', operation_count: 3, decided_by: null });
  expect(set.operations[0]).toMatchObject({ before: null, after: { record: { name } } });
  expect(set.operations[2]).toMatchObject({ before: { record: { name } }, after: { record: { name: `${name} Ltd` } } });
  expect(await countNamed(name)).toBe(0);
  const answer = await approve(set);
  expect({ status: answer.status, set: answer.body.data?.change_set, text: answer.text }).toMatchObject({
    status: 200,
    set: { status: 'applied', error: null, decided_by: { id: tenant.admin.id } },
  });
  expect(await countNamed(`${name} Ltd`)).toBe(1);
  const audit = await database()<{ action: string; actorId: string; metadata: Json }[]>`
    select action, actor_id as "actorId", metadata from audit_logs
    where company_id = ${tenant.companyId} and request_id = ${answer.body.meta.request_id} order by seq`;
  expect(audit.length).toBeGreaterThanOrEqual(4);
  for (const row of audit)
    expect(row).toMatchObject({
      actorId: tenant.admin.id,
      metadata: { change_set_id: set.id, proposed_by: { kind: 'api_key' } },
    });
});

test('the data of an applied set has the IDs of what it created, not those of its trial', async () => {
  const lead = await createRecord(key, 'leads', {
    ...{ first_name: 'Ada', email: `${randomUUID()}@example.com`, company_name: unique() },
  });
  const customer = await createRecord(key, 'customers', { first_name: 'Eve' });
  const customers = '/v1/objects/customers/records';
  const set = await propose([
    { method: 'POST', path: records, body: { name: unique() }, ref: 'acme' },
    { method: 'PATCH', path: `${customers}/${customer.id}`, body: { account_id: '$ref.acme.id' } },
    { method: 'PATCH', path: `${records}/$ref.acme.id`, body: { city: 'Oslo' } },
    { method: 'POST', path: `/v1/leads/${lead.id}/convert`, body: { deal: { name: 'Big deal' } } },
    { method: 'PATCH', path: `/v1/objects/leads/records/${lead.id}`, body: { last_name: 'Lane' } },
  ]);
  expect(set.operations[3]).toMatchObject({
    before: { record: { id: lead.id, converted_customer_id: null } },
    after: { record: { id: lead.id }, customer: { created: true }, deal: { name: 'Big deal' } },
  });
  const { operations } = (await approve(set)).body.data.change_set;
  expect(await read(set.id)).toMatchObject({ status: 'applied', operations });
  const [added, linked, changed, converted, later] = operations;
  const account = (await expectStatus(200, 'GET', `${records}/${added.after.record.id}`, { key })).body.data.record;
  const changedCustomer = (await expectStatus(200, 'GET', `${customers}/${customer.id}`, { key })).body.data.record;
  expect([account.id, changedCustomer.account_id]).toEqual([changed.after.record.id, linked.after.record.account_id]);
  expect([account.id, changed.before.record.id]).toEqual([changedCustomer.account_id, account.id]);
  const { record: lastLead } = (await expectStatus(200, 'GET', `/v1/objects/leads/records/${lead.id}`, { key })).body
    .data;
  expect(converted.after.record.converted_customer_id).toBe(lastLead.converted_customer_id);
  expect(converted.after.customer).toEqual({ id: lastLead.converted_customer_id, created: true });
  expect(later.before.record.converted_customer_id).toBe(lastLead.converted_customer_id);
  expect(later.after.record.converted_customer_id).toBe(lastLead.converted_customer_id);
  const deal = (await expectStatus(200, 'GET', `/v1/objects/deals/records/${converted.after.deal.id}`, { key })).body
    .data.record;
  const { customer_id: customerId, account_id: accountId } = converted.after.deal;
  expect(deal).toMatchObject({ name: 'Big deal', customer_id: customerId, account_id: accountId });
  expect(converted.after.account.id).toBe(accountId);
});

test('operations that fail are all named, and nothing is proposed', async () => {
  const body = {
    title: 'Changes',
    operations: [
      { method: 'POST', path: records, body: { nmae: 'x' } },
      { method: 'PATCH', path: `${records}/${randomUUID()}`, body: { name: 'x' } },
      { method: 'POST', path: '/v1/nothing', body: {} },
      { method: 'POST', path: '/v1/api-keys', body: {} },
      { method: 'POST', path: records, body: { name: 'fine' } },
      { method: 'PATCH', path: `${records}/$ref.none.id`, body: { name: 'x' } },
    ],
  };
  const answer = await call('POST', path, { key, body });
  expect(answer.status).toBe(422);
  const found = answer.body.error.details.operations.map(({ index, status }: Json) => [index, status]);
  expect(found).toEqual([
    [0, 422],
    [1, 404],
    [2, 404],
    [3, 400],
    [5, 422],
  ]);
});

test('a set is stale if its record changed since', async () => {
  const id = (await createRecord(key, 'accounts', { name: unique() })).id;
  const set = await propose([{ method: 'PATCH', path: `${records}/${id}`, body: { name: unique() } }]);
  expect(set.operations[0].if_version).toBe(1);
  await expectStatus(200, 'PATCH', `${records}/${id}`, { key, body: { name: unique() } });
  const answer = await approve(set);
  expect(answer).toMatchObject({ status: 409, body: { error: { details: { reason: 'stale', operations: [0] } } } });
  expect((await read(set.id)).status).toBe('pending');
  const body = {
    title: 'x',
    operations: [{ method: 'PATCH', path: `${records}/${id}`, body: { name: 'y' }, if_version: 1 }],
  };
  const late = await call('POST', path, { key, body });
  expect(late).toMatchObject({ status: 409, body: { error: { details: { reason: 'stale', operations: [0] } } } });
});

describe('a batch applies exactly what its trial showed', () => {
  const expectStale = async (set: Json): Promise<void> => {
    expect(await approve(set)).toMatchObject({
      status: 409,
      body: { error: { details: { reason: 'stale', operations: [0] } } },
    });
    expect((await read(set.id)).status).toBe('pending');
  };
  const readRecordName = async (id: string): Promise<string> =>
    (await expectStatus(200, 'GET', `${records}/${id}`, { key })).body.data.record.name;

  test('so items that its proposer cannot see are not changed by a person who can', async () => {
    const near = await newKey(tenant, { reach: { kind: 'branch', id: await newBranch(tenant) } });
    const { id, name } = await createRecord(key, 'accounts', { name: unique() });
    const added = await createRecord(near, 'accounts', { name: unique() });
    const updates = [added, { id }].map((each) => ({ id: each.id, name: unique() }));
    await expectStale(await propose([{ method: 'POST', path: `${records}:batch-update`, body: updates }], {}, near));
    const ids = [added.id, id];
    await expectStale(await propose([{ method: 'POST', path: `${records}:batch-delete`, body: { ids } }], {}, near));
    expect(await readRecordName(id)).toBe(name);
    expect(await readRecordName(added.id)).toBe(added.name);
  });

  test('so it is stale if one of its records changed since', async () => {
    const { id } = await createRecord(key, 'accounts', { name: unique() });
    const body = [{ id, name: unique() }];
    const set = await propose([{ method: 'POST', path: `${records}:batch-update`, body }]);
    const name = unique();
    await expectStatus(200, 'PATCH', `${records}/${id}`, { key, body: { name } });
    await expectStale(set);
    expect(await readRecordName(id)).toBe(name);
  });

  test('so an upsert does not change a record that was added since', async () => {
    const [first, second] = [unique(), unique()];
    const batch = await propose([
      {
        method: 'POST',
        path: `${records}:batch-upsert`,
        body: { match_on: ['name'], records: [{ name: first, city: 'Rome' }] },
      },
    ]);
    const single = await propose([
      {
        method: 'POST',
        path: `${records}:upsert`,
        body: { match_on: ['name'], record: { name: second, city: 'Rome' } },
      },
    ]);
    for (const name of [first, second]) await createRecord(key, 'accounts', { name, city: 'Bonn' });
    await expectStale(batch);
    await expectStale(single);
  });

  test('so links that its proposer may not add are not added', async () => {
    const narrow = await newKey(tenant, { scopes: ['change_sets:create', 'accounts:view'] });
    const linkType = {
      ...{ name: 'contacts', inverse_name: 'employer', label: 'Contacts', inverse_label: 'Employer' },
      ...{ from_object: 'accounts', to_object: 'customers', cardinality: 'one_to_many' },
    };
    await expectStatus(201, 'POST', '/v1/link-types', { key, body: linkType });
    const from = (await createRecord(key, 'accounts', { name: unique() })).id;
    const to = (await createRecord(key, 'customers', { first_name: 'Ada', last_name: 'Lane' })).id;
    const body = { create: [{ object: 'accounts', record_id: from, link_type: 'contacts', to_id: to }] };
    const set = await propose([{ method: 'POST', path: '/v1/links:batch', body }], {}, narrow);
    expect(set.operations[0].after.created.failed).toMatchObject([{ index: 0 }]);
    await expectStale(set);
  });
});

test('a merge is shown as the change of the record that stays, and is stale if one of both changed', async () => {
  const [source, target] = [
    await createRecord(key, 'accounts', { name: unique(), city: 'Rome' }),
    await createRecord(key, 'accounts', { name: unique() }),
  ];
  const change = (id: string) => expectStatus(200, 'PATCH', `${records}/${id}`, { key, body: { name: unique() } });
  await change(target.id);
  await change(target.id);
  const merge = {
    method: 'POST',
    path: `${records}/${source.id}/merge`,
    body: { into_id: target.id },
    if_version: 3,
  };
  const stale = await propose([merge]);
  expect(stale.operations[0]).toMatchObject({
    if_version: 3,
    before: { record: { id: target.id, city: null } },
    after: { record: { id: target.id, city: 'Rome' } },
  });
  await change(source.id);
  expect(await approve(stale)).toMatchObject({
    status: 409,
    body: { error: { details: { reason: 'stale', operations: [0] } } },
  });
  const set = await propose([merge]);
  expect((await approve(set)).body.data?.change_set).toMatchObject({ status: 'applied' });
  expect((await call('GET', `${records}/${source.id}`, { key })).status).toBe(404);
});

test('a restoration is shown with the data of the record, not as a deletion', async () => {
  const { id } = await createRecord(key, 'accounts', { name: unique() });
  await expectStatus(200, 'DELETE', `${records}/${id}`, { key });
  const set = await propose([{ method: 'POST', path: `/v1/objects/accounts/deleted-records/${id}/restore` }]);
  expect(set.operations[0].after).toMatchObject({ record: { id } });
  expect((await approve(set)).body.data?.change_set).toMatchObject({ status: 'applied' });
});

test('an operation that cannot be in a set is rejected before its target is read', async () => {
  for (const method of ['PUT', 'PATCH', 'DELETE']) {
    const operations = [{ method, path: `/v1/checkout-sessions/${randomUUID()}` }];
    const answer = await call('POST', path, { key, body: { title: 'x', operations } });
    expect(answer).toMatchObject({ status: 422, body: { error: { details: { operations: [{ index: 0 }] } } } });
  }
});

describe('of 32 approvals at the same time', () => {
  test('one applies the set', async () => {
    const name = unique();
    const set = await propose([{ method: 'POST', path: records, body: { name } }]);
    const answers = await Promise.all(Array.from({ length: 32 }, () => approve(set)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(31).fill(409)]);
    expect(await countNamed(name)).toBe(1);
  });
});

test('keys cannot approve or reject with any scopes', async () => {
  const set = await propose([{ method: 'POST', path: records, body: { name: unique() } }]);
  expect((await approve(set, { key })).status).toBe(403);
  expect((await call('POST', `${path}/${set.id}/reject`, { key, body: {} })).status).toBe(403);
  expect((await approve({ ...set, digest: 'other' })).body.error.details.reason).toBe('digest_mismatch');
});

test('approval, rejection, withdrawal and expiry at the same time have one outcome', async () => {
  for (let turn = 0; turn < 5; turn += 1) {
    const name = unique();
    const set = await propose([{ method: 'POST', path: records, body: { name } }]);
    const overdue = () => database()`
      update change_sets set expires_at = now() - interval '1 second'
      where company_id = ${tenant.companyId} and id = ${set.id} and status = 'pending'`;
    const [, ...answers] = await Promise.all([
      overdue(),
      approve(set),
      call('POST', `${path}/${set.id}/withdraw`, { key }),
      call('POST', `${path}/${set.id}/reject`, { token, body: { reason: 'No' } }),
    ]);
    const statuses = answers.map(({ status }) => status);
    expect(statuses.every((status) => status === 200 || status === 409)).toBe(true);
    const decided = answers.filter(({ status }) => status === 200);
    const { status } = await read(set.id);
    expect(decided.map(({ body }) => body.data.change_set.status)).toEqual(status === 'expired' ? [] : [status]);
    expect(await countNamed(name)).toBe(status === 'applied' ? 1 : 0);
  }
});

test('a set can have 100 operations', async () => {
  const names = Array.from({ length: 100 }, unique);
  const set = await propose(names.map((name) => ({ method: 'POST', path: records, body: { name } })));
  expect((await approve(set)).body.data.change_set.status).toBe('applied');
});

test('later operations see objects and fields that earlier ones add', async () => {
  const name = `boats-${randomUUID().slice(0, 8)}`;
  const boats = `/v1/objects/object:${name}/records`;
  const set = await propose([
    { method: 'POST', path: '/v1/objects', body: { slug: name, label: 'Boat', plural: 'Boats' } },
    {
      method: 'POST',
      path: `/v1/objects/object:${name}/fields`,
      body: { name: 'sails', label: 'Sails', type: 'number' },
    },
    { method: 'POST', path: boats, body: { name: 'Ada', sails: 2 }, ref: 'ada' },
    { method: 'PATCH', path: `${boats}/$ref.ada.id`, body: { sails: 3 } },
  ]);
  expect(set.operations[3]).toMatchObject({ before: { record: { sails: 2 } }, after: { record: { sails: 3 } } });
  expect((await call('GET', boats, { key })).status).toBe(404);
  const applied = await approve(set);
  expect({ text: applied.text, set: applied.body.data?.change_set }).toMatchObject({
    set: { status: 'applied', error: null },
  });
  const { body } = await expectStatus(200, 'GET', boats, { key });
  expect(body.data.records).toMatchObject([{ name: 'Ada', sails: 3 }]);
});

test('a change set contains no password', async () => {
  const user = {
    email: `${randomUUID()}@example.com`,
    first_name: 'Ada',
    last_name: 'Lane',
    role: 'Viewer',
    password: 'a long password',
  };
  const body = { title: 'x', operations: [{ method: 'POST', path: '/v1/users', body: user }] };
  const answer = await call('POST', path, { key, body });
  expect(answer.body.error.details.operations).toMatchObject([
    { status: 400, error: { details: { reason: 'password_not_allowed' } } },
  ]);
});

test('lists show the sets without their operations', async () => {
  const set = await propose([{ method: 'POST', path: records, body: { name: unique() } }]);
  const list = async (status: string): Promise<Json[]> =>
    (await expectStatus(200, 'GET', path, { token, query: { status, limit: '1' } })).body.data.change_sets;
  const { operations: _, ...summary } = set;
  expect(await list('pending')).toEqual([summary]);
  await expectStatus(200, 'POST', `${path}/${set.id}/withdraw`, { key });
  expect(await list('withdrawn')).toMatchObject([{ id: set.id, status: 'withdrawn' }]);
  expect(await list('pending')).not.toMatchObject([{ id: set.id }]);
});

test('a key sees only sets about modules that it can view', async () => {
  const set = await propose([{ method: 'POST', path: records, body: { name: unique() } }]);
  const narrow = await newKey(tenant, { scopes: ['change_sets:view'] });
  expect((await call('GET', `${path}/${set.id}`, { key: narrow })).status).toBe(404);
  const wider = await newKey(tenant, { scopes: ['change_sets:view', 'accounts:view'] });
  expect((await call('GET', `${path}/${set.id}`, { key: wider })).status).toBe(200);
});

test('a key always sees and withdraws the sets that it proposed', async () => {
  const reach = { kind: 'branch', id: await newBranch(tenant) } as const;
  const own = await newKey(tenant, { scopes: ['change_sets:*', 'accounts:*'], reach });
  const set = await propose([{ method: 'POST', path: records, body: { name: unique() } }], {}, own);
  await database()`
    update api_keys set scopes = '{change_sets:*}'
    where company_id = ${tenant.companyId} and id = (select created_by_id::uuid from change_sets where id = ${set.id})`;
  await expectStatus(200, 'GET', `${path}/${set.id}`, { key: own });
  await expectStatus(200, 'POST', `${path}/${set.id}/withdraw`, { key: own });
});

test('scopes that an operation checks itself are needed to read a set and to reject it', async () => {
  const [source, target] = [
    await createRecord(key, 'accounts', { name: unique() }),
    await createRecord(key, 'accounts', { name: unique() }),
  ];
  const { merge } = (
    await expectStatus(200, 'POST', `${records}/${source.id}/merge`, {
      key,
      body: { into_id: target.id },
      idempotencyKey: true,
    })
  ).body.data;
  const set = await propose([{ method: 'POST', path: `/v1/merges/${merge.id}/undo` }]);
  const narrow = await newKey(tenant, { scopes: ['change_sets:view'] });
  expect((await call('GET', `${path}/${set.id}`, { key: narrow })).status).toBe(404);
  const wider = await newKey(tenant, { scopes: ['change_sets:view', 'accounts:view'] });
  expect((await call('GET', `${path}/${set.id}`, { key: wider })).status).toBe(200);
  const viewer = await tokenFor(tenant, await newPerson(tenant, 'Viewer'));
  expect(await call('POST', `${path}/${set.id}/reject`, { token: viewer, body: {} })).toMatchObject({
    status: 403,
    body: { error: { details: { required_scopes: ['accounts:edit'] } } },
  });
  expect((await approve(set)).body.data?.change_set).toMatchObject({ status: 'applied' });
});

test('a sign-in does not make a set about a user stale', async () => {
  const user = await newPerson(tenant);
  const set = await propose([{ method: 'PATCH', path: `/v1/users/${user.id}`, body: { full_name: 'Ada Lane' } }]);
  await database()`
    update users set last_sign_in_at = now() where company_id = ${tenant.companyId} and id = ${user.id}`;
  expect((await approve(set)).body.data?.change_set).toMatchObject({ status: 'applied' });
});

test('sets of other tenants and of the other mode are not found', async () => {
  const set = await propose([{ method: 'POST', path: records, body: { name: unique() } }]);
  const other = await newTenant();
  const otherToken = await adminToken(other);
  for (const credential of [{ key: other.key }, { token: otherToken }, { key: tenant.testKey }])
    expect((await call('GET', `${path}/${set.id}`, credential)).status).toBe(404);
  expect((await call('POST', `${path}/${set.id}/withdraw`, { key: other.key })).status).toBe(404);
  expect((await approve(set, { token: otherToken })).status).toBe(404);
  expect((await call('POST', `${path}/${set.id}/reject`, { token: otherToken, body: {} })).status).toBe(404);
  const id = (await createRecord(key, 'accounts', { name: unique() })).id;
  const body = { title: 'x', operations: [{ method: 'PATCH', path: `${records}/${id}`, body: { name: 'x' } }] };
  expect(await call('POST', path, { key: other.key, body })).toMatchObject({
    status: 422,
    body: { error: { details: { operations: [{ index: 0, status: 404 }] } } },
  });
});

describe('an answer says how many sets of the credential wait', () => {
  const readPending = async (credential: object): Promise<number | undefined> =>
    (await expectStatus(200, 'GET', records, { ...credential, query: { limit: '1' } })).body.meta.pending_change_sets;
  const operations = () => [{ method: 'POST', path: records, body: { name: unique() } }];

  test('of a key that also writes directly, until each is decided', async () => {
    const [own, other] = [await newKey(tenant), await newKey(tenant)];
    // From here on, both keys are cached.
    expect([await readPending({ key: own }), await readPending({ key: other })]).toEqual([undefined, undefined]);
    const body = { title: 'Changes', operations: operations() };
    const made = await expectStatus(201, 'POST', path, { key: own, body });
    expect(made.body.meta.pending_change_sets).toBe(1);
    const second = await propose(operations(), {}, own);
    expect([await readPending({ key: own }), await readPending({ key: other })]).toEqual([2, undefined]);
    const written = await expectStatus(201, 'POST', records, {
      key: own,
      body: { name: unique() },
      idempotencyKey: true,
    });
    expect(written.body.meta.pending_change_sets).toBe(2);
    const withdrawn = await expectStatus(200, 'POST', `${path}/${second.id}/withdraw`, { key: own });
    expect(withdrawn.body.meta.pending_change_sets).toBe(1);
    expect(await readPending({ key: own })).toBe(1);
    const { id, digest } = made.body.data.change_set;
    const session = await tokenFor(tenant, await newPerson(tenant, 'Company_Admin'));
    await expectStatus(200, 'POST', `${path}/${id}/approve`, { token: session, body: { digest } });
    expect(await readPending({ key: own })).toBeUndefined();
    expect(await hasProposals(own)).toBe(false);
  });

  test('of a test key until a reset of test mode', async () => {
    const own = await newTenant();
    await propose(operations(), {}, own.testKey);
    expect(await readPending({ key: own.testKey })).toBe(1);
    await expectStatus(200, 'POST', '/v1/test-mode/reset', { key: own.testKey, body: {} });
    expect(await readPending({ key: own.testKey })).toBeUndefined();
    expect(await hasProposals(own.testKey)).toBe(false);
  });

  test('of an app and its user, and not of other users of the app', async () => {
    const scopes = ['accounts:view', 'accounts:create', 'change_sets:create'];
    const bearer = await newBearer(tenant, scopes);
    const body = { title: 'Changes', operations: operations() };
    const made = await expectStatus(201, 'POST', path, { token: bearer, body });
    expect(made.body.meta.pending_change_sets).toBe(1);
    expect(await readPending({ token: bearer })).toBe(1);
    expect(await readPending({ token: await newBearer(tenant, scopes) })).toBeUndefined();
  });

  test('of a key whose last set ends while it proposes another', async () => {
    const own = await newKey(tenant);
    for (let turn = 0; turn < 8; turn += 1) {
      const set = await propose(operations(), {}, own);
      const [, next] = await Promise.all([
        call('POST', `${path}/${set.id}/withdraw`, { key: own }),
        propose(operations(), {}, own),
      ]);
      expect(await readPending({ key: own })).toBe(1);
      await expectStatus(200, 'POST', `${path}/${next.id}/withdraw`, { key: own });
      expect(await readPending({ key: own })).toBeUndefined();
      expect(await hasProposals(own)).toBe(false);
    }
  });
});

describe('a session token', () => {
  // Each person has a limit of calls per minute, so this is not the one of the other tests.
  let own: Tenant;
  const inTestMode = { token: '', query: { environment: 'test' } };
  beforeAll(async () => {
    own = await newTenant();
    inTestMode.token = await adminToken(own);
  });

  test('decides about sets of test keys if it names test mode, and changes only test data', async () => {
    const name = unique();
    const operations = [{ method: 'POST', path: records, body: { name } }];
    const [set, other] = [await propose(operations, {}, own.testKey), await propose(operations, {}, own.testKey)];
    expect((await call('GET', `${path}/${set.id}`, { token: inTestMode.token })).status).toBe(404);
    expect((await approve(set, { token: inTestMode.token })).status).toBe(404);
    const listed = await expectStatus(200, 'GET', path, {
      token: inTestMode.token,
      query: { environment: 'test', status: 'pending' },
    });
    expect(listed.body.data.change_sets.map(({ id }: Json) => id)).toEqual([other.id, set.id]);
    expect(listed.body.data.change_sets[0]).toMatchObject({ test_mode: true });
    expect((await expectStatus(200, 'GET', `${path}/${set.id}`, inTestMode)).body.data.change_set).toEqual(set);

    const approved = await approve(set, inTestMode);
    expect(approved.body).toMatchObject({
      data: { change_set: { status: 'applied', test_mode: true, decided_by: { id: own.admin.id } } },
      meta: { test_mode: true },
    });
    const rejected = await call('POST', `${path}/${other.id}/reject`, { ...inTestMode, body: { reason: 'No' } });
    expect(rejected.body.data.change_set).toMatchObject({ status: 'rejected', test_mode: true });
    const rows = await database()`
      select test_mode from accounts where company_id = ${own.companyId} and name = ${name}`;
    expect(rows).toEqual([{ test_mode: true }]);
    const audit = await database()`
      select distinct test_mode from audit_logs
      where company_id = ${own.companyId} and metadata ->> 'change_set_id' in (${set.id}, ${other.id})`;
    expect(audit).toEqual([{ test_mode: true }]);
    const events = await database()`
      select distinct test_mode from outbox_events
      where company_id = ${own.companyId} and data ->> 'change_set_id' in (${set.id}, ${other.id})`;
    expect(events.every((row) => row.test_mode)).toBe(true);
  });

  test('is in live mode otherwise, and cannot name another mode than these two', async () => {
    const set = await propose([{ method: 'POST', path: records, body: { name: unique() } }], {}, own.key);
    expect((await approve(set, inTestMode)).status).toBe(404);
    expect((await approve(set, { token: inTestMode.token, query: { environment: 'both' } })).status).toBe(400);
    expect(
      (await approve(set, { token: inTestMode.token, query: { environment: 'live' } })).body.data.change_set.status,
    ).toBe('applied');
  });

  test('is the only credential that can name another mode than its own', async () => {
    const set = await propose([{ method: 'POST', path: records, body: { name: unique() } }], {}, own.testKey);
    const answer = await call('GET', `${path}/${set.id}`, { key: own.key, query: { environment: 'test' } });
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { details: { fields: [{ field: 'environment', code: 'INVALID_OPTION', allowed: ['live'] }] } } },
    });
    await expectStatus(200, 'GET', `${path}/${set.id}`, { key: own.testKey, query: { environment: 'test' } });
    const other = await adminToken(await newTenant());
    expect((await approve(set, { ...inTestMode, token: other })).status).toBe(404);
  });
});

test('an approval in a workspace without a subscription is rejected like other writes, and applies nothing', async () => {
  const unpaid = await newTenant();
  const name = unique();
  const operations = [{ method: 'POST', path: records, body: { name } }];
  const sets = [await propose(operations, {}, unpaid.key), await propose(operations, {}, unpaid.testKey)];
  const session = await adminToken(unpaid);
  await subscribed(unpaid, 'live', { status: 'canceled', ended_at: new Date(Date.now() - 86_400_000) });
  const write = await call('POST', records, { key: unpaid.key, body: { name }, idempotencyKey: true });
  expect(write.status).toBe(402);
  for (const [index, environment] of ['live', 'test'].entries()) {
    const answer = await approve(sets[index] ?? {}, { token: session, query: { environment } });
    expect([answer.status, answer.body.error]).toEqual([402, write.body.error]);
    expect(answer.headers.get('x-quota-remaining')).toBe(write.headers.get('x-quota-remaining'));
  }
  const left = await database()`
    select status from change_sets where company_id = ${unpaid.companyId}
    union all select 'written' from accounts where company_id = ${unpaid.companyId}`;
  expect(left).toEqual([{ status: 'pending' }, { status: 'pending' }]);
});

test('a set expires, cannot be approved afterwards, and has one outcome against an approval', async () => {
  const name = unique();
  const set = await propose([{ method: 'POST', path: records, body: { name } }]);
  await database()`
    update change_sets set expires_at = now() - interval '1 second'
    where company_id = ${tenant.companyId} and id = ${set.id}`;
  expect((await approve(set)).body.error.details.reason).toBe('expired');
  expect((await read(set.id)).status).toBe('expired');
  const event = await vi.waitUntil(
    async () =>
      (
        await database()`
          select event from outbox_events
          where company_id = ${tenant.companyId} and event = 'change_set.expired' and data ->> 'change_set_id' = ${set.id}
          union all
          select action from audit_logs
          where company_id = ${tenant.companyId} and action = 'change_set.expire' and metadata ->> 'change_set_id' = ${set.id}`
      )[0],
    { timeout: 20_000, interval: 100 },
  );
  expect(event).toBeDefined();
  expect(await countNamed(name)).toBe(0);
});

test('nothing of an atomic set is applied if an operation fails, and the rest of another set is', async () => {
  const [taken, first, second] = [unique(), unique(), unique()];
  const id = (await createRecord(key, 'accounts', { name: unique() })).id;
  const operations = (name: string) => [
    { method: 'POST', path: records, body: { name } },
    { method: 'POST', path: `${records}/${id}/notes`, body: { content: taken } },
  ];
  const atomic = await propose(operations(first));
  const loose = await propose(operations(second), { atomic: false });
  await expectStatus(200, 'DELETE', `${records}/${id}`, { key });
  const failed = (await approve(atomic)).body.data.change_set;
  expect(failed).toMatchObject({ status: 'failed', error: { index: 1, status: 404 } });
  expect(failed.operations.map(({ status }: Json) => status)).toEqual(['skipped', 'failed']);
  expect(await countNamed(first)).toBe(0);
  const applied = (await approve(loose)).body.data.change_set;
  expect(applied).toMatchObject({ status: 'applied', error: { index: 1, status: 404 } });
  expect(await countNamed(second)).toBe(1);
});

test('people can only approve or reject what they may do', async () => {
  const viewer = await newPerson(tenant, 'Viewer');
  const name = unique();
  const set = await propose([{ method: 'POST', path: records, body: { name } }]);
  const answer = await approve(set, { token: await tokenFor(tenant, viewer) });
  expect(answer).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN_SCOPE' } } });
  const rejected = await call('POST', `${path}/${set.id}/reject`, { token: await tokenFor(tenant, viewer), body: {} });
  expect(rejected).toMatchObject({
    status: 403,
    body: { error: { code: 'FORBIDDEN_SCOPE', details: { required_scopes: ['accounts:create'] } } },
  });
  expect((await read(set.id)).status).toBe('pending');
  expect(await countNamed(name)).toBe(0);
});

test('a revert undoes the operations of an applied set', async () => {
  const [name, added] = [unique(), unique()];
  const { id } = await createRecord(key, 'accounts', { name });
  const set = await propose([
    { method: 'PATCH', path: `${records}/${id}`, body: { name: unique() } },
    { method: 'POST', path: records, body: { name: added } },
  ]);
  const body = { change_set_id: set.id };
  const early = await call('POST', '/v1/reverts', { key, body });
  expect(early).toMatchObject({ status: 409, body: { error: { details: { reason: 'not_applied' } } } });
  expect((await approve(set)).status).toBe(200);
  const { revert } = (await expectStatus(201, 'POST', '/v1/reverts', { key, body })).body.data;
  expect(revert.source).toMatchObject({ change_set_id: set.id, request_id: null });
  const readRevert = async (status: string): Promise<Json> =>
    vi.waitUntil(
      async () => {
        const found = (await expectStatus(200, 'GET', `/v1/reverts/${revert.id}`, { key })).body.data.revert;
        return found.status === status && found;
      },
      { timeout: 30_000, interval: 50 },
    );
  const planned = await readRevert('planned');
  expect(planned).toMatchObject({ counts: { records: 2, operations: 2, conflicts: 0 } });
  const applying = { key, body: { digest: planned.digest, conflicts: 'fail' } };
  await expectStatus(202, 'POST', `/v1/reverts/${revert.id}/apply`, applying);
  await readRevert('completed');
  expect((await expectStatus(200, 'GET', `${records}/${id}`, { key })).body.data.record.name).toBe(name);
  expect(await countNamed(added)).toBe(0);
  const other = await newTenant();
  const foreign = await call('POST', '/v1/reverts', { key: other.key, body });
  expect(foreign).toMatchObject({
    status: 422,
    body: { error: { details: { fields: [{ field: 'change_set_id' }] } } },
  });
});
