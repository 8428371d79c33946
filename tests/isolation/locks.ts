// Locks all foreign rows while a tenant's requests run, so that statements on them are detected.
import postgres, { type Sql } from 'postgres';
import type { TenantTable } from './schema.ts';
import { foreignRows, type Whose } from './shadow-rows.ts';

export interface Held {
  /** The statements that waited. */
  waited: string[];
  release(): Promise<void>;
}

/** Milliseconds between two polls. */
const interval = 100;

/** Locks the rows until release. Records and cancels each statement that waits for one. */
export async function holdRows(url: string, tables: readonly TenantTable[], whose: Whose): Promise<Held> {
  const sql = postgres(url, { max: 2, onnotice: () => undefined });
  const waited: string[] = [];
  const holder = await sql.reserve();
  await holder`begin`;
  for (const table of tables)
    await holder.unsafe(`select from ${table.name} t where ${foreignRows(table, whose)} for update`);
  const [me] = await holder<{ pid: number }[]>`select pg_backend_pid() as pid`;
  let looking: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    looking = looking.then(() => stopWaiters(sql, me?.pid ?? 0, waited));
  }, interval);
  return {
    waited,
    async release() {
      clearInterval(timer);
      await looking;
      await holder`rollback`;
      holder.release();
      await sql.end({ timeout: 1 });
    },
  };
}

async function stopWaiters(sql: Sql, holder: number, waited: string[]): Promise<void> {
  const waiting = await sql<{ pid: number; query: string }[]>`
    select pid, query from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and ${holder} = any(pg_blocking_pids(pid))`;
  // Recorded before the cancellation, because the response follows immediately.
  waited.push(...waiting.map(({ query }) => `waits for rows of others: ${query.replace(/\s+/g, ' ').slice(0, 200)}`));
  for (const { pid } of waiting) await sql`select pg_cancel_backend(${pid})`;
}
