// The log: one line of JSON per request and per event of the server, never a secret.
import { type DestinationStream, type Logger, pino } from 'pino';

export type Log = Logger;

/**
 * Opens the log on standard output.
 * @param level pino's level names, or silent
 */
export function openLog(level: string): { log: Log; flush: () => void } {
  const destination = pino.destination({ fd: 1, sync: false, minLength: 4096 });
  const timer = setInterval(() => destination.flush(), 200);
  timer.unref();
  const log = pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination as DestinationStream,
  );
  return { log, flush: () => destination.flushSync() };
}
