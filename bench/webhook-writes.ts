// P12: what creates cost with webhook subscriptions that match each of them, and without.
import { createRequest } from './records.ts';
import type { Result } from './report.ts';
import { type Measured, measure, ratio, type Settings } from './rounds.ts';
import { subscribe, untilDispatched, type WebhookStand, withWebhooks } from './webhooks.ts';
import { addTestKeys } from './workspace.ts';

/** Subscriptions of each side. */
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
    const measured = await measure(
      sides,
      ({ name }) =>
        () => {
          number += 1;
          return createRequest(keys.get(name) as string, 'webhooks', number);
        },
      settings,
      () => forget(stand),
    );
    const [none, one, fifty] = measured as [Measured, Measured, Measured];
    return {
      name: 'webhook-writes',
      figure: 'P12',
      what: 'creates with one and fifty webhook subscriptions that match each of them, against none; deliveries are made and sent meanwhile',
      settings: { ...settings },
      sides: measured,
      ratios: [ratio(one, none, 0.95), ratio(fifty, none, 0.95)],
      values: [],
    };
  });

/** Removes what waits to be made or sent, which would go on during the next side's round. */
async function forget({ sql }: WebhookStand): Promise<void> {
  await untilDispatched(sql);
  await sql`delete from webhook_backlog`;
  await sql`update webhook_subscriptions set due_at = null, is_held = false`;
  await sql`delete from webhook_deliveries`;
}
