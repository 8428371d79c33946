// Waits until what a server does by itself is done, which would be told in between each time.
import { setTimeout as sleep } from 'node:timers/promises';
import { inDatabase } from '../support/databases.ts';

/** Milliseconds in which every round comes by once (the servers of databases.ts). */
const round = 3500;

/** Looks that say the same, after which a round has found nothing to do. */
const looks = 4;

/** Waits until a round of a server has changed nothing that is told or logged. */
export function settled(url: string): Promise<void> {
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
