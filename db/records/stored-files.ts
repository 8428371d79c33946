// The files in the storage. A row exists from before a file is stored until it is removed.
import type { Sql } from '../client/pool.ts';

export interface StoredFile {
  companyId: string;
  testMode: boolean;
  id: string;
}

/**
 * Milliseconds for which a file may be in the storage without a reference to it. Then the sweep
 * removes it.
 */
const unclaimed = 3_600_000;

/** Inserts the row of a file that will be stored. */
export async function announceFile(sql: Sql, file: StoredFile, now: Date): Promise<void> {
  await sql`
    insert into stored_files (company_id, test_mode, id, remove_after)
    values (${file.companyId}, ${file.testMode}, ${file.id}, ${new Date(now.getTime() + unclaimed)})`;
}

/** Finds files without references, of all companies. */
export async function findFilesToRemove(sql: Sql, now: Date, limit: number): Promise<StoredFile[]> {
  return sql<StoredFile[]>`
    select company_id, test_mode, id
    from stored_files
    where remove_after < ${now}
    order by remove_after
    limit ${limit}`;
}

/** Deletes the row of a file that was removed. */
export async function forgetFile(sql: Sql, file: StoredFile): Promise<void> {
  await sql`
    delete from stored_files
    where company_id = ${file.companyId} and test_mode = ${file.testMode} and id = ${file.id} and remove_after is not null`;
}

/** Postpones a file whose removal failed, behind the others. */
export async function postponeFile(sql: Sql, file: StoredFile, until: Date): Promise<void> {
  await sql`
    update stored_files
    set remove_after = ${until}
    where company_id = ${file.companyId} and test_mode = ${file.testMode} and id = ${file.id} and remove_after is not null`;
}
