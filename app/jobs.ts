// Opens pools and services for the background jobs of a server, and starts the jobs.
import { noteStretch } from '../db/automation/webhook-backlog.ts';
import type { Pool } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import { createSmtpMails } from '../integrations/smtp/service-mails.ts';
import { openMailTransport } from '../integrations/smtp/transport.ts';
import { follow } from '../integrations/stripe/follow.ts';
import { createWebhookMatcher } from '../jobs/automation/webhook-matching.ts';
import { WebhookSender } from '../jobs/automation/webhook-sender.ts';
import type { BillingServices } from '../jobs/billing/subscriptions.ts';
import { type BackgroundServices, backgroundJobs, jobNames } from '../jobs/index.ts';
import { LoadShedder } from '../jobs/load-shedder.ts';
import { createDispatcher } from '../jobs/records/dispatcher.ts';
import { Exporter } from '../jobs/records/exports.ts';
import { SearchIndexer } from '../jobs/reports/search.ts';
import { type JobPools, startJobs } from '../jobs/runner.ts';
import { type Config, ConfigError } from '../runtime/config.ts';
import type { Secrets } from '../runtime/credentials/secrets.ts';
import { SignedTokens } from '../runtime/credentials/signed-tokens.ts';
import type { FileStorage } from '../runtime/files/storage.ts';
import { OutgoingClient } from '../runtime/outbound/client.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import type { MetricValues } from '../runtime/telemetry/metrics.ts';
import { buildClickPath, openPath } from '../web/recipients/engagement.ts';
import { buildMeetingPath } from '../web/recipients/meetings.ts';
import { buildUnsubscribePath } from '../web/recipients/unsubscribe.ts';
import { createCalendarClient, openCalendars } from './calendar-provider.ts';
import { openImports } from './imports.ts';
import { openJobMetrics } from './job-metrics.ts';
import { openSenders } from './message-senders.ts';
import { openPayments } from './payments.ts';
import {
  type DatabaseSettings,
  openCalendarsPool,
  openDispatcherPools,
  openExportsPool,
  openImportsPool,
  openMessagesPool,
  openPaymentsPool,
  openPurgePool,
  openRevertsPool,
  openSenderPools,
  openSnapshotPool,
} from './pools.ts';
import { openReverts } from './reverts.ts';
import type { Serving } from './serve.ts';
import { uploadFolder } from './storage.ts';

/** The parts that jobs share with the rest of the process. */
export interface JobSurroundings {
  config: Config;
  settings: DatabaseSettings;
  /** Connections of jobs without their own pools. */
  background: JobPools;
  storage: FileStorage;
  secrets: Secrets;
  /** The serving processes. They receive feed positions, and jobs back off under their load. */
  serving: Pick<Serving, 'announce' | 'waitedMilliseconds'>;
  /** Base URL of links in mails. */
  baseUrl: string;
  log: Log;
}

export interface BackgroundJobs {
  /** Call it when events were committed. */
  wakeDispatcher(): void;
  readMetrics(): Promise<MetricValues>;
  /**
   * Stops all jobs, and closes their pools and transports.
   * @param requestsEnded resolves after the last request; until then the dispatcher keeps running
   */
  stop(requestsEnded: Promise<unknown>): Promise<void>;
}

/** @throws ConfigError if PAUSED_JOBS names something that is not a job */
export function requireJobNames({ pausedJobs }: Config): void {
  for (const name of pausedJobs)
    if (!jobNames.includes(name))
      throw new ConfigError(
        `PAUSED_JOBS must be background jobs separated by commas: ${jobNames.join(', ')}. "${name}" is not a background job.`,
      );
}

/** Starts the background jobs of a server. */
export async function startBackgroundJobs(surroundings: JobSurroundings): Promise<BackgroundJobs> {
  const { config, settings, background, storage, secrets, serving, baseUrl, log } = surroundings;
  const { platform } = background;
  const { mailServer, mailFrom: from, dashboardUrl } = config;
  const payments = openPaymentsPool(settings);
  const purges = openPurgePool(settings);
  const pools = {
    background,
    dispatcher: openDispatcherPools(settings),
    webhooks: openSenderPools(settings),
    messages: { platform, tenants: openMessagesPool(settings) },
    calendars: { platform, tenants: openCalendarsPool(settings) },
    imports: { platform, tenants: openImportsPool(settings) },
    reverts: { platform, tenants: openRevertsPool(settings) },
    payments: { platform, tenants: payments },
    exports: { platform, tenants: openExportsPool(settings) },
  };
  const snapshots = openSnapshotPool(settings);
  const opened = [pools.dispatcher, pools.webhooks].flatMap(({ platform: own, tenants }) => [own, tenants]);
  const closing = [
    ...opened,
    ...[pools.messages.tenants, pools.calendars.tenants, pools.imports.tenants, pools.exports.tenants],
    pools.reverts.tenants,
    ...[snapshots, payments, purges],
  ];
  const worker = config.workers > 1 ? 'primary' : undefined;
  const metrics = openJobMetrics(
    { dispatcher: pools.dispatcher.platform, webhooks: pools.webhooks.platform, messages: platform },
    worker,
  );
  const decrypt = (sealed: string): string => secrets.decrypt(sealed);
  const removeFile = (key: string): Promise<void> => storage.remove(key);
  const waitedMs = (): number => serving.waitedMilliseconds();
  // Two transports, so that service mails do not wait for messages.
  const [mailTransport, messageTransport] = await Promise.all(
    [mailServer, mailServer].map((server) => server && openMailTransport(server)),
  );
  const services: BackgroundServices = {
    dispatcher: createDispatcher({
      note: noteStretch,
      announce(scope: TenantScope, last, isNoted) {
        serving.announce({ ...scope, last });
        if (isNoted) jobs.wake('webhook-matcher');
      },
      onWait: metrics.onEventWait,
    }),
    webhookMatcher: createWebhookMatcher(new LoadShedder(waitedMs)),
    webhookSender: new WebhookSender({
      loadShedder: new LoadShedder(waitedMs),
      client: new OutgoingClient({ privateAddresses: config.webhookAllowPrivate ? 'in_test_mode' : 'refused' }),
      decrypt,
      onAttempt: metrics.onWebhookAttempt,
    }),
    searchIndexer: new SearchIndexer(),
    exporter: new Exporter({
      snapshots,
      keepFile: (key, path, sha256) => storage.keep(key, path, sha256),
      folder: uploadFolder(config),
      loadShedder: new LoadShedder(waitedMs),
    }),
    files: { remove: removeFile, uploads: uploadFolder(config) },
    imports: openImports({
      platform,
      tenants: pools.imports.tenants,
      storage,
      folder: uploadFolder(config),
      loadShedder: new LoadShedder(waitedMs),
      onEvents: () => jobs.wake('dispatcher'),
    }),
    reverts: openReverts({
      platform,
      loadShedder: new LoadShedder(waitedMs),
      onEvents: () => jobs.wake('dispatcher'),
    }),
    mails: {
      transport: mailTransport && createSmtpMails(mailTransport, from),
      from,
      dashboardUrl,
      decrypt,
      buildMeetingLink: (companyId, bookingId) =>
        baseUrl + buildMeetingPath(new SignedTokens(secrets), companyId, bookingId),
    },
    messages: {
      ...messageAddresses(surroundings),
      senders: openSenders({
        transport: messageTransport,
        from,
        client: messageClient(config),
        provider: config.messagingProvider,
      }),
      onAttempt: metrics.onMessageAttempt,
    },
    calendars: { calendars: openCalendars(createCalendarClient(config)), decrypt },
    billing: await openBilling(surroundings, payments, purges, removeFile),
  };
  const jobs = startJobs(backgroundJobs, { platform, pools, services, paused: config.pausedJobs, log });
  return {
    wakeDispatcher: () => jobs.wake('dispatcher'),
    readMetrics: metrics.read,
    async stop(requestsEnded) {
      await jobs.stop(requestsEnded);
      mailTransport?.close();
      messageTransport?.close();
      await Promise.all(closing.map((pool) => pool.close(1)));
    },
  };
}

/**
 * The operator configures the provider's URL. http, and with it private addresses, is for
 * development only.
 */
const messageClient = ({ messagingProvider: provider }: Config): OutgoingClient =>
  new OutgoingClient({ privateAddresses: provider?.url.startsWith('http:') ? 'allowed' : 'refused' });

function messageAddresses({
  secrets,
  baseUrl,
}: JobSurroundings): Pick<BackgroundServices['messages'], 'unsubscribeUrl' | 'engagementUrls'> {
  const tokens = new SignedTokens(secrets);
  return {
    unsubscribeUrl: (scope, draftId) => baseUrl + buildUnsubscribePath(tokens, scope, draftId),
    engagementUrls: (companyId, draftId) => ({
      open: baseUrl + openPath(tokens, companyId, draftId),
      click: (url) => baseUrl + buildClickPath(tokens, companyId, draftId, url),
    }),
  };
}

async function openBilling(
  { config, log }: JobSurroundings,
  tenants: Pool,
  purges: Pool,
  removeFile: BillingServices['removeFile'],
): Promise<BillingServices> {
  const { provider, followParts } = await openPayments(config, tenants, () => config.baseUrl, log);
  return {
    purges,
    provider,
    removeFile,
    follow:
      followParts &&
      (async (companyId, now) => (await follow(followParts, companyId, { ifDue: true }, now)) !== undefined),
  };
}
