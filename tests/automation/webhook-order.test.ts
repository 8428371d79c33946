// Ordered subscriptions under a fake clock: the events of a record arrive one after the other.
import { v7 as uuidv7 } from 'uuid';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { deleteSomeDeliveries, reopenDeliveries } from '../../db/automation/webhook-deliveries.ts';
import { lockHealth, noteOutcomes, sweepDeliveries, takeDeliveries } from '../../db/automation/webhook-sending.ts';
import { computeRetriesAfterLoss } from '../../domain/automation/webhook-attempts.ts';
import { answering, type Behaviour, Receiver } from '../support/receivers.ts';
import { database, newTenant, rowDatabase, type Tenant } from '../support/tenants.ts';
import { readDeliveries, readWebhook, SenderWorld } from '../support/webhook-senders.ts';
import { newDelivery, newWebhook } from '../support/webhooks.ts';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

let world: SenderWorld;
let receiver: Receiver;
let tenant: Tenant;
let id: string;

beforeAll(async () => {
  world = await SenderWorld.open();
});
afterEach(async () => {
  await world.sender.settled();
  await receiver.stop();
  await database()`delete from webhook_subscriptions`;
  await database()`delete from webhook_deliveries`;
  world.now = new Date();
});
afterAll(() => world.close());

async function subscribe(behave?: Behaviour, more: object = {}): Promise<void> {
  [tenant, receiver] = [await newTenant(), await Receiver.start(behave)];
  ({ id } = await newWebhook(tenant, 'live', { url: receiver.url, is_ordered: true, ...more }));
}

/** Adds events of a record. @returns their ids */
async function addEvents(recordId: string | undefined, count = 1): Promise<string[]> {
  const data = { object: 'leads', ...(recordId ? { record_id: recordId } : {}), occurred_at: 'x' };
  const events = await world.addEvents(tenant, 'live', count, { data });
  return events.map((event) => `evt_${event.id}`);
}

const sentIds = (): string[] => receiver.bodies.map((body) => body.id);
const statuses = async (): Promise<string[]> => (await readDeliveries(id)).map(({ status }) => status);
/** Deletes the oldest delivery, as a step of a reset does. */
const deleteSome = (): Promise<number> =>
  rowDatabase().begin((sql) => deleteSomeDeliveries(sql, scope(), 1, world.now)) as Promise<number>;

/** Waits until a statement waits for a lock. */
const untilBlocked = () =>
  expect
    .poll(async () => {
      const blocked = await database()`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return blocked.length;
    })
    .toBeGreaterThan(0);

const scope = () => ({ companyId: tenant.companyId, testMode: false });

describe('an ordered subscription', () => {
  test('sends the next event of a record only after the one before was accepted, others meanwhile', async () => {
    await subscribe(answering(500));
    const [a, b] = [uuidv7(), uuidv7()];
    const [first = '', second_ = '', third = ''] = await addEvents(a, 3);
    await world.send();
    expect(sentIds()).toEqual([first]);
    receiver.behave = (_, response) => void response.end();
    const others = await addEvents(b, 2);
    const free = await addEvents(undefined, 2);
    await world.send();
    expect(new Set(sentIds())).toEqual(new Set([first, ...others, ...free]));
    expect(sentIds().indexOf(others[0] ?? '')).toBeLessThan(sentIds().indexOf(others[1] ?? ''));
    await world.sendUntil(new Date(world.now.getTime() + minute));
    expect(sentIds().filter((each) => [first, second_, third].includes(each))).toEqual([first, first, second_, third]);
    expect(new Set(await statuses())).toEqual(new Set(['succeeded']));
  });

  test('sends the next event of a record after the one before has failed all its attempts', async () => {
    await subscribe();
    const [first = '', next = ''] = await addEvents(uuidv7(), 2);
    receiver.behave = ({ body }, response) => void response.writeHead(body.includes(first) ? 500 : 200).end();
    await world.sendUntil(new Date(world.now.getTime() + 4 * day));
    expect(await statuses()).toEqual(['failed', 'succeeded']);
    expect(sentIds()).toEqual([...Array(10).fill(first), next]);
  });

  test('sends the next event of a record after the receiver has aborted the one before', async () => {
    await subscribe();
    const [first = ''] = await addEvents(uuidv7(), 2);
    receiver.behave = ({ body }, response) =>
      void response.writeHead(body.includes(first) ? 500 : 200, { 'webhook-delivery': 'abort-message' }).end();
    await world.send();
    expect(await statuses()).toEqual(['cancelled', 'cancelled']);
  });

  test('sends the next event of a record after senders died in all attempts of the one before', async () => {
    await subscribe();
    const [, next = ''] = await addEvents(uuidv7(), 2);
    for (let attempts = 0; attempts < 11; attempts += 1) {
      const leasedUntil = new Date(world.now.getTime() + 30 * second);
      const claim = { leasedUntil, retryAt: computeRetriesAfterLoss(false, world.now) };
      await takeDeliveries(rowDatabase(), { ...scope(), id }, 10, claim, world.now, world.now);
      expect((await readDeliveries(id))[1].attempts).toBe(0);
      world.later(day + hour);
    }
    await world.send();
    expect(sentIds()).toEqual([next]);
    expect(await statuses()).toEqual(['failed', 'succeeded']);
  });

  test('inverts no events of a record under failures, crashes and two senders', async () => {
    await subscribe();
    // A fixed sequence, so that a failure can be repeated.
    let seed = 7;
    const draw = (): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed / 2_147_483_648;
    };
    receiver.behave = (_, response) => void response.writeHead(draw() < 0.3 ? 500 : 200).end();
    const records = Array.from({ length: 8 }, () => uuidv7());
    const orders = new Map<string, number>();
    let crashes = 0;
    for (let rounds = 0; rounds < 25; rounds += 1) {
      for (const record of records)
        if (draw() < 0.6) for (const each of await addEvents(record, 2)) orders.set(each, orders.size);
      if (draw() < 0.3) {
        // A sender dies after it took deliveries.
        const leasedUntil = new Date(world.now.getTime() + 30 * second);
        const claim = { leasedUntil, retryAt: computeRetriesAfterLoss(false, world.now) };
        crashes += (await takeDeliveries(rowDatabase(), { ...scope(), id }, 3, claim, world.now, world.now)).length;
      }
      const other = world.newSender({ chance: draw });
      await Promise.all([world.sender.run(world.context), other.run(world.context)]);
      await Promise.all([world.sender.settled(), other.settled()]);
      world.later(draw() * 20 * second);
    }
    await world.sendUntil(new Date(world.now.getTime() + 4 * day));
    expect(crashes).toBeGreaterThan(0);
    expect(new Set(await statuses())).toEqual(new Set(['succeeded']));
    expect(new Set(sentIds())).toEqual(new Set(orders.keys()));
    for (const record of records) {
      const sent = receiver.bodies
        .filter(({ data }) => data.record_id === record)
        .map((body) => orders.get(body.id) ?? -1);
      expect(sent).toEqual(sent.toSorted((a, b) => a - b));
    }
  }, 60_000);

  test('sends events of other records while ten thousand of one record wait', async () => {
    await subscribe(answering(500));
    await addEvents(uuidv7(), 10_000);
    await world.send();
    receiver.behave = (_, response) => void response.end();
    const [other = ''] = await addEvents(uuidv7());
    await world.send();
    expect(sentIds()).toContain(other);
    // No sender looks before the next attempt of the first event.
    expect((await readWebhook(id)).is_held).toBe(false);
    expect((await readWebhook(id)).due_at.getTime()).toBeGreaterThan(world.now.getTime());
  });
});

describe('deliveries that are sent again', () => {
  test('sends recovered deliveries in order before later ones that wait, after the active one', async () => {
    await subscribe();
    const record = uuidv7();
    const lost = await addEvents(record, 3);
    await database()`
      update webhook_deliveries set status = 'failed', next_attempt_at = null, attempts = 10 where subscription_id = ${id}`;
    receiver.behave = answering(500);
    const [active = '', waiting = ''] = await addEvents(record, 2);
    await world.send();
    expect(sentIds()).toEqual([active]);
    const since = new Date(world.now.getTime() - hour);
    expect(await reopenDeliveries(rowDatabase(), scope(), { id, isOrdered: true }, since, 10, world.now)).toBe(3);
    receiver.behave = answering(200);
    await world.sendUntil(new Date(world.now.getTime() + minute));
    expect(sentIds()).toEqual([active, active, ...lost, waiting]);
  });

  test('puts deliveries of unordered times into queues when they are recovered', async () => {
    await subscribe(undefined, { is_ordered: false });
    const lost = await addEvents(uuidv7(), 3);
    await database()`
      update webhook_deliveries set status = 'failed', next_attempt_at = null, attempts = 10 where subscription_id = ${id}`;
    await database()`update webhook_subscriptions set is_ordered = true where id = ${id}`;
    const since = new Date(world.now.getTime() - hour);
    await reopenDeliveries(rowDatabase(), scope(), { id, isOrdered: true }, since, 10, world.now);
    await database()`update webhook_subscriptions set due_at = ${world.now} where id = ${id}`;
    await world.send();
    expect(sentIds()).toEqual(lost);
    expect(receiver.mostAtOnce).toBe(1);
  });
});

describe('a queue', () => {
  test('keeps the queue of a record for longer than 30 days, and sends it in order afterwards', async () => {
    await subscribe(answering(500));
    const events = await addEvents(uuidv7(), 3);
    await world.send();
    await database()`
      update webhook_subscriptions set disabled_at = ${world.now}, disabled_reason = 'manual' where id = ${id}`;
    world.later(31 * day);
    expect(await world.platform.use((sql) => sweepDeliveries(sql, 1000, world.now))).toBe(0);
    receiver.behave = answering(200);
    await database()`
      update webhook_subscriptions set disabled_at = null, disabled_reason = null, due_at = ${world.now} where id = ${id}`;
    await world.send();
    expect(sentIds()).toEqual([events[0], ...events]);
    expect(await world.platform.use((sql) => sweepDeliveries(sql, 1000, world.now))).toBe(3);
  });

  test('removes the queue of a disabled endpoint that is deleted', async () => {
    await subscribe(answering(500), { disabled_at: world.now, disabled_reason: 'manual' });
    const waiting = { status: 'pending', is_ordered: true, record_id: uuidv7(), completed_at: null, attempts: 0 };
    for (const position of [1, 2]) await newDelivery(tenant, 'live', id, { ...waiting, position });
    world.later(31 * day);
    const sweep = (): Promise<number> => world.platform.use((sql) => sweepDeliveries(sql, 1000, world.now));
    expect(await sweep()).toBe(0);
    // As a deletion does that leaves the cancelling to a sender.
    await database()`update webhook_subscriptions set deleted_at = ${world.now}, due_at = ${world.now} where id = ${id}`;
    await world.send();
    expect(new Set(await statuses())).toEqual(new Set(['cancelled']));
    expect(await sweep()).toBe(2);
  });

  test('sends an event that joined a queue whose other deliveries are deleted', async () => {
    await subscribe(answering(500));
    const record = uuidv7();
    const [first] = await addEvents(record);
    await world.send();
    const [next] = await addEvents(record);
    receiver.behave = answering(200);
    expect(await deleteSome()).toBe(1);
    await world.send();
    expect(sentIds()).toEqual([first, next]);
    expect(await statuses()).toEqual(['succeeded']);
  });

  test('never deadlocks with a reset that deletes the delivery whose outcome a sender stores', async () => {
    await subscribe(answering(500));
    await addEvents(uuidv7(), 2);
    await world.send();
    const [active] = await readDeliveries(id);
    const outcome = {
      deliveryId: active.id,
      attempts: active.attempts,
      status: 'retrying' as const,
      nextAttemptAt: world.now,
      responseCode: 500,
      snippet: null,
      error: 'http_error',
      durationMs: 1,
    };
    let deleting: Promise<number> | undefined;
    await rowDatabase().begin(async (sql) => {
      await lockHealth(sql, { ...scope(), id });
      deleting = deleteSome();
      await untilBlocked();
      await noteOutcomes(sql, scope(), [outcome], world.now);
    });
    expect(await deleting).toBe(1);
    expect(await readDeliveries(id)).toMatchObject([{ status: 'pending', next_attempt_at: world.now }]);
  });

  test('never has two active deliveries, because the database rejects a second one', async () => {
    await subscribe();
    await addEvents(uuidv7(), 2);
    await expect(
      database()`update webhook_deliveries set next_attempt_at = now() where subscription_id = ${id}`,
    ).rejects.toThrow('webhook_deliveries_active');
  });
});
