// The interface of file storage. Keys consist of ids that this server generates.
import type { Readable } from 'node:stream';

export interface FileStorage {
  /**
   * Moves a local file into the storage.
   * @param sha256 in hexadecimal
   */
  keep(key: string, path: string, sha256: string): Promise<void>;
  /** Removes a file. Does nothing if it does not exist. */
  remove(key: string): Promise<void>;
  /**
   * Returns the storage's own download link for a file; undefined if this server must serve the
   * file.
   */
  link(key: string, name: string, seconds: number): Promise<string | undefined>;
  /**
   * Opens a file for reading from a byte on; undefined if it does not exist, or if the storage
   * serves downloads itself.
   */
  open(key: string, start: number): Promise<Readable | undefined>;
  /** Opens a file for work of this server, from a byte on; undefined if it does not exist. */
  read(key: string, start: number): Promise<AsyncIterable<Uint8Array> | undefined>;
}
