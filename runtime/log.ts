// The log: one line of JSON per request and per event of the server, never a secret.
import { type Logger, pino } from 'pino';
import { timestamp } from './envelope.ts';

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

/**
 * Opens the log on standard output.
 * @param level pino's level names, or silent
 */
export function openLog(level: string): OpenLog {
  const destination = pino.destination({ fd: 1, sync: false });
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
      gathered += line;
      if (gathered.length >= 8192) handOver();
    },
  };
  setInterval(handOver, 200).unref();
  const log = pino(
    {
      level,
      base: undefined,
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

/** Written by hand, at a third of the cost: there is one per request, and of its texts only the actor is not ours. */
function requestText(line: RequestLine): string {
  const { caller } = line;
  const who = caller
    ? `,"company":"${caller.companyId}","actor":${JSON.stringify(caller.actor.id)},"test_mode":${caller.testMode}`
    : '';
  const error = line.error === undefined ? '' : `,"error":"${line.error}"`;
  return `{"level":"info","time":"${timestamp(Date.now())}","request_id":"${line.requestId}","operation":"${line.operation}","method":"${line.method}","status":${line.status},"ms":${Math.round(line.milliseconds * 10) / 10}${who}${error},"msg":"request"}\n`;
}
