// Joins the jobs of messages to providers, pools and the metrics.
import { Counter, Gauge, Registry } from 'prom-client';
import type { Pool } from '../db/client/pool.ts';
import { countDueMessages } from '../db/messaging/draft-sending.ts';
import { openMailTransport } from '../integrations/smtp/transport.ts';
import { startMessageSending } from '../jobs/messaging/message-sending.ts';
import { startRunDecisions } from '../jobs/messaging/run-decisions.ts';
import type { Config } from '../runtime/config.ts';
import type { Secrets } from '../runtime/credentials/secrets.ts';
import { SignedTokens } from '../runtime/credentials/signed-tokens.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import type { MetricValues } from '../runtime/telemetry/metrics.ts';
import { clickPath, openPath } from '../web/recipients/engagement.ts';
import { unsubscribePath } from '../web/recipients/unsubscribe.ts';
import { type DatabaseSettings, openMessagesPool } from './database.ts';
import { openSenders } from './message-senders.ts';

export interface MessageJobs {
  readMetrics(): Promise<MetricValues>;
  /** Ends them, once what is on its way has ended or a few seconds have passed. */
  stop(): Promise<void>;
}

/** Messages that are counted when the metrics are read; more are told as this many. */
const mostCounted = 100_000;

/**
 * @param platform finds whose turn it is
 * @param worker what its figures are labelled with
 * @param baseUrl of links in mails
 */
export async function openMessageJobs(
  config: Pick<Config, 'mailServer' | 'mailFrom' | 'messagingProvider'>,
  settings: DatabaseSettings,
  platform: Pool,
  worker: string | undefined,
  secrets: Secrets,
  baseUrl: string,
  log: Log,
): Promise<MessageJobs> {
  const tenants = openMessagesPool(settings);
  const { mailServer, mailFrom: from, messagingProvider: provider } = config;
  const transport = mailServer && (await openMailTransport(mailServer));
  // The operator names the provider; http is only there for development, and so are addresses of one's own network.
  const client = new OutgoingClient({
    privateAddresses: provider?.url.startsWith('http:') ? 'allowed' : 'refused',
  });
  const tokens = new SignedTokens(secrets);
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  const registers = [registry];
  const attempts = new Counter({
    name: 'crm_message_attempts_total',
    help: 'Attempts to send messages, by channel and outcome.',
    labelNames: ['channel', 'outcome'],
    registers,
  });
  new Gauge({
    name: 'crm_messages_due',
    help: 'Approved messages that wait to be sent.',
    registers,
    async collect() {
      const due = await platform.use((sql) => countDueMessages(sql, mostCounted, new Date())).catch(() => undefined);
      if (due !== undefined) this.set(due);
    },
  });
  const now = (): Date => new Date();
  const stops = [
    startMessageSending({
      ...{ platform, tenants, senders: openSenders({ transport, from, client, provider }), log, now },
      unsubscribeUrl: (scope, draftId) => baseUrl + unsubscribePath(tokens, scope, draftId),
      engagementUrls: (companyId, draftId) => ({
        open: baseUrl + openPath(tokens, companyId, draftId),
        click: (url) => baseUrl + clickPath(tokens, companyId, draftId, url),
      }),
      noteAttempt: (channel, outcome) => attempts.inc({ channel, outcome }),
    }),
    startRunDecisions({ platform, tenants, log, now }),
  ];
  return {
    readMetrics: () => registry.getMetricsAsJSON(),
    async stop() {
      await Promise.all(stops.map((stop) => stop()));
      transport?.close();
      await tenants.close(1);
    },
  };
}
