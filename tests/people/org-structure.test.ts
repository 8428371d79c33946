// The organization: its tree, pages, changes, users, and visibility.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newBearer } from '../support/access-tokens.ts';
import { newBranch, newTeam } from '../support/arranged-ids.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { audited } from '../support/records.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { adminToken } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let other: Tenant;
/** Main Branch has the team Inbound. Elsewhere has no team. */
let elsewhere: string;
let inbound: string;
let branchKey: string;
let teamKey: string;
let people: Record<'direct' | 'inTeam' | 'inactive' | 'away' | 'nowhere', string>;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newTenant('Blue Lake Trading'), newTenant()]);
  elsewhere = await newBranch(tenant);
  inbound = await newTeam(tenant, tenant.branchId, 'Inbound');
  people = {
    direct: tenant.admin.id,
    inTeam: (await newUser(tenant)).id,
    inactive: (await newUser(tenant, { status: 'inactive' })).id,
    away: (await newUser(tenant, { branchId: elsewhere })).id,
    nowhere: (await newUser(tenant)).id,
  };
  const sql = database();
  const company = tenant.companyId;
  await sql`update users set team_id = ${inbound} where company_id = ${company} and id = any(${[people.inTeam, people.inactive]}::uuid[])`;
  await sql`update users set branch_id = null where company_id = ${company} and id = ${people.nowhere}`;
  await sql`update branches set manager_user_id = ${people.away}, code = 'ELS', city = 'Leeds', country = 'GB', timezone = 'Europe/London'
    where company_id = ${company} and id = ${elsewhere}`;
  await sql`update teams set manager_user_id = ${people.inTeam} where company_id = ${company} and id = ${inbound}`;
  branchKey = await newKey(tenant, { reach: { kind: 'branch', id: elsewhere } });
  teamKey = await newKey(tenant, { reach: { kind: 'team', id: inbound } });
});

const ask = async (path: string, key = tenant.key, query: Record<string, string | number> = {}): Promise<Json> =>
  (await expectStatus(200, 'GET', path, { key, query })).body.data;

describe('GET /v1/org-structure', () => {
  test('shows the whole tree with managers and the active users of each node and below', async () => {
    const answer = await expectStatus(200, 'GET', '/v1/org-structure', { key: tenant.key });
    expect(answer.headers.get('cache-control')).toBe('private, max-age=60');
    expect(answer.body.data.tree).toEqual({
      id: tenant.companyId,
      kind: 'company',
      name: 'Blue Lake Trading',
      manager: null,
      user_count: 4,
      children: [
        {
          id: elsewhere,
          kind: 'branch',
          name: 'Elsewhere',
          manager: { id: people.away, full_name: 'Uma User' },
          user_count: 1,
          children: [],
        },
        {
          id: tenant.branchId,
          kind: 'branch',
          name: 'Main Branch',
          manager: null,
          user_count: 2,
          children: [
            {
              id: inbound,
              kind: 'team',
              name: 'Inbound',
              manager: { id: people.inTeam, full_name: 'Uma User' },
              user_count: 1,
              children: [],
            },
          ],
        },
      ],
    });
    expect(await ask('/v1/org-structure', tenant.testKey)).toEqual(answer.body.data);
  });

  test('shows a key of a branch or a team its own part and counts only its users', async () => {
    const shape = ({ name, user_count: count, children }: Json): Json => [name, count, children.map(shape)];
    expect(shape((await ask('/v1/org-structure', branchKey)).tree)).toEqual([
      'Blue Lake Trading',
      1,
      [['Elsewhere', 1, []]],
    ]);
    expect(shape((await ask('/v1/org-structure', teamKey)).tree)).toEqual([
      'Blue Lake Trading',
      1,
      [['Main Branch', 1, [['Inbound', 1, []]]]],
    ]);
  });
});

describe('branches and teams', () => {
  test('shows a branch with all its details', async () => {
    const { branch } = await ask(`/v1/branches/${elsewhere}`);
    expect(branch).toEqual({
      id: elsewhere,
      name: 'Elsewhere',
      code: 'ELS',
      is_default: false,
      is_active: true,
      city: 'Leeds',
      country: 'GB',
      timezone: 'Europe/London',
      manager_user_id: people.away,
      user_count: 1,
      created_at: expect.any(String),
    });
    const { branches, has_more: more } = await ask('/v1/branches');
    expect([branches.map(({ id }: Json) => id), more]).toEqual([[elsewhere, tenant.branchId], false]);
    expect(branches[0]).toEqual(branch);
  });

  test('lists teams with their members', async () => {
    const { teams } = await ask('/v1/teams');
    expect(teams).toEqual([
      { id: inbound, name: 'Inbound', branch_id: tenant.branchId, manager_user_id: people.inTeam, member_count: 1 },
    ]);
  });

  test('shows a key of a branch or a team only the nodes within its reach', async () => {
    const listIds = (rows: Json[]): string[] => rows.map(({ id }) => id);
    expect(listIds((await ask('/v1/branches', branchKey)).branches)).toEqual([elsewhere]);
    expect(listIds((await ask('/v1/teams', branchKey)).teams)).toEqual([]);
    expect(listIds((await ask('/v1/branches', teamKey)).branches)).toEqual([tenant.branchId]);
    expect(listIds((await ask('/v1/teams', teamKey)).teams)).toEqual([inbound]);
    for (const [key, id] of [
      [branchKey, tenant.branchId],
      [teamKey, elsewhere],
    ] as const) {
      await expectStatus(404, 'GET', `/v1/branches/${id}`, { key });
      await expectStatus(404, 'GET', `/v1/org-nodes/${id}/users`, { key });
    }
    await expectStatus(404, 'GET', `/v1/org-nodes/${inbound}/users`, { key: branchKey });
  });

  test.each(['branches', 'teams'])('pages through %s without repeats or gaps', async (what) => {
    const crowd = await newTenant();
    const ids: string[] = what === 'branches' ? [crowd.branchId] : [];
    for (let index = 0; index < 5; index += 1)
      ids.push(what === 'branches' ? await newBranch(crowd) : await newTeam(crowd));
    // All with the same time, so that the ids decide.
    await database()`update ${database()(what)} set created_at = '2026-01-01' where company_id = ${crowd.companyId}`;
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const data: Json = await ask(`/v1/${what}`, crowd.key, { limit: 2, ...(cursor ? { cursor } : {}) });
      seen.push(...data[what].map(({ id }: Json) => id));
      cursor = data.next_cursor;
    } while (cursor);
    expect(seen).toEqual(ids.toSorted().toReversed());
  });

  test('keeps a branch whose manager is deleted', async () => {
    const lonely = await newTenant();
    const manager = await newUser(lonely);
    const sql = database();
    await sql`update branches set manager_user_id = ${manager.id} where company_id = ${lonely.companyId}`;
    await sql`delete from users where company_id = ${lonely.companyId} and id = ${manager.id}`;
    expect((await ask(`/v1/branches/${lonely.branchId}`, lonely.key)).branch.manager_user_id).toBeNull();
  });
});

describe('GET /v1/org-nodes/{id}/users', () => {
  const listUserIds = async (id: string, query: Record<string, string> = {}, key = tenant.key): Promise<string[]> =>
    (await ask(`/v1/org-nodes/${id}/users`, key, query)).users.map((user: Json) => user.id);
  const all = { include_descendants: 'true' };

  test('lists the users of a node, or of the node and all below it', async () => {
    const { direct, inTeam, inactive, away, nowhere } = people;
    expect(await listUserIds(tenant.companyId)).toEqual([nowhere]);
    expect(await listUserIds(tenant.companyId, all)).toEqual([nowhere, away, inTeam, direct]);
    expect(await listUserIds(tenant.companyId, { ...all, status: 'all' })).toEqual([
      nowhere,
      away,
      inactive,
      inTeam,
      direct,
    ]);
    expect(await listUserIds(tenant.branchId)).toEqual([direct]);
    expect(await listUserIds(tenant.branchId, all)).toEqual([inTeam, direct]);
    expect(await listUserIds(inbound)).toEqual([inTeam]);
    expect(await listUserIds(inbound, { status: 'inactive' })).toEqual([inactive]);
    expect(await listUserIds(elsewhere, { include_descendants: 'false' })).toEqual([away]);
  });

  test('names the node of a user list', async () => {
    const nodes = { company: tenant.companyId, branch: elsewhere, team: inbound };
    const names = { company: 'Blue Lake Trading', branch: 'Elsewhere', team: 'Inbound' };
    for (const [kind, id] of Object.entries(nodes))
      expect((await ask(`/v1/org-nodes/${id}/users`)).node).toEqual({
        id,
        kind,
        name: names[kind as keyof typeof names],
      });
  });

  test('lists only users that the credential can see', async () => {
    expect(await listUserIds(tenant.companyId, all, branchKey)).toEqual([people.away]);
    expect(await listUserIds(tenant.branchId, all, teamKey)).toEqual([people.inTeam]);
  });

  test('returns 404 for nodes of another company and for ids that are no nodes', async () => {
    for (const id of [other.companyId, other.branchId, await newTeam(other), people.direct, randomUUID()])
      await expectStatus(404, 'GET', `/v1/org-nodes/${id}/users`, { key: tenant.key });
  });

  test('rejects a cursor of another node or query', async () => {
    const { next_cursor: cursor } = await ask(`/v1/org-nodes/${tenant.companyId}/users`, tenant.key, {
      ...all,
      limit: 1,
    });
    const refuse = (path: string, query: object): Promise<unknown> =>
      expectStatus(400, 'GET', path, { key: tenant.key, query: { cursor, ...query } });
    await refuse(`/v1/org-nodes/${tenant.branchId}/users`, all);
    await refuse(`/v1/org-nodes/${tenant.companyId}/users`, {});
    await refuse(`/v1/org-nodes/${tenant.companyId}/users`, { ...all, status: 'all' });
    await refuse('/v1/users', {});
  });
});

const send = (status: number, method: string, path: string, body?: object, key = tenant.key): Promise<Answer> =>
  expectStatus(status, method, path, { key, ...(body ? { body } : {}) });
const create = async (path: string, body: object, key = tenant.key): Promise<Json> => {
  const { data } = (await send(201, 'POST', path, body, key)).body;
  return data.branch ?? data.team;
};

describe('changes of branches', () => {
  test('creates, changes and deletes a branch, with an audit row for each', async () => {
    const manager = await newUser(tenant);
    const body = { name: '  Leeds ', code: 'LDS', city: 'Leeds', country: 'GB', timezone: 'Europe/London' };
    const created = await send(201, 'POST', '/v1/branches', { ...body, manager_user_id: manager.id.toUpperCase() });
    const { branch } = created.body.data;
    const settings = { ...body, name: 'Leeds', is_default: false, is_active: true, manager_user_id: manager.id };
    expect(branch).toEqual({ id: expect.any(String), ...settings, user_count: 0, created_at: expect.any(String) });
    expect((await ask(`/v1/branches/${branch.id}`)).branch).toEqual(branch);
    const changes = Object.fromEntries(Object.entries(settings).map(([name, to]) => [name, { from: null, to }]));
    expect(await audited(created)).toEqual([
      { action: 'branch.create', record_id: branch.id, changes, metadata: null },
    ]);

    const path = `/v1/branches/${branch.id}`;
    const changed = await send(200, 'PATCH', path, { name: 'York', city: null, is_active: false });
    expect(changed.body.data.branch).toEqual({ ...branch, name: 'York', city: null, is_active: false });
    expect(await audited(changed)).toMatchObject([
      { action: 'branch.update', changes: { name: { from: 'Leeds', to: 'York' }, city: { from: 'Leeds', to: null } } },
    ]);
    expect(await audited(await send(200, 'PATCH', path, { name: 'York' }))).toEqual([]);

    const deleted = await send(200, 'DELETE', path);
    expect(deleted.body.data).toEqual({ id: branch.id, deleted: true });
    expect(await audited(deleted)).toMatchObject([{ action: 'branch.delete', record_id: branch.id }]);
    await send(404, 'GET', path);
    await send(404, 'DELETE', path);
    await send(404, 'PATCH', path, { name: 'York' });
  });

  test('rejects a name or code that another branch has, ignoring case', async () => {
    const first = await create('/v1/branches', { name: 'Straße', code: 'str' });
    for (const [body, field] of [
      [{ name: 'STRASSE' }, 'name'],
      [{ name: 'Other street', code: 'STR' }, 'code'],
    ] as const) {
      const { error } = (await send(409, 'POST', '/v1/branches', body)).body;
      expect(error).toMatchObject({
        code: 'ALREADY_EXISTS',
        details: { existing_id: first.id, matched_fields: [field] },
      });
    }
    const second = await create('/v1/branches', { name: 'Square' });
    await send(409, 'PATCH', `/v1/branches/${second.id}`, { name: 'straße' });
    await send(200, 'PATCH', `/v1/branches/${first.id}`, { name: 'STRASSE', code: 'Str' });
  });

  test('rejects unknown managers, time zones, and managers of other companies', async () => {
    const cases: [number, object, string, string][] = [
      [422, { manager_user_id: randomUUID() }, 'manager_user_id', 'NOT_FOUND'],
      [422, { manager_user_id: other.admin.id }, 'manager_user_id', 'NOT_FOUND'],
      [422, { manager_user_id: people.inactive }, 'manager_user_id', 'NOT_FOUND'],
      [400, { timezone: 'Europe/Nowhere' }, 'timezone', 'INVALID_FORMAT'],
      [400, { name: ' ' }, 'name', 'INVALID_FORMAT'],
      [400, { city: '  ' }, 'city', 'INVALID_FORMAT'],
      [400, { country: ' ' }, 'country', 'INVALID_FORMAT'],
    ];
    for (const [status, more, field, code] of cases) {
      const { error } = (await send(status, 'POST', '/v1/branches', { name: 'Rejected', ...more })).body;
      expect(error.details.fields).toMatchObject([{ field, code }]);
      const path = `/v1/branches/${elsewhere}`;
      expect((await send(status, 'PATCH', path, more)).body.error.details.fields).toMatchObject([{ field, code }]);
    }
  });

  test('keeps a manager who became inactive when other fields change', async () => {
    const crowd = await newTenant();
    const manager = await newUser(crowd);
    const { id } = await create('/v1/branches', { name: 'Managed', manager_user_id: manager.id }, crowd.key);
    await send(200, 'PATCH', `/v1/users/${manager.id}`, { status: 'inactive' }, crowd.key);
    const body = { name: 'Renamed', manager_user_id: manager.id };
    const { branch } = (await send(200, 'PATCH', `/v1/branches/${id}`, body, crowd.key)).body.data;
    expect(branch).toMatchObject({ name: 'Renamed', manager_user_id: manager.id });
  });

  test('keeps exactly one default branch, which stays active and which new users join', async () => {
    const crowd = await newTenant();
    const path = `/v1/branches/${crowd.branchId}`;
    for (const [method, body] of [
      ['PATCH', { is_default: false }],
      ['PATCH', { is_active: false }],
      ['DELETE', undefined],
    ] as const)
      expect((await send(409, method, path, body, crowd.key)).body.error.details.reason).toBe('default_branch');
    const inactive = { name: 'Closed', is_default: true, is_active: false };
    expect((await send(409, 'POST', '/v1/branches', inactive, crowd.key)).body.error.details.reason).toBe(
      'default_branch',
    );
    const first = await create('/v1/branches', { name: 'First', is_default: true }, crowd.key);
    const second = await create('/v1/branches', { name: 'Second' }, crowd.key);
    const listDefaults = async (): Promise<string[]> =>
      (await ask('/v1/branches', crowd.key)).branches
        .filter((branch: Json) => branch.is_default)
        .map(({ id }: Json) => id);
    expect(await listDefaults()).toEqual([first.id]);
    await send(200, 'PATCH', `/v1/branches/${second.id}`, { is_default: true }, crowd.key);
    expect(await listDefaults()).toEqual([second.id]);
    const body = { email: `${randomUUID()}@bluelake.example`, full_name: 'New', role: 'Viewer' };
    const { user } = (await send(201, 'POST', '/v1/users', body, crowd.key)).body.data;
    expect(user.branch.id).toBe(second.id);
  });

  test('records the change of the former default branch too', async () => {
    const crowd = await newTenant();
    const first = await create('/v1/branches', { name: 'First', is_default: true }, crowd.key);
    const second = await create('/v1/branches', { name: 'Second' }, crowd.key);
    await send(200, 'PATCH', `/v1/branches/${second.id}`, { is_default: true }, crowd.key);
    const rows = await database()`
      select action, changes from audit_logs where company_id = ${crowd.companyId} and record_id = any(${[crowd.branchId, first.id]})
        and action = 'branch.update'`;
    const change = { action: 'branch.update', changes: { is_default: { from: true, to: false } } };
    expect(rows).toMatchObject([change, change]);
  });

  test('lets no user or team move into an inactive branch, and keeps those that are there', async () => {
    const crowd = await newTenant();
    const { id } = await create('/v1/branches', { name: 'Closing' }, crowd.key);
    const team = await create('/v1/teams', { name: 'Staying', branch_id: id }, crowd.key);
    const [user, member] = [await newUser(crowd), await newUser(crowd, { branchId: id })];
    const other = await create('/v1/teams', { name: 'Coming', branch_id: crowd.branchId }, crowd.key);
    const key = await newKey(crowd, { reach: { kind: 'branch', id } });
    await send(200, 'PATCH', `/v1/branches/${id}`, { is_active: false }, crowd.key);
    for (const [method, path, body, field] of [
      ['PATCH', `/v1/users/${user.id}`, { branch_id: id }, 'branch_id'],
      ['PATCH', `/v1/users/${user.id}`, { team_id: team.id }, 'team_id'],
      ['PATCH', `/v1/teams/${other.id}`, { branch_id: id }, 'branch_id'],
      ['POST', '/v1/teams', { name: 'New', branch_id: id }, 'branch_id'],
    ] as const) {
      const { error } = (await send(422, method, path, body, crowd.key)).body;
      expect(error.details.fields).toMatchObject([{ field, code: 'NOT_FOUND' }]);
    }
    const created = { email: `${randomUUID()}@bluelake.example`, full_name: 'New', role: 'Branch_Manager' };
    expect((await send(409, 'POST', '/v1/users', created, key)).body.error.details.reason).toBe('branch_inactive');
    await send(200, 'PATCH', `/v1/users/${member.id}`, { branch_id: id, team_id: team.id }, crowd.key);
    await send(200, 'PATCH', `/v1/teams/${team.id}`, { name: 'Still there', branch_id: id }, crowd.key);
  });

  test('deletes no branch with users, teams or keys, and counts them', async () => {
    const crowd = await newTenant();
    const { id } = await create('/v1/branches', { name: 'Full' }, crowd.key);
    const path = `/v1/branches/${id}`;
    const readReferences = async (): Promise<Json> => {
      const { error } = (await send(409, 'DELETE', path, undefined, crowd.key)).body;
      expect(error.details.reason).toBe('in_use');
      return error.details.references;
    };
    const idle = await newUser(crowd, { branchId: id, status: 'inactive' });
    expect(await readReferences()).toEqual({ users: 1, teams: 0, api_keys: 0 });
    const team = await create('/v1/teams', { name: 'Team', branch_id: id }, crowd.key);
    await newKey(crowd, { reach: { kind: 'branch', id } });
    expect(await readReferences()).toEqual({ users: 1, teams: 1, api_keys: 1 });
    await send(200, 'PATCH', `/v1/users/${idle.id}`, { branch_id: crowd.branchId }, crowd.key);
    await send(200, 'DELETE', `/v1/teams/${team.id}`, undefined, crowd.key);
    expect(await readReferences()).toEqual({ users: 0, teams: 0, api_keys: 1 });
    await database()`
      update api_keys set revoked_at = now() where company_id = ${crowd.companyId} and reach_kind = 'branch'`;
    await send(200, 'DELETE', path, undefined, crowd.key);
  });
});

describe('changes of teams', () => {
  test('creates, changes and deletes a team, with an audit row for each', async () => {
    const created = await send(201, 'POST', '/v1/teams', { name: 'Outbound', branch_id: tenant.branchId });
    const { team } = created.body.data;
    const shown = { name: 'Outbound', branch_id: tenant.branchId, manager_user_id: null };
    expect(team).toEqual({ id: expect.any(String), ...shown, member_count: 0 });
    expect(await audited(created)).toMatchObject([{ action: 'team.create', record_id: team.id }]);
    expect((await ask(`/v1/teams/${team.id}`)).team).toEqual(team);
    const changed = await send(200, 'PATCH', `/v1/teams/${team.id}`, { manager_user_id: people.direct });
    expect(changed.body.data.team).toEqual({ ...team, manager_user_id: people.direct });
    expect(await audited(changed)).toMatchObject([
      { action: 'team.update', changes: { manager_user_id: { from: null, to: people.direct } } },
    ]);
    const deleted = await send(200, 'DELETE', `/v1/teams/${team.id}`);
    expect(await audited(deleted)).toMatchObject([{ action: 'team.delete' }]);
    await send(404, 'GET', `/v1/teams/${team.id}`);
  });

  test('requires an existing branch, and names that are unique within it', async () => {
    for (const branch of [randomUUID(), other.branchId, inbound]) {
      const { error } = (await send(422, 'POST', '/v1/teams', { name: 'Lost', branch_id: branch })).body;
      expect(error.details.fields).toMatchObject([{ field: 'branch_id', code: 'NOT_FOUND' }]);
    }
    const first = await create('/v1/teams', { name: 'Twins', branch_id: tenant.branchId });
    const { error } = (await send(409, 'POST', '/v1/teams', { name: 'TWINS', branch_id: tenant.branchId })).body;
    expect(error.details.existing_id).toBe(first.id);
    const second = await create('/v1/teams', { name: 'Twins', branch_id: elsewhere });
    await send(409, 'PATCH', `/v1/teams/${second.id}`, { branch_id: tenant.branchId });
    for (const { id } of [first, second]) await send(200, 'DELETE', `/v1/teams/${id}`);
  });

  test('moves the members of a team with it to another branch', async () => {
    const crowd = await newTenant();
    const team = await create('/v1/teams', { name: 'Movers', branch_id: crowd.branchId }, crowd.key);
    const [member, idle] = [await newUser(crowd), await newUser(crowd, { status: 'inactive' })];
    for (const { id } of [member, idle]) await send(200, 'PATCH', `/v1/users/${id}`, { team_id: team.id }, crowd.key);
    const branch = await create('/v1/branches', { name: 'Target' }, crowd.key);
    const moved = await send(200, 'PATCH', `/v1/teams/${team.id}`, { branch_id: branch.id }, crowd.key);
    expect(moved.body.data.team).toEqual({ ...team, branch_id: branch.id, member_count: 1 });
    expect(await audited(moved)).toMatchObject([{ action: 'team.update', metadata: { moved_users: 2 } }]);
    for (const { id } of [member, idle])
      expect((await ask(`/v1/users/${id}`, crowd.key)).user).toMatchObject({
        branch: { id: branch.id },
        team: { id: team.id },
      });
  });

  test('deletes no team with members or keys', async () => {
    const team = await create('/v1/teams', { name: 'Full', branch_id: tenant.branchId });
    const member = await newUser(tenant);
    await send(200, 'PATCH', `/v1/users/${member.id}`, { team_id: team.id });
    await newKey(tenant, { reach: { kind: 'team', id: team.id } });
    const { error } = (await send(409, 'DELETE', `/v1/teams/${team.id}`)).body;
    expect(error.details).toMatchObject({ reason: 'in_use', references: { users: 1, api_keys: 1 } });
  });

  test('requires a key that sees the whole company for every change', async () => {
    for (const [method, path, body] of [
      ['POST', '/v1/branches', { name: 'Mine' }],
      ['PATCH', `/v1/branches/${elsewhere}`, { name: 'Mine' }],
      ['DELETE', `/v1/branches/${elsewhere}`, undefined],
      ['POST', '/v1/teams', { name: 'Mine', branch_id: elsewhere }],
      ['PATCH', `/v1/teams/${inbound}`, { name: 'Mine' }],
      ['DELETE', `/v1/teams/${inbound}`, undefined],
    ] as const)
      await send(403, method, path, body, method === 'DELETE' ? teamKey : branchKey);
  });
});

describe('changes at the same time', () => {
  test('creates a branch and a team of one name once', async () => {
    for (const [path, more] of [
      ['/v1/branches', {}],
      ['/v1/teams', { branch_id: tenant.branchId }],
    ] as const) {
      const body = { name: `Once ${randomUUID()}`, ...more };
      const answers = await Promise.all(Array.from({ length: 6 }, () => call('POST', path, { key: tenant.key, body })));
      expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409, 409]);
    }
  });

  test('never deletes a team or branch into which a user moves, or a key is created', async () => {
    for (let round = 0; round < 6; round += 1) {
      const branch = await create('/v1/branches', { name: `Race ${randomUUID()}` });
      const team = await create('/v1/teams', { name: 'Race', branch_id: branch.id });
      const user = await newUser(tenant);
      const reach = { kind: 'team', id: team.id };
      const keyBody = { name: 'Race', scopes: ['leads:view'], reach };
      const token = await adminToken(tenant);
      const [deleted, moved, minted] = await Promise.all([
        call('DELETE', `/v1/teams/${team.id}`, { key: tenant.key }),
        call('PATCH', `/v1/users/${user.id}`, { key: tenant.key, body: { team_id: team.id } }),
        call('POST', '/v1/api-keys', { token, body: keyBody }),
      ]);
      const isUsed = moved.status === 200 || minted.status === 201;
      expect([deleted.status, moved.status, minted.status]).toEqual(
        deleted.status === 200 ? [200, 422, 422] : [409, expect.toBeOneOf([200, 422]), expect.toBeOneOf([201, 422])],
      );
      expect(isUsed).toBe(deleted.status === 409);
    }
  });
});

describe('visibility after a change of branch or team', () => {
  let second: TestServer;

  beforeAll(async () => {
    second = await startServer({ ...testSettings, ...besideCommon() });
  });

  afterAll(async () => {
    await second?.stop();
  });

  const newRecordBy = async (body: object): Promise<Json> =>
    (await expectStatus(201, 'POST', '/v1/objects/leads/records', { key: tenant.key, body, idempotencyKey: true })).body
      .data;

  test('follows in every process with the next call', async () => {
    const [team, far] = await Promise.all([
      newTeam(tenant, tenant.branchId, 'Near'),
      newTeam(tenant, elsewhere, 'Far'),
    ]);
    const owner = await newUser(tenant);
    const manager = await newUser(tenant, { role: 'Sales_Manager' });
    for (const { id } of [owner, manager]) await send(200, 'PATCH', `/v1/users/${id}`, { team_id: team });
    const lead = { first_name: 'Ria', mobile: '+4930123456', assigned_to: owner.id };
    const { record } = await newRecordBy(lead);
    const token = await newBearer(tenant, ['leads:*'], { userId: manager.id });
    const key = await newKey(tenant, { reach: { kind: 'team', id: team } });
    const path = `/v1/objects/leads/records/${record.id}`;
    const readStatuses = async (): Promise<number[]> => {
      const answers: Answer[] = [];
      for (const baseUrl of [undefined, second.url])
        for (const credential of [{ token }, { key }])
          answers.push(await call('GET', path, { ...credential, ...(baseUrl ? { baseUrl } : {}) }));
      return answers.map(({ status }) => status);
    };
    expect(await readStatuses()).toEqual([200, 200, 200, 200]);
    await send(200, 'PATCH', `/v1/users/${owner.id}`, { team_id: far });
    expect(await readStatuses()).toEqual([404, 404, 404, 404]);
    // The person follows the owner; the key still sees the old team only.
    await send(200, 'PATCH', `/v1/users/${manager.id}`, { team_id: far });
    expect(await readStatuses()).toEqual([200, 404, 200, 404]);
    await send(200, 'PATCH', `/v1/users/${owner.id}`, { team_id: team });
    expect(await readStatuses()).toEqual([404, 200, 404, 200]);
    await send(200, 'PATCH', `/v1/users/${manager.id}`, { team_id: null });
    expect((await readStatuses())[0]).toBe(404);
  });
});
