// The table of background jobs: intervals, connections and batch sizes.
//
// Every server runs the whole table, except the jobs that its operator paused. Servers share the
// work: a job finds due rows across tenants, and locks or leases them in a transaction of one
// tenant. If a server crashes, its leased rows become due again.

import type { ClockedWork } from '../db/onboarding/test-clock.ts';
import { announceExpiringKeys } from './access/expiring-keys.ts';
import type { WebhookSender } from './automation/webhook-sender.ts';
import { runWorkforces, type WorkforceServices } from './automation/workforces.ts';
import { type BillingServices, runBilling } from './billing/subscriptions.ts';
import { runCampaigns } from './messaging/campaigns.ts';
import { deliverMails, type MailServices } from './messaging/mail.ts';
import { type MessageServices, sendMessages } from './messaging/message-sending.ts';
import { applyRunDecisions } from './messaging/run-decisions.ts';
import { type ClockedJobs, createClockRun } from './onboarding/test-clocks.ts';
import { expireChangeSets } from './records/change-sets.ts';
import type { Exporter } from './records/exports.ts';
import { type ImportServices, runImports } from './records/imports.ts';
import { runMerges } from './records/merges.ts';
import { clearPendingReferences } from './records/reference-clearing.ts';
import { type RevertServices, runReverts } from './records/reverts.ts';
import type { SweptFiles } from './records/stored-files.ts';
import type { TenantQueue } from './records/tenant-queue.ts';
import { emptyTrash, restorePendingReferences } from './records/trash.ts';
import type { SearchIndexer } from './reports/search.ts';
import type { Job } from './runner.ts';
import { completePastBookings } from './scheduling/bookings.ts';
import {
  type CalendarServices,
  lookAtCalendars,
  lookAtUnreadCalendars,
  runCalendarOrders,
} from './scheduling/calendars.ts';
import { sweepAll } from './service/sweeps.ts';
import { handleSlaClocks } from './settings/sla.ts';

/** Dependencies of the background jobs. */
export interface BackgroundServices {
  dispatcher: TenantQueue;
  webhookMatcher: TenantQueue;
  webhookSender: WebhookSender;
  searchIndexer: SearchIndexer;
  exporter: Exporter;
  files: SweptFiles;
  imports: ImportServices;
  reverts: RevertServices;
  mails: MailServices;
  messages: MessageServices;
  calendars: CalendarServices;
  billing: BillingServices;
}

/**
 * Connections of the background jobs, separate from those of requests. `background` is for all jobs
 * that are short or may wait. It has one connection that reads across tenants, which `platform`
 * jobs share, and one for tenants. The other pools have their own connections for tenants;
 * `dispatcher` and `webhooks` also have their own for reading across tenants.
 */
export type BackgroundPool =
  | 'background'
  | 'dispatcher'
  | 'webhooks'
  | 'messages'
  | 'calendars'
  | 'imports'
  | 'reverts'
  | 'payments'
  | 'exports';

const second = 1000;
const minute = 60 * second;

/** The work of jobs that test clocks also need. */
const buildClockedJobs = ({ billing, messages, webhookSender }: BackgroundServices): ClockedJobs => ({
  'change-sets': expireChangeSets,
  billing: (context) => runBilling(context, billing),
  sla: handleSlaClocks,
  bookings: completePastBookings,
  'expiring-keys': announceExpiringKeys,
  messages: (context) => sendMessages(context, messages, ['email', 'sms', 'whatsapp']),
  'run-decisions': applyRunDecisions,
  campaigns: runCampaigns,
  trash: emptyTrash,
  webhooks: (context) => webhookSender.run(context),
});

/** The pool of each kind of this work: that of its job, so that test clocks delay only work of the same kind. */
const clockedPools: Readonly<Record<ClockedWork, BackgroundPool>> = {
  'change-sets': 'background',
  billing: 'payments',
  sla: 'background',
  bookings: 'background',
  'expiring-keys': 'background',
  messages: 'messages',
  'run-decisions': 'messages',
  campaigns: 'background',
  trash: 'background',
  webhooks: 'webhooks',
};

/** Returns a job for each pool that handles what is due in test modes whose clock is ahead. */
function buildTestClockJobs(): Job<BackgroundServices, BackgroundPool>[] {
  const works = Object.keys(clockedPools) as ClockedWork[];
  return [...Map.groupBy(works, (name) => clockedPools[name])].map(([pool, ofPool]) => {
    const run = createClockRun(ofPool);
    return {
      name: 'test-clocks',
      pool,
      intervalMs: second,
      batchSize: 100,
      timeoutMs: 5 * second,
      run: (context, services) => run(context, buildClockedJobs(services)),
    };
  });
}

/** Jobs that run once per server, in its first process. */
export const backgroundJobs: readonly Job<BackgroundServices, BackgroundPool>[] = [
  // Assigns committed events their feed positions. Woken by each commit with events. The interval
  // finds the events of other servers.
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
  // Creates deliveries of events with positions. Woken by the dispatcher. Backs off under
  // foreground load.
  {
    name: 'webhook-matcher',
    pool: 'webhooks',
    intervalMs: 100,
    batchDelayMs: 50,
    batchSize: 500,
    timeoutMs: 3 * second,
    run: (context, { webhookMatcher }) => webhookMatcher.run(context),
  },
  // Sends webhook deliveries. A batch consists of subscriptions. Attempts outlast a run. An attempt
  // that is not recorded at shutdown is sent again.
  {
    name: 'webhooks',
    pool: 'webhooks',
    intervalMs: 200,
    batchSize: 100,
    timeoutMs: 5 * second,
    pending: { settled: ({ webhookSender }) => webhookSender.settled(), shutdownGraceMs: 3 * second },
    run: (context, { webhookSender }) => webhookSender.run(context),
  },
  // Sends mails of the service. The mails of a batch are sent concurrently.
  {
    name: 'mails',
    pool: 'platform',
    intervalMs: second,
    batchSize: 5,
    run: (context, { mails }) => deliverMails(context, mails),
  },
  // Sends approved messages. A batch consists of tenant and channel pairs. One job per provider, so
  // that a slow provider delays only its own messages.
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
  // Applies decisions about campaign runs. A batch consists of drafts.
  {
    name: 'run-decisions',
    pool: 'messages',
    intervalMs: second,
    batchSize: 500,
    timeoutMs: 10 * second,
    run: applyRunDecisions,
  },
  // Starts scheduled campaigns, prepares their drafts, and withdraws those of cancelled ones. A
  // batch consists of records or drafts.
  {
    name: 'campaigns',
    pool: 'background',
    intervalMs: second,
    batchSize: 1000,
    timeoutMs: 10 * second,
    run: runCampaigns,
  },
  // Indexes the texts of records for search. A batch consists of scanned changes. Searches also
  // read changes that are not indexed yet.
  {
    name: 'search',
    pool: 'background',
    intervalMs: second,
    batchSize: 20_000,
    timeoutMs: 5 * second,
    run: (context, { searchIndexer }) => searchIndexer.run(context),
  },
  // Writes the rows of imports in chunks. A batch consists of imports. Backs off under foreground load.
  {
    name: 'imports',
    pool: 'imports',
    intervalMs: 500,
    batchSize: 50,
    timeoutMs: 10 * second,
    run: (context, { imports }) => runImports(context, imports),
  },
  // Plans and applies reverts in chunks. A batch consists of reverts. Backs off under foreground load.
  {
    name: 'reverts',
    pool: 'reverts',
    intervalMs: 500,
    batchSize: 50,
    timeoutMs: 10 * second,
    run: (context, { reverts }) => runReverts(context, reverts),
  },
  // Expires change sets without a decision. A batch consists of change sets.
  {
    name: 'change-sets',
    pool: 'background',
    intervalMs: 10 * second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: expireChangeSets,
  },
  // Moves what was too much for the transaction of a merge or its undo. A batch consists of items or
  // references of a merge.
  {
    name: 'merges',
    pool: 'background',
    intervalMs: 500,
    batchSize: 500,
    timeoutMs: 5 * second,
    run: runMerges,
  },
  // Clears references to deleted records. A batch consists of records, which stay locked meanwhile.
  {
    name: 'reference-clearing',
    pool: 'background',
    intervalMs: second,
    batchSize: 200,
    timeoutMs: 5 * second,
    run: clearPendingReferences,
  },
  // Restores references to restored records. A batch consists of records, which stay locked meanwhile.
  {
    name: 'reference-restoring',
    pool: 'background',
    intervalMs: second,
    batchSize: 200,
    timeoutMs: 5 * second,
    run: restorePendingReferences,
  },
  // Removes records for good that have been in the trash for 30 days. A batch consists of items of a record.
  {
    name: 'trash',
    pool: 'background',
    intervalMs: minute,
    batchSize: 1000,
    timeoutMs: 5 * second,
    run: emptyTrash,
  },
  // Expires files of exports, and writes new ones. A batch consists of rows. Exports outlast a run.
  // An export that is not complete at shutdown starts again.
  {
    name: 'exports',
    pool: 'exports',
    intervalMs: second,
    batchSize: 1000,
    timeoutMs: 5 * second,
    pending: { settled: ({ exporter }) => exporter.settled(), shutdownGraceMs: 3 * second },
    run: (context, { exporter }) => exporter.run(context),
  },
  // Writes events to external calendars, and removes them.
  {
    name: 'calendars',
    pool: 'calendars',
    intervalMs: second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { calendars }) => runCalendarOrders(context, calendars),
  },
  // Reads newly connected calendars. Their users cannot be booked until then, so they do not wait
  // for slow calendars.
  {
    name: 'calendars',
    pool: 'calendars',
    intervalMs: second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { calendars }) => lookAtUnreadCalendars(context, calendars),
  },
  // Reads each external calendar every five minutes.
  {
    name: 'calendars',
    pool: 'calendars',
    intervalMs: 5 * second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { calendars }) => lookAtCalendars(context, calendars),
  },
  // Performs time-driven steps of subscriptions, and finishes operations that were interrupted.
  {
    name: 'billing',
    pool: 'payments',
    intervalMs: 5 * second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { billing }) => runBilling(context, billing),
  },
  // Handles due SLA clocks: breaches, reminders, escalations.
  {
    name: 'sla',
    pool: 'background',
    intervalMs: 30 * second,
    batchSize: 200,
    timeoutMs: 5 * second,
    run: handleSlaClocks,
  },
  // Completes past bookings.
  {
    name: 'bookings',
    pool: 'background',
    intervalMs: minute,
    batchSize: 500,
    timeoutMs: 5 * second,
    run: completePastBookings,
  },
  // Emits events for API keys that expire soon.
  {
    name: 'expiring-keys',
    pool: 'background',
    intervalMs: minute,
    batchSize: 100,
    timeoutMs: 3 * second,
    run: announceExpiringKeys,
  },
  // Handle what is due in test modes whose clock is ahead of the real time, with the work of other
  // jobs. A batch consists of clocks, and of items of that work.
  ...buildTestClockJobs(),
  // Deletes expired rows. A batch consists of the rows of one statement, few enough for its timeout
  // across any number of tenants.
  {
    name: 'sweeps',
    pool: 'platform',
    intervalMs: 10 * minute,
    batchSize: 1000,
    run: (context, { files }) => sweepAll(context, files),
  },
];

/** Dependencies of the jobs in processes that serve requests. */
export interface ServingServices {
  workforces: WorkforceServices;
}

/** Jobs that each serving process runs, because their steps are API operations. */
export const servingJobs: readonly Job<ServingServices, 'workforces'>[] = [
  // Performs the due steps of workforce runs.
  {
    name: 'workforces',
    pool: 'workforces',
    intervalMs: second,
    batchSize: 100,
    timeoutMs: 5 * second,
    run: (context, { workforces }) => runWorkforces(context, workforces),
  },
];

/** The distinct names of all jobs. */
export const jobNames: readonly string[] = [...new Set([...backgroundJobs, ...servingJobs].map(({ name }) => name))];
