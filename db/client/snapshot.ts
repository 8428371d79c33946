// A transaction that reads one snapshot of a tenant's rows, for as long as it needs.
import { startResponsiveTimeout } from '../../runtime/responsive-timeout.ts';
import type { Pool, Sql } from './pool.ts';
import { buildTenantSettings, type TenantScope } from './tenant.ts';

/**
 * Runs reading work on one snapshot. PostgreSQL keeps the versions of rows that the snapshot sees,
 * of all tables, so the time is limited.
 * @param milliseconds after which the connection is closed and the work fails
 */
export async function inSnapshot<Result>(
  pool: Pool,
  scope: TenantScope,
  milliseconds: number,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  const connection = await pool.acquire();
  const cancel = startResponsiveTimeout(() => pool.destroy(connection), milliseconds);
  try {
    await pool.sendTogether(connection, [
      'begin isolation level repeatable read read only',
      ...buildTenantSettings(scope),
      // A page is read in the order of the key. A generic plan could sort the whole table instead.
      'set local plan_cache_mode = force_custom_plan',
    ]);
    const result = await work(connection.sql);
    await pool.sendTogether(connection, ['commit']);
    pool.release(connection);
    return result;
  } catch (error) {
    // Statements may still run on it.
    pool.destroy(connection);
    throw error;
  } finally {
    cancel();
  }
}
