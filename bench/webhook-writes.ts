// P12: the cost of creates with and without matching webhook subscriptions.
import { setTimeout as sleep } from 'node:timers/promises';
import { load } from './load.ts';
import { createRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, measure, ratio, type Settings } from './rounds.ts';
import { subscribe, takeArrivals, type WebhookStand, waitUntilDispatched, withWebhooks } from './webhooks.ts';
import { addTestKeys } from './workspace.ts';

/** Seconds under full load while deliveries are counted, of recovery, and of the second count. */
const lasts = { load: 6, recovery: 2, rest: 4 };

/** Subscriptions per side. */
const counts = { none: 0, one: 1, fifty: 50 } as const;

export const webhookWrites = (settings: Settings): Promise<Result> =>
  withWebhooks(async (stand) => {
    const names = Object.keys(counts) as (keyof typeof counts)[];
    const keys = new Map<string, string>();
    for (const [index, key] of (await addTestKeys(stand.workspace, names.length)).entries()) {
      const name = names[index] as keyof typeof counts;
      keys.set(name, key);
      for (let number = 0; number < counts[name]; number += 1) await subscribe(stand, key, `healthy/${number}`);
    }
    let number = 0;
    const sides = names.map((name) => ({ ...stand.server, name }));
    const createNext = (name: string) => () => {
      number += 1;
      return createRequest(keys.get(name) as string, 'webhooks', number);
    };
    const measured = await measure(
      sides,
      ({ name }) => createNext(name),
      settings,
      () => forget(stand),
    );
    const { beside, afterwards } = await countSent(stand, settings.connections, createNext('fifty'));
    const [none, one, fifty] = measured as [Measured, Measured, Measured];
    return {
      name: 'webhook-writes',
      figure: 'P12',
      what: 'creates with one and fifty webhook subscriptions that match each of them, against none; deliveries are made and sent meanwhile',
      settings: { ...settings },
      sides: measured,
      ratios: [ratio(one, none, 0.95), ratio(fifty, none, 0.95)],
      values: [
        {
          name: 'deliveries beside creates that fill the server',
          value: beside,
          unit: '/s',
          target: 20,
          atLeast: true,
        },
        { name: 'deliveries when they have ended', value: afterwards, unit: '/s', target: 200, atLeast: true },
      ],
    };
  });

/** Counts the deliveries per second under full load and afterwards. */
async function countSent(stand: WebhookStand, connections: number, next: () => Buffer) {
  const arrivedIn = async (seconds: number) => (await takeArrivals(stand)).requests / seconds;
  await takeArrivals(stand);
  await load({ port: stand.server.port, connections, milliseconds: lasts.load * 1000, next });
  const beside = await arrivedIn(lasts.load);
  await sleep(lasts.recovery * 1000);
  await takeArrivals(stand);
  await sleep(lasts.rest * 1000);
  const afterwards = await arrivedIn(lasts.rest);
  await forget(stand);
  return { beside, afterwards };
}

/** Removes pending deliveries, which would otherwise continue during the next side's round. */
async function forget({ sql }: WebhookStand): Promise<void> {
  await waitUntilDispatched(sql);
  await sql`
    with waiting as materialized (select ctid from webhook_backlog order by company_id, test_mode, first_position for update)
    delete from webhook_backlog where ctid in (select ctid from waiting)`;
  await sql`update webhook_subscriptions set due_at = null, is_held = false`;
  await sql`delete from webhook_deliveries`;
}
