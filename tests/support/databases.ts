// Databases besides the common one, copied from a template instantly and dropped after use.
import postgres, { type Sql } from 'postgres';
import { inject } from 'vitest';
import { jobNames } from '../../jobs/index.ts';
import { templateBeside } from './migrated-template.ts';

const made = new Set<string>();
let count = 0;

function buildUrl(name: string): string {
  const url = new URL(inject('databaseUrl'));
  url.pathname = `/${name}`;
  return url.href;
}

async function asOwner<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
  return inDatabase(inject('databaseUrl'), work);
}

/**
 * Returns settings of a server besides the common one, on the same database. Its background jobs
 * are paused: they would take up work of other test files with other settings, and hold it for a
 * minute if the server is killed. The common server does the work of both.
 */
export function besideCommon(): Record<'DATABASE_URL' | 'SECRET_KEY' | 'PAUSED_JOBS', string> {
  return {
    DATABASE_URL: inject('databaseUrl'),
    SECRET_KEY: inject('secretKey'),
    PAUSED_JOBS: jobNames.join(),
  };
}

/** Runs statements in a database as its owner, on one connection. */
export async function inDatabase<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/**
 * Creates a database with the schema.
 * @param template the address of an unused database, to copy its rows as well
 * @returns its address
 */
export function newDatabase(template = templateBeside(inject('databaseUrl'))): Promise<string> {
  return createCopy(new URL(template).pathname.slice(1));
}

/**
 * Creates a database without migrations.
 * @returns its address
 */
export function emptyDatabase(): Promise<string> {
  return createCopy('template0');
}

async function createCopy(template: string): Promise<string> {
  count += 1;
  const name = `test_${process.pid}_${count}`;
  await asOwner((sql) => sql`create database ${sql(name)} template ${sql(template)}`);
  made.add(name);
  return buildUrl(name);
}

export async function dropDatabase(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  await asOwner((sql) => sql`drop database if exists ${sql(name)} with (force)`);
  made.delete(name);
}

export async function dropAllDatabases(): Promise<void> {
  for (const name of made) await dropDatabase(buildUrl(name));
}
