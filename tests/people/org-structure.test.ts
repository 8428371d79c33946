// The organization: its tree, pages, users, and visibility.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { newBranch, newTeam } from '../support/arranged-ids.ts';
import { expectStatus, type Json } from '../support/client.ts';
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
