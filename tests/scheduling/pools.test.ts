// Pools: creation, changes, and the rotation of their members.
import { beforeAll, describe, expect, test } from 'vitest';
import { call, expectStatus, type Json } from '../support/client.ts';
import { createRecord, lead } from '../support/records.ts';
import { book, halfHour, hold, newPool, search } from '../support/scheduling.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
const path = '/v1/scheduling/pools';

beforeAll(async () => {
  tenant = await newTenant();
});

const patch = (id: string, body: object) => call('PATCH', `${path}/${id}`, { key: tenant.key, body });
const assign = async (id: string, body: object = {}, key = tenant.key): Promise<Json> =>
  (await expectStatus(201, 'POST', `${path}/${id}/assignments`, { key, body, idempotencyKey: true })).body.data
    .assignment;
const suggest = async (id: string, query = {}, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', `${path}/${id}/suggestion`, { key, query })).body.data;

describe('a pool', () => {
  test('returns the members of a pool in order, with names and weights', async () => {
    const users = await Promise.all([newUser(tenant), newUser(tenant)]);
    const [a = '', b = ''] = users.map(({ id }) => id);
    const pool = await newPool(tenant, { members: [b, a], weights: { [a]: 3 }, description: 'D' });
    expect(pool.member_ids).toEqual([b, a]);
    expect(pool.members).toEqual([
      { user_id: b, full_name: 'Uma User', weight: 1, is_active: true },
      { user_id: a, full_name: 'Uma User', weight: 3, is_active: true },
    ]);
    const read = await expectStatus(200, 'GET', `${path}/${pool.id}`, { key: tenant.testKey });
    expect(read.body.data.pool).toEqual(pool);
    await database()`update users set status = 'inactive' where id = ${a}`;
    // An existing inactive member may stay and keeps the weight.
    const changed = (await patch(pool.id, { member_ids: [a, b] })).body.data.pool;
    expect(changed.members.map(({ weight, is_active }: Json) => [weight, is_active])).toEqual([
      [3, false],
      [1, true],
    ]);
    expect((await patch(pool.id, { description: null, policy_id: null })).body.data.pool).toMatchObject({
      description: null,
      policy_id: null,
      member_ids: [a, b],
    });
  });

  test('accepts only active users of the workspace and existing policies', async () => {
    const inactive = await newUser(tenant, { status: 'inactive' });
    const body = { name: crypto.randomUUID(), member_ids: [inactive.id] };
    const { error } = (await expectStatus(400, 'POST', path, { key: tenant.key, body })).body;
    expect(error.details).toMatchObject({ unknown_user_ids: [inactive.id], fields: [{ field: 'member_ids' }] });
    const other = { name: crypto.randomUUID(), member_ids: [], policy_id: crypto.randomUUID() };
    const refused = (await expectStatus(422, 'POST', path, { key: tenant.key, body: other })).body.error;
    expect(refused.details.fields).toMatchObject([{ field: 'policy_id', code: 'NOT_FOUND' }]);
    const stranger = { name: crypto.randomUUID(), member_ids: [], weights: { [inactive.id]: 2 } };
    await expectStatus(400, 'POST', path, { key: tenant.key, body: stranger });
  });

  test('shows a pool to keys that see a member, and lets only keys with full visibility change it', async () => {
    const pool = await newPool(tenant);
    const [other] = await database()`
      insert into branches (company_id, id, name, is_default, created_at)
      values (${tenant.companyId}, gen_random_uuid(), 'Other', false, now()) returning id`;
    const outside = await newKey(tenant, { reach: { kind: 'branch', id: other?.id } });
    const inside = await newKey(tenant, { reach: { kind: 'branch', id: tenant.branchId } });
    await expectStatus(404, 'GET', `${path}/${pool.id}`, { key: outside });
    expect((await expectStatus(200, 'GET', path, { key: outside })).body.data.pools).toEqual([]);
    await expectStatus(404, 'POST', '/v1/scheduling/slots/search', { key: outside, body: { pool_id: pool.id } });
    await expectStatus(200, 'GET', `${path}/${pool.id}`, { key: inside });
    const { error } = (await expectStatus(403, 'DELETE', `${path}/${pool.id}`, { key: inside })).body;
    expect(error.details.reason).toBe('company_reach_required');
  });

  test('rejects deleting a pool with active holds', async () => {
    const pool = await newPool(tenant, { members: 1 });
    const [slot] = (await search(tenant.key, pool, { limit: 1 })).slots;
    const { id } = await hold(tenant.key, slot);
    const { error } = (await expectStatus(409, 'DELETE', `${path}/${pool.id}`, { key: tenant.key })).body;
    expect(error.details).toMatchObject({ reason: 'in_use', references: { reservations: 1 } });
    await expectStatus(200, 'DELETE', `/v1/scheduling/reservations/${id}`, { key: tenant.key });
    await expectStatus(200, 'DELETE', `${path}/${pool.id}`, { key: tenant.key });
    await expectStatus(404, 'POST', '/v1/scheduling/reservations', {
      key: tenant.key,
      body: { slot_token: slot.slot_token },
      idempotencyKey: true as const,
    });
  });
});

describe('a turn', () => {
  test('rotates by weight, and advances only on an assignment', async () => {
    const pool = await newPool(tenant, { members: 2 });
    const [a, b] = pool.member_ids;
    expect((await patch(pool.id, { weights: { [b]: 2 } })).status).toBe(200);
    const record = await createRecord(tenant.key, 'leads', lead());
    const turns: string[] = [];
    for (let index = 1; index <= 6; index += 1) {
      const { user, strategy } = await suggest(pool.id);
      expect((await suggest(pool.id)).user).toEqual(user);
      const assignment = await assign(pool.id, { record_id: record.id });
      expect(assignment).toMatchObject({ user_id: user.id, strategy, rotation_index: index, record_id: record.id });
      turns.push(assignment.user_id);
    }
    expect(turns.filter((id) => id === a)).toHaveLength(2);
    // The record keeps its owner, and test mode has its own rotation.
    expect((await assign(pool.id, {}, tenant.testKey)).rotation_index).toBe(1);
    expect((await assign(pool.id)).rotation_index).toBe(7);
  });

  test('assigns each turn once under concurrent calls, within one turn of each share', async () => {
    const pool = await newPool(tenant, { members: 3 });
    const [a, b, c] = pool.member_ids;
    await patch(pool.id, { weights: { [a]: 5, [b]: 3, [c]: 1 } });
    const assigned = await Promise.all(Array.from({ length: 36 }, () => assign(pool.id)));
    expect(assigned.map((each) => each.rotation_index).toSorted((x, y) => x - y)).toEqual(
      Array.from({ length: 36 }, (_, index) => index + 1),
    );
    const counted = [a, b, c].map((id) => assigned.filter((each) => each.user_id === id).length);
    expect(counted).toEqual([20, 12, 4]);
  });

  test('skips members who cannot be booked, with the reason', async () => {
    const pool = await newPool(tenant, { members: 3, assignment_strategy: 'priority' });
    const [a, b, c] = pool.member_ids;
    const at = halfHour(6).toISOString();
    await book(tenant.key, [a], { policy_id: pool.policy_id, from: at, to: halfHour(7).toISOString() });
    await database()`update users set status = 'inactive' where id = ${c}`;
    expect(await suggest(pool.id, { at })).toMatchObject({
      user: { id: b },
      strategy: 'priority',
      eligible_user_ids: [b],
      excluded: [
        { user_id: a, reason: 'booking' },
        { user_id: c, reason: 'user_inactive' },
      ],
    });
    expect((await suggest(pool.id)).user.id).toBe(a);
    const refused = await call('POST', `${path}/${pool.id}/assignments`, {
      key: tenant.key,
      body: { at, exclude_user_ids: [b] },
      idempotencyKey: true as const,
    });
    expect(refused.body.error.details).toMatchObject({ reason: 'no_eligible_rep' });
    expect(refused.body.error.details.excluded).toContainEqual({ user_id: b, reason: 'excluded_by_caller' });
  });

  test('chooses the member with the fewest meetings ahead if the strategy says so', async () => {
    const pool = await newPool(tenant, { members: 2, assignment_strategy: 'least_busy' });
    const [a, b] = pool.member_ids;
    expect((await suggest(pool.id)).user.id).toBe(a);
    await book(tenant.key, [a], { policy_id: pool.policy_id });
    expect((await suggest(pool.id)).user.id).toBe(b);
    expect(await assign(pool.id)).toMatchObject({ user_id: b, strategy: 'least_busy' });
  });

  test('requires a policy, a member and an existing record for an assignment', async () => {
    const empty = await newPool(tenant, { members: 0 });
    const { error } = (await expectStatus(409, 'GET', `${path}/${empty.id}/suggestion`, { key: tenant.key })).body;
    expect(error.details.reason).toBe('no_eligible_rep');
    const pool = await newPool(tenant);
    const query = { policy_id: crypto.randomUUID() };
    await expectStatus(404, 'GET', `${path}/${pool.id}/suggestion`, { key: tenant.key, query });
    const body = { record_id: crypto.randomUUID() };
    await expectStatus(422, 'POST', `${path}/${pool.id}/assignments`, { key: tenant.key, body, idempotencyKey: true });
    const bare = await newTenant();
    const one = await newPool(bare, { policy_id: null });
    await database()`delete from scheduling_policies where company_id = ${bare.companyId} and is_default`;
    const none = (await expectStatus(409, 'GET', `${path}/${one.id}/suggestion`, { key: bare.key })).body.error;
    expect(none.details.reason).toBe('no_policy');
  });
});
