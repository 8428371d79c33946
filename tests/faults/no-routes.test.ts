// A server without routes: calls to other machines fail immediately, and none crashes the process.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { approveDraft, findDraftsToApprove } from '../../services/messaging/draft-approvals.ts';
import { openPeople } from '../support/approvals.ts';
import { newOwner } from '../support/calendar-jobs.ts';
import { call, expectStatus, useServer } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { newDraft, newPhoneNumber } from '../support/messaging.ts';
import { namesWithoutRoutes as names, noRoutesRefusal, ServerWithoutRoutes } from '../support/no-routes.ts';
import { authorizeAddress, newProof } from '../support/oauth-apps.ts';
import { newAccount } from '../support/record-children.ts';
import { recordsPath } from '../support/records.ts';
import { newWideTenant } from '../support/requests.ts';
import { signIn } from '../support/sign-in.ts';
import { database, type Tenant, useDatabase } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

const refusal = noRoutesRefusal();
if (refusal) process.stdout.write(`Skipping the tests without routes: ${refusal}\n`);
const patience = { timeout: 60_000, interval: 50 };

describe.skipIf(refusal)(`a server without routes${refusal ? ` (skipped: ${refusal})` : ''}`, () => {
  let databaseUrl: string;
  let server: ServerWithoutRoutes;
  let tenant: Tenant;

  beforeAll(async () => {
    // A separate database, because another server would send what this one cannot.
    databaseUrl = await newDatabase();
    await useDatabase(databaseUrl);
    server = await ServerWithoutRoutes.start({
      DATABASE_URL: databaseUrl,
      SECRET_KEY: '5e'.repeat(32),
      TRUSTED_PROXIES: '127.0.0.1',
      SMTP_URL: 'smtp://six.test:2525',
      MESSAGING_URL: 'twilio://AC1:token@six.test',
      STORAGE: 's3://key:secret@six.test/bucket',
      REDIS_URL: 'redis://six.test:6379',
      STRIPE_SECRET_KEY: 'sk_test_none',
      STRIPE_WEBHOOK_SECRET: 'whsec_none',
      STRIPE_API_BASE: 'https://six.test',
    });
    useServer(server.url);
    tenant = await newWideTenant();
  });
  afterAll(async () => {
    useServer(undefined);
    await server?.stop();
    await useDatabase(undefined);
    if (databaseUrl) await dropDatabase(databaseUrl);
  });

  /** Expects that the server still runs and logged no unexpected error. */
  async function isAlive(): Promise<void> {
    expect((await call('GET', '/v1/health', {})).status).toBe(200);
    expect(server.output()).not.toContain('process_crashed');
    expect(server.output()).not.toContain('"msg":"unexpected error"');
  }

  test.each(names)('survives an app with metadata at %s', async (name) => {
    const app = { client_id: `https://${name}/app.json`, redirect_uris: [`https://${name}/callback`] };
    const address = authorizeAddress(app, newProof().challenge);
    const answer = await fetch(server.url + address, { redirect: 'manual' });
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('could not be connected')]);
    await isAlive();
  });

  test.each(names)('survives a webhook to %s, and counts the attempt', async (name) => {
    const body = { url: `https://${name}/hook`, events: ['record.created'] };
    const { data } = (await expectStatus(201, 'POST', '/v1/webhooks', { key: tenant.key, body })).body;
    const { id } = data.subscription;
    await newAccount(tenant.key);
    const path = `/v1/webhooks/${id}/deliveries`;
    await expect
      .poll(async () => (await expectStatus(200, 'GET', path, { key: tenant.key })).body.data.deliveries, patience)
      .toMatchObject([{ status: 'retrying', attempts: 1, last_error: 'connect' }]);
    await isAlive();
    await expectStatus(200, 'DELETE', `/v1/webhooks/${id}`, { key: tenant.key });
  });

  test.each(names)('survives a calendar at %s', async (name) => {
    const userId = await newOwner(tenant, { url: `https://${name}/calendar/`, username: 'omar', password: 'secret' });
    await vi.waitFor(async () => {
      const looked = database()`select from user_calendars where user_id = ${userId} and fault is not null`;
      expect(await looked).toHaveLength(1);
    }, patience);
    await isAlive();
  });

  test('survives emails and text messages, and retries them', async () => {
    await newPhoneNumber(tenant.key, { is_default: true });
    const drafts = [
      await newDraft(tenant.key),
      await newDraft(tenant.key, { channel: 'email', to: `${randomUUID()}@x.example`, subject: 'A', body: 'B' }),
    ];
    const people = openPeople(databaseUrl);
    await people.decide(tenant, async (deciding) => {
      for (const { draft } of await findDraftsToApprove(deciding, undefined, 50))
        await approveDraft(deciding, draft.id, draft.hash);
    });
    await people.close();
    const body = { email: `${randomUUID()}@x.example`, full_name: 'Sara Ali', role: 'Member' };
    await call('POST', '/v1/users', { key: tenant.key, body });
    await vi.waitFor(async () => {
      const ids = drafts.map(({ id }) => id);
      const tried = await database()`
        select status, attempts from message_drafts where id = any(${ids}) and leased_until is null and attempts > 0`;
      expect(tried).toHaveLength(2);
      expect(new Set(tried.map(({ status }) => status))).toEqual(new Set(['approved']));
    }, patience);
    await isAlive();
  });

  test('survives a file storage and a payment provider', async () => {
    const path = `${recordsPath('accounts', await newAccount(tenant.key))}/attachments`;
    const upload = await call('POST', path, { key: tenant.key, ...fileForm() });
    expect(upload.status).toBe(503);
    const token = (await signIn(tenant)).access_token;
    const body = { kind: 'subscribe', package_code: 'growth' };
    const checkout = await call('POST', '/v1/checkout-sessions', { token, body });
    expect(checkout.status).toBeGreaterThanOrEqual(400);
    await isAlive();
  });

  test('counts rate limits in the process while Redis is unreachable', async () => {
    expect((await call('GET', '/v1/health', {})).body.data.status).toBe('degraded');
    await isAlive();
  });
});
