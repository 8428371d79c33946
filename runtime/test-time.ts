// The time of a caller. In test mode, the clock of its workspace can be ahead of the real time.
import type { Caller } from './caller.ts';

type Clocked = Pick<Caller, 'testMode' | 'clockAheadSeconds'>;

/** Moves a real time to the clock of a caller or a key. */
export function toTenantTime(time: Date, { testMode, clockAheadSeconds = 0 }: Clocked): Date {
  return testMode && clockAheadSeconds > 0 ? new Date(time.getTime() + clockAheadSeconds * 1000) : time;
}

/** Moves a time of the clock of a caller back to the real time. */
export function toRealTime(time: Date, { testMode, clockAheadSeconds = 0 }: Clocked): Date {
  return testMode && clockAheadSeconds > 0 ? new Date(time.getTime() - clockAheadSeconds * 1000) : time;
}
