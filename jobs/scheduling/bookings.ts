// Completes bookings whose time has passed and that were not changed.
import { completeBookings } from '../../db/scheduling/bookings.ts';
import { type ClockContext, getDueTime, type JobContext } from '../runner.ts';

/** Completes all past bookings in batches. */
export async function completePastBookings(context: JobContext): Promise<void> {
  const { platform, batchSize, signal } = context;
  for (let last = batchSize; last === batchSize && !signal.aborted; )
    last = await platform.use((sql) => completeBookings(sql, batchSize, getDueTime(context)));
}

/** Completes the bookings of a test mode that are past by its clock, in the same way. */
export async function completeBookingsOfClock(context: ClockContext): Promise<void> {
  const { transaction, batchSize, signal } = context;
  const scope = { companyId: context.clockOf, testMode: true };
  for (let last = batchSize; last === batchSize && !signal.aborted; )
    last = await transaction(scope, (sql) => completeBookings(sql, batchSize, getDueTime(context)));
}
