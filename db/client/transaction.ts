// A transaction of one request: begun with its first statement, ended with all it must write.

import { type AuditRow, type EventRow, insertAudit, insertEvents } from './change-log.ts';
import * as idempotency from './idempotency.ts';
import { entrance, isChanged, isKeyUnchanged, type KeyVersion, stampQuestion } from './key-versions.ts';
import type { Lane, Pool, Sql } from './pool.ts';
import { type Beforehand, begin, beginWith, Entrance } from './preambles.ts';
import { Reading } from './reading.ts';
import { type TenantScope, tenantSettings } from './tenant.ts';

/** Whose rows it sees. */
export type Scope = TenantScope | 'platform' | 'nobody';

/** Milliseconds before a request's deadline when its commit is refused: the time that the commit's answer may take. */
const answerTime = 100;

/**
 * Fails where a time of the database has passed, and leaves it for the rows to look at themselves: what require_time_left does, without the
 * cost of a procedure.
 */
const inTime = new Entrance(
  'in time',
  `select case when set_config('app.deadline', $1, true)::timestamptz < clock_timestamp()
     then refuse('the time of the transaction has run out', '57014') end`,
);
/** The deadline of a transaction whose begin failed: its commit fails. */
const longAgo = '-infinity';

/** What must hold of a transaction, asked with its first statement. */
export interface Opening {
  /** The version of the credential that the caller was told by. */
  credential?: KeyVersion | undefined;
  /** The Idempotency-Key that must be free. */
  claim?: idempotency.Claim | undefined;
  /** Its statements only read, each of them in a transaction of its own; those that read one thing are short. */
  reads?: 'one' | 'many' | undefined;
}

/** What became of it. */
export type Opened = 'held' | 'credential_changed' | 'key_taken';

/** A statement was sent after its transaction: a fault of the code that sent it. */
export class TransactionEnded extends Error {
  constructor() {
    super('the transaction has ended, or another has begun');
  }
}

export class Transaction {
  readonly #pool: Pool;
  #lane: Lane | undefined;
  readonly #scope: Scope;
  #opening: Opening;
  /** Resolves when the transaction has begun and it is known whether what must hold does; undefined until that was asked. */
  #opened: Promise<Opened> | undefined;
  /** Given out once begun, and good until the transaction ends or stands aside. */
  #handle: Sql | undefined;
  /** Defined while nothing but reading was asked of it. */
  #reading: Reading | undefined;
  /** As the handle, for statements that are transactions of their own. */
  #readHandle: Sql | undefined;
  /** True once something was asked by way of the handle. */
  #worked = false;
  /** Resolves with when begin was answered, by performance.now(). */
  #begun: Promise<number> = Promise.resolve(0);
  /** Milliseconds by which the database's clock was ahead of `performance.now()`, or less, when begin was answered. */
  #clockAhead: number | undefined;
  #claimed = false;
  /** The key that is held beyond the transaction that claimed it. */
  #held: idempotency.Claim | undefined;
  /** What the transaction has claimed. */
  #claim: idempotency.Claim | undefined;
  /** Nothing is kept of what it has claimed, or it fails. */
  #isFirst = false;
  /** Outcomes of statements that nobody has waited for. */
  readonly #expected: Promise<unknown>[] = [];
  #ended = false;

  /** Takes a connection: one that is shared for what is short. @throws PoolExhausted when none became free in time */
  static async open(pool: Pool, scope: Scope, opening: Opening = {}): Promise<Transaction> {
    const isShort = opening.reads === 'one' && readsAlone(pool, scope, opening);
    return new Transaction(pool, await (isShort ? pool.share() : pool.acquire()), scope, opening);
  }

  constructor(pool: Pool, lane: Lane, scope: Scope, opening: Opening = {}) {
    this.#pool = pool;
    this.#lane = lane;
    this.#scope = scope;
    this.#opening = opening;
    if (readsAlone(pool, scope, opening)) this.#reading = new Reading(scope as TenantScope, opening.credential);
  }

  /**
   * Begins on first use; begin, the tenant's settings and what is asked of the opening travel with the first statement. While it is certain
   * that nothing is written, they travel with each statement instead, which needs neither begin nor commit then.
   */
  get sql(): Sql {
    if (this.#reading) {
      if (this.#ended || !this.#lane) throw new TransactionEnded();
      this.#readHandle ??= this.#newReadHandle(this.#lane, this.#reading);
      return this.#readHandle;
    }
    this.#connection();
    return this.#handle as Sql;
  }

  /** The connection, for statements of the transaction itself. */
  #connection(): Sql {
    if (this.#ended || !this.#lane) throw new TransactionEnded();
    const { sql } = this.#lane;
    if (this.#handle) return sql;
    if (this.#lane.shared) throw new Error('a transaction would take in what others send on its connection');
    this.#reading = undefined;
    this.#readHandle = undefined;
    const asked = this.#opened;
    const begun = this.#begin(this.#lane, asked ? {} : this.#opening);
    this.#begun = begun.then(
      () => performance.now(),
      () => 0,
    );
    this.#opened = asked ? begun.then(() => asked) : this.#ask(this.#lane, begun);
    // Whoever acts on what was read waits for it.
    this.#opened.catch(() => undefined);
    this.#handle = this.#newHandle(sql);
    return sql;
  }

  /**
   * Sends begin; where it fails, so does whatever is sent behind it. Where statements travel together, so does what must hold: it fails where
   * something does not.
   * @returns the answer to stampQuestion, where a credential is to be asked for otherwise
   */
  async #begin(lane: Lane, { credential, claim }: Opening): Promise<string | null | undefined> {
    if (typeof this.#scope !== 'string' && this.#pool.chains) {
      const { text, parameters } = entrance(this.#scope, credential, claim);
      const before = claim ? beginWith(idempotency.lock(claim)) : begin;
      const answers = await this.#pool.sendChained(lane, before, text, parameters);
      const { clock } = answers[0] as { clock: Date };
      lane.clock.note(clock);
      this.#clockAhead = clock.getTime() - performance.now();
      return undefined;
    }
    const statements = ['begin'];
    if (typeof this.#scope !== 'string') statements.push(...tenantSettings(this.#scope));
    if (credential) statements.push(stampQuestion(credential));
    const answers = await this.#pool.sendTogether(lane, statements);
    return credential && (answers[0] as { stamp: string | null }).stamp;
  }

  async #ask({ sql, chained }: Lane, begun: Promise<string | null | undefined>): Promise<Opened> {
    const { credential, claim } = this.#opening;
    if (claim) {
      this.#claimed = true;
      this.#claim = claim;
      this.#isFirst = chained;
    }
    const free = claim === undefined || chained || idempotency.claimNow(sql, claim);
    // Where both fail, begin is the reason.
    if (typeof free === 'object') free.catch(() => undefined);
    try {
      const stamp = await begun;
      if (credential && !chained && !isKeyUnchanged(stamp, credential)) return 'credential_changed';
    } catch (error) {
      if (idempotency.isTaken(error)) return 'key_taken';
      if (isChanged(error)) return 'credential_changed';
      throw error;
    }
    return (await free) ? 'held' : 'key_taken';
  }

  /** Tells whether what must hold of the transaction does. What was read where it does not is of no use. */
  async opened(): Promise<Opened> {
    const { credential, claim } = this.#opening;
    if (!this.#opened && !credential && !claim) return 'held';
    if (!this.#opened && this.#reading) this.#opened = this.#askReading(this.#reading);
    if (!this.#opened) this.#connection();
    return this.#opened as Promise<Opened>;
  }

  /** Asks by a statement of its own where no other was answered. */
  async #askReading(reading: Reading): Promise<Opened> {
    if (reading.isUnchanged === undefined) await this.sql`select`;
    return reading.isUnchanged ? 'held' : 'credential_changed';
  }

  /** The driver's functions that statements are made of, behind a check: one sent after the end would run in somebody else's transaction. */
  #newHandle(sql: Sql): Sql {
    const check = (): void => {
      if (this.#handle !== handle) throw new TransactionEnded();
      this.#worked = true;
    };
    const send = (...parameters: Parameters<typeof sql>) => {
      check();
      return sql(...parameters);
    };
    const unsafe = (...parameters: Parameters<typeof sql.unsafe>) => {
      check();
      return sql.unsafe(...parameters);
    };
    const { json, array, types, typed } = sql;
    const handle = Object.assign(send, { unsafe, json, array, types, typed }) as unknown as Sql;
    return handle;
  }

  /** The same for statements that have the tenant's settings in front of them, each by itself: nothing else holds them together. */
  #newReadHandle(lane: Lane, reading: Reading): Sql {
    const { sql } = lane;
    reading.standOn(() => this.#pool.noteAnswer(lane));
    const enter = <Query>(query: Query): Query => {
      if (this.#readHandle !== handle) throw new TransactionEnded();
      // The driver's helpers for names and values have none.
      const { options } = query as Partial<Entering>;
      if (options) options.before = reading.entrance();
      return query;
    };
    const send = (...parameters: Parameters<typeof sql>) => enter(sql(...parameters));
    // A statement without parameters would be sent by the simple protocol, which has nothing in front of it.
    const unsafe = (...[text, parameters, options]: Parameters<typeof sql.unsafe>) =>
      enter(sql.unsafe(text, parameters, { ...options, simple: false } as object));
    const { json, array, types, typed } = sql;
    const handle = Object.assign(send, { unsafe, json, array, types, typed }) as unknown as Sql;
    return handle;
  }

  /** Has the statements that come planned once for each connection, for whatever values, until the transaction ends. */
  planOnce(): void {
    if (this.#reading) this.#reading.planOnce();
    else
      this.#connection()
        .unsafe('set local plan_cache_mode = force_generic_plan')
        .execute()
        .catch(() => undefined);
  }

  get broken(): boolean {
    return this.#lane?.broken ?? false;
  }

  /**
   * Waits for work that does not need the database. While nothing was written or locked, the connection serves others, and what
   * comes afterwards is a transaction of its own.
   */
  async aside<T>(work: Promise<T>): Promise<T> {
    work.catch(() => undefined);
    if (!this.#lane || this.#claimed || (this.#handle && (await this.#hasWritten()))) return work;
    if (this.#handle) this.#send('commit');
    this.#handle = undefined;
    this.#readHandle = undefined;
    this.#pool.release(this.#lane);
    this.#lane = undefined;
    try {
      return await work;
    } finally {
      const lane = await this.#pool.acquire();
      if (this.#ended) this.#pool.release(lane);
      else this.#lane = lane;
    }
  }

  /** Leaves a connection that is shared for one of its own. */
  async #standAlone(): Promise<void> {
    if (!this.#lane?.shared) return;
    this.#readHandle = undefined;
    this.#pool.release(this.#lane);
    this.#lane = undefined;
    const lane = await this.#pool.acquire();
    if (this.#ended) this.#pool.release(lane);
    else this.#lane = lane;
  }

  /**
   * Commits what was written, and gives the connection back: for work that others do. A claimed key is held meanwhile by a row. What comes
   * after resume is a transaction of its own.
   * @param left milliseconds that the request has left
   */
  async suspend(left: number): Promise<void> {
    // A call may suspend several times; each time it holds its key for longer.
    const held = this.#claim ?? this.#held;
    const hold = this.#claim ? idempotency.hold : idempotency.renewHold;
    await this.#commitAfter(held ? [hold(this.#connection(), held)] : [], left);
    if (this.broken) throw Object.assign(new Error('the connection failed'), { code: 'CONNECTION_CLOSED' });
    this.#held = held;
    this.#claim = undefined;
    this.#isFirst = false;
    // Asked once: what was begun outside goes on, whatever becomes of the key meanwhile.
    this.#opening = {};
  }

  /** Takes a connection again. */
  async resume(): Promise<void> {
    this.#lane = await this.#pool.acquire();
    this.#ended = false;
    this.#opened = undefined;
    this.#worked = false;
  }

  /** True once a row was written or locked. */
  async #hasWritten(): Promise<boolean> {
    const [row] = await this.sql<
      { written: boolean }[]
    >`select pg_current_xact_id_if_assigned() is not null as written`;
    return row?.written ?? true;
  }

  /** Claims an Idempotency-Key until the transaction ends. */
  claim(claim: idempotency.Claim): Promise<idempotency.Verdict> {
    this.#claimed = true;
    this.#claim = claim;
    return idempotency.claim(this.#connection(), claim);
  }

  /** Goes on without the outcome of a statement that was sent: whoever commits is told where it failed. */
  expect(outcome: Promise<unknown>): void {
    outcome.catch(() => undefined);
    this.#expected.push(outcome);
  }

  /** @returns why the first expected statement that failed did; undefined where none has */
  async firstFailure(): Promise<unknown> {
    const failed = (await Promise.allSettled(this.#expected)).find((outcome) => outcome.status === 'rejected');
    return failed?.reason;
  }

  /**
   * Writes what belongs to the change and commits, in one round trip. Nothing of that is done where something does not hold that must, nor where
   * a statement before has failed, though it may be sent before that is known.
   * @param left milliseconds that its request has left
   * @throws what the first statement failed with that failed
   */
  async commit(
    audit: readonly AuditRow[],
    events: readonly EventRow[],
    answer: idempotency.Answer | undefined,
    now: Date,
    left: number,
  ): Promise<void> {
    const { credential, claim } = this.#opening;
    const isAsked = this.#opened !== undefined || (!credential && !claim);
    if (!this.#handle && !this.#held && isAsked && audit.length === 0 && events.length === 0 && !answer) {
      this.#end();
      return;
    }
    await this.#standAlone();
    const sql = this.#connection();
    // Where statements do not travel together, nothing else keeps the commit from what does not hold.
    if (!this.#lane?.chained && this.#opened && (await this.#opened) !== 'held') return;
    const statements: Promise<unknown>[] = [];
    if (audit.length > 0) statements.push(insertAudit(sql, audit));
    if (events.length > 0) statements.push(insertEvents(sql, events));
    if (answer) statements.push(idempotency.save(sql, answer, now, this.#isFirst));
    else if (this.#held) statements.push(idempotency.letGo(sql, this.#held));
    await this.#commitAfter(statements, left);
    if (this.broken) throw Object.assign(new Error('the connection failed'), { code: 'CONNECTION_CLOSED' });
  }

  /**
   * Undoes the work, claims the key again where there was any, keeps the failure as its answer, and commits. A savepoint would spare the
   * second claim, at the price of one for every call that succeeds.
   * @returns false when another call with the key came in between, and nothing was kept
   */
  async keepFailure(answer: idempotency.Answer, now: Date, left: number): Promise<boolean> {
    this.#expected.length = 0;
    if (this.#worked) {
      this.#send('rollback');
      this.#handle = undefined;
    }
    const sql = this.#connection();
    const isAgain = this.#worked && !this.#held;
    const claimed = isAgain ? idempotency.claimNow(sql, answer.claim) : Promise.resolve(true);
    const saved = idempotency.save(sql, answer, now, false);
    try {
      await this.#commitAfter([claimed, saved], left);
      return true;
    } catch (error) {
      if ((await claimed.catch(() => true)) === false) return false;
      throw error;
    }
  }

  /** Commits when all statements before were good and time is left, and rolls back otherwise. */
  async #commitAfter(statements: readonly Promise<unknown>[], left: number): Promise<void> {
    const deadline = performance.now() + left - answerTime;
    const before = Promise.allSettled([...this.#expected.splice(0), ...statements]);
    const sql = this.#connection();
    const committing = this.#lane?.chained
      ? sql.unsafe('commit', [], {
          ...{ prepare: true, simple: false, before: inTime.with([await this.#timeAt(this.#lane, deadline)]) },
        } as object)
      : sql.unsafe(`call require_time_left(${Math.floor(deadline - (await this.#begun))}); commit`);
    const [committed] = await Promise.allSettled([committing.execute()]);
    const failed = [...(await before), committed].find((result) => result.status === 'rejected');
    // What failed took the commit behind it along.
    if (failed) this.abandon();
    else this.#end();
    if (failed) throw failed.reason;
  }

  /**
   * Returns the database's time at a moment of `performance.now()`. If the connection does not know it, because it is new or
   * because this machine's clock was set, the answer to begin tells.
   */
  async #timeAt({ clock }: Lane, moment: number): Promise<string> {
    const known = clock.at(moment);
    if (known !== undefined) return known;
    await this.#begun;
    return this.#clockAhead === undefined ? longAgo : new Date(Math.floor(moment + this.#clockAhead)).toISOString();
  }

  endRead(): void {
    if (this.#handle && !this.broken) this.#send('commit');
    this.#end();
  }

  /** Undoes the work and waits until that is done, so that whoever tries anew does not meet the locks of this one. */
  async undo(): Promise<void> {
    if (this.#handle && !this.broken) {
      // A connection that fails has undone it, too.
      await this.#connection()
        .unsafe('rollback')
        .execute()
        .catch(() => undefined);
      this.#handle = undefined;
    }
    this.abandon();
  }

  abandon(): void {
    if (this.#ended) return;
    if (this.#handle && !this.broken) this.#send('rollback');
    if (this.#held && this.#lane && !this.broken) this.#letGo(this.#held);
    this.#end();
  }

  /** Nothing waits for it: a key that stays held is free when its time is over. */
  #letGo(held: idempotency.Claim): void {
    this.#handle = undefined;
    this.#held = undefined;
    void idempotency.letGo(this.#connection(), held).catch(() => undefined);
    this.#send('commit');
  }

  destroy(): void {
    if (this.#ended) return;
    if (!this.#handle && !this.#readHandle) {
      this.#end();
      return;
    }
    this.#ended = true;
    this.#handle = undefined;
    this.#readHandle = undefined;
    if (this.#lane) this.#pool.destroy(this.#lane);
  }

  /** Sends the end of the transaction; nothing waits for it. */
  #send(how: 'commit' | 'rollback'): void {
    const ending = this.#connection().unsafe(how).execute();
    ending.catch(() => undefined);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#handle = undefined;
    this.#readHandle = undefined;
    if (this.#lane) this.#pool.release(this.#lane);
  }
}

/** True where each statement is a transaction of its own: it only reads, and the settings of the tenant can travel with it. */
function readsAlone(pool: Pool, scope: Scope, { reads, claim }: Opening): boolean {
  return reads !== undefined && claim === undefined && pool.chains && typeof scope !== 'string';
}

/** What our patch of the driver reads of a statement. */
interface Entering {
  options: { before?: Beforehand };
}
