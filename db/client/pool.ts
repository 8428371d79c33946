// Connections: a pool whose waits and queries are bounded, which the driver's own pool is not.
import { connect, type Socket } from 'node:net';
import postgres from 'postgres';
import { startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';
import { DatabaseClock } from './database-clock.ts';
import type { Beforehand } from './preambles.ts';
import { readMoment } from './timestamps.ts';

// biome-ignore lint/complexity/noBannedTypes: the driver's own default for its type parameter.
export type Sql = postgres.ISql<{}>;

export interface PoolOptions {
  url: string;
  /** The role that every statement of this pool runs under; undefined: the one of the URL, for migrations. */
  role: string | undefined;
  lanes: number;
  prepare: boolean;
  /**
   * True for a database that is spread over machines: it passes a setting on with the whole message that it stands in, so that nothing else
   * may stand there.
   */
  spread: boolean;
  /** What PostgreSQL's list of connections calls these; the role unless given. */
  name?: string;
  /** Milliseconds after which PostgreSQL ends a transaction that nothing is asked of, in place of the usual ones. */
  abandonedAfter?: number;
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
/**
 * Connections of a pool that are opened at the same time. To open one costs PostgreSQL many times what a request does: where a new server
 * opens all at once, its first requests are answered after the last of them, and some not in time.
 */
const openedAtOnce = 2;
/** Requests that may share a connection. */
const mostSharers = 8;
/** Milliseconds after which PostgreSQL ends a transaction that nothing is asked of: the server at the other end has gone, unheard. */
const abandonedAfter = 10_000;

/** One connection. Statements sent on it run in the order they were sent, so they can be sent without waiting. */
export interface Lane {
  readonly sql: postgres.Sql;
  /** `opened` once the database answered on it. */
  state: 'new' | 'opening' | 'opened';
  /** True after the connection failed; the lane is then thrown away, never used again. */
  broken: boolean;
  /**
   * True while statements that leave together are one message, with one answer of the database behind the last: where one fails, those
   * behind it are passed over. For transactions alone, whose statements share a fate anyway.
   */
  chained: boolean;
  readonly clock: DatabaseClock;
  /** Those who share it, while any do: no transaction may begin on it. */
  shared: Shared | undefined;
  /** Cuts the connection at once, so that a server that hangs cannot run later what was sent on it. */
  cut(): void;
}

/** A connection, or the wait for one, with how many share it. */
interface Shared {
  lane: Promise<Lane>;
  sharers: number;
}

/** What our patch of the driver reads of a connection's options. */
interface Chained {
  chained?: boolean;
}

/** Thrown when no connection became free in time. */
class PoolExhausted extends Error {
  readonly code = 'POOL_EXHAUSTED';
}

/** The types that differ from the driver's defaults: 64-bit integers are numbers, since all of ours are safe; dates stay text. */
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
    parse: readMoment,
  },
  day: { to: 1082, from: [1082], serialize: (value: string) => value, parse: (text: string) => text },
};

/**
 * Lists by their elements, in the numbers that PostgreSQL gives its own types everywhere. The driver would ask each new connection for all
 * there are, a sixth of what opening it costs.
 */
const lists = Object.entries({
  ...{ 16: 1000, 17: 1001, 20: 1016, 21: 1005, 23: 1007, 25: 1009, 1043: 1015, 1082: 1182, 1184: 1185, 1700: 1231 },
  ...{ 2950: 2951, 3802: 3807 },
}).map(([element, list]) => [Number(element), list]);

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
    cancel: () => void;
    since: number;
  }[] = [];
  readonly #all = new Set<Lane>();
  #opening = 0;
  #closed = false;
  /** Whose connection may be shared by who comes next. */
  #shared: Shared | undefined;
  #waits = 0;
  #waitedMilliseconds = 0;
  #exhausted = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    for (let index = 0; index < options.lanes; index += 1) this.#free.push(this.#newLane());
  }

  #newLane(): Lane {
    const { url, role, name, prepare, commitsMayBeLost, statementTimeout } = this.#options;
    let socket: Socket | undefined;
    const options = {
      max: 1,
      prepare,
      types,
      fetch_types: lists as never,
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
        // Before the driver, which tells whoever waits: what they give back then must go to nobody else.
        opened.once('error', () => lane.cut());
        return Object.assign(opened, { host: host[0], port: port[0] });
      },
      connection: {
        TimeZone: 'UTC',
        application_name: `crm ${name ?? role ?? 'owner'}`,
        idle_in_transaction_session_timeout: this.#options.abandonedAfter ?? abandonedAfter,
        // And where PostgreSQL waits in the middle of a statement, which that time does not count: a dead network is noticed after 11 s.
        ...{ tcp_keepalives_idle: 5, tcp_keepalives_interval: 2, tcp_keepalives_count: 3 },
        ...(statementTimeout > 0 ? { statement_timeout: statementTimeout } : {}),
        ...(role ? { options: `-c role=${role}${commitsMayBeLost ? ' -c synchronous_commit=off' : ''}` } : {}),
      },
    };
    const sql = postgres(url, options) as unknown as postgres.Sql;
    const lane: Lane = {
      sql,
      state: 'new',
      broken: false,
      clock: new DatabaseClock(),
      shared: undefined,
      get chained() {
        return (sql.options as Chained).chained === true;
      },
      set chained(isChained) {
        (sql.options as Chained).chained = isChained;
      },
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
    const lane = this.#takeFree();
    if (lane) return Promise.resolve(lane);
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
          reject(new PoolExhausted(`no connection became free in ${this.#options.wait} ms`));
        }, this.#options.wait),
      };
      this.#waits += 1;
      this.#waiting.push(waiter);
    });
  }

  /**
   * Takes a connection together with those who ask in the same turn of the event loop, or while all are taken. For short statements, each of
   * them a transaction of its own: they leave in one piece, for one system call of each side, and wait for one another.
   * @throws PoolExhausted when none became free in time
   */
  share(): Promise<Lane> {
    const shared = this.#shared && this.#shared.sharers < mostSharers ? this.#shared : this.#newShared();
    shared.sharers += 1;
    return shared.lane;
  }

  #newShared(): Shared {
    const shared: Shared = { lane: this.acquire(), sharers: 0 };
    this.#shared = shared;
    const close = (): void => {
      if (this.#shared === shared) this.#shared = undefined;
    };
    shared.lane.then((lane) => {
      lane.shared = shared;
      // At the end of this turn the driver sends what there is.
      setImmediate(close);
    }, close);
    return shared;
  }

  /** Gives a connection back, which is free when all who share it have. What was sent on it without waiting still runs first. */
  release(lane: Lane): void {
    if (lane.shared) {
      lane.shared.sharers -= 1;
      if (lane.shared.sharers > 0) return;
      if (this.#shared === lane.shared) this.#shared = undefined;
      lane.shared = undefined;
    }
    if (this.#closed || !this.#all.has(lane)) return;
    if (lane.broken) {
      this.#replace(lane);
      return;
    }
    lane.chained = false;
    // Taken, and not used: the next one opens it.
    if (lane.state === 'opening') this.#endOpening(lane, 'new');
    this.#offer(lane);
  }

  /** Closes a connection at once, whatever it is doing, and opens another in its place. */
  destroy(lane: Lane): void {
    if (this.#all.has(lane)) this.#replace(lane);
  }

  /** One that is open, the last that was used first, or one that may be opened now; undefined: there is none. */
  #takeFree(): Lane | undefined {
    for (;;) {
      const opened = this.#free.findLastIndex(({ state }) => state === 'opened');
      if (opened === -1 && this.#opening >= openedAtOnce) return undefined;
      // Where none is open, -1 is the last of the others.
      const [lane] = this.#free.splice(opened, 1);
      if (!lane) return undefined;
      if (lane.broken) {
        this.#replace(lane);
        continue;
      }
      if (lane.state === 'new') {
        lane.state = 'opening';
        this.#opening += 1;
      }
      return lane;
    }
  }

  #awaitFirst(lane: Lane, answer: Promise<unknown>): void {
    if (lane.state === 'opened') return;
    const opened = (): void => this.noteAnswer(lane);
    answer.then(opened, opened);
  }

  /** Notes that the database answered on a connection. */
  noteAnswer(lane: Lane): void {
    if (lane.state === 'opened' || lane.broken) return;
    this.#endOpening(lane, 'opened');
    // While this one is at work, another may be opened for who waits.
    this.#serve();
  }

  #endOpening(lane: Lane, state: 'new' | 'opened'): void {
    if (lane.state === 'opening') this.#opening -= 1;
    lane.state = state;
  }

  #offer(lane: Lane): void {
    this.#free.push(lane);
    this.#serve();
  }

  /** Gives those who wait what is free, in their order. */
  #serve(): void {
    while (this.#waiting.length > 0) {
      const lane = this.#takeFree();
      const waiter = lane && this.#waiting.shift();
      if (!waiter) return;
      waiter.cancel();
      this.#waitedMilliseconds += performance.now() - waiter.since;
      waiter.resolve(lane);
    }
  }

  #replace(lane: Lane): void {
    this.#all.delete(lane);
    if (lane.state === 'opening') this.#opening -= 1;
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

  /** True where statements may stay prepared, and travel behind one another in one message. */
  get chains(): boolean {
    return this.#options.prepare && !this.#options.spread;
  }

  /** Sends a statement with parameters behind others, and begins a chain: what is sent next travels in the same message. */
  sendChained(lane: Lane, before: Beforehand, text: string, parameters: readonly string[]): Promise<readonly object[]> {
    lane.chained = true;
    const answer = lane.sql.unsafe(text, [...parameters], { prepare: true, before } as object).execute();
    this.#awaitFirst(lane, answer);
    return answer;
  }

  /**
   * Sends statements without parameters, in one message where the database allows it: each message costs both sides a system call or two.
   * @returns the rows of the last
   */
  async sendTogether(lane: Lane, statements: readonly string[]): Promise<readonly object[]> {
    const messages = this.#options.spread ? statements : [statements.join('; ')];
    const answering = Promise.all(messages.map((message) => lane.sql.unsafe(message).execute()));
    this.#awaitFirst(lane, answering);
    const answers = await answering;
    // Of several statements in one message, the driver gives one list of rows for each.
    const last = answers.at(-1) as unknown as (object | object[])[];
    return (messages.length < statements.length ? last.at(-1) : last) as readonly object[];
  }

  /** Opens the first connections, so that nobody's request has to. Where they cannot be opened, whoever needs one is told. */
  async open(): Promise<void> {
    const opening = Array.from({ length: openedAtOnce }, () => this.use((sql) => sql`select 1`));
    await Promise.allSettled(opening);
  }

  /** Runs statements on one connection, without a transaction of its own. */
  async use<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const lane = await this.acquire();
    const cancel = startResponsiveTimeout(() => this.destroy(lane), this.#options.statementTimeout + grace);
    try {
      return await work(lane.sql);
    } finally {
      cancel();
      if (!lane.broken) this.#endOpening(lane, 'opened');
      this.release(lane);
    }
  }

  /** Ends all connections; those at work may finish within the time. @param seconds 0: at once */
  async close(seconds: number): Promise<void> {
    this.#closed = true;
    for (const waiter of this.#waiting.splice(0)) {
      waiter.cancel();
      waiter.reject(new PoolExhausted('the pool is closed'));
    }
    await Promise.all([...this.#all].map((lane) => lane.sql.end({ timeout: seconds }).catch(() => undefined)));
  }
}

/**
 * Has a statement planned anew instead of kept prepared. For statements whose text follows what callers ask for: kept ones
 * would pile up on the connection. The database is not asked first which types its parameters have, unless there are lists among them: JSON
 * is to be given as such.
 */
export function unprepared<Query extends Promise<unknown>>(query: Query): Query {
  Object.assign((query as unknown as { options: object }).options, { prepare: false, undescribed: true });
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

/** True for an error with one of some codes, those of PostgreSQL and our own among them. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && codes.includes(code);
}

/** True when the database gave a statement up because it took too long. */
export function isOverdue(error: unknown): boolean {
  return hasCode(error, '57014');
}

/** True for a foreign key or unique key that only a change made meanwhile can have broken. */
export function isRace(error: unknown): boolean {
  return hasCode(error, '23503', '23505');
}
