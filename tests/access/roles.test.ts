// Roles and profiles: the catalog, custom profiles, legacy roles, and the hidden Super_Admin.
import { beforeAll, describe, expect, test } from 'vitest';
import { listRolePermissions, resolvePermissions } from '../../domain/access/role-permissions.ts';
import { isGrantable } from '../../domain/access/scopes.ts';
import { newBranch, newObject, newProfile } from '../support/arranged-ids.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newTenant(), newTenant()]);
});

const list = async (whose = tenant, key = whose.key): Promise<Json[]> =>
  (await expectStatus(200, 'GET', '/v1/roles', { key })).body.data.roles;
const get = async (id: string): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/roles/${id}`, { key: tenant.key })).body.data.role;
const named = async (name: string, whose = tenant): Promise<Json> =>
  (await list(whose)).find((role) => role.name === name);
const assign = (userId: string, profileId: string): Promise<unknown> =>
  database()`update users set profile_id = ${profileId} where company_id = ${tenant.companyId} and id = ${userId}`;

const scopes = {
  Company_Admin: 'company',
  Branch_Manager: 'branch',
  Sales_Manager: 'team',
  Sales_Rep: 'own',
  Viewer: 'company',
};

/** The action matrix. */
const matrix: Record<string, string[]> = {
  leads: ['view', 'create', 'edit', 'delete'],
  deals: ['view', 'create', 'edit', 'delete'],
  customers: ['view', 'create', 'edit', 'delete'],
  accounts: ['view', 'create', 'edit', 'delete'],
  tasks: ['view', 'create', 'edit', 'delete'],
  activities: ['view', 'create', 'edit', 'delete'],
  reports: ['view', 'create', 'edit'],
  users: ['view', 'configure'],
  access_control: ['view'],
  settings: ['view', 'configure'],
  billing: ['view', 'configure'],
  webhooks: ['view', 'configure'],
  attachments: ['view', 'create', 'configure'],
  exports: ['view', 'create'],
  imports: ['view', 'create'],
  reverts: ['view', 'create'],
  change_sets: ['view', 'create'],
  bookings: ['view', 'create', 'edit', 'configure'],
  inbox: ['view', 'create'],
  campaigns: ['view', 'create'],
  workforces: ['view', 'create'],
};

describe('GET /v1/roles', () => {
  test('lists one system profile per role, and never Super_Admin', async () => {
    const sql = database();
    const { id } = await newUser(other);
    await sql`
      insert into user_roles (company_id, user_id, role_id)
      select ${other.companyId}, ${id}, id from roles where name = 'Super_Admin'`;
    const roles = await list(other);
    expect(roles.map((role) => role.name)).toEqual(Object.keys(scopes));
    for (const role of roles) {
      expect(role).toMatchObject({ kind: 'role', is_system: true, has_permissions: true });
      expect(role.role_id).not.toBe(role.id);
      expect(role.description).toBeTruthy();
    }
    const [hidden] = await sql<{ id: string; profile_id: string }[]>`
      select id, profile_id from roles where name = 'Super_Admin'`;
    for (const path of ['/v1/roles', '/v1/visibility-scopes'])
      expect((await expectStatus(200, 'GET', path, { key: other.key })).text).not.toContain('Super_Admin');
    for (const each of [hidden?.id, hidden?.profile_id])
      await expectStatus(404, 'GET', `/v1/roles/${each}`, { key: other.key });
  });

  test('lists only custom profiles of the tenant, with their numbers of active users', async () => {
    const before = (await named('Sales_Rep')).active_member_count;
    const profile = await newProfile(tenant);
    const [plain, special, idle] = await Promise.all([
      newUser(tenant),
      newUser(tenant),
      newUser(tenant, { status: 'inactive' }),
    ]);
    await Promise.all([assign(special.id, profile), assign(idle.id, profile)]);
    expect((await named('Sales_Rep')).active_member_count).toBe(before + 2);
    expect(await named(`Profile ${profile}`)).toEqual({
      id: profile,
      role_id: null,
      name: `Profile ${profile}`,
      description: 'Made in the app',
      kind: 'profile',
      is_system: false,
      has_permissions: true,
      active_member_count: 1,
    });
    expect(await named(`Profile ${profile}`, other)).toBeUndefined();
    const reach = { kind: 'branch', id: await newBranch(tenant) } as const;
    const counts = (await list(tenant, await newKey(tenant, { reach }))).map((role) => role.active_member_count);
    expect(new Set(counts)).toEqual(new Set([0]));
    expect(plain.id).not.toBe(special.id);
  });

  test('lists a legacy role without a profile under its own id, in companies where it has members', async () => {
    const sql = database();
    const name = `Legacy_${tenant.companyId}`;
    const [legacy] = await sql<{ id: string }[]>`
      insert into roles (id, name) values (gen_random_uuid(), ${name}) returning id`;
    const roleId = legacy?.id ?? '';
    const user = await newUser(tenant, { role: name });
    const expected = {
      id: roleId,
      role_id: roleId,
      name,
      description: null,
      kind: 'role',
      is_system: true,
      has_permissions: false,
      active_member_count: 1,
    };
    expect(await named(name)).toEqual(expected);
    expect(await get(roleId)).toEqual({ ...expected, permissions: [] });
    expect(await named(name, other)).toBeUndefined();
    await expectStatus(404, 'GET', `/v1/roles/${roleId}`, { key: other.key });
    const { body } = await expectStatus(400, 'PATCH', `/v1/users/${user.id}`, {
      key: tenant.key,
      body: { role: name },
    });
    expect(body.error.details.fields).toMatchObject([{ field: 'role', code: 'INVALID_OPTION' }]);
  });
});

describe('GET /v1/roles/{id}', () => {
  test.each(Object.entries(scopes))('shows for %s a row per module, each with the scope %s', async (name, scope) => {
    const slug = await newObject(tenant);
    const { id } = await named(name);
    const { permissions } = await get(id);
    const rows = permissions.filter((row: Json) => !row.module.startsWith('object:'));
    expect(Object.fromEntries(rows.map((row: Json) => [row.module, row.available_actions]))).toEqual(matrix);
    expect(permissions.map((row: Json) => row.module)).toContain(slug);
    expect(new Set(permissions.map((row: Json) => row.scope))).toEqual(new Set([scope]));
    for (const row of permissions) {
      expect(row.available_actions).toEqual(expect.arrayContaining(row.actions));
      expect(row.label).toMatch(/^[A-Z]/);
    }
  });

  test('finds a role by the id of its profile and by its own id', async () => {
    const role = await named('Sales_Rep');
    const user = await newUser(tenant, { role: 'Sales_Rep' });
    const { body } = await expectStatus(200, 'GET', `/v1/users/${user.id}`, { key: tenant.key });
    expect(body.data.user.roles).toEqual([{ id: role.role_id, name: 'Sales_Rep' }]);
    expect(await get(role.role_id)).toEqual(await get(role.id));
  });

  test('lets Company_Admin do everything and Viewer only view, and a Sales_Rep delete and configure nothing', async () => {
    const readActions = async (name: string): Promise<Record<string, string[]>> => {
      const { permissions } = await get((await named(name)).id);
      return Object.fromEntries(permissions.map((row: Json) => [row.module, row.actions]));
    };
    expect(await readActions('Company_Admin')).toMatchObject(matrix);
    const viewer = await readActions('Viewer');
    expect([viewer.leads, viewer.users, viewer.billing]).toEqual([['view'], ['view'], []]);
    expect(new Set(Object.values(viewer).flat())).toEqual(new Set(['view']));
    const rep = await readActions('Sales_Rep');
    expect(rep.leads).toEqual(['view', 'create', 'edit']);
    for (const actions of Object.values(rep))
      for (const refused of ['delete', 'configure']) expect(actions).not.toContain(refused);
  });

  test('shows for a custom profile all modules and its objects, without scopes', async () => {
    const [mentioned, unmentioned] = [await newObject(tenant), await newObject(tenant)];
    const profile = await newProfile(tenant, {
      leads: ['view', 'edit', 'fly'],
      [mentioned]: ['view', 'delete'],
      nonsense: ['view'],
    });
    const { permissions } = await get(profile);
    expect(permissions.map((row: Json) => row.module)).toEqual([...Object.keys(matrix), mentioned]);
    expect(permissions).toContainEqual({
      module: 'leads',
      label: 'Leads',
      actions: ['view', 'edit'],
      available_actions: matrix.leads,
      scope: null,
    });
    expect(permissions.at(-1)).toEqual({
      module: mentioned,
      label: 'Visits',
      actions: ['view', 'delete'],
      available_actions: matrix.leads,
      scope: null,
    });
    for (const row of permissions.slice(1, -1)) expect([row.actions, row.scope]).toEqual([[], null]);
    expect(JSON.stringify(permissions)).not.toContain(unmentioned);
  });
});

test('shows at GET /v1/visibility-scopes whose records each role sees in each module', async () => {
  const slug = await newObject(tenant);
  const { body } = await expectStatus(200, 'GET', '/v1/visibility-scopes', { key: tenant.testKey });
  const { visibility_scopes: shown } = body.data;
  expect(shown.map((row: Json) => row.role)).toEqual(Object.keys(scopes));
  for (const { role, role_id: id, modules } of shown) {
    expect(id).toBe((await named(role)).role_id);
    expect(modules).toContainEqual({ module: slug, scope: scopes[role as keyof typeof scopes] });
    expect(modules.map((each: Json) => each.module)).toEqual(expect.arrayContaining(Object.keys(matrix)));
    expect(new Set(modules.map((each: Json) => each.scope))).toEqual(new Set([scopes[role as keyof typeof scopes]]));
  }
});

describe('the permissions of a user', () => {
  test('offers every action of every role as a grantable scope', () => {
    for (const role of Object.keys(scopes))
      for (const { module, actions } of listRolePermissions(role, ['object:visits']))
        for (const action of actions)
          expect([`${module}:${action}`, isGrantable(`${module}:${action}`)]).toContain(true);
    expect(listRolePermissions('Super_Admin')).toEqual([]);
    expect(listRolePermissions('constructor')).toEqual([]);
  });

  test('combines all roles of a user, each action with its widest role', () => {
    const both = resolvePermissions(['Sales_Rep', 'Sales_Manager']);
    expect(
      ['leads:delete', 'object:visits:delete', 'users:view', 'users:configure', 'leads:fly'].map(both.allows),
    ).toEqual([true, true, true, false, false]);
    const mixed = resolvePermissions(['Sales_Rep', 'Viewer']);
    expect([
      mixed.allows('leads:edit'),
      mixed.computeReach(['leads:view']),
      mixed.computeReach(['leads:edit']),
    ]).toEqual([true, 'company', 'own']);
    expect([mixed.computeReach(['leads:view', 'leads:edit']), mixed.computeReach([])]).toEqual(['own', 'company']);
    const leading = resolvePermissions(['Branch_Manager', 'Sales_Rep']);
    expect(['leads:edit', 'leads:delete', 'billing:view'].map((scope) => leading.computeReach([scope]))).toEqual([
      'branch',
      'branch',
      'own',
    ]);
    const nothing = resolvePermissions(['Regional_Director', 'Super_Admin', 'constructor']);
    expect(resolvePermissions(['Company_Admin']).allows('records:view')).toBe(false);
    expect([nothing.allows('leads:view'), nothing.allows('constructor:name'), nothing.computeReach([])]).toEqual([
      false,
      false,
      'own',
    ]);
  });

  test('replaces the roles with a custom profile, for own records only', () => {
    const profile = [{ module: 'leads', actions: ['view', 'fly'] }];
    const { allows, computeReach } = resolvePermissions(['Company_Admin'], profile);
    const scopesOfUser = ['leads:view', 'leads:edit', 'leads:fly', 'deals:view', 'object:visits:view'];
    expect(scopesOfUser.map(allows)).toEqual([true, false, false, false, false]);
    expect([computeReach([]), computeReach(['leads:view'])]).toEqual(['own', 'own']);
  });

  test('permits for every role exactly what its profile lists', () => {
    for (const role of Object.keys(scopes)) {
      const { allows, computeReach } = resolvePermissions([role]);
      for (const { module, actions, scope } of listRolePermissions(role, ['object:visits'])) {
        const offered = matrix[module] ?? ['view', 'create', 'edit', 'delete'];
        expect(offered.filter((action) => allows(`${module}:${action}`))).toEqual(actions);
        for (const action of actions) expect(computeReach([`${module}:${action}`])).toBe(scope);
      }
    }
  });
});
