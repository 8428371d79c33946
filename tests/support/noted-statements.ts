// A PostgreSQL that keeps every statement that is sent to it, for what must hold of all of them.
import postgres, { type Sql } from 'postgres';
import { type EmbeddedDatabase, startEmbedded } from '../../app/embedded-postgres/database.ts';

/** The database that is asked for the statements of all of them. */
const name = 'noted_statements';

/** Roles that tests act in, in place of those of the server, of which they have all rights: what they try is not what a server sends. */
export const triedRoles = ['crm_app', 'crm_oauth', 'crm_platform', 'crm_purge'];
export const tried = (role: string): string => `${role}_tried`;

const settings = [
  'shared_preload_libraries=pg_stat_statements',
  // One for each statement in each of the databases that tests make.
  'pg_stat_statements.max=200000',
  'pg_stat_statements.track_utility=off',
  // Each server that a test file starts has twenty or so, and several files run at once.
  'max_connections=400',
];

export async function startNoting(folder: string): Promise<EmbeddedDatabase> {
  const database = await startEmbedded(folder, () => undefined, undefined, settings);
  const sql = postgres(database.url, { max: 1 });
  await sql`create database ${sql(name)}`;
  await sql.end();
  await asked(database.url, (noted) => noted`create extension pg_stat_statements`);
  return database;
}

/** What servers sent, each once, with the constants struck out. */
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

/** What servers sent to a database, and what it cost. */
export interface StatementCost {
  text: string;
  calls: number;
  /** Of 8 KB, that were read. */
  pages: number;
  /** That it answered with, or changed. */
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

/** Forgets what was sent to a database. */
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
