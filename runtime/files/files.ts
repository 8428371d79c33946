// Stores, links, serves and removes files: attachments and exports.
import type { KeyObject } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { v7 as uuidv7 } from 'uuid';
import { buildStorageKey } from '../../domain/records/file-names.ts';
import { isSameText, type Secrets, sign } from '../credentials/secrets.ts';
import { serviceUnavailable } from '../errors.ts';
import type { Upload } from '../http/multipart.ts';
import type { Log } from '../telemetry/log.ts';
import type { FileStorage } from './storage.ts';

/** Lifetime of an attachment's download link in seconds. */
export const linkLifetime = 600;

/** What has the file of a link: the segment of the link's path. */
export type FileOwner = 'attachments' | 'exports';

/** Identifies a file in the storage. */
export interface FilePlace {
  companyId: string;
  testMode: boolean;
  id: string;
}

/** The parameters of a download link, exactly as in the URL. The signature covers all of them. */
export interface Link {
  owner: FileOwner;
  /** The id of the attachment or the export. */
  id: string;
  companyId: string;
  /** live or test. */
  environment: string;
  /** Unix time in seconds. */
  expires: string;
}

/**
 * An uploaded file that is already in the storage. It is removed unless the call's transaction
 * records it.
 */
export interface UploadedFile extends FilePlace {
  /** Sanitized, safe to display and to save under. */
  name: string;
  /** False if the body is the file itself: its name is then that of the field in a form. */
  isNamed: boolean;
  contentType: string;
  bytes: number;
  /** In hexadecimal. */
  sha256: string;
}

/** A file to send as a response, or the rest of it from a byte on. */
export class FileBody {
  readonly name: string;
  /** Of the whole file. */
  readonly totalBytes: number;
  readonly stream: Readable;
  /** The first byte that is sent; undefined if ranges are not offered. */
  readonly start: number | undefined;

  constructor(name: string, totalBytes: number, stream: Readable, start?: number) {
    this.name = name;
    this.totalBytes = totalBytes;
    this.stream = stream;
    this.start = start;
  }

  /** The bytes of the sent file. */
  get bytes(): number {
    return this.totalBytes - (this.start ?? 0);
  }

  /** Returns a small file that was just written. */
  static ofText(name: string, text: string): FileBody {
    const bytes = Buffer.from(text);
    return new FileBody(name, bytes.length, Readable.from([bytes]));
  }
}

export interface FilesParts {
  storage: FileStorage;
  /** Temporary folder for uploads in progress. */
  folder: string;
  /**
   * Records a file before it is stored, so that the sweep can remove it if nothing refers to it.
   */
  announce: (place: FilePlace) => Promise<void>;
  secrets: Secrets;
  baseUrl: () => string;
  log: Log;
}

export class Files {
  readonly folder: string;
  readonly #parts: FilesParts;
  readonly #key: KeyObject;

  constructor(parts: FilesParts) {
    this.#parts = parts;
    this.folder = parts.folder;
    this.#key = parts.secrets.deriveKey('download links');
  }

  /**
   * Moves an upload into the storage.
   * @throws ApiError 503 if the storage fails
   */
  async store(caller: { companyId: string; testMode: boolean }, upload: Upload): Promise<UploadedFile> {
    const place = { companyId: caller.companyId, testMode: caller.testMode, id: uuidv7() };
    try {
      await this.#parts.announce(place);
    } catch (error) {
      await rm(upload.path, { force: true });
      throw error;
    }
    try {
      await this.#parts.storage.keep(buildStorageKey(place), upload.path, upload.sha256);
    } catch (error) {
      await rm(upload.path, { force: true });
      this.#parts.log.error({ err: { message: (error as Error).message } }, 'failed to store a file');
      throw serviceUnavailable();
    }
    const { name, isNamed, contentType, bytes, sha256 } = upload;
    return { ...place, name, isNamed, contentType, bytes, sha256 };
  }

  /**
   * Returns a link that downloads a file without a credential.
   * @param id of the attachment or the export, which the link contains
   * @param until when it expires; in ten minutes by default
   */
  async link(
    owner: FileOwner,
    id: string,
    file: FilePlace & { name: string },
    now: Date,
    until = new Date(now.getTime() + linkLifetime * 1000),
  ): Promise<string> {
    const own = await this.#parts.storage.link(
      buildStorageKey(file),
      file.name,
      Math.floor((until.getTime() - now.getTime()) / 1000),
    );
    if (own !== undefined) return own;
    const expires = String(Math.floor(until.getTime() / 1000));
    const { companyId, testMode } = file;
    const environment = testMode ? 'test' : 'live';
    const signature = this.#sign({ owner, id, companyId, environment, expires });
    const query = new URLSearchParams({ company_id: companyId, environment, exp: expires, sig: signature });
    return `${this.#parts.baseUrl()}/v1/${owner}/${id}/content?${query}`;
  }

  /** Returns true if this server signed the link and it has not expired. */
  isGood(link: Link, signature: string, now: Date): boolean {
    return isSameText(signature, this.#sign(link)) && Number(link.expires) * 1000 > now.getTime();
  }

  /**
   * Opens a file for sending; undefined if it does not exist.
   * @param start the first byte to send, if the response offers ranges
   */
  async open(file: FilePlace & { name: string; bytes: number }, start?: number): Promise<FileBody | undefined> {
    const stream = await this.#parts.storage.open(buildStorageKey(file), start ?? 0);
    return stream && new FileBody(file.name, file.bytes, stream, start);
  }

  /**
   * Returns the first bytes of files that are parts of one.
   * @throws ApiError 503 if a file cannot be read
   */
  async readHead(parts: readonly FilePlace[], most: number): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let size = 0;
    for (const part of parts) {
      const stream = await this.#parts.storage.read(buildStorageKey(part), 0);
      if (!stream) throw serviceUnavailable();
      for await (const chunk of stream) {
        chunks.push(Buffer.from(chunk));
        size += chunk.length;
        if (size >= most) break;
      }
      if (size >= most) break;
    }
    return Buffer.concat(chunks).subarray(0, most);
  }

  /** Opens a file for sending, also if the storage serves downloads itself. */
  async read(file: FilePlace & { name: string; bytes: number }): Promise<FileBody | undefined> {
    const stream = await this.#parts.storage.read(buildStorageKey(file), 0);
    return stream && new FileBody(file.name, file.bytes, Readable.from(stream));
  }

  /** Removes a file in the background. If that fails, the sweep retries. */
  remove(file: FilePlace): void {
    this.#parts.storage.remove(buildStorageKey(file)).catch((error: Error) => {
      this.#parts.log.warn({ err: { message: error.message } }, 'failed to remove a file; the sweep will retry');
    });
  }

  #sign({ owner, id, companyId, environment, expires }: Link): string {
    return sign(this.#key, JSON.stringify([owner, id, companyId, environment, expires]));
  }
}
