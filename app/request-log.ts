// Opens the request log of a process: its queue and its connection.
import { insertRequestBlocks } from '../db/access/requests.ts';
import type { LoggedRequest } from '../domain/access/logged-requests.ts';
import { type RequestBlock, RequestQueue } from '../domain/access/request-blocks.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import { RequestLog } from '../runtime/telemetry/request-log.ts';
import { type DatabaseSettings, openRequestLogPool } from './pools.ts';

/** Maximum number of blocks in a statement. One for each block would cost more than twice as much. */
const blocksTogether = 100;

export interface OpenRequestLog {
  add(request: LoggedRequest): void;
  /** Requests that were not recorded, since the start. */
  readonly dropped: number;
  /** Writes what is queued, and closes the connection. */
  close(): Promise<void>;
}

export function openRequestLog(settings: DatabaseSettings, log: Log): OpenRequestLog {
  const pool = openRequestLogPool(settings);
  const requests = new RequestLog<LoggedRequest, RequestBlock>(
    new RequestQueue(),
    (blocks) =>
      pool.use(async (sql) => {
        for (let start = 0; start < blocks.length; start += blocksTogether)
          await insertRequestBlocks(sql, blocks.slice(start, start + blocksTogether));
      }),
    (error, requests) => log.warn({ requests, err: { message: String(error) } }, 'requests were not recorded'),
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
