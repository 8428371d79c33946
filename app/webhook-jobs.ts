// Joins the matcher and the sender of webhooks to their pools, the guarded client, and the metrics.
import { Counter, Gauge, Registry } from 'prom-client';
import { findOldestNoted } from '../db/automation/webhook-backlog.ts';
import { countPending } from '../db/automation/webhook-sending.ts';
import { startWebhookMatcher } from '../jobs/automation/webhook-matching.ts';
import { startWebhookSender } from '../jobs/automation/webhook-sender.ts';
import { Pace } from '../jobs/load-shedder.ts';
import type { Config } from '../runtime/config.ts';
import type { Secrets } from '../runtime/credentials/secrets.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import type { MetricValues } from '../runtime/telemetry/metrics.ts';
import { type DatabaseSettings, openSenderPools } from './database.ts';

export interface Sending {
  /** Deliveries are to be made: does not wait for the next look. */
  wake(): void;
  readMetrics(): Promise<MetricValues>;
  /** Ends it, once what is on its way has ended or a few seconds have passed. */
  stop(): Promise<void>;
}

/** Deliveries that are counted when the metrics are read; more are told as this many. */
const mostCounted = 100_000;

/**
 * Starts the matcher and the sender of a server.
 * @param worker what its figures are labelled with
 * @param waited milliseconds that all requests together have waited for connections
 */
export function openSender(
  settings: DatabaseSettings,
  worker: string | undefined,
  { webhookAllowPrivate }: Config,
  secrets: Secrets,
  waited: () => number,
  log: Log,
): Sending {
  const pools = openSenderPools(settings);
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  const registers = [registry];
  const attempts = new Counter({
    name: 'crm_webhook_attempts_total',
    help: 'Attempts to deliver webhooks, by outcome.',
    labelNames: ['outcome'],
    registers,
  });
  new Gauge({
    name: 'crm_webhook_deliveries_pending',
    help: 'Deliveries of webhooks that wait for their next attempt.',
    registers,
    async collect() {
      const pending = await pools.platform.use((sql) => countPending(sql, mostCounted)).catch(() => undefined);
      if (pending !== undefined) this.set(pending);
    },
  });
  const oldest = new Gauge({
    name: 'crm_webhook_oldest_unmade_seconds',
    help: 'How long the oldest event has been waiting for its deliveries to be made.',
    registers,
    async collect() {
      const noted = await pools.platform.use(findOldestNoted).catch(() => undefined);
      if (noted !== undefined) oldest.set(noted ? Math.max(0, Date.now() - noted.getTime()) / 1000 : 0);
    },
  });
  const matcher = startWebhookMatcher({ ...pools, pace: new Pace(waited), log });
  const stop = startWebhookSender({
    ...pools,
    pace: new Pace(waited),
    client: new OutgoingClient({ privateAddresses: webhookAllowPrivate ? 'in_test_mode' : 'refused' }),
    decrypt: (sealed) => secrets.decrypt(sealed),
    noteAttempt: (outcome) => attempts.inc({ outcome }),
    log,
  });
  return {
    wake: () => matcher.wake(),
    readMetrics: () => registry.getMetricsAsJSON(),
    async stop() {
      await Promise.all([matcher.stop(), stop()]);
      await Promise.all([pools.platform.close(1), pools.tenants.close(1)]);
    },
  };
}
