// A server killed at each point around a call to the payment provider: paid once, and told so.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { charged, subscribed } from '../support/billing.ts';
import { anyAddress } from '../support/client.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { OwnServer } from './support/own-server.ts';
import { fatal, paymentPoints, payments, Traps } from './support/points.ts';
import { FaultProxy, through } from './support/proxy.ts';
import { settingsFor } from './support/settings.ts';
import { untilAbandoned } from './support/until-abandoned.ts';

const traps = new Traps(payments);
let proxy: FaultProxy;
let server: OwnServer;
let url: string;

// A database of its own: another file's server would take up what was left, and may be killed with it.
beforeAll(async () => {
  url = await newDatabase();
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  server = await OwnServer.start(settingsFor(through(url, proxy), '.test-data'));
  await useDatabase(url);
});
afterAll(async () => {
  await server?.kill();
  await proxy?.close();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

async function upgrade(
  tenant: Tenant,
  key: string,
): Promise<{ status: number; body: { data?: unknown; error?: { code: string } } }> {
  const response = await fetch(`${server.url}/v1/subscription/upgrade`, {
    method: 'POST',
    headers: {
      'x-api-key': tenant.key,
      'content-type': 'application/json',
      'idempotency-key': key,
      'x-forwarded-for': anyAddress(),
      // One that was kept open may end by itself just as the call is sent, which would look as if it had been cut.
      connection: 'close',
    },
    body: JSON.stringify({ package_code: 'growth' }),
  });
  return { status: response.status, body: (await response.json()) as never };
}

/** Sends the same call again until nobody else is at it; who does not come to an end on a busy machine is taken for dead as well. */
async function upgradeAtLast(tenant: Tenant, key: string): ReturnType<typeof upgrade> {
  for (let again = 1; ; again += 1) {
    const told = await upgrade(tenant, key);
    // A busy machine may answer 503 for lack of time.
    if (told.status !== 503 && told.body.error?.code !== 'IDEMPOTENCY_IN_PROGRESS') return told;
    if (again % 20 === 0) await passMinute(tenant);
    await sleep(50);
  }
}

/** As if a minute had passed, after which whoever held something is taken for dead. */
async function passMinute({ companyId }: Tenant): Promise<void> {
  const sql = database();
  await sql`update billing_operations set leased_until = now() - interval '1 second' where company_id = ${companyId} and status = 'pending'`;
  await sql`
    update idempotency_records set leased_until = now() - interval '1 second'
    where company_id = ${companyId} and leased_until is not null`;
}

test.each(fatal(paymentPoints))('with $statement $moment', async ({ statement, moment }) => {
  const tenant = await newTenant();
  await subscribed(tenant);
  const key = randomUUID();
  const sprung = traps.set({ statement, moment, act: () => void process.kill(server.pid, 'SIGKILL') });
  const first = await upgrade(tenant, key).catch(() => undefined);
  // The caller heard nothing.
  expect(first).toBeUndefined();
  await sprung;
  traps.clear();
  await server.kill();
  await untilAbandoned();
  await server.restart();
  await passMinute(tenant);
  const again = await upgradeAtLast(tenant, key);
  expect(again).toMatchObject({ status: 200, body: { data: { action: 'upgrade', applies: 'immediately' } } });
  const { companyId } = tenant;
  const sql = database();
  const [row] = await sql`
    select (select package_code from subscriptions where company_id = ${companyId}) as package,
      (select count(*)::int from invoices where company_id = ${companyId}) as invoices,
      (select count(*)::int from billing_operations where company_id = ${companyId} and status = 'done') as done,
      (select count(*)::int from billing_operations where company_id = ${companyId} and status <> 'done') as others,
      (select count(*)::int from audit_logs where company_id = ${companyId} and action = 'subscription.upgrade') as audit`;
  expect(row).toEqual({ package: 'growth', invoices: 1, done: 1, others: 0, audit: 1 });
  expect(await charged(tenant)).toEqual([3500]);
});
