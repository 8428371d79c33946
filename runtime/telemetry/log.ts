// The log: one line of JSON per request and per event of the server, never a secret.
import { type Logger, pino } from 'pino';
import { timestamp } from '../http/envelope.ts';

export type Log = Logger;

/** What is noted of a request. */
export interface RequestLine {
  requestId: string;
  operation: string;
  method: string;
  status: number;
  milliseconds: number;
  /** Absent for public operations and refused credentials. */
  caller: { companyId: string; actor: { id: string }; testMode: boolean } | undefined;
  error: string | undefined;
}

export interface OpenLog {
  log: Log;
  /** Writes the line of a request. */
  noteRequest: (line: RequestLine) => void;
  flush: () => void;
}

/** Characters that are written at once: a pipe keeps so many in one piece, also when several workers write to it. */
const atOnce = 4096;

/**
 * Opens the log on standard output.
 * @param level pino's level names, or silent
 */
export function openLog(level: string): OpenLog {
  const destination = pino.destination({ fd: 1, sync: false, maxWrite: atOnce });
  // Lines are gathered here: the destination would measure all that it holds again at every line.
  let gathered = '';
  const handOver = (): void => {
    if (gathered === '') return;
    const text = gathered;
    gathered = '';
    destination.write(text);
  };
  const lines = {
    write(line: string): void {
      if (gathered.length + line.length > atOnce) handOver();
      gathered += line;
    },
  };
  setInterval(handOver, 200).unref();
  const log = pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: () => `,"time":"${timestamp(Date.now())}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    lines,
  );
  const noteRequest = log.isLevelEnabled('info')
    ? (line: RequestLine) => lines.write(requestText(line))
    : () => undefined;
  const flush = (): void => {
    handOver();
    destination.flushSync();
  };
  process.once('exit', flush);
  return { log, noteRequest, flush };
}

/**
 * Raises an alert: something that somebody must look at, with the kind to tell it by. Once per outage, not per request.
 * @param kind lower case, with underscores; the ones there are stand in docs/operations.md
 */
export function raiseAlert(log: Log, kind: string, message: string, details: Record<string, unknown> = {}): void {
  log.fatal({ alert: kind, severity: 'critical', ...details }, message);
}

/** Has what nobody caught written as a line of the log. A forgotten promise must not end all other requests; anything else ends the process. */
export function watchUncaught({ log, flush }: OpenLog, isOutage: (error: unknown) => boolean): void {
  process.on('unhandledRejection', (error) => {
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    // The database's driver asks for its types on its own account, and nobody waits for that.
    if (isOutage(error)) log.warn({ err: { message } }, 'database driver error');
    else log.error({ err: { message, stack } }, 'unexpected error');
  });
  process.on('uncaughtException', ({ message, stack }) => {
    raiseAlert(log, 'process_crashed', 'uncaught error: the process exits', { err: { message, stack } });
    flush();
    process.exit(1);
  });
}

/** Written by hand, at a third of the cost: there is one per request, and of its texts only the actor is not ours. */
function requestText(line: RequestLine): string {
  const { caller } = line;
  const who = caller
    ? `,"company":"${caller.companyId}","actor":${JSON.stringify(caller.actor.id)},"test_mode":${caller.testMode}`
    : '';
  const error = line.error === undefined ? '' : `,"error":"${line.error}"`;
  return `{"level":"info","time":"${timestamp(Date.now())}","pid":${process.pid},"request_id":"${line.requestId}","operation":"${line.operation}","method":"${line.method}","status":${line.status},"ms":${Math.round(line.milliseconds * 10) / 10}${who}${error},"msg":"request"}\n`;
}
