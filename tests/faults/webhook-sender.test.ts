// A webhook sender killed at every point of an attempt: all committed events arrive, and no others.

import { v7 as uuidv7 } from 'uuid';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { findSubscribed } from '../../db/automation/webhooks.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { Pool } from '../../db/client/pool.ts';
import type { HappenedEvent } from '../../domain/automation/webhook-bodies.ts';
import { deliver } from '../../jobs/automation/webhook-matching.ts';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { Receiver } from '../support/receivers.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { newWebhook } from '../support/webhooks.ts';
import { OwnServer } from './support/own-server.ts';
import { FaultProxy, type Passed } from './support/proxy.ts';
import { settingsFor } from './support/settings.ts';

/** Committed events per kill. As many others are rolled back. */
const perKill = Number(process.env.WEBHOOK_EVENTS_PER_KILL ?? 40);
const tenantCount = 4;
/** Tenants whose endpoint is ordered, and the records that their events are about. */
const orderedTenants = 2;
const records = Array.from({ length: orderedTenants * 5 }, () => uuidv7());

/** Statements of a sender, each the last of one phase. */
const statements = {
  'takes deliveries': /with due as materialized/,
  'ends its look': /is_held = coalesce/,
  'notes the outcome': /set status = /,
  'notes the attempt': /set last_delivery_at = /,
} as const;
const commit = /require_time_left/;

/**
 * Points of a kill: with a statement or its commit, which PostgreSQL receives or does not, or
 * during the request.
 */
const points = [
  ...Object.entries(statements).flatMap(([name, pattern]) =>
    [false, true].flatMap((isCommit) => [false, true].map((arrives) => ({ name, pattern, isCommit, arrives }))),
  ),
  { name: 'has its request answered', pattern: undefined, isCommit: false, arrives: true },
].filter(({ name, isCommit }) => !isCommit || name === 'ends its look' || name === 'notes the attempt');

let url: string;
let proxy: FaultProxy;
let server: OwnServer;
let receiver: Receiver;
let pool: Pool;
let tenants: Tenant[];
/** The statement to wait for. */
let trap: { pattern: RegExp; isCommit: boolean; arrives: boolean; spring: () => void } | undefined;

beforeAll(async () => {
  url = await newDatabase();
  await useDatabase(url);
  proxy = await FaultProxy.start(Number(new URL(url).port), () => {
    let isNext = false;
    return {
      toServer: (bytes): Passed => {
        const text = bytes.toString('latin1');
        const isHere = trap?.pattern.test(text) ?? false;
        if (!trap || !(trap.isCommit ? isNext && commit.test(text) : isHere)) {
          isNext ||= isHere;
          return { bytes };
        }
        const { arrives, spring } = trap;
        trap = undefined;
        // The proxy calls `afterwards` and awaits nothing.
        return { bytes: arrives ? bytes : Buffer.alloc(0), afterwards: spring };
      },
      toClient: (bytes) => ({ bytes }),
    };
  });
  const proxied = new URL(url);
  proxied.port = String(proxy.port);
  const folder = process.env.TEST_DATA_DIR ?? '.test-data';
  // Sends the text of each statement, so that the proxy sees it.
  server = await OwnServer.prepare({ ...settingsFor(proxied.href, folder), DATABASE_PREPARE: '0' });
  receiver = await Receiver.start();
  pool = new Pool({ url, role: 'crm_app', lanes: 2, prepare: true, spread: false, wait: 5000, statementTimeout: 5000 });
  tenants = await Promise.all(Array.from({ length: tenantCount }, () => newTenant()));
  for (const [index, tenant] of tenants.entries())
    await newWebhook(tenant, 'test', { url: receiver.url, is_ordered: index < orderedTenants });
});

afterAll(async () => {
  await server.kill();
  await pool.close(1);
  await proxy.close();
  await receiver.stop();
  await useDatabase(undefined);
  await dropDatabase(url);
});

let position = 0;

/** Returns one of the few records of an ordered tenant, or a new one. */
function findRecord(tenant: Tenant): string {
  const index = tenants.indexOf(tenant);
  return (index < orderedTenants && records[index * 5 + (position % 5)]) || uuidv7();
}

/** Creates deliveries of events in a transaction that commits or rolls back. */
async function createDeliveries(tenant: Tenant, count: number, commits: boolean): Promise<string[]> {
  const scope = { companyId: tenant.companyId, testMode: true };
  const events = Array.from(
    { length: count },
    (): HappenedEvent => ({
      id: uuidv7(),
      event: 'record.created',
      position: ++position,
      occurredAt: new Date(),
      requestId: null,
      changes: null,
      actor: { kind: 'api_key', id: 'k', name: null },
      data: { object: 'leads', record_id: findRecord(tenant), occurred_at: new Date().toISOString() },
    }),
  );
  await inTransaction(pool, scope, 5000, async (sql) => {
    await deliver(sql, scope, await findSubscribed(sql, scope), events, new Date());
    if (!commits) throw new Error('rolled back');
  }).catch((error: Error) => {
    if (error.message !== 'rolled back') throw error;
  });
  return events.map(({ id }) => `evt_${id}`);
}

/** Ends the leases of killed senders. Lost attempts do not count, so that no delivery runs out of them. */
async function endLeases(): Promise<void> {
  await database()`update webhook_deliveries set leased_until = null, attempts = 0, next_attempt_at = now() where leased_until is not null`;
  await database()`update webhook_subscriptions set due_at = now()`;
}

test(`delivers all committed events and no others under kill -9 at each of ${points.length} points`, async () => {
  const committed: string[] = [];
  const rolledBack: string[] = [];
  for (const { pattern, isCommit, arrives } of points) {
    for (const tenant of tenants) {
      committed.push(...(await createDeliveries(tenant, perKill / tenantCount, true)));
      rolledBack.push(...(await createDeliveries(tenant, perKill / tenantCount, false)));
    }
    await server.restart();
    await new Promise<void>((resolve) => {
      const spring = (): void => {
        receiver.behave = (_, response) => void response.end();
        void server.kill().then(resolve);
      };
      if (pattern) trap = { pattern, isCommit, arrives, spring };
      else receiver.behave = spring;
      void database()`update webhook_subscriptions set due_at = now()`;
    });
    await endLeases();
  }
  await server.restart();
  const arrived = (): Set<string> => new Set(receiver.bodies.map(({ id }) => id));
  await vi.waitFor(
    async () => {
      // Computed once per poll, because this process is the network and the receiver as well.
      const there = arrived();
      expect(committed.filter((id) => !there.has(id))).toEqual([]);
    },
    { timeout: 90_000, interval: 500 },
  );
  expect(committed.length).toBe(points.length * perKill);
  const sent = arrived();
  expect(rolledBack.filter((id) => sent.has(id))).toEqual([]);
  await vi.waitFor(async () => {
    const [row] = await database()`select count(*)::int as count from webhook_deliveries where status <> 'succeeded'`;
    expect(row?.count).toBe(0);
  }, 40_000);
  for (const record of records) {
    const order = receiver.bodies
      .filter(({ data }) => data.record_id === record)
      .map(({ id }) => committed.indexOf(id));
    expect(order.length).toBeGreaterThan(points.length);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
  // Only deliveries in flight during a kill arrive twice.
  const doubled = receiver.requests.length - sent.size;
  expect(doubled).toBeLessThanOrEqual(points.length * tenantCount * 10);
  expect(server.failures).toEqual([]);
  process.stdout.write(
    `faults: ${points.length} kills, ${committed.length} events, ${doubled} deliveries more than once\n`,
  );
}, 240_000);
