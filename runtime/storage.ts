// Where files are kept: a folder of this machine, or any store that speaks S3. Keys are made of ids of ours.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { Config } from './config.ts';
import { DiskStorage } from './storage-disk.ts';
import { S3Storage } from './storage-s3.ts';

export interface FileStorage {
  /** Moves a file of this machine into the storage. @param sha256 in hexadecimal */
  keep(key: string, path: string, sha256: string): Promise<void>;
  /** Removes a file; one that is not there is removed already. */
  remove(key: string): Promise<void>;
  /** A link of the storage's own to save a file under a name; undefined where this server hands files out. */
  link(key: string, name: string, seconds: number): Promise<string | undefined>;
  /** The bytes of a file; undefined when it is not there, or when the storage hands files out itself. */
  open(key: string): Promise<Readable | undefined>;
}

/** Where uploads are while they arrive. */
export function uploadFolder(config: Config): string {
  return join(config.dataDir, 'uploads');
}

export function openStorage(config: Config): FileStorage {
  mkdirSync(uploadFolder(config), { recursive: true, mode: 0o700 });
  return config.storage ? new S3Storage(config.storage) : new DiskStorage(join(config.dataDir, 'attachments'));
}
