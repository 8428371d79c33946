// Opens the request log of a process: its queue and its connection.
import { insertRequestBlocks } from '../db/access/requests.ts';
import type { LoggedRequest } from '../domain/access/logged-requests.ts';
import { type RequestBlock, readBlock } from '../domain/access/request-blocks.ts';
import type { Log } from '../runtime/telemetry/log.ts';
import { LostRequests, RequestLog } from '../runtime/telemetry/request-log.ts';
import { RequestQueue } from '../runtime/telemetry/request-queue.ts';
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
  const requests = new RequestLog<LoggedRequest, RequestBlock>(new RequestQueue(), write, (error, requests) =>
    log.warn({ requests, err: { message: String(error) } }, 'requests were not recorded'),
  );
  /** Writes blocks. If a statement fails, the others are still sent. */
  async function write(blocks: readonly RequestBlock[]): Promise<void> {
    let lost = 0;
    let cause: unknown;
    for (let start = 0; start < blocks.length; start += blocksTogether) {
      const part = blocks.slice(start, start + blocksTogether);
      try {
        await pool.use((sql) => insertRequestBlocks(sql, part));
      } catch (error) {
        cause = error;
        lost += part.reduce((sum, { requests: text }) => sum + readBlock(text).count, 0);
      }
    }
    if (lost > 0) throw new LostRequests(lost, cause);
  }

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
