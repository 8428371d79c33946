// Waits for PostgreSQL to end what a killed process had begun.
import { expect } from 'vitest';
import { database } from '../../support/tenants.ts';

/**
 * Waits until PostgreSQL has noticed that a process is gone, and ended what it had begun: on a busy
 * machine it may still commit that after the next server has looked.
 * @param name of the connections, a pattern of `like`
 */
export async function untilAbandoned(name = 'crm %'): Promise<void> {
  const working = async () => {
    const [row] = await database()<{ count: number }[]>`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and application_name like ${name} and state <> 'idle'`;
    return row?.count;
  };
  await expect.poll(working).toBe(0);
}
