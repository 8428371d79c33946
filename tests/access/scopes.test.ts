// What scopes grant, including wildcards, legacy names and platform keys.
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { isGrantable, parseGrants } from '../../domain/access/scopes.ts';
import { call, expectStatus } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { listAlternatives } from '../support/requests.ts';
import { newPlatformKey } from '../support/tenants.ts';

/** The catalog, deliberately duplicated: a change must be made in both places. */
const catalogue: Record<string, string> = {
  leads: 'view create edit delete',
  deals: 'view create edit delete',
  customers: 'view create edit delete',
  accounts: 'view create edit delete',
  tasks: 'view create edit delete',
  activities: 'view create edit delete',
  'object:visits': 'view create edit delete',
  reports: 'view create edit',
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

/** Computes what a granted scope opens according to the product specification. */
function opens(granted: string, asked: string): boolean {
  const scope = legacy[granted] ?? granted;
  if (asked === 'onboarding') return scope === 'onboarding';
  return scope === '*' || scope === asked || scope === `${asked.slice(0, asked.lastIndexOf(':'))}:*`;
}

describe('a scope', () => {
  test('grants exactly what the table lists for each scope', () => {
    const asked = [...scopes, 'onboarding', 'messaging:send', 'nonsense:view'];
    for (const granted of [...grantable, 'onboarding']) {
      const opened = asked.filter((scope) => parseGrants([granted]).allows(scope));
      expect([granted, opened]).toEqual([granted, asked.filter((scope) => opens(granted, scope))]);
    }
  });

  test('grants the same with other scopes as alone', () => {
    const asked = [...scopes, 'onboarding'];
    for (const one of grantable)
      for (const other of grantable) {
        const opened = asked.filter((scope) => parseGrants([one, other]).allows(scope));
        expect(opened).toEqual(asked.filter((scope) => opens(one, scope) || opens(other, scope)));
      }
  });

  test('accepts a check by legacy name', () => {
    for (const [old, current] of Object.entries(legacy)) {
      expect(parseGrants([current]).allows(old)).toBe(true);
      expect(parseGrants([old]).allows(old)).toBe(true);
    }
    expect(parseGrants(['leads:write']).allows('leads:edit')).toBe(false);
  });

  test('accepts every scope of the catalog for keys, but not the platform scope, sending and unknown ones', () => {
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

  test('grants nothing for names of built-in object members', () => {
    for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty'])
      for (const scope of scopes) expect(parseGrants([name, `${name}:*`]).allows(scope)).toBe(false);
  });
});

describe('a platform key', () => {
  test.each(operations.map((operation) => [operation.id, operation] as const))(
    'checks the platform key in %s',
    async (_id, operation) => {
      const path = operation.path.replace('{object}', 'leads').replace(/\{\w+\}/g, randomUUID());
      const answer = await call(operation.method, path, { key: await platformKey() });
      const isPublic = listAlternatives(operation).length === 0;
      const isItsOwn = ['createOnboardingAsPlatform', 'checkEmail'].includes(operation.id);
      const refused = [answer.status, answer.body?.error?.code ?? answer.body?.error];
      if (isPublic || isItsOwn) expect(answer.status).not.toBe(403);
      else expect(refused).toEqual([403, expect.stringMatching(/^(FORBIDDEN_SCOPE|insufficient_scope)$/)]);
    },
  );

  test('tells the sender of a platform key which key to use instead', async () => {
    const { body } = await expectStatus(403, 'GET', '/v1/me', { key: await platformKey() });
    expect(body.error.details).toEqual({ required_scopes: [], reason: 'workspace_key_required' });
  });
});

let platform: Promise<string> | undefined;
function platformKey(): Promise<string> {
  platform ??= newPlatformKey();
  return platform;
}
