// Completes bookings whose time has passed and that were not changed.
import { completeBookings } from '../../db/scheduling/bookings.ts';
import { getDueTime, type JobContext } from '../runner.ts';

/** Completes all past bookings in batches. */
export async function completePastBookings(context: JobContext): Promise<void> {
  const { platform, batchSize, signal } = context;
  for (let last = batchSize; last === batchSize && !signal.aborted; )
    last = await platform.use((sql) => completeBookings(sql, batchSize, getDueTime(context)));
}
