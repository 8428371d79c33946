// A call between two transactions: it waits for other work and holds no connection.
import type { Claim } from './idempotency.ts';
import type { Pool } from './pool.ts';
import type { Scope } from './preconditions.ts';
import { WriteTransaction } from './write-transaction.ts';

type State = 'waiting' | 'resumed' | 'ended';

export class SuspendedTransaction {
  readonly #pool: Pool;
  readonly #scope: Scope;
  /** The Idempotency-Key that a row holds meanwhile. */
  readonly #claim: Claim | undefined;
  #state: State = 'waiting';

  constructor(pool: Pool, scope: Scope, claim: Claim | undefined) {
    this.#pool = pool;
    this.#scope = scope;
    this.#claim = claim;
  }

  /**
   * Takes a connection for a transaction that continues the call. If the call has run out of time,
   * the returned transaction has already ended.
   * @throws PoolExhausted if no connection became free in time
   */
  async resume(): Promise<WriteTransaction> {
    if (this.#state === 'resumed') throw new Error('the transaction was already resumed');
    const connection = await this.#pool.acquire();
    // Preconditions were verified before. Work that others have begun continues even if the key was
    // lost.
    const transaction = new WriteTransaction(this.#pool, connection, this.#scope, {}, this.#claim);
    if (this.#state === 'ended') transaction.abandon();
    this.#state = 'resumed';
    return transaction;
  }

  /** Records that the call has ended. Its key becomes free when the lease of its row expires. */
  end(): void {
    this.#state = 'ended';
  }
}
