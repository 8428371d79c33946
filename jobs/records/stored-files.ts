// Removes files that nothing refers to, and what a crash left in the upload folder.
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pool } from '../../db/client/pool.ts';
import { findFilesToRemove, forgetFile, postponeFile } from '../../db/records/stored-files.ts';
import { storageKey } from '../../domain/records/file-names.ts';
import type { Log } from '../../runtime/telemetry/log.ts';

export interface SweptFiles {
  /** Removes a file from the storage; one that is not there is removed already. */
  remove: (key: string) => Promise<void>;
  /** The folder where uploads are while they arrive. */
  uploads: string;
}

/** Files of one sweep. */
const most = 500;
/** Milliseconds after which what failed is tried again. */
const pause = 10 * 60_000;
/** Milliseconds that no upload takes. */
const oldUpload = 3_600_000;

/** @returns how many were removed */
export async function sweepFiles(
  platform: Pool,
  remove: SweptFiles['remove'],
  log: Log,
  now = new Date(),
): Promise<number> {
  const files = await platform.use((sql) => findFilesToRemove(sql, now, most));
  let removed = 0;
  for (const file of files) {
    try {
      await remove(storageKey(file));
      await platform.use((sql) => forgetFile(sql, file));
      removed += 1;
    } catch (error) {
      log.warn(
        { err: { message: (error as Error).message } },
        'a file could not be removed; a later sweep tries again',
      );
      await platform.use((sql) => postponeFile(sql, file, new Date(now.getTime() + pause)));
    }
  }
  return removed;
}

/** Removes uploads that a process left behind when it ended. @returns how many */
export async function sweepUploads(folder: string, now = new Date()): Promise<number> {
  let removed = 0;
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const changed = await stat(path).catch(() => undefined);
    if (!changed || changed.mtimeMs > now.getTime() - oldUpload) continue;
    await rm(path, { force: true });
    removed += 1;
  }
  return removed;
}
