// Completes bookings that are over and were not touched.
import { completeBookings } from '../../db/scheduling/bookings.ts';
import type { JobContext } from '../runner.ts';

/** Completes all that are over, batch by batch. */
export async function completePastBookings({ platform, batchSize, now, signal }: JobContext): Promise<void> {
  for (let last = batchSize; last === batchSize && !signal.aborted; )
    last = await platform.use((sql) => completeBookings(sql, batchSize, now()));
}
