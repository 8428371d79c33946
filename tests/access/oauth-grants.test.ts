// Scopes of a consent within the user's roles, and the records that its app can see.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { accessToken, consentGroups, everyModule, newBearer, newGrant } from '../support/access-tokens.ts';
import { newProfile } from '../support/arranged-ids.ts';
import { expectStatus, type Json } from '../support/client.ts';
import { createRecord, patchRecord, recordsPath } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';

const me = async (token: string): Promise<Json> => (await expectStatus(200, 'GET', '/v1/me', { token })).body.data;

describe('a consent group', () => {
  test.each([
    [
      'records',
      'leads:view leads:create leads:edit customers:view customers:create customers:edit activities:view activities:create activities:edit',
    ],
    ['automation', 'workforces:view workforces:create webhooks:view webhooks:configure'],
    ['messaging', 'inbox:view inbox:create'],
    ['billing', 'billing:view billing:configure'],
    ['admin', 'settings:view settings:configure users:view users:configure access_control:view attachments:configure'],
  ])('grants exactly its scopes for the consent group %s', async (group, scopes) => {
    const tenant = await newTenant();
    const token = await newBearer(tenant, [], { groups: [group] });
    expect((await me(token)).scopes.toSorted()).toEqual(scopes.split(' ').toSorted());
  });

  test('never grants sending through any group, scope, role or combination', async () => {
    const tenant = await newTenant();
    const scopes = ['messaging:send', 'messaging:*', 'inbox:send', '*', 'onboarding', '*:*', 'object:*'];
    const token = await newBearer(tenant, scopes, { groups: consentGroups, extraScopes: scopes });
    const granted: string[] = (await me(token)).scopes;
    expect(granted.filter((scope) => /send|\*|onboarding/.test(scope))).toEqual([]);
    await expectStatus(403, 'POST', '/v1/check-email', { token, body: { email: 'a@example.com' } });
  });

  test('rejects unknown consent groups in the database', async () => {
    await expect(newGrant(await newTenant(), { groups: ['everything'] })).rejects.toThrow('oauth_grants_groups_check');
  });
});

describe('the scopes of a token', () => {
  test('combines the scopes of groups, grant and token, each once and by its current name', async () => {
    const tenant = await newTenant();
    const options = { groups: ['messaging'], extraScopes: ['deals:view', 'leads:read', 'object:visits:*'] };
    const token = await newBearer(tenant, ['leads:view', 'openid', 'profile', 'inbox:view', 'x:y', ''], options);
    expect((await me(token)).scopes.toSorted()).toEqual([
      'deals:view',
      'inbox:create',
      'inbox:view',
      'leads:view',
      ...['create', 'delete', 'edit', 'view'].map((action) => `object:visits:${action}`),
    ]);
  });

  test.each([
    ['a list', ['leads:view']],
    ['a number', 5],
    ['nothing', null],
  ])('has no scopes if the claim is %s', async (_what, scope) => {
    const tenant = await newTenant();
    const token = await accessToken(tenant, await newGrant(tenant), { scope });
    expect((await me(token)).scopes).toEqual([]);
  });

  /** By role: modules with all permitted actions. `records` stands for all objects. */
  const table: [string, string, Record<string, string>][] = [
    [
      'Viewer',
      'company',
      {
        records: 'view',
        reports: 'view',
        users: 'view',
        settings: 'view',
        attachments: 'view',
        exports: 'view',
        imports: 'view',
        reverts: 'view',
        change_sets: 'view',
        bookings: 'view',
        inbox: 'view',
        campaigns: 'view',
        workforces: 'view',
      },
    ],
    [
      'Sales_Rep',
      'own',
      {
        records: 'view create edit',
        reports: 'view create edit',
        users: 'view',
        settings: 'view',
        attachments: 'view create',
        bookings: 'view create edit',
        inbox: 'view create',
        campaigns: 'view',
      },
    ],
    [
      'Sales_Manager',
      'own',
      {
        records: 'view create edit delete',
        reports: 'view create edit',
        users: 'view',
        settings: 'view',
        attachments: 'view create configure',
        exports: 'view create',
        imports: 'view create',
        change_sets: 'view create',
        bookings: 'view create edit',
        inbox: 'view create',
        campaigns: 'view',
        workforces: 'view create',
      },
    ],
    [
      'Branch_Manager',
      'branch',
      {
        records: 'view create edit delete',
        reports: 'view create edit',
        users: 'view',
        access_control: 'view',
        settings: 'view',
        webhooks: 'view',
        attachments: 'view create configure',
        exports: 'view create',
        imports: 'view create',
        change_sets: 'view create',
        bookings: 'view create edit configure',
        inbox: 'view create',
        campaigns: 'view create',
        workforces: 'view create',
      },
    ],
    [
      'Company_Admin',
      'company',
      {
        records: 'view create edit delete',
        reports: 'view create edit',
        users: 'view configure',
        access_control: 'view',
        settings: 'view configure',
        billing: 'view configure',
        webhooks: 'view configure',
        attachments: 'view create configure',
        exports: 'view create',
        imports: 'view create',
        reverts: 'view create',
        change_sets: 'view create',
        bookings: 'view create edit configure',
        inbox: 'view create',
        campaigns: 'view create',
        workforces: 'view create',
      },
    ],
    ['Super_Admin', 'own', {}],
  ];
  test.each(table)('limits the scopes of a %s to the role, with reach %s', async (role, reach, allowed) => {
    const tenant = await newTenant();
    const modules = [...everyModule, 'object:visits'];
    const token = await newBearer(
      tenant,
      modules.map((module) => `${module}:*`),
      { role, groups: consentGroups },
    );
    const objects = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities', 'object:visits'];
    const expected = modules.flatMap((module) =>
      (allowed[objects.includes(module) ? 'records' : module] ?? '')
        .split(' ')
        .filter(Boolean)
        .map((action) => `${module}:${action}`),
    );
    const { scopes, reach: shown } = await me(token);
    expect(scopes.toSorted()).toEqual(expected.toSorted());
    // A user without a team sees only their own records.
    expect(shown.kind).toBe(reach);
  });

  test('applies changed roles at the next call, and combines several roles with the widest visibility of each action', async () => {
    const tenant = await newTenant();
    const user = await newUser(tenant, { role: 'Viewer' });
    const token = await newBearer(tenant, ['leads:*', 'settings:*'], { userId: user.id });
    expect((await me(token)).scopes).toEqual(['leads:view', 'settings:view']);
    const sql = database();
    await sql`
      insert into user_roles (company_id, user_id, role_id)
      select ${tenant.companyId}, ${user.id}, id from roles where name = 'Sales_Rep'`;
    expect(await me(token)).toMatchObject({
      scopes: ['leads:view', 'leads:create', 'leads:edit', 'settings:view'],
      reach: { kind: 'company', id: null },
    });
    await sql`delete from user_roles where user_id = ${user.id}`;
    expect((await me(token)).scopes).toEqual([]);
  });
});

test('replaces the roles with a custom profile of the user, for own records only', async () => {
  const tenant = await newTenant();
  const user = await newUser(tenant, { role: 'Branch_Manager' });
  const token = await newBearer(tenant, ['leads:*', 'deals:*'], { userId: user.id });
  const profile = await newProfile(tenant, { leads: ['view', 'edit'] });
  await database()`update users set profile_id = ${profile} where company_id = ${tenant.companyId} and id = ${user.id}`;
  const { body } = await expectStatus(200, 'GET', '/v1/me', { token });
  expect(body.data.scopes.sort()).toEqual(['leads:edit', 'leads:view']);
  expect(body.data.reach).toEqual({ kind: 'own', id: user.id });
});

describe('the visibility of an app', () => {
  interface People {
    tenant: Tenant;
    north: string;
    team: string;
    rep: string;
    mate: string;
    manager: string;
    other: string;
  }

  async function newPeople(): Promise<People> {
    const tenant = await newWideTenant();
    const [north, team] = [randomUUID(), randomUUID()];
    const sql = database();
    await sql`insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${north}, 'North', now())`;
    await sql`insert into teams (company_id, id, branch_id, name, created_at) values (${tenant.companyId}, ${team}, ${north}, 'Team', now())`;
    const person = async (role: string, place: { branchId?: string; teamId?: string } = {}): Promise<string> =>
      (await newUser(tenant, { role, ...place })).id;
    return {
      tenant,
      north,
      team,
      rep: await person('Sales_Rep', { branchId: north, teamId: team }),
      mate: await person('Sales_Rep', { branchId: north, teamId: team }),
      manager: await person('Sales_Manager', { branchId: north, teamId: team }),
      other: await person('Sales_Rep'),
    };
  }

  const asUser = (tenant: Tenant, userId: string, clientId?: string): Promise<string> =>
    newBearer(tenant, ['leads:*'], { userId, ...(clientId ? { clientId } : {}) });

  async function visible(token: string): Promise<string[]> {
    const { body } = await expectStatus(200, 'GET', recordsPath('leads'), { token });
    return body.data.records.map((record: { id: string }) => record.id).toSorted();
  }

  async function create(token: string, values: object): Promise<string> {
    const body = { first_name: 'Sara', email: `${randomUUID()}@example.com`, ...values };
    return (await expectStatus(201, 'POST', recordsPath('leads'), { token, body, idempotencyKey: true })).body.data
      .record.id;
  }

  test('shows an app the leads that it created for its user, once they are unassigned', async () => {
    const { tenant, rep, other } = await newPeople();
    const [token, stranger] = [await asUser(tenant, rep), await asUser(tenant, other)];
    const body = { first_name: 'Sara', email: `${randomUUID()}@example.com` };
    const { lead } = (await expectStatus(201, 'POST', '/v1/leads', { token, body })).body.data;
    await patchRecord(tenant.key, 'leads', lead.id, { assigned_to: null });
    expect(await visible(token)).toEqual([lead.id]);
    expect(await visible(stranger)).toEqual([]);
  });

  test('shows an app the records of its user, team, branch or workspace, by role', async () => {
    const { tenant, north, team, rep, mate, manager, other } = await newPeople();
    const assigned = async (userId: string | null): Promise<string> =>
      (
        await createRecord(tenant.key, 'leads', {
          first_name: 'Sara',
          email: `${randomUUID()}@example.com`,
          assigned_to: userId,
        })
      ).id;
    const [ofRep, ofMate, ofOther, ofNobody] = [
      await assigned(rep),
      await assigned(mate),
      await assigned(other),
      await assigned(null),
    ];
    const branchManager = await newUser(tenant, { role: 'Branch_Manager', branchId: north });
    expect(await visible(await asUser(tenant, rep))).toEqual([ofRep]);
    expect(await visible(await asUser(tenant, manager))).toEqual([ofRep, ofMate].toSorted());
    expect(await visible(await asUser(tenant, branchManager.id))).toEqual([ofRep, ofMate].toSorted());
    expect(await visible(await asUser(tenant, other))).toEqual([ofOther]);
    const all = [ofRep, ofMate, ofOther, ofNobody].toSorted();
    expect(await visible(await asUser(tenant, tenant.admin.id))).toEqual(all);
    const viewer = await newUser(tenant, { role: 'Viewer' });
    expect(await visible(await asUser(tenant, viewer.id))).toEqual(all);
    expect((await me(await asUser(tenant, manager))).reach).toEqual({ kind: 'team', id: team });
    const token = await asUser(tenant, rep);
    for (const id of [ofMate, ofOther, ofNobody]) {
      await expectStatus(404, 'GET', recordsPath('leads', id), { token });
      await expectStatus(404, 'PATCH', recordsPath('leads', id), { token, body: { city: 'Berlin' } });
    }
    await expectStatus(200, 'PATCH', recordsPath('leads', ofRep), { token, body: { city: 'Berlin' } });
  });

  test('limits each action of an app to the widest role that permits it', async () => {
    const { tenant, rep, mate } = await newPeople();
    await database()`
      insert into user_roles (company_id, user_id, role_id)
      select ${tenant.companyId}, ${rep}, id from roles where name = 'Viewer'`;
    const assigned = async (userId: string): Promise<string> =>
      (await createRecord(tenant.key, 'leads', { first_name: 'Sara', email: 's@example.com', assigned_to: userId })).id;
    const [own, ofMate] = [await assigned(rep), await assigned(mate)];
    const token = await asUser(tenant, rep);
    expect(await visible(token)).toEqual([own, ofMate].toSorted());
    await expectStatus(200, 'GET', recordsPath('leads', ofMate), { token });
    await expectStatus(404, 'PATCH', recordsPath('leads', ofMate), { token, body: { city: 'Berlin' } });
    await expectStatus(200, 'PATCH', recordsPath('leads', own), { token, body: { city: 'Berlin' } });
  });

  test('shows an app the records that it created for its user, but not those for a colleague', async () => {
    const { tenant, north, rep, mate, manager, other } = await newPeople();
    const clientId = `app-${randomUUID()}`;
    const [token, forMate, forOther] = [
      await asUser(tenant, rep, clientId),
      await asUser(tenant, mate, clientId),
      await asUser(tenant, other, clientId),
    ];
    const [byRep, byMate, byOther] = [await create(token, {}), await create(forMate, {}), await create(forOther, {})];
    expect(await visible(token)).toEqual([byRep]);
    expect(await visible(forMate)).toEqual([byMate]);
    expect(await visible(forOther)).toEqual([byOther]);
    expect(await visible(await asUser(tenant, rep, 'another app'))).toEqual([byRep]);
    expect(await visible(await asUser(tenant, manager))).toEqual([byRep, byMate].toSorted());
    // The same rule for a key of the branch.
    const key = await newKey(tenant, { reach: { kind: 'branch', id: north } });
    const { body } = await expectStatus(200, 'GET', recordsPath('leads'), { key });
    expect(body.data.records.map((record: { id: string }) => record.id).toSorted()).toEqual([byRep, byMate].toSorted());
  });

  test('shows an app the intake leads that it created for its user, once they are unassigned', async () => {
    const { tenant, rep, other } = await newPeople();
    const token = await asUser(tenant, rep);
    const body = { first_name: 'Sara', email: `${randomUUID()}@example.com` };
    const { id } = (await expectStatus(201, 'POST', '/v1/leads', { token, body, idempotencyKey: true })).body.data.lead;
    await expectStatus(200, 'PATCH', recordsPath('leads', id), { key: tenant.key, body: { assigned_to: null } });
    expect(await visible(token)).toEqual([id]);
    expect(await visible(await asUser(tenant, other))).toEqual([]);
  });

  test('shows an app only live records', async () => {
    const { tenant, rep } = await newPeople();
    await createRecord(tenant.testKey, 'leads', { first_name: 'Sara', email: 'test@example.com', assigned_to: rep });
    expect(await visible(await asUser(tenant, rep))).toEqual([]);
  });
});

test('rejects an app for a disabled module, and accepts it again when the module is enabled', async () => {
  const tenant = await newTenant();
  const token = await newBearer(tenant);
  const path = recordsPath('leads');
  await database()`update companies set disabled_modules = '{leads}' where id = ${tenant.companyId}`;
  const { body } = await expectStatus(403, 'GET', path, { token });
  expect(body.error).toMatchObject({
    code: 'MODULE_DISABLED',
    details: { module: 'leads', reason: 'disabled_by_admin' },
  });
  await database()`update companies set disabled_modules = '{}' where id = ${tenant.companyId}`;
  await expectStatus(200, 'GET', path, { token });
});

test('keeps only one of two concurrent consents to one app by one user', async () => {
  const tenant = await newTenant();
  const first = await newGrant(tenant, { groups: ['records'] });
  await expect(newGrant(tenant, first)).rejects.toThrow('oauth_grants_active');
  await newGrant(tenant, { ...first, revokedAt: new Date() });
  const token = await accessToken(tenant, first);
  await expectStatus(200, 'GET', '/v1/me', { token });
});
