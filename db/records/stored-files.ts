// The files in the storage: noted before they are put there, and until they are removed.
import type { Sql } from '../client/pool.ts';

export interface StoredFile {
  companyId: string;
  testMode: boolean;
  id: string;
}

/** Milliseconds that a file may be in the storage before something refers to it; then the sweep takes it. */
const unclaimed = 3_600_000;

/** Notes a file that is about to be put into the storage. */
export async function announceFile(sql: Sql, file: StoredFile, now: Date): Promise<void> {
  await sql`
    insert into stored_files (company_id, test_mode, id, remove_after)
    values (${file.companyId}, ${file.testMode}, ${file.id}, ${new Date(now.getTime() + unclaimed)})`;
}

/** Files that nothing refers to, of everybody. */
export async function findFilesToRemove(sql: Sql, now: Date, limit: number): Promise<StoredFile[]> {
  return sql<StoredFile[]>`
    select company_id, test_mode, id
    from stored_files
    where remove_after < ${now}
    order by remove_after
    limit ${limit}`;
}

/** Forgets a file that was removed. */
export async function forgetFile(sql: Sql, file: StoredFile): Promise<void> {
  await sql`
    delete from stored_files
    where company_id = ${file.companyId} and test_mode = ${file.testMode} and id = ${file.id} and remove_after is not null`;
}

/** Has a file that could not be removed tried again later, behind the others. */
export async function postponeFile(sql: Sql, file: StoredFile, until: Date): Promise<void> {
  await sql`
    update stored_files
    set remove_after = ${until}
    where company_id = ${file.companyId} and test_mode = ${file.testMode} and id = ${file.id} and remove_after is not null`;
}
