// Events for API keys that expire soon: once each, in the mode of the key.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Pool } from '../../db/client/pool.ts';
import { announceExpiringKeys } from '../../jobs/access/expiring-keys.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { buildJobContext } from '../support/job-runs.ts';
import { database, newKey, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';

const day = 86_400_000;
/** Of their own: a server would look as well, every minute. */
let url: string;
let pools: { platform: Pool; tenants: Pool };
let tenant: Tenant;

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  const shared = {
    url,
    prepare: true,
    spread: false,
    wait: 10_000,
    statementTimeout: 10_000,
    lanes: 2,
  };
  pools = {
    platform: new Pool({ ...shared, role: 'crm_platform' }),
    tenants: new Pool({ ...shared, role: 'crm_app' }),
  };
  tenant = await newTenant();
});
afterAll(async () => {
  await Promise.all([pools.platform.close(1), pools.tenants.close(1)]);
  await useDatabase(undefined);
  await dropDatabase(url);
});

const look = () => announceExpiringKeys(buildJobContext('expiring-keys', pools));

async function recorded(): Promise<{ test_mode: boolean; data: Record<string, string> }[]> {
  return database()`
    select test_mode, data from ${recordedEvents(database())}
    where company_id = ${tenant.companyId} and event = 'api_key.expiring' order by test_mode, id`;
}

test('emits one event for an expiring key in its mode across concurrent servers', async () => {
  const expiresAt = new Date(Date.now() + 6 * day);
  await newKey(tenant, { expiresAt });
  await newKey(tenant, { expiresAt, environment: 'test' });
  await newKey(tenant, { expiresAt: new Date(Date.now() + 8 * day) });
  await newKey(tenant, { expiresAt: new Date(Date.now() - day) });
  await newKey(tenant, { expiresAt, revokedAt: new Date() });
  await Promise.all([look(), look(), look()]);
  await look();
  const events = await recorded();
  expect(events.map(({ test_mode }) => test_mode)).toEqual([false, true]);
  expect(events[0]?.data).toMatchObject({ expires_at: expiresAt.toISOString(), name: expect.any(String) });
  // Only about the live key.
  expect(
    await database()`select user_id, kind, title, subject_id from notifications where company_id = ${tenant.companyId}`,
  ).toEqual([
    {
      user_id: tenant.admin.id,
      kind: 'key_expiring',
      title: `The API key ${events[0]?.data.name} expires on ${expiresAt.toISOString().slice(0, 10)}.`,
      subject_id: events[0]?.data.api_key_id,
    },
  ]);
});

test('emits another event when the expiry changes', async () => {
  const moved = new Date(Date.now() + 5 * day);
  await database()`
    update api_keys set expires_at = ${moved}
    where company_id = ${tenant.companyId} and environment = 'live' and revoked_at is null and expires_at > now() + interval '7 days'`;
  await look();
  expect((await recorded()).filter(({ test_mode }) => !test_mode).map(({ data }) => data.expires_at)).toContain(
    moved.toISOString(),
  );
});
