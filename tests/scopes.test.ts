// What scopes open (D8): every operation of the document with every scope, the wildcards and the old names, and nothing else.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { grantsOf, isGrantable } from '../domain/scopes.ts';
import { call, expectStatus } from './support/client.ts';
import { type DeclaredOperation, operations } from './support/document.ts';
import { database, newKey, newTenant } from './support/tenants.ts';

/** The catalogue, written down a second time on purpose: a change of it must be made in two places. */
const catalogue: Record<string, string> = {
  leads: 'view create edit delete',
  deals: 'view create edit delete',
  customers: 'view create edit delete',
  accounts: 'view create edit delete',
  tasks: 'view create edit delete',
  activities: 'view create edit delete',
  'object:visits': 'view create edit delete',
  reports: 'view',
  users: 'view configure',
  access_control: 'view',
  settings: 'view configure',
  billing: 'view configure',
  webhooks: 'view configure',
  attachments: 'view create configure',
  bookings: 'view create edit configure',
  inbox: 'view create',
  campaigns: 'view create',
  workforces: 'view create',
};
const legacy: Record<string, string> = {
  'leads:read': 'leads:view',
  'leads:write': 'leads:create',
  'customers:read': 'customers:view',
  'customers:write': 'customers:create',
  'activities:read': 'activities:view',
  'activities:write': 'activities:create',
  'activities:update': 'activities:edit',
};
const scopes = Object.entries(catalogue).flatMap(([module, actions]) =>
  actions.split(' ').map((action) => `${module}:${action}`),
);
const wildcards = Object.keys(catalogue).map((module) => `${module}:*`);
const grantable = [...scopes, ...wildcards, ...Object.keys(legacy), '*'];

/** What product-spec says that a granted scope opens. */
function opens(granted: string, asked: string): boolean {
  const scope = legacy[granted] ?? granted;
  if (asked === 'onboarding') return scope === 'onboarding';
  return scope === '*' || scope === asked || scope === `${asked.slice(0, asked.lastIndexOf(':'))}:*`;
}

describe('a scope', () => {
  test('grants what the table says and nothing else', () => {
    const asked = [...scopes, 'onboarding', 'messaging:send', 'nonsense:view'];
    for (const granted of [...grantable, 'onboarding']) {
      const opened = asked.filter((scope) => grantsOf([granted]).allows(scope));
      expect([granted, opened]).toEqual([granted, asked.filter((scope) => opens(granted, scope))]);
    }
  });

  test('may be asked for by its old name too', () => {
    for (const [old, current] of Object.entries(legacy)) {
      expect(grantsOf([current]).allows(old)).toBe(true);
      expect(grantsOf([old]).allows(old)).toBe(true);
    }
    expect(grantsOf(['leads:write']).allows('leads:edit')).toBe(false);
  });

  test('of the catalogue can be held by a key; the platform scope, sending and unknown ones cannot', () => {
    expect(grantable.filter((scope) => !isGrantable(scope))).toEqual([]);
    const refused = [
      'onboarding',
      'messaging:send',
      'messaging:*',
      'object:*',
      'constructor',
      '__proto__',
      'toString:view',
    ];
    expect(refused.filter((scope) => isGrantable(scope))).toEqual([]);
  });

  test('named like a member of every object grants nothing', () => {
    for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty'])
      for (const scope of scopes) expect(grantsOf([name, `${name}:*`]).allows(scope)).toBe(false);
  });
});

const keyed = operations.filter(({ declared }) =>
  (declared.security ?? []).some((alternative) => 'apiKey' in alternative),
);
const objects = Object.keys(catalogue).filter((module) =>
  /^(leads|deals|customers|accounts|tasks|activities|object:.*)$/.test(module),
);

/** True where the scopes depend on the object of the path. */
const namesObject = ({ declared }: DeclaredOperation) => JSON.stringify(declared.security).includes('{object}');

/** Alternatives of scopes that open an operation on an object. */
function alternativesOf({ declared }: DeclaredOperation, object: string): string[][] {
  return (declared.security ?? []).flatMap((alternative) =>
    'apiKey' in alternative ? [(alternative.apiKey ?? []).map((scope) => scope.replace('{object}', object))] : [],
  );
}

describe('every operation that a key can open', () => {
  test.each(
    keyed.flatMap((operation) =>
      (namesObject(operation) ? objects : ['']).map((object) => [operation.id, object, operation] as const),
    ),
  )('%s %s opens with the scopes of the document and no others', async (_id, object, operation) => {
    const keys = await keysOfScopes();
    const path = operation.path.replace('{object}', object || 'leads').replace(/\{\w+\}/g, randomUUID());
    const alternatives = alternativesOf(operation, object);
    const wrong: string[] = [];
    for (const [granted, key] of keys) {
      const answer = await call(operation.method, path, { key });
      const expected = alternatives.some((each) => each.every((scope) => opens(granted, scope)));
      // An object that the key cannot view does not exist for it, whatever else it may do there.
      const hidden = object !== '' && !opens(granted, `${object}:view`);
      const refusedByScope = answer.status === 403 && answer.body.error.code === 'FORBIDDEN_SCOPE';
      const { reason } = answer.body?.error?.details ?? {};
      const isRefused = hidden ? answer.status === 404 : refusedByScope && reason === undefined;
      if (isRefused === (expected && !hidden))
        wrong.push(`${granted} answered ${answer.status} ${answer.text.slice(0, 200)}`);
    }
    expect(wrong).toEqual([]);
  });

  test('names the scopes that would have opened it', async () => {
    const tenant = await newTenant();
    const key = await newKey(tenant, { scopes: ['workforces:view'] });
    for (const operation of keyed.filter((each) => !namesObject(each))) {
      const alternatives = alternativesOf(operation, '');
      if (alternatives.some((each) => each.every((scope) => opens('workforces:view', scope)))) continue;
      const { body } = await expectStatus(
        403,
        operation.method,
        operation.path.replace('{object}', 'leads').replace(/\{\w+\}/g, randomUUID()),
        {
          key,
        },
      );
      expect(body.error.details.required_scopes.sort()).toEqual([...new Set(alternatives.flat())].sort());
    }
  });
});

let made: Promise<Map<string, string>> | undefined;
/** One key for each scope that a key can hold, of a workspace whose plan has every module and an object of its own. */
function keysOfScopes(): Promise<Map<string, string>> {
  made ??= (async () => {
    const tenant = await newTenant();
    await database()`update subscriptions set package_code = 'enterprise' where company_id = ${tenant.companyId}`;
    await database()`
      insert into custom_objects (company_id, slug, label, plural, created_at, updated_at)
      values (${tenant.companyId}, 'visits', 'Visit', 'Visits', now(), now())`;
    const keys = new Map<string, string>();
    for (const scope of grantable) keys.set(scope, await newKey(tenant, { scopes: [scope] }));
    return keys;
  })();
  return made;
}
