// The table of all background jobs: how often each runs, on which connections, how much at once.
//
// Every server runs the whole table, except for the jobs that its operator has paused; jobs of several servers share the work. A job takes what no other holds: it finds rows that are due
// across tenants, and locks or leases them in a transaction of one tenant. Nothing is lost with a server: what it held is due again.
import { announceExpiringKeys } from './access/expiring-keys.ts';
import type { WebhookSender } from './automation/webhook-sender.ts';
import { runWorkforces, type WorkforceServices } from './automation/workforces.ts';
import { type BillingServices, runBilling } from './billing/subscriptions.ts';
import { runCampaigns } from './messaging/campaigns.ts';
import { deliverMails, type MailServices } from './messaging/mail.ts';
import { type MessageServices, sendMessages } from './messaging/message-sending.ts';
import { carryOutDecisions } from './messaging/run-decisions.ts';
import { clearPendingReferences } from './records/reference-clearing.ts';
import type { SweptFiles } from './records/stored-files.ts';
import type { TenantQueue } from './records/tenant-queue.ts';
import type { SearchIndexer } from './reports/search.ts';
import type { Job } from './runner.ts';
import { completePastBookings } from './scheduling/bookings.ts';
import {
  type CalendarServices,
  carryOutOrders,
  lookAtCalendars,
  lookAtUnreadCalendars,
} from './scheduling/calendars.ts';
import { sweepAll } from './service/sweeps.ts';
import { handleSlaClocks } from './settings/sla.ts';

/** What the background jobs of a server work with. */
export interface BackgroundServices {
  dispatcher: TenantQueue;
  webhookMatcher: TenantQueue;
  webhookSender: WebhookSender;
  searchIndexer: SearchIndexer;
  files: SweptFiles;
  mails: MailServices;
  messages: MessageServices;
  calendars: CalendarServices;
  billing: BillingServices;
}

/**
 * Connections of the background jobs, apart from those of requests. `background` is for all jobs that are short or may wait: one connection
 * that looks across tenants, which `platform` jobs use as well, and one for tenants. The others have connections for tenants of their own, and
 * `dispatcher` and `webhooks` also for looking.
 */
export type BackgroundPool = 'background' | 'dispatcher' | 'webhooks' | 'messages' | 'calendars' | 'payments';

const second = 1000;
const minute = 60 * second;

/** Jobs that a server runs once, in its first process. */
export const backgroundJobs: readonly Job<BackgroundServices, BackgroundPool>[] = [
  // Gives committed events their positions in the feeds. Woken by each commit that has events; the interval finds those of other servers.
  {
    name: 'dispatcher',
    pool: 'dispatcher',
    intervalMs: 100,
    batchDelayMs: 50,
    outlivesRequests: true,
    batchSize: 500,
    timeoutMs: 3 * second,
    run: (context, { dispatcher }) => dispatcher.run(context),
  },
  // Makes deliveries of events that have their positions. Woken by the dispatcher. Backs off under foreground load.
  {
    name: 'webhook-matcher',
    pool: 'webhooks',
    intervalMs: 100,
    batchDelayMs: 50,
    batchSize: 500,
    timeoutMs: 3 * second,
    run: (context, { webhookMatcher }) => webhookMatcher.run(context),
  },
  // Sends deliveries of webhooks; a batch is of subscriptions. Attempts outlast a run; one that is not recorded at the end is sent again.
  {
    name: 'webhooks',
    pool: 'webhooks',
    intervalMs: 200,
    batchSize: 100,
    timeoutMs: 5 * second,
    pending: { settled: ({ webhookSender }) => webhookSender.settled(), shutdownGraceMs: 3 * second },
    run: (context, { webhookSender }) => webhookSender.run(context),
  },
  // Sends mails of the service; a batch is under way at once.
  {
    name: 'mails',
    pool: 'platform',
    intervalMs: second,
    batchSize: 5,
    run: (context, { mails }) => deliverMails(context, mails),
  },
  // Sends approved messages; a batch is of tenants and channels that have some. One job for each provider, so that a provider that answers
  // slowly delays only its own messages.
  {
    name: 'messages',
    pool: 'messages',
    intervalMs: second,
    batchSize: 1000,
    timeoutMs: 5 * second,
    run: (context, { messages }) => sendMessages(context, messages, ['email']),
  },
  {
    name: 'messages',
    pool: 'messages',
    intervalMs: second,
    batchSize: 1000,
    timeoutMs: 5 * second,
    run: (context, { messages }) => sendMessages(context, messages, ['sms', 'whatsapp']),
  },
  // Carries out what people decided about runs of campaigns; a batch is of drafts.
  {
    name: 'run-decisions',
    pool: 'messages',
    intervalMs: second,
    batchSize: 500,
    timeoutMs: 10 * second,
    run: carryOutDecisions,
  },
  // Begins scheduled campaigns, prepares their drafts and withdraws those of cancelled ones; a batch is of records or drafts.
  {
    name: 'campaigns',
    pool: 'background',
    intervalMs: second,
    batchSize: 1000,
    timeoutMs: 10 * second,
    run: runCampaigns,
  },
  // Puts texts of records where the search finds them; a batch is of changes that are scanned. A search itself looks at what waits.
  {
    name: 'search',
    pool: 'background',
    intervalMs: second,
    batchSize: 20_000,
    timeoutMs: 5 * second,
    run: (context, { searchIndexer }) => searchIndexer.run(context),
  },
  // Clears references to deleted records; a batch is of records, which stay locked meanwhile.
  {
    name: 'reference-clearing',
    pool: 'background',
    intervalMs: second,
    batchSize: 200,
    timeoutMs: 5 * second,
    run: clearPendingReferences,
  },
  // Writes events into calendars outside, and removes them.
  {
    name: 'calendars',
    pool: 'calendars',
    intervalMs: second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { calendars }) => carryOutOrders(context, calendars),
  },
  // Looks at calendars that were just connected: their users are not free until then, so they do not wait for slow calendars.
  {
    name: 'calendars',
    pool: 'calendars',
    intervalMs: second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { calendars }) => lookAtUnreadCalendars(context, calendars),
  },
  // Looks at each calendar every five minutes.
  {
    name: 'calendars',
    pool: 'calendars',
    intervalMs: 5 * second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { calendars }) => lookAtCalendars(context, calendars),
  },
  // Takes the steps of subscriptions that time brings, and finishes operations that were left at a payment provider.
  {
    name: 'billing',
    pool: 'payments',
    intervalMs: 5 * second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { billing }) => runBilling(context, billing),
  },
  // Handles SLA clocks that are due: breaches, reminders, escalations.
  {
    name: 'sla',
    pool: 'background',
    intervalMs: 30 * second,
    batchSize: 200,
    timeoutMs: 5 * second,
    run: handleSlaClocks,
  },
  // Completes bookings that are over.
  {
    name: 'bookings',
    pool: 'platform',
    intervalMs: minute,
    batchSize: 500,
    run: completePastBookings,
  },
  // Emits events of API keys that expire soon.
  {
    name: 'expiring-keys',
    pool: 'background',
    intervalMs: minute,
    batchSize: 100,
    timeoutMs: 3 * second,
    run: announceExpiringKeys,
  },
  // Removes what is past its time; a batch is of rows of one statement, few enough for its time however many tenants they are of.
  {
    name: 'sweeps',
    pool: 'platform',
    intervalMs: 10 * minute,
    batchSize: 1000,
    run: (context, { files }) => sweepAll(context, files),
  },
];

/** What the jobs of a process that answers requests work with. */
export interface ServingServices {
  workforces: WorkforceServices;
}

/** Jobs that each process that answers requests runs: their steps are operations of the API. */
export const servingJobs: readonly Job<ServingServices, 'workforces'>[] = [
  // Does the steps of runs of workforces that are due.
  {
    name: 'workforces',
    pool: 'workforces',
    intervalMs: second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { workforces }) => runWorkforces(context, workforces),
  },
];

/** The names of all jobs, each once. */
export const jobNames: readonly string[] = [...new Set([...backgroundJobs, ...servingJobs].map(({ name }) => name))];
