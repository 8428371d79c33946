// Metrics of the background jobs. Queues are counted when the metrics are read.
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { findOldestNoted } from '../db/automation/webhook-backlog.ts';
import { countPending } from '../db/automation/webhook-sending.ts';
import type { Pool } from '../db/client/pool.ts';
import { countDueMessages } from '../db/messaging/draft-sending.ts';
import { countWaiting } from '../db/records/feed.ts';
import type { MetricValues } from '../runtime/telemetry/metrics.ts';

export interface JobMetrics {
  /** Records the milliseconds that an event waited for its position in its feed. */
  onEventWait(milliseconds: number): void;
  onWebhookAttempt(outcome: string): void;
  onMessageAttempt(channel: string, outcome: string): void;
  read(): Promise<MetricValues>;
}

/** Maximum rows to count per scrape. Longer queues are reported as this many. */
const maxCounted = 100_000;

/**
 * Opens the metrics. If the database is unavailable, a figure keeps its last value.
 * @param pools each is used for its own queue
 * @param worker the label of the figures; undefined for none
 */
export function openJobMetrics(
  pools: { dispatcher: Pool; webhooks: Pool; messages: Pool },
  worker: string | undefined,
): JobMetrics {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  const eventWaits = watchFeeds(registry, pools.dispatcher);
  const webhookAttempts = watchWebhooks(registry, pools.webhooks);
  const messageAttempts = watchMessages(registry, pools.messages);
  return {
    onEventWait: (milliseconds) => eventWaits.observe(milliseconds / 1000),
    onWebhookAttempt: (outcome) => webhookAttempts.inc({ outcome }),
    onMessageAttempt: (channel, outcome) => messageAttempts.inc({ channel, outcome }),
    read: () => registry.getMetricsAsJSON(),
  };
}

function watchFeeds(registry: Registry, platform: Pool): Histogram {
  const registers = [registry];
  const oldest = new Gauge({
    name: 'crm_feed_oldest_pending_seconds',
    help: 'Age of the oldest event that waits for its position in its feed.',
    registers,
  });
  new Gauge({
    name: 'crm_feed_pending',
    help: 'Events that wait for their position in a feed.',
    registers,
    async collect() {
      const waiting = await platform.use(countWaiting).catch(() => undefined);
      if (!waiting) return;
      this.set(waiting.events);
      oldest.set(secondsSince(waiting.oldest));
    },
  });
  return new Histogram({
    name: 'crm_feed_lag_seconds',
    help: 'Time from recording an event to its position in the feed.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30, 300],
    registers,
  });
}

function watchWebhooks(registry: Registry, platform: Pool): Counter<'outcome'> {
  const registers = [registry];
  new Gauge({
    name: 'crm_webhook_deliveries_pending',
    help: 'Webhook deliveries that wait for their next attempt.',
    registers,
    async collect() {
      const pending = await platform.use((sql) => countPending(sql, maxCounted)).catch(() => undefined);
      if (pending !== undefined) this.set(pending);
    },
  });
  new Gauge({
    name: 'crm_webhook_oldest_unmade_seconds',
    help: 'Age of the oldest event whose webhook deliveries are not created yet.',
    registers,
    async collect() {
      const noted = await platform.use(findOldestNoted).catch(() => undefined);
      if (noted !== undefined) this.set(secondsSince(noted));
    },
  });
  return new Counter({
    name: 'crm_webhook_attempts_total',
    help: 'Webhook delivery attempts by outcome.',
    labelNames: ['outcome'],
    registers,
  });
}

function watchMessages(registry: Registry, platform: Pool): Counter<'channel' | 'outcome'> {
  const registers = [registry];
  new Gauge({
    name: 'crm_messages_due',
    help: 'Approved messages that are due to be sent.',
    registers,
    async collect() {
      const due = await platform.use((sql) => countDueMessages(sql, maxCounted, new Date())).catch(() => undefined);
      if (due !== undefined) this.set(due);
    },
  });
  return new Counter({
    name: 'crm_message_attempts_total',
    help: 'Message sending attempts by channel and outcome.',
    labelNames: ['channel', 'outcome'],
    registers,
  });
}

const secondsSince = (time: Date | null): number => (time ? Math.max(0, Date.now() - time.getTime()) / 1000 : 0);
