// Files of callers: put into the storage, linked to for ten minutes, handed out, removed.
import type { KeyObject } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { v7 as uuidv7 } from 'uuid';
import { storageKey } from '../../domain/records/file-names.ts';
import { type Secrets, sameText, sign } from '../credentials/secrets.ts';
import { serviceUnavailable } from '../errors.ts';
import type { Upload } from '../http/multipart.ts';
import type { Log } from '../telemetry/log.ts';
import type { FileStorage } from './storage.ts';

/** Seconds for which a download link works. */
export const linkLifetime = 600;

/** A file in the storage. */
export interface FilePlace {
  companyId: string;
  testMode: boolean;
  id: string;
}

/** What a download link says, letter for letter; its signature is for all of it. */
export interface Link {
  /** What the file is asked for by: an attachment. */
  id: string;
  companyId: string;
  /** live or test. */
  environment: string;
  /** In seconds since 1970-01-01 UTC. */
  expires: string;
}

/** An uploaded file, in the storage already; unless it is kept by the call's transaction, it goes again. */
export interface UploadedFile extends FilePlace {
  /** Safe to show and to save under. */
  name: string;
  contentType: string;
  bytes: number;
  /** In hexadecimal. */
  sha256: string;
}

/** A file as an answer. */
export class FileBody {
  readonly name: string;
  readonly bytes: number;
  readonly stream: Readable;

  constructor(name: string, bytes: number, stream: Readable) {
    this.name = name;
    this.bytes = bytes;
    this.stream = stream;
  }
}

export interface FilesParts {
  storage: FileStorage;
  /** Where uploads are while they arrive. */
  folder: string;
  /** Notes a file before it is put into the storage, so that one that nothing refers to is found and removed. */
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

  /** Puts an upload into the storage. @throws ApiError 503 when the storage does not take it */
  async store(caller: { companyId: string; testMode: boolean }, upload: Upload): Promise<UploadedFile> {
    const place = { companyId: caller.companyId, testMode: caller.testMode, id: uuidv7() };
    try {
      await this.#parts.announce(place);
    } catch (error) {
      await rm(upload.path, { force: true });
      throw error;
    }
    try {
      await this.#parts.storage.keep(storageKey(place), upload.path, upload.sha256);
    } catch (error) {
      await rm(upload.path, { force: true });
      this.#parts.log.error({ err: { message: (error as Error).message } }, 'failed to store a file');
      throw serviceUnavailable();
    }
    const { name, contentType, bytes, sha256 } = upload;
    return { ...place, name, contentType, bytes, sha256 };
  }

  /** A link that saves a file without a credential, for ten minutes. @param id what the link names: an attachment */
  async link(id: string, file: FilePlace & { name: string }, now: Date): Promise<string> {
    const own = await this.#parts.storage.link(storageKey(file), file.name, linkLifetime);
    if (own !== undefined) return own;
    const expires = String(Math.floor(now.getTime() / 1000) + linkLifetime);
    const { companyId, testMode } = file;
    const environment = testMode ? 'test' : 'live';
    const signature = this.#sign({ id, companyId, environment, expires });
    const query = new URLSearchParams({ company_id: companyId, environment, exp: expires, sig: signature });
    return `${this.#parts.baseUrl()}/v1/attachments/${id}/content?${query}`;
  }

  /** True for a link that this server gave out, as long as it works. */
  isGood(link: Link, signature: string, now: Date): boolean {
    return sameText(signature, this.#sign(link)) && Number(link.expires) * 1000 > now.getTime();
  }

  /** A file to answer with; undefined when it is not there. */
  async open(file: FilePlace & { name: string; bytes: number }): Promise<FileBody | undefined> {
    const stream = await this.#parts.storage.open(storageKey(file));
    return stream && new FileBody(file.name, file.bytes, stream);
  }

  /** Removes a file; what fails is left to the sweep. Nothing waits for it. */
  remove(file: FilePlace): void {
    this.#parts.storage.remove(storageKey(file)).catch((error: Error) => {
      this.#parts.log.warn({ err: { message: error.message } }, 'failed to remove a file; the sweep will retry');
    });
  }

  #sign({ id, companyId, environment, expires }: Link): string {
    return sign(this.#key, JSON.stringify([id, companyId, environment, expires]));
  }
}
