// Applies the numbered files of migrations/ that the database lacks, one transaction each.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import postgres from 'postgres';

/** Thrown when the database and the files do not fit together; the message says what to do. */
export class MigrationError extends Error {}

const folder = new URL('../migrations/', import.meta.url);

/**
 * Brings a database up to date.
 * @param url a user that may create tables and roles
 * @returns the names of the files applied
 */
export async function migrate(url: string): Promise<string[]> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined, connect_timeout: 5, fetch_types: false });
  const applied: string[] = [];
  try {
    // Two servers that start at once must not both migrate.
    await sql`select pg_advisory_lock(hashtext('headless-crm migrations'))`;
    await sql`create table if not exists migrations (name text primary key, digest text not null, applied_at timestamptz not null default now())`;
    const known = new Map(
      (await sql<{ name: string; digest: string }[]>`select name, digest from migrations`).map((row) => [
        row.name,
        row.digest,
      ]),
    );
    for (const name of readdirSync(folder)
      .filter((file) => file.endsWith('.sql'))
      .sort()) {
      const text = readFileSync(new URL(name, folder), 'utf8');
      const digest = createHash('sha256').update(text).digest('hex');
      if (known.has(name)) {
        if (known.get(name) !== digest)
          throw new MigrationError(
            `The migration ${name} was changed after it was applied. Restore the file, or start with an empty database.`,
          );
        known.delete(name);
        continue;
      }
      await sql.begin(async (transaction) => {
        await transaction.unsafe(text);
        await transaction`insert into migrations (name, digest) values (${name}, ${digest})`;
      });
      applied.push(name);
    }
    const [unknown] = known.keys();
    if (unknown)
      throw new MigrationError(
        `The database has the migration ${unknown}, which this version does not know. Start a newer version.`,
      );
    await sql`select make_audit_partitions(current_date)`;
    return applied;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
