// The operator's command that creates a platform key for onboarding on any database.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, inject, test } from 'vitest';
import { findRunning } from '../../app/embedded-postgres/database.ts';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { expectStatus } from '../support/client.ts';
import { compileCache, startServer } from '../support/servers.ts';
import { database } from '../support/tenants.ts';

const command = fileURLToPath(new URL('../../cli/platform-key.ts', import.meta.url));

/** Runs the command to its end. */
function run(env: Record<string, string>): Promise<{ code: number | null; out: string; err: string }> {
  const settings = { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: compileCache };
  const child = spawn(process.execPath, [command], { env: { ...settings, ...env } });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  return new Promise((done, reject) => {
    child.on('error', reject);
    child.on('close', (code) => done({ code, out, err }));
  });
}

async function expectKey(env: Record<string, string>): Promise<string> {
  const { code, out, err } = await run(env);
  expect([code, out]).toEqual([0, expect.stringMatching(/^svc_live_[0-9a-f]{32}\n$/)]);
  expect(err).not.toContain(out.trim());
  return out.trim();
}

const ask = (key: string, baseUrl?: string) =>
  expectStatus(200, 'POST', '/v1/check-email', {
    key,
    body: { email: `${randomUUID()}@example.com` },
    ...(baseUrl ? { baseUrl } : {}),
  });

describe('make platform-key', () => {
  test('creates a platform key for platform routes only', async () => {
    const key = await expectKey({ DATABASE_URL: inject('databaseUrl') });
    expect((await ask(key)).body.data.exists).toBe(false);
    for (const path of ['/v1/me', '/v1/api-keys']) {
      const refused = await expectStatus(403, 'GET', path, { key });
      expect(refused.body.error.code).toBe('FORBIDDEN_SCOPE');
    }
    const [row] = await database()`
      select a.action, a.actor_kind, a.actor_id, k.created_by_id, k.scopes,
        (select name from companies where id = k.company_id) as company
      from api_keys k join audit_logs a on a.company_id = k.company_id and a.record_id = k.id::text
      where k.key_hash = ${sha256(key)}`;
    expect(row).toEqual({
      action: 'api_key.create',
      actor_kind: 'system',
      actor_id: 'operator',
      created_by_id: 'operator',
      scopes: ['onboarding'],
      company: 'Platform',
    });
  });

  test('revokes a key by its printed id, from its next call on and only once', async () => {
    const env = { DATABASE_URL: inject('databaseUrl') };
    const { out, err } = await run(env);
    const id = /REVOKE=(\S+)/.exec(err)?.[1] ?? '';
    await ask(out.trim());
    expect((await run({ ...env, REVOKE: id })).code).toBe(0);
    const refused = await expectStatus(401, 'POST', '/v1/check-email', {
      key: out.trim(),
      body: { email: 'a@example.com' },
    });
    expect(refused.body.error.code).toBe('API_KEY_REVOKED');
    for (const unknown of [id, randomUUID(), 'nonsense']) {
      const again = await run({ ...env, REVOKE: unknown });
      expect([again.code, again.out]).toEqual([1, '']);
      expect(again.err).toMatch(/^Nothing was changed\. There is no active key with the id/);
    }
  });

  test('prints another key each time', async () => {
    const env = { DATABASE_URL: inject('databaseUrl') };
    expect(await expectKey(env)).not.toBe(await expectKey(env));
  });

  test('works on the embedded database before the first start, and next to a running server', async () => {
    const folder = resolve(inject('coverageFolder'), '..', 'platform-key');
    const early = await expectKey({ DATA_DIR: folder });
    expect(findRunning(folder)).toBeUndefined();
    const server = await startServer({ DATA_DIR: folder });
    try {
      const running = findRunning(folder);
      await ask(early, server.url);
      const late = await expectKey({ DATA_DIR: folder });
      await ask(late, server.url);
      await ask(early, server.url);
      expect(findRunning(folder)).toBe(running);
      // No data was lost. On a busy machine, a job may have to wait for a connection.
      const warnings = server
        .output()
        .split('\n')
        .filter((line) => line.includes('"level":"warn"'));
      expect(warnings.filter((line) => !line.includes('no connection became free'))).toEqual([]);
    } finally {
      await server.stop();
    }
    expect(findRunning(folder)).toBeUndefined();
  });

  test('explains a missing database and prints no key', async () => {
    const { code, out, err } = await run({ DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(/^Nothing was changed\. /);
  });
});
