// A PostgreSQL that records every statement, to check what must hold for all of them.
import postgres, { type Sql } from 'postgres';
import { type EmbeddedDatabase, startEmbedded } from '../../app/embedded-postgres/database.ts';

/** The database with the extension, which reads the statements of all databases. */
const name = 'noted_statements';

/**
 * Roles in which tests act instead of the server's roles, with the same privileges, because servers
 * never send what tests try.
 */
export const triedRoles = ['crm_app', 'crm_oauth', 'crm_platform', 'crm_purge'];
export const tried = (role: string): string => `${role}_tried`;

const settings = [
  'shared_preload_libraries=pg_stat_statements',
  // One entry for each statement in each test database.
  'pg_stat_statements.max=200000',
  'pg_stat_statements.track_utility=off',
  // Each server of a test file has about twenty connections, and several files run concurrently.
  'max_connections=600',
];

export async function startNoting(folder: string): Promise<EmbeddedDatabase> {
  const database = await startEmbedded(folder, () => undefined, undefined, settings);
  const sql = postgres(database.url, { max: 1 });
  await sql`create database ${sql(name)}`;
  await sql.end();
  await asked(database.url, (noted) => noted`create extension pg_stat_statements`);
  return database;
}

/** Returns the distinct statements with their constants replaced. */
export function sentStatements(url: string): Promise<{ byServers: string[]; byAnybody: string[] }> {
  return asked(url, async (noted) => {
    const rows = await noted<{ text: string; isServers: boolean }[]>`
      select s.query as text, bool_or(r.rolname = any(${triedRoles})) as "isServers"
      from pg_stat_statements s join pg_roles r on r.oid = s.userid
      group by 1`;
    const byServers = rows.filter(({ isServers }) => isServers).map(({ text }) => text);
    return { byServers, byAnybody: rows.map(({ text }) => text) };
  });
}

/** A statement of servers in a database, with its cost. */
export interface StatementCost {
  text: string;
  calls: number;
  /** Pages of 8 KB that it read. */
  pages: number;
  /** Rows that it returned or changed. */
  rows: number;
}

export function statementCosts(url: string): Promise<StatementCost[]> {
  const own = new URL(url).pathname.slice(1);
  return asked(
    url,
    (noted) => noted<StatementCost[]>`
      select s.query as text, sum(s.calls)::int as calls, sum(s.shared_blks_hit + s.shared_blks_read)::int as pages, sum(s.rows)::int as rows
      from pg_stat_statements s
      join pg_database d on d.oid = s.dbid and d.datname = ${own}
      join pg_roles r on r.oid = s.userid and r.rolname = any(${triedRoles})
      group by 1`,
  );
}

/** Resets the statements of a database. */
export async function forgetStatements(url: string): Promise<void> {
  const own = new URL(url).pathname.slice(1);
  await asked(
    url,
    (noted) => noted`select pg_stat_statements_reset(0, oid, 0) from pg_database where datname = ${own}`,
  );
}

async function asked<T>(url: string, work: (noted: Sql) => Promise<T>): Promise<T> {
  const address = new URL(url);
  address.pathname = `/${name}`;
  const noted = postgres(address.href, { max: 1, onnotice: () => undefined });
  try {
    return await work(noted);
  } finally {
    await noted.end();
  }
}
