// GET /v1/me: describes every kind of credential.
import { describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';
import { adminToken, tokenFor } from '../support/sessions.ts';
import { database, newKey, newTenant, newUser } from '../support/tenants.ts';

describe('GET /v1/me', () => {
  test('returns for a key its workspace, environment, scopes, write mode, reach, expiry, modules and limits', async () => {
    const tenant = await newTenant('Blue Lake');
    const expiresAt = new Date(Date.now() + 3_600_000);
    const reach = { kind: 'branch', id: tenant.branchId } as const;
    const scopes = ['leads:read', 'object:visits:*'];
    const key = await newKey(tenant, { scopes, writeMode: 'propose', expiresAt, reach });
    const { body } = await expectStatus(200, 'GET', '/v1/me', { key });
    expect(body.data).toEqual({
      actor: { kind: 'api_key', id: expect.any(String), name: 'Test key' },
      company: { id: tenant.companyId, name: 'Blue Lake' },
      environment: 'live',
      scopes,
      roles: [],
      write_mode: 'propose',
      reach,
      expires_at: expiresAt.toISOString(),
      modules: expect.arrayContaining(['leads', 'bookings', 'inbox']),
      limits: { rate_limit_per_minute: 6000, rate_limit_per_hour: 200_000 },
    });
  });

  test('requires no scope', async () => {
    const tenant = await newTenant();
    await expectStatus(200, 'GET', '/v1/me', { key: await newKey(tenant, { scopes: ['reports:view'] }) });
  });

  test('marks a test key as one, and mentions no test mode to a live key', async () => {
    const tenant = await newTenant();
    const asTest = await expectStatus(200, 'GET', '/v1/me', { key: tenant.testKey });
    expect(asTest.body).toMatchObject({ data: { environment: 'test' }, meta: { test_mode: true } });
    const asLive = await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    expect(asLive.body.data.environment).toBe('live');
    expect(asLive.body.meta).not.toHaveProperty('test_mode');
  });

  test('returns the roles of a signed-in person, and no scopes or limits', async () => {
    const tenant = await newTenant();
    const asAdmin = await expectStatus(200, 'GET', '/v1/me', { token: await adminToken(tenant) });
    expect(asAdmin.body.data).toMatchObject({
      actor: { kind: 'user', id: tenant.admin.id, name: 'Ada Admin' },
      company: { id: tenant.companyId },
      environment: 'live',
      scopes: [],
      roles: ['Company_Admin'],
      write_mode: 'direct',
      reach: { kind: 'company', id: null },
      limits: { rate_limit_per_minute: null, rate_limit_per_hour: null },
    });
    const left = new Date(asAdmin.body.data.expires_at).getTime() - Date.now();
    expect(left).toBeGreaterThan(3_000_000);
    expect(left).toBeLessThanOrEqual(3_600_000);
    const token = await tokenFor(tenant, await newUser(tenant, { role: 'Sales_Rep' }));
    expect((await expectStatus(200, 'GET', '/v1/me', { token })).body.data.roles).toEqual(['Sales_Rep']);
  });

  test('omits modules that the plan lacks or an administrator disabled', async () => {
    const tenant = await newTenant();
    await database()`update companies set disabled_modules = '{leads}' where id = ${tenant.companyId}`;
    const { body } = await expectStatus(200, 'GET', '/v1/me', { key: tenant.key });
    expect(body.data.modules).toContain('deals');
    expect(body.data.modules).not.toContain('leads');
    expect(body.data.modules).not.toContain('campaigns');
  });
});
