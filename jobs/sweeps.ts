// Regular cleaning that no request waits for: idempotent answers, sessions, mails, files, SLA clocks and notifications past their time, and the next month's audit partition.
import type { Pool } from '../db/connect.ts';
import { sweep } from '../db/idempotency.ts';
import { sweepMails } from '../db/mails.ts';
import { sweepSessions } from '../db/sessions.ts';
import { sweepSla } from '../db/sla-due.ts';

import type { Log } from '../runtime/log.ts';
import { type SweptFiles, sweepFiles, sweepUploads } from './stored-files.ts';

const every = 10 * 60_000;

/**
 * Starts the sweeps.
 * @returns a function that stops them
 */
export function startSweeps(platform: Pool, files: SweptFiles, log: Log): () => void {
  const run = async (): Promise<void> => {
    try {
      const removed = await platform.use(async (sql) => {
        await sql`select make_audit_partitions(current_date)`;
        const now = new Date();
        return {
          answers: await sweep(sql, now),
          sessions: await sweepSessions(sql, now),
          mails: await sweepMails(sql, now),
          sla: await sweepSla(sql, now),
        };
      });
      const swept = {
        files: await sweepFiles(platform, files.remove, log),
        uploads: await sweepUploads(files.uploads),
      };
      if (swept.files + swept.uploads > 0) log.info({ removed: swept }, 'swept files that nothing refers to');
      if (Object.values(removed).some((count) => count > 0)) log.info({ removed }, 'swept what is past its time');
    } catch (error) {
      log.warn({ err: { message: (error as Error).message } }, 'a sweep failed; the next one tries again');
    }
  };
  const timer = setInterval(() => void run(), every);
  timer.unref();
  return () => clearInterval(timer);
}
