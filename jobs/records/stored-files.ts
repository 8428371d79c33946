// Deletes files that nothing refers to, and leftovers in the upload folder.
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { findFilesToRemove, forgetFile, postponeFile } from '../../db/records/stored-files.ts';
import { buildStorageKey } from '../../domain/records/file-names.ts';
import type { JobContext } from '../runner.ts';

export interface SweptFiles {
  /** Deletes a stored file. Succeeds if the file does not exist. */
  remove: (key: string) => Promise<void>;
  /** The folder of uploads in progress. */
  uploads: string;
}

/** Files per sweep. */
const filesAtOnce = 500;
/** Milliseconds after which a failed deletion is retried. */
const retryAfterMs = 10 * 60_000;
/** Milliseconds, longer than any upload takes. */
const abandonedAfterMs = 3_600_000;

/** @returns the number of deleted files */
export async function sweepFiles(
  { platform, log, now: clock }: Pick<JobContext, 'platform' | 'log' | 'now'>,
  remove: SweptFiles['remove'],
): Promise<number> {
  const now = clock();
  const files = await platform.use((sql) => findFilesToRemove(sql, now, filesAtOnce));
  let removed = 0;
  for (const file of files) {
    try {
      await remove(buildStorageKey(file));
      await platform.use((sql) => forgetFile(sql, file));
      removed += 1;
    } catch (error) {
      log.warn({ err: { message: (error as Error).message } }, 'failed to remove a file; the sweep will retry');
      await platform.use((sql) => postponeFile(sql, file, new Date(now.getTime() + retryAfterMs)));
    }
  }
  return removed;
}

/** Deletes uploads that an ended process left behind. @returns the number of files */
export async function sweepUploads(folder: string, now = new Date()): Promise<number> {
  let removed = 0;
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const changed = await stat(path).catch(() => undefined);
    if (!changed || changed.mtimeMs > now.getTime() - abandonedAfterMs) continue;
    await rm(path, { force: true });
    removed += 1;
  }
  return removed;
}
