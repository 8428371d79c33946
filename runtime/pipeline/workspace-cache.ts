// Caches the configuration of tenants by version.
import { LRUCache } from 'lru-cache';
import type { Pool, Sql } from '../../db/client/pool.ts';
import { Transaction } from '../../db/client/transaction.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { startResponsiveTimeout } from '../responsive-timeout.ts';

/** Maximum number of cached configurations. */
const maxCachedWorkspaces = 1000;

export class WorkspaceCache {
  readonly #pool: Pool;
  readonly #timeoutMs: number;
  readonly #load: (sql: Sql, companyId: string) => Promise<Workspace>;
  /** Limited by size: with the option `max`, the library would allocate all entries in advance. */
  readonly #cached = new LRUCache<string, { version: number; workspace: Promise<Workspace> }>({
    maxSize: maxCachedWorkspaces,
    sizeCalculation: () => 1,
  });

  /**
   * @param timeoutMs timeout of loading in milliseconds
   * @param load reads the configuration. app/ passes it in, because it reads tables of an area
   */
  constructor(pool: Pool, timeoutMs: number, load: (sql: Sql, companyId: string) => Promise<Workspace>) {
    this.#pool = pool;
    this.#timeoutMs = timeoutMs;
    this.#load = load;
  }

  /** Returns the configuration of a tenant at this version or a later one. */
  get(companyId: string, version: number): Promise<Workspace> {
    const cached = this.#cached.get(companyId);
    // A configuration that was loaded for a version is that version or newer.
    if (cached && cached.version >= version) return cached.workspace;
    const workspace = this.#read(companyId);
    const entry = { version, workspace };
    this.#cached.set(companyId, entry);
    workspace.catch(() => {
      if (this.#cached.get(companyId) === entry) this.#cached.delete(companyId);
    });
    return workspace;
  }

  /** Reads the configuration as a transaction sees it, with its own changes. */
  loadIn(sql: Sql, companyId: string): Promise<Workspace> {
    return this.#load(sql, companyId);
  }

  async #read(companyId: string): Promise<Workspace> {
    const transaction = await Transaction.open(this.#pool, { companyId, testMode: false }, { reads: 'many' });
    const cancel = startResponsiveTimeout(() => transaction.destroy(), this.#timeoutMs);
    try {
      return await this.#load(transaction.sql, companyId);
    } finally {
      cancel();
      transaction.endRead();
    }
  }
}
