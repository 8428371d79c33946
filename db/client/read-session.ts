// A call that only reads: each statement is a transaction, bound to the tenant by a preamble.
import { isKeyUnchanged, type KeyVersion, readPreamble } from './key-versions.ts';
import { guardStatements, type Sql } from './pipeline.ts';
import type { Pool, PooledConnection } from './pool.ts';
import type { Planning, Preamble } from './preambles.ts';
import { type PreconditionResult, type Preconditions, type Scope, TransactionEnded } from './preconditions.ts';
import type { TenantScope } from './tenant.ts';
import { WriteTransaction } from './write-transaction.ts';

type State =
  /** The handle creates its statements; undefined until the first use. */
  | { kind: 'ready'; connection: PooledConnection; handle: Sql | undefined }
  /** The session waits for other work, and its connection serves other calls. */
  | { kind: 'without connection' }
  | { kind: 'ended'; connection: PooledConnection | undefined };

export class ReadSession {
  readonly #pool: Pool;
  readonly #tenant: TenantScope;
  readonly #credential: KeyVersion | undefined;
  #state: State;
  #planning: Planning = 'auto';
  /** Cached until the connection, the planning or the knowledge about the credential changes. */
  #preamble: Preamble | undefined;
  /** undefined until the database has responded. */
  #isUnchanged: boolean | undefined;

  /** Returns undefined if the call may write, or if the database cannot take preambles. */
  static findTenant(pool: Pool, scope: Scope, { reads, claim }: Preconditions): TenantScope | undefined {
    const isPossible = reads !== undefined && claim === undefined && pool.canPipeline;
    return isPossible && typeof scope !== 'string' ? scope : undefined;
  }

  constructor(pool: Pool, connection: PooledConnection, tenant: TenantScope, credential: KeyVersion | undefined) {
    this.#pool = pool;
    this.#tenant = tenant;
    this.#credential = credential;
    this.#state = { kind: 'ready', connection, handle: undefined };
  }

  /** @throws TransactionEnded */
  get sql(): Sql {
    const state = this.#state;
    if (state.kind !== 'ready') throw new TransactionEnded();
    state.handle ??= this.#newHandle(state.connection);
    return state.handle;
  }

  #newHandle(connection: PooledConnection): Sql {
    this.#preamble = undefined;
    const handle = guardStatements(connection.sql, () => {
      if (this.#state.kind !== 'ready' || this.#state.handle !== handle) throw new TransactionEnded();
      this.#preamble ??= this.#newPreamble(connection, this.#planning);
      return this.#preamble;
    });
    return handle;
  }

  /** Selects the version of the credential until the first response. */
  #newPreamble(connection: PooledConnection, planning: Planning): Preamble {
    const credential = this.#isUnchanged === undefined ? this.#credential : undefined;
    const preamble = readPreamble(this.#tenant, credential, planning, (stamp) => {
      this.#pool.noteAnswer(connection);
      if (this.#isUnchanged !== undefined) return;
      this.#isUnchanged = credential === undefined || isKeyUnchanged(stamp, credential);
      this.#preamble = undefined;
    });
    return { ...preamble, withPlanning: (how) => this.#newPreamble(connection, how) };
  }

  /** Plans the statements that follow once for each connection, for any values. */
  planOnce(): void {
    this.#planning = 'once';
    this.#preamble = undefined;
  }

  /**
   * Returns whether the credential is unchanged. Sends a statement for this if no other had a
   * response yet.
   */
  async verifyPreconditions(): Promise<PreconditionResult> {
    if (!this.#credential) return 'ok';
    if (this.#isUnchanged === undefined) await this.sql`select`;
    return this.#isUnchanged ? 'ok' : 'credential_changed';
  }

  /**
   * Waits for work that does not need the database. The connection serves other calls meanwhile.
   */
  async withoutConnection<T>(work: Promise<T>): Promise<T> {
    work.catch(() => undefined);
    if (this.#state.kind !== 'ready') return work;
    this.#giveBack(this.#state.connection);
    try {
      return await work;
    } finally {
      await this.#takeConnection();
    }
  }

  /** Continues as a transaction, which may write. @throws TransactionEnded */
  async startWriting(): Promise<WriteTransaction> {
    if (this.#state.kind === 'ready' && this.#state.connection.shared) {
      this.#giveBack(this.#state.connection);
      await this.#takeConnection();
    }
    const state = this.#state;
    if (state.kind !== 'ready') throw new TransactionEnded();
    this.#state = { kind: 'ended', connection: state.connection };
    return new WriteTransaction(this.#pool, state.connection, this.#tenant);
  }

  #giveBack(connection: PooledConnection): void {
    this.#state = { kind: 'without connection' };
    this.#pool.release(connection);
  }

  async #takeConnection(): Promise<void> {
    const connection = await this.#pool.acquire();
    if (this.#state.kind === 'ended') this.#pool.release(connection);
    else this.#state = { kind: 'ready', connection, handle: undefined };
  }

  /** Ends the session: nothing is committed or undone. */
  end(): void {
    const state = this.#state;
    if (state.kind === 'ended') return;
    const connection = state.kind === 'ready' ? state.connection : undefined;
    this.#state = { kind: 'ended', connection };
    if (connection) this.#pool.release(connection);
  }

  /** Ends the session and closes its connection if statements may still run on it. */
  destroy(): void {
    const state = this.#state;
    if (state.kind === 'ready' && state.handle) {
      this.#state = { kind: 'ended', connection: state.connection };
      this.#pool.destroy(state.connection);
    } else this.end();
  }

  /** True after the connection failed. */
  get broken(): boolean {
    return this.#state.kind !== 'without connection' && (this.#state.connection?.broken ?? false);
  }
}
