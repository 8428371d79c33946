// Explanations of access agree with real calls, and say no more of foreign data than these.
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { newBearer } from '../support/access-tokens.ts';
import { newBranch, newObject, newTeam } from '../support/arranged-ids.ts';
import { anyAddress, type CallOptions, call, expectStatus, type Json } from '../support/client.ts';
import { inLanes } from '../support/concurrency.ts';
import { type DeclaredOperation, operations } from '../support/document.ts';
import { createRecord, newCustomField, recordsPath } from '../support/records.ts';
import { listAlternatives, newWideTenant } from '../support/requests.ts';
import { newPerson, tokenFor } from '../support/sessions.ts';
import { database, type KeyOptions, newKey, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { anyPath, exempt, guarded, openedByOAuth, openedBySession } from '../support/walk.ts';

let tenant: Tenant;
let other: Tenant;
/** The path of the custom object of `tenant`. */
let custom: string;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newWideTenant(), newTenant()]);
  custom = await newObject(tenant);
});

interface Explained {
  allowed: boolean;
  operation: string;
  error: { status: number; code: string; details?: Json } | null;
  checks: { check: string; result: string; reason: string }[];
}

const explain = async (body: Json, key = tenant.key): Promise<Explained> =>
  (await expectStatus(200, 'POST', '/v1/access/explain', { key, body })).body.data;
const reject = async (status: number, body: Json, key = tenant.key): Promise<Json> =>
  (await expectStatus(status, 'POST', '/v1/access/explain', { key, body })).body.error;

const findFailure = ({ checks }: Explained): string | undefined =>
  checks.find(({ result }) => result === 'fail')?.check;
const findReason = ({ checks }: Explained, name: string): string =>
  checks.find(({ check }) => check === name)?.reason ?? '';
const findResult = ({ checks }: Explained, name: string): string | undefined =>
  checks.find(({ check }) => check === name)?.result;

const keyId = async (key: string): Promise<string> => {
  const [row] = await database()<{ id: string }[]>`select id from api_keys where key_hash = ${sha256(key)}`;
  return row?.id ?? '';
};

/** Returns the check that an error belongs to, stated independently of the server. */
function toChecks({ status, code, details = {} }: NonNullable<Explained['error']>): string[] {
  if (status === 401) return ['credential'];
  if (status === 402) return ['plan'];
  if (code === 'IP_NOT_ALLOWED') return ['ip_allowlist'];
  if (code === 'MODULE_DISABLED') return [details.reason === 'not_in_plan' ? 'plan' : 'module'];
  if (code === 'NOT_FOUND') return ['scope', 'role'];
  const byReason: Record<string, string> = {
    live_key_required: 'mode',
    test_key_required: 'mode',
    company_reach_required: 'reach',
  };
  if (details.reason === undefined) return ['scope', 'role'];
  return [byReason[details.reason] ?? 'credential'];
}

/** Objects to try in the path of an operation. Settings exist for some objects only, always for leads. */
function chooseObjects({ path }: DeclaredOperation): (string | undefined)[] {
  if (!path.includes('{object}')) return [undefined];
  return path.startsWith('/v1/objects/') ? ['leads', 'accounts', custom] : ['leads'];
}

/** Makes a call that validation rejects immediately after all checks of access, before anything happens. */
const admit = (operation: DeclaredOperation, object: string | undefined, credential: CallOptions) =>
  call(operation.method, anyPath(operation, object === undefined ? {} : { object }), {
    ...credential,
    query: { zzz: 'zzz' },
  });

/** Expects an explanation that is consistent in itself. */
function expectConsistent(explained: Explained): void {
  const results = explained.checks.map(({ result }) => result);
  expect(explained.checks.map(({ check }) => check)).toEqual([
    ...['credential', 'ip_allowlist', 'scope', 'role', 'plan', 'module', 'mode', 'write_mode', 'reach', 'field'],
  ]);
  expect(results.filter((result) => result === 'fail')).toHaveLength(explained.allowed ? 0 : 1);
  expect(explained.error === null).toBe(explained.allowed);
  for (const { reason } of explained.checks) expect(reason).toMatch(/\.$/);
}

describe('agrees with real calls', () => {
  const ended = new Date(Date.now() - 1000);
  interface Case {
    name: string;
    options: KeyOptions;
    /** Another address for each call, because an address may fail only so often. */
    ip?: () => string;
  }
  const createReach = async (kind: 'branch' | 'team'): Promise<NonNullable<KeyOptions['reach']>> => ({
    kind,
    id: kind === 'branch' ? await newBranch(tenant) : await newTeam(tenant),
  });
  const cases: Case[] = [
    { name: 'every scope', options: {} },
    { name: 'every scope in test mode', options: { environment: 'test' } },
    { name: 'leads:view', options: { scopes: ['leads:view'] } },
    { name: 'leads:* and accounts:view', options: { scopes: ['leads:*', 'accounts:view'] } },
    { name: 'creating without viewing', options: { scopes: ['leads:create', 'accounts:delete'] } },
    { name: 'legacy scopes', options: { scopes: ['leads:read', 'customers:write', 'activities:update'] } },
    { name: 'settings and webhooks', options: { scopes: ['settings:view', 'webhooks:configure', 'users:*'] } },
    { name: 'add-on modules', options: { scopes: ['bookings:*', 'campaigns:*', 'inbox:view', 'workforces:*'] } },
    { name: 'no scope', options: { scopes: [] } },
    { name: 'a revoked key', options: { revokedAt: ended } },
    { name: 'an expired key', options: { expiresAt: ended } },
    { name: 'an address inside the allowlist', options: { ipAllowlist: ['192.0.2.0/24'] }, ip: () => '192.0.2.7' },
    { name: 'an address outside the allowlist', options: { ipAllowlist: ['192.0.2.0/24'] }, ip: anyAddress },
  ];

  async function expectAgreement(
    judged: string,
    asker: string,
    whose: Tenant,
    readAddress?: () => string,
  ): Promise<number> {
    const id = await keyId(judged);
    let allowed = 0;
    await inLanes(4, [...guarded], async (operation) => {
      for (const object of chooseObjects(operation)) {
        if (object?.startsWith('object:') && whose !== tenant) continue;
        const ip = readAddress?.();
        const real = await admit(operation, object, { key: judged, ...(ip === undefined ? {} : { ip }) });
        const body = { api_key_id: id, operation: operation.id, object, ip };
        const explained = await explain(body, asker);
        // Operations for OAuth libraries have errors of their own shape.
        if (exempt.envelope.includes(operation.id)) {
          expect([operation.id, explained.error?.status ?? 400]).toEqual([operation.id, real.status]);
          continue;
        }
        const { code, details } = real.body.error;
        const said = explained.allowed ? { status: 400, code: 'VALIDATION_ERROR' } : explained.error;
        expect({ operation: operation.id, object, error: said }).toEqual({
          operation: operation.id,
          object,
          error: {
            status: real.status,
            code,
            ...(explained.allowed || details === undefined ? {} : { details }),
          },
        });
        expectConsistent(explained);
        if (explained.error) expect(toChecks(explained.error)).toContain(findFailure(explained));
        else allowed += 1;
      }
    });
    return allowed;
  }

  test.each(cases)(
    'explains every operation for a key with $name as the operation answers',
    async ({ options, ip }) => {
      const [judged, asker] = await Promise.all([newKey(tenant, options), newKey(tenant)]);
      const allowed = await expectAgreement(judged, asker, tenant, ip);
      if (options.revokedAt || options.expiresAt || ip === anyAddress) expect(allowed).toBe(0);
      else if (options.scopes?.length !== 0) expect(allowed).toBeGreaterThan(0);
    },
  );

  test.each(['branch', 'team'] as const)('explains every operation for a key with the reach %s', async (kind) => {
    const [judged, asker] = await Promise.all([newKey(tenant, { reach: await createReach(kind) }), newKey(tenant)]);
    expect(await expectAgreement(judged, asker, tenant)).toBeGreaterThan(100);
  });

  test('explains every operation on a plan without add-on modules, with a module that is disabled', async () => {
    const small = await newTenant();
    await database()`update subscriptions set package_code = 'starter', status = 'active', trial_ends_at = null where company_id = ${small.companyId}`;
    await database()`update companies set disabled_modules = '{accounts,reports}' where id = ${small.companyId}`;
    const [judged, asker] = await Promise.all([newKey(small), newKey(small)]);
    expect(await expectAgreement(judged, asker, small)).toBeGreaterThan(50);
    const missing = await explain({ api_key_id: await keyId(judged), operation: 'listBookings' }, asker);
    expect([findFailure(missing), missing.error?.details.reason]).toEqual(['plan', 'not_in_plan']);
    const off = await explain(
      { action: 'view', object: 'leads' },
      await newKey(small, { scopes: ['access_control:view'] }),
    );
    expect(findFailure(off)).toBe('scope');
    const disabled = await explain({ api_key_id: await keyId(judged), operation: 'searchReport' }, asker);
    expect([findFailure(disabled), disabled.error?.details.reason]).toEqual(['module', 'disabled_by_admin']);
  });

  const roles = ['Company_Admin', 'Branch_Manager', 'Sales_Manager', 'Sales_Rep', 'Viewer'];
  test.each(roles)('explains for a %s every operation as it answers their session and their app', async (role) => {
    const user = role === 'Company_Admin' ? tenant.admin : await newPerson(tenant, role);
    const asker = await newKey(tenant);
    const session = await tokenFor(tenant, user);
    const counts = { allowed: 0, rejected: 0 };
    await inLanes(4, [...new Set([...openedBySession, ...openedByOAuth])], async (operation) => {
      const [object] = chooseObjects(operation);
      const real = [
        ...(openedBySession.includes(operation) ? [await admit(operation, object, { token: session })] : []),
        // An app may make only sixty calls a minute.
        ...(openedByOAuth.includes(operation)
          ? [await admit(operation, object, { token: await newBearer(tenant, undefined, { userId: user.id }) })]
          : []),
      ];
      const explained = await explain({ user_id: user.id, operation: operation.id, object }, asker);
      const isAdmitted = real.some(({ status }) => status === 400);
      const answered = real.map(({ status, text }) => [status, text]);
      expect({ operation: operation.id, answered, allowed: explained.allowed }).toMatchObject({ allowed: isAdmitted });
      expectConsistent(explained);
      counts[isAdmitted ? 'allowed' : 'rejected'] += 1;
      if (!explained.error) return;
      expect(real.map(({ status, body }) => [status, body.error.code])).toContainEqual([
        explained.error.status,
        explained.error.code,
      ]);
      expect(toChecks(explained.error)).toContain(findFailure(explained));
      expect(findFailure(explained)).not.toBe('scope');
    });
    expect(counts.allowed).toBeGreaterThan(20);
    if (role !== 'Company_Admin') expect(counts.rejected).toBeGreaterThan(20);
  });

  test('explains records by reach, as they answer the key and the app', async () => {
    const branch = await newBranch(tenant);
    const near = await newUser(tenant, { branchId: branch, role: 'Sales_Rep' });
    const manager = await newUser(tenant, { branchId: branch, role: 'Branch_Manager' });
    const body = { first_name: 'R', email: `${randomUUID()}@x.example` };
    const [seen, unseen] = await Promise.all(
      [near.id, tenant.admin.id].map((assigned_to) => createRecord(tenant.key, 'leads', { ...body, assigned_to })),
    );
    const key = await newKey(tenant, { reach: { kind: 'branch', id: branch } });
    const subjects: [Json, CallOptions][] = [
      [{ api_key_id: await keyId(key) }, { key }],
      [{ user_id: near.id }, { token: await newBearer(tenant, undefined, { userId: near.id }) }],
      [{ user_id: manager.id }, { token: await newBearer(tenant, undefined, { userId: manager.id }) }],
    ];
    for (const [subject, credential] of subjects) {
      for (const [record, status] of [
        [seen, 200],
        [unseen, 404],
      ] as const) {
        await expectStatus(status, 'GET', recordsPath('leads', record.id), credential);
        for (const asked of [
          { action: 'view', object: 'leads' },
          { operation: 'createNote', object: 'leads' },
          { operation: 'updateLeadStatus' },
        ]) {
          const explained = await explain({ ...subject, ...asked, record_id: record.id });
          expect([explained.allowed, findFailure(explained)]).toEqual([
            status === 200,
            status === 200 ? undefined : 'reach',
          ]);
          if (status === 404) expect(explained.error).toEqual({ status: 404, code: 'NOT_FOUND' });
        }
      }
    }
    // A representative may edit but not delete.
    const deleting = { user_id: near.id, action: 'delete', object: 'leads', record_id: seen.id };
    expect(findFailure(await explain(deleting))).toBe('role');
  });

  test('judges records of the other mode as absent', async () => {
    const { id } = await createRecord(tenant.key, 'accounts', { name: 'Live' });
    const asked = { api_key_id: await keyId(tenant.testKey), action: 'view', object: 'accounts', record_id: id };
    expect(findFailure(await explain(asked))).toBe('reach');
    expect(findFailure(await explain({ ...asked, api_key_id: undefined }, tenant.testKey))).toBe('reach');
  });

  test('explains fields as writes and reads answer them', async () => {
    await newCustomField(tenant, 'leads', 'retired', { enabled: false });
    const record = await createRecord(tenant.key, 'leads', { first_name: 'F', email: 'f@x.example' });
    for (const field of ['first_name', 'id', 'created_at', 'nothing', 'retired', 'company_id', 'constructor']) {
      const writes = [
        ['create', 'POST', recordsPath('leads'), { first_name: 'F', email: `${randomUUID()}@x.example` }],
        ['edit', 'PATCH', recordsPath('leads', record.id), {}],
      ] as const;
      for (const [action, method, path, least] of writes) {
        const options = { key: tenant.key, body: { ...least, [field]: 'x' }, idempotencyKey: true as const };
        const real = await call(method, path, options);
        const explained = await explain({ action, object: 'leads', field });
        expect({ action, field, allowed: explained.allowed }).toEqual({ action, field, allowed: real.status < 300 });
        if (explained.allowed) continue;
        expect(findFailure(explained)).toBe('field');
        expect(explained.error?.status).toBe(real.status);
        expect(explained.error?.details.fields[0]).toMatchObject({
          field,
          code: real.body.error.details.fields[0].code,
        });
      }
      const real = await call('GET', recordsPath('leads'), { key: tenant.key, query: { fields: field } });
      const explained = await explain({ action: 'view', object: 'leads', field });
      expect([explained.allowed, explained.error?.status ?? 200]).toEqual([real.status === 200, real.status]);
    }
  });
});

describe('credentials', () => {
  test('judges the caller itself by default, with the address only if it is given', async () => {
    const key = await newKey(tenant, { scopes: ['access_control:view'], ipAllowlist: ['10.0.0.0/8'] });
    const own = await explain({ operation: 'checkAccess' }, key);
    expect([own.allowed, findResult(own, 'ip_allowlist')]).toEqual([true, 'not_reached']);
    const elsewhere = await explain({ operation: 'checkAccess', ip: '203.0.113.7' }, key);
    expect([findFailure(elsewhere), elsewhere.error]).toEqual([
      'ip_allowlist',
      { status: 403, code: 'IP_NOT_ALLOWED', details: {} },
    ]);
    const near = await explain({ operation: 'checkAccess', ip: '10.1.2.3' }, key);
    expect([near.allowed, findResult(near, 'ip_allowlist')]).toEqual([true, 'pass']);
    const leads = await explain({ action: 'create', object: 'leads' }, key);
    expect([findFailure(leads), leads.error?.status]).toEqual(['scope', 404]);
  });

  test('judges an app by what it was granted, and as the user that it acts for', async () => {
    const user = await newUser(tenant, { role: 'Branch_Manager' });
    const token = await newBearer(tenant, ['access_control:view', 'leads:view'], { userId: user.id });
    const ask = async (body: Json): Promise<Explained> =>
      (await expectStatus(200, 'POST', '/v1/access/explain', { token, body })).body.data;
    expect((await ask({ action: 'view', object: 'leads' })).allowed).toBe(true);
    const edit = await ask({ action: 'edit', object: 'leads' });
    expect([findFailure(edit), edit.error?.details.required_scopes]).toEqual(['scope', ['leads:edit']]);
    // The user may edit, but a branch is all that they and the app see.
    expect((await ask({ user_id: user.id, action: 'edit', object: 'leads' })).allowed).toBe(true);
    const stranger = await newUser(tenant, { branchId: await newBranch(tenant) });
    const hidden = await call('POST', '/v1/access/explain', {
      token,
      body: { user_id: stranger.id, action: 'view', object: 'leads' },
    });
    expect([hidden.status, hidden.body.error.code]).toEqual([404, 'NOT_FOUND']);
  });

  test('fails the credential of an inactive user and of a temporary password', async () => {
    const [idle, fresh] = await Promise.all([newUser(tenant, { status: 'inactive' }), newPerson(tenant)]);
    const inactive = await explain({ user_id: idle.id, action: 'view', object: 'leads' });
    expect([findFailure(inactive), inactive.error?.code]).toEqual(['credential', 'AUTH_INVALID_KEY']);
    await database()`update sign_ins set must_change_password = true where company_id = ${tenant.companyId} and user_id = ${fresh.id}`;
    const temporary = await explain({ user_id: fresh.id, action: 'view', object: 'leads' });
    expect([findFailure(temporary), temporary.error?.details.reason]).toEqual([
      'credential',
      'password_change_required',
    ]);
    expect((await explain({ user_id: fresh.id, operation: 'getMe' })).allowed).toBe(true);
  });

  test('fails an operation that only a person can call, and passes public ones with any credential', async () => {
    const keys = await explain({ operation: 'listApiKeys' });
    expect([findFailure(keys), keys.error?.details.reason]).toEqual(['credential', 'session_token_required']);
    const revoked = await keyId(await newKey(tenant, { revokedAt: new Date() }));
    const open = operations.find(
      (operation) => listAlternatives(operation).length === 0 && operation.id === 'getHealth',
    );
    const explained = await explain({ api_key_id: revoked, operation: open?.id });
    expect([explained.allowed, findReason(explained, 'credential')]).toEqual([
      true,
      'The operation is public: it needs no credential.',
    ]);
  });

  test('says that writes take effect immediately', async () => {
    expect(findReason(await explain({ action: 'edit', object: 'leads' }), 'write_mode')).toContain('direct');
    expect(findReason(await explain({ action: 'view', object: 'leads' }), 'write_mode')).not.toContain('direct');
  });
});

describe('foreign data', () => {
  test('answers 404 for keys and users of another workspace, as for unknown ones', async () => {
    const foreign = [
      { api_key_id: await keyId(other.key) },
      { api_key_id: randomUUID() },
      { user_id: other.admin.id },
      { user_id: randomUUID() },
    ];
    for (const subject of foreign)
      expect(await reject(404, { ...subject, operation: 'getMe' })).toEqual({
        code: 'NOT_FOUND',
        message: 'There is no such resource.',
      });
  });

  test('says the same of records that are foreign, unknown, deleted or out of the reach of the asker', async () => {
    const [foreign, deleted, far] = await Promise.all([
      createRecord(other.key, 'accounts', { name: 'Foreign' }),
      createRecord(tenant.key, 'accounts', { name: 'Deleted' }),
      createRecord(tenant.key, 'accounts', { name: 'Far' }),
    ]);
    await expectStatus(200, 'DELETE', recordsPath('accounts', deleted.id), { key: tenant.key });
    const narrow = await newKey(tenant, { reach: { kind: 'branch', id: await newBranch(tenant) } });
    const judged = await keyId(tenant.key);
    const answers: Explained[] = [];
    for (const record_id of [foreign.id, deleted.id, far.id, randomUUID()])
      answers.push(await explain({ api_key_id: judged, action: 'edit', object: 'accounts', record_id }, narrow));
    expect(answers[0]).toMatchObject({ allowed: false, error: { status: 404, code: 'NOT_FOUND' } });
    expect(findFailure(answers[0] as Explained)).toBe('reach');
    for (const each of answers) expect(each).toEqual(answers[0]);
    // A caller that may not view the object learns nothing of its records either.
    const blind = await newKey(tenant, { scopes: ['access_control:view'] });
    const asked = { api_key_id: judged, action: 'edit', object: 'accounts', record_id: far.id };
    expect(await explain(asked, blind)).toEqual(answers[0]);
    expect((await explain(asked)).allowed).toBe(true);
  });
});

describe('questions', () => {
  const readProblems = async (status: number, body: Json): Promise<Json[]> =>
    (await reject(status, body)).details.fields.map(({ field, code }: Json) => [field, code]);

  test.each([
    [{}, 400, [['operation', 'REQUIRED']]],
    [{ object: 'leads' }, 400, [['operation', 'REQUIRED']]],
    [{ action: 'view' }, 400, [['object', 'REQUIRED']]],
    [{ operation: 'listRecords' }, 400, [['object', 'REQUIRED']]],
    [{ operation: 'nonsense' }, 400, [['operation', 'INVALID_OPTION']]],
    [{ operation: 'createLead', action: 'view' }, 400, [['action', 'CONFLICTING_FIELDS']]],
    [{ operation: 'createLead', object: 'leads' }, 400, [['object', 'CONFLICTING_FIELDS']]],
    [{ operation: 'createLead', field: 'email' }, 400, [['field', 'CONFLICTING_FIELDS']]],
    [{ operation: 'createLead', record_id: randomUUID() }, 400, [['record_id', 'CONFLICTING_FIELDS']]],
    [{ action: 'create', object: 'leads', record_id: randomUUID() }, 400, [['record_id', 'CONFLICTING_FIELDS']]],
    [{ action: 'delete', object: 'leads', field: 'email' }, 400, [['field', 'CONFLICTING_FIELDS']]],
    [{ api_key_id: randomUUID(), user_id: randomUUID(), operation: 'getMe' }, 400, [['user_id', 'CONFLICTING_FIELDS']]],
    [{ action: 'view', object: 'nothing' }, 422, [['object', 'INVALID_OPTION']]],
    [{ operation: 'listTags', object: 'deals' }, 400, [['object', 'INVALID_OPTION']]],
    [{ action: 'use', object: 'leads' }, 400, [['action', 'INVALID_OPTION']]],
    [{ operation: 'getMe', ip: '10.0.0.0/8' }, 400, [['ip', 'INVALID_FORMAT']]],
    [{ operation: 'getMe', ip: 'here' }, 400, [['ip', 'INVALID_FORMAT']]],
    [{ operation: 'getMe', api_key_id: 'x' }, 400, [['api_key_id', 'INVALID_FORMAT']]],
    [{ operation: 'getMe', because: 'x' }, 422, [['because', 'UNKNOWN_FIELD']]],
  ])('rejects %j with %i and names the problem', async (body, status, problems) => {
    expect(await readProblems(status, body)).toEqual(problems);
  });

  test('suggests the operation that was meant', async () => {
    const error = await reject(400, { operation: 'createLeed' });
    expect(error.details.fields[0].did_you_mean).toBe('createLead');
  });

  test('takes ids in any case, and writes nothing', async () => {
    const { id } = await createRecord(tenant.key, 'accounts', { name: 'Case' });
    const body = {
      api_key_id: (await keyId(tenant.key)).toUpperCase(),
      action: 'delete',
      object: 'accounts',
      record_id: id.toUpperCase(),
    };
    expect((await explain(body)).allowed).toBe(true);
    await expectStatus(200, 'GET', recordsPath('accounts', id), { key: tenant.key });
  });
});
