// Opens the file storage: a local folder, or an S3-compatible service.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { S3Storage } from '../integrations/s3/storage.ts';
import type { Config } from '../runtime/config.ts';
import type { FileStorage } from '../runtime/files/storage.ts';
import { DiskStorage } from '../runtime/files/storage-disk.ts';

/** Returns the temporary folder for uploads in progress. */
export function uploadFolder(config: Config): string {
  return join(config.dataDir, 'uploads');
}

export function openStorage(config: Config): FileStorage {
  mkdirSync(uploadFolder(config), { recursive: true, mode: 0o700 });
  return config.storage ? new S3Storage(config.storage) : new DiskStorage(join(config.dataDir, 'attachments'));
}
