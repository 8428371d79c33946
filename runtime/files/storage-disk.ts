// Stores files in a local folder.
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import type { FileStorage } from './storage.ts';

export class DiskStorage implements FileStorage {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async keep(key: string, path: string): Promise<void> {
    const target = join(this.#folder, key);
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    await rename(path, target);
  }

  async remove(key: string): Promise<void> {
    await rm(join(this.#folder, key), { force: true });
  }

  async link(): Promise<undefined> {
    return undefined;
  }

  open(key: string, start: number): Promise<Readable | undefined> {
    return this.read(key, start);
  }

  async read(key: string, start: number): Promise<Readable | undefined> {
    try {
      const file = await open(join(this.#folder, key));
      return file.createReadStream({ start });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }
}
