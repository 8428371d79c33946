// Applies the numbered files of migrations/ that the database lacks, one transaction each.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import postgres from 'postgres';

/** Thrown when the database and the files do not fit together; the message says what to do. */
export class MigrationError extends Error {}

const folder = new URL('../migrations/', import.meta.url);

/**
 * The first migration of development versions. The baseline replaced all of these before the first
 * release.
 */
const firstBeforeBaseline = '0001-foundation.sql';

/**
 * Brings a database up to date.
 * @param url a user that may create tables and roles
 * @returns the names of the files applied
 * @throws MigrationError if the database has other migrations than the files
 */
export async function migrate(url: string): Promise<string[]> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined, connect_timeout: 5, fetch_types: false });
  const applied: string[] = [];
  try {
    // Two servers that start at the same time must not both migrate.
    await sql`select pg_advisory_lock(hashtext('headless-crm migrations'))`;
    await sql`create table if not exists migrations (name text primary key, digest text not null, applied_at timestamptz not null default now())`;
    const known = new Map(
      (await sql<{ name: string; digest: string }[]>`select name, digest from migrations`).map((row) => [
        row.name,
        row.digest,
      ]),
    );
    const files = readdirSync(folder)
      .filter((file) => file.endsWith('.sql'))
      .sort();
    rejectUnknown(known.keys(), files);
    for (const name of files) {
      const text = readFileSync(new URL(name, folder), 'utf8');
      const digest = createHash('sha256').update(text).digest('hex');
      if (known.has(name)) {
        if (known.get(name) !== digest)
          throw new MigrationError(
            `The migration ${name} was changed after it was applied. Restore the file, or start with an empty database.`,
          );
        continue;
      }
      await sql.begin(async (transaction) => {
        await transaction.unsafe(text);
        await transaction`insert into migrations (name, digest) values (${name}, ${digest})`;
      });
      applied.push(name);
    }
    await sql`select make_audit_partitions(current_date), make_request_partitions(current_date)`;
    return applied;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function rejectUnknown(applied: Iterable<string>, files: readonly string[]): void {
  const unknown = [...applied].filter((name) => !files.includes(name));
  if (unknown.includes(firstBeforeBaseline))
    throw new MigrationError(
      'This database was set up by a development version before the first release, which cannot be upgraded. Start with an empty database or an empty DATA_DIR. To keep the data, see docs/operations.md, "Data of a development version".',
    );
  if (unknown.length > 0)
    throw new MigrationError(
      `The database has the migration ${unknown[0]}, which this version does not contain. Start a newer version.`,
    );
}
