// The log: one JSON line per request and per event of the server, without secrets.
import { type Logger, pino } from 'pino';
import { formatTimestamp } from '../http/envelope.ts';

export type Log = Logger;

/** The log line of a request. */
export interface RequestLine {
  requestId: string;
  operation: string;
  method: string;
  status: number;
  milliseconds: number;
  /** undefined for public operations and rejected credentials. */
  caller: { companyId: string; actor: { id: string }; testMode: boolean } | undefined;
  error: string | undefined;
}

export interface OpenLog {
  log: Log;
  /** Writes the log line of a request. */
  noteRequest: (line: RequestLine) => void;
  flush: () => void;
}

/**
 * Maximum characters per write. A pipe keeps a write of this size in one piece, even if several
 * workers write to it.
 */
const maxWrite = 4096;

/**
 * Opens the log on standard output.
 * @param level pino's level names, or silent
 */
export function openLog(level: string): OpenLog {
  const destination = pino.destination({ fd: 1, sync: false, maxWrite });
  // Lines are buffered here, because the destination would measure its whole buffer at every line.
  let buffered = '';
  const flushLines = (): void => {
    if (buffered === '') return;
    const text = buffered;
    buffered = '';
    destination.write(text);
  };
  const lines = {
    write(line: string): void {
      if (buffered.length + line.length > maxWrite) flushLines();
      buffered += line;
    },
  };
  setInterval(flushLines, 200).unref();
  const log = pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: () => `,"time":"${formatTimestamp(Date.now())}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    lines,
  );
  const noteRequest = log.isLevelEnabled('info')
    ? (line: RequestLine) => lines.write(formatRequest(line))
    : () => undefined;
  const flush = (): void => {
    flushLines();
    destination.flushSync();
  };
  process.once('exit', flush);
  return { log, noteRequest, flush };
}

/**
 * Raises an alert, which an operator must look at. Raised once per outage, not per request.
 * @param kind in lower case with underscores; docs/operations.md lists all kinds
 */
export function raiseAlert(log: Log, kind: string, message: string, details: Record<string, unknown> = {}): void {
  log.fatal({ alert: kind, severity: 'critical', ...details }, message);
}

/**
 * Logs uncaught errors. An unhandled rejection must not end all other requests, so the process
 * continues; any other uncaught error ends it.
 */
export function watchUncaught({ log, flush }: OpenLog, isOutage: (error: unknown) => boolean): void {
  process.on('unhandledRejection', (error) => {
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    // The database driver queries its types in the background, and no caller awaits that.
    if (isOutage(error)) log.warn({ err: { message } }, 'database driver error');
    else log.error({ err: { message, stack } }, 'unexpected error');
  });
  process.on('uncaughtException', ({ message, stack }) => {
    raiseAlert(log, 'process_crashed', 'uncaught error: the process exits', { err: { message, stack } });
    flush();
    process.exit(1);
  });
}

/**
 * Concatenated by hand, which takes a third of the time. Only the actor's id can contain characters
 * that need escaping.
 */
function formatRequest(line: RequestLine): string {
  const { caller } = line;
  const who = caller
    ? `,"company":"${caller.companyId}","actor":${JSON.stringify(caller.actor.id)},"test_mode":${caller.testMode}`
    : '';
  const error = line.error === undefined ? '' : `,"error":"${line.error}"`;
  return `{"level":"info","time":"${formatTimestamp(Date.now())}","pid":${process.pid},"request_id":"${line.requestId}","operation":"${line.operation}","method":"${line.method}","status":${line.status},"ms":${Math.round(line.milliseconds * 10) / 10}${who}${error},"msg":"request"}\n`;
}
