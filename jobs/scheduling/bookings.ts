// Bookings that are over.
import type { Pool } from '../../db/client/pool.ts';
import { completeBookings } from '../../db/scheduling/bookings.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

/** Milliseconds between two looks for bookings that are over. */
const every = 60_000;
const batch = 500;

/** Completes what is over and was not touched. @returns a function that stops it */
export function startBookings(platform: Pool, log: Log): () => Promise<void> {
  const round = async (stop: AbortSignal): Promise<void> => {
    for (let last = batch; last === batch && !stop.aborted; )
      last = await platform.use((sql) => completeBookings(sql, batch, new Date()));
  };
  return everyRound(every, round, log.child({ job: 'bookings' }));
}
