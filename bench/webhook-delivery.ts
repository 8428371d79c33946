// H4, H5: delivery to healthy webhook receivers next to dead, slow and hanging ones.
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { findFreePort } from '../app/embedded-postgres/free-port.ts';
import { load, request, sendOne } from './load.ts';
import { Answered, moment } from './moments.ts';
import { batchRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, nothingMeasured, quantile, type Settings, startUsage } from './rounds.ts';

import { subscribe, takeArrivals, type WebhookStand, withWebhooks } from './webhooks.ts';
import { addTestKeys } from './workspace.ts';

/** Workspaces. Each has one healthy receiver, and this many of each other kind. */
const workspaces = 25;
const ofEachKind = 2;
/** Events per second of all workspaces together, and per write. */
const pace = 200;
const together = 4;
/** Seconds in which dead and slow receivers accumulate their backlog. */
const settling = 20;
/** Deliveries that wait for the hanging receiver. */
const pending = 10_000;
/** Deliveries that wait for each healthy receiver when the sending rate is measured. */
const backlog = 500;

export const webhookDelivery = (settings: Settings): Promise<Result> =>
  withWebhooks(async (stand) => {
    const keys = await addTestKeys(stand.workspace, workspaces);
    const healthy: string[] = [];
    for (const [index, key] of keys.entries()) healthy.push(await subscribe(stand, key, `healthy/${index}`));
    const [first = ''] = keys;
    // Delivers everything before the measurement.
    await deliver(stand, keys, 2);

    const attempts = await sendBacklog(stand, healthy);
    const alone: number[] = [];
    const beside: number[] = [];
    const hanging = await subscribe(stand, first, 'dead/hanging');
    await pile(stand, hanging, pending);
    for (let round = 0; round < settings.rounds; round += 1) {
      await setActive(stand, first, hanging, false);
      alone.push(...(await deliver(stand, keys, settings.seconds)));
      await setActive(stand, first, hanging, true);
      beside.push(...(await deliver(stand, keys, settings.seconds)));
    }
    await setActive(stand, first, hanging, false);

    const refusing = await findFreePort();
    for (const [index, key] of keys.entries())
      for (let number = 0; number < ofEachKind; number += 1) {
        await subscribe(stand, key, `slow/${index}-${number}`);
        // One that refuses connections, and one that accepts the request and never responds.
        if (number % 2 === 0) await subscribe(stand, key, `dead/${index}`, refusing);
        else await subscribe(stand, key, `dead/${index}`);
      }
    await deliver(stand, keys, settling);
    const crowded = await deliver(stand, keys, settings.rounds * settings.seconds);
    const value = (name: string, found: number, unit: string, target: number) => ({ name, value: found, unit, target });
    const besides = workspaces * ofEachKind;
    return {
      name: 'webhook-delivery',
      figure: 'H4, H5',
      what: `${pace} events a second to ${workspaces} healthy receivers; attempts a second where ${backlog} wait for each of them`,
      settings: { ...settings, workspaces, pace, together, pending, backlog, dead: besides, slow: besides },
      sides: [attempts],
      ratios: [],
      values: [
        value('from the answer to the delivery, nobody else, median', quantile(alone, 0.5), 'ms', 1000),
        value('from the answer to the delivery, nobody else, 99 %', quantile(alone, 0.99), 'ms', 1000),
        value(`beside a receiver that hangs with ${pending} waiting, 99 %`, quantile(beside, 0.99), 'ms', 1000),
        value('99 % beside it, of that alone', quantile(beside, 0.99) / quantile(alone, 0.99), '×', 1.2),
        value(`beside ${besides} dead and ${besides} slow ones, median`, quantile(crowded, 0.5), 'ms', 1000),
        value(`beside ${besides} dead and ${besides} slow ones, 99 %`, quantile(crowded, 0.99), 'ms', 1000),
      ],
    };
  });

let number = 0;

/**
 * Writes at the pace, in turn for all keys.
 * @returns milliseconds from each response to the arrival of its delivery
 */
async function deliver(stand: WebhookStand, keys: readonly string[], seconds: number): Promise<number[]> {
  const answered = new Answered();
  await takeArrivals(stand);
  await load({
    port: stand.server.port,
    connections: 4,
    milliseconds: seconds * 1000,
    perSecond: pace / together,
    seen: answered.note,
    next: () => {
      number += together;
      const turn = number / together;
      return batchRequest(keys[turn % keys.length] as string, 'delivery', number, together);
    },
  });
  const arrivals = new Map<string, number>();
  for (const tooLate = moment() + 60_000; arrivals.size < answered.at.size && moment() < tooLate; ) {
    await sleep(100);
    for (const [id, at] of (await takeArrivals(stand)).arrivals) arrivals.set(id, at);
  }
  return answered.delays(arrivals);
}

async function setActive({ server }: WebhookStand, key: string, id: string, isActive: boolean): Promise<void> {
  const body = JSON.stringify({ is_active: isActive });
  const { status } = await sendOne(server.port, request('PATCH', `/v1/webhooks/${id}`, { 'x-api-key': key }, body));
  if (status !== 200) throw new Error(`a webhook could not be changed: ${status}`);
}

/** Inserts waiting deliveries for a subscription. */
async function pile({ sql }: WebhookStand, id: string, count: number): Promise<void> {
  const body = JSON.stringify({
    id: 'evt_piled',
    event: 'record.created',
    data: { object: 'leads', record_id: uuidv7() },
  });
  await sql`
    insert into webhook_deliveries (company_id, test_mode, id, subscription_id, event_id, event, status, max_attempts, next_attempt_at, body, created_at)
    select company_id, true, gen_random_uuid(), id, gen_random_uuid(), 'record.created', 'pending', 3, now(), ${body}, now()
    from webhook_subscriptions, generate_series(1, ${count}) where id = ${id}`;
  await sql`update webhook_subscriptions set due_at = now() where id = ${id}`;
}

/** Measures attempts per second at healthy receivers, each of which allows 25. */
async function sendBacklog(stand: WebhookStand, healthy: readonly string[]): Promise<Measured> {
  for (const id of healthy) await pile(stand, id, backlog);
  const measured = nothingMeasured('attempts');
  await takeArrivals(stand);
  for (let second = 0; second < 10; second += 1) {
    const start = performance.now();
    const used = startUsage(stand.server.pid);
    await sleep(1000);
    const { requests } = await takeArrivals(stand);
    measured.perSecond.push((requests / (performance.now() - start)) * 1000);
    used(requests, measured);
  }
  const left = async () =>
    (await stand.sql`select from webhook_deliveries where status in ('pending', 'retrying') limit 1`).length;
  while ((await left()) > 0) await sleep(200);
  return measured;
}
