// Users of a workspace: roles, addresses, passwords, changes and visibility.
// Seats and races are in user-seats.test.ts.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { newBranch, newTeam } from '../support/arranged-ids.ts';
import { type Answer, call, expectStatus, type Json } from '../support/client.ts';
import { audited } from '../support/records.ts';
import { newPerson, signIn, tokenFor } from '../support/sessions.ts';
import { adminPassword, database, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { newEmail, person } from '../support/users.ts';

let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newTenant(), newTenant()]);
});

const create = (status: number, body: object, key = tenant.key): Promise<Answer> =>
  expectStatus(status, 'POST', '/v1/users', { key, body });
const patch = (status: number, id: string, body: object, key = tenant.key): Promise<Answer> =>
  expectStatus(status, 'PATCH', `/v1/users/${id}`, { key, body });
const get = async (id: string, key = tenant.key): Promise<Json> =>
  (await expectStatus(200, 'GET', `/v1/users/${id}`, { key })).body.data.user;

async function roleId(name: string): Promise<string> {
  const [row] = await database()<{ id: string }[]>`select id from roles where name = ${name}`;
  return row?.id ?? '';
}

describe('POST /v1/users', () => {
  test('creates an active user of the default branch who signs in with the given password', async () => {
    const body = person({ email: newEmail().toUpperCase(), password: adminPassword });
    const answer = await create(201, body);
    expect(answer.body.data).toEqual({
      user: {
        id: expect.any(String),
        full_name: 'Omar Nasser',
        email: String(body.email).toLowerCase(),
        status: 'active',
        roles: [{ id: await roleId('Sales_Rep'), name: 'Sales_Rep' }],
        branch: { id: tenant.branchId, name: 'Main Branch' },
        team: null,
        last_sign_in_at: null,
        must_change_password: false,
        created_at: expect.any(String),
      },
      welcome_email_sent: false,
    });
    const { user } = answer.body.data;
    expect(await get(user.id)).toEqual(user);
    expect(await audited(answer)).toEqual([
      {
        action: 'user.create',
        record_id: user.id,
        changes: null,
        metadata: { email: user.email, role: 'Sales_Rep', send_welcome: false },
      },
    ]);
    expect((await signIn(user.email)).user).toMatchObject({ id: user.id, must_change_password: false });
    expect((await get(user.id)).last_sign_in_at).not.toBeNull();
  });

  test('generates a working temporary password if none is given, and stores it nowhere in plain text', async () => {
    const idempotencyKey = randomUUID();
    const body = person({ send_welcome: true });
    const ask = (): Promise<Answer> =>
      expectStatus(201, 'POST', '/v1/users', { key: tenant.key, body, idempotencyKey });
    const first = await ask();
    const { user, temp_password: password } = first.body.data;
    expect(password).toMatch(/^(?=.*[A-Z])(?=.*[a-z])(?=.*\d)(?=.*[^A-Za-z0-9]).{16}$/);
    expect(user.must_change_password).toBe(true);
    expect(first.headers.get('cache-control')).toBe('no-store');
    const replay = await ask();
    expect(replay.text).toBe(first.text);
    const session = await expectStatus(200, 'POST', '/auth/v1/token', {
      query: { grant_type: 'password' },
      body: { email: user.email, password },
    });
    expect(session.body.user.must_change_password).toBe(true);
    const tables = ['idempotency_records', 'audit_logs', 'outbox_events', 'feed_events', 'mails', 'users', 'sign_ins'];
    for (const table of tables) {
      const rows =
        await database()`select row_to_json(t)::text as text from ${database()(table)} t where company_id = ${tenant.companyId}`;
      expect([
        table,
        rows.filter(({ text }) => text.includes(password) || text.includes(JSON.stringify(password))),
      ]).toEqual([table, []]);
    }
    const [kept] = await database()`
      select body from idempotency_records where company_id = ${tenant.companyId} and key = ${idempotencyKey}`;
    expect(kept?.body).not.toContain(user.email);
  });

  test('never returns the password again', async () => {
    const { user } = (await create(201, person())).body.data;
    expect(Object.keys(await get(user.id))).not.toContain('temp_password');
  });

  test('trims a name, and rejects one that is only whitespace', async () => {
    const { user } = (await create(201, person({ full_name: '  Noor  Saleh ' }))).body.data;
    expect(user.full_name).toBe('Noor  Saleh');
    expect((await patch(200, user.id, { full_name: ' Noor ' })).body.data.user.full_name).toBe('Noor');
    const blank = { field: 'full_name', code: 'INVALID_FORMAT', message: 'full_name must not be blank.' };
    for (const refused of [
      await create(400, person({ full_name: '   ' })),
      await patch(400, user.id, { full_name: ' \t ' }),
    ])
      expect(refused.body.error.details.fields).toEqual([blank]);
  });

  test.each([
    ['a name', { role: 'Viewer' }],
    ['a name in another case', { role: ' vIEWER ' }],
  ])('accepts the role as %s', async (_, role) => {
    const { user } = (await create(201, person(role))).body.data;
    expect(user.roles).toEqual([{ id: await roleId('Viewer'), name: 'Viewer' }]);
  });

  test('takes the role as an id', async () => {
    const id = await roleId('Branch_Manager');
    const { user } = (await create(201, person({ role: undefined, role_id: id.toUpperCase() }))).body.data;
    expect(user.roles).toEqual([{ id, name: 'Branch_Manager' }]);
  });

  test('rejects no role, two roles, an unknown one and Super_Admin with 400, and lists the allowed ones', async () => {
    const superAdmin = await roleId('Super_Admin');
    const cases: [object, string, string][] = [
      [{ role: undefined }, 'role', 'REQUIRED'],
      [{ role_id: await roleId('Viewer') }, 'role', 'CONFLICTING_FIELDS'],
      [{ role: 'Emperor' }, 'role', 'INVALID_OPTION'],
      [{ role: 'Super_Admin' }, 'role', 'INVALID_OPTION'],
      [{ role: undefined, role_id: superAdmin }, 'role_id', 'INVALID_OPTION'],
      [{ role: undefined, role_id: randomUUID() }, 'role_id', 'INVALID_OPTION'],
    ];
    for (const [more, field, code] of cases) {
      const { body, text } = await create(400, person(more));
      expect(body.error).toMatchObject({ code: 'VALIDATION_ERROR', details: { fields: [{ field, code }] } });
      expect(text).not.toContain(superAdmin);
      expect(body.error.details.fields[0].allowed ?? []).not.toContain('Super_Admin');
    }
    const unknown = await create(400, person({ role: 'Emperor' }));
    const hidden = await create(400, person({ role: 'Super_Admin' }));
    expect(hidden.body.error).toEqual(unknown.body.error);
  });

  test('rejects an address that is used anywhere on the platform, with the id only of a visible user', async () => {
    const known = await newPerson(tenant);
    const ours = await create(409, person({ email: known.email.toUpperCase() }));
    expect(ours.body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      details: { matched_fields: ['email'], existing_id: known.id },
    });
    const elsewhere = await create(409, person({ email: other.admin.email }));
    expect(elsewhere.body.error.details).toEqual({ matched_fields: ['email'], existing_id: null });
    const reach = { kind: 'branch', id: await newBranch(tenant) } as const;
    const outOfReach = await create(409, person({ email: known.email }), await newKey(tenant, { reach }));
    expect(outOfReach.body.error.details).toEqual({ matched_fields: ['email'], existing_id: null });
    expect(elsewhere.body.error.message).toBe(ours.body.error.message);
  });

  test.each([
    ['email', 'nobody', 400, 'INVALID_FORMAT'],
    ['full_name', 'X', 400, 'TOO_SHORT'],
    ['full_name', 'x'.repeat(201), 400, 'TOO_LONG'],
    ['password', '1234567', 400, 'TOO_SHORT'],
    ['send_welcome', 'yes', 422, 'INVALID_TYPE'],
    ['role_id', 'x', 400, 'INVALID_FORMAT'],
    ['branch_id', randomUUID(), 422, 'UNKNOWN_FIELD'],
    ['id', randomUUID(), 422, 'UNKNOWN_FIELD'],
  ])('rejects the field %s %j with %i', async (field, value, status, code) => {
    const body = { ...person(field === 'role_id' ? { role: undefined } : {}), [field]: value };
    const answer = await create(status, body);
    expect(answer.body.error.details.fields).toMatchObject([{ field, code }]);
    expect(await audited(answer)).toEqual([]);
  });

  test('accepts a password of 8 characters, and names of 2 and of 200', async () => {
    await create(201, person({ password: '12345678', full_name: 'Bo' }));
    await create(201, person({ full_name: 'x'.repeat(200) }));
  });
});

describe('PATCH /v1/users/{id}', () => {
  test('changes each field separately and audits it', async () => {
    const branch = await newBranch(tenant);
    const team = await newTeam(tenant);
    const far = await newTeam(tenant, branch, 'Far');
    const viewer = await roleId('Viewer');
    const manager = await roleId('Sales_Manager');
    const cases: [object, object, object][] = [
      [{ full_name: 'Noor Saleh' }, { full_name: 'Noor Saleh' }, { full_name: { from: 'Uma User', to: 'Noor Saleh' } }],
      [{ status: 'inactive' }, { status: 'inactive' }, { status: { from: 'active', to: 'inactive' } }],
      [
        { role: 'Viewer' },
        { roles: [{ id: viewer, name: 'Viewer' }] },
        { roles: { from: ['Sales_Rep'], to: ['Viewer'] } },
      ],
      [
        { role_id: manager },
        { roles: [{ id: manager, name: 'Sales_Manager' }] },
        { roles: { from: ['Sales_Rep'], to: ['Sales_Manager'] } },
      ],
      [
        { branch_id: branch },
        { branch: { id: branch, name: 'Elsewhere' } },
        { branch_id: { from: tenant.branchId, to: branch } },
      ],
      [{ branch_id: null }, { branch: null }, { branch_id: { from: tenant.branchId, to: null } }],
      [{ team_id: team }, { team: { id: team, name: 'Team' } }, { team_id: { from: null, to: team } }],
      [
        { team_id: far.toUpperCase(), branch_id: branch },
        { branch: { id: branch, name: 'Elsewhere' }, team: { id: far, name: 'Far' } },
        { branch_id: { from: tenant.branchId, to: branch }, team_id: { from: null, to: far } },
      ],
      // A team brings its branch.
      [
        { team_id: far },
        { branch: { id: branch, name: 'Elsewhere' }, team: { id: far, name: 'Far' } },
        { branch_id: { from: tenant.branchId, to: branch }, team_id: { from: null, to: far } },
      ],
    ];
    for (const [body, changed, changes] of cases) {
      const { id } = await newUser(tenant);
      const before = await get(id);
      const answer = await patch(200, id, body);
      expect(answer.body.data.user).toEqual({ ...before, ...changed });
      expect(await get(id)).toEqual({ ...before, ...changed });
      expect(await audited(answer)).toEqual([{ action: 'user.update', record_id: id, changes, metadata: null }]);
    }
  });

  test('writes no audit row if nothing changes', async () => {
    const { id } = await newUser(tenant);
    const same = { full_name: 'Uma User', status: 'active', role: 'Sales_Rep', branch_id: tenant.branchId };
    for (const body of [{}, same]) expect(await audited(await patch(200, id, body))).toEqual([]);
  });

  test('rejects read-only and unknown fields by name', async () => {
    const { id } = await newUser(tenant);
    const fields = {
      email: 'IMMUTABLE',
      id: 'READ_ONLY',
      roles: 'READ_ONLY',
      branch: 'READ_ONLY',
      team: 'READ_ONLY',
      last_sign_in_at: 'READ_ONLY',
      must_change_password: 'READ_ONLY',
      created_at: 'READ_ONLY',
      password: 'UNKNOWN_FIELD',
      company_id: 'UNKNOWN_FIELD',
    };
    const before = await get(id);
    for (const [field, code] of Object.entries(fields)) {
      const { body } = await patch(422, id, { full_name: 'Changed', [field]: before[field] ?? 'x' });
      expect(body.error.details.fields).toMatchObject([{ field, code }]);
    }
    expect(await get(id)).toEqual(before);
  });

  test('rejects two roles, an unknown one and Super_Admin with 400, and an unknown branch with 422', async () => {
    const { id } = await newUser(tenant);
    const foreign = await newBranch(other);
    const cases: [number, object, object[]][] = [
      [400, { role: 'Viewer', role_id: await roleId('Viewer') }, [{ field: 'role', code: 'CONFLICTING_FIELDS' }]],
      [400, { role: 'Super_Admin' }, [{ field: 'role', code: 'INVALID_OPTION' }]],
      [400, { role_id: await roleId('Super_Admin') }, [{ field: 'role_id', code: 'INVALID_OPTION' }]],
      [422, { branch_id: randomUUID() }, [{ field: 'branch_id', code: 'NOT_FOUND' }]],
      [422, { branch_id: foreign }, [{ field: 'branch_id', code: 'NOT_FOUND' }]],
      [422, { branch_id: tenant.companyId }, [{ field: 'branch_id', code: 'NOT_FOUND' }]],
      [422, { team_id: randomUUID() }, [{ field: 'team_id', code: 'NOT_FOUND' }]],
      [422, { team_id: await newTeam(other) }, [{ field: 'team_id', code: 'NOT_FOUND' }]],
      [422, { team_id: tenant.branchId }, [{ field: 'team_id', code: 'NOT_FOUND' }]],
      [
        400,
        { team_id: await newTeam(tenant), branch_id: await newBranch(tenant) },
        [{ field: 'team_id', code: 'CONFLICTING_FIELDS' }],
      ],
      [400, { team_id: await newTeam(tenant), branch_id: null }, [{ field: 'team_id', code: 'CONFLICTING_FIELDS' }]],
      [
        422,
        { branch_id: foreign, role: 'Emperor' },
        [
          { field: 'branch_id', code: 'NOT_FOUND' },
          { field: 'role', code: 'INVALID_OPTION' },
        ],
      ],
      [400, { status: 'gone' }, [{ field: 'status', code: 'INVALID_OPTION' }]],
      [400, { full_name: '' }, [{ field: 'full_name', code: 'TOO_SHORT' }]],
    ];
    for (const [status, body, fields] of cases) {
      const answer = await patch(status, id, body);
      expect(answer.body.error.details.fields).toMatchObject(fields);
    }
  });

  test('removes a user who moves to another branch from the team of the old one', async () => {
    const { id } = await newUser(tenant);
    const team = await newTeam(tenant);
    await database()`update users set team_id = ${team} where company_id = ${tenant.companyId} and id = ${id}`;
    const stayed = await patch(200, id, { branch_id: tenant.branchId });
    expect(stayed.body.data.user.team).toEqual({ id: team, name: 'Team' });
    const moved = await patch(200, id, { branch_id: await newBranch(tenant) });
    expect(moved.body.data.user.team).toBeNull();
  });

  test('removes a user from a team and keeps the branch', async () => {
    const { id } = await newUser(tenant);
    const team = await newTeam(tenant);
    await patch(200, id, { team_id: team });
    const { user } = (await patch(200, id, { team_id: null })).body.data;
    expect([user.team, user.branch.id]).toEqual([null, tenant.branchId]);
  });

  test('never shows or removes a hidden role', async () => {
    const { id } = await newUser(tenant);
    const hidden = await roleId('Super_Admin');
    await database()`insert into user_roles (company_id, user_id, role_id) values (${tenant.companyId}, ${id}, ${hidden})`;
    expect((await get(id)).roles.map((role: Json) => role.name)).toEqual(['Sales_Rep']);
    const { user } = (await patch(200, id, { role: 'Viewer' })).body.data;
    expect(user.roles.map((role: Json) => role.name)).toEqual(['Viewer']);
    const held = await database()`select from user_roles where company_id = ${tenant.companyId} and user_id = ${id}`;
    expect(held).toHaveLength(2);
  });

  test('ends sessions, refresh tokens and sign-in of a deactivated user immediately and permanently', async () => {
    const user = await newPerson(tenant);
    const session = await signIn(user.email);
    const token = await tokenFor(tenant, user);
    const ask = (bearer: string): Promise<Answer> => call('GET', '/v1/me', { token: bearer });
    expect([(await ask(session.access_token)).status, (await ask(token)).status]).toEqual([200, 200]);
    await patch(200, user.id, { status: 'inactive' });
    expect([(await ask(session.access_token)).status, (await ask(token)).status]).toEqual([401, 401]);
    const credentials = { email: user.email, password: adminPassword };
    const enter = (status: number, grant: string, body: object): Promise<Answer> =>
      expectStatus(status, 'POST', '/auth/v1/token', { query: { grant_type: grant }, body });
    expect((await enter(400, 'password', credentials)).body.error).toBe('invalid_grant');
    await enter(400, 'refresh_token', { refresh_token: session.refresh_token });
    await patch(200, user.id, { status: 'active' });
    expect([(await ask(session.access_token)).status, (await ask(token)).status]).toEqual([401, 401]);
    await enter(400, 'refresh_token', { refresh_token: session.refresh_token });
    await enter(200, 'password', credentials);
  });
});

describe('GET /v1/users', () => {
  let crowd: Tenant;
  /** Oldest first. The third is inactive. */
  let ids: string[];

  beforeAll(async () => {
    crowd = await newTenant();
    ids = [crowd.admin.id];
    const start = Date.now() + 1000;
    // Two of them at the same instant.
    for (const [index, status] of (['active', 'inactive', 'active', 'active', 'active'] as const).entries())
      ids.push((await newUser(crowd, { status, createdAt: new Date(start + Math.min(index, 3) * 1000) })).id);
  });

  const list = async (query: Record<string, string | number>, key = crowd.key): Promise<Json> =>
    (await expectStatus(200, 'GET', '/v1/users', { key, query })).body.data;

  test('lists active users newest first, unless status asks for others', async () => {
    const newest = ids.toReversed();
    const inactive = newest[3] as string;
    const listIds = (data: Json): string[] => data.users.map((user: Json) => user.id);
    expect(listIds(await list({}))).toEqual(newest.filter((id) => id !== inactive));
    expect(listIds(await list({ status: 'active' }))).toEqual(newest.filter((id) => id !== inactive));
    expect(listIds(await list({ status: 'inactive' }))).toEqual([inactive]);
    expect(listIds(await list({ status: 'all' }))).toEqual(newest);
    expect(listIds(await list({ status: 'all' }, crowd.testKey))).toEqual(newest);
    await expectStatus(400, 'GET', '/v1/users', { key: crowd.key, query: { status: 'gone' } });
  });

  test('finds users by part of a name or an address in any case, together with status and pages', async () => {
    const named = (data: Json): string[] => data.users.map((user: Json) => user.id);
    expect(named(await list({ q: 'ADA adm' }))).toEqual([crowd.admin.id]);
    expect(named(await list({ q: crowd.admin.email.toUpperCase() }))).toEqual([crowd.admin.id]);
    // The others are all called Uma.
    const all = named(await list({ q: 'uma', status: 'all' }));
    expect(all).toEqual(ids.slice(1).toReversed());
    const first = await list({ q: 'uma', status: 'all', limit: 2 });
    expect(named(first)).toEqual(all.slice(0, 2));
    const next = { q: 'uma', status: 'all', cursor: first.next_cursor };
    expect(named(await list(next))).toEqual(all.slice(2));
    await expectStatus(400, 'GET', '/v1/users', { key: crowd.key, query: { ...next, q: 'um' } });
    for (const q of ['%', '_', 'nobody']) expect(named(await list({ q }))).toEqual([]);
    for (const q of ['', 'x'.repeat(101)])
      await expectStatus(400, 'GET', '/v1/users', { key: crowd.key, query: { q } });
  });

  test('pages through all users without repeats or gaps, and rejects a cursor of another query', async () => {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const data = await list({ status: 'all', limit: 2, ...(cursor ? { cursor } : {}) });
      seen.push(...data.users.map((user: Json) => user.id));
      if (data.next_cursor) {
        const query = { cursor: data.next_cursor };
        await expectStatus(400, 'GET', '/v1/users', { key: crowd.key, query: { ...query, status: 'inactive' } });
        await expectStatus(400, 'GET', '/v1/users', { key: tenant.key, query: { ...query, status: 'all' } });
      }
      cursor = data.next_cursor ?? undefined;
    } while (cursor);
    expect(seen).toEqual(ids.toReversed());
  });
});

describe('reach', () => {
  let branch: string;
  let team: string;
  let inBranch: string;
  let inTeam: string;
  let elsewhere: string;
  let branchKey: string;
  let teamKey: string;

  beforeAll(async () => {
    branch = await newBranch(tenant);
    team = await newTeam(tenant, branch);
    inBranch = (await newUser(tenant, { branchId: branch })).id;
    inTeam = (await newUser(tenant, { branchId: branch })).id;
    elsewhere = (await newUser(tenant)).id;
    await database()`update users set team_id = ${team} where company_id = ${tenant.companyId} and id = ${inTeam}`;
    branchKey = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
    teamKey = await newKey(tenant, { reach: { kind: 'team', id: team } });
  });

  const seenBy = async (key: string): Promise<string[]> =>
    (await expectStatus(200, 'GET', '/v1/users', { key })).body.data.users.map((user: Json) => user.id);

  test('lists, reads and changes only the members visible to a key of a branch or a team', async () => {
    expect((await seenBy(branchKey)).toSorted()).toEqual([inBranch, inTeam].toSorted());
    expect(await seenBy(teamKey)).toEqual([inTeam]);
    for (const [key, id] of [
      [branchKey, elsewhere],
      [teamKey, elsewhere],
      [teamKey, inBranch],
    ] as const) {
      await expectStatus(404, 'GET', `/v1/users/${id}`, { key });
      await patch(404, id, { full_name: 'Changed' }, key);
    }
    expect((await get(elsewhere)).full_name).toBe('Uma User');
    await patch(200, inTeam, { full_name: 'Changed' }, teamKey);
    await patch(200, inBranch, { full_name: 'Changed' }, branchKey);
  });

  test('puts a user created by a key of a branch or a team there', async () => {
    const ofBranch = (await create(201, person(), branchKey)).body.data.user;
    expect([ofBranch.branch.id, ofBranch.team]).toEqual([branch, null]);
    const ofTeam = (await create(201, person(), teamKey)).body.data.user;
    expect([ofTeam.branch.id, ofTeam.team.id]).toEqual([branch, team]);
  });

  test('rejects a role with wider visibility than the key', async () => {
    const grants: [string, string, number][] = [
      [branchKey, 'Company_Admin', 403],
      [branchKey, 'Viewer', 403],
      [branchKey, 'Branch_Manager', 201],
      [teamKey, 'Branch_Manager', 403],
      [teamKey, 'Sales_Manager', 201],
      [teamKey, 'Sales_Rep', 201],
    ];
    for (const [key, role, status] of grants) {
      const { body } = await create(status, person({ role }), key);
      if (status === 403)
        expect(body.error).toMatchObject({ code: 'FORBIDDEN_SCOPE', details: { reason: 'reach_too_narrow' } });
    }
    const { body } = await patch(403, inBranch, { role: 'Company_Admin' }, branchKey);
    expect(body.error.details.reason).toBe('reach_too_narrow');
    expect((await get(inBranch)).roles.map((role: Json) => role.name)).toEqual(['Sales_Rep']);
  });

  test('rejects moving a user out of the visibility of the key', async () => {
    for (const target of [tenant.branchId, null]) {
      const { body } = await patch(422, inBranch, { branch_id: target }, branchKey);
      expect(body.error.details.fields).toMatchObject([{ field: 'branch_id', code: 'NOT_FOUND' }]);
    }
    expect((await get(inBranch)).branch.id).toBe(branch);
    const elsewhere = await newTeam(tenant);
    await patch(422, inBranch, { team_id: elsewhere }, branchKey);
    const { user } = (await create(201, person(), teamKey)).body.data;
    for (const target of [elsewhere, null]) await patch(422, user.id, { team_id: target }, teamKey);
    expect((await get(user.id)).team).not.toBeNull();
  });
});
