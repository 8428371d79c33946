// A server killed at each point around a payment: charged once, and retries return the success.
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

// A separate database, because a server of another test file would take over the work.
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
      // A kept-alive connection may close just as the call is sent, which would look like a kill.
      connection: 'close',
    },
    body: JSON.stringify({ package_code: 'growth' }),
  });
  return { status: response.status, body: (await response.json()) as never };
}

/**
 * Repeats the call until no other call is in progress. On a busy machine, it also ends the leases
 * now and then.
 */
async function upgradeUntilServed(tenant: Tenant, key: string): ReturnType<typeof upgrade> {
  for (let again = 1; ; again += 1) {
    const answer = await upgrade(tenant, key);
    // A busy machine may answer 503.
    if (answer.status !== 503 && answer.body.error?.code !== 'IDEMPOTENCY_IN_PROGRESS') return answer;
    if (again % 20 === 0) await passMinute(tenant);
    await sleep(50);
  }
}

/** Ends the leases of killed processes. */
async function passMinute({ companyId }: Tenant): Promise<void> {
  const sql = database();
  await sql`update billing_operations set leased_until = now() - interval '1 second' where company_id = ${companyId} and status = 'pending'`;
  await sql`
    update idempotency_records set leased_until = now() - interval '1 second'
    where company_id = ${companyId} and leased_until is not null`;
}

test.each(fatal(paymentPoints))(
  'charges once if the server is killed with $statement $moment',
  async ({ statement, moment }) => {
    const tenant = await newTenant();
    await subscribed(tenant);
    const key = randomUUID();
    const sprung = traps.set({ statement, moment, act: () => void process.kill(server.pid, 'SIGKILL') });
    const first = await upgrade(tenant, key).catch(() => undefined);
    // The caller got no response.
    expect(first).toBeUndefined();
    await sprung;
    traps.clear();
    await server.kill();
    await untilAbandoned();
    await server.restart();
    await passMinute(tenant);
    const again = await upgradeUntilServed(tenant, key);
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
  },
);
