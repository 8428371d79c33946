// What is asked of where files are kept. Keys are made of ids of ours.
import type { Readable } from 'node:stream';

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
