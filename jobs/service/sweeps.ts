// Regular cleaning that no request waits for, and the next month's partition of the audit log.

import { dropAuditMonths, sweepOtherAuditLogs } from '../../db/access/audit-logs.ts';
import { sweepArtifacts } from '../../db/access/oauth-artifacts.ts';
import { sweepBlocks } from '../../db/access/quota.ts';
import { sweepSessions } from '../../db/access/sessions.ts';
import { sweepForms } from '../../db/access/shown-secrets.ts';
import { sweepDeliveries } from '../../db/automation/webhook-sending.ts';
import { sweepRuns } from '../../db/automation/workforce-runs.ts';
import { sweepProviderEvents } from '../../db/billing/provider-customers.ts';
import { sweepKeyDays } from '../../db/billing/usage.ts';
import { sweep } from '../../db/client/idempotency.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import { sweepMails } from '../../db/messaging/mails.ts';
import { sweepReports } from '../../db/messaging/received-reports.ts';
import { sweepEvents } from '../../db/records/feed.ts';
import { sweepHeldTimes, sweepReservations } from '../../db/scheduling/reservations.ts';
import { sweepClocks, sweepNotifications } from '../../db/settings/sla-due.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { type SweptFiles, sweepFiles, sweepUploads } from '../records/stored-files.ts';
import { everyRound } from '../runner.ts';

const every = 10 * 60_000;
/** Rows that are removed at once: few enough for the time of a statement, however many companies they are of. */
const batch = 1000;

/**
 * Starts the sweeps.
 * @returns a function that stops them, once the one on its way has ended or a few seconds have passed
 */
export function startSweeps(platform: Pool, files: SweptFiles, log: Log): () => Promise<void> {
  const run = async (): Promise<void> => {
    await platform.use((sql) => sql`select make_audit_partitions(current_date)`);
    const months = await platform.use((sql) => dropAuditMonths(sql, new Date()));
    const removed = {
      answers: await removeAll(platform, sweep),
      blocks: await removeAll(platform, sweepBlocks),
      sessions: await removeAll(platform, sweepSessions),
      forms: await removeAll(platform, sweepForms),
      oauth_artifacts: await removeAll(platform, sweepArtifacts),
      mails: await removeAll(platform, sweepMails),
      clocks: await removeAll(platform, sweepClocks),
      notifications: await removeAll(platform, sweepNotifications),
      events: await removeAll(platform, sweepEvents),
      audit_months: months,
      audit_rows: await removeAll(platform, sweepOtherAuditLogs),
      deliveries: await removeAll(platform, sweepDeliveries),
      key_days: await removeAll(platform, sweepKeyDays),
      reservations: await removeAll(platform, sweepReservations),
      held_times: await removeAll(platform, sweepHeldTimes),
      provider_events: await removeAll(platform, sweepProviderEvents),
      workforce_runs: await removeAll(platform, sweepRuns),
      reports: await removeAll(platform, sweepReports),
    };
    const swept = {
      files: await sweepFiles(platform, files.remove, log),
      uploads: await sweepUploads(files.uploads),
    };
    if (swept.files + swept.uploads > 0) log.info({ removed: swept }, 'swept files that nothing refers to');
    if (Object.values(removed).some((count) => count > 0)) log.info({ removed }, 'swept what is past its time');
  };
  return everyRound(every, run, log.child({ job: 'sweeps' }));
}

/** Removes batch after batch, until one is not full. */
async function removeAll(
  platform: Pool,
  remove: (sql: Sql, limit: number, now: Date) => Promise<number>,
): Promise<number> {
  const now = new Date();
  let removed = 0;
  for (let last = batch; last >= batch; removed += last) last = await platform.use((sql) => remove(sql, batch, now));
  return removed;
}
