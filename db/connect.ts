// Connections: a pool whose waits and queries are bounded, which the driver's own pool is not.
import { connect, type Socket } from 'node:net';
import postgres from 'postgres';

// biome-ignore lint/complexity/noBannedTypes: the driver's own default for its type parameter.
export type Sql = postgres.ISql<{}>;

export interface PoolOptions {
  url: string;
  /** The role that every statement of this pool runs under; undefined: the one of the URL, for migrations. */
  role: string | undefined;
  lanes: number;
  prepare: boolean;
  /** True: commits do not wait for the disk, and a crash of the database may take the last instants with it. */
  commitsMayBeLost?: boolean;
  /** Milliseconds that a request may wait for a free connection. */
  wait: number;
  /** Milliseconds after which the server itself gives a statement up. */
  statementTimeout: number;
}

/** Milliseconds beyond a statement's time after which its connection is cut: a server that hangs does not give up by itself. */
export const grace = 200;

/** Bytes that are read from the database at once. */
const readSize = 65_536;
/** Milliseconds after which PostgreSQL ends a transaction that nothing is asked of: the server at the other end has gone, unheard. */
const abandonedAfter = 10_000;

/** One connection. Statements sent on it run in the order they were sent, so they can be sent without waiting. */
export interface Lane {
  readonly sql: postgres.Sql;
  /** True after the connection failed; the lane is then thrown away, never used again. */
  broken: boolean;
  /** True while a transaction that only read waits for its commit, which goes with the next statement. */
  unended: boolean;
  /** Cuts the connection at once, so that a server that hangs cannot run later what was sent on it. */
  cut(): void;
}

/** Thrown when no connection became free in time. */
export class PoolExhausted extends Error {
  readonly code = 'POOL_EXHAUSTED';
}

/**
 * The types that differ from the driver's defaults: 64-bit integers are numbers, since all of ours are safe; dates stay text;
 * times are read as ISO 8601, since the driver's way moves the years 1 to 99 into the last two centuries.
 */
const types = {
  bigint: { to: 20, from: [20], serialize: (value: number) => String(value), parse: (text: string) => Number(text) },
  numeric: {
    to: 1700,
    from: [1700],
    serialize: (value: number) => String(value),
    parse: (text: string) => Number(text),
  },
  moment: {
    to: 1184,
    from: [1184],
    serialize: (value: Date | string) => (value instanceof Date ? value.toISOString() : value),
    parse: (text: string) => new Date(text.replace(' ', 'T').replace('+00', 'Z')),
  },
  day: { to: 1082, from: [1082], serialize: (value: string) => value, parse: (text: string) => text },
};

/** How a pool is used, for the metrics. */
export interface PoolUsage {
  lanes: number;
  free: number;
  /** Who waits for a connection now. */
  waiting: number;
  /** Since the start: who had to wait, for how many milliseconds together, and who waited in vain. */
  waits: number;
  waitedMilliseconds: number;
  exhausted: number;
}

/** A fixed number of connections, opened when first needed. */
export class Pool {
  readonly #options: PoolOptions;
  readonly #free: Lane[] = [];
  readonly #waiting: {
    resolve: (lane: Lane) => void;
    reject: (error: Error) => void;
    timer: NodeJS.Timeout;
    since: number;
  }[] = [];
  readonly #all = new Set<Lane>();
  #closed = false;
  #waits = 0;
  #waitedMilliseconds = 0;
  #exhausted = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    for (let index = 0; index < options.lanes; index += 1) this.#free.push(this.#newLane());
  }

  #newLane(): Lane {
    const { url, role, prepare, commitsMayBeLost, statementTimeout } = this.#options;
    let socket: Socket | undefined;
    const options = {
      max: 1,
      prepare,
      types,
      connect_timeout: 2,
      idle_timeout: 0,
      max_lifetime: null,
      onnotice: () => undefined,
      onclose: () => lane.cut(),
      // The driver connects again by itself, and would run the rest of a transaction outside of it: a lane connects once.
      socket: ({ host, port }: { host: string[]; port: number[] }) => {
        if (socket) {
          lane.cut();
          throw Object.assign(new Error('the connection failed'), { code: 'CONNECTION_CLOSED' });
        }
        const opened: Socket = connect({
          port: port[0] as number,
          host: host[0],
          noDelay: true,
          // Read into one buffer: node would take 64 KB of memory for each read, and give most of it back.
          onread: {
            buffer: Buffer.allocUnsafeSlow(readSize),
            callback: (size, buffer) => opened.emit('data', Buffer.from(buffer.subarray(0, size) as Buffer)),
          },
        });
        socket = opened;
        return Object.assign(opened, { host: host[0], port: port[0] });
      },
      connection: {
        TimeZone: 'UTC',
        application_name: `crm ${role ?? 'owner'}`,
        idle_in_transaction_session_timeout: abandonedAfter,
        // And where PostgreSQL waits in the middle of a statement, which that time does not count: a dead network is noticed after 11 s.
        ...{ tcp_keepalives_idle: 5, tcp_keepalives_interval: 2, tcp_keepalives_count: 3 },
        ...(statementTimeout > 0 ? { statement_timeout: statementTimeout } : {}),
        ...(role ? { options: `-c role=${role}${commitsMayBeLost ? ' -c synchronous_commit=off' : ''}` } : {}),
      },
    };
    const lane: Lane = {
      sql: postgres(url, options) as unknown as postgres.Sql,
      broken: false,
      unended: false,
      cut() {
        if (lane.broken) return;
        lane.broken = true;
        // A reset, not an orderly end: PostgreSQL then stops at its next answer instead of running what is still queued.
        socket?.resetAndDestroy();
        void lane.sql.end({ timeout: 0 }).catch(() => undefined);
      },
    };
    this.#all.add(lane);
    return lane;
  }

  /**
   * Takes a connection.
   * @throws PoolExhausted when none became free in time
   */
  acquire(): Promise<Lane> {
    for (;;) {
      const lane = this.#free.pop();
      if (!lane) break;
      if (!lane.broken) return Promise.resolve(lane);
      this.#replace(lane);
    }
    if (this.#closed) return Promise.reject(new PoolExhausted('the pool is closed'));
    return new Promise((resolve, reject) => {
      const waiter = {
        resolve,
        reject,
        since: performance.now(),
        timer: setTimeout(() => {
          this.#waitedMilliseconds += this.#options.wait;
          this.#exhausted += 1;
          this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
          reject(new PoolExhausted(`no connection became free in ${this.#options.wait} ms`));
        }, this.#options.wait),
      };
      this.#waits += 1;
      this.#waiting.push(waiter);
    });
  }

  /**
   * Gives a connection back. What was sent on it without waiting still runs first.
   * @param unended a transaction that only read is to be ended: by whoever waits for the connection, with its first statement, else at once
   */
  release(lane: Lane, unended = false): void {
    if (this.#closed || !this.#all.has(lane)) return;
    if (lane.broken) {
      this.#replace(lane);
      return;
    }
    if (unended) lane.unended = true;
    this.#offer(lane);
  }

  /** Closes a connection at once, whatever it is doing, and opens another in its place. */
  destroy(lane: Lane): void {
    if (this.#all.has(lane)) this.#replace(lane);
  }

  #offer(lane: Lane): void {
    const waiter = this.#waiting.shift();
    if (!waiter) {
      endTransaction(lane);
      this.#free.push(lane);
      return;
    }
    clearTimeout(waiter.timer);
    this.#waitedMilliseconds += performance.now() - waiter.since;
    waiter.resolve(lane);
  }

  #replace(lane: Lane): void {
    this.#all.delete(lane);
    lane.cut();
    if (!this.#closed) this.#offer(this.#newLane());
  }

  get usage(): PoolUsage {
    return {
      lanes: this.#options.lanes,
      free: this.#free.length,
      waiting: this.#waiting.length,
      waits: this.#waits,
      waitedMilliseconds: this.#waitedMilliseconds,
      exhausted: this.#exhausted,
    };
  }

  /** Runs statements on one connection, without a transaction of its own. */
  async use<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const lane = await this.acquire();
    const overdue = setTimeout(() => this.destroy(lane), this.#options.statementTimeout + grace);
    try {
      endTransaction(lane);
      return await work(lane.sql);
    } finally {
      clearTimeout(overdue);
      this.release(lane);
    }
  }

  /** Ends all connections; those at work may finish within the time. @param seconds 0: at once */
  async close(seconds: number): Promise<void> {
    this.#closed = true;
    for (const waiter of this.#waiting.splice(0)) {
      clearTimeout(waiter.timer);
      waiter.reject(new PoolExhausted('the pool is closed'));
    }
    await Promise.all([...this.#all].map((lane) => lane.sql.end({ timeout: seconds }).catch(() => undefined)));
  }
}

function endTransaction(lane: Lane): void {
  if (!lane.unended) return;
  lane.unended = false;
  const committed = lane.sql.unsafe('commit').execute();
  committed.catch(() => undefined);
}

/**
 * Has a statement planned anew instead of kept prepared. For statements whose text follows what callers ask for: kept ones
 * would pile up on the connection.
 */
export function unprepared<Query extends Promise<unknown>>(query: Query): Query {
  (query as unknown as { options: { prepare: boolean } }).options.prepare = false;
  return query;
}

/** Classes and codes with which PostgreSQL says that it cannot work now: no connection, no resources, shutting down, given up, deadlock. */
const outage = /^(08|53|57|58|25006|40001|40P01|55P03|XX000)/;
const driverOutage = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'POOL_EXHAUSTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOTFOUND',
  'ETIMEDOUT',
  'EAI_AGAIN',
]);

/** True when an error says that the database cannot do its work now, whatever the statement was. */
export function isOutage(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && (driverOutage.has(code) || (code.length === 5 && outage.test(code)));
}

/** True when the database gave a statement up because it took too long. */
export function isOverdue(error: unknown): boolean {
  return ((error ?? {}) as { code?: unknown }).code === '57014';
}

/** True for a foreign key or unique key that only a change made meanwhile can have broken. */
export function isRace(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === '23503' || code === '23505';
}
