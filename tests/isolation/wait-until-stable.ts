// Waits until a server's jobs are idle, because their effects would differ between runs.
import { setTimeout as sleep } from 'node:timers/promises';
import { inDatabase } from '../support/databases.ts';

/** Milliseconds in which every job runs once (the servers of databases.ts). */
const round = 3500;

/** Equal polls after which the jobs are idle. */
const looks = 4;

/** Waits until the jobs of a server have changed nothing visible or logged for a while. */
export function waitUntilStable(url: string): Promise<void> {
  return inDatabase(url, async (sql) => {
    const noted = async (): Promise<string | undefined> => {
      const [row] = await sql<{ noted: string }[]>`
        select concat_ws(' ', (select count(*) from audit_logs), (select count(*) from outbox_events),
          (select count(*) from feed_events), (select count(*) from webhook_deliveries)) as noted`;
      return row?.noted;
    };
    let last = await noted();
    for (let same = 0; same < looks; ) {
      await sleep(round / looks);
      const now = await noted();
      same = now === last ? same + 1 : 0;
      last = now;
    }
  });
}
