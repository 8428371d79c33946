// Webhook senders under a clock that tests move, on a database where no server sends.
import { v7 as uuidv7 } from 'uuid';
import { inject } from 'vitest';
import { findSubscribed } from '../../db/automation/webhooks.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { Pool } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import type { HappenedEvent } from '../../domain/automation/webhook-bodies.ts';
import { deliver } from '../../jobs/automation/webhook-matching.ts';
import { WebhookSender, type WebhookSenderServices } from '../../jobs/automation/webhook-sender.ts';
import { LoadShedder } from '../../jobs/load-shedder.ts';
import type { TenantJobContext } from '../../jobs/runner.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { OutgoingClient } from '../../runtime/outbound/client.ts';
import { openLog } from '../../runtime/telemetry/log.ts';
import type { Mode } from './arranged-ids.ts';
import type { Json } from './client.ts';
import { dropDatabase, newDatabase } from './databases.ts';
import { buildJobContext } from './job-runs.ts';
import { database, type Tenant, useDatabase } from './tenants.ts';

/** Shared, like the silent log. */
const { log: warnings } = openLog('warn');

/** The maximum number of rounds until nothing is due. */
const mostRounds = 200;

export class SenderWorld {
  now = new Date();
  #position = 0;
  readonly #url: string;
  readonly #pools: { platform: Pool; tenants: Pool };
  readonly sender: WebhookSender;

  private constructor(url: string) {
    this.#url = url;
    const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 5000 };
    this.#pools = {
      platform: new Pool({ ...shared, role: 'crm_platform', lanes: 1 }),
      tenants: new Pool({ ...shared, role: 'crm_app', lanes: 4 }),
    };
    this.sender = this.newSender();
  }

  static async open(): Promise<SenderWorld> {
    const url = await newDatabase();
    await useDatabase(url);
    return new SenderWorld(url);
  }

  async close(): Promise<void> {
    await this.sender.settled();
    await Promise.all([this.#pools.platform.close(1), this.#pools.tenants.close(1)]);
    await useDatabase(undefined);
    await dropDatabase(this.#url);
  }

  /** The context of a run, under this clock. */
  get context(): TenantJobContext {
    return buildJobContext('webhooks', this.#pools, { log: warnings, now: () => this.now });
  }

  get platform(): Pool {
    return this.#pools.platform;
  }

  /** Creates the sender of a further server. */
  newSender(more: Partial<WebhookSenderServices> = {}): WebhookSender {
    const secrets = new Secrets(inject('secretKey'));
    return new WebhookSender({
      loadShedder: new LoadShedder(() => 0),
      // Receivers on this machine get live deliveries, too.
      client: new OutgoingClient({ privateAddresses: 'allowed' }),
      decrypt: (sealed) => secrets.decrypt(sealed),
      ...more,
    });
  }

  /** Adds committed events with their deliveries, as the matcher does. */
  async addEvents(tenant: Tenant, mode: Mode, count = 1, more: Partial<HappenedEvent> = {}): Promise<HappenedEvent[]> {
    const events = Array.from({ length: count }, () => this.newEvent(more));
    const scope: TenantScope = { companyId: tenant.companyId, testMode: mode === 'test' };
    await inTransaction(this.#pools.tenants, scope, 20_000, async (sql) =>
      deliver(sql, scope, await findSubscribed(sql, scope), events, this.now),
    );
    return events;
  }

  newEvent(more: Partial<HappenedEvent> = {}): HappenedEvent {
    const data = { object: 'leads', record_id: uuidv7(), occurred_at: this.now.toISOString() };
    return {
      id: uuidv7(),
      event: 'record.created',
      position: ++this.#position,
      occurredAt: this.now,
      requestId: null,
      data,
      changes: null,
      actor: { kind: 'api_key', id: 'somebody', name: 'Somebody' },
      ...more,
    };
  }

  /** Sends what is due and allowed, until nothing more is. */
  async send(): Promise<void> {
    for (let rounds = 0; rounds < mostRounds; rounds += 1) {
      await this.sender.run(this.context);
      await this.sender.settled();
      const [due] = await database()`select from webhook_subscriptions where due_at <= ${this.now} limit 1`;
      if (!due) return;
    }
    throw new Error('something is due for ever');
  }

  later(milliseconds: number): void {
    this.now = new Date(this.now.getTime() + milliseconds);
  }

  /** Moves the clock to a time, and sends everything that becomes due on the way. */
  async sendUntil(moment: Date): Promise<void> {
    for (;;) {
      await this.send();
      const [next] = await database()<{ at: Date | null }[]>`select min(due_at) as at from webhook_subscriptions`;
      if (!next?.at || next.at > moment) break;
      this.now = next.at;
    }
    this.now = moment;
  }
}

export const readDeliveries = async (subscriptionId: string): Promise<Json[]> => [
  ...(await database()`select * from webhook_deliveries where subscription_id = ${subscriptionId} order by created_at, id`),
];

export const readWebhook = async (id: string): Promise<Json> =>
  (await database()`select * from webhook_subscriptions where id = ${id}`)[0];
