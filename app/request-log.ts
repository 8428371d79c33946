// Opens the request log of a process: its queue and its connection.
import { insertRequestBlock } from '../db/access/requests.ts';
import type { LoggedRequest } from '../domain/access/logged-requests.ts';
import { toBlocks } from '../domain/access/request-blocks.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import { RequestLog } from '../runtime/telemetry/request-log.ts';
import { type DatabaseSettings, openRequestLogPool } from './pools.ts';

export interface OpenRequestLog {
  add(request: LoggedRequest): void;
  /** Requests that were not recorded, since the start. */
  readonly dropped: number;
  /** Writes what is queued, and closes the connection. */
  close(): Promise<void>;
}

export function openRequestLog(settings: DatabaseSettings, log: Log): OpenRequestLog {
  const pool = openRequestLogPool(settings);
  const requests = new RequestLog<LoggedRequest>(
    (rows) =>
      pool.use(async (sql) => void (await Promise.all(toBlocks(rows).map((block) => insertRequestBlock(sql, block))))),
    (error, rows) => log.warn({ rows, err: { message: String(error) } }, 'requests were not recorded'),
  );
  return {
    add: (request) => requests.add(request),
    get dropped() {
      return requests.dropped;
    },
    async close() {
      await requests.flush();
      await pool.close(1);
    },
  };
}
