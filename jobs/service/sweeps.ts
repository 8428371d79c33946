// Deletes expired rows, and creates the next partitions of the audit log and the request log.
import { dropAuditMonths, sweepOtherAuditLogs } from '../../db/access/audit-logs.ts';
import { sweepArtifacts } from '../../db/access/oauth-artifacts.ts';
import { dropRequestDays, sweepOtherRequests } from '../../db/access/requests.ts';
import { sweepSessions } from '../../db/access/sessions.ts';
import { sweepForms } from '../../db/access/shown-secrets.ts';
import { sweepDeliveries } from '../../db/automation/webhook-sending.ts';
import { sweepRuns } from '../../db/automation/workforce-runs.ts';
import { sweepProviderEvents } from '../../db/billing/provider-customers.ts';
import { sweepLeases } from '../../db/billing/quota.ts';
import { sweepKeyDays } from '../../db/billing/usage.ts';
import { sweep } from '../../db/client/idempotency.ts';
import type { Sql } from '../../db/client/pool.ts';
import { sweepMails } from '../../db/messaging/mails.ts';
import { sweepReports } from '../../db/messaging/received-reports.ts';
import { sweepChangeSets } from '../../db/records/change-sets.ts';
import { sweepExports } from '../../db/records/exports.ts';
import { sweepEvents } from '../../db/records/feed.ts';
import { sweepImports } from '../../db/records/imports.ts';
import { sweepNotifications } from '../../db/records/notifications.ts';
import { sweepReverts } from '../../db/records/reverts.ts';
import { sweepHeldTimes, sweepReservations } from '../../db/scheduling/reservations.ts';
import { sweepClocks } from '../../db/settings/sla-due.ts';
import { type SweptFiles, sweepFiles, sweepUploads } from '../records/stored-files.ts';
import type { JobContext } from '../runner.ts';

/**
 * Creates the next partitions of a log. Rows without one go to the default partition. After a pause,
 * that partition can be too large to create others in time. This must not stop the sweeps, which
 * empty it.
 */
async function createPartitions({ platform, log }: JobContext, name: 'audit log' | 'request log'): Promise<void> {
  await platform
    .use((sql) =>
      name === 'audit log'
        ? sql`select make_audit_partitions(current_date)`
        : sql`select make_request_partitions(current_date)`,
    )
    .catch((error: unknown) =>
      log.error({ err: { message: String(error) } }, `partitions of the ${name} were not created`),
    );
}

/** Deletes expired rows. A started sweep always completes. */
export async function sweepAll(context: JobContext, files: SweptFiles): Promise<void> {
  const { platform, log, now } = context;
  await createPartitions(context, 'audit log');
  const months = await platform.use((sql) => dropAuditMonths(sql, now()));
  const days = await platform.use((sql) => dropRequestDays(sql, now()));
  await createPartitions(context, 'request log');
  const removed = {
    answers: await removeAll(context, sweep),
    blocks: await removeAll(context, sweepLeases),
    sessions: await removeAll(context, sweepSessions),
    forms: await removeAll(context, sweepForms),
    oauth_artifacts: await removeAll(context, sweepArtifacts),
    mails: await removeAll(context, sweepMails),
    clocks: await removeAll(context, sweepClocks),
    notifications: await removeAll(context, sweepNotifications),
    events: await removeAll(context, sweepEvents),
    exports: await removeAll(context, sweepExports),
    audit_months: months,
    audit_rows: await removeAll(context, sweepOtherAuditLogs),
    request_days: days,
    request_rows: await removeAll(context, sweepOtherRequests),
    deliveries: await removeAll(context, sweepDeliveries),
    key_days: await removeAll(context, sweepKeyDays),
    reservations: await removeAll(context, sweepReservations),
    held_times: await removeAll(context, sweepHeldTimes),
    provider_events: await removeAll(context, sweepProviderEvents),
    workforce_runs: await removeAll(context, sweepRuns),
    reports: await removeAll(context, sweepReports),
    imports: await removeAll(context, sweepImports),
    reverts: await removeAll(context, sweepReverts),
    change_sets: await removeAll(context, sweepChangeSets),
  };
  const swept = {
    files: await sweepFiles(context, files.remove),
    uploads: await sweepUploads(files.uploads, now()),
  };
  if (swept.files + swept.uploads > 0) log.info({ removed: swept }, 'removed unreferenced files');
  if (Object.values(removed).some((count) => count > 0)) log.info({ removed }, 'removed expired data');
}

/** Deletes in batches until a batch is not full. */
async function removeAll(
  { platform, batchSize, now: clock }: JobContext,
  remove: (sql: Sql, limit: number, now: Date) => Promise<number>,
): Promise<number> {
  const now = clock();
  let removed = 0;
  for (let last = batchSize; last >= batchSize; removed += last)
    last = await platform.use((sql) => remove(sql, batchSize, now));
  return removed;
}
