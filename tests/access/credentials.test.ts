// Credentials: rejections, immediate revocation, exact counting, no secrets in plain text.
import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type EmbeddedDatabase, startEmbedded } from '../../app/embedded-postgres/database.ts';
import { newApiKey, sha256 } from '../../runtime/credentials/secrets.ts';
import { call, expectStatus } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { startServer, type TestServer } from '../support/servers.ts';
import { adminToken, serverSigningKey, signIn } from '../support/sessions.ts';
import { testSettings } from '../support/setup.ts';
import { adminPassword, database, newKey, newTenant } from '../support/tenants.ts';

const hex = () => randomBytes(16).toString('hex');
/** Malformed values, which no lookup can find. */
const malformed = [
  '',
  'svc_live_',
  hex(),
  `svc_live_${hex().slice(1)}`,
  `svc_live_${hex()}0`,
  `svc_live_${hex().slice(1)}A`,
  `svc_live_${hex().slice(1)}g`,
  `SVC_LIVE_${hex()}`,
  `svc_prod_${hex()}`,
  `svc-live-${hex()}`,
  `legacy_${hex()}`,
  `xsvc_live_${hex()}`,
  `svc_live_${hex()},svc_live_${hex()}`,
  `svc_live_${hex()} ${hex()}`,
  `Bearer svc_live_${hex()}`,
  `svc_live_' or '1'='1`,
  '%00',
  'null',
  'x'.repeat(8000),
];

/** Returns a second process on the same database. */
function anotherServer(): Promise<TestServer> {
  return startServer({ ...testSettings, ...besideCommon() });
}

describe('an API key', () => {
  test.each([
    ['svc_live_', 'live', false],
    ['svc_test_', 'test', false],
    ['legacy_live_', 'live', true],
    ['legacy_test_', 'test', true],
  ] as const)(
    'authenticates a key with the prefix %s for its workspace and environment',
    async (prefix, environment, legacy) => {
      const tenant = await newTenant();
      const key = await newKey(tenant, { environment, legacy });
      expect(key.startsWith(prefix)).toBe(true);
      const { body } = await expectStatus(200, 'GET', '/v1/me', { key });
      expect(body.data).toMatchObject({ company: { id: tenant.companyId }, environment });
    },
  );

  test('rejects a missing, malformed or unknown key with 401 and WWW-Authenticate', async () => {
    const none = await expectStatus(401, 'GET', '/v1/me');
    expect(none.body.error.code).toBe('MISSING_API_KEY');
    expect(none.headers.get('www-authenticate')).toBe('Bearer');
    const tenant = await newTenant();
    const unknown = [
      newApiKey('live').key,
      tenant.key.replace('svc_live_', 'svc_test_'),
      tenant.key.replace('svc', 'legacy'),
    ];
    for (const key of [...malformed, ...unknown]) {
      const { body, headers, text } = await expectStatus(401, 'GET', '/v1/me', { key });
      expect(body.error.code).toBe('AUTH_INVALID_KEY');
      expect(headers.get('www-authenticate')).toBe('Bearer');
      if (key.length > 30) expect(text).not.toContain(key);
    }
  });

  test.each([
    ['revoked', { revokedAt: new Date() }, 'API_KEY_REVOKED'],
    ['expired', { expiresAt: new Date(Date.now() - 1) }, 'API_KEY_EXPIRED'],
    ['revoked and expired', { revokedAt: new Date(), expiresAt: new Date(Date.now() - 1) }, 'API_KEY_REVOKED'],
  ])(
    'rejects a key that is %s with 401 and WWW-Authenticate, and does not count the call',
    async (_what, options, code) => {
      const key = await newKey(await newTenant(), options);
      const { body, headers } = await expectStatus(401, 'GET', '/v1/me', { key });
      expect(body.error.code).toBe(code);
      expect(headers.get('www-authenticate')).toBe('Bearer');
      expect(await readUsage(key)).toMatchObject({ total: 0, last_used_at: null });
    },
  );

  test('rejects a key of an inactive company', async () => {
    const tenant = await newTenant();
    await database()`update companies set status = 'closed' where id = ${tenant.companyId}`;
    const { body } = await expectStatus(401, 'GET', '/v1/me', { key: tenant.key });
    expect(body.error.code).toBe('AUTH_INVALID_KEY');
  });

  test('accepts a key until it expires', async () => {
    const key = await newKey(await newTenant(), { expiresAt: new Date(Date.now() + 60_000) });
    await expectStatus(200, 'GET', '/v1/me', { key });
  });

  test('prefers an API key to a bearer token, whichever is valid', async () => {
    const tenant = await newTenant();
    const token = await adminToken(tenant);
    const good = await expectStatus(200, 'GET', '/v1/me', { key: tenant.key, token: 'x' });
    expect(good.body.data.actor.kind).toBe('api_key');
    const both = await expectStatus(200, 'GET', '/v1/me', { key: tenant.testKey, token });
    expect(both.body.data).toMatchObject({ actor: { kind: 'api_key' }, environment: 'test' });
    const bad = await expectStatus(401, 'GET', '/v1/me', { key: newApiKey('live').key, token });
    expect(bad.body.error.code).toBe('AUTH_INVALID_KEY');
    await expectStatus(401, 'GET', '/v1/me', { key: '', token });
  });

  test('rejects an API key that is sent as a bearer token', async () => {
    const { key } = await newTenant();
    await expectStatus(401, 'GET', '/v1/me', { token: key });
  });
});

describe('the IP allowlist of a key', () => {
  test.each([
    ['203.0.113.7', ['203.0.113.7'], ['203.0.113.6', '203.0.113.8', '203.0.113.70', '2001:db8::1']],
    ['203.0.113.0/24', ['203.0.113.0', '203.0.113.255'], ['203.0.112.255', '203.0.114.0']],
    ['203.0.113.77/25', ['203.0.113.0', '203.0.113.127'], ['203.0.113.128']],
    ['10.0.0.0/8', ['10.255.255.255'], ['11.0.0.0', '9.255.255.255']],
    ['203.0.113.7/32', ['203.0.113.7'], ['203.0.113.6']],
    ['0.0.0.0/0', ['203.0.113.7'], ['2001:db8::1']],
    ['2001:db8::7', ['2001:db8::7', '2001:DB8:0:0::7'], ['2001:db8::8', '203.0.113.7']],
    ['2001:db8::/32', ['2001:db8:ffff::1'], ['2001:db9::', '2001:db7:ffff::']],
    ['2001:db8::/127', ['2001:db8::1'], ['2001:db8::2']],
    ['::/0', ['2001:db8::1'], ['203.0.113.7', '::ffff:203.0.113.7']],
  ])('admits exactly the addresses of the allowlist entry %s', async (entry, inside, outside) => {
    const key = await newKey(await newTenant(), { ipAllowlist: [entry] });
    for (const ip of inside) await expectStatus(200, 'GET', '/v1/me', { key, ip });
    for (const ip of outside) {
      const { body } = await expectStatus(403, 'GET', '/v1/me', { key, ip });
      // The allowlist itself must not be revealed.
      expect(body.error).toMatchObject({ code: 'IP_NOT_ALLOWED', details: {} });
      expect(JSON.stringify(body.error)).not.toContain(entry);
    }
  });

  test('admits addresses of any allowlist entry, and all addresses if the list is empty', async () => {
    const tenant = await newTenant();
    const key = await newKey(tenant, { ipAllowlist: ['198.51.100.1', '2001:db8::/32', '203.0.113.0/24'] });
    for (const ip of ['198.51.100.1', '2001:db8::5', '203.0.113.9'])
      await expectStatus(200, 'GET', '/v1/me', { key, ip });
    await expectStatus(403, 'GET', '/v1/me', { key, ip: '198.51.100.2' });
    await expectStatus(200, 'GET', '/v1/me', { key: tenant.key, ip: '198.51.100.2' });
  });

  test('uses the rightmost untrusted hop as the address, regardless of hops that the client wrote', async () => {
    const key = await newKey(await newTenant(), { ipAllowlist: ['203.0.113.7'] });
    await expectStatus(200, 'GET', '/v1/me', { key, ip: '198.51.100.1, 203.0.113.7' });
    await expectStatus(200, 'GET', '/v1/me', { key, ip: '203.0.113.7, 127.0.0.1' });
    await expectStatus(200, 'GET', '/v1/me', { key, ip: '::ffff:203.0.113.7' });
    for (const ip of ['203.0.113.7, 198.51.100.1', '203.0.113.7, nonsense', '203.0.113.7:443', '', 'fe80::1%eth0'])
      await expectStatus(403, 'GET', '/v1/me', { key, ip });
  });
});

describe('the cached location of a key', () => {
  const forget = (key: string) => database()`delete from api_key_places where key_hash = ${sha256(key)} returning *`;

  test('caches the location of a key, and checks its validity on each call', async () => {
    const { key } = await newTenant();
    await expectStatus(200, 'GET', '/v1/me', { key });
    await forget(key);
    await expectStatus(200, 'GET', '/v1/me', { key });
    await database()`update api_keys set revoked_at = now() where key_hash = ${sha256(key)}`;
    expect((await expectStatus(401, 'GET', '/v1/me', { key })).body.error.code).toBe('API_KEY_REVOKED');
  });

  test('looks an unknown key up again, because it may be created later', async () => {
    const key = await newKey(await newTenant());
    const [place] = await forget(key);
    expect((await expectStatus(401, 'GET', '/v1/me', { key })).body.error.code).toBe('AUTH_INVALID_KEY');
    await database()`insert into api_key_places ${database()(place as object)}`;
    await expectStatus(200, 'GET', '/v1/me', { key });
  });
});

describe('usage counting', () => {
  test('counts the usage of a key exactly under 200 concurrent calls', async () => {
    const { key } = await newTenant();
    await Promise.all(Array.from({ length: 200 }, () => expectStatus(200, 'GET', '/v1/me', { key })));
    await counted(key, { total: 200 });
  });

  test('counts calls that are rejected, fail, or return a stored response', async () => {
    const { key } = await newTenant();
    const create = (status: number, body: object, idempotencyKey: string | true) =>
      expectStatus(status, 'POST', '/v1/objects/accounts/records', { key, body, idempotencyKey });
    const once = `once-${hex()}`;
    for (let turn = 0; turn < 3; turn += 1) await create(201, { name: 'Once' }, once);
    await create(422, { name: 'Other' }, once);
    for (let turn = 0; turn < 2; turn += 1) await create(422, { nonsense: 1 }, 'the-same-mistake');
    await expectStatus(404, 'GET', `/v1/objects/accounts/records/${randomUUID()}`, { key });
    await expectStatus(400, 'GET', '/v1/me', { key, query: { nonsense: '1' } });
    await counted(key, { total: 8 });
  });

  test('records time and address of a key at most once in five minutes', async () => {
    const { key } = await newTenant();
    await expectStatus(200, 'GET', '/v1/me', { key, ip: '203.0.113.1' });
    const first = await counted(key, { total: 1, last_used_ip: '203.0.113.1' });
    await expectStatus(200, 'GET', '/v1/me', { key, ip: '203.0.113.2' });
    await counted(key, { ...first, total: 2 });
    await usedAgo(key, 290);
    const before = await readUsage(key);
    await expectStatus(200, 'GET', '/v1/me', { key, ip: '203.0.113.3' });
    await counted(key, { ...before, total: 3 });
    await usedAgo(key, 300);
    await expectStatus(200, 'GET', '/v1/me', { key, ip: '203.0.113.4' });
    const last = await counted(key, { total: 4, last_used_ip: '203.0.113.4' });
    expect(last.last_used_at.getTime()).toBeGreaterThanOrEqual(first.last_used_at.getTime());
  });
});

describe('two servers on one database', () => {
  let other: TestServer;
  beforeAll(async () => {
    other = await anotherServer();
  });
  afterAll(() => other?.stop());

  test('accepts no call on two servers that starts after the revocation of its key (C8)', async () => {
    const tenant = await newTenant();
    const token = await adminToken(tenant);
    const servers = [inject('baseUrl'), other.url];
    let accepted = 0;
    for (let round = 0; round < 8; round += 1) {
      const key = await newKey(tenant, { scopes: ['leads:view'] });
      const [row] = await database()`select id from api_keys where key_hash = ${sha256(key)}`;
      let revokedAt = Number.POSITIVE_INFINITY;
      let acceptedBefore = 0;
      // Each client continues until ten of its calls started after the revocation.
      const callers = Array.from({ length: 16 }, async (_, index) => {
        for (let after = 0; after < 10; ) {
          const began = performance.now();
          const answer = await call('GET', '/v1/me', { key, baseUrl: servers[index % 2] ?? '' });
          if (began < revokedAt) {
            if (answer.status === 200) acceptedBefore += 1;
            continue;
          }
          after += 1;
          if (answer.status !== 401) accepted += 1;
          expect(answer.body.error.code).toBe('API_KEY_REVOKED');
        }
      });
      await expect.poll(() => acceptedBefore, { interval: 5 }).toBeGreaterThan(32);
      await expectStatus(200, 'POST', `/v1/api-keys/${row?.id}/revoke`, { token, baseUrl: servers[round % 2] ?? '' });
      revokedAt = performance.now();
      await Promise.all(callers);
    }
    expect(accepted).toBe(0);
  });

  test('accepts no call on two servers that starts after the sign-out of its session', async () => {
    const tenant = await newTenant();
    const { access_token: token } = await signIn(tenant.admin.email);
    const servers = [inject('baseUrl'), other.url];
    let endedAt = Number.POSITIVE_INFINITY;
    let acceptedBefore = 0;
    let accepted = 0;
    const callers = Array.from({ length: 8 }, async (_, index) => {
      for (let after = 0; after < 10; ) {
        const began = performance.now();
        const { status } = await call('GET', '/v1/me', { token, baseUrl: servers[index % 2] ?? '' });
        if (began < endedAt) acceptedBefore += status === 200 ? 1 : 0;
        else {
          after += 1;
          accepted += status === 401 ? 0 : 1;
        }
      }
    });
    await expect.poll(() => acceptedBefore, { interval: 5 }).toBeGreaterThan(16);
    await expectStatus(200, 'POST', '/auth/v1/logout', { token, baseUrl: other.url });
    endedAt = performance.now();
    await Promise.all(callers);
    expect(accepted).toBe(0);
  });

  test('counts many keys concurrently without blocking and without losing calls', async () => {
    const tenant = await newTenant();
    const keys = await Promise.all(Array.from({ length: 40 }, () => newKey(tenant)));
    const servers = [inject('baseUrl'), other.url];
    await Promise.all(
      Array.from({ length: 64 }, async (_, caller) => {
        for (let index = 0; index < 40; index += 1) {
          const key = keys[(caller * 7 + index * 11) % keys.length];
          await expectStatus(200, 'GET', '/v1/me', { key, baseUrl: servers[(caller + index) % 2] ?? '' });
        }
      }),
    );
    const total = async () => {
      const [row] = await database()`
        select sum(total_requests)::int as total from api_key_usage where company_id = ${tenant.companyId}`;
      return row?.total;
    };
    await expect.poll(total).toBe(64 * 40);
  });
});

describe('while the database is down', () => {
  let ownDatabase: EmbeddedDatabase;
  let server: TestServer;
  beforeAll(async () => {
    const folder = resolve(inject('coverageFolder'), '..', 'credentials');
    ownDatabase = await startEmbedded(folder, () => undefined);
    server = await startServer({ DATABASE_URL: ownDatabase.url, DATA_DIR: folder });
    await ownDatabase.stop();
  });
  afterAll(async () => {
    await server?.stop();
    await ownDatabase?.stop();
  });

  test('rejects malformed keys and tokens without the database while it is down (E4)', async () => {
    const baseUrl = server.url;
    for (const key of malformed) await expectStatus(401, 'GET', '/v1/me', { key, baseUrl });
    for (const token of ['x', 'a.b.c', hex()]) await expectStatus(401, 'GET', '/v1/me', { token, baseUrl });
    for (const prefix of ['svc_live_', 'svc_test_', 'legacy_live_', 'legacy_test_'])
      await expectStatus(503, 'GET', '/v1/me', { key: prefix + hex(), baseUrl });
    const body = { email: 'a@b.example', password: 'x' };
    const answer = await expectStatus(503, 'POST', '/auth/v1/token', {
      baseUrl,
      query: { grant_type: 'password' },
      body,
    });
    expect(answer.body.error).toBe('temporarily_unavailable');
  });
});

describe('secrets', () => {
  test('keeps secrets out of tables, responses of others, and logs (E10)', async () => {
    const tenant = await newTenant();
    const first = await signIn(tenant.admin.email);
    const renewed = await expectStatus(200, 'POST', '/auth/v1/token', {
      query: { grant_type: 'refresh_token' },
      body: { refresh_token: first.refresh_token },
    });
    const token = renewed.body.access_token;
    const body = { name: 'Forms', scopes: ['leads:view'] };
    const minted = await expectStatus(201, 'POST', '/v1/api-keys', { token, body });
    const rotated = await expectStatus(201, 'POST', `/v1/api-keys/${minted.body.data.api_key.id}/rotate`, { token });
    const secretPassword = `pass-${hex()}`;
    const email = `${hex()}@example.com`;
    const signup = {
      region: 'europe',
      industry: 'Retail',
      company: { name: 'Blue Lake', email: 'office@example.com' },
      admin_user: { email, full_name: 'Sara Haddad', password: secretPassword },
    };
    await expectStatus(201, 'POST', '/v1/onboarding', { body: signup });
    // Rejections are logged and returned too, so secrets are sent where they do not belong.
    const wrongPassword = `wrong-${hex()}`;
    const query = { grant_type: 'password' };
    await expectStatus(400, 'POST', '/auth/v1/token', { query, body: { email, password: wrongPassword } });
    await expectStatus(404, 'GET', `/v1/api-keys/${minted.body.data.key}`, { token });
    await expectStatus(401, 'GET', '/v1/me', { token: minted.body.data.key });
    await expectStatus(400, 'GET', '/v1/api-keys', { token, query: { key: minted.body.data.key } });
    const last = await expectStatus(200, 'GET', '/v1/me', { key: rotated.body.data.key });

    const { d: privateKey } = await serverSigningKey();
    const secrets = [
      minted.body.data.key,
      rotated.body.data.key,
      first.refresh_token,
      renewed.body.refresh_token,
      first.access_token,
      token,
      adminPassword,
      secretPassword,
      wrongPassword,
      String(privateKey),
    ];
    await expect.poll(() => readFileSync(inject('logFile'), 'utf8')).toContain(last.body.meta.request_id);
    const log = readFileSync(inject('logFile'), 'utf8');
    // Without the prefix that every key has.
    const parts = secrets.map((secret) => secret.replace(/^svc_live_/, ''));
    for (const part of parts) expect(log).not.toContain(part);
    expect(await tablesWith(...parts)).toEqual([]);
    // The search itself works.
    expect(await tablesWith(email)).toContain('users');
    expect(await tablesWith(sha256(minted.body.data.key).toString('hex'))).toEqual(['api_key_places', 'api_keys']);
  });

  test('generates the same secrets on two servers that start at the same time in one folder', async () => {
    const { readSecretKey } = await import('../../runtime/credentials/secret-key.ts');
    const folder = resolve(inject('coverageFolder'), '..', 'secret');
    const made = readSecretKey(undefined, folder);
    expect(made).toMatch(/^[0-9a-f]{64}$/);
    expect(readSecretKey(undefined, folder)).toBe(made);
  });

  test('detects altered or truncated sealed secrets', async () => {
    const { Secrets } = await import('../../runtime/credentials/secrets.ts');
    const secrets = new Secrets('5e'.repeat(32));
    for (const text of ['text', '']) {
      const sealed = Buffer.from(secrets.encrypt(text), 'base64');
      expect(secrets.decrypt(sealed.toString('base64'))).toBe(text);
      for (let index = 0; index < sealed.length; index += 1) {
        const altered = Buffer.from(sealed);
        altered[index] = (altered[index] ?? 0) ^ 1;
        expect(() => secrets.decrypt(altered.toString('base64'))).toThrow();
        expect(() => secrets.decrypt(sealed.subarray(0, index).toString('base64'))).toThrow();
      }
      expect(() => new Secrets('6e'.repeat(32)).decrypt(sealed.toString('base64'))).toThrow();
    }
  });
});

/** Waits until the usage of a key is stored. */
async function counted(key: string, expected: object) {
  await vi.waitFor(async () => expect(await readUsage(key)).toMatchObject(expected));
  return readUsage(key);
}

async function readUsage(key: string) {
  const [row] = await database()`
    select u.total_requests::int as total, u.last_used_at, u.last_used_ip
    from api_key_usage u join api_keys k on k.company_id = u.company_id and k.id = u.api_key_id
    where k.key_hash = ${sha256(key)}`;
  return row as { total: number; last_used_at: Date; last_used_ip: string | null };
}

async function usedAgo(key: string, seconds: number): Promise<void> {
  await database()`
    update api_key_usage u set last_used_at = now() - make_interval(secs => ${seconds})
    from api_keys k where k.id = u.api_key_id and k.key_hash = ${sha256(key)}`;
}

/** Returns the tables with a row that contains one of the texts, in a text column or as bytes. */
async function tablesWith(...texts: string[]): Promise<string[]> {
  const sql = database();
  const wanted = texts.flatMap((text) => [text, Buffer.from(text).toString('hex')]);
  const tables = await sql`
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' order by c.relname`;
  const found: string[] = [];
  for (const { name } of tables) {
    // Each row is converted to text once for all searched values.
    const [row] = await sql`
      select exists (
        select from (select t::text as whole from ${sql(name)} t offset 0) as rows, unnest(${wanted}::text[]) as text
        where strpos(rows.whole, text) > 0
      ) as found`;
    if (row?.found) found.push(name);
  }
  return found;
}
