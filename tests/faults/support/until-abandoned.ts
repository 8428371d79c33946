// Waits until PostgreSQL has ended the transactions of a killed process.
import { expect } from 'vitest';
import { database } from '../../support/tenants.ts';

/**
 * Waits until PostgreSQL has noticed that a process is gone, and has ended its transactions. On a
 * busy machine, it could otherwise still commit them after the next server has looked.
 * @param name a `like` pattern of the connections' application_name
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
