// A connection pool with bounded waits and queries, which the driver's own pool lacks.
import { connect, type Socket } from 'node:net';
import { startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';
import { DatabaseClock } from './database-clock.ts';
import {
  type Client,
  createClient,
  type Sql,
  type Statement,
  sendBehind,
  sendSimple,
  setPipelined,
} from './pipeline.ts';
import type { Preamble } from './preambles.ts';
import { parseTimestamp } from './timestamps.ts';

export type { Sql } from './pipeline.ts';

export interface PoolOptions {
  url: string;
  /**
   * The role that every statement of this pool runs under. undefined: the role of the URL, for
   * migrations.
   */
  role: string | undefined;
  lanes: number;
  prepare: boolean;
  /**
   * True for a database that is distributed over machines. It forwards a setting with the whole
   * message that contains it, so the message may contain nothing else.
   */
  spread: boolean;
  /** The name of the connections in pg_stat_activity; by default the role. */
  name?: string;
  /** Milliseconds after which PostgreSQL ends an idle transaction, instead of the default. */
  abandonedAfter?: number;
  /**
   * True: commits do not wait for the disk, and a crash of the database may lose the latest ones.
   */
  commitsMayBeLost?: boolean;
  /** Milliseconds that a request may wait for a free connection. */
  wait: number;
  /** Milliseconds after which PostgreSQL cancels a statement. */
  statementTimeout: number;
}

/**
 * Milliseconds beyond a statement's timeout after which its connection is closed: a server that
 * hangs does not cancel it.
 */
export const grace = 200;

/** Bytes of one read from the database. */
const readSize = 65_536;
/**
 * Connections of a pool that are opened at the same time. Opening one costs PostgreSQL many times
 * what a request does. If a new server opened all of them together, its first requests would wait
 * for the last one, and some would time out.
 */
const maxOpening = 2;
/** Requests that may share a connection. */
const maxSharers = 8;
/**
 * Milliseconds after which PostgreSQL ends an idle transaction: the server that began it has
 * probably gone.
 */
const abandonedAfter = 10_000;

/**
 * A connection. It runs statements in the order in which they were sent, so they can be sent
 * without waiting.
 */
export interface PooledConnection {
  readonly sql: Client;
  /** `opened` once the database has responded on it. */
  state: 'new' | 'opening' | 'opened';
  /** True after the connection failed. It is then replaced and never used again. */
  broken: boolean;
  readonly clock: DatabaseClock;
  /** The calls that share it, while there are any: no transaction may begin on it. */
  shared: Shared | undefined;
  /**
   * Closes the connection immediately, so that a server that hangs cannot later run the statements
   * that were sent on it.
   */
  cut(): void;
}

/** A connection, or the wait for one, and how many calls share it. */
interface Shared {
  connection: Promise<PooledConnection>;
  sharers: number;
}

/** Thrown if no connection became free in time. */
class PoolExhausted extends Error {
  readonly code = 'POOL_EXHAUSTED';
}

/**
 * The types that differ from the driver's defaults. 64-bit integers are numbers, because all values
 * here are safe integers. Dates stay text.
 */
const types = {
  bigint: { to: 20, from: [20], serialize: (value: number) => String(value), parse: (text: string) => Number(text) },
  numeric: {
    to: 1700,
    from: [1700],
    serialize: (value: number) => String(value),
    parse: (text: string) => Number(text),
  },
  timestamp: {
    to: 1184,
    from: [1184],
    serialize: (value: Date | string) => (value instanceof Date ? value.toISOString() : value),
    parse: parseTimestamp,
  },
  day: { to: 1082, from: [1082], serialize: (value: string) => value, parse: (text: string) => text },
};

/** Usage of a pool, for the metrics. */
export interface PoolUsage {
  lanes: number;
  free: number;
  /** Calls that are waiting for a connection now. */
  waiting: number;
  /**
   * Since the start: how many calls had to wait, their total wait in milliseconds, and how many
   * waited in vain.
   */
  waits: number;
  waitedMilliseconds: number;
  exhausted: number;
}

/** A fixed number of connections, opened when first needed. */
export class Pool {
  readonly #options: PoolOptions;
  readonly #free: PooledConnection[] = [];
  readonly #waiting: {
    resolve: (connection: PooledConnection) => void;
    reject: (error: Error) => void;
    cancel: () => void;
    since: number;
  }[] = [];
  readonly #all = new Set<PooledConnection>();
  #opening = 0;
  #closed = false;
  /** The connection that the next calls may share. */
  #shared: Shared | undefined;
  #waits = 0;
  #waitedMilliseconds = 0;
  #exhausted = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    for (let index = 0; index < options.lanes; index += 1) this.#free.push(this.#newConnection());
  }

  #newConnection(): PooledConnection {
    const { url, role, name, prepare, commitsMayBeLost, statementTimeout } = this.#options;
    let socket: Socket | undefined;
    const options = {
      max: 1,
      prepare,
      types,
      connect_timeout: 2,
      idle_timeout: 0,
      max_lifetime: null,
      onnotice: () => undefined,
      onclose: () => connection.cut(),
      // The driver would reconnect by itself and run the rest of a transaction outside of it. So a
      // connection connects once.
      socket: ({ host, port }: { host: string[]; port: number[] }) => {
        if (socket) {
          connection.cut();
          throw Object.assign(new Error('the connection failed'), { code: 'CONNECTION_CLOSED' });
        }
        const opened: Socket = connect({
          port: port[0] as number,
          host: host[0],
          noDelay: true,
          // Reads into one buffer. Node would allocate 64 KB for each read, and free most of it
          // again.
          onread: {
            buffer: Buffer.allocUnsafeSlow(readSize),
            callback: (size, buffer) => opened.emit('data', Buffer.from(buffer.subarray(0, size) as Buffer)),
          },
        });
        socket = opened;
        // This runs before the driver rejects the waiting statements: a connection that they
        // release must not be used again.
        opened.once('error', () => connection.cut());
        return Object.assign(opened, { host: host[0], port: port[0] });
      },
      connection: {
        TimeZone: 'UTC',
        application_name: `crm ${name ?? role ?? 'owner'}`,
        idle_in_transaction_session_timeout: this.#options.abandonedAfter ?? abandonedAfter,
        // PostgreSQL does not count the time in which it waits in the middle of a statement. With
        // these, it notices a dead network after 11 s.
        tcp_keepalives_idle: 5,
        tcp_keepalives_interval: 2,
        tcp_keepalives_count: 3,
        ...(statementTimeout > 0 ? { statement_timeout: statementTimeout } : {}),
        ...(role ? { options: `-c role=${role}${commitsMayBeLost ? ' -c synchronous_commit=off' : ''}` } : {}),
      },
    };
    const sql = createClient(url, options);
    const connection: PooledConnection = {
      sql,
      state: 'new',
      broken: false,
      clock: new DatabaseClock(),
      shared: undefined,
      cut() {
        if (connection.broken) return;
        connection.broken = true;
        // A reset, not an orderly end: PostgreSQL then stops at its next response instead of
        // running the queued statements.
        socket?.resetAndDestroy();
        void connection.sql.end({ timeout: 0 }).catch(() => undefined);
      },
    };
    this.#all.add(connection);
    return connection;
  }

  /**
   * Takes a connection.
   * @throws PoolExhausted if none became free in time
   */
  acquire(): Promise<PooledConnection> {
    const connection = this.#takeFree();
    if (connection) return Promise.resolve(connection);
    if (this.#closed) return Promise.reject(new PoolExhausted('the pool is closed'));
    return new Promise((resolve, reject) => {
      const waiter = {
        resolve,
        reject,
        since: performance.now(),
        cancel: startResponsiveTimeout(() => {
          this.#waitedMilliseconds += this.#options.wait;
          this.#exhausted += 1;
          this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
          reject(new PoolExhausted(`no connection became available within ${this.#options.wait} ms`));
        }, this.#options.wait),
      };
      this.#waits += 1;
      this.#waiting.push(waiter);
    });
  }

  /**
   * Takes a connection together with other calls of the same turn of the event loop, or with those
   * that wait while all connections are taken. For short statements, each of them a transaction of
   * its own: they are sent in one piece, which costs one system call on each side, and wait for one
   * another.
   * @throws PoolExhausted if none became free in time
   */
  share(): Promise<PooledConnection> {
    const shared = this.#shared && this.#shared.sharers < maxSharers ? this.#shared : this.#newShared();
    shared.sharers += 1;
    return shared.connection;
  }

  #newShared(): Shared {
    const shared: Shared = { connection: this.acquire(), sharers: 0 };
    this.#shared = shared;
    const close = (): void => {
      if (this.#shared === shared) this.#shared = undefined;
    };
    shared.connection.then((connection) => {
      connection.shared = shared;
      // At the end of this turn, the driver sends the collected statements.
      setImmediate(close);
    }, close);
    return shared;
  }

  /**
   * Gives a connection back. It is free when all calls that share it have given it back. Statements
   * that were sent on it without waiting still run first.
   */
  release(connection: PooledConnection): void {
    if (connection.shared) {
      connection.shared.sharers -= 1;
      if (connection.shared.sharers > 0) return;
      if (this.#shared === connection.shared) this.#shared = undefined;
      connection.shared = undefined;
    }
    if (this.#closed || !this.#all.has(connection)) return;
    if (connection.broken) {
      this.#replace(connection);
      return;
    }
    setPipelined(connection.sql, false);
    // It was taken but not used, so the next call opens it.
    if (connection.state === 'opening') this.#endOpening(connection, 'new');
    this.#offer(connection);
  }

  /** Closes a connection immediately, even while it is in use, and replaces it. */
  destroy(connection: PooledConnection): void {
    if (this.#all.has(connection)) this.#replace(connection);
  }

  /**
   * Returns an open connection, the most recently used first, or one that may be opened now.
   * undefined: there is none.
   */
  #takeFree(): PooledConnection | undefined {
    for (;;) {
      const opened = this.#free.findLastIndex(({ state }) => state === 'opened');
      if (opened === -1 && this.#opening >= maxOpening) return undefined;
      // If none is open, -1 selects the last of the others.
      const [connection] = this.#free.splice(opened, 1);
      if (!connection) return undefined;
      if (connection.broken) {
        this.#replace(connection);
        continue;
      }
      if (connection.state === 'new') {
        connection.state = 'opening';
        this.#opening += 1;
      }
      return connection;
    }
  }

  #awaitFirst(connection: PooledConnection, answer: PromiseLike<unknown>): void {
    if (connection.state === 'opened') return;
    const opened = (): void => this.noteAnswer(connection);
    answer.then(opened, opened);
  }

  /** Records that the database responded on a connection. */
  noteAnswer(connection: PooledConnection): void {
    if (connection.state === 'opened' || connection.broken) return;
    this.#endOpening(connection, 'opened');
    // While this one works, another may be opened for a waiting call.
    this.#serve();
  }

  #endOpening(connection: PooledConnection, state: 'new' | 'opened'): void {
    if (connection.state === 'opening') this.#opening -= 1;
    connection.state = state;
  }

  #offer(connection: PooledConnection): void {
    this.#free.push(connection);
    this.#serve();
  }

  /** Gives free connections to waiting calls, in their order. */
  #serve(): void {
    while (this.#waiting.length > 0) {
      const connection = this.#takeFree();
      const waiter = connection && this.#waiting.shift();
      if (!waiter) return;
      waiter.cancel();
      this.#waitedMilliseconds += performance.now() - waiter.since;
      waiter.resolve(connection);
    }
  }

  #replace(connection: PooledConnection): void {
    this.#all.delete(connection);
    if (connection.state === 'opening') this.#opening -= 1;
    connection.cut();
    if (!this.#closed) this.#offer(this.#newConnection());
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

  /** True if statements may stay prepared and be sent together in one message. */
  get canPipeline(): boolean {
    return this.#options.prepare && !this.#options.spread;
  }

  /**
   * Sends a statement behind a preamble and starts pipelining. Until the connection is released,
   * the statements of one turn of the event loop are one message, with one response after the last.
   * If one fails, PostgreSQL skips those behind it. Only for transactions, whose statements succeed
   * or fail together anyway.
   */
  sendPipelined(
    connection: PooledConnection,
    preamble: Preamble,
    text: string,
    parameters: readonly string[],
  ): Statement<readonly object[]> {
    setPipelined(connection.sql, true);
    const answer = sendBehind(connection.sql, preamble, text, parameters);
    this.#awaitFirst(connection, answer);
    return answer;
  }

  /**
   * Sends statements without parameters, in one message if the database allows it: each message costs both sides a system call or two.
   * @returns the rows of the last
   */
  async sendTogether(connection: PooledConnection, statements: readonly string[]): Promise<readonly object[]> {
    const messages = this.#options.spread ? statements : [statements.join('; ')];
    const answering = Promise.all(messages.map((message) => sendSimple(connection.sql, message)));
    this.#awaitFirst(connection, answering);
    const answers = await answering;
    // Of several statements in one message, the driver returns one list of rows for each.
    const last = answers.at(-1) as unknown as (object | object[])[];
    return (messages.length < statements.length ? last.at(-1) : last) as readonly object[];
  }

  /**
   * Opens the first connections, so that no request has to. If this fails, the first request that
   * needs a connection gets the error.
   */
  async open(): Promise<void> {
    const opening = Array.from({ length: maxOpening }, () => this.use((sql) => sql`select 1`));
    await Promise.allSettled(opening);
  }

  /** Runs statements on one connection, without a transaction around them. */
  async use<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const connection = await this.acquire();
    const cancel = startResponsiveTimeout(() => this.destroy(connection), this.#options.statementTimeout + grace);
    try {
      return await work(connection.sql);
    } finally {
      cancel();
      if (!connection.broken) this.#endOpening(connection, 'opened');
      this.release(connection);
    }
  }

  /**
   * Ends all connections. Running statements may finish within the time.
   * @param seconds 0: immediately
   */
  async close(seconds: number): Promise<void> {
    this.#closed = true;
    for (const waiter of this.#waiting.splice(0)) {
      waiter.cancel();
      waiter.reject(new PoolExhausted('the pool is closed'));
    }
    await Promise.all(
      [...this.#all].map((connection) => connection.sql.end({ timeout: seconds }).catch(() => undefined)),
    );
  }
}

/**
 * Classes and codes of PostgreSQL for "cannot work now": no connection, no resources, shutting
 * down, canceled, deadlock.
 */
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

/** Returns true if the database cannot work now, independent of the statement. */
export function isOutage(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && (driverOutage.has(code) || (code.length === 5 && outage.test(code)));
}

/** Returns true for an error with one of the codes, PostgreSQL's or those of this project. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && codes.includes(code);
}

/** Returns true if the database canceled a statement because it took too long. */
export function isOverdue(error: unknown): boolean {
  return hasCode(error, '57014');
}

/** Returns true for a violated foreign or unique key, which only a concurrent change can cause. */
export function isRace(error: unknown): boolean {
  return hasCode(error, '23503', '23505');
}
