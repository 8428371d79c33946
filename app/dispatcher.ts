// Joins the dispatcher to its pools, to who is told of events, and to the metrics.
import { Gauge, Histogram, Registry } from 'prom-client';
import { noteStretch } from '../db/automation/webhook-backlog.ts';
import type { Pool } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import { countWaiting } from '../db/records/feed.ts';
import { startDispatcher } from '../jobs/records/dispatcher.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import type { MetricValues } from '../runtime/telemetry/metrics.ts';
import { type DatabaseSettings, openDispatcherPools } from './database.ts';

export interface Dispatching {
  wake(): void;
  readMetrics(): Promise<MetricValues>;
  stop(): Promise<void>;
}

/** Who is told of what has its position. */
export interface Listeners {
  /** Hears how far a feed goes now. */
  announce(scope: TenantScope, last: number): void;
  /** Hears that deliveries of webhooks are to be made. */
  subscribed(): void;
}

/** Starts the dispatcher of a server. @param worker what its figures are labelled with */
export function openDispatcher(
  settings: DatabaseSettings,
  worker: string | undefined,
  listeners: Listeners,
  log: Log,
): Dispatching {
  const pools = openDispatcherPools(settings);
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  const waits = watchQueue(registry, pools.platform);
  const dispatcher = startDispatcher({
    pools,
    note: noteStretch,
    announce(scope, last, isNoted) {
      listeners.announce(scope, last);
      if (isNoted) listeners.subscribed();
    },
    noteWait: (milliseconds) => waits.observe(milliseconds / 1000),
    log,
  });
  return {
    wake: () => dispatcher.wake(),
    readMetrics: () => registry.getMetricsAsJSON(),
    async stop() {
      await dispatcher.stop();
      await Promise.all([pools.platform.close(1), pools.tenants.close(1)]);
    },
  };
}

/** What tells of the queue when the metrics are read; what cannot be asked is left as it was. @returns where waits are noted */
function watchQueue(registry: Registry, platform: Pool): Histogram {
  const registers = [registry];
  const oldest = new Gauge({
    name: 'crm_feed_oldest_pending_seconds',
    help: 'How long the oldest event has been waiting for its position in its feed.',
    registers,
  });
  new Gauge({
    name: 'crm_feed_pending',
    help: 'Events that wait for their positions in the feeds.',
    registers,
    async collect() {
      const waiting = await platform.use(countWaiting).catch(() => undefined);
      if (!waiting) return;
      this.set(waiting.events);
      oldest.set(waiting.oldest ? Math.max(0, Date.now() - waiting.oldest.getTime()) / 1000 : 0);
    },
  });
  return new Histogram({
    name: 'crm_feed_lag_seconds',
    help: 'Time from the call that told an event to its position in the feed.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30, 300],
    registers,
  });
}
